"""Reviewing what is not in the tree yet: an overlay, a working copy of commands, or a fork. What is
accepted is applied, what is rejected is given up there."""

from contextlib import asynccontextmanager
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick import MissingAccess, ParseError, PathNotFound
from tests.authority.support import EVERYTHING, governed
from tests.scope.test_exec import RUNNING, opened
from tests.scope.test_runs import rooted, text
from tests.scope.volumes import tree, volume

pytestmark = [pytest.mark.spec("REVIEW-2"), pytest.mark.slow]

LINES = "".join(f"{number}\n" for number in range(1, 10))


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text(LINES)
    (root / "gone.txt").write_text("gone\n")
    (root / "old.txt").write_text("old\n")
    return root


def told(queue):
    return [
        (
            str(file.path),
            file.kind,
            [line for hunk in file.hunks for line in hunk.lines if line[0] != " "],
        )
        for file in queue.files
    ]


def ids(queue):
    return [hunk.id for file in queue.files for hunk in file.hunks]


def overlaid(tmp_path, project):
    return governed(
        tmp_path, "", place=f"overlay:{project}", state_dir=tmp_path / "state",
        options='history = "on"',
    )  # fmt: skip


async def overlay_of(person):
    return (await person.work())[-1].id


async def test_the_mode_of_a_directory_is_accepted(project):
    (project / "d").mkdir(mode=0o755)
    async with opened(project) as fs:
        script = "chmod 750 d; echo n > d/n"
        work = (await fs.exec(shell=script, publish="manual").result()).work_id
        queue = await fs.review.queue(work=work)
        assert [(str(file.path), file.hunks[0].header) for file in queue.files] == [
            ("d", "mode 755 to 750"), ("d/n", "@@ -0,0 +1,1 @@"),
        ]  # fmt: skip
        done = await fs.review.accept(ids(queue)[:1], work=work)
        assert (done.conflicts, done.left) == ([], 1)
    assert (project / "d").stat().st_mode & 0o777 == 0o750


async def test_all_that_a_command_left_is_given_up(project):
    async with opened(project) as fs:
        result = await fs.exec(
            shell="rm gone.txt; mkdir e; echo n > e/n", publish="manual"
        ).result()
        queue = await fs.review.queue(work=result.work_id)
        done = await fs.review.reject(ids(queue), work=result.work_id)
        assert (done.rejected, done.left) == (ids(queue), 0)
        assert await fs.work() == []
        with pytest.raises(PathNotFound):
            await fs.review.queue(work=result.work_id)
    assert sorted(each.name for each in project.iterdir()) == ["a.txt", "gone.txt", "old.txt"]


async def test_what_no_tree_can_hold_keeps_nothing_else_from_being_accepted(project):
    async with opened(project) as fs:
        script = "echo more >> a.txt; mkdir d; echo new > d/n; touch C:x"
        work = (await fs.exec(shell=script).result()).work_id
        queue = await fs.review.queue(work=work)
        assert [str(each.path) for each in queue.files] == ["a.txt", "d/n"]
        done = await fs.review.accept(ids(queue), work=work)
        assert (done.conflicts, done.left) == ([], 0)
    assert (project / "a.txt").read_text() == LINES + "more\n"
    assert (project / "d/n").read_text() == "new\n"


async def test_pieces_of_an_overlay_are_applied_or_given_up(tmp_path, project):
    async with overlaid(tmp_path, project) as home:
        agent, person = await home.scope(), await home.scope(EVERYTHING, subject="user:local")
        await agent.write_text("a.txt", LINES.replace("2\n", "two\n").replace("8\n", "eight\n"))
        await agent.write_text("d/new.txt", "new\n", parents=True)
        await agent.remove("gone.txt")
        await agent.move("old.txt", "name.txt")
        work = await overlay_of(person)
        queue = await person.review.queue(work=work)
        assert told(queue) == [
            ("a.txt", "updated", ["-2", "+two", "-8", "+eight"]),
            ("d/new.txt", "created", ["+new"]),
            ("gone.txt", "deleted", ["-gone"]),
            ("name.txt", "moved", []),
        ]  # fmt: skip
        assert (queue.left, queue.files[3].origin) == (5, "old.txt")
        two, eight, new, gone, moved = ids(queue)
        for attempt in (
            agent.review.queue(work=work), agent.review.accept(two, work=work),
            agent.review.reject(two, work=work),
        ):  # fmt: skip
            with pytest.raises(MissingAccess):
                await attempt
        done = await person.review.accept([two], work=work)
        assert (done.accepted, done.applied, done.left) == ([two], ["a.txt"], 4)
        assert (project / "a.txt").read_text() == LINES.replace("2\n", "two\n")
        assert ids(await person.review.queue(work=work)) == [eight, new, gone, moved]
        done = await person.review.reject([eight, gone], work=work, note="leave those")
        assert (done.rejected, done.left) == ([eight, gone], 2)
        assert await text(agent, "a.txt") == LINES.replace("2\n", "two\n")
        assert await text(agent, "gone.txt") == "gone\n"
        done = await person.review.accept(paths=["d"], work=work)
        assert (done.accepted, (project / "d" / "new.txt").read_text()) == ([new], "new\n")
        done = await person.review.accept(work=work)
        assert (done.accepted, done.left, done.conflicts) == ([moved], 0, [])
        assert not (project / "old.txt").exists()
        assert (project / "name.txt").read_text() == "old\n"
        assert (project / "gone.txt").read_text() == "gone\n"
        assert (await person.changes()).changes == []
        assert (await person.review.queue(work=work)).left == 0


