"""Moves and copies: what becomes of source, destination and everything between."""

from __future__ import annotations

import asyncio
from functools import partial

from bailiwick.errors import (
    BailiwickError,
    DirectoryNotEmpty,
    FileAlreadyExists,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
)
from bailiwick.testing.contract.case import CaseRoom, refuses, tree
from bailiwick.testing.driver import Driver

ROOM = CaseRoom()


@ROOM.case("move gives a file another name", rules=("TREE-2", "TREE-4"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x", file_mode=0o750)
    await fs.set_times("f", 1_000_000_007)
    await fs.make_dir("d")
    assert await fs.move("f", "d/g")
    stat = await fs.stat("d/g")
    assert (stat.mode, stat.mtime_ns, stat.size) == (0o750, 1_000_000_007, 1)
    assert await tree(fs) == {"d": None, "d/g": b"x"}


@ROOM.case("move takes a directory with all that is in it", rules=("TREE-2", "TREE-4"))
async def _(fs: Driver) -> None:
    await fs.write("d/e/f", b"x", parents=True)
    await fs.symlink("d/l", "e/f")
    await fs.make_dir("a")
    assert await fs.move("d", "a/b")
    assert await tree(fs) == {
        "a": None, "a/b": None, "a/b/e": None, "a/b/e/f": b"x", "a/b/l": "e/f",
    }  # fmt: skip
    assert await fs.read("a/b/l") == b"x"
    assert await fs.move("a/b/e", "e")
    assert await fs.read("e/f") == b"x"


@ROOM.case("moving a thing onto itself changes nothing", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.write("d/g", b"y", parents=True)
    await fs.symlink("l", "f")
    await fs.symlink("to-d", "d")
    before = await tree(fs)
    for path in ("f", "d", "l", "d/g"):
        assert not await fs.move(path, path), path
        assert not await fs.move(path, path, replace=True), path
    assert not await fs.move("d/g", "to-d/g")
    assert await tree(fs) == before


@ROOM.case("a directory is not moved into itself", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d/e", parents=True)
    await fs.symlink("l", "d/e")
    for to in ("d/new", "d/e/new", "l/new"):
        for replace in (False, True):
            with refuses(ParseError, what=to):
                await fs.move("d", to, replace=replace)
    assert await tree(fs) == {"d": None, "d/e": None, "l": "d/e"}


@ROOM.case("no move or copy puts anything deeper than a path can name", rules=("TREE-10",))
async def _(fs: Driver) -> None:
    tall, low = "/".join(["t"] * 130), "/".join(["l"] * 126)
    for path in (tall, low):
        await fs.make_dir(path, parents=True)
    await fs.symlink("short", low)
    before = await tree(fs)
    for to in (f"{low}/l/x", "short/l/x"):
        with refuses(PathNotFound, what=to):
            await fs.move("t", to)
    await fs.make_dir(f"{low}/l")
    for act in (fs.move, partial(fs.copy, recursive=True)):
        for to in (f"{low}/l/x", "short/l/x"):
            with refuses(ParseError, what=to):
                await act("t", to)
    await fs.remove(f"{low}/l")
    assert await tree(fs) == before
    assert await fs.copy("t", f"{low}/t", recursive=True) == 130
    assert (await fs.stat(f"{low}/{tall}")).type == "directory"
    with refuses(ParseError):
        await fs.move("l", "t/x")
    await fs.remove(f"{low}/t", recursive=True)
    assert await fs.move("t", f"{low}/t")
    assert await fs.move(f"{low}/t", "t")  # not as deep as it was: there is nothing to look at
    assert await tree(fs) == before


@ROOM.case("a file is not put deeper than a path can name by way of a link", rules=("TREE-10",))
async def _(fs: Driver) -> None:
    low = "/".join(["l"] * 200)
    await fs.make_dir(low, parents=True)
    await fs.symlink("short", low)
    await fs.write("f", b"x")
    far = "/".join(["m"] * 56)
    await fs.make_dir(f"short/{far}", parents=True)
    for act in (fs.move, fs.copy):
        with refuses(ParseError):
            await act("f", f"short/{far}/f")
    assert await fs.read("f") == b"x"


@ROOM.case("a move does not replace unless that was said", rules=("TREE-2", "TREE-3"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.write("g", b"y")
    await fs.make_dir("d")
    await fs.symlink("l", "nothing")
    before = await tree(fs)
    for path in ("f", "d", "l"):
        for to in ("g", "d", "l"):
            if path != to:
                with refuses(FileAlreadyExists, what=f"{path} to {to}"):
                    await fs.move(path, to)
    assert await tree(fs) == before


@ROOM.case("a move replaces a file or a link", rules=("TREE-2", "LINK-3"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.write("g", b"y")
    await fs.symlink("l", "keep")
    await fs.write("keep", b"kept")
    assert await fs.move("f", "g", replace=True)
    assert await tree(fs) == {"g": b"x", "l": "keep", "keep": b"kept"}
    assert await fs.move("g", "l", replace=True)
    assert await tree(fs) == {"l": b"x", "keep": b"kept"}
    await fs.symlink("k", "keep")
    assert await fs.move("k", "l", replace=True)
    assert await tree(fs) == {"l": "keep", "keep": b"kept"}


@ROOM.case("a directory replaces an empty directory and nothing else", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("d/f", b"x", parents=True)
    await fs.make_dir("empty")
    await fs.make_dir("full/sub", parents=True)
    await fs.write("file", b"y")
    await fs.symlink("l", "empty")
    with refuses(DirectoryNotEmpty):
        await fs.move("d", "full", replace=True)
    for to in ("file", "l"):
        with refuses(NotADirectory, what=to):
            await fs.move("d", to, replace=True)
    for path in ("file", "l"):
        for to in ("empty", "full"):
            with refuses(IsADirectory, what=f"{path} to {to}"):
                await fs.move(path, to, replace=True)
    assert await fs.move("d", "empty", replace=True)
    assert await tree(fs) == {
        "empty": None, "empty/f": b"x", "full": None, "full/sub": None, "file": b"y",
        "l": "empty",
    }  # fmt: skip


@ROOM.case("nothing takes the place of a directory it lies in", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("d/e/f", b"x", parents=True)
    for path in ("d/e", "d/e/f"):
        with refuses(FileAlreadyExists, what=path):
            await fs.move(path, "d")
        with refuses(DirectoryNotEmpty, what=path):
            await fs.move(path, "d", replace=True)
    assert await tree(fs) == {"d": None, "d/e": None, "d/e/f": b"x"}


@ROOM.case("of parallel moves of one file exactly one finds it", rules=("TREE-4",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    moves = [fs.move("f", f"to{number}") for number in range(6)]
    results = await asyncio.gather(*moves, return_exceptions=True)
    kinds = [result.kind for result in results if isinstance(result, BailiwickError)]
    assert kinds == ["path_not_found"] * 5
    assert list((await tree(fs)).values()) == [b"x"]


@ROOM.case("copy makes a file with the same content mode and times", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x", file_mode=0o750)
    await fs.set_times("f", 1_000_000_007)
    await fs.make_dir("d")
    assert await fs.copy("f", "d/g") == 1
    stat = await fs.stat("d/g")
    assert (stat.mode, stat.mtime_ns) == (0o750, 1_000_000_007)
    await fs.write("f", b"changed")
    assert await fs.read("d/g") == b"x"


@ROOM.case("copy takes a directory only when that was said", rules=("TREE-2", "TREE-3"))
async def _(fs: Driver) -> None:
    await fs.write("d/e/f", b"x", parents=True, file_mode=0o640)
    await fs.symlink("d/l", "e/f")
    await fs.set_mode("d/e", 0o750)
    await fs.set_times("d/e/f", 1_000_000_007)
    await fs.set_times("d/e", 1_000_000_009)
    with refuses(IsADirectory):
        await fs.copy("d", "c")
    assert await fs.copy("d", "c", recursive=True) == 4
    assert await tree(fs, "c") == {"c/e": None, "c/e/f": b"x", "c/l": "e/f"}
    directory, file = await fs.stat("c/e"), await fs.stat("c/e/f")
    assert (directory.mode, directory.mtime_ns) == (0o750, 1_000_000_009)
    assert (file.mode, file.mtime_ns) == (0o640, 1_000_000_007)
    await fs.write("d/e/f", b"changed")
    assert await fs.read("c/e/f") == b"x"


@ROOM.case("copy of a large file is whole")
async def _(fs: Driver) -> None:
    data = bytes(range(256)) * 8192
    await fs.write("f", data)
    assert await fs.copy("f", "g") == 1
    assert await fs.read("g") == data


@ROOM.case("copy never replaces", rules=("TREE-2", "TREE-3"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.write("g", b"y")
    await fs.make_dir("d")
    await fs.make_dir("e")
    before = await tree(fs)
    for path, to in (("f", "g"), ("f", "d"), ("f", "f"), ("d", "g"), ("d", "e"), ("d", "d")):
        with refuses(FileAlreadyExists, what=f"{path} to {to}"):
            await fs.copy(path, to, recursive=True)
    with refuses(FileAlreadyExists):
        await fs.copy("f", ".")
    assert await tree(fs) == before


@ROOM.case("a directory is not copied into itself", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d/e", parents=True)
    await fs.symlink("l", "d/e")
    for path, to in (("d", "d/new"), ("d", "d/e/new"), ("d", "l/new"), (".", "new"), (".", "d/n")):
        with refuses(ParseError, what=f"{path} to {to}"):
            await fs.copy(path, to, recursive=True)
    with refuses(IsADirectory):
        await fs.copy(".", "new")
    assert await tree(fs) == {"d": None, "d/e": None, "l": "d/e"}


@ROOM.case("nothing is moved or copied to where no directory is", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    for to in ("nothing/g", "nothing/deeper/g"):
        with refuses(PathNotFound, what=to):
            await fs.move("f", to)
        with refuses(PathNotFound, what=to):
            await fs.copy("f", to)
    assert await tree(fs) == {"f": b"x"}


MANY = 1_200
"""More names than any page that a store or a scope may work through its listing with."""


@ROOM.case("a directory of many names is listed copied moved and removed whole", rules=("TREE-7",))
async def _(fs: Driver) -> None:
    expected = sorted(f"n{number}" for number in range(MANY))
    await fs.make_dir("d")
    for name in expected:
        await fs.write(f"d/{name}", b"")
    assert [entry.name for entry in await fs.entries("d")] == expected
    assert await fs.copy("d", "copied", recursive=True) == MANY + 1
    assert await fs.move("d", "moved")
    for directory in ("copied", "moved"):
        assert [entry.name for entry in await fs.entries(directory)] == expected
        assert await fs.remove(directory, recursive=True) == MANY + 1
    assert await tree(fs) == {}


@ROOM.case("two callers may remove the same tree at once", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    for number in range(40):
        await fs.write(f"d/e{number % 4}/f{number}", b"x", parents=True)
    removals = [fs.remove("d", recursive=True) for _ in range(3)]
    results = await asyncio.gather(*removals, return_exceptions=True)
    for result in results:
        assert isinstance(result, int | PathNotFound), result
    assert await tree(fs) == {}
