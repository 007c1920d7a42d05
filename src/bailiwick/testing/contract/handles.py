"""Handles: a verb acts on what was resolved, whatever has become of the text since."""

from __future__ import annotations

from bailiwick.errors import (
    Busy,
    Closed,
    NotADirectory,
    ParseError,
    PathNotFound,
    PathOutsideWorkspace,
)
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Handle, KnowsMissing, Look, Store, WritePlan
from bailiwick.testing.contract.case import CaseRoom, refuses, tree
from bailiwick.testing.contract.chunks import of, sha256_of
from bailiwick.testing.driver import StoreDriver

ROOM = CaseRoom()

PLAN = WritePlan()

_LOOKS: tuple[Look, ...] = ("object", "entry")


def _at(text: str) -> ScopedPath:
    return ScopedPath(text)


async def _write(store: Store, entry: Handle, data: bytes, plan: WritePlan = PLAN) -> None:
    await store.write(entry, data, sha256_of(data), plan)


@ROOM.handle_case("an object's path is its own name", rules=("PATH-6",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("d/f", b"12345", parents=True)
    await fs.symlink("l", "d")
    await fs.symlink("k", "l/f")
    for text in ("d/f", "l/f", "k"):
        handle = await store.resolve(_at(text), "object")
        assert (handle.path, handle.type, handle.size) == ("d/f", "file", 5), text
        handle.close()


@ROOM.handle_case("an entry's path is its parent's own name and its last", rules=("PATH-6",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("d/f", b"12345", parents=True)
    await fs.symlink("l", "d")
    await fs.symlink("d/k", "f")
    for text, path, kind, size in (
        ("l/f", "d/f", "file", 5),
        ("l/k", "d/k", "symlink", 1),
        ("l", "l", "symlink", 1),
        ("l/new", "d/new", None, 0),
    ):
        handle = await store.resolve(_at(text), "entry")
        assert (handle.path, handle.type, handle.size) == (path, kind, size), text
        handle.close()


@ROOM.handle_case("an entry may stand on parents that are missing", rules=("WRITE-4",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.make_dir("d")
    await fs.symlink("l", "d")
    with refuses(PathNotFound, what="resolve without parents"):
        await store.resolve(_at("l/a/b/f"), "entry")
    handle = await store.resolve(_at("l/a/b/f"), "entry", parents=True)
    assert (handle.path, handle.type, handle.size) == ("d/a/b/f", None, 0)
    assert await store.names_beside(handle) == []
    with refuses(PathNotFound, what="stat"):
        await store.stat(handle)
    with refuses(PathNotFound, what="write without parents"):
        await _write(store, handle, b"x")
    with refuses(PathNotFound, what="make_dir without parents"):
        await store.make_dir(handle, file_mode=None, parents=False)
    with refuses(PathNotFound, what="symlink"):
        await store.symlink(handle, "f")
    with refuses(PathNotFound, what="remove"):
        await store.remove(handle, recursive=True)
    assert await tree(fs) == {"d": None, "l": "d"}
    await _write(store, handle, b"x", WritePlan(parents=True))
    handle.close()
    assert await fs.read("d/a/b/f") == b"x"


@ROOM.handle_case("a directory is demanded of objects and entries", rules=("PATH-2",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("f", b"x")
    await fs.make_dir("d")
    await fs.symlink("l", "d")
    with refuses(NotADirectory, what="a file"):
        await store.resolve(_at("f"), "object", directory=True)
    with refuses(NotADirectory, what="a file's entry"):
        await store.resolve(_at("f"), "entry", directory=True)
    with refuses(NotADirectory, what="a link's entry"):
        await store.resolve(_at("l"), "entry", directory=True)
    with refuses(PathNotFound, what="an object that is missing"):
        await store.resolve(_at("new"), "object", directory=True)
    for text, look in (("d", "object"), ("l", "object"), ("d", "entry"), ("new", "entry")):
        handle = await store.resolve(_at(text), look, directory=True)  # type: ignore[arg-type]
        assert handle.type in ("directory", None), text
        handle.close()


@ROOM.handle_case("the root is an object and an entry without a name", rules=("TREE-3",))
async def _(store: Store) -> None:
    for look in ("object", "entry"):
        handle = await store.resolve(ROOT, look, directory=True)
        assert (handle.path, handle.type) == (".", "directory"), look
        assert (await store.stat(handle)).name == ""
        assert (await store.children(handle)).entries == []
        handle.close()
    entry = await store.resolve(ROOT, "entry")
    assert await store.names_beside(entry) == []
    entry.close()


@ROOM.handle_case("the names beside an entry are all names of its directory", rules=("PATH-4",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    for path in ("d/a", "d/B", "d/.c"):
        await fs.write(path, b"", parents=True)
    for text in ("d/new", "d/a"):
        entry = await store.resolve(_at(text), "entry")
        assert sorted(await store.names_beside(entry)) == [".c", "B", "a"], text
        entry.close()


@ROOM.handle_case("children are given after a name and up to a limit", rules=("TREE-1",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    for name in ("a", "b", "c", "d"):
        await fs.write(name, b"")
    root = await store.resolve(ROOT, "object")
    for after, limit, expected, more in (
        (None, None, "abcd", False),
        (None, 4, "abcd", False),
        (None, 3, "abc", True),
        ("b", None, "cd", False),
        ("b", 1, "c", True),
        ("bb", 1, "c", True),
        ("c", 1, "d", False),
        ("d", 1, "", False),
        ("", 1, "a", True),
    ):
        entries, says_more = await store.children(root, after=after, limit=limit)
        got = "".join(entry.name for entry in entries)
        assert (got, says_more) == (expected, more), (after, limit)
    root.close()


@ROOM.handle_case("descending holds a child and follows no link", rules=("LINK-3",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("d/f", b"12345", parents=True)
    await fs.symlink("d/l", "f")
    directory = await store.resolve(_at("d"), "object")
    file = await store.descend(directory, "f")
    assert (file.path, file.type, file.size) == ("d/f", "file", 5)
    assert (await store.read(file, 0, 9)).data == b"12345"
    link = await store.descend(directory, "l")
    assert (link.path, link.type) == ("d/l", "symlink")
    assert (await store.stat(link)).target == "f"
    with refuses(PathNotFound):
        await store.descend(directory, "nothing")
    with refuses(NotADirectory):
        await store.descend(file, "x")
    for handle in (link, file, directory):
        handle.close()


@ROOM.handle_case("descending cannot leave the directory", rules=("PATH-2",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("d/e/f", b"x", parents=True)
    await fs.write("secret", b"x")
    directory = await store.resolve(_at("d"), "object")
    for name in ("..", "../secret", "/secret", "e/f", ".", ""):
        with refuses(PathNotFound, ParseError, PathOutsideWorkspace, what=repr(name)):
            (await store.descend(directory, name)).close()
    directory.close()


@ROOM.handle_case("a held file is read after it was moved replaced or removed", rules=("READ-6",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    held = {}
    for name in ("moved", "replaced", "removed"):
        await fs.write(name, name.encode())
        held[name] = await store.resolve(_at(name), "object")
    await fs.move("moved", "elsewhere")
    await fs.write("replaced", b"new")
    await fs.remove("removed")
    for name, handle in held.items():
        assert (await store.read(handle, 0, 99)).data == name.encode()
        assert b"".join([c async for c in store.stream(handle, 0, None)]) == name.encode()
        handle.close()


@ROOM.handle_case("a held directory is listed after it was moved", rules=("PATH-6",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("d/f", b"x", parents=True)
    directory = await store.resolve(_at("d"), "object")
    await fs.move("d", "e")
    await fs.write("d/other", b"x", parents=True)
    assert [child.name for child in (await store.children(directory)).entries] == ["f"]
    child = await store.descend(directory, "f")
    assert (await store.read(child, 0, 9)).data == b"x"
    child.close()
    directory.close()


@ROOM.handle_case("a change lands in the directory that was held or nowhere", rules=("PATH-6",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.make_dir("d")
    entry = await store.resolve(_at("d/f"), "entry")
    await fs.move("d", "e")
    await fs.make_dir("d")
    try:
        await _write(store, entry, b"x")
        expected: dict[str, object] = {"d": None, "e": None, "e/f": b"x"}
    except Busy:
        expected = {"d": None, "e": None}
    entry.close()
    assert await tree(fs) == expected


@ROOM.handle_case("nothing is made in a held directory that was removed", rules=("TREE-3",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("f", b"x")
    await fs.make_dir("d")
    entry = await store.resolve(_at("d/f"), "entry")
    source = await store.resolve(_at("f"), "entry")
    await fs.remove("d")
    await fs.make_dir("d")
    for what, call in {
        "write": _write(store, entry, b"x"),
        "write_stream": store.write_stream(entry, of(b"x"), PLAN),
        "append": store.append(entry, b"x", PLAN),
        "make_dir": store.make_dir(entry, file_mode=None, parents=True),
        "symlink": store.symlink(entry, "f"),
        "move": store.move(source, entry, replace=True),
        "copy": store.copy(source, entry, recursive=False),
    }.items():
        with refuses(PathNotFound, Busy, what=what):
            await call
    source.close()
    entry.close()
    assert await tree(fs) == {"f": b"x", "d": None}


@ROOM.handle_case("an entry is looked up again by every verb", rules=("WRITE-2",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    entry = await store.resolve(_at("f"), "entry")
    assert entry.type is None
    await _write(store, entry, b"one")
    assert (await store.stat(entry)).size == 3
    await store.append(entry, b"!", PLAN)
    await store.set_mode(entry, 0o640)
    await store.set_times(entry, 7, 7)
    stat = await store.stat(entry)
    assert (stat.size, stat.mode, stat.mtime_ns) == (4, 0o640, 7)
    assert await store.remove(entry, recursive=False) == 1
    with refuses(PathNotFound):
        await store.stat(entry)
    await store.symlink(entry, "g")
    assert await store.readlink(entry) == "g"
    entry.close()
    assert await tree(fs) == {"f": "g"}


@ROOM.handle_case("a handle may be closed twice and is of no use then", rules=("LIFE-2",))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.write("f", b"x")
    for look in ("object", "entry"):
        handle = await store.resolve(_at("f"), look)
        handle.close()
        handle.close()
        with refuses(Closed, what=look):
            await store.stat(handle)
    assert await fs.read("f") == b"x"


@ROOM.handle_case("what is known to be missing is missing", rules=("READ-1", "PATH-6"))
async def _(store: Store) -> None:
    if not isinstance(store, KnowsMissing):
        return  # nothing is promised
    entry = await store.resolve(_at("f"), "entry")
    await _write(store, entry, b"0123456789")
    entry.close()
    for text, missing in (("f", False), (".", False), ("missing", True), ("missing/a", True)):
        assert missing or not store.is_missing(_at(text)), text
        assert missing or not store.is_missing(_at("missing"), _at(text)), text
