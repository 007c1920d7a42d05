"""Directories, removal, modes, times and listings."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

from bailiwick.errors import (
    DirectoryNotEmpty,
    FileAlreadyExists,
    PathNotFound,
    PermissionDenied,
)
from bailiwick.testing.contract.case import CaseRoom, names, refuses, tree
from bailiwick.testing.driver import Driver

ROOM = CaseRoom()


@ROOM.case("make_dir makes one directory", rules=("TREE-2", "TREE-3"))
async def _(fs: Driver) -> None:
    assert await fs.make_dir("d")
    assert (await fs.stat("d")).type == "directory"
    assert await names(fs, "d") == []
    with refuses(PathNotFound):
        await fs.make_dir("a/b")
    assert await tree(fs) == {"d": None}


@ROOM.case("make_dir with parents makes what is missing", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    assert await fs.make_dir("a/b/c", parents=True)
    assert await fs.make_dir("a/b/d", parents=True)
    assert not await fs.make_dir("a/b", parents=True)
    assert not await fs.make_dir(".", parents=True)
    assert await tree(fs) == {"a": None, "a/b": None, "a/b/c": None, "a/b/d": None}


@ROOM.case("make_dir refuses a name that is taken", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    await fs.write("f", b"x")
    for path in ("d", "f", "."):
        with refuses(FileAlreadyExists, what=path):
            await fs.make_dir(path)
    with refuses(FileAlreadyExists):
        await fs.make_dir("f", parents=True)
    assert await tree(fs) == {"d": None, "f": b"x"}


@ROOM.case("make_dir takes a mode for the directory itself", rules=("TREE-2", "WRITE-2"))
async def _(fs: Driver) -> None:
    await fs.make_dir("a/b", parents=True, file_mode=0o755)
    await fs.make_dir("c", file_mode=0o750)
    modes = [(await fs.stat(path)).mode for path in ("a", "a/b", "c")]
    assert modes == [0o700, 0o755, 0o750]


@ROOM.case("two callers may make the same directories at once", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    calls = [fs.make_dir("a/b/c/d", parents=True) for _ in range(6)]
    await asyncio.gather(*calls)
    assert await tree(fs) == {"a": None, "a/b": None, "a/b/c": None, "a/b/c/d": None}


@ROOM.case("remove takes a file or an empty directory", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.make_dir("d")
    assert await fs.remove("f") == 1
    assert await fs.remove("d") == 1
    assert await names(fs) == []


@ROOM.case("a full directory is removed only when that was said", rules=("TREE-2", "TREE-3"))
async def _(fs: Driver) -> None:
    await fs.write("d/e/f", b"x", parents=True)
    await fs.write("d/g", b"y")
    with refuses(DirectoryNotEmpty):
        await fs.remove("d")
    assert sorted(await tree(fs)) == ["d", "d/e", "d/e/f", "d/g"]
    assert await fs.remove("d", recursive=True) == 4
    assert await names(fs) == []


@ROOM.case("recursive removal of a file is removal", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    assert await fs.remove("f", recursive=True) == 1
    with refuses(PathNotFound):
        await fs.remove("f", recursive=True)


@ROOM.case("the root itself stays", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.make_dir("d")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "remove": lambda: fs.remove("."),
        "remove recursive": lambda: fs.remove(".", recursive=True),
        "move": lambda: fs.move(".", "d/new"),
        "move onto itself": lambda: fs.move(".", ".", replace=True),
        "move onto": lambda: fs.move("d", "."),
        "replace": lambda: fs.move("d", ".", replace=True),
    }
    for what, call in calls.items():
        with refuses(PermissionDenied, what=what) as refusal:
            await call()
        assert refusal.error.errno == errno.EPERM, what
    assert await tree(fs) == {"f": b"x", "d": None}


@ROOM.case("modes are set and kept", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.make_dir("d")
    for path in ("f", "d"):
        for mode in (0o700, 0o755, 0o750):
            await fs.set_mode(path, mode)
            assert (await fs.stat(path)).mode == mode, path
    assert await fs.read("f") == b"x"


@ROOM.case("times are set to the nanosecond", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.make_dir("d")
    for path in ("f", "d"):
        for mtime_ns in (0, 1_000_000_001, 1_700_000_000_123_456_789):
            await fs.set_times(path, mtime_ns)
            assert (await fs.stat(path)).mtime_ns == mtime_ns, path
    assert {entry.mtime_ns for entry in await fs.entries(".")} == {1_700_000_000_123_456_789}


@ROOM.case("a write sets the time anew", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.set_times("f", 1_000)
    await fs.write("f", b"y")
    assert (await fs.stat("f")).mtime_ns > 1_000


@ROOM.case("an empty directory is listed as nothing", rules=("TREE-1",))
async def _(fs: Driver) -> None:
    assert await fs.entries(".") == []
    assert await fs.pages(".", 10) == [[]]


@ROOM.case("a listing is sorted by name and tells type and size", rules=("TREE-1",))
async def _(fs: Driver) -> None:
    ordered = [".a", "A", "B", "a", "a.b", "a0", "aa", "b", "é", "日", "🗂"]
    for name in reversed(ordered):
        await fs.write(name, name.encode())
    await fs.make_dir("Z")
    await fs.symlink("Y", "a")
    listed = await fs.entries(".")
    assert [entry.name for entry in listed] == sorted([*ordered, "Y", "Z"])
    for entry in listed:
        if entry.name in ordered:
            assert (entry.type, entry.size) == ("file", len(entry.name.encode()))
        assert entry.addressable
        assert entry.mtime_ns == (await fs.lstat(entry.name)).mtime_ns


@ROOM.case("pages give every name once and in order", rules=("TREE-1", "TREE-7"))
async def _(fs: Driver) -> None:
    everything = sorted(f"n{number}" for number in range(10))
    for name in everything:
        await fs.write(f"d/{name}", b"", parents=True)
    for limit in (1, 3, 5, 9, 10, 11):
        pages = await fs.pages("d", limit)
        assert [name for page in pages for name in page] == everything, limit
        assert all(len(page) == limit for page in pages[:-1]), limit
        assert pages[-1], "the last page is announced only where it has names"


@ROOM.case("a listing shows what is there at that moment", rules=("TREE-1",))
async def _(fs: Driver) -> None:
    for name in ("a", "b", "c"):
        await fs.write(name, b"")
    await fs.remove("b")
    await fs.move("c", "b")
    await fs.write("d", b"")
    assert await names(fs) == ["a", "b", "d"]
