"""A coroutine that is closed instead of awaited to its end: `close()`, or a loop that has gone.

It is closed at every one of its suspension points in turn. Nothing may be at work when `close`
returns: whatever the coroutine held is let go of then, and a thread would act on what has the same
numbers next.
"""

import asyncio
import contextlib
import gc
import hashlib
import io
import os
import sqlite3
import tarfile
import tempfile
import threading
import types
from pathlib import Path

import pytest

import bailiwick
from bailiwick.finishing import closable, in_thread
from bailiwick.sqlite.writer import Frame, WriterThread
from bailiwick.stores.disk.workers import NameTurns, Workers
from tests.waiting import PATIENCE_S, for_ever, give_a_chance, loop_turns, until

OLD, NEW = b"old " * 100_000, b"new " * 100_000
OLD_SHA256 = hashlib.sha256(OLD).hexdigest()


async def _pieces():
    """New content as it comes from a source that has to be waited for."""
    for at in range(0, len(NEW), 150_000):
        await asyncio.sleep(0)
        yield NEW[at : at + 150_000]


def _archive():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for number in range(3):
            entry = tarfile.TarInfo(f"a/{number}")
            entry.size = 100_000
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    return made.getvalue()


VERBS = {
    "write": lambda fs: fs.write_bytes("f", NEW),
    "replace": lambda fs: fs.write_bytes("f", NEW, mode="replace", expected_sha256=OLD_SHA256),
    "write_stream": lambda fs: fs.write_stream("f", _pieces()),
    "write_stream of a file": lambda fs: fs.write_stream("f", io.BytesIO(NEW)),
    "append": lambda fs: fs.append("f", b"more"),
    "truncate": lambda fs: fs.truncate("f", 4),
    "edit": lambda fs: fs.edit("t", old="old", new="new"),
    "copy": lambda fs: fs.copy("f", "g"),
    "copy a tree": lambda fs: fs.copy("d", "e", recursive=True),
    "move": lambda fs: fs.move("d", "e"),
    "remove": lambda fs: fs.remove("d", recursive=True),
    "make_dir": lambda fs: fs.make_dir("a/b/c", parents=True),
    "symlink": lambda fs: fs.symlink("s", "f"),
    "extract": lambda fs: fs.extract_archive("a.tar", "x"),
    "read": lambda fs: fs.read_bytes("f"),
}

IN_GENERATORS = (
    "write", "replace", "write_stream", "write_stream of a file", "append", "truncate", "extract",
)  # fmt: skip
"""Verbs that wait inside of asynchronous generators, in one store or another."""

FEW = (
    ("append", "disk", "closed"), ("append", "volume", "cancelled"), ("move", "history", "closed"),
)  # fmt: skip
"""What `make unit` tries: a verb that waits in generators, and one of names; every kind of place,
and both ways to stop."""

CASES = [
    pytest.param(verb, kind, how, marks=[] if (verb, kind, how) in FEW else [pytest.mark.slow])
    for verb in VERBS
    for kind in ("disk", "history", "volume")
    for how in ("closed", "cancelled")
    if how == "closed" or verb in IN_GENERATORS
]


async def _closed_after(coroutine, steps):
    """Step a coroutine so often, waiting for what it waits for, and close it where it then waits.
    Whether it had ended before."""
    for left in range(steps, -1, -1):
        try:
            waited_for = coroutine.send(None)
        except StopIteration:
            return True
        if not left:
            break
        if waited_for is None:
            await asyncio.sleep(0)
        else:
            waited_for._asyncio_future_blocking = False
            await asyncio.wait((waited_for,))
    coroutine.close()
    return False


async def _cancelled_after(coroutine, steps):
    """The same, but what waits there is cancelled, and awaited."""
    waits = 0

    @types.coroutine
    def counted():
        nonlocal waits
        given = thrown = None
        while True:
            try:
                waited_for = coroutine.send(given) if thrown is None else coroutine.throw(thrown)
            except StopIteration:
                return
            if waits == steps:
                task.cancel()
            waits += 1
            try:
                given, thrown = (yield waited_for), None
            except asyncio.CancelledError as error:
                thrown = error

    async def awaited():
        await counted()

    task = asyncio.ensure_future(awaited())
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return waits <= steps


STOPPED = {"closed": _closed_after, "cancelled": _cancelled_after}


async def _planted(fs):
    await fs.write_bytes("f", OLD)
    await fs.write_text("t", "an old text\n")
    for number in range(3):
        await fs.write_text(f"d/{number}", "inner", parents=True)
    await fs.write_bytes("a.tar", _archive())


