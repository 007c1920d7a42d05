"""Cancelling and closing: nothing happens, or all of it, and nothing is left behind."""

import asyncio
import os

import pytest

import bailiwick
from bailiwick.model import Limits
from tests.scope import support
from tests.scope.every_verb import VERBS, plant_tree
from tests.scope.support import place_of, plant, records, snapshot

opening, either = support.opening, support.either


def _raw_names(fs):
    """Every name on the disk beneath a scope, staging names included."""
    return sorted(
        os.path.relpath(os.path.join(top, name), place_of(fs))
        for top, directories, files in os.walk(place_of(fs))
        for name in (*directories, *files)
    )


@pytest.mark.spec("LIFE-1")
@pytest.mark.parametrize("name", VERBS)
async def test_a_call_cancelled_before_it_starts_does_nothing(either, name):
    async with either() as fs:
        await plant_tree(fs)
        before, count = await snapshot(fs), len(records(fs))
        task = asyncio.ensure_future(VERBS[name].call(fs))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(records(fs)) == count
        assert await snapshot(fs) == before


@pytest.mark.spec("LIFE-1", "WRITE-3", "AUDIT-1")
@pytest.mark.parametrize("path", ["old", "new", "deep/er/new"])
async def test_a_cancelled_upload_leaves_nothing(opening, path):
    async with opening() as fs:
        await fs.write_bytes("old", b"old")
        reached = asyncio.Event()

        async def endless():
            yield b"x" * 300_000
            reached.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(fs.write_stream(path, endless(), parents=True))
        await reached.wait()
        count = len(records(fs))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (record,) = records(fs)[count:]
        assert (record.outcome, record.error_kind, record.path) == ("failed", "cancelled", path)
        assert await snapshot(fs) == {"old": b"old"}
        if opening.on_disk:
            assert _raw_names(fs) == ["old"]


@pytest.mark.spec("LIFE-1", "WRITE-3")
@pytest.mark.parametrize("steps", range(8))
async def test_a_write_cancelled_at_any_step_is_whole_or_not_there(opening, steps):
    old, new = b"o" * 400_000, b"n" * 400_000
    async with opening() as fs:
        await fs.write_bytes("f", old)
        sha256 = (await fs.read_bytes("f")).sha256
        task = asyncio.create_task(fs.write_bytes("f", new, expected_sha256=sha256))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        outcome = await asyncio.gather(task, return_exceptions=True)
        data = (await fs.read_bytes("f")).data
        assert data == new or (data == old and isinstance(outcome[0], asyncio.CancelledError))
        if opening.on_disk:
            assert _raw_names(fs) == ["f"]


@pytest.mark.spec("LIFE-1")
@pytest.mark.parametrize("call", ["find", "grep", "remove", "copy", "copy_from"])
async def test_a_long_walk_can_be_cancelled(opening, call):
    async with opening() as fs, opening() as other:
        for number in range(40):
            await fs.write_bytes(f"d/{number % 7}/{number}", b"x" * 100, parents=True)
        calls = {
            "find": lambda: fs.find(), "grep": lambda: fs.grep("x"),
            "remove": lambda: fs.remove("d", recursive=True),
            "copy": lambda: fs.copy("d", "e", recursive=True),
            "copy_from": lambda: other.copy_from(fs, "d", "e", recursive=True),
        }  # fmt: skip
        before = await snapshot(fs)
        task = asyncio.create_task(calls[call]())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        after, there = await snapshot(fs), await snapshot(other)
        if call == "remove":
            assert after == {} or after.items() <= before.items()
        elif call == "copy":
            assert len(after) in (len(before), 2 * len(before))
        else:
            assert after == before
        assert len(there) in (0, len(before))
        if opening.on_disk:
            assert len(_raw_names(fs)) == len(after)
            assert len(_raw_names(other)) == len(there)


@pytest.mark.spec("LIFE-2")
@pytest.mark.parametrize("name", VERBS)
async def test_a_verb_called_after_closing_is_closed(either, name):
    async with either() as fs:
        await plant_tree(fs)
        derived = fs.with_request("mine")
        await fs.aclose()
        for scope in (fs, derived):
            count = len(records(fs))
            with pytest.raises(bailiwick.Closed):
                await VERBS[name].call(scope)
            assert [record.error_kind for record in records(fs)[count:]] == ["closed"]
        await fs.aclose()


@pytest.mark.spec("LIFE-2")
async def test_closing_waits_for_work_under_way(opening):
    async with opening() as fs, opening() as other:
        await plant(other, {f"d/{number}": "x" * 1000 for number in range(20)})
        writing = [asyncio.create_task(fs.write_bytes(f"f{n}", b"x" * 300_000)) for n in range(5)]
        copying = asyncio.create_task(fs.copy_from(other, "d", "copied", recursive=True))
        await asyncio.sleep(0)
        await fs.aclose()
        results = await asyncio.gather(*writing, copying, return_exceptions=True)
        assert [getattr(result, "kind", "done") for result in results] == ["done"] * 6
        if opening.on_disk:
            assert len(_raw_names(fs)) == 5 + 21


@pytest.mark.spec("LIFE-2")
async def test_closing_ends_streams_with_a_clear_error(opening):
    async with opening(limits=Limits(stream_chunk_bytes=10)) as fs:
        await fs.write_bytes("f", b"x" * 100)
        chunks, unread = fs.stream("f"), fs.stream("f")
        await anext(chunks)
        go_on = asyncio.Event()

        async def slow():
            yield b"x"
            await go_on.wait()
            yield b"y"

        upload = asyncio.create_task(fs.write_stream("upload", slow()))
        for _ in range(20):
            await asyncio.sleep(0.001)
        closing = asyncio.create_task(fs.aclose())
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(bailiwick.Closed):
            await upload
        await closing
        for stream in (chunks, unread):
            with pytest.raises(bailiwick.Closed):
                [chunk async for chunk in stream]
        if opening.on_disk:
            assert _raw_names(fs) == ["f"]


@pytest.mark.spec("LIFE-2")
async def test_a_stream_left_open_leaks_nothing(opening):
    """The harness counts descriptors, threads and tasks after the test."""
    async with opening(limits=Limits(stream_chunk_bytes=10)) as fs:
        await fs.write_bytes("f", b"x" * 100)
        chunks = fs.stream("f")
        await anext(chunks)
        await chunks.aclose()
        unread = fs.stream("f")
        await unread.aclose()


@pytest.mark.spec("LIFE-2")
async def test_refusals_leak_nothing(opening):
    async with opening() as fs:
        await plant_tree(fs)
        for call in (
            fs.read_text("dir"), fs.write_text("dir", ""), fs.copy("file.txt", "dir"),
            fs.move("file.txt", "dir"), fs.list("file.txt"), fs.diff("file.txt", "dir"),
            fs.edit("file.txt", old="missing", new=""), fs.readlink("file.txt"),
            fs.remove("dir"), fs.grep("(", "dir"), fs.glob("../x"), fs.make_dir("dir"),
        ):  # fmt: skip
            with pytest.raises(bailiwick.BailiwickError):
                await call
