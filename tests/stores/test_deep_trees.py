"""Trees deeper than a path can name: nobody makes one here, and those of others do no harm."""

import contextlib
import os

import pytest

import bailiwick
from bailiwick.build.care import open_care
from bailiwick.errors import ParseError
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.transfer import measure, transfer
from bailiwick.verbs.walks.tree_size import measure as measure_store

pytestmark = pytest.mark.spec("TREE-10")

LEVELS = (300, *(pytest.param(levels, marks=pytest.mark.slow) for levels in (1_000, 5_000)))


def plant(directory, levels):
    """Directories in each other, as another program makes them: longer than any path may be. A file
    lies in each of the first, and in the last."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    for level in range(levels):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
        if level < 3 or level == levels - 1:
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@contextlib.asynccontextmanager
async def foreign(tmp_path, levels, **options):
    """A scope on a directory in which another program has made such a tree; taken away in the
    end, since nothing else here could."""
    for name in ("tree", "state"):
        (tmp_path / name).mkdir()
    plant(tmp_path / "tree", levels)
    place = bailiwick.open(
        str(tmp_path / "tree"), state_dir=str(tmp_path / "state"), durability="rename", **options
    )
    async with place as fs:
        try:
            yield fs
        finally:
            await fs.remove("d", recursive=True, missing_ok=True)
    assert os.listdir(tmp_path / "tree") == []


@pytest.mark.slow
@pytest.mark.parametrize("levels", LEVELS)
async def test_a_tree_that_another_program_made_is_looked_at_as_far_as_paths_go(tmp_path, levels):
    async with foreign(tmp_path, levels) as fs, bailiwick.open("memory:") as other:
        found = await fs.find(".", type="file")
        assert [str(each.path) for each in found.matches] == ["d/d/d/f", "d/d/f", "d/f"]
        assert found.truncated
        assert (await fs.grep("x")).truncated
        assert [each.name for each in (await fs.list("d")).entries] == ["d", "f"]
        assert (await measure(fs)).files == 3
        assert await measure_store(fs._pipeline.store) == (0, 3)
        for attempt in (
            fs.copy("d", "e", recursive=True),
            fs.create_archive("d", "d.tar"),
            other.copy_from(fs, "d", "d", recursive=True),
        ):
            with pytest.raises(ParseError) as caught:
                await attempt
            assert not caught.value.retryable
            assert "256" in caught.value.hint
        assert not await other.exists("d")
        brought = await transfer(fs, other)
        assert brought.files == 3
        assert [each.error_kind for each in brought.left_out] == ["parse_error"]
        assert [each.name for each in (await fs.list(".")).entries] == ["d"]


@pytest.mark.parametrize("levels", LEVELS)
async def test_its_removal_is_done_and_an_undo_says_what_was_not_kept(tmp_path, levels):
    async with foreign(tmp_path, levels, history="on") as fs:
        assert (await fs.with_request("r1").remove("d", recursive=True)).changed
        assert not await fs.exists("d")
        for preview in (True, False):
            undone = await fs.undo("r1", preview=preview)
            assert any("more places" in each.reason for each in undone.conflicts)
        assert not await fs.exists("d")


async def test_what_was_moved_very_often_is_found_as_it_was(tmp_path):
    (tmp_path / "tree").mkdir()
    place = bailiwick.open(
        str(tmp_path / "tree"), state_dir=str(tmp_path / "state"), durability="rename",
        history="on",
    )  # fmt: skip
    async with place as fs:
        await fs.write_text("f0", "as it was")
        then = (await fs.history("f0")).versions[0].version
        for number in range(400):
            await fs.move(f"f{number}", f"f{number + 1}")
        assert (await fs.read_text("f0", as_of=then)).text == "as it was"


# --- volumes: a tree from before there was a limit ---------------------------------------------


def deep(name, levels):
    return "/".join([name] * levels)


async def grow(fs, levels, monkeypatch):
    """Make a tree as deep as volumes could have them before."""

    async def never(self, bound, levels):
        return False

    with monkeypatch.context() as patch:
        patch.setattr(RowTree, "is_deeper", never)
        await fs.make_dir("t")
        have = 1
        while have < levels:
            step = min(250, levels - have)
            await fs.make_dir(deep("n", step), parents=True)
            await fs.move("t", f"{deep('n', step)}/d")
            await fs.move("n", "t")
            have += step


@pytest.mark.parametrize("levels", LEVELS)
async def test_a_deep_tree_of_an_old_volume_is_moved_and_removed(tmp_path, levels, monkeypatch):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await grow(fs, levels, monkeypatch)
        then = (await fs.history("t")).versions[0].version
        await fs.make_dir("d")
        await fs.with_request("r1").move("t", "u")
        assert (await fs.undo("r1")).conflicts == []
        assert (await fs.find("t")).truncated
        for attempt in (fs.copy("t", "c", recursive=True), fs.move("t", "d/t")):
            with pytest.raises(ParseError) as caught:
                await attempt
            assert not caught.value.retryable
        assert (await fs.with_request("r2").remove("t", recursive=True)).count == levels
        for attempt in (fs.undo("r2"), fs.undo("r2", preview=True), fs.restore("t", then)):
            with pytest.raises(ParseError):
                await attempt
        assert [each.name for each in (await fs.list(".")).entries] == ["d"]


@pytest.mark.parametrize("levels", LEVELS)
async def test_collecting_and_checking_such_a_volume_takes_few_steps(tmp_path, levels, monkeypatch):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await grow(fs, levels, monkeypatch)
        await fs.fork("f")
        await (await fs.open_fork("f")).remove("t", recursive=True)
        await fs.remove("t", recursive=True)
    looks = []
    way_up = RowTree.way_up

    async def counted(self, node):
        looks.append(node)
        return await way_up(self, node)

    monkeypatch.setattr(RowTree, "way_up", counted)
    async with open_care(f"sqlite:{tmp_path}/v.db") as care:
        collected = await care.collect(keep_days=0)
        assert collected.steps < levels // 10 + 100
        assert len(looks) < 100
        assert (await care.check(repair=False)).problems == []


# --- what versions bring about ------------------------------------------------------------------


async def test_an_undo_brings_nothing_deeper_than_a_path_can_name(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.make_dir(deep("a", 200), parents=True)
        await fs.make_dir(f"{deep('a', 200)}/b", parents=True)
        await fs.with_request("r1").move(f"{deep('a', 200)}/b", "b")
        await fs.make_dir(f"b/{deep('c', 100)}", parents=True)
        for preview in (True, False):
            with pytest.raises(ParseError) as caught:
                await fs.undo("r1", preview=preview)
            assert "256" in caught.value.hint
        assert (await fs.stat(f"b/{deep('c', 100)}")).type == "directory"


async def test_a_merge_brings_nothing_deeper_than_a_path_can_name(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        for path in (deep("a", 200), "b", "c"):
            await fs.make_dir(path, parents=True)
        fork = await fs.fork("f")
        await fork.move("b", f"{deep('a', 200)}/b")
        await fs.make_dir(f"b/{deep('d', 100)}", parents=True)
        for preview in (True, False):
            with pytest.raises(ParseError):
                await fs.merge("f", preview=preview)
        assert (await fs.stat(f"b/{deep('d', 100)}")).type == "directory"


@pytest.mark.slow
async def test_a_fork_whose_directories_were_made_from_within_is_merged(tmp_path):
    """Each lies in one that was made after it, so that none is known before another."""
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        fork = await fs.fork("f")
        await fork.make_dir("x")
        for _ in range(250):
            await fork.make_dir("y")
            await fork.move("x", "y/x")
            await fork.move("y", "x")
        await fs.make_dir(deep("x", 120), parents=True)
        assert (await fs.merge("f")).conflicts == []
        assert (await fs.stat(deep("x", 251))).type == "directory"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["memory:", "sqlite:", "directory", "history"])
async def test_a_new_name_is_not_made_too_deep_by_way_of_a_link(tmp_path, place):
    (tmp_path / "tree").mkdir()
    named = {"sqlite:": f"sqlite:{tmp_path}/v.db", "memory:": "memory:"}
    options = {"state_dir": str(tmp_path / "state")} if place not in named else {}
    if place == "history":
        options["history"] = "on"
    async with bailiwick.open(named.get(place, str(tmp_path / "tree")), **options) as fs:
        await fs.make_dir(deep("a", 200), parents=True)
        await fs.symlink("short", deep("a", 200))
        far = f"short/{deep('b', 56)}"
        await fs.make_dir(far, parents=True)
        for attempt in (
            fs.write_text(f"{far}/f", "x"),
            fs.write_text(f"{far}/c/f", "x", parents=True),
            fs.make_dir(f"{far}/d"),
            fs.symlink(f"{far}/l", "x"),
            fs.append(f"{far}/g", b"x"),
        ):
            with pytest.raises(ParseError):
                await attempt
        assert (await fs.list(far)).entries == []
