"""Writing: modes, preconditions, results, and what a refused write leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    FileTooLarge,
    HashMismatch,
    IsADirectory,
    ParseError,
    PathNotFound,
)
from bailiwick.model import WriteMode
from bailiwick.paths import ScopedPath
from bailiwick.store import Store, WritePlan
from bailiwick.testing.contract import chunks
from bailiwick.testing.contract.case import CaseRoom, names, refuses, tree
from bailiwick.testing.contract.chunks import sha256_of
from bailiwick.testing.driver import Driver

ROOM = CaseRoom()

OTHER_HASH = "0" * 64


@ROOM.case("overwrite makes a file and then replaces it", rules=("WRITE-2", "WRITE-3"))
async def _(fs: Driver) -> None:
    first = await fs.write("f", b"one")
    second = await fs.write("f", b"three")
    assert (first.created, first.size, first.sha256) == (True, 3, sha256_of(b"one"))
    assert (second.created, second.size, second.sha256) == (False, 5, sha256_of(b"three"))
    assert await fs.read("f") == b"three"


@ROOM.case("create refuses whatever has the name", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    assert (await fs.write("f", b"old", mode="create")).created
    await fs.make_dir("d")
    for path in ("f", "d"):
        with refuses(FileAlreadyExists, what=path):
            await fs.write(path, b"new", mode="create")
        with refuses(FileAlreadyExists, what=path):
            await fs.write_stream(path, chunks.of(b"new"), mode="create")
    assert await tree(fs) == {"f": b"old", "d": None}


@ROOM.case("replace needs something to replace", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    for parents in (False, True):
        with refuses(PathNotFound):
            await fs.write("d/f", b"x", mode="replace", expected_sha256=OTHER_HASH, parents=parents)
    await fs.write("f", b"old")
    replaced = await fs.write("f", b"new", mode="replace", expected_sha256=sha256_of(b"old"))
    assert not replaced.created
    assert await tree(fs) == {"f": b"new"}


@ROOM.case("the expected hash must be the current one", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    current = await fs.write("f", b"old")
    modes: tuple[WriteMode, ...] = ("overwrite", "replace")
    for mode in modes:
        with refuses(HashMismatch, what=mode) as refusal:
            await fs.write("f", b"new", mode=mode, expected_sha256=OTHER_HASH)
        assert refusal.error.details["current_sha256"] == sha256_of(b"old")
        assert refusal.error.details["current_version"] == current.version
    assert await fs.read("f") == b"old"
    await fs.write("f", b"new", expected_sha256=sha256_of(b"old"))
    assert await fs.read("f") == b"new"


@ROOM.case("the expected version must be the current one", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    first = await fs.write("f", b"one")
    second = await fs.write("f", b"two", expected_version=first.version)
    with refuses(HashMismatch) as refusal:
        await fs.write("f", b"three", expected_version=first.version)
    assert refusal.error.details["current_version"] == second.version
    assert await fs.read("f") == b"two"


@ROOM.case("hash and version expected together must both fit", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    written = await fs.write("f", b"old")
    good = sha256_of(b"old")
    with refuses(HashMismatch):
        await fs.write("f", b"x", expected_sha256=OTHER_HASH, expected_version=written.version)
    with refuses(HashMismatch):
        await fs.write("f", b"x", expected_sha256=good, expected_version="no such version")
    await fs.write("f", b"new", expected_sha256=good, expected_version=written.version)
    assert await fs.read("f") == b"new"


@ROOM.case("something expected where nothing is does not fit", rules=("WRITE-2", "WRITE-4"))
async def _(fs: Driver) -> None:
    for path in ("f", "d/e/f"):
        with refuses(HashMismatch, what=path) as refusal:
            await fs.write(path, b"x", expected_sha256=OTHER_HASH, parents=True)
        assert refusal.error.details["current_sha256"] is None
        assert refusal.error.details["current_version"] is None
        with refuses(HashMismatch, what=path):
            await fs.write(path, b"x", expected_version="1", parents=True)
    assert await names(fs) == []


@ROOM.case("a result agrees with what is then read", rules=("WRITE-3",))
async def _(fs: Driver) -> None:
    written = await fs.write("f", b"hello", file_mode=0o640)
    stat = await fs.stat("f")
    assert written.sha256 == sha256_of(await fs.read("f"))
    assert (stat.size, stat.version, stat.mode) == (5, written.version, 0o640)
    assert written.file_mode == 0o640


@ROOM.case("a directory is not written as a file", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    for path in ("d", "."):
        with refuses(IsADirectory, what=path):
            await fs.write(path, b"x")
        with refuses(IsADirectory, what=path):
            await fs.write_stream(path, chunks.of(b"x"))
        with refuses(IsADirectory, what=path):
            await fs.append(path, b"x")
        with refuses(IsADirectory, what=path):
            await fs.truncate(path, 0)
    assert await tree(fs) == {"d": None}


@ROOM.case("missing parents are made when asked for", rules=("WRITE-4",))
async def _(fs: Driver) -> None:
    with refuses(PathNotFound):
        await fs.write("a/b/f", b"x")
    assert await names(fs) == []
    await fs.write("a/b/f", b"x", parents=True)
    await fs.append("a/c/g", b"y", parents=True)
    await fs.write_stream("d/h", chunks.of(b"z"), parents=True)
    await fs.write("a/b/f", b"again", parents=True)
    assert await tree(fs) == {
        "a": None, "a/b": None, "a/b/f": b"again", "a/c": None, "a/c/g": b"y",
        "d": None, "d/h": b"z",
    }  # fmt: skip


@ROOM.case("new files and directories are private", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    assert (await fs.write("a/f", b"x", parents=True)).file_mode == 0o600
    await fs.make_dir("d")
    await fs.append("g", b"x")
    modes = {path: (await fs.stat(path)).mode for path in ("a", "a/f", "d", "g")}
    assert modes == {"a": 0o700, "a/f": 0o600, "d": 0o700, "g": 0o600}


@ROOM.case("replacing keeps the mode unless told otherwise", rules=("WRITE-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"one", file_mode=0o755)
    assert (await fs.write("f", b"two")).file_mode == 0o755
    await fs.append("f", b"more")
    await fs.truncate("f", 1)
    await fs.write_stream("f", chunks.of(b"three"))
    assert (await fs.stat("f")).mode == 0o755
    assert (await fs.write("f", b"four", file_mode=0o600)).file_mode == 0o600
    assert (await fs.stat("f")).mode == 0o600


@ROOM.case("append makes a file and adds to it", rules=("WRITE-1", "WRITE-3"))
async def _(fs: Driver) -> None:
    first = await fs.append("f", b"one,")
    second = await fs.append("f", b"two")
    third = await fs.append("f", b"")
    assert (first.created, second.created, third.created) == (True, False, False)
    assert (second.size, second.sha256) == (7, sha256_of(b"one,two"))
    assert await fs.read("f") == b"one,two"


@ROOM.case("truncate cuts and extends", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"12345")
    for size, expected in ((3, b"123"), (3, b"123"), (6, b"123\0\0\0"), (0, b"")):
        written = await fs.truncate("f", size)
        assert (written.created, written.size) == (False, size)
        assert written.sha256 == sha256_of(expected)
        assert await fs.read("f") == expected
    with refuses(ParseError):
        await fs.truncate("f", -1)
    with refuses(PathNotFound):
        await fs.truncate("nothing", 0)
    assert await names(fs) == ["f"]


@ROOM.case("a version changes with the content and with nothing else", rules=("WRITE-3",))
async def _(fs: Driver) -> None:
    seen = [(await fs.write("f", b"one")).version]
    await fs.read("f")
    await fs.write("g", b"beside")
    assert (await fs.stat("f")).version == seen[0]
    assert (await fs.lstat("f")).version == seen[0]
    seen.append((await fs.write("f", b"two")).version)
    seen.append((await fs.append("f", b"!")).version)
    seen.append((await fs.truncate("f", 2)).version)
    assert len(set(seen)) == len(seen)
    assert (await fs.stat("f")).version == seen[-1]


async def _outcomes(calls: list[Awaitable[object]]) -> list[str]:
    """Run all at once; the kind of each error, or ``done``."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    outcomes = []
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, BailiwickError):
            raise result
        outcomes.append(result.kind if isinstance(result, BailiwickError) else "done")
    return sorted(outcomes)


