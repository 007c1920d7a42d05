"""Copies within a root, between roots, and from listed directories of the host."""

import asyncio
import os

import pytest

import bailiwick
from bailiwick.limits import Limits
from bailiwick.operations import ALL_ACCESS
from tests.scope.support import (
    Opener,
    Rules,
    deny,
    granted,
    hide,
    plant,
    records,
    snapshot,
    unruled,
)
from tests.waiting import loop_turns

TREE = {"d/f": "x", "d/sub/g": "y", "d/link": "-> sub/g", "d/empty": None}


async def _decorate(fs):
    await plant(fs, TREE)
    await fs.set_mode("d/f", 0o751)
    await fs.set_times("d/f", 10**18)
    await fs.set_mode("d/sub", 0o550)
    await fs.set_times("d/sub", 2 * 10**18)


async def _check_decorated(fs, top):
    tree = {path: content for path, content in (await snapshot(fs)).items() if path.startswith(top)}
    assert tree == {
        top: None, f"{top}/empty": None, f"{top}/f": b"x", f"{top}/link": "-> sub/g",
        f"{top}/sub": None, f"{top}/sub/g": b"y",
    }  # fmt: skip
    file, directory = await fs.stat(f"{top}/f"), await fs.stat(f"{top}/sub")
    assert (file.mode, file.mtime_ns) == (0o751, 10**18)
    assert (directory.mode, directory.mtime_ns) == (0o550, 2 * 10**18)


@pytest.mark.spec("TREE-2")
async def test_a_copy_keeps_links_modes_and_times(opening):
    async with opening() as fs:
        await _decorate(fs)
        result = await fs.copy("d", "copy", recursive=True)
        assert (result.path, result.destination, result.count) == ("d", "copy", 6)
        await _check_decorated(fs, "copy")
        await fs.write_text("copy/f", "changed")
        assert (await fs.read_text("d/f")).text == "x"


