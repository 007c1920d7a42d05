"""Looking at and changing names through a scope."""

import asyncio
import errno
import os
import threading

import pytest

import bailiwick
from tests.scope.support import place_of, plant, snapshot


@pytest.mark.spec("TREE-2")
async def test_directories_are_made_with_or_without_parents(opening):
    async with opening() as fs:
        made = await fs.make_dir("a", file_mode=0o750)
        assert (made.path, made.changed) == ("a", True)
        assert (await fs.stat("a")).mode == 0o750
        with pytest.raises(bailiwick.FileAlreadyExists):
            await fs.make_dir("a")
        assert not (await fs.make_dir("a", parents=True)).changed
        assert not (await fs.make_dir(".", parents=True)).changed
        with pytest.raises(bailiwick.PathNotFound):
            await fs.make_dir("b/c")
        assert (await fs.make_dir("b/c/d", parents=True)).changed
        assert (await fs.stat("b")).mode == 0o700
        await fs.write_bytes("f", b"")
        for call in (fs.make_dir("f", parents=True), fs.make_dir("f")):
            with pytest.raises(bailiwick.FileAlreadyExists):
                await call
        with pytest.raises(bailiwick.NotADirectory):
            await fs.make_dir("f/x", parents=True)


@pytest.mark.spec("TREE-2")
async def test_removing_is_not_recursive_unless_asked(opening):
    async with opening() as fs:
        await plant(fs, {"f": "", "d/x": "", "d/sub/y": "", "empty": None})
        assert (await fs.remove("f")).count == 1
        assert (await fs.remove("empty")).changed
        with pytest.raises(bailiwick.DirectoryNotEmpty):
            await fs.remove("d")
        assert (await fs.remove("d", recursive=True)).count == 4
        assert await snapshot(fs) == {}
        with pytest.raises(bailiwick.PathNotFound):
            await fs.remove("d")
        for path in ("d", "no/such/place"):
            gone = await fs.remove(path, missing_ok=True)
            assert (gone.changed, gone.count) == (False, 0)


@pytest.mark.spec("LINK-3", "TREE-2")
async def test_remove_and_move_act_on_the_link_itself(opening):
    async with opening() as fs:
        await plant(fs, {"d/f": "x", "link": "-> d", "other": "-> d/f"})
        await fs.remove("link", recursive=True)
        await fs.move("other", "moved")
        assert await snapshot(fs) == {"d": None, "d/f": b"x", "moved": "-> d/f"}


@pytest.mark.spec("TREE-2")
async def test_moving_does_not_replace_unless_asked(opening):
    async with opening() as fs:
        await plant(fs, {"a": "1", "b": "2", "d/x": "", "empty": None, "full/y": ""})
        with pytest.raises(bailiwick.FileAlreadyExists):
            await fs.move("a", "b")
        moved = await fs.move("a", "b", replace=True)
        assert (moved.path, moved.destination, moved.changed) == ("a", "b", True)
        with pytest.raises(bailiwick.DirectoryNotEmpty):
            await fs.move("d", "full", replace=True)
        await fs.move("d", "empty", replace=True)
        with pytest.raises(bailiwick.IsADirectory):
            await fs.move("b", "full", replace=True)
        with pytest.raises(bailiwick.NotADirectory):
            await fs.move("full", "b", replace=True)
        with pytest.raises(bailiwick.PathNotFound):
            await fs.move("b", "no/parent")
        assert await snapshot(fs) == {
            "b": b"1", "empty": None, "empty/x": b"", "full": None, "full/y": b"",
        }  # fmt: skip


@pytest.mark.spec("TREE-3")
async def test_moving_a_thing_onto_itself_changes_nothing(opening):
    async with opening() as fs:
        await plant(fs, {"f": "x", "d/y": "z"})
        for path, same in (("f", "f"), ("d", "./d"), ("f", "d/../f")):
            for replace in (False, True):
                assert not (await fs.move(path, same, replace=replace)).changed
        assert await snapshot(fs) == {"f": b"x", "d": None, "d/y": b"z"}


