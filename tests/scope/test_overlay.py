"""A root that lies over a directory or a volume, and touches nothing of it before it is applied."""

import os
from pathlib import Path

import pytest

import bailiwick
from bailiwick.errors import PathNotFound
from bailiwick.paths import REMOVED

pytestmark = pytest.mark.spec("OVER-1")

TEXT = "".join(f"line {number}\n" for number in range(40))


FILES = {
    "a.txt": "old\n",
    "long.txt": TEXT,
    "gone.txt": "gone soon\n",
    "src/one.py": "one\n",
    "src/deep/two.py": "two\n",
}


class Below:
    """What an overlay lies over, as a person has it who opens it for themselves."""

    def __init__(self, place, state):
        self.place = place
        self.state = str(state)

    def over(self, **options):
        return bailiwick.open(f"overlay:{self.place}", state_dir=self.state, **options)

    def plain(self, **options):
        return bailiwick.open(self.place, state_dir=self.state, **options)

    async def write(self, path, text):
        async with self.plain() as fs:
            await fs.write_text(path, text, parents=True)

    async def remove(self, path):
        async with self.plain() as fs:
            await fs.remove(path, recursive=True)

    async def read(self, path):
        async with self.plain() as fs:
            return (await fs.read_text(path)).text

    async def made_of(self):
        """All that stands there, with its version: to be compared."""
        async with self.plain() as fs:
            found = (await fs.find(".", "*")).paths
            return {str(each): (await fs.stat(each)).version for each in found}


class VolumeBelow(Below):
    with_past = {}


class DirectoryBelow(Below):
    with_past = {"history": "on"}

    async def write(self, path, text):
        Path(self.place, path).write_text(text)


@pytest.fixture(params=["directory", "volume"])
def below(request, tmp_path):
    if request.param == "directory":
        (tmp_path / "project").mkdir()
        found = DirectoryBelow(str(tmp_path / "project"), tmp_path / "state")
    else:
        found = VolumeBelow(f"sqlite:{tmp_path}/project.db", tmp_path / "state")
    with bailiwick.open_sync(found.place, state_dir=found.state) as fs:
        for path, text in FILES.items():
            fs.write_text(path, text, parents=True)
    return found


