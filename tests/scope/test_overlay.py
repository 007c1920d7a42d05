"""A root that lies over a directory, and touches nothing of it before it is applied."""

import os

import pytest

import bailiwick
from tests.working_copies.test_overlay_contract import made_of

pytestmark = pytest.mark.spec("OVER-1")

TEXT = "".join(f"line {number}\n" for number in range(40))


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("old\n")
    (root / "long.txt").write_text(TEXT)
    (root / "gone.txt").write_text("gone soon\n")
    (root / "src" / "one.py").write_text("one\n")
    (root / "src" / "deep" / "two.py").write_text("two\n")
    return root


def opened(project, **options):
    place = f"overlay:{project}"
    return bailiwick.open(place, state_dir=str(project.parent / "state"), **options)


def plain(project, **options):
    return bailiwick.open(project, state_dir=str(project.parent / "state"), **options)


def told(found):
    return {(str(each.path), each.kind) for each in found.changes}


async def change_much(fs):
    await fs.write_text("a.txt", "new\n")
    await fs.write_text("made/b.txt", "b\n", parents=True)
    await fs.remove("gone.txt")
    await fs.move("src", "lib")
    await fs.write_text("src", "a file now\n")


async def test_nothing_below_changes_before_it_is_applied(project):
    before = made_of(project)
    async with opened(project) as fs:
        await change_much(fs)
        names = [each.name for each in (await fs.list(".")).entries]
        assert names == ["a.txt", "lib", "long.txt", "made", "src"]
        assert (await fs.read_text("lib/deep/two.py")).text == "two\n"
        assert made_of(project) == before
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
    assert (project / "a.txt").read_text() == "new\n"
    assert (project / "lib" / "deep" / "two.py").read_text() == "two\n"
    assert (project / "src").read_text() == "a file now\n"
    assert not (project / "gone.txt").exists()
    assert not list((project.parent / "state").rglob("content/*"))


async def test_a_directory_that_was_moved_is_one_move(project):
    async with opened(project) as fs:
        await fs.move("src", "lib")
        inode = (project / "src" / "one.py").stat().st_ino
        (change,) = (await fs.changes()).changes
        assert (change.path, change.kind, change.origin) == ("lib", "moved", "src")
        await fs.apply()
        assert (project / "lib" / "one.py").stat().st_ino == inode


async def test_it_is_kept_over_restarts_and_found_again(project):
    async with opened(project) as fs:
        await change_much(fs)
        shown = told(await fs.changes())
        with pytest.raises(bailiwick.Busy):
            async with opened(project):
                pass
    async with plain(project) as fs:
        (left,) = await fs.work()
        assert left.command == ("overlay:",)
    async with opened(project) as fs:
        assert told(await fs.changes()) == shown
        assert (await fs.read_text("lib/one.py")).text == "one\n"
        assert [each.id for each in await fs.work()] == [left.id]
    async with plain(project) as fs:
        async with await fs.open_work(left.id) as work:
            assert told(await work.changes()) == shown
            await work.apply()
        assert await fs.work() == []
        assert (await fs.read_text("a.txt")).text == "new\n"


async def test_after_discarding_nothing_is_left(project):
    before = made_of(project)
    async with opened(project) as fs:
        await change_much(fs)
        await fs.discard(["lib", "src"])
        assert (await fs.read_text("src/one.py")).text == "one\n"
        assert (await fs.read_text("a.txt")).text == "new\n"
        await fs.discard()
        assert (await fs.changes()).changes == []
        assert (await fs.read_text("a.txt")).text == "old\n"
    async with plain(project) as fs:
        assert await fs.work() == []
    assert made_of(project) == before


async def test_what_a_person_changed_meanwhile(project):
    async with opened(project) as fs:
        await fs.write_text("a.txt", "from the agent\n")
        await fs.write_text("long.txt", TEXT.replace("line 3\n", "3\n"))
        await fs.remove("gone.txt")
        await fs.write_text("new.txt", "from the agent\n")
        (project / "a.txt").write_text("from a person\n")
        (project / "long.txt").write_text(TEXT.replace("line 30\n", "30\n"))
        (project / "gone.txt").write_text("still needed\n")
        (project / "new.txt").write_text("from a person\n")
        (project / "src" / "one.py").write_text("seen at once\n")
        assert (await fs.read_text("src/one.py")).text == "seen at once\n"
        result = await fs.apply()
        assert {each.path for each in result.conflicts} == {"a.txt", "gone.txt", "new.txt"}
        assert result.changes == []
        result = await fs.apply(publish="partial", merge=False)
        assert len(result.conflicts) == 4
        result = await fs.apply(publish="partial")
        assert told(result) == {("long.txt", "updated")}
        joined = TEXT.replace("line 3\n", "3\n").replace("line 30\n", "30\n")
        assert (project / "long.txt").read_text() == joined
        assert (project / "a.txt").read_text() == "from a person\n"
        assert (project / "gone.txt").read_text() == "still needed\n"
        assert (await fs.read_text("a.txt")).text == "from the agent\n"
        assert not await fs.exists("gone.txt")
        await fs.discard()
        assert (await fs.read_text("a.txt")).text == "from a person\n"


