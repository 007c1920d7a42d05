"""What was changed in a working copy comes back as one change, or is told why not."""

import hashlib

import pytest

import bailiwick
from tests.working_copies.support import CopyByHand

PLACES = ["disk", "history", "memory", "volume"]


@pytest.fixture(params=PLACES)
def opened(request, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    place, options = {
        "disk": (str(root), {}),
        "history": (str(root), {"history": "on"}),
        "memory": ("memory:", {}),
        "volume": (f"sqlite:{tmp_path / 'agent.db'}", {}),
    }[request.param]
    if request.param in ("disk", "history"):
        options["state_dir"] = str(tmp_path / "state")
    return lambda: bailiwick.open(place, **options)


async def test_all_of_it_comes_back_as_one_change(opened):
    async with opened() as fs:
        await fs.write_text("kept", "as it was\n")
        await fs.write_text("changed", "old\n")
        await fs.write_text("gone", "gone soon\n")
        await fs.write_text("d/inner", "inner\n", parents=True)
        copy = CopyByHand(fs)
        await copy.write("changed", b"new\n", 0o755)
        await copy.remove("gone")
        await copy.remove("d")
        await copy.remove("d/inner")
        await copy.make_dir("made")
        await copy.write("made/new", b"hello\n")
        await copy.link("link", "made/new")
        result = await fs.with_request("r-1")._bring_back(copy, "atomic")
        assert not result.conflicts
        assert not result.withheld
        told = {(str(each.path), each.kind) for each in result.changes}
        assert told == {
            ("changed", "updated"), ("gone", "deleted"), ("d", "deleted"), ("made", "created"),
            ("link", "created"), ("d/inner", "deleted"), ("made/new", "created"),
        }  # fmt: skip
        assert (await fs.read_bytes("changed")).data == b"new\n"
        assert (await fs.stat("changed")).mode & 0o777 == 0o755
        assert not await fs.exists("gone")
        assert not await fs.exists("d")
        assert (await fs.read_bytes("made/new")).data == b"hello\n"
        assert await fs.readlink("link") == "made/new"
        assert (await fs.read_bytes("kept")).data == b"as it was\n"
        assert copy.altered == {}
        assert copy.notes[-1] is None


async def test_undone_by_its_request(opened):
    async with opened() as fs:
        if "history" not in fs.powers:
            return
        await fs.write_text("a", "old\n")
        copy = CopyByHand(fs)
        await copy.write("a", b"new\n")
        await copy.make_dir("d")
        await copy.write("d/b", b"b\n")
        await fs.with_request("r-7")._bring_back(copy, "atomic")
        await fs.undo("r-7")
        assert (await fs.read_bytes("a")).data == b"old\n"
        assert not await fs.exists("d")


async def test_what_others_changed_meanwhile_stays(opened):
    async with opened() as fs:
        await fs.write_text("theirs", "old\n")
        await fs.write_text("ours", "old\n")
        await fs.write_text("removed", "old\n")
        copy = CopyByHand(fs)
        await copy.write("theirs", b"from the program\n")
        await copy.write("ours", b"from the program\n")
        await copy.write("new", b"from the program\n")
        await copy.remove("removed")
        await fs.write_text("theirs", "from a person\n")
        await fs.write_text("new", "from a person\n")
        await fs.write_text("removed", "from a person\n")
        result = await fs._bring_back(copy, "atomic")
        assert {str(each.path) for each in result.conflicts} == {"theirs", "new", "removed"}
        assert result.changes == []
        assert (await fs.read_bytes("ours")).data == b"old\n"
        result = await fs._bring_back(copy, "partial")
        assert [str(each.path) for each in result.changes] == ["ours"]
        assert (await fs.read_bytes("ours")).data == b"from the program\n"
        for name in ("theirs", "new", "removed"):
            assert (await fs.read_bytes(name)).data == b"from a person\n"
        assert set(copy.altered) == {"theirs", "new", "removed"}


async def test_a_directory_that_others_put_something_into_stays(opened):
    async with opened() as fs:
        await fs.write_text("d/a", "old\n", parents=True)
        copy = CopyByHand(fs)
        await copy.remove("d")
        await copy.remove("d/a")
        await fs.write_text("d/b", "from a person\n")
        result = await fs._bring_back(copy, "atomic")
        assert [str(each.path) for each in result.conflicts] == ["d"]
        assert await fs.exists("d/a")
        assert await fs.exists("d/b")


async def test_what_became_the_same_by_itself_is_settled(opened):
    async with opened() as fs:
        copy = CopyByHand(fs)
        await copy.write("a", b"same\n", 0o600)
        await fs.write_bytes("a", b"same\n", file_mode=0o600)
        result = await fs._bring_back(copy, "atomic")
        assert result.changes == []
        assert result.conflicts == []
        assert copy.altered == {}


async def test_another_name_is_a_move(opened):
    async with opened() as fs:
        await fs.write_bytes("a", b"one and the same\n", file_mode=0o644)
        await fs.make_dir("d", file_mode=0o755)
        await fs.write_bytes("d/x", b"x\n", file_mode=0o644)
        await fs.make_dir("d/e", file_mode=0o755)
        await fs.write_bytes("d/e/y", b"y\n", file_mode=0o644)
        copy = CopyByHand(fs)
        for path in ("a", "d", "d/x", "d/e", "d/e/y"):
            await copy.remove(path)
        await copy.write("b", b"one and the same\n")
        await copy.make_dir("f")
        await copy.write("f/x", b"x\n")
        await copy.make_dir("f/e")
        await copy.write("f/e/y", b"y\n")
        result = await fs._bring_back(copy, "atomic")
        told = {(str(each.origin), str(each.path), each.kind) for each in result.changes}
        assert told == {("a", "b", "moved"), ("d", "f", "moved")}
        assert (await fs.read_bytes("f/e/y")).data == b"y\n"
        assert (await fs.read_bytes("b")).data == b"one and the same\n"
        assert not await fs.exists("d")
        assert not await fs.exists("a")


async def test_one_kind_takes_the_place_of_another(opened):
    async with opened() as fs:
        await fs.write_text("file", "f\n")
        await fs.write_text("dir/inner", "i\n", parents=True)
        await fs.symlink("link", "file")
        copy = CopyByHand(fs)
        await copy.make_dir("file")
        await copy.write("file/inner", b"now a directory\n")
        await copy.remove("dir/inner")
        await copy.write("dir", b"now a file\n")
        await copy.write("link", b"no link any more\n")
        result = await fs._bring_back(copy, "atomic")
        assert not result.conflicts
        assert not result.withheld
        assert (await fs.read_bytes("file/inner")).data == b"now a directory\n"
        assert (await fs.read_bytes("dir")).data == b"now a file\n"
        assert (await fs.lstat("link")).type == "file"


async def test_modes_alone_and_directories_that_keep_all_out(opened):
    async with opened() as fs:
        await fs.write_bytes("a", b"a", file_mode=0o644)
        copy = CopyByHand(fs)
        await copy.write("a", b"a", 0o755)
        await copy.make_dir("closed", 0o500)
        await copy.write("closed/f", b"f", 0o400)
        result = await fs._bring_back(copy, "atomic")
        assert not result.conflicts
        assert not result.withheld
        assert (await fs.stat("a")).mode & 0o777 == 0o755
        assert (await fs.stat("closed")).mode & 0o777 == 0o500
        assert (await fs.stat("closed/f")).mode & 0o777 == 0o400


async def test_a_link_that_leads_out_is_refused(opened):
    async with opened() as fs:
        copy = CopyByHand(fs)
        await copy.link("up", "../../secret")
        await copy.link("absolute", "/etc/hostname")
        await copy.write("good", b"good\n")
        result = await fs._bring_back(copy, "atomic")
        assert {(each.path, each.error_kind) for each in result.withheld} == {
            ("up", "symlink_escape"), ("absolute", "symlink_escape")
        }  # fmt: skip
        assert not await fs.exists("good")
        result = await fs._bring_back(copy, "partial")
        assert [str(each.path) for each in result.changes] == ["good"]
        assert not await _there(fs, "up")


async def _there(fs, path):
    try:
        await fs.lstat(path)
    except FileNotFoundError:
        return False
    return True


async def test_what_depends_on_something_refused_is_withheld_with_it(opened):
    async with opened() as fs:
        await fs.write_text("d/theirs", "old\n", parents=True)
        await fs.write_text("d/ours", "old\n")
        copy = CopyByHand(fs)
        for path in ("d", "d/theirs", "d/ours"):
            await copy.remove(path)
        await fs.write_text("d/theirs", "from a person\n")
        result = await fs._bring_back(copy, "partial")
        assert {str(each.path) for each in result.conflicts} == {"d/theirs"}
        assert [str(each.path) for each in result.changes] == ["d/ours"]
        assert (await fs.read_bytes("d/theirs")).data == b"from a person\n"


async def test_content_that_is_not_what_was_shown_is_not_published(opened):
    async with opened() as fs:
        await fs.write_text("a", "old\n")
        copy = CopyByHand(fs)
        await copy.write("a", b"shown\n")
        await copy.write("b", b"shown\n")
        copy.contents["b"] = b"other\n"
        result = await fs._bring_back(copy, "atomic")
        assert [(each.path, each.error_kind) for each in result.withheld] == [
            ("b", "policy_denied")
        ]
        assert (await fs.read_bytes("a")).data == b"old\n"
        assert not await fs.exists("b")


ELSEWHERE = {
    "changed by others": ("final", 1),
    "in what others removed": ("d/final", 1),
    "a name that no root can hold": ("a\nb", None),
    "more than is looked at": ("large", None),
}


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("where", ELSEWHERE)
async def test_what_was_moved_to_where_it_cannot_come_does_not_go(opened, where):
    name, conflicts = ELSEWHERE[where]
    async with opened() as fs:
        await fs.write_text("draft", "all of my work\n")
        await fs.write_text("old", "out of date\n")
        await fs.write_text("empty", "")
        await fs.make_dir("d")
        copy = CopyByHand(fs)
        for path in ("draft", "old", "empty"):
            await copy.remove(path)
        if conflicts:
            await copy.write(name, b"all of my work\n")
            await (fs.remove("d") if "/" in name else fs.write_text(name, "from a person\n"))
        else:
            sha256 = None if name == "large" else hashlib.sha256(b"all of my work\n").hexdigest()
            copy.unfit.append((name, where, len("all of my work\n"), sha256))
        result = await fs._bring_back(copy, "partial")
        assert {(each.path, each.kind) for each in result.changes} == {
            ("old", "deleted"), ("empty", "deleted"),
        }  # fmt: skip
        assert "draft" in {each.path for each in result.withheld}
        assert len(result.conflicts) == (conflicts or 0)
        assert (await fs.read_bytes("draft")).data == b"all of my work\n"
        assert "draft" in copy.altered


async def test_what_comes_to_another_place_as_well_may_go(opened):
    async with opened() as fs:
        await fs.write_text("draft", "all of my work\n")
        copy = CopyByHand(fs)
        await copy.remove("draft")
        await copy.write("final", b"all of my work\n")
        await copy.write("copy", b"all of my work\n")
        await fs.write_text("final", "from a person\n")
        result = await fs._bring_back(copy, "partial")
        assert {str(each.path) for each in result.conflicts} == {"final"}
        assert not await fs.exists("draft")
        assert (await fs.read_bytes("copy")).data == b"all of my work\n"
