"""Runs: what each agent did, told from what is on record; and taking it back line by line."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick import AgentRun, Authority, Edit, ParseError, PathNotFound, User
from bailiwick.paths import ScopedPath
from bailiwick.verbs.runs.path_stories import hunk_id

ACCESS = ("read", "write", "list", "delete", "move", "metadata", "watch")
KINDS = ("directory", "volume")
each_kind = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def rooted(tmp_path, kind):
    """A person's scope on a root, fresh or not, and what makes agents of it."""
    place, options = f"sqlite:{tmp_path}/v.db", {}
    if kind == "directory":
        place, options = str(tmp_path / "tree"), {"history": "on"}
        (tmp_path / "tree").mkdir(exist_ok=True)
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:w", place, trusted=True, **options)
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")

        async def agent(name):
            return await person.delegate(AgentRun("chat", name))

        yield person, agent


async def text(scope, path):
    return (await scope.read_text(path)).text


def told(changes):
    return [
        (str(each.path), each.kind, [line for hunk in each.hunks for line in hunk.lines])
        for each in changes.changes
    ]


@pytest.mark.spec("RUN-1")
@each_kind
async def test_a_run_says_who_did_what_through_which_front(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        await person.write_text("old.txt", "old\n")
        first = (await agent("one")).with_run(title="Tidy up", step="rename")
        await first.edit("a.txt", [Edit("2\n", "two\n")])
        await first.with_run(step="clean").remove("old.txt")
        await first.write_text("b.txt", "b\n")
        with pytest.raises(PathNotFound):
            await first.read_text("missing")
        second = await agent("two")
        await second.read_text("a.txt")
        runs = await person.runs()
        assert [run.subject for run in runs] == ["agent_run:chat/two", "agent_run:chat/one"]
        run = runs[1]
        assert (run.title, run.front, run.root) == ("Tidy up", "python", "workspace:w")
        assert run.begun_ns <= run.seen_ns
        assert (run.active, run.calls) == (True, 4)
        assert [(step.name, step.calls) for step in run.steps] == [("rename", 3), ("clean", 1)]
        assert (run.created, run.changed, run.moved, run.removed) == (1, 1, 0, 1)
        assert (run.added, run.removed_lines, run.hunks, run.reviewed) == (2, 2, 3, 0)
        assert (runs[0].title, runs[0].hunks) == (None, 0)
        assert (await person.run_info(run.id[:6])).info == run.info
        assert [each.id for each in await first.runs()] == [run.id]
        await first.aclose()
        assert not (await person.run_info(run.id)).active


async def every_page(scope, limit):
    """All runs by pages of a size, as their subjects."""
    pages, cursor = [], None
    while not pages or cursor is not None:
        page = await scope.runs(limit=limit, cursor=cursor, brief=True)
        assert page.truncated == (page.next_cursor is not None)
        assert page.runs == list(page)
        pages.append([each.subject.rpartition("/")[2] for each in page])
        cursor = page.next_cursor
    return pages


@pytest.mark.spec("RUN-1")
async def test_a_list_of_runs_says_where_it_was_cut_and_goes_on_from_there(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        for number in range(5):
            # What people do by hand stands between them, and is no run.
            await person.write_text("mine", str(number))
            await (await agent(str(number))).list()
        assert await every_page(person, 2) == [["4", "3"], ["2", "1"], ["0"]]
        assert await every_page(person, 5) == [["4", "3", "2", "1", "0"]]
        assert await every_page(await agent("3"), 1) == [["3"]]
        first = await person.runs(limit=2)
        await (await agent("5")).list()
        await (await agent("4")).list()
        after = await person.runs(limit=2, cursor=first.next_cursor)
        assert [each.subject for each in after] == ["agent_run:chat/2", "agent_run:chat/1"]
        since = await person.runs(limit=2, since_ns=after[0].seen_ns)
        assert (len(since), since.truncated) == (2, True)
        assert not (await person.runs(limit=2, since_ns=since[1].seen_ns)).truncated
        # Who has got hold of another's cursor is told of their own runs all the same.
        newest = await person.runs(limit=1)
        for name in ("1", "2"):
            stolen = await (await agent(name)).runs(cursor=newest.next_cursor)
            assert {each.subject for each in stolen} <= {f"agent_run:chat/{name}"}
            assert not stolen.truncated


@pytest.mark.spec("RUN-1")
@pytest.mark.parametrize("whose", ["agent_run:chat/other", "user:ann"])
async def test_a_list_of_runs_takes_no_longer_for_what_it_does_not_show(
    tmp_path, monkeypatch, whose
):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await one.list()
        assert len(await one.runs()) == 1
        database = person._pipeline.runs._database
        ((root, counts),) = database.read("SELECT root, counts FROM runs WHERE title IS NULL", ())

        def others(connection):
            for at in range(50):
                row = (f"{at:012x}", root, whose, "python", None, 2**62 + at, 2**62 + at, counts)
                connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

        await database.write(others)
        await one.runs()  # nothing is new on record
        asked, read = [], database.read
        monkeypatch.setattr(
            database, "read", lambda sql, *bindings: (asked.append(sql), read(sql, *bindings))[1]
        )
        (found,) = await one.runs(limit=1, brief=True)
        assert found.subject == "agent_run:chat/one"
        assert len([sql for sql in asked if "ORDER BY seen_ns" in sql]) == 1
        found = await person.runs(limit=1, brief=True)
        assert [each.subject == whose for each in found] == [not whose.startswith("user:")]


@pytest.mark.spec("RUN-1")
async def test_a_place_of_ones_own_lists_runs_by_pages_too():
    async with bailiwick.open("memory:") as fs:
        for title in ("one", "two", "three"):
            await fs.with_run(title=title).write_text("a", title)
        first = await fs.runs(limit=2)
        assert ([each.title for each in first], first.truncated) == (["three", "two"], True)
        (last,) = await fs.runs(limit=2, cursor=first.next_cursor)
        assert last.title == "one"


@pytest.mark.spec("RUN-1")
@pytest.mark.parametrize(
    "wrong",
    [{"cursor": each} for each in ("", "x", "1.1", "1.1.xyz", f"{2**63}.1.0123456789ab", 5)]
    + [{"limit": each} for each in (0, -1, 1_001, "2", True)]
    + [{"since_ns": "2h"}],
)
async def test_what_is_no_page_of_runs_is_refused(tmp_path, wrong):
    async with rooted(tmp_path, "volume") as (person, _):
        with pytest.raises(ParseError):
            await person.runs(**wrong)


@pytest.mark.spec("RUN-1")
async def test_runs_are_still_there_after_a_restart(tmp_path):
    async with rooted(tmp_path, "volume") as (_, agent):
        await (await agent("one")).with_run(title="Tidy up").write_text("a.txt", "a\n")
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:w", f"sqlite:{tmp_path}/v.db", trusted=True)
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        (run,) = await person.runs()
        assert (run.title, run.created) == ("Tidy up", 1)


@pytest.mark.spec("RUN-1")
async def test_a_title_that_is_another_begins_another_run(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await one.write_text("a", "a")
        await one.with_run(title="First").write_text("b", "b")
        await one.with_run(title="Second").write_text("c", "c")
        await one.with_run(title="First").write_text("d", "d")
        runs = {run.title: run for run in await person.runs()}
        assert {title: run.calls for title, run in runs.items()} == {"First": 3, "Second": 1}


@pytest.mark.spec("RUN-1")
async def test_what_a_person_does_by_hand_is_no_part_of_what_they_gave_a_title(tmp_path):
    async with rooted(tmp_path, "volume") as (person, _):
        await person.write_text("mine", "m")
        await person.with_run(title="Script").write_text("a", "a")
        await person.write_text("mine too", "m")
        await person.with_run(title="Script").write_text("b", "b")
        (run,) = await person.runs()
        assert (run.title, run.calls) == ("Script", 2)
        assert sorted((await run.undo()).undone) == ["a", "b"]
        assert [str(each.path) for each in (await person.list()).entries] == ["mine", "mine too"]


@pytest.mark.spec("RUN-1")
@pytest.mark.parametrize("title", ["", "x" * 201, "two\nlines", 5])
async def test_what_is_no_title_is_refused(tmp_path, title):
    async with bailiwick.open("memory:") as fs:
        with pytest.raises(ParseError):
            fs.with_run(title=title)


@pytest.mark.spec("RUN-1")
async def test_a_place_of_ones_own_has_runs_too(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.with_run(title="By hand").write_text("a.txt", "a\n")
        (run,) = await fs.runs()
        assert (run.title, run.created) == ("By hand", 1)
        assert told(await run.changes()) == [("a.txt", "created", ["+a"])]


@pytest.mark.spec("RUN-1")
def test_blocking_code_has_runs_too(tmp_path):
    with bailiwick.open_sync(f"sqlite:{tmp_path}/v.db") as fs:
        fs.with_run(title="By hand").write_text("a.txt", "a\n")
        (run,) = fs.runs()
        assert (run.title, fs.run_info(run.id).created) == ("By hand", 1)
        assert told(run.changes()) == [("a.txt", "created", ["+a"])]
        assert run.undo(preview=True).undone == ["a.txt"]
        assert fs.undo(run=run.id).undone == ["a.txt"]


@pytest.mark.spec("RUN-2")
@each_kind
async def test_changes_are_net_and_what_others_did_is_theirs(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n4\n5\n")
        one, two = await agent("one"), await agent("two")
        await one.edit("a.txt", [Edit("1\n", "x\n")])
        await two.edit("a.txt", [Edit("3\n", "three\n")])
        await one.edit("a.txt", [Edit("x\n", "one\n")])
        await one.write_text("gone.txt", "g\n")
        await one.remove("gone.txt")
        run = next(each for each in await person.runs() if each.subject.endswith("one"))
        (change,) = (await run.changes()).changes
        assert [hunk.lines for hunk in change.hunks] == [["-1", "+one", " 2", " three", " 4"]]
        assert [(each.subject, each.lines[2:4]) for each in change.others] == [
            ("agent_run:chat/two", ["-3", "+three"])
        ]
        known = change.hunks[0].id
        await person.write_text("a.txt", "0\n0\n0\n" + await text(person, "a.txt"))
        ((hunk,),) = [each.hunks for each in (await run.changes()).changes]
        assert (hunk.id, hunk.state) == (known, "stands")


@pytest.mark.spec("RUN-3")
@each_kind
async def test_a_run_a_file_and_a_hunk_are_taken_back(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n4\n5\n")
        await person.write_text("b.txt", "b\n")
        one = await agent("one")
        await one.write_text("a.txt", "one\n2\n3\n4\nfive\n")
        await one.write_text("b.txt", "B\n")
        await one.make_dir("d")
        await one.write_text("d/new.txt", "new\n")
        await person.edit("a.txt", [Edit("3\n", "three\n")])
        (run,) = await person.runs()
        first, _ = next(c for c in (await run.changes()).changes if c.path == "a.txt").hunks
        looked = await person.undo(run=run.id, hunks=[first.id], preview=True)
        assert (looked.undone, await text(person, "a.txt")) == (
            ["a.txt"],
            "one\n2\nthree\n4\nfive\n",
        )
        done = await person.undo(run=run.id, hunks=[first.id])
        assert await text(person, "a.txt") == "1\n2\nthree\n4\nfive\n"
        await person.undo(done.request_id)
        assert await text(person, "a.txt") == "one\n2\nthree\n4\nfive\n"
        await person.undo(run=run.id, paths=["b.txt"])
        assert await text(person, "b.txt") == "b\n"
        await run.undo()
        assert await text(person, "a.txt") == "1\n2\nthree\n4\n5\n"
        assert not await person.exists("d/new.txt")
        assert (await run.undo()).undone == []


@pytest.mark.spec("RUN-3")
@each_kind
async def test_a_hunk_is_named_by_the_beginning_of_its_id(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await (await agent("one")).write_text("a.txt", "a\n")
        (run,) = await person.runs()
        (hunk,) = (await run.changes()).changes[0].hunks
        for wrong, hint in (
            (hunk.id[:3], "at least 4"), ("", "at least 4"), (f"{hunk.id}0", "another id"),
        ):  # fmt: skip
            with pytest.raises(PathNotFound) as refused:
                await run.undo(hunks=[wrong])
            assert hint in refused.value.hint
        assert (await run.undo(hunks=[hunk.id[:6]])).undone == ["a.txt"]


@pytest.mark.spec("RUN-3")
async def test_the_beginning_of_several_hunks_is_refused(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await one.make_dir("d")
        (run,) = await person.runs()
        seen: dict[str, str] = {}
        for number in range(20_000):
            begin = hunk_id(run.id, ScopedPath(f"{number}"), "", "x\n")[:4]
            if begin in seen:
                break
            seen[begin] = f"{number}"
        for path in (seen[begin], f"{number}"):
            await one.write_text(path, "x\n")
        with pytest.raises(ParseError, match="2 ids begin with"):
            await run.undo(hunks=[begin])
        assert await text(person, seen[begin]) == "x\n"


@pytest.mark.spec("RUN-3")
@each_kind
async def test_all_of_a_run_comes_back_with_directories_and_moves(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.make_dir("src")
        await person.write_text("src/a.txt", "a\n")
        await person.write_bytes("src/b.bin", b"\0\1")
        one = await agent("one")
        await one.move("src/a.txt", "moved.txt")
        await one.remove("src", recursive=True)
        await one.write_text("new/deep/c.txt", "c\n", parents=True)
        (run,) = await person.runs()
        assert (run.created, run.moved) == (1, 1)
        await run.undo()
        assert [str(each.path) for each in (await person.find(".")).matches] == [
            "src", "src/a.txt", "src/b.bin",
        ]  # fmt: skip


@pytest.mark.spec("RUN-3")
@each_kind
async def test_a_conflict_is_reported_and_nothing_is_changed(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        one = await agent("one")
        await one.edit("a.txt", [Edit("2\n", "two\n")])
        await one.write_text("b.txt", "b\n")
        await person.edit("a.txt", [Edit("two\n", "zwei\n")])
        (run,) = await person.runs()
        done = await run.undo()
        assert ([each.path for each in done.conflicts], done.undone) == (["a.txt"], [])
        assert await text(person, "a.txt") == "1\nzwei\n3\n"
        assert await person.exists("b.txt")
        assert (await run.undo(["b.txt"])).undone == ["b.txt"]


@pytest.mark.spec("RUN-3")
async def test_one_step_of_a_run_is_taken_back(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = (await agent("one")).with_run(title="t")
        await one.with_run(step="first").write_text("a.txt", "a\n")
        await one.with_run(step="second").write_text("b.txt", "b\n")
        (run,) = await person.runs()
        await run.undo(step="first")
        assert (await person.exists("a.txt"), await person.exists("b.txt")) == (False, True)


@pytest.mark.spec("RUN-3")
async def test_an_agent_takes_back_only_its_own_run(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one, two = await agent("one"), await agent("two")
        await one.write_text("a.txt", "a\n")
        (run,) = await person.runs()
        with pytest.raises(PathNotFound):
            await two.undo(run=run.id)
        with pytest.raises(ParseError):
            await one.undo(run=run.id, version="1")
        assert (await one.undo(run=run.id)).undone == ["a.txt"]


@st.composite
def stories(draw):
    """Who edits which of two files where, with lines that each has alone, or moves it away."""
    who, which = st.sampled_from(("one", "two", "person")), st.sampled_from("ab")
    edits = st.tuples(who, which, st.integers(0, 9), st.integers(0, 2), st.booleans())
    moves = st.tuples(who, which, st.none(), st.none(), st.none())
    return draw(st.lists(st.one_of(edits, edits, moves), min_size=2, max_size=7))


@pytest.mark.slow
@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("kind", [*KINDS, "directory that was there before"])
@given(story=stories(), data=st.data())
@settings(max_examples=25)
def test_undo_leaves_exactly_everybody_elses_lines_or_nothing_is_done(
    tmp_path_factory, kind, story, data
):
    asyncio.run(_play(tmp_path_factory.mktemp("w"), kind, story, data))


class Played:
    """A file of the model: where it lies and lay, whose moves brought it there, and its lines."""

    def __init__(self, path):
        self.places, self.movers = [path], []
        self.lines = [f"base {path}{n}\n" for n in range(4)]

    @property
    def path(self):
        return self.places[-1]

    def moved(self, who, path):
        self.places.append(path)
        self.movers.append(who)


async def _play(tmp_path, kind, story, data):
    files = {each: Played(each) for each in "ab"}
    async with rooted(tmp_path, kind.partition(" ")[0]) as (person, agent):
        scopes = {"person": person, "one": await agent("one"), "two": await agent("two")}
        for path, file in files.items():
            if kind in KINDS:
                await person.write_text(path, "".join(file.lines))
            else:
                (tmp_path / "tree" / path).write_text("".join(file.lines))
        for number, (who, which, at, gone, adds) in enumerate(story):
            file = files[which]
            if at is None:
                await scopes[who].move(file.path, f"{which}{number}")
                file.moved(who, f"{which}{number}")
                continue
            at = min(at, len(file.lines))
            file.lines[at : at + gone] = [f"{who} {which}{number}\n"] if adds else []
            await scopes[who].write_text(file.path, "".join(file.lines))
        runs = [each for each in await person.runs() if each.hunks]
        if not runs:
            return
        run = data.draw(st.sampled_from(runs))
        name = run.subject.rpartition("/")[2]
        changes = (await run.changes()).changes
        part = data.draw(st.sampled_from(("run", "file", "hunk")))
        change = data.draw(st.sampled_from(changes))
        asked = {"run": {}, "file": {"paths": [change.path]}}.get(part)
        hunk = None
        if asked is None:
            hunk = data.draw(st.sampled_from(change.hunks))
            asked = {"hunks": [hunk.id]}
        done = await person.undo(run=run.id, **asked)
        found = {str(each.path) for each in (await person.find(".")).matches}
        for file in files.values():
            (path,) = found & set(file.places)
            now = [f"{line}\n" for line in (await text(person, path)).splitlines()]
            if done.conflicts:
                assert (path, now) == (file.path, file.lines)
                continue
            if name not in file.movers:
                assert path == file.path
            theirs = [line for line in file.lines if not line.startswith(f"{name} ")]
            assert [line for line in now if line in theirs] == theirs
            if part == "run" or (part == "file" and change.path == file.path):
                assert not any(line.startswith(f"{name} ") for line in now)
            elif part != "hunk" or change.path != file.path:
                assert (path, now) == (file.path, file.lines)
            else:
                gone = {f"{line[1:]}\n" for line in hunk.lines if line.startswith("+")}
                assert not gone & set(now)


@pytest.mark.spec("RUN-2", "RUN-3")
@each_kind
async def test_a_move_of_others_while_a_run_goes_on_is_theirs(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        await person.write_bytes("b.bin", b"\0old")
        one = await agent("one")
        await one.edit("a.txt", [Edit("1\n", "one\n")])
        await one.write_bytes("b.bin", b"\0mid")
        await person.move("a.txt", "moved.txt")
        await person.move("b.bin", "moved.bin")
        await one.edit("moved.txt", [Edit("3\n", "three\n")])
        await one.write_bytes("moved.bin", b"\0new")
        (run,) = await person.runs()
        told = {(str(each.path), each.kind) for each in (await run.changes()).changes}
        assert (run.moved, told) == (0, {("moved.txt", "updated"), ("moved.bin", "updated")})
        assert (await run.undo()).conflicts == []
        assert await text(person, "moved.txt") == "1\n2\n3\n"
        assert (await person.read_bytes("moved.bin")).data == b"\0old"
        assert not await person.exists("a.txt")


@pytest.mark.spec("RUN-3")
@each_kind
async def test_what_was_moved_over_something_else_comes_back_with_it_or_not_at_all(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        for path in ("a.txt", "b.txt"):
            await person.write_text(path, f"{path}\n")
        one = await agent("one")
        await one.move("a.txt", "b.txt", replace=True)
        await one.write_text("own.txt", "o\n")
        await person.write_text("own.txt", "o\nmine\n")
        (run,) = await person.runs()
        await person.write_text("a.txt", "in the way\n")
        done = await run.undo()
        assert [str(each.path) for each in done.conflicts] == ["a.txt"]
        assert [await text(person, each) for each in ("b.txt", "own.txt")] == [
            "a.txt\n", "o\nmine\n"
        ]  # fmt: skip
        await person.remove("a.txt")
        assert (await run.undo()).conflicts == []
        assert [await text(person, each) for each in ("a.txt", "b.txt", "own.txt")] == [
            "a.txt\n", "b.txt\n", "mine\n"
        ]  # fmt: skip


@pytest.mark.spec("RUN-2", "RUN-3")
@each_kind
async def test_lines_are_found_and_taken_back_where_others_have_moved_them_to(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("d/a.txt", "1\n", parents=True)
        await person.write_text("b.txt", "1\n")
        one = await agent("one")
        for path in ("d/a.txt", "b.txt"):
            await one.write_text(path, "1\nmore\n")
        await person.move("b.txt", "c.txt")
        await person.move("d", "e")
        (run,) = await person.runs()
        assert told(await run.changes()) == [
            (path, "updated", [" 1", "+more"]) for path in ("c.txt", "e/a.txt")
        ]
        hunks = [each.hunks[0].id for each in (await run.changes()).changes]
        await run.undo(hunks=hunks[:1])
        assert [await text(person, each) for each in ("c.txt", "e/a.txt")] == ["1\n", "1\nmore\n"]
        assert (await run.undo()).conflicts == []
        assert await text(person, "e/a.txt") == "1\n"


@pytest.mark.spec("RUN-3")
@each_kind
@pytest.mark.parametrize("what", ["a.txt", "raw", "d"])
@pytest.mark.parametrize("since", ["moved on", "removed"])
async def test_what_others_moved_on_or_removed_is_said_and_stays(tmp_path, kind, what, since):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "a\n")
        await person.write_bytes("raw", b"\0")
        await person.write_text("d/inner", "d\n", parents=True)
        await (await agent("one")).move(what, "there")
        if since == "removed":
            await person.remove("there", recursive=True)
        else:
            await person.move("there", "elsewhere")
        (run,) = await person.runs()
        for preview in (True, False):
            done = await run.undo(preview=preview)
            assert (len(done.conflicts), done.undone) == (1, [])
        assert [await person.exists(each) for each in (what, "elsewhere")] == [
            False,
            since != "removed",
        ]
