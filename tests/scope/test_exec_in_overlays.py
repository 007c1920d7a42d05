"""Programs in an overlay: they see what it shows, and what they change is changed in it alone."""

import os

import pytest

import bailiwick
from bailiwick.errors import PathNotFound
from bailiwick.stores.disk import DiskStore
from tests.authority.support import EVERYTHING, governed, rule
from tests.scope.test_exec import ALLOW_EXEC, RUNNING, told

pytestmark = [pytest.mark.spec("OVER-1", "EXEC-3"), pytest.mark.usefixtures("needs_bubblewrap")]

PERSON = "user:local"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "d").mkdir(parents=True)
    for name in ("a.txt", "below", "gone", "d/b.txt"):
        (root / name).write_text(f"{name}\n")
    return root


def opened(project, **options):
    return bailiwick.open(f"overlay:{project}", state_dir=str(project.parent / "state"), **options)


def held(project):
    return {
        str(each.relative_to(project)): each.read_text()
        for each in project.rglob("*")
        if each.is_file()
    }


async def said_by(fs, shell, **more):
    execution = fs.exec(shell=shell, **more)
    said = b"".join([piece.data async for piece in execution]).decode()
    return said, await execution.result()


async def test_a_program_sees_both_and_changes_the_overlay_alone(project):
    was = held(project)
    async with opened(project) as fs:
        await fs.write_text("a.txt", "changed\n")
        await fs.remove("gone")
        await fs.move("d", "e")
        said, result = await said_by(
            fs, "find . -type f | sort; cat a.txt below; echo by a program > below; mkdir n;"
            " echo n > n/f; rm a.txt; mv e g",
        )  # fmt: skip
        assert said == "./a.txt\n./below\n./e/b.txt\nchanged\nbelow\n"
        assert (result.exit_code, result.withheld, result.conflicts) == (0, [], [])
        assert result.sandbox == "bubblewrap"
        assert held(project) == was
        assert (await fs.read_text("below")).text == "by a program\n"
        assert (await fs.read_text("g/b.txt")).text == "d/b.txt\n"
        assert not await fs.exists("a.txt")
        assert await fs.work() != []
    async with opened(project) as fs:
        assert {
            ("a.txt", "deleted"),
            ("below", "updated"),
            ("d", "moved"),
            ("gone", "deleted"),
        } <= {(str(each.origin or each.path), each.kind) for each in (await fs.changes()).changes}
        assert not (await fs.apply()).conflicts
    assert held(project) == {"below": "by a program\n", "g/b.txt": "d/b.txt\n", "n/f": "n\n"}


@pytest.mark.spec("EXEC-8")
async def test_what_is_changed_meanwhile_below_or_on_top_stays(project):
    async with opened(project) as fs:
        execution = await fs.exec(
            shell="read go; echo program > below; echo program > a.txt; echo x > x", stdin="pipe"
        )
        (project / "below").write_text("a person, below\n")
        await fs.write_text("a.txt", "a person, on top\n")
        await execution.write(b"go\n")
        result = await execution.result()
        assert {str(each.path) for each in result.conflicts} == {"a.txt", "below"}
        assert (await fs.read_text("below")).text == "a person, below\n"
        assert (await fs.read_text("a.txt")).text == "a person, on top\n"
        assert not await fs.exists("x")
        async with await fs.open_work(result.work_id) as work:
            assert told(await work.apply(publish="partial")) == {("x", "created")}
            assert {str(each) for each in await work.discard()} == {"a.txt", "below"}
        assert not (project / "x").exists()


async def test_a_session_is_left_and_found_again_over_the_overlay_only(project):
    async with opened(project) as fs:
        await fs.write_text("a.txt", "on top\n")
        async with fs.session() as session:
            await session.exec(shell="cat a.txt > copy; rm below").result()
            assert told(await session.changes()) == {("copy", "created"), ("below", "deleted")}
    async with bailiwick.open(project, state_dir=str(project.parent / "state")) as fs:
        assert session.id not in {each.id for each in await fs.work()}
        with pytest.raises(PathNotFound):
            await fs.open_work(session.id)
    async with opened(project) as fs:
        assert session.id in {each.id for each in await fs.work()}
        async with await fs.open_session(session.id) as again:
            assert "+on top" in (await again.diff("copy")).text
            published = await again.publish()
            assert told(published) == {("copy", "created"), ("below", "deleted")}
        assert (project / "below").exists()
        assert told(await fs.apply(["copy"])) == {("copy", "created")}
    assert (project / "copy").read_text() == "on top\n"


