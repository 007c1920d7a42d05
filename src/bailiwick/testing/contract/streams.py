"""Streams that are written: nothing shows before the end, nothing stays after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine

from bailiwick.errors import (
    Busy,
    FileAlreadyExists,
    HashMismatch,
    IsADirectory,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.paths import ScopedPath
from bailiwick.store import Store, WritePlan
from bailiwick.testing.contract import chunks
from bailiwick.testing.contract.case import CaseRoom, names, refuses, tree
from bailiwick.testing.contract.chunks import Gate, sha256_of
from bailiwick.testing.driver import Driver

ROOM = CaseRoom()


class Unplugged(Exception):
    """What a source of chunks may raise: none of Bailiwick's own errors."""


@ROOM.case("a stream of no chunks makes an empty file", rules=("WRITE-1",))
async def _(fs: Driver) -> None:
    written = await fs.write_stream("f", chunks.of())
    assert (written.created, written.size, written.sha256) == (True, 0, sha256_of(b""))
    await fs.write_stream("g", chunks.of(b"", b"a", b"", b"b"))
    assert await tree(fs) == {"f": b"", "g": b"ab"}


@ROOM.case("a stream keeps the modes and preconditions of a write", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    with refuses(PathNotFound):
        await fs.write_stream("f", chunks.of(b"x"), mode="replace", expected_sha256="0" * 64)
    first = await fs.write_stream("f", chunks.of(b"o", b"ld"), mode="create", file_mode=0o640)
    assert (first.created, first.file_mode, first.size) == (True, 0o640, 3)
    with refuses(HashMismatch):
        await fs.write_stream("f", chunks.of(b"x"), expected_sha256="0" * 64)
    with refuses(HashMismatch):
        await fs.write_stream("f", chunks.of(b"x"), expected_version="none")
    again = await fs.write_stream(
        "f", chunks.of(b"new"), expected_sha256=sha256_of(b"old"), expected_version=first.version
    )
    assert not again.created
    assert await fs.read("f") == b"new"


@ROOM.case("a stream that cannot be published is refused unread", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"old")
    await fs.make_dir("d")
    unread = chunks.failing(AssertionError("a chunk was read"))
    with refuses(HashMismatch):
        await fs.write_stream("f", unread, expected_sha256="0" * 64)
    with refuses(FileAlreadyExists):
        await fs.write_stream("f", unread, mode="create")
    with refuses(PathNotFound):
        await fs.write_stream("new", unread, mode="replace", expected_version="1")
    with refuses(IsADirectory):
        await fs.write_stream("d", unread)
    with refuses(PathNotFound):
        await fs.write_stream("nothing/f", unread)


@ROOM.case("nothing of a stream shows before its end", rules=("WRITE-3", "WRITE-4"))
async def _(fs: Driver) -> None:
    await fs.write("old", b"old")
    gates = {"old": Gate(), "new": Gate(), "a/b/deep": Gate()}
    writers = [await _begin(gate, _write(fs, path, gate)) for path, gate in gates.items()]
    assert await tree(fs) == {"old": b"old"}
    for gate in gates.values():
        gate.opened.set()
    await asyncio.gather(*writers)
    whole = gates["old"].whole
    assert await tree(fs) == {
        "old": whole, "new": whole, "a": None, "a/b": None, "a/b/deep": whole
    }  # fmt: skip


async def _write(fs: Driver, path: str, gate: Gate) -> None:
    await fs.write_stream(path, gate.chunks(), parents=True)


async def _begin(gate: Gate, writing: Awaitable[object]) -> asyncio.Future[object]:
    """Start a writer, and wait until it stands at its gate."""
    writer = asyncio.ensure_future(writing)
    await gate.wait_for(writer)
    return writer


@ROOM.case("a stream that fails leaves nothing", rules=("WRITE-3", "WRITE-4"))
async def _(fs: Driver) -> None:
    await fs.write("old", b"old", file_mode=0o640)
    before = await fs.stat("old")
    for path in ("old", "new", "a/b/deep"):
        unplugged = Unplugged()
        raised = await _error_of(
            fs.write_stream(path, chunks.failing(unplugged, b"half"), parents=True)
        )
        # A store raises it on as it is; a scope may say in its own words what it was.
        assert unplugged in (raised, getattr(raised, "__cause__", None))
    assert await tree(fs) == {"old": b"old"}
    assert await fs.stat("old") == before


async def _error_of(call: Awaitable[object]) -> Exception | None:
    try:
        await call
    except Exception as error:
        return error
    return None


@ROOM.handle_case("the exception of a stream's source is raised on", rules=("WRITE-3",))
async def _(store: Store) -> None:
    unplugged = Unplugged()
    entry = await store.resolve(ScopedPath("f"), "entry")
    raised = await _error_of(
        store.write_stream(entry, chunks.failing(unplugged, b"half"), WritePlan())
    )
    assert raised is unplugged
    entry.close()


@ROOM.case("a stream that is cancelled leaves nothing", rules=("LIFE-1", "WRITE-3", "WRITE-4"))
async def _(fs: Driver) -> None:
    await fs.write("old", b"old")
    for path in ("old", "new", "a/b/deep"):
        gate = Gate()
        writer = await _begin(gate, _write(fs, path, gate))
        writer.cancel()
        assert await _was_cancelled(writer)
    assert await tree(fs) == {"old": b"old"}
    await fs.write("new", b"the name is free")


async def _was_cancelled(task: asyncio.Future[object]) -> bool:
    await asyncio.wait([task])
    return task.cancelled()


@ROOM.case("a call that is cancelled before it starts does nothing", rules=("LIFE-1",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    calls = [fs.write("new", b"x"), fs.remove("f"), fs.append("f", b"y"), fs.make_dir("d")]
    for call in calls:
        task = asyncio.ensure_future(call)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    assert await tree(fs) == {"f": b"x"}


@ROOM.case("a call that is cancelled under way is whole or not at all", rules=("LIFE-1",))
async def _(fs: Driver) -> None:
    old, new = b"old" * 1_000_000, b"new" * 1_000_000
    await fs.write("f", old)
    await fs.make_dir("d")
    for number in range(30):
        await fs.write(f"d/{number}", b"x" * 10_000)
    whole = len(await tree(fs, "d"))
    for ticks in range(12):
        before = await fs.read("f")
        await _cancel_after(ticks, fs.write("f", new))
        assert await fs.read("f") in (before, new), ticks
        before = await fs.read("f")
        await _cancel_after(ticks, fs.append("f", b"!"))
        assert await fs.read("f") in (before, before + b"!"), ticks
        await _cancel_after(ticks, fs.copy("d", "e", recursive=True))
        if "e" in await names(fs):
            assert len(await tree(fs, "e")) == whole, ticks
            await fs.remove("e", recursive=True)
        await _cancel_after(ticks, fs.move("d", "moved"))
        if "moved" in await names(fs):
            await fs.move("moved", "d")
        assert len(await tree(fs, "d")) == whole, ticks
    assert await names(fs) == ["d", "f"]


async def _cancel_after(ticks: int, call: Awaitable[object]) -> bool:
    """Cancel a call after the loop has turned so many times, and wait for its end: whether the call
    came to it, and did not end by being cancelled."""
    ended = False

    async def to_its_end() -> None:
        nonlocal ended
        await call
        ended = True  # a task that was cancelled too late for its call counts as cancelled still

    task = asyncio.ensure_future(to_its_end())
    for _ in range(ticks):
        await asyncio.sleep(0.0005)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None
    if isinstance(call, Coroutine):
        call.close()  # one that was cancelled before it began
    return ended


@ROOM.handle_case("what ends by being cancelled has changed nothing", rules=("LIFE-1",))
async def _(store: Store) -> None:
    held = await store.resolve(ScopedPath("f"), "entry")
    await store.write(held, b"", sha256_of(b""), WritePlan())
    size = 0
    for ticks in range(24):
        if await _cancel_after(ticks % 8, store.append(held, b"!", WritePlan())):
            size += 1
        assert (await store.stat(held)).size == size, ticks
    held.close()


@ROOM.case("preconditions are checked again when a stream is published", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    written = await fs.write("f", b"old")
    gates = [Gate(), Gate(), Gate()]
    writers = [
        fs.write_stream("f", gates[0].chunks(), expected_sha256=sha256_of(b"old")),
        fs.write_stream("f", gates[1].chunks(), expected_version=written.version),
        fs.write_stream("new", gates[2].chunks(), mode="create"),
    ]
    tasks = [await _begin(*pair) for pair in zip(gates, writers, strict=True)]
    await fs.write("f", b"meanwhile")
    await fs.write("new", b"meanwhile")
    for gate in gates:
        gate.opened.set()
    kinds = (HashMismatch, HashMismatch, FileAlreadyExists)
    for task, kind in zip(tasks, kinds, strict=True):
        with refuses(kind):
            await task
    assert await tree(fs) == {"f": b"meanwhile", "new": b"meanwhile"}


@ROOM.case("a file that goes while it is to be replaced is missed", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"old")
    gate = Gate()
    task = await _begin(
        gate,
        fs.write_stream("f", gate.chunks(), mode="replace", expected_sha256=sha256_of(b"old")),
    )
    await fs.remove("f")
    gate.opened.set()
    with refuses(PathNotFound, HashMismatch):
        await task
    assert await names(fs) == []


@ROOM.case("a directory that goes while a stream is written takes it along", rules=("WRITE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    gate = Gate()
    task = await _begin(gate, fs.write_stream("d/f", gate.chunks()))
    await fs.remove("d", recursive=True)
    await fs.make_dir("d")
    gate.opened.set()
    with refuses(PathNotFound, Busy):
        await task
    assert await tree(fs) == {"d": None}


@ROOM.case("what comes in the way while a stream is written is kept", rules=("WRITE-3",))
async def _(fs: Driver) -> None:
    gates = {"a": Gate(), "b/f": Gate(), "c/f": Gate(), "d/f": Gate()}
    tasks = {path: await _begin(gate, _write(fs, path, gate)) for path, gate in gates.items()}
    await fs.write("target", b"kept")
    await fs.symlink("a", "target")
    await fs.write("b", b"a file")
    await fs.symlink("c", ".")
    await fs.make_dir("d")
    for gate in gates.values():
        gate.opened.set()
    with refuses(SymlinkEscape, FileAlreadyExists, Busy, what="a link at the name"):
        await tasks["a"]
    with refuses(NotADirectory, Busy, what="a file above the name"):
        await tasks["b/f"]
    with refuses(SymlinkEscape, NotADirectory, Busy, what="a link above the name"):
        await tasks["c/f"]
    await tasks["d/f"]
    assert await tree(fs) == {
        "target": b"kept", "a": "target", "b": b"a file", "c": ".",
        "d": None, "d/f": gates["d/f"].whole,
    }  # fmt: skip