@pytest.mark.spec("REVIEW-2", "REVIEW-3")
async def test_whoever_changed_a_path_of_an_overlay_last_is_told_that_it_was_rejected(
    tmp_path, project
):
    async with overlaid(tmp_path, project) as home:
        one, other = await home.scope(), await home.scope(subject="agent_run:other/1")
        person = await home.scope(EVERYTHING, subject="user:local")
        assert await person.work() == []
        await one.write_text("a.txt", LINES.replace("2\n", "two\n"))
        await other.write_text("b.txt", "b\n")
        await one.write_text("c.txt", "c\n")
        await other.move("c.txt", "moved.txt")
        await other.copy("old.txt", "copy.txt")
        work = await overlay_of(person)
        await person.review.reject(work=work, note="no")
        assert [str(each.path) for each in await one.review.notes()] == ["a.txt"]
        assert [str(each.path) for each in await other.review.notes()] == [
            "b.txt", "copy.txt", "moved.txt",
        ]  # fmt: skip
        assert await one.review.notes() == await other.review.notes() == []
        assert await person.work() == []


@pytest.mark.spec("REVIEW-2", "REVIEW-3")
async def test_what_a_person_ran_apart_is_of_no_agent_that_changed_the_same_file(tmp_path, project):
    async with governed(
        tmp_path, "", place=str(project), state_dir=tmp_path / "state", options='history = "on"'
    ) as home:
        agent, person = await home.scope(), await home.scope(RUNNING, subject="user:local")
        await agent.write_text("a.txt", LINES.replace("2\n", "two\n"))
        work = (await person.exec(shell="echo mine >> a.txt", publish="manual").result()).work_id
        (file,) = (await person.review.queue(work=work)).files
        assert [each.subject for each in file.hunks] == ["user:local"]
        await person.review.reject(ids(await person.review.queue(work=work)), work=work, note="no")
        assert await agent.review.notes() == []


async def test_what_others_changed_meanwhile_stays_and_a_conflict_changes_nothing(
    tmp_path, project
):
    async with overlaid(tmp_path, project) as home:
        agent, person = await home.scope(), await home.scope(EVERYTHING, subject="user:local")
        await agent.write_text("a.txt", LINES.replace("2\n", "two\n").replace("8\n", "eight\n"))
        await agent.write_text("old.txt", "mine\n")
        (project / "a.txt").write_text(LINES.replace("5\n", "fünf\n"))
        (project / "old.txt").write_text("theirs\n")
        work = await overlay_of(person)
        queue = await person.review.queue(work=work)
        assert told(queue)[0] == ("a.txt", "updated", ["-2", "+two", "-8", "+eight"])
        assert queue.files[1].against
        two, eight, clash = ids(queue)
        done = await person.review.accept([two, clash], work=work)
        assert ([each.path for each in done.conflicts], done.accepted) == (["old.txt"], [])
        assert (project / "a.txt").read_text() == LINES.replace("5\n", "fünf\n")
        assert (await person.review.accept([two], work=work)).accepted == [two]
        assert (project / "a.txt").read_text() == LINES.replace("5\n", "fünf\n").replace(
            "2\n", "two\n"
        )
        assert ids(await person.review.queue(work=work)) == [eight, clash]
        assert (await person.review.reject([eight], work=work)).left == 1
        joined = LINES.replace("5\n", "fünf\n").replace("2\n", "two\n")
        assert await text(agent, "a.txt") == joined
        done = await person.review.reject([clash], work=work)
        assert (done.left, done.conflicts) == (0, [])
        assert await text(agent, "old.txt") == "theirs\n"
        assert (project / "a.txt").read_text() == LINES.replace("5\n", "fünf\n").replace(
            "2\n", "two\n"
        )


