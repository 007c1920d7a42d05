"""`write_stream` from a caller's own iterable: its code never runs on the loop, and is ended."""

import asyncio
import contextvars
import threading

import pytest

import bailiwick
from bailiwick.limits import Limits

HERE = contextvars.ContextVar("HERE", default="elsewhere")


class _Source:
    """A generator that says which threads ran it, and whether it was closed."""

    def __init__(self, *chunks, then=None):
        self.threads, self.contexts, self.closed = set(), set(), threading.Event()
        self._chunks, self._then = chunks, then

    def __iter__(self):
        try:
            for chunk in self._chunks:
                self._note()
                yield chunk
            if self._then is not None:
                raise self._then
        finally:
            self._note()
            self.closed.set()

    def _note(self):
        self.threads.add(threading.get_ident())
        self.contexts.add(HERE.get())


@pytest.mark.spec("WRITE-1", "LIFE-1")
async def test_a_plain_iterable_runs_in_one_thread_that_is_not_the_loops(opening):
    async with opening() as fs:
        HERE.set("the caller")
        source = _Source(*[b"x" * 1_000] * 10, b"y")
        result = await fs.write_stream("f", source)
        assert result.size == 10_001
        assert source.closed.is_set()
        assert len(source.threads) == 1
        assert threading.get_ident() not in source.threads
        assert source.contexts == {"the caller"}


@pytest.mark.spec("LIFE-1")
async def test_others_get_their_turn_while_an_iterable_blocks(opening):
    async with opening() as fs:
        go_on = threading.Event()

        def waits():
            yield b"a"
            assert go_on.wait(120)
            yield b"b"

        writing = asyncio.create_task(fs.write_stream("f", waits()))
        await fs.write_bytes("other", b"x")
        go_on.set()
        assert (await writing).size == 2


@pytest.mark.spec("WRITE-1")
async def test_many_small_chunks_are_joined(opening, monkeypatch):
    async with opening() as fs:
        hops, run = [], asyncio.BaseEventLoop.run_in_executor

        def counted(loop, executor, *args):
            hops.append(args)
            return run(loop, executor, *args)

        monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", counted)
        result = await fs.write_stream("f", (b"x" for _ in range(20_000)))
        assert result.size == 20_000
        assert len(hops) < 2_000


@pytest.mark.spec("WRITE-3", "ERR-5")
async def test_a_failing_iterable_fails_the_write_with_its_own_error(opening):
    async with opening() as fs:
        for error in (LookupError("mine"), bailiwick.PathNotFound("mine"), OSError(5, "mine")):
            with pytest.raises(bailiwick.BailiwickError) as failed:
                await fs.write_stream("f", _Source(b"a", then=error))
            assert error in (failed.value, failed.value.__cause__)
        assert not await fs.exists("f")


class _NoIterator:
    def __iter__(self):
        raise StopIteration


@pytest.mark.spec("WRITE-1")
async def test_an_iterable_that_has_no_iterator_is_an_error_and_no_hang(opening):
    async with opening() as fs:
        with pytest.raises(bailiwick.BailiwickError):
            await fs.write_stream("f", _NoIterator())


@pytest.mark.spec("WRITE-3", "LIFE-2")
async def test_a_generator_is_closed_when_the_write_fails(opening):
    async with opening(limits=Limits(max_file_bytes=10, stream_chunk_bytes=4)) as fs:
        source = _Source(*[b"abcd"] * 50)
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.write_stream("f", source)
        assert source.closed.is_set()
        assert threading.get_ident() not in source.threads
        wrong = _Source(b"a", "text", b"b")
        with pytest.raises(bailiwick.ParseError):
            await fs.write_stream("f", wrong)
        assert wrong.closed.is_set()


@pytest.mark.spec("WRITE-3", "LIFE-2")
async def test_an_asynchronous_generator_is_closed_when_the_write_fails(opening):
    closed = []

    async def chunks():
        try:
            while True:
                yield b"abcd"
        finally:
            closed.append(True)

    async with opening(limits=Limits(max_file_bytes=10)) as fs:
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.write_stream("f", chunks())
        assert closed == [True]


@pytest.mark.spec("LIFE-1")
async def test_a_cancelled_write_does_not_wait_for_a_chunk_that_never_comes(opening):
    async with opening() as fs:
        begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

        def waits():
            try:
                begun.set()
                go_on.wait(120)
                yield b"late"
                yield b"never asked for"
                raise AssertionError
            finally:
                closed.set()

        writing = asyncio.create_task(fs.write_stream("f", waits()))
        while not begun.is_set():
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert not closed.is_set()
        go_on.set()
        assert await asyncio.to_thread(closed.wait, 10)
        assert not await fs.exists("f")


@pytest.mark.spec("LIFE-2")
async def test_an_endless_iterable_of_nothing_can_be_cancelled(opening):
    async with opening() as fs:
        begun = threading.Event()

        def endless():
            while True:
                begun.set()
                yield b""

        writing = asyncio.create_task(fs.write_stream("f", endless()))
        while not begun.is_set():
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
