"""Stores joined under one tree: what is told of it, and what is refused in it."""

import errno

import pytest

import bailiwick
from bailiwick.errors import (
    DirectoryNotEmpty,
    FileAlreadyExists,
    FileTooLarge,
    IsADirectory,
    ParseError,
    PathNotFound,
    PathOutsideWorkspace,
    PermissionDenied,
    ReadOnly,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.driver import StoreDriver
from tests.stores.mounts.trees import joined

pytestmark = pytest.mark.spec("OVER-2")


async def tree(read_only=("books",)):
    """Three mounts: one that can only be read, one two levels down."""
    stores = {"books": MemoryStore(), "team/notes": MemoryStore(), "work": MemoryStore()}
    for name, store in stores.items():
        driver = StoreDriver(store)
        await driver.make_dir("d")
        await driver.write("d/f", f"needle in {name}\n".encode(), file_mode=0o640)
        await driver.symlink("link", "d/f")
    return joined(stores, read_only)


async def test_one_tree_is_listed_walked_and_searched():
    async with bailiwick.open(await tree()) as fs:
        assert [each.name for each in (await fs.list(".")).entries] == ["books", "team", "work"]
        assert [each.name for each in (await fs.list("team")).entries] == ["notes"]
        assert (await fs.find(".", "f")).paths == ["books/d/f", "team/notes/d/f", "work/d/f"]
        assert (await fs.glob("*/d/*")).paths == ["books/d/f", "work/d/f"]
        assert (await fs.files(".")).paths == ["books/d/f", "team/notes/d/f", "work/d/f"]
        found = (await fs.grep("needle", literal=True)).matches
        assert [str(each.path) for each in found] == ["books/d/f", "team/notes/d/f", "work/d/f"]
        assert (await fs.read_text("team/notes/link")).path == "team/notes/d/f"
        first = await fs.list(".", limit=1)
        rest = await fs.list(".", limit=5, cursor=first.next_cursor)
        assert [each.name for each in first.entries + rest.entries] == ["books", "team", "work"]


async def test_what_can_only_be_read_is_told_and_refused():
    async with bailiwick.open(await tree()) as fs:
        for path in ("books/d/new", "books/d/f"):
            with pytest.raises(ReadOnly) as caught:
                await fs.write_text(path, "x")
            assert (caught.value.path, caught.value.errno) == (path, errno.EROFS)
        for act in (
            fs.append("books/d/f", b"x"),
            fs.truncate("books/d/f", 0),
            fs.edit("books/d/f", old="needle", new="x"),
            fs.make_dir("books/new"),
            fs.remove("books/d/f"),
            fs.remove("books/d", recursive=True),
            fs.move("books/d/f", "books/d/g"),
            fs.move("books/d/f", "work/g"),
            fs.move("work/d/f", "books/g"),
            fs.copy("work/d/f", "books/g"),
            fs.copy("work/d", "books/e", recursive=True),
            fs.symlink("books/l", "d"),
            fs.set_mode("books/d/f", 0o600),
            fs.set_times("books/d/f", mtime_ns=1),
        ):
            with pytest.raises(ReadOnly):
                await act
        stat = await fs.stat("books/d/f")
        assert (stat.read_only, stat.mode & 0o777) == (True, 0o440)
        stat = await fs.stat("work/d/f")
        assert (stat.read_only, stat.mode & 0o777) == (False, 0o640)
        told = {str(each.path): each.read_only for each in (await fs.list(".")).entries}
        assert told == {"books": True, "team": True, "work": False}
        assert (await fs.list("books/d")).entries[0].read_only
        found = (await fs.find(".", "f")).matches
        assert [each.read_only for each in found] == [True, False, False]
        assert (await fs.read_text("books/d/f")).text == "needle in books\n"


async def test_a_mount_point_stays():
    async with bailiwick.open(await tree()) as fs:
        for act in (
            fs.remove("work", recursive=True),
            fs.remove("work"),
            fs.remove("team", recursive=True),
            fs.remove("team/notes", recursive=True),
            fs.move("work", "team/notes/w"),
            fs.move("team", "work/t"),
            fs.move("work", "other"),
            fs.move("work/d", "team/notes", replace=True),
            fs.set_mode("work", 0o700),
        ):
            with pytest.raises((PermissionDenied, DirectoryNotEmpty)) as caught:
                await act
            if isinstance(caught.value, PermissionDenied):
                assert caught.value.errno == errno.EBUSY
        for act in (fs.write_text("work", "x"), fs.write_text("team", "x"), fs.append("work", b"")):
            with pytest.raises(IsADirectory):
                await act
        for act in (fs.make_dir("work"), fs.make_dir("team"), fs.copy("work/d/f", "team/notes")):
            with pytest.raises(FileAlreadyExists):
                await act
        assert not (await fs.make_dir("team/notes", parents=True)).changed
        assert [str(each) for each in (await fs.files(".")).paths] == [
            "books/d/f", "team/notes/d/f", "work/d/f",
        ]  # fmt: skip


async def test_nothing_is_made_beside_the_mounts():
    async with bailiwick.open(await tree()) as fs:
        for act in (
            fs.write_text("new", "x"),
            fs.write_text("team/new", "x"),
            fs.write_text("a/b/c", "x", parents=True),
            fs.make_dir("new"),
            fs.symlink("new", "work"),
            fs.copy("work/d/f", "new"),
            fs.move("work/d/f", "team/f"),
        ):
            with pytest.raises(ReadOnly):
                await act
        with pytest.raises(PathNotFound):
            await fs.write_text("a/b/c", "x")
        for path in ("new", "team/new", "workx", "work2/d/f"):
            with pytest.raises(PathNotFound):
                await fs.read_bytes(path)
            assert not await fs.exists(path)


async def test_a_move_to_another_mount_is_refused_and_a_copy_is_made():
    async with bailiwick.open(await tree()) as fs:
        for source in ("work/d/f", "work/d", "work/link"):
            with pytest.raises(Unsupported) as caught:
                await fs.move(source, "team/notes/new")
            assert caught.value.details == {"mounts": ["work", "team/notes"]}
        assert (await fs.copy("work/d/f", "team/notes/f")).count == 1
        stat = await fs.stat("team/notes/f")
        assert (stat.size, stat.mode & 0o777) == (15, 0o640)
        assert stat.mtime_ns == (await fs.stat("work/d/f")).mtime_ns
        await fs.symlink("work/d/l", "f")
        assert (await fs.copy("work/d", "team/notes/w", recursive=True)).count == 3
        assert await fs.readlink("team/notes/w/l") == "f"
        assert (await fs.read_text("team/notes/w/l")).text == "needle in work\n"
        copied = await fs.copy("books/d", "work/books", recursive=True)
        assert copied.count == 2
        assert (await fs.stat("work/books/f")).mode & 0o777 == 0o640
        with pytest.raises(FileAlreadyExists):
            await fs.copy("books/d", "work/books", recursive=True)
        with pytest.raises(IsADirectory):
            await fs.copy("books/d", "work/more")


async def test_a_copy_that_fails_leaves_nothing():
    async with bailiwick.open(await tree()) as fs:
        await fs.symlink("work/d/out", "../../books/d/f")
        copied = await fs.copy("work/d", "team/notes/w", recursive=True)
        assert copied.count == 3  # a link is data in memory, and leads nowhere there either
        with pytest.raises(SymlinkEscape):
            await fs.read_bytes("team/notes/w/out")
    limits = bailiwick.Limits(max_file_bytes=20)
    stores = {"here": MemoryStore(), "there": MemoryStore()}
    await StoreDriver(stores["here"]).write("d/f", b"x", parents=True)
    await StoreDriver(stores["here"]).write("d/large", b"x" * 21)
    async with bailiwick.open(joined(stores, limits=limits)) as fs:
        for source in ("here/d", "here/d/large"):
            with pytest.raises(FileTooLarge):
                await fs.copy(source, "there/new", recursive=True)
            assert (await fs.list("there")).entries == []


async def test_no_path_and_no_link_leads_from_one_mount_into_another():
    async with bailiwick.open(await tree()) as fs:
        for number, text in enumerate(
            ("../books/d/f", "../../books/d/f", "../team/notes/d/f", "d/../../books/d/f")
        ):
            await fs.symlink(f"work/l{number}", text)
            with pytest.raises(SymlinkEscape):
                await fs.read_bytes(f"work/l{number}")
            with pytest.raises(SymlinkEscape):
                await fs.write_bytes(f"work/l{number}", b"x")
        await fs.symlink("work/absolute", "/d/f")
        assert (await fs.read_text("work/absolute")).path == "work/d/f"
        await fs.symlink("work/elsewhere", "/books/d/f")
        with pytest.raises(PathNotFound):
            await fs.read_bytes("work/elsewhere")
        await fs.symlink("work/up", "..")
        with pytest.raises(SymlinkEscape):
            await fs.read_bytes("work/up/books/d/f")
        # A path is collapsed before anything is looked up: it names the other mount, plainly.
        assert (await fs.read_text("work/../books/d/f")).path == "books/d/f"
        with pytest.raises(PathOutsideWorkspace):
            await fs.read_bytes("work/../../books/d/f")


def test_mounts_lie_beside_each_other():
    for names in (("a", "a/b"), ("a/b", "a")):
        with pytest.raises(ParseError):
            joined({name: MemoryStore() for name in names})
    with pytest.raises(ParseError):
        joined({".": MemoryStore()})