@pytest.mark.spec("TREE-3")
async def test_a_directory_is_not_moved_or_copied_into_itself(opening):
    async with opening() as fs:
        await plant(fs, {"d/sub/f": "x", "link": "-> d"})
        for to in ("d/x", "d/sub/x", "link/x"):
            for call in (fs.move("d", to), fs.copy("d", to, recursive=True)):
                with pytest.raises(bailiwick.ParseError) as refused:
                    await call
                assert refused.value.errno == errno.EINVAL
        with pytest.raises(bailiwick.ParseError):
            await fs.copy(".", "d/all", recursive=True)
        assert await snapshot(fs) == {
            "d": None, "d/sub": None, "d/sub/f": b"x", "link": "-> d",
        }  # fmt: skip


@pytest.mark.spec("TREE-3")
async def test_the_root_stays(opening):
    async with opening() as fs:
        await plant(fs, {"f": "x", "d": None})
        for call in (
            fs.remove("."), fs.remove(".", recursive=True), fs.remove("d/..", recursive=True),
            fs.move(".", "x"), fs.move("d", ".", replace=True),
        ):  # fmt: skip
            with pytest.raises(bailiwick.BailiwickError) as refused:
                await call
            assert refused.value.kind in ("permission_denied", "file_already_exists")
        with pytest.raises(bailiwick.PermissionDenied) as refused:
            await fs.remove(".", recursive=True)
        assert refused.value.errno == errno.EPERM
        for call in (fs.write_bytes(".", b""), fs.append("/", b""), fs.truncate(".")):
            with pytest.raises(bailiwick.BailiwickError):
                await call
        assert await snapshot(fs) == {"f": b"x", "d": None}


@pytest.mark.spec("TREE-3")
@pytest.mark.parametrize(
    ("path", "number"),
    [("missing", errno.ENOENT), ("f/x", errno.ENOTDIR), ("f/", errno.ENOTDIR)],
)
async def test_errors_are_errno_true(opening, path, number):
    async with opening() as fs:
        await fs.write_bytes("f", b"")
        for call in (fs.stat, fs.lstat, fs.read_bytes, fs.remove, fs.list, fs.readlink):
            with pytest.raises(bailiwick.OperationalError) as refused:
                await call(path)
            assert refused.value.errno == number, call


@pytest.mark.spec("TREE-2", "LINK-6")
async def test_stat_follows_and_lstat_does_not(opening):
    async with opening() as fs:
        await plant(fs, {"d/f": "12345", "link": "-> d/f", "dangling": "-> nothing"})
        followed, itself = await fs.stat("link"), await fs.lstat("link")
        assert (followed.path, followed.type, followed.size) == ("d/f", "file", 5)
        assert (itself.path, itself.type, itself.target) == ("link", "symlink", "d/f")
        assert (await fs.lstat("dangling")).type == "symlink"
        with pytest.raises(bailiwick.PathNotFound):
            await fs.stat("dangling")
        root = await fs.stat(".")
        assert (root.path, root.name, root.type) == (".", "", "directory")
        assert await fs.readlink("link") == "d/f"
        with pytest.raises(bailiwick.ParseError):
            await fs.readlink("d/f")


@pytest.mark.spec("TREE-2")
async def test_exists_answers_and_still_refuses_what_may_not_be_named(opening):
    async with opening() as fs:
        await plant(fs, {"f": "", "d": None, "dangling": "-> nothing"})
        assert await fs.exists("f")
        assert await fs.exists("d/")
        assert await fs.exists(".")
        for path in ("missing", "f/x", "dangling", "no/such/place", "f/"):
            assert not await fs.exists(path), path
        with pytest.raises(bailiwick.PathOutsideWorkspace):
            await fs.exists("../f")
        with pytest.raises(bailiwick.ParseError):
            await fs.exists("")


