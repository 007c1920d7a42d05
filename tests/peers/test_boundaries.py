"""Faults of other filesystems for agents at the boundary of a real directory, none of them ours.

Each test is one fault that was seen in the wild; its docstring says what happens there.
"""

import os
import socket

import pytest

import bailiwick
from tests.scope.every_verb import TREE, VERBS
from tests.scope.support import Rules, deny, place_of, plant, records, snapshot, unruled


def _outside(fs, name="outside"):
    """A directory beside the root."""
    directory = os.path.join(os.path.dirname(place_of(fs)), name)
    os.makedirs(directory, exist_ok=True)
    return directory


@pytest.mark.spec("LINK-2", "LINK-3")
async def test_a_dangling_link_outside_is_not_a_file_that_does_not_exist_yet(disk):
    """There the refusal is caught by the branch for new files, and the link is written through."""
    async with disk() as fs:
        outside = _outside(fs)
        os.symlink(f"{outside}/new", f"{place_of(fs)}/link")
        os.symlink(outside, f"{place_of(fs)}/dir")
        for path in ("link", "dir/new"):
            for call in (
                fs.write_text(path, "x"), fs.write_text(path, "x", mode="create"),
                fs.append(path, "x"), fs.write_stream(path, [b"x"]),
                fs.write_text(path, "x", parents=True),
            ):  # fmt: skip
                with pytest.raises(bailiwick.BailiwickError) as refused:
                    await call
                assert refused.value.kind in ("symlink_escape", "file_already_exists")
        with pytest.raises(bailiwick.SymlinkEscape):
            await fs.make_dir("dir/new")
        assert os.listdir(outside) == []


@pytest.mark.spec("PATH-1")
async def test_a_sibling_whose_name_starts_like_the_root_is_outside(disk):
    """There the path is compared as text, without a separator."""
    async with disk() as fs:
        evil = _outside(fs, "root-evil")
        with open(f"{evil}/secret", "w") as file:
            file.write("s")
        for path in (f"{evil}/secret", evil, f"{place_of(fs)}-evil/secret", "../root-evil/secret"):
            for call in (fs.read_text, fs.stat, fs.list):
                with pytest.raises(bailiwick.PathOutsideWorkspace):
                    await call(path)


@pytest.mark.spec("PATH-6")
@pytest.mark.parametrize("name", ["move", "copy", "diff"])
async def test_the_policy_sees_both_paths_of_a_request(opening, name):
    """There it reads one field of the request, and the tool acts on the other."""
    async with opening(policy=Rules(deny("kept"))) as fs:
        await plant(unruled(fs), {"kept/f": "x", "open/f": "y", "kept/g": "z"})
        before = await snapshot(unruled(fs))
        wanted = [("open/f", "kept/g"), ("kept/f", "open/f")]
        if name != "diff":
            wanted += [("open/f", "kept/new"), ("kept/f", "open/new")]
        for path, other in wanted:
            with pytest.raises(bailiwick.PolicyDenied):
                await getattr(fs, name)(path, other)
        assert await snapshot(unruled(fs)) == before


@pytest.mark.spec("PATH-6", "POL-1")
@pytest.mark.parametrize("name", VERBS)
async def test_a_rule_holds_in_every_verb(either, name):
    """There reading bytes, searching, listing or globbing go round it."""
    async with either(policy=Rules(deny("."))) as fs:
        await plant(unruled(fs), TREE)
        with pytest.raises(bailiwick.PolicyDenied):
            await VERBS[name].call(fs)


@pytest.mark.spec("LINK-4")
async def test_a_hard_link_to_an_outside_file_is_neither_read_nor_edited(disk):
    """There it is both: the name is inside, so the file counts as inside."""
    async with disk(hardlinks="reject") as fs:
        secret = f"{_outside(fs)}/secret"
        with open(secret, "w") as file:
            file.write("s")
        os.link(secret, f"{place_of(fs)}/alias")
        for call in (
            fs.read_text("alias"), fs.read_bytes("alias"), fs.edit("alias", old="s", new="t"),
            fs.write_text("alias", "t"), fs.append("alias", "t"), fs.truncate("alias"),
            fs.set_mode("alias", 0o644), fs.copy("alias", "copy"),
        ):  # fmt: skip
            with pytest.raises(bailiwick.HardlinkRefused):
                await call
        assert (await fs.grep("s")).matches == []
        with open(secret) as file:
            assert file.read() == "s"


