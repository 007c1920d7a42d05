"""Names and paths: what is one place, what is refused, what stands in the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bailiwick.errors import KINDS, NotADirectory, PathNotFound
from bailiwick.testing.contract import chunks
from bailiwick.testing.contract.case import CaseRoom, names, refuses, tree
from bailiwick.testing.driver import Driver
from bailiwick.testing.hostile_paths import ORDINARY, REFUSED, SAME_PLACE

ROOM = CaseRoom()

Verb = Callable[[Driver, str], Awaitable[object]]


async def _drained(fs: Driver, path: str) -> None:
    async for _ in fs.stream(path):
        pass


async def _streamed(fs: Driver, path: str) -> None:
    await fs.write_stream(path, chunks.of(b"x"))


READING_VERBS: dict[str, Verb] = {
    "read": lambda fs, path: fs.read(path),
    "stream": _drained,
    "stat": lambda fs, path: fs.stat(path),
    "lstat": lambda fs, path: fs.lstat(path),
    "entries": lambda fs, path: fs.entries(path),
    "readlink": lambda fs, path: fs.readlink(path),
}

CHANGING_VERBS: dict[str, Verb] = {
    "truncate": lambda fs, path: fs.truncate(path, 1),
    "remove": lambda fs, path: fs.remove(path),
    "remove recursive": lambda fs, path: fs.remove(path, recursive=True),
    "move from": lambda fs, path: fs.move(path, "elsewhere"),
    "copy from": lambda fs, path: fs.copy(path, "elsewhere", recursive=True),
    "set_mode": lambda fs, path: fs.set_mode(path, 0o600),
    "set_times": lambda fs, path: fs.set_times(path, 1),
}

MAKING_VERBS: dict[str, Verb] = {
    "write": lambda fs, path: fs.write(path, b"x"),
    "write with parents": lambda fs, path: fs.write(path, b"x", parents=True),
    "write_stream": _streamed,
    "append": lambda fs, path: fs.append(path, b"x"),
    "make_dir": lambda fs, path: fs.make_dir(path),
    "make_dir with parents": lambda fs, path: fs.make_dir(path, parents=True),
    "symlink": lambda fs, path: fs.symlink(path, "target"),
    "move to": lambda fs, path: fs.move("there", path),
    "copy to": lambda fs, path: fs.copy("there", path),
}

ALL_VERBS = READING_VERBS | CHANGING_VERBS | MAKING_VERBS


@ROOM.case("a written file is found listed and read", rules=("VOL-12", "WRITE-1"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"hello")
    assert await fs.read("f") == b"hello"
    assert await names(fs) == ["f"]
    assert (await fs.stat("f")).size == 5


@ROOM.case("every spelling of a path names the same place", rules=("PATH-2",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d/x", parents=True)
    await fs.make_dir("x")
    await fs.write("d/f", b"x")
    for canonical, spelling in SAME_PLACE:
        assert (await fs.stat(spelling)).path == canonical, spelling
        assert (await fs.lstat(spelling)).path == canonical, spelling


@ROOM.case("hostile paths are refused by every verb", rules=("PATH-2", "PATH-3", "PATH-4"))
async def _(fs: Driver) -> None:
    await fs.write("there", b"x")
    for row in REFUSED:
        kinds = tuple(KINDS[kind] for kind in row.kinds)
        for verb, call in ALL_VERBS.items():
            with refuses(*kinds, what=f"{verb} of {row.what}"):
                await call(fs, row.text)
    assert await tree(fs) == {"there": b"x"}


@ROOM.case("odd names are ordinary names", rules=("PATH-4",))
async def _(fs: Driver) -> None:
    for row in ORDINARY:
        data = row.what.encode()
        await fs.write(row.text, data)
    assert await names(fs) == sorted(row.text for row in ORDINARY)
    for row in ORDINARY:
        assert await fs.read(row.text) == row.what.encode(), row.what
        assert (await fs.stat(row.text)).name == row.text, row.what
        await fs.remove(row.text)
    assert await names(fs) == []


@ROOM.case("odd names are ordinary names of directories", rules=("PATH-4",))
async def _(fs: Driver) -> None:
    for row in ORDINARY:
        await fs.make_dir(row.text)
        await fs.write(f"{row.text}/f", b"x")
        assert await names(fs, row.text) == ["f"], row.what
    for row in ORDINARY:
        await fs.remove(row.text, recursive=True)
    assert await names(fs) == []


@ROOM.case("names that differ in case or composition are different names", rules=("PATH-4",))
async def _(fs: Driver) -> None:
    twins = ["A", "a", "K", "\u212a", "\u00e9", "e\u0301", "ss", "\u00df"]
    for twin in twins:
        await fs.write(twin, twin.encode(), mode="create")
    assert await names(fs) == sorted(twins)
    for twin in twins:
        assert await fs.read(twin) == twin.encode()


@ROOM.case("a name of 255 bytes lives in a directory of 255 bytes", rules=("PATH-3",))
async def _(fs: Driver) -> None:
    path = "d" * 255 + "/" + "é" * 127 + "n"
    await fs.write(path, b"x", parents=True)
    assert await fs.read(path) == b"x"
    assert (await fs.stat(path)).path == path


@ROOM.case("a trailing slash demands a directory", rules=("PATH-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    for verb, call in ALL_VERBS.items():
        if verb in ("move to", "copy to"):
            continue
        for path in ("f/", "f/."):
            with refuses(NotADirectory, what=f"{verb} of {path}"):
                await call(fs, path)
    assert await tree(fs) == {"f": b"x"}


@ROOM.case("a trailing slash on a directory changes nothing", rules=("PATH-2",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d/")
    await fs.write("d/f", b"x")
    assert await names(fs, "d/") == ["f"]
    assert (await fs.stat("d/")).path == "d"
    assert (await fs.lstat("d/.")).type == "directory"
    await fs.move("d/", "e/")
    assert await fs.remove("e/", recursive=True) == 2


@ROOM.case("no file or link is made under a name with a trailing slash", rules=("PATH-2",))
async def _(fs: Driver) -> None:
    for verb in ("write", "write with parents", "write_stream", "append", "symlink"):
        with refuses(NotADirectory, what=verb):
            await MAKING_VERBS[verb](fs, "new/")
    assert await names(fs) == []


@ROOM.case("a file in the middle of a path is no directory", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.write("there", b"y")
    for verb, call in ALL_VERBS.items():
        for path in ("f/x", "f/x/y"):
            with refuses(NotADirectory, what=f"{verb} of {path}"):
                await call(fs, path)
    assert await tree(fs) == {"f": b"x", "there": b"y"}


@ROOM.case("what is missing is not found by any verb that needs it", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    for verb, call in (READING_VERBS | CHANGING_VERBS).items():
        for path in ("nothing", "d/nothing", "nothing/deeper", "nothing/"):
            with refuses(PathNotFound, what=f"{verb} of {path}"):
                await call(fs, path)
    assert await tree(fs) == {"d": None}


@ROOM.case("nothing is made in a directory that is missing", rules=("TREE-3", "WRITE-4"))
async def _(fs: Driver) -> None:
    await fs.write("there", b"x")
    for verb, call in MAKING_VERBS.items():
        if "parents" not in verb:
            with refuses(PathNotFound, what=verb):
                await call(fs, "nothing/f")
    assert await tree(fs) == {"there": b"x"}


@ROOM.case("a deep tree is made walked and removed")
async def _(fs: Driver) -> None:
    levels = 200
    path = "/".join(["d"] * levels)
    await fs.make_dir(path, parents=True)
    await fs.write(f"{path}/f", b"deep")
    assert await fs.read(f"{path}/f") == b"deep"
    assert (await fs.stat(f"{path}/f")).path == f"{path}/f"
    assert await fs.copy("d", "e", recursive=True) == levels + 1
    assert await fs.remove("d", recursive=True) == levels + 1
    assert await names(fs) == ["e"]