@pytest.mark.spec("TREE-2", "TREE-3")
async def test_a_copy_is_to_a_new_name_and_recursive_only_when_asked(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        before = await snapshot(fs)
        for path, to, error in (
            ("d", "copy", bailiwick.IsADirectory), ("d/f", "d/sub", bailiwick.FileAlreadyExists),
            ("d/f", "d/f", bailiwick.FileAlreadyExists), ("missing", "x", bailiwick.PathNotFound),
            ("d/f", "no/parent", bailiwick.PathNotFound), ("d/f", "d/f/x", bailiwick.NotADirectory),
        ):  # fmt: skip
            with pytest.raises(error):
                await fs.copy(path, to)
        assert await snapshot(fs) == before


@pytest.mark.spec("TREE-2")
@pytest.mark.parametrize("other", ["memory", "kernel"])
async def test_a_tree_is_copied_between_roots(opening, tmp_path, other):
    async with opening() as fs, Opener(other, tmp_path)() as source:
        await _decorate(source)
        result = await fs.copy_from(source, "d", "new/place/d", recursive=True, parents=True)
        assert (result.path, result.destination, result.count) == ("d", "new/place/d", 6)
        await _check_decorated(fs, "new/place/d")
        single = await fs.copy_from(source, "d/f", "deep/f", parents=True)
        assert single.count == 1
        assert (await fs.stat("deep/f")).mode == 0o751
        await fs.copy_from(source, "d/link", "links/link", parents=True)
        assert await fs.readlink("links/link") == "sub/g"


@pytest.mark.spec("TREE-2", "WRITE-4")
async def test_a_copy_between_roots_that_is_refused_leaves_nothing(opening):
    async with opening(limits=Limits(max_file_bytes=3)) as fs, opening() as source:
        await plant(source, {"d/a": "1", "d/b": "too large", "f": "too large"})
        await plant(fs, {"there": "x"})
        for path, to, options, error in (
            ("d", "new/d", {"recursive": True, "parents": True}, bailiwick.FileTooLarge),
            ("f", "new/f", {"parents": True}, bailiwick.FileTooLarge),
            ("d", "d", {}, bailiwick.IsADirectory),
            ("d", "no/d", {"recursive": True}, bailiwick.PathNotFound),
            ("d/a", "there", {}, bailiwick.FileAlreadyExists),
            ("missing", "x", {}, bailiwick.PathNotFound),
        ):
            with pytest.raises(error):
                await fs.copy_from(source, path, to, **options)
        assert await snapshot(fs) == {"there": b"x"}


@pytest.mark.spec("AUTH-3", "AUTH-7")
async def test_a_copy_between_roots_needs_read_there_and_write_here(opening):
    async with opening() as fs, opening() as source:
        await plant(source, {"d/a": "1"})
        reader = granted(source, access=frozenset({"read"}))
        writer = granted(fs, access=frozenset({"write"}))
        await writer.copy_from(reader, "d", "copied", recursive=True)
        assert list(await snapshot(fs)) == ["copied", "copied/a"]
        for weaker_reader in (ALL_ACCESS - {"read"}, frozenset()):
            with pytest.raises(bailiwick.MissingAccess):
                await writer.copy_from(granted(source, access=weaker_reader), "d/a", "x")
        with pytest.raises(bailiwick.MissingAccess):
            await granted(fs, access=ALL_ACCESS - {"write"}).copy_from(reader, "d/a", "x")
        assert list(await snapshot(fs)) == ["copied", "copied/a"]


@pytest.mark.spec("AUTH-7")
async def test_an_untrusted_root_can_be_copied_from_but_not_to(opening):
    async with opening() as fs, opening(trusted=False) as untrusted:
        await plant(unruled(untrusted), {"f": "x"})
        await fs.copy_from(untrusted, "f", "f")
        with pytest.raises(bailiwick.UntrustedWorkspace):
            await untrusted.copy_from(fs, "f", "g")


@pytest.mark.spec("AUDIT-1", "AUDIT-5")
async def test_a_copy_between_roots_is_on_record_in_both(opening):
    async with opening() as fs, opening() as source:
        await plant(source, {"d/a": "1"})
        before = len(records(fs)), len(records(source))
        await fs.with_request("r-1").copy_from(source, "d", "copied", recursive=True)
        (here,) = records(fs)[before[0] :]
        (there,) = records(source)[before[1] :]
        assert (here.verb, here.operation, here.path, here.outcome) == (
            "copy_from", "copy", "copied", "success",
        )  # fmt: skip
        assert (there.verb, there.path, there.outcome) == ("copy_from", "d", "success")
        assert here.request_id == there.request_id == "r-1"
        with pytest.raises(bailiwick.PathNotFound) as refused:
            await fs.with_request("r-2").copy_from(source, "missing", "x")
        assert refused.value.request_id == "r-2"
        assert [records(scope)[-1].error_kind for scope in (fs, source)] == ["path_not_found"] * 2


@pytest.mark.spec("POL-4", "PATH-6")
async def test_both_policies_see_every_path_of_a_copy_between_roots(opening):
    tree = {"d/a": "1", "d/kept": "2", "e/gone": "3"}
    async with (
        opening(policy=Rules(deny("new/kept", access={"write"}))) as fs,
        opening(policy=Rules(deny("d/kept", access={"read"}), hide("e/gone"))) as source,
    ):
        await plant(unruled(source), tree)
        with pytest.raises(bailiwick.PolicyDenied) as refused:
            await fs.copy_from(source, "d", "x", recursive=True)
        assert refused.value.path == "d/kept"
        with pytest.raises(bailiwick.BailiwickError):
            await fs.copy_from(source, "e", "x", recursive=True)
        with pytest.raises(bailiwick.PolicyDenied) as refused:
            await fs.copy_from(unruled(source), "d", "new", recursive=True)
        assert refused.value.path == "new/kept"
        assert await snapshot(fs) == {}


@pytest.mark.spec("PATH-4", "PATH-5")
async def test_a_copy_between_roots_keeps_names_portable(opening, tmp_path):
    async with opening(names="portable") as fs, Opener("kernel", tmp_path)() as source:
        await plant(source, {"a/Readme": "", "a/README": "", "b/aux.c": "", "c/fine": ""})
        os.mkdir(f"{source.root.mount_point}/d")
        os.mkdir(f"{source.root.mount_point}/d/bad\n")
        for path, error in (
            ("a", bailiwick.FileAlreadyExists), ("b", bailiwick.ParseError),
            ("d", bailiwick.ParseError),
        ):  # fmt: skip
            with pytest.raises(error):
                await fs.copy_from(source, path, "x", recursive=True)
        assert await snapshot(fs) == {}
        await fs.copy_from(source, "c", "C", recursive=True)


@pytest.mark.spec("TREE-2", "ERR-5")
async def test_copying_in_is_from_listed_directories_only(disk, tmp_path):
    incoming, secret = tmp_path / "incoming", tmp_path / "incoming-secret"
    incoming.mkdir()
    secret.mkdir()
    (incoming / "f").write_text("x")
    (secret / "f").write_text("s")
    (incoming / "out").symlink_to(secret / "f")
    place = disk.place()
    async with bailiwick.open(place, **disk.options({"copy_in": [str(incoming)]})) as fs:
        result = await fs.copy_in(str(incoming / "f"), "in/f", parents=True)
        assert (result.destination, (await fs.read_text("in/f")).text) == ("in/f", "x")
        before = len(records(fs))
        for path, error in (
            (secret / "f", bailiwick.MissingAccess), (tmp_path, bailiwick.MissingAccess),
            ("f", bailiwick.ParseError), (f"{incoming}/../x/f", bailiwick.MissingAccess),
            (incoming / "missing", bailiwick.PathNotFound),
            (incoming / "out", bailiwick.SymlinkEscape),
        ):  # fmt: skip
            with pytest.raises(error) as refused:
                await fs.copy_in(str(path), "new")
            assert "secret" not in str(refused.value)
        assert list(await snapshot(fs)) == ["in", "in/f"]
        made = [(record.verb, record.operation) for record in records(fs)[before:]][:6]
        assert made == [("copy_in", "copy-in")] * 6
        with pytest.raises(bailiwick.MissingAccess):
            await granted(fs, access=ALL_ACCESS - {"write"}).copy_in(str(incoming / "f"), "new")
    async with disk() as fs:
        with pytest.raises(bailiwick.MissingAccess):
            await fs.copy_in(str(incoming / "f"), "new")


@pytest.mark.spec("TREE-2", "LIFE-1")
async def test_a_copy_that_comes_second_removes_nothing_of_the_first(opening):
    """What stands at the destination by the time it is made there is somebody else's."""
    async with opening() as fs, opening() as source:
        await plant(source, {"d/f": "x", "link": "-> d"})
        store, others = fs._pipeline.store, unruled(fs)
        make_dir, symlink = store.make_dir, store.symlink

        async def late_dir(entry, **how):
            store.make_dir = make_dir
            await others.write_text(f"{entry.path}/precious", "x", parents=True)
            return await make_dir(entry, **how)

        async def late_link(entry, target):
            store.symlink = symlink
            await others.write_text(entry.path, "precious")
            return await symlink(entry, target)

        store.make_dir, store.symlink = late_dir, late_link
        for path, to in (("d", "to"), ("link", "file")):
            with pytest.raises(bailiwick.FileAlreadyExists):
                await fs.copy_from(source, path, to, recursive=True)
        assert await snapshot(fs) == {"to": None, "to/precious": b"x", "file": b"precious"}


@pytest.mark.spec("TREE-2", "LIFE-1", "WRITE-4")
async def test_a_copy_that_fails_removes_exactly_what_it_made(opening):
    """Not what others put into its directories, replaced, or made on the way at the same time."""
    async with opening(limits=Limits(max_file_bytes=3)) as fs, opening() as source:
        await plant(source, {"d/a": "1", "d/b/x": "2", "d/c": "-> a", "d/d": "3"})
        await source.write_text("d/z", "too large")
        store, others = fs._pipeline.store, unruled(fs)
        make_dir, readlink = store.make_dir, source._pipeline.store.readlink

        async def with_others(entry, **how):
            if entry.path == "new":
                await make_dir(entry, **how)
            made = await make_dir(entry, **how)
            if entry.path == "new/way/to/b":
                await others.write_text("new/way/to/b/theirs", "y")
            return made

        async def meanwhile(entry):
            await others.write_text("new/way/to/a", "z")
            return await readlink(entry)

        store.make_dir, source._pipeline.store.readlink = with_others, meanwhile
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.copy_from(source, "d", "new/way/to", recursive=True, parents=True)
        assert await snapshot(fs) == {
            "new": None, "new/way": None, "new/way/to": None, "new/way/to/a": b"z",
            "new/way/to/b": None, "new/way/to/b/theirs": b"y",
        }  # fmt: skip


@pytest.mark.spec("TREE-2", "WRITE-4")
async def test_a_directory_that_someone_else_made_on_the_way_stays(opening):
    async with opening(limits=Limits(max_file_bytes=3)) as fs, opening() as source:
        await plant(source, {"d/a": "too large"})
        store = fs._pipeline.store
        make_dir = store.make_dir

        async def with_others(entry, **how):
            if entry.path == "theirs":
                await make_dir(entry, **how)
            return await make_dir(entry, **how)

        store.make_dir = with_others
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.copy_from(source, "d", "theirs/ours/d", recursive=True, parents=True)
        assert await snapshot(fs) == {"theirs": None}


@pytest.mark.spec("LIFE-1")
async def test_a_copy_cancelled_twice_still_leaves_nothing(opening):
    async with opening() as fs, opening() as source:
        await plant(source, {"d/a": "1", "d/b": "2", "d/c": "3"})
        store = fs._pipeline.store
        write_stream, remove = store.write_stream, store.remove
        reached = asyncio.Event()

        async def stuck(entry, chunks, plan):
            if entry.path == "d/c":
                reached.set()
                await asyncio.Event().wait()
            return await write_stream(entry, chunks, plan)

        async def slowly(entry, **how):
            await loop_turns(5)
            return await remove(entry, **how)

        store.write_stream, store.remove = stuck, slowly
        copying = asyncio.create_task(fs.copy_from(source, "d", "d", recursive=True))
        await reached.wait()
        for _ in range(3):
            copying.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await copying
        assert [records(scope)[-1].error_kind for scope in (fs, source)] == ["cancelled"] * 2
        assert await snapshot(fs) == {}
