"""What was changed by several of a file's names comes back as what was changed by one does."""

import os

import pytest

import bailiwick
from bailiwick.paths import ScopedPath
from tests.working_copies.support import CopyByHand

pytestmark = pytest.mark.spec("EXEC-8")

MANY = 20  # so many are changed together, and not one by one


@pytest.fixture(params=["disk", "history", "overlay"])
def tree(request, tmp_path):
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "one").write_text("as it was\n")
    for name in ("two", "three", "d/four", *(f"d/n{number}" for number in range(MANY))):
        os.link(root / "one", root / name)
    options = {"history": "on"} if request.param == "history" else {}
    place = f"overlay:{root}" if request.param == "overlay" else str(root)
    opening = bailiwick.open(place, state_dir=str(tmp_path / "state"), **options)
    return root, opening, request.param


async def _changed(fs, kind, change):
    """How what was changed is brought back, all of it or some paths."""
    if kind == "overlay":
        await change(fs)
        return lambda *paths: fs.apply(paths or None)
    copy = CopyByHand(fs)
    await change(_ByHand(copy))
    return lambda *paths: fs._bring_back(copy, "atomic", frozenset(map(ScopedPath, paths)) or None)


class _ByHand:
    def __init__(self, copy):
        self.remove = copy.remove
        self.write_text = lambda path, text: copy.write(path, text.encode())


async def _some(fs):
    await fs.remove("one")
    await fs.write_text("two", "changed\n")
    await fs.remove("d/four")


async def test_each_name_is_changed_by_itself(tree):
    root, opening, kind = tree
    async with opening as fs:
        apply = await _changed(fs, kind, _some)
        result = await apply()
        assert (result.conflicts, result.withheld) == ([], [])
        assert not (root / "one").exists()
        assert not (root / "d/four").exists()
        assert (root / "two").read_text() == "changed\n"
        assert (root / "three").read_text() == "as it was\n"


async def test_many_at_once(tree):
    root, opening, kind = tree

    async def change(fs):
        for number in range(MANY - 1):
            await fs.remove(f"d/n{number}")
        await fs.write_text(f"d/n{MANY - 1}", "changed\n")

    async with opening as fs:
        apply = await _changed(fs, kind, change)
        assert (await apply()).conflicts == []
        assert sorted(os.listdir(root / "d")) == ["four", f"n{MANY - 1}"]
        assert (root / f"d/n{MANY - 1}").read_text() == "changed\n"
        assert (root / "one").read_text() == "as it was\n"


async def test_one_name_after_the_other(tree):
    root, opening, kind = tree
    async with opening as fs:
        apply = await _changed(fs, kind, _some)
        for path in ("one", "two", "d/four"):
            assert (await apply(path)).conflicts == []
        assert not (root / "d/four").exists()
        assert (root / "two").read_text() == "changed\n"


async def test_what_others_wrote_under_one_of_them_is_a_conflict(tree):
    root, opening, kind = tree
    async with opening as fs:
        apply = await _changed(fs, kind, _some)
        (root / "two").unlink()
        (root / "two").write_text("theirs\n")
        result = await apply()
        assert "two" in {str(each.path) for each in result.conflicts}
        assert (root / "two").read_text() == "theirs\n"
        assert (root / "one").read_text() == "as it was\n"


async def test_what_failed_in_the_middle_can_be_tried_again(tree):
    root, opening, kind = tree
    (root / "z").mkdir()

    async def change(fs):
        await _some(fs)
        await fs.write_text("z/new", "new\n")

    async with opening as fs:
        apply = await _changed(fs, kind, change)
        (root / "z").rename(root / "away")
        assert (await apply()).conflicts
        (root / "away").rename(root / "z")
        assert (await apply()).conflicts == []
        assert (root / "z/new").read_text() == "new\n"
        assert not (root / "one").exists()


@pytest.fixture(params=["as-it-was", "/nowhere/out-of-here"])
def links(request, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    os.symlink(request.param, root / "l0")
    for number in range(1, MANY):
        os.link(root / "l0", root / f"l{number}", follow_symlinks=False)
    return root, bailiwick.open(str(root), state_dir=str(tmp_path / "state"))


@pytest.mark.parametrize("count", [2, MANY - 1, MANY])
async def test_so_are_several_names_of_one_link(links, count):
    root, opening = links
    async with opening as fs:
        copy = CopyByHand(fs)
        for number in range(count):
            await copy.remove(f"l{number}")
        result = await fs._bring_back(copy, "atomic")
        assert (result.conflicts, result.withheld) == ([], [])
        assert sorted(os.listdir(root)) == sorted(f"l{number}" for number in range(count, MANY))


async def test_of_which_others_have_changed_one(links):
    root, opening = links
    async with opening as fs:
        copy = CopyByHand(fs)
        for number in range(3):
            await copy.remove(f"l{number}")
        (root / "l1").unlink()
        os.symlink("theirs", root / "l1")
        result = await fs._bring_back(copy, "atomic")
        assert "l1" in {str(each.path) for each in result.conflicts}
        assert os.readlink(root / "l1") == "theirs"
        assert os.readlink(root / "l0") == os.readlink(root / "l2") == os.readlink(root / "l3")