@pytest.fixture
def project(tmp_path):
    """A directory, for what only those have."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("old\n")
    return root


def told(found):
    return {(str(each.path), each.kind) for each in found.changes}


async def change_much(fs):
    await fs.write_text("a.txt", "new\n")
    await fs.write_text("made/b.txt", "b\n", parents=True)
    await fs.remove("gone.txt")
    await fs.move("src", "lib")
    await fs.write_text("src", "a file now\n")


async def test_nothing_below_changes_before_it_is_applied(below, tmp_path):
    before = await below.made_of()
    async with below.over() as fs:
        await change_much(fs)
        names = [each.name for each in (await fs.list(".")).entries]
        assert names == ["a.txt", "lib", "long.txt", "made", "src"]
        assert (await fs.read_text("lib/deep/two.py")).text == "two\n"
        assert await below.made_of() == before
        assert told(await fs.changes()) == {
            ("a.txt", "updated"), ("made", "created"), ("made/b.txt", "created"),
            ("gone.txt", "deleted"), ("src", "deleted"), ("src/one.py", "deleted"),
            ("src/deep", "deleted"), ("src/deep/two.py", "deleted"), ("src", "created"),
            ("lib", "created"), ("lib/one.py", "created"), ("lib/deep", "created"),
            ("lib/deep/two.py", "created"),
        }  # fmt: skip
        assert "+new" in (await fs.diff("a.txt")).text
        assert (await fs.apply()).conflicts == []
        assert (await fs.changes()).changes == []
    assert await below.read("a.txt") == "new\n"
    assert await below.read("lib/deep/two.py") == "two\n"
    assert await below.read("src") == "a file now\n"
    assert "gone.txt" not in await below.made_of()
    assert not list((tmp_path / "state").rglob("content/*"))


async def test_a_directory_that_was_moved_is_one_move(below):
    async with below.over() as fs:
        await fs.move("src", "lib")
        version = (await below.made_of())["src/one.py"]
        (change,) = (await fs.changes()).changes
        assert (change.path, change.kind, change.origin) == ("lib", "moved", "src")
        await fs.apply()
        assert (await below.made_of())["lib/one.py"] == version


async def test_a_directory_below_is_copied_with_all_that_lies_in_it(below):
    async with below.over() as fs:
        await fs.write_text("src/new.py", "new\n")
        await fs.copy("src", "lib", recursive=True)
        copied = (await fs.files("lib")).paths
        held = {str(each): (await fs.read_text(each)).text for each in copied}
        assert held == {"lib/deep/two.py": "two\n", "lib/new.py": "new\n", "lib/one.py": "one\n"}
        await fs.apply()
    assert await below.read("lib/deep/two.py") == "two\n"


@pytest.mark.spec("VOL-11")
async def test_what_lies_below_was_made_when_it_was_there(below):
    async with below.plain() as fs:
        made = (await fs.stat("a.txt")).created_ns
    async with below.over() as fs:
        assert (await fs.stat("a.txt")).created_ns == made
        await fs.write_text("a.txt", "new\n")
        await fs.move("a.txt", "b.txt")
        assert (await fs.stat("b.txt")).created_ns == made
        await fs.write_text("c.txt", "mine\n")
        assert (await fs.stat("c.txt")).created_ns
    async with below.over() as fs:
        assert (await fs.stat("b.txt")).created_ns == made


async def test_it_is_kept_over_restarts_and_found_again(below):
    async with below.over() as fs:
        await change_much(fs)
        shown = told(await fs.changes())
        with pytest.raises(bailiwick.Busy):
            async with below.over():
                pass
    async with below.plain() as fs:
        (left,) = await fs.work()
        assert left.command == ("overlay:",)
    async with below.over() as fs:
        assert told(await fs.changes()) == shown
        assert (await fs.read_text("lib/one.py")).text == "one\n"
        assert [each.id for each in await fs.work()] == [left.id]
    async with below.plain() as fs:
        async with await fs.open_work(left.id) as work:
            assert told(await work.changes()) == shown
            await work.apply()
        assert await fs.work() == []
        assert (await fs.read_text("a.txt")).text == "new\n"


async def test_after_discarding_nothing_is_left(below):
    before = await below.made_of()
    async with below.over() as fs:
        await change_much(fs)
        await fs.discard(["lib", "src"])
        assert (await fs.read_text("src/one.py")).text == "one\n"
        assert (await fs.read_text("a.txt")).text == "new\n"
        await fs.discard()
        assert (await fs.changes()).changes == []
        assert (await fs.read_text("a.txt")).text == "old\n"
    async with below.plain() as fs:
        assert await fs.work() == []
    assert await below.made_of() == before


async def test_what_a_person_changed_meanwhile(below):
    async with below.over() as fs:
        await fs.write_text("a.txt", "from the agent\n")
        await fs.write_text("long.txt", TEXT.replace("line 3\n", "3\n"))
        await fs.remove("gone.txt")
        await fs.write_text("new.txt", "from the agent\n")
        await below.write("a.txt", "from a person\n")
        await below.write("long.txt", TEXT.replace("line 30\n", "30\n"))
        await below.write("gone.txt", "still needed\n")
        await below.write("new.txt", "from a person\n")
        await below.write("src/one.py", "seen at once\n")
        assert (await fs.read_text("src/one.py")).text == "seen at once\n"
        result = await fs.apply()
        assert {each.path for each in result.conflicts} == {"a.txt", "gone.txt", "new.txt"}
        assert result.changes == []
        result = await fs.apply(publish="partial", merge=False)
        assert len(result.conflicts) == 4
        result = await fs.apply(publish="partial")
        assert told(result) == {("long.txt", "updated")}
        joined = TEXT.replace("line 3\n", "3\n").replace("line 30\n", "30\n")
        assert await below.read("long.txt") == joined
        assert await below.read("a.txt") == "from a person\n"
        assert await below.read("gone.txt") == "still needed\n"
        assert (await fs.read_text("a.txt")).text == "from the agent\n"
        assert not await fs.exists("gone.txt")
        await fs.discard()
        assert (await fs.read_text("a.txt")).text == "from a person\n"


async def test_single_hunks_and_single_paths(below):
    async with below.over() as fs:
        await fs.write_text("a.txt", "new\n")
        changed = TEXT.replace("line 3\n", "3\n").replace("line 30\n", "30\n")
        await fs.write_text("long.txt", changed)
        await fs.apply(hunks={"long.txt": [2]})
        assert await below.read("long.txt") == TEXT.replace("line 30\n", "30\n")
        assert await below.read("a.txt") == "old\n"
        assert (await fs.diff("long.txt")).added_lines == 1
        await fs.discard(hunks={"long.txt": [1]})
        assert (await fs.read_text("long.txt")).text == TEXT.replace("line 30\n", "30\n")
        await fs.apply(["a.txt"])
        assert await below.read("a.txt") == "new\n"


@pytest.mark.parametrize("meanwhile", ["apart", "elsewhere apart", "beneath"])
async def test_numbers_of_hunks_are_of_what_was_seen(below, meanwhile):
    async with below.over() as fs:
        changed = TEXT.replace("line 30\n", "30\n")
        await fs.write_text("long.txt", changed)
        seen = (await fs.changes()).version
        unseen = changed.replace("line 3\n", "nobody saw this\n")
        if meanwhile == "apart":
            await fs.write_text("long.txt", unseen)
        elif meanwhile == "elsewhere apart":
            await fs.write_text("a.txt", "nobody saw this\n")
        else:
            await below.write("long.txt", TEXT.replace("line 3\n", "3\n"))
        stood = await below.read("long.txt")
        for refused in (
            fs.apply(hunks={"long.txt": [1]}, seen=seen), fs.apply(seen=seen),
            fs.apply(["long.txt"], seen=seen), fs.discard(seen=seen),
            fs.discard(hunks={"long.txt": [1]}, seen=seen),
        ):  # fmt: skip
            with pytest.raises(bailiwick.HashMismatch, match="not what was looked at"):
                await refused
        assert await below.read("long.txt") == stood
        with pytest.raises(bailiwick.ParseError):
            await fs.apply(seen=5)
        seen = (await fs.changes()).version
        done = await fs.apply(hunks={"long.txt": [1]}, seen=seen)
        assert bool(done.conflicts) == (meanwhile == "beneath")
        assert (await below.read("long.txt") == stood) == (meanwhile == "beneath")


async def test_what_was_applied_is_undone_by_its_request(below):
    async with below.over(**below.with_past) as fs:
        await change_much(fs)
        await fs.with_request("apply-1").apply()
    async with below.plain(**below.with_past) as fs:
        await fs.undo("apply-1")
    assert await below.read("a.txt") == "old\n"
    assert await below.read("src/deep/two.py") == "two\n"
    assert await below.read("gone.txt") == "gone soon\n"


async def test_an_agent_works_in_it_and_a_person_applies(below):
    async with below.over() as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
        await agent.write_text("a.txt", "from the agent\n")
        assert told(await agent.changes()) == {("a.txt", "updated")}
        with pytest.raises(bailiwick.MissingAccess):
            await agent.apply()
        (left,) = await fs.work()
        assert await agent.work() == []
        with pytest.raises(bailiwick.MissingAccess):
            await agent.open_work(left.id)
        assert await below.read("a.txt") == "old\n"
        await fs.apply()
        assert await below.read("a.txt") == "from the agent\n"


async def test_what_is_left_in_a_directory_that_others_took_away_is_not_lost(below):
    async with below.over() as fs:
        await fs.write_text("src/deep/new.py", "new\n")
        await fs.write_text("a.txt", "new\n")
        await below.remove("src")
        result = await fs.apply(publish="partial")
        assert told(result) == {("a.txt", "updated")}
        assert "src/deep/new.py" in {each.path for each in result.conflicts}
        assert (await fs.read_text("src/deep/new.py")).text == "new\n"
    async with below.over() as fs:
        assert (await fs.read_text("src/deep/new.py")).text == "new\n"


async def test_two_branches_of_a_volume_have_overlays_of_their_own(tmp_path):
    place, state = f"sqlite:{tmp_path}/a.db", str(tmp_path / "state")
    async with bailiwick.open(place, state_dir=state) as fs:
        await fs.write_text("a.txt", "old\n")
        await (await fs.fork("tried")).aclose()
    async with (
        bailiwick.open(f"overlay:{place}", state_dir=state) as one,
        bailiwick.open(f"overlay:{place}?branch=tried", state_dir=state) as other,
    ):
        await one.write_text("a.txt", "one\n")
        await other.write_text("a.txt", "other\n")
        await other.apply()
        assert (await one.read_text("a.txt")).text == "one\n"
        assert told(await one.changes()) == {("a.txt", "updated")}
        assert (await other.changes()).changes == []
    async with bailiwick.open(place, state_dir=state) as fs:
        assert (await fs.read_text("a.txt")).text == "old\n"
    async with bailiwick.open(f"{place}?branch=tried", state_dir=state) as fs:
        assert (await fs.read_text("a.txt")).text == "other\n"


async def test_over_memory_it_is_gone_with_the_scope(tmp_path):
    state = tmp_path / "state"
    async with bailiwick.open("overlay:memory:", state_dir=str(state)) as fs:
        await fs.write_text("a.txt", "new\n")
        assert told(await fs.changes()) == {("a.txt", "created")}
        assert not (await fs.apply()).conflicts
        assert (await fs.changes()).changes == []
        await fs.write_text("b.txt", "not applied\n")
    assert not list((state / "passing").iterdir())


async def test_many_names_below_come_page_by_page(project):
    many = project / "many"
    many.mkdir()
    for number in range(10_000):
        (many / f"{number:05}").touch()
    async with opened(project) as fs:
        await fs.remove("many/00003")
        await fs.write_text("many/00003x", "")
        await fs.write_text("many/99999", "")
        found, cursor = [], None
        while True:
            page = await fs.list("many", limit=1500, cursor=cursor)
            found += [each.name for each in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                break
        expected = {f"{number:05}" for number in range(10_000)} - {"00003"}
        assert found == sorted(expected | {"00003x", "99999"})


async def test_links_and_devices(project):
    os.symlink("a.txt", project / "link")
    os.mkfifo(project / "fifo")
    (project / "one.py").write_text("one\n")
    async with opened(project) as fs:
        assert (await fs.read_text("link")).text == "old\n"
        assert "fifo" not in [each.name for each in (await fs.list(".")).entries]
        await fs.remove("link")
        await fs.symlink("link", "one.py")
        assert (await fs.read_text("link")).text == "one\n"
        await fs.apply()
        assert os.readlink(project / "link") == "one.py"


async def test_only_an_overlay_has_it(below):
    async with below.plain() as fs:
        for verb in (fs.changes, fs.apply, fs.discard):
            with pytest.raises(bailiwick.Unsupported):
                await verb()
    with pytest.raises(bailiwick.Unsupported):
        bailiwick.open(f"overlay:overlay:{below.place}")


def test_blocking_code_has_the_same(below):
    with bailiwick.open_sync(f"overlay:{below.place}", state_dir=below.state) as fs:
        fs.write_text("a.txt", "new\n")
        assert told(fs.changes()) == {("a.txt", "updated")}
        assert "+new" in fs.diff("a.txt").text
        assert not fs.apply().conflicts
        assert fs.discard() == []
    with bailiwick.open_sync(below.place, state_dir=below.state) as fs:
        assert fs.read_text("a.txt").text == "new\n"


def opened(project, **options):
    place = f"overlay:{project}"
    return bailiwick.open(place, state_dir=str(project.parent / "state"), **options)


@pytest.mark.spec("OVER-1", "DISK-9")
async def test_no_link_leads_to_what_is_being_removed_below(tmp_path):
    place = tmp_path / "below"
    (place / REMOVED).mkdir(parents=True)
    (place / REMOVED / "s").write_text("SECRET")
    (place / "theirs").symlink_to(REMOVED)
    async with bailiwick.open(f"overlay:{place}", state_dir=str(tmp_path / "state")) as fs:
        await fs.symlink("own", f"{REMOVED}/s")
        for path in ("theirs", "theirs/s", "own"):
            with pytest.raises(PathNotFound):
                await fs.stat(path)
        with pytest.raises(PathNotFound):
            await fs.remove("theirs/s")
    assert (place / "theirs" / "s").read_text() == "SECRET"


@pytest.mark.spec("OVER-1")
@pytest.mark.parametrize("text", ["/nowhere/out", "../../out", "f"])
async def test_a_link_that_came_back_is_not_changed_wherever_it_leads(tmp_path, text):
    place = tmp_path / "below"
    place.mkdir()
    (place / "link").symlink_to(text)
    async with bailiwick.open(f"overlay:{place}", state_dir=str(tmp_path / "state")) as fs:
        await fs.move("link", "away")
        assert {each.path for each in (await fs.changes()).changes} == {"away", "link"}
        await fs.move("away", "link")
        assert (await fs.changes()).changes == []
        (place / "link").unlink()
        (place / "link").symlink_to("/another")
        assert {each.path for each in (await fs.changes()).conflicts} == {"link"}