@pytest.mark.spec("EXEC-1", "EXEC-4", "EXEC-7")
async def test_an_agent_runs_and_a_person_applies(tmp_path, project):
    (project / "secret").write_text("SECRET\n")
    rules = (
        rule("hide", "secret", subject="agent_run:*")
        + rule("deny", "kept", "kept/**", access=["write"])
        + ALLOW_EXEC
    )
    async with governed(
        tmp_path, rules, place=f"overlay:{project}", state_dir=tmp_path / "state"
    ) as house:
        agent = await house.scope(RUNNING)
        said, result = await said_by(agent, "ls; cat secret; echo new > new", publish="partial")
        assert "SECRET" not in said
        assert "secret\n" not in said
        assert told(result) == {("new", "created")}
        _, result = await said_by(
            agent, "mkdir kept; echo x > kept/x; echo y > y", publish="partial"
        )
        assert {str(each.path) for each in result.withheld} >= {"kept/x"}
        records = [
            each for each in await house.operations() if each.request_id == result.request_id
        ]
        assert ("exec", "success") in {(each.verb, each.outcome) for each in records}
        with pytest.raises(bailiwick.MissingAccess):
            await agent.apply()
        person = await house.scope(EVERYTHING, subject=PERSON)
        assert told(await person.apply()) == {("new", "created"), ("y", "created")}
    assert (project / "new").read_text() == "new\n"
    assert not (project / "kept").exists()


async def test_a_file_that_cannot_be_read_is_not_seen_and_spoils_nothing(project):
    os.link(project / "a.txt", project / "linked")
    async with opened(project, hardlinks="reject") as fs:
        said, result = await said_by(fs, "ls; echo mine > linked; echo x > x", publish="partial")
        assert said == "below\nd\ngone\n"
        assert told(result) == {("x", "created")}
        assert [str(each.path) for each in result.conflicts] == ["linked"]
        assert (project / "linked").read_text() == "a.txt\n"


async def test_a_read_only_grant_reads(project):
    async with opened(project) as fs:
        reader = await fs.delegate(
            subject=bailiwick.User("other"), access=["read", "list", "execute"]
        )
        said, result = await said_by(reader, "cat a.txt; echo x > a.txt")
        assert said.startswith("a.txt\n")
        assert result.changes == []
        assert (await fs.read_text("a.txt")).text == "a.txt\n"


async def test_a_program_in_an_overlay_of_a_volume(tmp_path):
    place, state = f"sqlite:{tmp_path}/project.db", str(tmp_path / "state")
    async with bailiwick.open(place, state_dir=state) as fs:
        await fs.write_text("d/a.txt", "below\n", parents=True)
    async with bailiwick.open(f"overlay:{place}", state_dir=state) as fs:
        await fs.write_text("b.txt", "above\n")
        said, result = await said_by(fs, "cat d/a.txt b.txt; echo more >> d/a.txt")
        assert (said, result.exit_code, told(result)) == (
            "below\nabove\n", 0, {("d/a.txt", "updated")}
        )  # fmt: skip
    async with bailiwick.open(place, state_dir=state) as fs:
        assert (await fs.read_text("d/a.txt")).text == "below\n"
        (left,) = await fs.work()
        async with await fs.open_work(left.id) as work:
            await work.apply()
        assert (await fs.read_text("d/a.txt")).text == "below\nmore\n"


@pytest.mark.spec("EXEC-9")
async def test_what_was_not_touched_is_looked_up_once(tmp_path, monkeypatch):
    """Counted, not timed: a command costs a lookup for each directory, and for what is read."""
    project, lookups = tmp_path / "project", []
    for number in range(200):
        file = project / f"d{number % 10}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    plain = DiskStore.resolve

    def counted(store, path, *rest, **how):
        lookups.append(path)
        return plain(store, path, *rest, **how)

    async with opened(project) as fs:
        await fs.write_text("d3/f3", "touched\n")
        monkeypatch.setattr(DiskStore, "resolve", counted)
        said, _ = await said_by(fs, "cat d3/f3 d4/f4; find . -type f | wc -l")
        assert said.split() == ["touched", "4", "200"]
        assert len(lookups) <= 200 + 10 * 8
        lookups.clear()
        await fs.exec(["true"]).result()
        assert len(lookups) <= 10 * 8


@pytest.mark.spec("EXEC-9")
async def test_a_program_sees_what_verbs_see_whatever_lies_below(project):
    os.mkfifo(project / "fifo")
    os.symlink("a.txt", project / "link")
    os.symlink("/etc", project / "out")
    os.symlink("nowhere", project / "d" / "dangling")
    os.link(project / "below", project / "d" / "same")
    (project / "d" / "é").write_text("accent\n")
    (project / "d" / "empty").mkdir(mode=0o711)
    with open(os.fsencode(project) + b"/\xff", "wb") as file:
        file.write(b"no text")
    (project / ".bailiwick~x").write_text("ours")
    async with opened(project) as fs:
        await fs.remove("gone")
        await fs.write_text("d/new", "new\n")
        await fs.move("d/b.txt", "moved")
        await fs.move("d", "e")
        await fs.make_dir("d")
        await fs.write_text("d/b.txt", "another\n")
        seen = {str(each.path): each.type for each in (await fs.find(".")).matches}
        said, _ = await said_by(fs, "find . -mindepth 1 -printf '%P %y\n'; cat d/b.txt e/same e/é")
        lines = said.splitlines()
        kinds = {"file": "f", "directory": "d", "symlink": "l"}
        assert sorted(lines[:-3]) == sorted(
            f"{path} {kinds[kind]}"
            for path, kind in seen.items()
            if path not in ("out", "\\xff")  # what leads outside, and what no path names
        )
        assert lines[-3:] == ["another", "below", "accent"]