@ROOM.case("parallel appends lose nothing", rules=("WRITE-3", "WRITE-6"))
async def _(fs: Driver) -> None:
    lines = [f"line {number}\n".encode() for number in range(24)]
    assert set(await _outcomes([fs.append("log", line) for line in lines])) == {"done"}
    assert sorted((await fs.read("log")).splitlines(keepends=True)) == sorted(lines)


@ROOM.case("of parallel creates exactly one wins", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    calls = [fs.write("f", b"%d" % number, mode="create") for number in range(8)]
    assert await _outcomes(list(calls)) == ["done"] + ["file_already_exists"] * 7


@ROOM.case("of parallel swaps of one content exactly one wins", rules=("WRITE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"old")
    expected = sha256_of(b"old")
    calls = [fs.write("f", b"%d" % number, expected_sha256=expected) for number in range(8)]
    assert await _outcomes(list(calls)) == ["done"] + ["hash_mismatch"] * 7


@ROOM.case("parallel writes leave one of them whole", rules=("WRITE-6",))
async def _(fs: Driver) -> None:
    contents = [bytes([65 + number]) * 100_000 for number in range(8)]
    calls = [fs.write("f", content) for content in contents]
    calls += [fs.write(f"f{number}", content) for number, content in enumerate(contents)]
    assert set(await _outcomes(list(calls))) == {"done"}
    assert await fs.read("f") in contents
    for number, content in enumerate(contents):
        assert await fs.read(f"f{number}") == content


@ROOM.handle_case("no file grows over its limit", rules=("WRITE-1", "WRITE-3"))
async def _(store: Store) -> None:
    plan = WritePlan(size_max=4)
    entry = await store.resolve(ScopedPath("f"), "entry")
    await store.write(entry, b"1234", sha256_of(b"1234"), plan)
    with refuses(FileTooLarge, what="write") as refusal:
        await store.write(entry, b"12345", sha256_of(b"12345"), plan)
    assert refusal.error.details["limit"] == 4
    with refuses(FileTooLarge, what="write_stream"):
        await store.write_stream(entry, chunks.of(b"123", b"45"), plan)
    with refuses(FileTooLarge, what="append"):
        await store.append(entry, b"5", plan)
    with refuses(FileTooLarge, what="truncate"):
        await store.truncate(entry, 5, plan)
    entry.close()
    new = await store.resolve(ScopedPath("d/g"), "entry", parents=True)
    with refuses(FileTooLarge, what="write of a new file"):
        await store.write(new, b"12345", sha256_of(b"12345"), WritePlan(size_max=4, parents=True))
    new.close()
    await _expect_only(store, "f", b"1234")


@ROOM.handle_case("setuid setgid and sticky are stripped", rules=("DISK-5",))
async def _(store: Store) -> None:
    entry = await store.resolve(ScopedPath("f"), "entry")
    written = await store.write(entry, b"x", sha256_of(b"x"), WritePlan(file_mode=0o7755))
    assert written.file_mode == 0o755
    assert (await store.stat(entry)).mode == 0o755
    entry.close()


@ROOM.handle_case("append and truncate keep the preconditions", rules=("WRITE-2",))
async def _(store: Store) -> None:
    entry = await store.resolve(ScopedPath("f"), "entry")
    expecting = WritePlan(expected_sha256=OTHER_HASH)
    with refuses(HashMismatch, what="append where nothing is"):
        await store.append(entry, b"x", expecting)
    await store.write(entry, b"old", sha256_of(b"old"), WritePlan())
    for what, call in {
        "append": store.append(entry, b"x", expecting),
        "truncate": store.truncate(entry, 1, expecting),
    }.items():
        with refuses(HashMismatch, what=what):
            await call
    with refuses(FileAlreadyExists):
        await store.append(entry, b"x", WritePlan(mode="create"))
    fitting = WritePlan(mode="replace", expected_sha256=sha256_of(b"old"))
    assert (await store.append(entry, b"er", fitting)).sha256 == sha256_of(b"older")
    entry.close()
    await _expect_only(store, "f", b"older")


async def _expect_only(store: Store, name: str, data: bytes) -> None:
    root = await store.resolve(ScopedPath("."), "object")
    listed = await store.children(root)
    assert [child.name for child in listed.entries] == [name]
    file = await store.descend(root, name)
    assert (await store.read(file, 0, 100)).data == data
    file.close()
    root.close()
