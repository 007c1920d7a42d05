"""Links: what is followed, what is not, and what never happens through one."""

from __future__ import annotations

from bailiwick.errors import (
    FileAlreadyExists,
    NotADirectory,
    ParseError,
    PathNotFound,
    SymlinkEscape,
    TooManyLinks,
)
from bailiwick.testing.contract.case import CaseRoom, names, refuses, tree
from bailiwick.testing.contract.names import ALL_VERBS
from bailiwick.testing.driver import Driver

ROOM = CaseRoom()

HOPS_MAX = 40


@ROOM.case("a link to a file is followed by read and stat", rules=("LINK-2", "LINK-6"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"hello")
    await fs.symlink("l", "f")
    assert await fs.read("l") == b"hello"
    assert b"".join([chunk async for chunk in fs.stream("l")]) == b"hello"
    stat = await fs.stat("l")
    assert (stat.type, stat.size, stat.target) == ("file", 5, None)


@ROOM.case("lstat and readlink speak of the link itself", rules=("LINK-6",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"hello")
    await fs.symlink("l", "./f")
    stat = await fs.lstat("l")
    assert (stat.type, stat.size, stat.target) == ("symlink", 3, "./f")
    assert (stat.path, stat.name) == ("l", "l")
    assert await fs.readlink("l") == "./f"


@ROOM.case("a link is listed as a link", rules=("TREE-1", "LINK-6"))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    await fs.symlink("dangling", "nothing")
    await fs.symlink("to-d", "d")
    listed = [(entry.name, entry.type) for entry in await fs.entries(".")]
    assert listed == [("d", "directory"), ("dangling", "symlink"), ("to-d", "symlink")]


@ROOM.case("a link to a directory is followed in the middle of a path", rules=("LINK-2",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    await fs.write("d/f", b"1")
    await fs.symlink("l", "d")
    assert await fs.read("l/f") == b"1"
    assert await names(fs, "l") == ["f"]
    await fs.write("l/new", b"2")
    await fs.make_dir("l/sub/deeper", parents=True)
    await fs.append("l/f", b"1")
    await fs.move("l/new", "l/moved")
    await fs.copy("l/moved", "l/sub/copied")
    await fs.symlink("l/link", "f")
    assert await fs.remove("l/moved") == 1
    assert await tree(fs, "d") == {
        "d/f": b"11", "d/link": "f", "d/sub": None, "d/sub/copied": b"2", "d/sub/deeper": None,
    }  # fmt: skip


@ROOM.case("what is reached through a link has its own name", rules=("PATH-6",))
async def _(fs: Driver) -> None:
    await fs.write("d/e/f", b"x", parents=True)
    await fs.symlink("l", "d/e")
    await fs.symlink("d/k", "e/f")
    assert (await fs.stat("l/f")).path == "d/e/f"
    assert (await fs.lstat("l/f")).path == "d/e/f"
    assert (await fs.stat("d/k")).path == "d/e/f"
    assert (await fs.stat("d/k")).name == "f"
    assert (await fs.lstat("d/k")).path == "d/k"


@ROOM.case("a relative target starts at the link's own directory", rules=("LINK-6",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"wrong")
    await fs.write("d/f", b"right", parents=True)
    await fs.write("top", b"up")
    await fs.symlink("d/l", "f")
    await fs.symlink("d/up", "../top")
    await fs.symlink("far", "d/l")
    assert await fs.read("d/l") == b"right"
    assert await fs.read("d/up") == b"up"
    assert await fs.read("far") == b"right"


@ROOM.case("dots in a link's text are physical", rules=("PATH-2", "LINK-2"))
async def _(fs: Driver) -> None:
    await fs.write("x", b"lexical")
    await fs.write("a/x", b"physical", parents=True)
    await fs.make_dir("a/b")
    await fs.symlink("to-b", "a/b")
    await fs.symlink("l", "to-b/../x")
    await fs.symlink("odd", ".//a/./b//../x")
    assert await fs.read("l") == b"physical"
    assert await fs.read("odd") == b"physical"


@ROOM.case("dots typed by a caller are lexical", rules=("PATH-2",))
async def _(fs: Driver) -> None:
    await fs.write("x", b"lexical")
    await fs.write("a/x", b"physical", parents=True)
    await fs.make_dir("a/b")
    await fs.symlink("to-b", "a/b")
    assert await fs.read("to-b/../x") == b"lexical"
    assert await fs.read("missing/../x") == b"lexical"


@ROOM.case("a link may lead to the root itself", rules=("LINK-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.make_dir("d")
    await fs.symlink("d/up", "..")
    await fs.symlink("here", ".")
    assert await fs.read("d/up/f") == b"x"
    assert await fs.read("d/up/d/up/f") == b"x"
    assert (await fs.stat("here")).path == "."
    assert await names(fs, "d/up") == ["d", "f", "here"]


@ROOM.case("forty links are followed and one more is too many", rules=("LINK-2",))
async def _(fs: Driver) -> None:
    await fs.write("l0", b"end")
    for number in range(1, HOPS_MAX + 2):
        await fs.symlink(f"l{number}", f"l{number - 1}")
    assert await fs.read(f"l{HOPS_MAX}") == b"end"
    with refuses(TooManyLinks):
        await fs.read(f"l{HOPS_MAX + 1}")


@ROOM.case("hops are counted over the whole path", rules=("LINK-2",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    await fs.write("d/f", b"x")
    await fs.symlink("d/s", ".")
    assert await fs.read("d/" + "s/" * HOPS_MAX + "f") == b"x"
    with refuses(TooManyLinks):
        await fs.read("d/" + "s/" * (HOPS_MAX + 1) + "f")


@ROOM.case("a loop of links is too many links", rules=("LINK-2", "TREE-3"))
async def _(fs: Driver) -> None:
    await fs.symlink("self", "self")
    await fs.symlink("ping", "pong")
    await fs.symlink("pong", "ping")
    for path in ("self", "ping", "pong", "self/f", "ping/f"):
        with refuses(TooManyLinks, what=path):
            await fs.stat(path)
    with refuses(TooManyLinks):
        await fs.write("self/f", b"x", parents=True)
    assert await fs.readlink("self") == "self"
    assert await fs.remove("self") == 1


@ROOM.case("a dangling link is there but leads to nothing", rules=("LINK-2", "LINK-6"))
async def _(fs: Driver) -> None:
    await fs.symlink("l", "nothing")
    for verb in ("read", "stream", "stat", "entries"):
        with refuses(PathNotFound, what=verb):
            await ALL_VERBS[verb](fs, "l")
    assert (await fs.lstat("l")).target == "nothing"
    assert await fs.readlink("l") == "nothing"


@ROOM.case("no parent is made through a dangling link", rules=("LINK-3", "WRITE-4"))
async def _(fs: Driver) -> None:
    await fs.symlink("l", "nothing")
    with refuses(PathNotFound):
        await fs.write("l/f", b"x", parents=True)
    with refuses(PathNotFound):
        await fs.make_dir("l/d", parents=True)
    assert await tree(fs) == {"l": "nothing"}


@ROOM.case("a link to a file is no directory", rules=("TREE-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.symlink("l", "f")
    await fs.symlink("slash", "f/")
    with refuses(NotADirectory):
        await fs.read("l/x")
    with refuses(NotADirectory):
        await fs.entries("l")
    with refuses(NotADirectory):
        await fs.stat("l/")
    with refuses(NotADirectory):
        await fs.read("slash")


@ROOM.case("nothing is changed through a final link", rules=("LINK-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"old", file_mode=0o640)
    await fs.symlink("l", "f")
    await fs.symlink("dangling", "new")
    before = await fs.stat("f")
    for verb in ("write", "write_stream", "append", "truncate", "set_mode", "set_times"):
        for path in ("l", "dangling"):
            with refuses(SymlinkEscape, what=f"{verb} of {path}"):
                await ALL_VERBS[verb](fs, path)
    assert await tree(fs) == {"f": b"old", "l": "f", "dangling": "new"}
    assert await fs.stat("f") == before


@ROOM.case("a link takes a name like anything else", rules=("WRITE-2", "TREE-3"))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    await fs.symlink("l", "d")
    await fs.write("there", b"x")
    for verb in ("make_dir", "make_dir with parents", "symlink", "move to", "copy to"):
        with refuses(FileAlreadyExists, what=verb):
            await ALL_VERBS[verb](fs, "l")
    with refuses(FileAlreadyExists):
        await fs.write("l", b"x", mode="create")
    assert await tree(fs) == {"d": None, "l": "d", "there": b"x"}


@ROOM.case("remove takes the link and leaves what it leads to", rules=("LINK-3",))
async def _(fs: Driver) -> None:
    await fs.write("d/f", b"x", parents=True)
    await fs.symlink("to-d", "d")
    await fs.symlink("to-f", "d/f")
    await fs.symlink("dangling", "nothing")
    assert await fs.remove("to-d", recursive=True) == 1
    assert await fs.remove("to-f") == 1
    assert await fs.remove("dangling") == 1
    assert await tree(fs) == {"d": None, "d/f": b"x"}


@ROOM.case("a link with a trailing slash is no directory to remove or move", rules=("PATH-2",))
async def _(fs: Driver) -> None:
    await fs.write("d/f", b"x", parents=True)
    await fs.symlink("l", "d")
    with refuses(NotADirectory):
        await fs.remove("l/", recursive=True)
    with refuses(NotADirectory):
        await fs.move("l/", "m")
    assert await tree(fs) == {"d": None, "d/f": b"x", "l": "d"}


@ROOM.case("move gives the link another name", rules=("LINK-3",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.symlink("l", "f")
    await fs.make_dir("d")
    assert await fs.move("l", "d/l")
    assert await tree(fs) == {"f": b"x", "d": None, "d/l": "f"}


@ROOM.case("copy makes another link", rules=("TREE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.symlink("l", "f")
    await fs.symlink("dangling", "nothing")
    assert await fs.copy("l", "m") == 1
    assert await fs.copy("dangling", "n", recursive=True) == 1
    assert await fs.readlink("m") == "f"
    assert await fs.readlink("n") == "nothing"


@ROOM.case("recursive verbs never descend through a link", rules=("LINK-3",))
async def _(fs: Driver) -> None:
    await fs.write("keep/f", b"x", parents=True)
    await fs.make_dir("d")
    await fs.symlink("d/out", "../keep")
    await fs.symlink("d/cycle", "..")
    assert await fs.copy("d", "e", recursive=True) == 3
    assert await fs.remove("d", recursive=True) == 3
    assert await tree(fs) == {
        "keep": None, "keep/f": b"x", "e": None, "e/out": "../keep", "e/cycle": "..",
    }  # fmt: skip


@ROOM.case("a link's text is neither empty nor blank nor over long", rules=("LINK-6",))
async def _(fs: Driver) -> None:
    for text in ("", " ", "\t\n", "a\0b", "\udcff", "d/" * 2048 + "d"):
        with refuses(ParseError, what=repr(text[:8])):
            await fs.symlink("l", text)
    assert await names(fs) == []
    longest_everywhere = "d/" * 2047 + "d"  # 4095 bytes: Linux counts the NUL that ends it
    await fs.symlink("l", longest_everywhere)
    assert await fs.readlink("l") == longest_everywhere


@ROOM.case("readlink of something else is a mistake of the caller", rules=("LINK-6",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    for path in ("f", "."):
        with refuses(ParseError, what=path):
            await fs.readlink(path)


@ROOM.case("an absolute link starts at the mount point", rules=("LINK-2",))
async def _(fs: Driver) -> None:
    await fs.write("d/f", b"x", parents=True)
    await fs.symlink("d/l", "/d/f")
    await fs.symlink("top", "/")
    assert await fs.read("d/l") == b"x"
    assert await fs.read("top/d/f") == b"x"
    assert (await fs.stat("top")).path == "."


@ROOM.case("an absolute link is not made", rules=("LINK-2", "LINK-6"))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    for text in ("/f", "/", "/etc/hostname", "//f"):
        with refuses(SymlinkEscape, what=text):
            await fs.symlink("l", text)
    assert await names(fs) == ["f"]


@ROOM.case("a link that leads outside is made and never followed", rules=("LINK-2", "LINK-6"))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    for name, text in {"d/a": "../../x", "b": "..", "c": "d/../../d"}.items():
        await fs.symlink(name, text)
        assert await fs.readlink(name) == text
        for verb in ("read", "stat", "entries"):
            with refuses(SymlinkEscape, what=f"{verb} of {text}"):
                await ALL_VERBS[verb](fs, name)
        with refuses(SymlinkEscape):
            await fs.write(f"{name}/f", b"x", parents=True)
        assert await fs.remove(name) == 1
    assert await tree(fs) == {"d": None}


@ROOM.case("a link that leads outside is not made", rules=("LINK-6",))
async def _(fs: Driver) -> None:
    await fs.make_dir("d")
    for name, text in {"d/a": "../../x", "b": "..", "c": "d/../../d", "e": "../d"}.items():
        with refuses(SymlinkEscape, what=text):
            await fs.symlink(name, text)
    assert await tree(fs) == {"d": None}


async def _plant_links(fs: Driver) -> None:
    await fs.write("d/f", b"x", parents=True)
    await fs.symlink("to-d", "d")
    await fs.symlink("to-f", "d/f")
    await fs.symlink("loop", "loop")
    await fs.symlink("dangling", "nothing")


@ROOM.case(
    "where links are rejected none is followed",
    rules=("LINK-1", "LINK-2"),
    symlinks="reject",
    plant=_plant_links,
)
async def _(fs: Driver) -> None:
    before = await tree(fs)
    for path in ("to-f", "loop", "dangling"):
        for verb in ("read", "stream", "stat", "entries", "write", "append", "truncate"):
            with refuses(SymlinkEscape, what=f"{verb} of {path}"):
                await ALL_VERBS[verb](fs, path)
    for path in ("to-d/f", "to-d/new", "to-f/x", "loop/x", "dangling/x"):
        for verb, call in ALL_VERBS.items():
            if verb not in ("move to", "copy to"):
                with refuses(SymlinkEscape, what=f"{verb} of {path}"):
                    await call(fs, path)
    assert await tree(fs) == before


@ROOM.case(
    "where links are rejected they can still be seen and removed",
    rules=("LINK-1",),
    symlinks="reject",
    plant=_plant_links,
)
async def _(fs: Driver) -> None:
    assert await names(fs) == ["d", "dangling", "loop", "to-d", "to-f"]
    assert (await fs.lstat("to-d")).type == "symlink"
    assert await fs.readlink("to-d") == "d"
    assert await fs.read("d/f") == b"x"
    for name in ("dangling", "loop", "to-d", "to-f"):
        assert await fs.remove(name, recursive=True) == 1
    assert await tree(fs) == {"d": None, "d/f": b"x"}


@ROOM.case("where links are rejected none is made", rules=("LINK-1",), symlinks="reject")
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    with refuses(SymlinkEscape):
        await fs.symlink("l", "f")
    assert await names(fs) == ["f"]