@pytest.mark.spec("TREE-2")
async def test_modes_and_times_are_set(opening):
    async with opening() as fs:
        await plant(fs, {"f": "x", "d": None, "link": "-> f"})
        for path in ("f", "d"):
            await fs.set_mode(path, 0o750)
            await fs.set_times(path, 1_234_567_890_123_456_789)
            stat = await fs.stat(path)
            assert (stat.mode, stat.mtime_ns) == (0o750, 1_234_567_890_123_456_789)
        for call in (fs.set_mode("link", 0o600), fs.set_times("link", 0)):
            with pytest.raises(bailiwick.SymlinkEscape):
                await call
        for bad in (0o4755, 0o2000, 0o1777, -1, 0o10000):
            with pytest.raises(bailiwick.ParseError):
                await fs.set_mode("f", bad)
        with pytest.raises(bailiwick.PathNotFound):
            await fs.set_mode("missing", 0o600)
        assert (await fs.stat("f")).mode == 0o750


@pytest.mark.spec("TREE-2", "ERR-3")
@pytest.mark.parametrize("time_ns", [2**80, -(2**80)])
async def test_times_no_filesystem_keeps_are_refused(opening, time_ns):
    async with opening() as fs:
        await fs.write_bytes("f", b"")
        for call in (fs.set_times("f", time_ns), fs.set_times("f", 0, atime_ns=time_ns)):
            with pytest.raises(bailiwick.ParseError):
                await call


@pytest.mark.spec("LINK-6")
@pytest.mark.parametrize("text", ["", "   ", "a\0b", "x" * 4097, "\ud800"])
async def test_a_link_has_a_text(opening, text):
    async with opening() as fs:
        with pytest.raises(bailiwick.ParseError):
            await fs.symlink("link", text)
        assert await snapshot(fs) == {}


@pytest.mark.spec("PATH-7", "LINK-6")
async def test_where_a_link_leads_outside_is_not_told(disk):
    async with disk() as fs:
        outside = os.path.dirname(place_of(fs))
        os.symlink(f"{outside}/secret-place", f"{place_of(fs)}/out")
        stat = await fs.lstat("out")
        assert (stat.type, stat.target) == ("symlink", None)
        for call in (fs.readlink("out"), fs.stat("out"), fs.read_text("out"), fs.list("out")):
            with pytest.raises(bailiwick.SymlinkEscape) as refused:
                await call
            assert "secret-place" not in f"{refused.value!r} {refused.value} {refused.value.hint}"
        assert "secret-place" not in repr(await fs.list())


@pytest.mark.spec("PATH-5")
@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "tab\t", "\x7f", "c1\x85"])
async def test_a_new_name_holds_no_control_characters(opening, name):
    async with opening() as fs:
        await fs.write_bytes("f", b"x")
        for call in (
            fs.write_bytes(name, b""), fs.write_stream(name, []), fs.append(name, b""),
            fs.make_dir(name), fs.make_dir(f"{name}/x", parents=True), fs.symlink(name, "f"),
            fs.write_text(f"{name}/x", "", parents=True), fs.move("f", name), fs.copy("f", name),
        ):  # fmt: skip
            with pytest.raises(bailiwick.ParseError) as refused:
                await call
            assert str(refused.value).isprintable()
        assert await snapshot(fs) == {"f": b"x"}