async def _content(fs):
    """All that is there, as the scope shows it."""
    found = {}
    for entry in (await fs.find(include_ignored=True)).matches:
        data = (await fs.read_bytes(entry.path)).data if entry.type == "file" else b""
        found[entry.path] = entry.type, hashlib.sha256(data).hexdigest()
    return found


def _place(kind, directory):
    directory.mkdir(parents=True)
    if kind == "volume":
        return f"sqlite:{directory}/v.db", {}
    (directory / "tree").mkdir()
    history = "on" if kind == "history" else "off"
    return str(directory / "tree"), {"state_dir": str(directory / "state"), "history": history}


def _descriptors():
    return set(os.listdir("/proc/self/fd"))


def _open_entries(directory):
    """Changes that were begun, and of which the history does not know what became."""
    found = []
    for file in directory.glob("state/history/*/history.db"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            found += connection.execute("SELECT verb FROM entry WHERE owner <> ''").fetchall()
    return found


def _names(directory):
    """All names there are, those of stages too."""
    top = directory / "tree"
    return {str(each.relative_to(top)) for each in top.rglob("*")}


@pytest.fixture
def in_memory(tmp_path):
    """Where a flush costs nothing: there are hundreds, and none of them is what is looked at."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.spec("LINE-5", "LIFE-2")
@pytest.mark.parametrize(("verb", "kind", "how"), CASES)
async def test_nothing_goes_on_when_a_coroutine_is_stopped(in_memory, verb, kind, how):
    decoy = in_memory / "decoy"
    decoy.mkdir()
    before = await _before_and_after(in_memory / "whole", kind, verb)
    descriptors = _descriptors()
    ended, steps = False, 0
    while not ended:
        directory = in_memory / str(steps)
        place, options = _place(kind, directory)
        with contextlib.ExitStack() as decoys:
            async with bailiwick.open(place, **options) as fs:
                await _planted(fs)
                ended = await STOPPED[how](VERBS[verb](fs), steps)
                gc.collect()
                for _ in range(30):  # these get the numbers that were let go of
                    fd = os.open(decoy, os.O_RDONLY)
                    decoys.callback(os.close, fd)
                left = await _content(fs)
                same = (await fs.read_bytes("f")).data
                await asyncio.wait_for(fs.write_bytes("f", same), PATIENCE_S)
            assert not _open_entries(directory), f"not settled after step {steps}"
            async with bailiwick.open(place, **options) as fs:
                assert await _content(fs) == left, f"something went on after step {steps}"
        assert not os.listdir(decoy)
        if kind != "volume":
            assert _names(directory) == set(left), f"something was left after step {steps}"
        assert _descriptors() == descriptors, f"descriptors were left after step {steps}"
        if verb not in ("copy a tree", "remove"):  # which are done file by file
            assert left in before, f"neither old nor new after step {steps}"
        steps += 1


@pytest.mark.spec("LINE-5", "OVER-1")
@pytest.mark.parametrize("verb", ["move", "remove", "copy a tree", "append", "discard"])
async def test_nothing_comes_about_later_in_an_overlay(in_memory, verb, caplog):
    begin = VERBS.get(verb, lambda fs: fs.discard())
    ended, steps = False, 0
    while not ended:
        place, options = _place("disk", in_memory / str(steps))
        async with bailiwick.open(f"overlay:{place}", state_dir=options["state_dir"]) as fs:
            await _planted(fs)
            ended = await _closed_after(begin(fs), steps)
            left = await _content(fs)
            await give_a_chance(0.01)
            assert await _content(fs) == left, f"something went on after step {steps}"
            if left and not ended:
                await asyncio.wait_for(begin(fs), PATIENCE_S)
        steps += 1
    assert steps > 1
    gc.collect()
    assert not caplog.records


async def _before_and_after(directory, kind, verb):
    place, options = _place(kind, directory)
    async with bailiwick.open(place, **options) as fs:
        await _planted(fs)
        before = await _content(fs)
        await VERBS[verb](fs)
        return [before, await _content(fs)]


class _Job:
    """Work for a thread, which ends when it is told to."""

    def __init__(self):
        self.begun, self.may_end, self.ended = threading.Event(), threading.Event(), False

    def __call__(self, *_):
        self.begun.set()
        self.may_end.wait(30)
        self.ended = True


@pytest.mark.spec("LINE-5")
@pytest.mark.parametrize("whose", ["disk", "writer"])
async def test_closing_waits_for_the_thread(tmp_path, whose):
    import apsw

    job = _Job()
    connection = apsw.Connection(":memory:")
    writer = WriterThread(connection, whose="test", frame=Frame())
    workers = Workers(None)
    coroutine = workers.run(job) if whose == "disk" else writer.run(job)
    while (waited_for := coroutine.send(None)) is None:
        await asyncio.sleep(0)
    waited_for._asyncio_future_blocking = False
    job.begun.wait(30)
    threading.Timer(0.05, job.may_end.set).start()
    coroutine.close()
    assert job.ended
    await workers.aclose()
    writer.close()
    connection.close()


@pytest.mark.spec("LINE-5")
@pytest.mark.parametrize("where", ["a pool", "the disk"])
async def test_nobody_complains_of_what_failed_when_it_was_closed(caplog, where):
    begun, may_end = threading.Event(), threading.Event()

    def fail(*_):
        begun.set()
        may_end.wait(PATIENCE_S)
        raise ValueError

    workers = Workers(None)
    coroutine = in_thread(fail) if where == "a pool" else workers.run(fail)
    coroutine.send(None)._asyncio_future_blocking = False
    begun.wait(PATIENCE_S)
    threading.Timer(0.05, may_end.set).start()
    coroutine.close()
    del coroutine
    await workers.aclose()
    await loop_turns(5)
    gc.collect()
    assert not caplog.records


@pytest.mark.spec("LINE-5")
async def test_who_is_closed_while_waiting_for_a_turn_is_passed_over():
    turns = NameTurns(PATIENCE_S)
    await turns.take("f")
    closed, next_in_line = turns.take("f"), asyncio.ensure_future(turns.take("f"))
    closed.send(None)._asyncio_future_blocking = False
    await loop_turns(2)
    closed.close()
    turns.give_back("f")
    await asyncio.wait_for(next_in_line, PATIENCE_S)
    turns.give_back("f")
    assert not turns.taken


@pytest.mark.spec("LINE-5")
async def test_who_is_closed_just_when_the_turn_came_gives_it_on():
    turns = NameTurns(PATIENCE_S)
    await turns.take("f")
    closed = turns.take("f")
    closed.send(None)._asyncio_future_blocking = False
    turns.give_back("f")
    closed.close()
    assert not turns.taken


class _Reader:
    """Work that waits inside of two asynchronous generators, and waits again to clean up."""

    def __init__(self):
        self.told = []
        self.cleaned = asyncio.Event()

    async def _inner(self):
        try:
            await for_ever()
            yield 1
        finally:
            self.told.append("inner")

    async def _outer(self):
        async with contextlib.aclosing(self._inner()) as values:
            async for value in values:
                yield value

    async def read(self):
        try:
            async with contextlib.aclosing(self._outer()) as values:
                async for _ in values:
                    pass
        finally:
            self.told.append("outer")
            await self.cleaned.wait()
            self.told.append("clean")


@pytest.mark.spec("LINE-5")
async def test_what_is_closed_is_unwound_and_goes_on_cleaning_up():
    reader = _Reader()
    coroutine = closable(reader.read())
    coroutine.send(None)._asyncio_future_blocking = False
    coroutine.close()
    assert reader.told == ["inner", "outer"]
    reader.cleaned.set()
    await until(lambda: reader.told == ["inner", "outer", "clean"])


@pytest.mark.spec("LINE-5")
def test_what_is_closed_when_its_loop_has_gone_is_unwound():
    async def begun():
        reader = _Reader()
        coroutine = closable(reader.read())
        coroutine.send(None)
        return reader, coroutine

    loop = asyncio.new_event_loop()
    reader, coroutine = loop.run_until_complete(begun())
    loop.close()
    coroutine.close()
    assert reader.told == ["inner", "outer"]


@pytest.mark.spec("LINE-5", "LIFE-2")
@pytest.mark.parametrize("kind", ["disk", "history", "volume", "memory"])
@pytest.mark.parametrize("waits", range(5))
async def test_a_scope_whose_closing_is_left_can_be_closed(tmp_path, kind, waits):
    """No thread is left of it, nor a descriptor: the suite looks for those."""
    (tmp_path / "root").mkdir()
    place, options = {
        "disk": (str(tmp_path / "root"), {}),
        "history": (str(tmp_path / "root"), {"history": "on", "state_dir": str(tmp_path / "s")}),
        "volume": (f"sqlite:{tmp_path / 'v.db'}", {}),
        "memory": ("memory:", {}),
    }[kind]
    async with bailiwick.open(place, **options) as fs:
        await fs.write_text("x", "1")
        writing = asyncio.ensure_future(fs.write_bytes("f", NEW))
        await asyncio.sleep(0)
        closing = fs.aclose()
        with contextlib.suppress(StopIteration):
            waited_for = closing.send(None)
            for _ in range(waits):
                while waited_for is not None and not waited_for.done():
                    await asyncio.sleep(0)
                waited_for = closing.send(None)
            closing.close()
        await fs.aclose()
        await asyncio.wait([writing])
        with pytest.raises(bailiwick.Closed):
            await fs.read_text("x")