async def test_single_hunks_and_single_paths(project):
    async with opened(project) as fs:
        await fs.write_text("a.txt", "new\n")
        changed = TEXT.replace("line 3\n", "3\n").replace("line 30\n", "30\n")
        await fs.write_text("long.txt", changed)
        await fs.apply(hunks={"long.txt": [2]})
        assert (project / "long.txt").read_text() == TEXT.replace("line 30\n", "30\n")
        assert (project / "a.txt").read_text() == "old\n"
        assert (await fs.diff("long.txt")).added_lines == 1
        await fs.discard(hunks={"long.txt": [1]})
        assert (await fs.read_text("long.txt")).text == TEXT.replace("line 30\n", "30\n")
        await fs.apply(["a.txt"])
        assert (project / "a.txt").read_text() == "new\n"


async def test_what_was_applied_is_undone_by_its_request(project):
    async with opened(project, history="on") as fs:
        await change_much(fs)
        await fs.with_request("apply-1").apply()
    async with plain(project, history="on") as fs:
        await fs.undo("apply-1")
    assert (project / "a.txt").read_text() == "old\n"
    assert (project / "src" / "deep" / "two.py").read_text() == "two\n"
    assert (project / "gone.txt").read_text() == "gone soon\n"


async def test_an_agent_works_in_it_and_a_person_applies(project):
    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
        await agent.write_text("a.txt", "from the agent\n")
        assert told(await agent.changes()) == {("a.txt", "updated")}
        with pytest.raises(bailiwick.MissingAccess):
            await agent.apply()
        (left,) = await fs.work()
        assert await agent.work() == []
        with pytest.raises(bailiwick.MissingAccess):
            await agent.open_work(left.id)
        assert (project / "a.txt").read_text() == "old\n"
        await fs.apply()
        assert (project / "a.txt").read_text() == "from the agent\n"


async def test_what_is_left_in_a_directory_that_others_took_away_is_not_lost(project):
    async with opened(project) as fs:
        await fs.write_text("src/deep/new.py", "new\n")
        await fs.write_text("a.txt", "new\n")
        for each in ("src/deep/two.py", "src/deep", "src/one.py", "src"):
            place = project / each
            place.rmdir() if place.is_dir() else place.unlink()
        result = await fs.apply(publish="partial")
        assert told(result) == {("a.txt", "updated")}
        assert "src/deep/new.py" in {each.path for each in result.conflicts}
        assert (await fs.read_text("src/deep/new.py")).text == "new\n"
    async with opened(project) as fs:
        assert (await fs.read_text("src/deep/new.py")).text == "new\n"


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
    async with opened(project) as fs:
        assert (await fs.read_text("link")).text == "old\n"
        assert "fifo" not in [each.name for each in (await fs.list(".")).entries]
        await fs.remove("link")
        await fs.symlink("link", "src/one.py")
        assert (await fs.read_text("link")).text == "one\n"
        await fs.apply()
        assert os.readlink(project / "link") == "src/one.py"


async def test_only_an_overlay_has_it(project):
    async with plain(project) as fs:
        for verb in (fs.changes, fs.apply, fs.discard):
            with pytest.raises(bailiwick.Unsupported):
                await verb()
    for place in ("overlay:memory:", "overlay:sqlite:a.db", f"overlay:overlay:{project}"):
        with pytest.raises(bailiwick.Unsupported):
            bailiwick.open(place)


def test_blocking_code_has_the_same(project):
    place = f"overlay:{project}"
    with bailiwick.open_sync(place, state_dir=str(project.parent / "state")) as fs:
        fs.write_text("a.txt", "new\n")
        assert told(fs.changes()) == {("a.txt", "updated")}
        assert "+new" in fs.diff("a.txt").text
        assert not fs.apply().conflicts
        assert fs.discard() == []
    assert (project / "a.txt").read_text() == "new\n"