@pytest.mark.spec("PATH-5")
async def test_existing_names_with_control_characters_are_listed_read_and_removed(disk):
    async with disk() as fs:
        os.mkdir(f"{place_of(fs)}/bad\ndir")
        with open(f"{place_of(fs)}/bad\ndir/bell\a", "w") as file:
            file.write("ring")
        entry = (await fs.list()).entries[0]
        assert (entry.name, entry.display) == ("bad\ndir", "bad\\x0adir")
        assert (await fs.read_text("bad\ndir/bell\a")).text == "ring"
        await fs.write_text("bad\ndir/bell\a", "rang")
        await fs.write_text("bad\ndir/fine", "new")
        await fs.write_text("bad\ndir/sub/fine", "new", parents=True)
        with pytest.raises(bailiwick.PathNotFound) as refused:
            await fs.read_text("bad\ndir/missing")
        assert "bad\\x0adir/missing" in str(refused.value)
        assert "\n" not in str(refused.value)
        await fs.move("bad\ndir/bell\a", "good")
        await fs.remove("bad\ndir", recursive=True)
        assert await snapshot(fs) == {"good": b"rang"}


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize(
    "name",
    ["aux.c", "CON", "com¹.txt", "dot.", "space ", "ab:c", "what?", "PROGRA~1", 'q"q', "a|b"],
)
async def test_names_that_windows_dislikes_are_ordinary_unless_names_are_portable(opening, name):
    async with opening() as fs:
        await fs.write_text(name, "x")
        assert (await fs.read_text(name)).text == "x"
    async with opening(names="portable") as fs:
        for call in (
            fs.write_text(name, "x"), fs.make_dir(f"d/{name}", parents=True), fs.read_text(name),
        ):  # fmt: skip
            with pytest.raises(bailiwick.ParseError):
                await call
        assert await snapshot(fs) == {}


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize(
    ("there", "new"), [("Readme", "README"), ("straße", "STRASSE"), ("\u00e9", "e\u0301")]
)
async def test_a_portable_root_refuses_a_name_that_equals_a_sibling(opening, there, new):
    async with opening() as fs:
        await plant(fs, {there: "x", new: "y"})
    async with opening(names="portable") as fs:
        await plant(fs, {there: "x", "f": "z", f"dir/{there}": None})
        before = await snapshot(fs)
        for call in (
            fs.write_text(new, "y"), fs.make_dir(new), fs.symlink(new, "f"), fs.move("f", new),
            fs.copy("f", new), fs.append(new, "y"), fs.make_dir(f"dir/{new}/deep", parents=True),
            fs.write_text(f"dir/{new}/f", "y", parents=True),
        ):  # fmt: skip
            with pytest.raises(bailiwick.FileAlreadyExists):
                await call
        assert await snapshot(fs) == before
        await fs.write_text(there, "again")
        await fs.write_text(f"dir/{there}/f", "again")


@pytest.mark.spec("PATH-4")
async def test_a_portable_name_can_change_its_case(opening):
    async with opening(names="portable") as fs:
        await plant(fs, {"readme": "x"})
        await fs.move("readme", "README")
        assert await snapshot(fs) == {"README": b"x"}


@pytest.mark.slow
@pytest.mark.spec("TREE-4")
@pytest.mark.parametrize("kind", ["file", "directory"])
async def test_whoever_looks_on_sees_one_name_of_what_is_moved(disk, kind):
    """Each thing is moved once, so that its old name gone means its new one there, and its new
    one there means its old one gone: whichever is looked at first."""
    async with disk() as fs:
        place, count = place_of(fs), 300
        for number in range(count):
            path = f"{number}.old" + ("/f" if kind == "directory" else "")
            await fs.write_text(path, str(number), parents=True)
        wrong, seen, started = [], [], threading.Event()

        def look():
            for number in range(count):
                old, new = f"{place}/{number}.old", f"{place}/{number}.new"
                looks = 0
                while True:
                    started.set()
                    looks += 1
                    if not os.path.lexists(old) and not os.path.lexists(new):
                        wrong.append(f"{number} is nowhere")
                    if os.path.lexists(new):
                        if os.path.lexists(old):
                            wrong.append(f"{number} is there twice")
                        break
                seen.append(looks)

        looking = asyncio.create_task(asyncio.to_thread(look))
        await asyncio.to_thread(started.wait)
        for number in range(count):
            await fs.move(f"{number}.old", f"{number}.new")
        await looking
        assert wrong == []
        assert len(seen) == count


@pytest.mark.slow
@pytest.mark.spec("TREE-4")
async def test_a_name_that_is_replaced_by_a_move_is_never_without_content(disk):
    async with disk() as fs:
        place, count = place_of(fs), 300
        await fs.write_text("to", "first")
        wrong, seen, done = [], set(), threading.Event()

        def look():
            while not done.is_set():
                try:
                    with open(f"{place}/to") as file:
                        text = file.read()
                except FileNotFoundError:
                    text = "nothing"
                seen.add(text)
                if text != "first" and not text.endswith("."):
                    wrong.append(text)

        looking = asyncio.create_task(asyncio.to_thread(look))
        for number in range(count):
            await fs.write_text("from", f"{number}.")
            await fs.move("from", "to", replace=True)
            await asyncio.sleep(0)
        done.set()
        await looking
        assert wrong == []
        assert len(seen) > 1