async def test_what_a_command_left_is_reviewed_alike(tmp_path, project):
    async with opened(project) as fs:
        result = await fs.exec(
            shell="sed -i s/3/three/ a.txt; rm gone.txt; mkdir e; echo n > e/n", publish="manual"
        ).result()
        work = result.work_id
        queue = await fs.review.queue(work=work)
        assert told(queue) == [
            ("a.txt", "updated", ["-3", "+three"]), ("e/n", "created", ["+n"]),
            ("gone.txt", "deleted", ["-gone"]),
        ]  # fmt: skip
        three, new, gone = ids(queue)
        planned = await fs.review.reject([gone], work=work, preview=True)
        assert (planned.left, planned.preview, (await fs.review.queue(work=work)).left) == (
            3,
            True,
            3,
        )
        await fs.review.reject([gone], work=work)
        done = await fs.review.accept([three, new], work=work)
        assert (done.left, sorted(done.applied)) == (0, ["a.txt", "e", "e/n"])
        assert (project / "a.txt").read_text() == LINES.replace("3", "three")
        assert (project / "gone.txt").exists()
        assert await fs.work() == []
        with pytest.raises(PathNotFound):
            await fs.review.queue(work=work)


async def test_pieces_of_a_fork_are_merged_or_taken_out_of_it(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", LINES)
        await fs.write_text("gone", "gone\n")
        await fs.write_text("dir/x", "x\n", parents=True)
        await fs.write_text("both", "base\n")
        fork = await fs.fork("try")
        await fork.write_text("a", LINES.replace("2\n", "two\n").replace("8\n", "eight\n"))
        await fork.remove("gone")
        await fork.move("dir", "folder")
        await fork.write_text("both", "fork\n")
        await fork.write_text("n/new", "new\n", parents=True)
        await fs.write_text("a", LINES.replace("5\n", "fünf\n"))
        await fs.write_text("both", "tree\n")
        await fs.write_text("own", "own\n")
        queue = await fs.review.queue(fork="try")
        assert told(queue) == [
            ("a", "updated", ["-2", "+two", "-8", "+eight"]),
            ("both", "updated", ["-tree", "+fork"]), ("folder/x", "moved", []),
            ("gone", "deleted", ["-gone"]), ("n/new", "created", ["+new"]),
        ]  # fmt: skip
        two, eight, both, moved, gone, new = ids(queue)
        before = await tree(fs)
        done = await fs.review.accept([two, both], fork="try")
        assert ([each.path for each in done.conflicts], done.accepted) == (["both"], [])
        assert await tree(fs) == before
        planned = await fs.review.reject([both], fork="try", preview=True)
        assert (planned.undone, planned.preview) == (["both"], True)
        done = await fs.review.reject([both, eight, gone], fork="try")
        assert (done.rejected, done.left) == ([eight, both, gone], 3)
        assert await text(fork, "both") == "base\n"
        assert await text(fork, "a") == LINES.replace("2\n", "two\n")
        assert await text(fork, "gone") == "gone\n"
        assert await tree(fs) == before
        done = await fs.review.accept([two], fork="try")
        assert (done.accepted, done.applied, done.left) == ([two], ["a"], 2)
        assert await text(fs, "a") == LINES.replace("5\n", "fünf\n").replace("2\n", "two\n")
        done = await fs.review.accept(fork="try")
        assert (done.accepted, done.left, done.conflicts) == ([moved, new], 0, [])
        assert await tree(fs) == {
            "a": LINES.replace("5\n", "fünf\n").replace("2\n", "two\n"), "both": "tree\n",
            "folder/x": "x\n", "gone": "gone\n", "n/new": "new\n", "own": "own\n",
        }  # fmt: skip
        await fs.undo(done.request_id)
        assert (await tree(fs))["dir/x"] == "x\n"
        await fork.aclose()


async def test_a_note_reaches_whoever_worked_apart(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("a", "1\n2\n")
        one, two = await agent("one"), await agent("two")
        fork = await one.fork("try")
        await fork.write_text("a", "1\ntwo\n")
        ((hunk,),) = [file.hunks for file in (await person.review.queue(fork="try")).files]
        assert hunk.subject == "agent_run:chat/one"
        await person.review.reject(fork="try", note="keep the digit")
        (note,) = await one.review.notes()
        assert (note.path, note.lines, note.note) == ("a", ["-2", "+two"], "keep the digit")
        assert await two.review.notes() == []
        await fork.aclose()


async def test_what_is_meant_is_one_thing(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "1\n")
        await (await fs.fork("try")).aclose()
        for wrong in ({"fork": "try", "work": "w"}, {"fork": "try", "run": "r"}, {"fork": 5}):
            with pytest.raises(ParseError):
                await fs.review.queue(**wrong)
        for wrong in ({"fork": "other"}, {"work": "w1234567890"}):
            with pytest.raises(PathNotFound):
                await fs.review.queue(**wrong)
        with pytest.raises(PathNotFound):
            await fs.review.accept("0123456789ab", fork="try")
        assert (await fs.review.queue(fork="try")).left == 0


PLACES = st.sets(st.sampled_from(range(0, 20, 2)), max_size=5)


def lines_with(changed):
    """Twenty lines, every other of them alike, with some changed by somebody."""
    return "".join(
        f"{changed.get(number, 'same' if number % 4 == 0 else number)}\n" for number in range(20)
    )


@pytest.mark.parametrize("where", ["fork", "overlay"])
@settings(max_examples=20)
@given(there=PLACES, here=PLACES, order=st.randoms(use_true_random=False), data=st.data())
async def test_whatever_is_said_of_each_piece_nothing_else_is_touched(
    where, tmp_path_factory, there, here, order, data
):
    """Pieces are accepted or rejected one by one, in any order, while the tree has changes of its
    own: in the end the tree has those and what was accepted."""
    here = here - there
    place = tmp_path_factory.mktemp("apart")
    async with apart_in(where, place, lines_with({})) as (fs, open_apart, part):
        apart = await open_apart()
        await apart.write_text("a", lines_with(dict.fromkeys(there, "agent")))
        await fs.write_text("a", lines_with(dict.fromkeys(here, "tree")))
        accepted: set[int] = set()
        waiting = sorted(there)
        order.shuffle(waiting)
        for _ in list(waiting):
            queue = await fs.review.queue(**part)
            assert queue.left == len(waiting)
            (file,) = queue.files
            assert file.against is None
            hunk = data.draw(st.sampled_from(file.hunks))
            at = int(hunk.header.split("+")[1].split(",")[0]) - 1
            at += [line[0] for line in hunk.lines].index("-")
            name = f"{hunk.id}@{file.version}"
            if data.draw(st.booleans()):
                done = await fs.review.accept(name, **part)
                accepted.add(at)
            else:
                done = await fs.review.reject(name, **part)
            assert (done.conflicts, done.left) == ([], len(waiting) - 1)
            waiting.remove(at)
            now = dict.fromkeys(here, "tree") | dict.fromkeys(accepted, "agent")
            assert await text(fs, "a") == lines_with(now)
        await apart.aclose()


@asynccontextmanager
async def apart_in(where, place, content):
    """A tree, what opens something that lies apart from it, and how that is named."""
    if where == "fork":
        async with volume(place) as fs:
            await fs.write_text("a", content)
            yield fs, partial(fs.fork, "try"), {"fork": "try"}
        return
    (place / "tree").mkdir()
    (place / "tree" / "a").write_text(content)
    state = str(place / "state")
    async with (
        bailiwick.open(f"overlay:{place}/tree", state_dir=state) as over,
        bailiwick.open(place / "tree", state_dir=state) as fs,
    ):
        yield _Seat(fs, over), partial(_itself, over), {}


async def _itself(over):
    return _Open(over)


class _Open:
    """An overlay that is closed by whoever opened it."""

    def __init__(self, over):
        self.write_text = over.write_text

    async def aclose(self):
        pass


class _Seat:
    """A directory, and the review of the overlay on it."""

    def __init__(self, fs, over):
        self.write_text, self.read_text = fs.write_text, fs.read_text
        self.review = self
        self._over = over

    async def _part(self):
        return {"work": (await self._over.work())[-1].id}

    async def queue(self):
        return await self._over.review.queue(**await self._part())

    async def accept(self, name):
        return await self._over.review.accept(name, **await self._part())

    async def reject(self, name):
        return await self._over.review.reject(name, **await self._part())