@pytest.mark.spec("LINK-4")
async def test_a_change_never_goes_through_a_hard_link(disk):
    """There the file is rewritten in place, and with it the one outside."""
    async with disk(hardlinks="allow") as fs:
        secret = f"{_outside(fs)}/secret"
        with open(secret, "w") as file:
            file.write("s")
        changes = (
            lambda: fs.write_text("alias", "t"), lambda: fs.edit("alias", old="s", new="t"),
            lambda: fs.append("alias", "t"), lambda: fs.truncate("alias"),
            lambda: fs.write_stream("alias", [b"t"]),
        )  # fmt: skip
        for change in changes:
            os.link(secret, f"{place_of(fs)}/alias")
            await change()
            with open(secret) as file:
                assert file.read() == "s"
            await fs.remove("alias")


@pytest.mark.spec("LINK-5")
async def test_a_fifo_a_socket_and_a_device_hang_nothing(disk):
    """There the first read of a FIFO stops the server, and devices are read."""
    async with disk() as fs:
        os.mkfifo(f"{place_of(fs)}/fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            here = os.open(place_of(fs), os.O_RDONLY)
            try:
                listening.bind(f"/proc/self/fd/{here}/socket")
            finally:
                os.close(here)
        for path in ("fifo", "socket"):
            for call in (
                fs.read_text(path), fs.read_bytes(path), fs.write_text(path, "x"),
                fs.append(path, "x"), fs.edit(path, old="x", new="y"), fs.truncate(path),
                fs.copy(path, "copy"), fs.grep("x", path), fs.diff(path, text="x"),
                fs.read_json(path), anext(fs.stream(path)),
            ):  # fmt: skip
                with pytest.raises(bailiwick.NotARegularFile):
                    await call
        assert (await fs.grep("x")).matches == []
        assert [entry.type for entry in (await fs.list()).entries] == ["other", "other"]


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize("name", ["thesis.aux", "aux.c", "con.ts", "etc.", "NUL", "a<b>", "x "])
async def test_names_that_only_windows_dislikes_can_be_used(opening, name):
    """There the rules of Windows are applied on Linux, and such files cannot be read."""
    async with opening() as fs:
        await fs.write_text(name, "x")
        assert (await fs.read_text(name)).text == "x"
        assert [entry.name for entry in (await fs.list()).entries] == [name]


@pytest.mark.spec("PATH-3")
async def test_nul_in_a_path_is_the_callers_error(opening):
    """There it is a 500."""
    async with opening() as fs:
        for call in (fs.read_text, fs.stat, fs.list, fs.remove, fs.make_dir, fs.exists, fs.files):
            with pytest.raises(bailiwick.ParseError) as refused:
                await call("a\0b")
            assert refused.value.status == 400


@pytest.mark.spec("PATH-7")
async def test_errors_hold_no_host_path(disk):
    """There the whole path of the operating system's error is passed on to the model."""
    async with disk() as fs:
        await plant(fs, {"f": "x", "d/g": "y", "loop": "-> loop"})
        os.symlink(_outside(fs), f"{place_of(fs)}/out")
        for call in (
            fs.read_text("missing"), fs.read_text("d"), fs.list("f"), fs.remove("d"),
            fs.read_text("loop"), fs.read_text("out/x"), fs.make_dir("f/x", parents=True),
            fs.move("f", "d"), fs.copy("d", "d/x", recursive=True), fs.read_text("/etc/passwd"),
            fs.write_text("out/x", ""), fs.symlink("new", _outside(fs)), fs.readlink("out"),
            fs.write_text("n" * 255 + "/x", ""), fs.remove("."), fs.read_text("f/"),
        ):  # fmt: skip
            with pytest.raises(bailiwick.BailiwickError) as refused:
                await call
            error = refused.value
            said = f"{error} {error!r} {error.path} {error.hint} {error.details} {error.args}"
            assert os.path.dirname(place_of(fs)) not in said
            assert "/etc" not in said


@pytest.mark.spec("AUDIT-1", "EDIT-2")
async def test_records_hold_no_edited_text(opening):
    """There up to 80 characters of the file stand in the hints of the audit."""
    async with opening() as fs:
        await fs.write_text("f", "secret secret\n")
        for old in ("secret", "no such secret"):
            with pytest.raises(bailiwick.BailiwickError):
                await fs.edit("f", old=old, new="public")
        assert "secret" not in repr(records(fs))
        assert "public" not in repr(records(fs))


@pytest.mark.spec("AUDIT-1")
async def test_records_are_kept_without_anyone_asking_for_them():
    """There the emitter is undefined in production, and drops everything."""
    async with bailiwick.open("memory:") as fs:
        await fs.write_text("f", "x")
        assert [record.verb for record in records(fs)] == ["write_text"]


@pytest.mark.spec("AUDIT-1")
async def test_an_attempt_to_get_out_is_on_record(opening):
    """There it is refused before the part that is recorded."""
    async with opening(mount_point="/workspace") as fs:
        for path in ("../../etc/passwd", "/etc/passwd", "C:\\boot.ini", "//server/share"):
            with pytest.raises(bailiwick.PathOutsideWorkspace):
                await fs.read_text(path)
            record = records(fs)[-1]
            assert (record.path, record.outcome) == (path, "denied")
            assert record.error_kind == "path_outside_workspace"


@pytest.mark.spec("WRITE-4")
async def test_a_refused_upload_leaves_no_directories(opening):
    """There they are made first, and then the upload is looked at."""
    async with opening(limits=bailiwick.Limits(max_file_bytes=3)) as fs:
        for call in (
            fs.write_stream("a/b/f", [b"xx", b"xx"], parents=True),
            fs.write_bytes("a/b/f", b"xxxx", parents=True),
            fs.append("a/b/f", b"xxxx", parents=True),
        ):
            with pytest.raises(bailiwick.FileTooLarge):
                await call
        assert await snapshot(fs) == {}


@pytest.mark.spec("DISK-5")
async def test_replaced_content_is_not_setuid(disk):
    """There the new content inherits the bit that was given to the old."""
    async with disk() as fs:
        for change in (
            lambda: fs.write_text("f", "new"), lambda: fs.edit("f", old="x", new="y"),
            lambda: fs.append("f", "y"), lambda: fs.write_stream("f", [b"y"]),
            lambda: fs.truncate("f"), lambda: fs.copy("f", "g"),
        ):  # fmt: skip
            await fs.write_text("f", "x")
            os.chmod(f"{place_of(fs)}/f", 0o6755)
            await change()
            changed = "g" if await fs.exists("g") else "f"
            assert os.stat(f"{place_of(fs)}/{changed}").st_mode & 0o7777 == 0o755


@pytest.mark.spec("TREE-1")
async def test_one_dangling_link_does_not_fail_a_listing(opening):
    """There it does, and what is listed is neither sorted nor paged."""
    async with opening() as fs:
        await plant(fs, {"z": "", "m": "-> nothing", "a": ""})
        page = await fs.list(limit=2)
        assert [entry.name for entry in page.entries] == ["a", "m"]
        assert [e.name for e in (await fs.list(cursor=page.next_cursor)).entries] == ["z"]


@pytest.mark.spec("TREE-5", "TREE-7")
async def test_a_glob_with_a_cap_holds_no_more_than_its_cap(opening):
    """There all matches are collected before the cap is applied, and cut without a word."""
    async with opening() as fs:
        for number in range(30):
            await fs.write_bytes(f"f{number:02}", b"")
        found = await fs.glob("*", limit=5)
        assert found.paths == [f"f{number:02}" for number in range(5)]
        assert (found.truncated, found.omitted) == (True, 25)
