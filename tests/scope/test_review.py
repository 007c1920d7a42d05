"""The queue of what agents did: what is left of it, what people say, and what that does."""

import asyncio
import time

import pytest

import bailiwick
from bailiwick import (
    AgentRun,
    Authority,
    Busy,
    Edit,
    MissingAccess,
    ParseError,
    PathNotFound,
    Unsupported,
    User,
)
from bailiwick.audit import Intent
from bailiwick.paths import ScopedPath
from bailiwick.state.ledger.query import LedgerFilter
from bailiwick.stores.volume.versions import change_log
from bailiwick.sync_twins import SyncReview
from bailiwick.verbs.runs.path_stories import hunk_id
from tests.scope.test_runs import ACCESS, each_kind, rooted, text
from tests.scope.test_verdicts_model import pictured


async def left(person):
    found = await person.review.queue()
    return [
        (str(file.path), file.kind, [line for hunk in file.hunks for line in hunk.lines])
        for file in found.files
    ]


async def ids(person):
    found = await person.review.queue()
    return [hunk.id for file in found.files for hunk in file.hunks]


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_what_an_agent_does_is_left_until_a_person_accepts_it(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        one = await agent("one")
        await one.edit("a.txt", [Edit("2\n", "two\n")])
        await one.write_text("new.txt", "n\n")
        assert await left(person) == [
            ("a.txt", "updated", [" 1", "-2", "+two", " 3"]), ("new.txt", "created", ["+n"]),
        ]  # fmt: skip
        (run,) = await person.runs()
        known = [hunk.id for each in (await run.changes()).changes for hunk in each.hunks]
        assert await ids(person) == known
        done = await person.review.accept(known[0])
        assert (done.accepted, done.left) == (known[:1], 1)
        assert await left(person) == [("new.txt", "created", ["+n"])]
        (run,) = await person.runs()
        assert (run.hunks, run.reviewed) == (2, 1)
        done = await person.review.accept(run=run.id[:6])
        assert (done.accepted, done.left) == (known[1:], 0)
        assert await left(person) == []
        (run,) = await person.runs()
        assert (run.hunks, run.reviewed) == (2, 2)
        said = [hunk.reviewed for each in (await run.changes()).changes for hunk in each.hunks]
        assert said == ["accepted", "accepted"]


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_reviewed_is_about_content(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        one, two = await agent("one"), await agent("two")
        await one.edit("a.txt", [Edit("2\n", "two\n")])
        await person.review.accept(await ids(person))
        await two.edit("a.txt", [Edit("two\n", "zwei\n")])
        assert await left(person) == [("a.txt", "updated", [" 1", "-two", "+zwei", " 3"])]
        await one.edit("a.txt", [Edit("zwei\n", "two\n")])
        assert await left(person) == []
        await one.edit("a.txt", [Edit("1\n", "one\n")])
        await person.edit("a.txt", [Edit("3\n", "three\n")])
        assert await left(person) == [("a.txt", "updated", ["-1", "+one", " two", " three"])]
        await person.edit("a.txt", [Edit("one\n", "uno\n")])
        assert await left(person) == []


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_a_rejection_takes_back_those_lines_and_no_others(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n4\n5\n6\n7\n")
        one = await agent("one")
        await one.edit("a.txt", [Edit("2\n", "two\n"), Edit("6\n", "six\n")])
        await person.edit("a.txt", [Edit("4\n", "vier\n")])
        await one.write_text("made.txt", "n\n")
        first, second, *rest = await ids(person)
        planned = await person.review.reject(first, preview=True)
        assert (planned.undone, planned.left, planned.preview) == (["a.txt"], 2 + len(rest), True)
        done = await person.review.reject(first, note="keep the digit")
        assert (done.rejected, done.undone) == ([first], ["a.txt"])
        assert done.conflicts == []
        assert await text(person, "a.txt") == "1\n2\n3\nvier\n5\nsix\n7\n"
        assert await ids(person) == [second, *rest]
        await person.review.reject(paths=["made.txt"])
        assert not await person.exists("made.txt")
        assert await ids(person) == [second]
        (run,) = await person.runs()
        said = {h.id: h.reviewed for each in (await run.changes()).changes for h in each.hunks}
        assert said[first] == "rejected"
        assert said[second] is None
        await one.edit("a.txt", [Edit("2\n", "two\n")])
        assert await ids(person) == [first, second]


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_files_that_come_go_and_move_are_left_too(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("gone.txt", "g\n")
        await person.write_text("old.txt", "o\n")
        await person.write_bytes("raw.bin", b"\0one")
        one = await agent("one")
        await one.remove("gone.txt")
        await one.move("old.txt", "new.txt")
        await one.write_bytes("raw.bin", b"\0two")
        await one.write_text("empty.txt", "")
        assert await left(person) == [
            ("empty.txt", "created", []), ("gone.txt", "deleted", ["-g"]),
            ("new.txt", "moved", []), ("raw.bin", "updated", []),
        ]  # fmt: skip
        (run,) = await person.runs()
        done = await person.review.reject(run=run.id)
        assert done.conflicts == []
        assert await left(person) == []
        assert await text(person, "gone.txt") == "g\n"
        assert await text(person, "old.txt") == "o\n"
        assert (await person.read_bytes("raw.bin")).data == b"\0one"
        assert not await person.exists("empty.txt")
        assert not await person.exists("new.txt")


@pytest.mark.spec("REVIEW-1")
async def test_verdicts_outlive_the_process(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await (await agent("one")).write_text("a.txt", "a\n")
        await (await agent("two")).write_text("b.txt", "b\n")
        await person.review.accept((await ids(person))[0])
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:w", f"sqlite:{tmp_path}/v.db", trusted=True)
        person = await authority.request_root(User("bob"), "workspace:w", ACCESS, "to look")
        assert await left(person) == [("b.txt", "created", ["+b"])]
        await person.review.accept(await ids(person))
        assert await left(person) == []
        await authority.ledger.flush()
        found = await authority.ledger.query(LedgerFilter(verb="accept"), cursor=None, limit=9)
        assert sorted((each.subject, each.outcome) for each in found.records) == [
            ("user:ann", "success"), ("user:bob", "success"),
        ]  # fmt: skip


@pytest.mark.spec("REVIEW-1")
async def test_only_people_review(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await one.write_text("a.txt", "a\n")
        (known,) = await ids(person)
        for attempt in (
            one.review.queue(), one.review.accept(known), one.review.reject(known),
            one.review.accept(run=known),
        ):  # fmt: skip
            with pytest.raises(MissingAccess):
                await attempt
        assert await ids(person) == [known]


@pytest.mark.spec("REVIEW-1")
async def test_what_is_not_left_is_refused(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await (await agent("one")).write_text("a.txt", "a\n")
        for wrong in ("0123456789ab", "a", "0123:a.txt", "*"):
            with pytest.raises(PathNotFound):
                await person.review.accept(wrong)
        for wrong in ((), "", [""], [5], 5):
            with pytest.raises(ParseError):
                await person.review.accept(wrong)
        with pytest.raises(ParseError):
            await person.review.reject(await ids(person), note="\0")
        with pytest.raises(ParseError):
            await person.review.queue(cursor="x")
        assert len(await ids(person)) == 1


@pytest.mark.spec("REVIEW-1")
async def test_a_file_of_a_run_is_named_by_both(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await one.write_text("a.txt", "a\n")
        await one.write_text("b.txt", "b\n")
        (run,) = await person.runs()
        await person.review.accept(f"{run.id}:a.txt")
        assert await left(person) == [("b.txt", "created", ["+b"])]


@pytest.mark.spec("REVIEW-1")
async def test_a_place_of_ones_own_keeps_no_verdicts():
    async with bailiwick.open("memory:") as fs:
        with pytest.raises(Unsupported):
            await fs.review.queue()


@pytest.mark.spec("REVIEW-1")
def test_blocking_code_reviews_too(tmp_path):
    with asyncio.Runner() as runner:
        rooting = rooted(tmp_path, "volume")
        person, agent = runner.run(rooting.__aenter__())
        runner.run(runner.run(agent("one")).write_text("a.txt", "a\n"))
        review = SyncReview(person.review, runner.run)
        (file,) = review.queue().files
        planned = review.reject(file.hunks[0].id, preview=True)
        assert planned.undone == ["a.txt"]
        assert review.accept(file.hunks[0].id).left == 0
        runner.run(rooting.__aexit__(None, None, None))
    with bailiwick.open_sync("memory:") as fs, pytest.raises(Unsupported):
        fs.review.queue()


@pytest.mark.spec("REVIEW-3")
async def test_each_agent_is_told_once_of_its_own_lines_only(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("a.txt", "1\n2\n3\n")
        one, two = await agent("one"), await agent("two")
        await one.edit("a.txt", [Edit("2\n", "two\n")])
        await two.edit("a.txt", [Edit("two\n", "zwei\n")])
        (known,) = await ids(person)
        await person.review.reject(known, note="keep the digit")
        assert await text(person, "a.txt") == "1\n2\n3\n"
        (first,), (second,) = await one.review.notes(), await two.review.notes()
        assert (first.lines, second.lines) == (["-2"], ["+zwei"])
        assert {first.note, second.note} == {"keep the digit"}
        for scope in (one, two, person, await agent("three")):
            assert await scope.review.notes() == []


@pytest.mark.spec("REVIEW-3")
async def test_while_an_agent_is_at_work_a_rejection_waits_unless_one_insists(tmp_path):
    async with rooted(tmp_path, "directory") as (person, agent):
        one = await agent("one")
        await one.write_text("a.txt", "a\n")
        (known,) = await ids(person)
        intent = Intent(
            time_ns=time.time_ns(), request_id="r1", grant=one.grant, operation="exec",
            verb="exec", path=".", destination=None, policy_source=None, hooks=(),
            front="python", approval_id=None, command="make",
        )  # fmt: skip
        await one._pipeline.ledger.intend(intent)
        with pytest.raises(Busy) as refused:
            await person.review.reject(known)
        assert refused.value.details["at_work"] == ["agent_run:chat/one"]
        assert await person.exists("a.txt")
        assert (await person.review.reject(known, insist=True)).undone == ["a.txt"]


@pytest.mark.spec("REVIEW-1")
async def test_what_is_accepted_is_what_was_shown(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        # An agent knows its run, and has time: names of so few digits are found twice at once.
        await one.write_text("f.txt", "1\n")
        (run,) = await one.runs()
        seen: dict[str, str] = {}
        for number in range(20_000):
            lines = f"{number}\n"
            begin = hunk_id(run.id, ScopedPath("f.txt"), "", lines)[:5]
            if begin in seen:
                break
            seen[begin] = lines
        await one.write_text("f.txt", seen[begin])
        (shown,) = await ids(person)
        assert shown.startswith(begin)
        assert len(shown) * 4 >= 128
        await one.write_text("f.txt", lines)
        with pytest.raises(PathNotFound):
            await person.review.accept(shown)
        assert await left(person) == [("f.txt", "created", [f"+{lines.strip()}"])]


@pytest.mark.spec("REVIEW-1")
async def test_the_beginning_of_several_ids_is_refused(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await one.write_text("0.txt", "x\n")
        (run,) = await one.runs()
        seen: dict[str, str] = {}
        for number in range(20_000):
            name = f"{number}.txt"
            begin = hunk_id(run.id, ScopedPath(name), "", "x\n")[:5]
            if begin in seen:
                break
            seen[begin] = name
        await one.write_text(seen[begin], "x\n")
        await one.write_text(name, "x\n")
        for speak in (person.review.accept, person.review.reject):
            with pytest.raises(ParseError):
                await speak(begin)
        assert {name, seen[begin]} <= {path for path, _, _ in await left(person)}


@pytest.mark.spec("REVIEW-3")
async def test_a_note_is_told_only_where_its_path_is_within_reach(tmp_path):
    async with rooted(tmp_path, "volume") as (person, _):
        for name in ("here", "there"):
            await person.make_dir(name)
        subject = AgentRun("chat", "one")
        here = await person.delegate(subject, path="here", rebase=True)
        there = await person.delegate(subject, path="there", rebase=True)
        narrow = await person.delegate(subject, denied=["here"])
        await here.write_text("secret.txt", "s\n")
        await person.review.reject(await ids(person), note="no")
        assert await there.review.notes() == []
        assert await narrow.review.notes() == []
        (note,) = await here.review.notes()
        assert (note.path, note.lines) == ("secret.txt", ["+s"])
        assert await here.review.notes() == []


@pytest.mark.spec("REVIEW-1")
async def test_what_was_settled_in_one_tree_settles_nothing_in_another(tmp_path):
    subject = AgentRun("chat", "one")
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("f.txt", "1\n")
        fork = await person.fork("other")
        await (await fork.delegate(subject)).write_text("f.txt", "fork\n")
        one = await agent("one")
        for name in ("f.txt", "g.txt", "h.txt"):
            await one.write_text(name, "main\n")
        await person.review.accept(await ids(person))
        assert await left(person) == []
        assert await left(fork) == [("f.txt", "updated", ["-1", "+fork"])]
        await fork.review.accept(await ids(fork))
        assert await left(fork) == []
        assert await left(person) == []
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:w", f"sqlite:{tmp_path}/new.db", trusted=True)
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        await (await person.delegate(subject)).write_text("new.txt", "n\n")
        assert await left(person) == [("new.txt", "created", ["+n"])]


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_what_is_carried_along_with_a_directory_is_left_as_well(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.make_dir("d")
        await person.write_text("d/a.txt", "a\n")
        one = await agent("one")
        await one.write_text("d/new.txt", "n\n")
        await one.edit("d/a.txt", [Edit("a\n", "evil\n")])
        await one.move("d", "e")
        expected = [("a.txt", "updated", ["-a", "+evil"]), ("new.txt", "created", ["+n"])]
        assert await left(person) == [
            ("e", "moved", []), *((f"e/{name}", *rest) for name, *rest in expected)
        ]  # fmt: skip
        await person.review.accept(paths=["e/new.txt"])
        await person.move("e", "f")
        await person.make_dir("g")
        await person.move("f", "g/f")
        assert [each for each in await left(person) if each[0] != "g/f"] == [
            ("g/f/a.txt", "updated", ["-a", "+evil"])
        ]
        await person.review.reject(paths=["g/f/a.txt"])
        assert await text(person, "g/f/a.txt") == "a\n"
        assert await text(person, "g/f/new.txt") == "n\n"


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_what_came_and_went_with_its_directory_is_left_and_comes_back(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.make_dir("d")
        await person.make_dir("d/s")
        await person.write_text("d/a.txt", "a\n")
        await person.write_text("d/s/b.txt", "b\n")
        one = await agent("one")
        await one.copy("d", "e", recursive=True)
        made = [path for path, *_ in await left(person)]
        assert made == ["e", "e/a.txt", "e/s", "e/s/b.txt"]
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert not await person.exists("e")
        await one.edit("d/a.txt", [Edit("a\n", "evil\n")])
        await one.remove("d", recursive=True)
        assert await left(person) == [
            ("d", "deleted", []), ("d/a.txt", "deleted", ["-a"]), ("d/s", "deleted", []),
            ("d/s/b.txt", "deleted", ["-b"]),
        ]  # fmt: skip
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert await text(person, "d/a.txt") == "a\n"
        assert await text(person, "d/s/b.txt") == "b\n"
        assert await left(person) == []


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_who_moves_a_file_has_not_agreed_to_what_is_in_it(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_bytes("a.bin", b"\0one")
        one = await agent("one")
        await one.write_bytes("a.bin", b"\0evil")
        await one.write_bytes("new.bin", b"\0evil")
        await person.move("a.bin", "b.bin")
        await person.move("new.bin", "other.bin")
        assert await left(person) == [
            ("b.bin", "updated", []), ("other.bin", "created", []),
        ]  # fmt: skip
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert (await person.read_bytes("b.bin")).data == b"\0one"
        assert not await person.exists("other.bin")
        await one.write_bytes("b.bin", b"\0evil")
        await person.write_bytes("b.bin", b"\0mine")
        assert await left(person) == []


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_what_was_moved_over_something_else_is_never_half_taken_back(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("from.txt", "f\n")
        await person.write_text("to.txt", "precious\n")
        await (await agent("one")).move("from.txt", "to.txt", replace=True)
        await person.write_text("from.txt", "in the way\n")
        done = await person.review.reject(await ids(person))
        assert [str(each.path) for each in done.conflicts] == ["from.txt"]
        assert (done.rejected, done.left) == ([], 1)
        assert await text(person, "to.txt") == "f\n"
        await person.remove("from.txt")
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert await text(person, "from.txt") == "f\n"
        assert await text(person, "to.txt") == "precious\n"
        assert await left(person) == []


@pytest.mark.spec("REVIEW-1")
@each_kind
async def test_modes_that_agents_set_are_left_too(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.sh", "1\n2\n")
        one = await agent("one")
        await one.set_mode("a.sh", 0o755)
        await one.edit("a.sh", [Edit("1\n", "one\n")])
        lines, mode = await ids(person)
        (file,) = (await person.review.queue()).files
        assert file.hunks[1].header == "mode 600 to 755"
        await person.review.accept(lines)
        await person.edit("a.sh", [Edit("2\n", "two\n")])
        assert await ids(person) == [mode]
        done = await person.review.reject(mode)
        assert (done.conflicts, done.left) == ([], 0)
        assert (await person.stat("a.sh")).mode & 0o777 == 0o600
        assert await text(person, "a.sh") == "one\ntwo\n"
        assert await left(person) == []
        await one.set_mode("a.sh", 0o755)
        await person.review.accept(await ids(person))
        assert await left(person) == []


@pytest.mark.spec("REVIEW-3")
@each_kind
async def test_a_note_is_not_for_whoever_took_the_name_of_an_agent(tmp_path, kind):
    """Agents name those they pass a grant on to as they like: that makes none of them another."""
    async with rooted(tmp_path, kind) as (person, agent):
        one, two = await agent("one"), await agent("two")
        false = await two.delegate(AgentRun("chat", "one"))
        await one.write_text("a.txt", "a\n")
        await false.write_text("b.txt", "b\n")
        runs = await person.runs()
        assert [each.subject for each in runs] == ["agent_run:chat/one"] * 2
        await person.review.reject(paths=["a.txt"], note="not a")
        assert await false.review.notes() == await two.review.notes() == []
        assert [each.note for each in await one.review.notes()] == ["not a"]
        await person.review.reject(paths=["b.txt"], note="not b")
        assert await one.review.notes() == []
        assert [each.note for each in await false.review.notes()] == ["not b"]


@pytest.mark.spec("REVIEW-3")
async def test_what_is_said_and_how_long_is_waited_is_bounded(tmp_path):
    limits = {
        "review_note_characters_max": 5, "review_note_lines_max": 2, "review_notes_told_max": 1,
        "review_wait_seconds_max": 0.0,
    }  # fmt: skip
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root(
            "workspace:w",
            f"sqlite:{tmp_path}/v.db",
            trusted=True,
            limits=bailiwick.Limits(**limits),
        )
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        one = await person.delegate(AgentRun("chat", "one"))
        for name in "ab":
            await one.write_text(name, "1\n2\n3\n")
        with pytest.raises(ParseError, match="5 characters"):
            await person.review.reject(paths=["a"], note="longer")
        await person.review.reject(paths=["a", "b"], note="short")
        for _ in "ab":
            (note,) = await one.review.notes()
            assert (note.lines, note.note) == (["+1", "+2"], "short")
        assert await one.review.notes() == []


@pytest.mark.spec("REVIEW-1", "RUN-2")
async def test_what_changed_too_much_at_once_is_left_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(change_log, "CHANGES_MAX", 5)
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("a.txt", "a\n")
        one = await agent("one")
        async with one.transaction() as inside:
            for number in range(10):
                await inside.write_text(f"{number}.txt", "x\n")
        await one.write_text("b.txt", "b\n")
        queue = await person.review.queue()
        assert [str(file.path) for file in queue.files] == [".", "b.txt"]
        assert queue.files[0].hunks[0].header.startswith("more was changed at once")
        (run,) = await person.runs()
        assert (await run.changes()).truncated
        done = await person.review.reject(paths=["."])
        assert [each.path for each in done.conflicts] == ["."]
        assert await person.exists("9.txt")
        done = await person.review.accept(queue.files[0].hunks[0].id)
        assert done.left == 1
        assert await left(person) == [("b.txt", "created", ["+b"])]
        with pytest.raises(Unsupported):
            await person.undo(run=run.id, paths=["b.txt"])
        assert (await person.undo(run=run.id)).conflicts == []
        assert not await person.exists("9.txt")


@pytest.mark.spec("REVIEW-1")
async def test_what_is_left_in_one_root_is_nothing_in_another(tmp_path):
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        seats = {}
        for name in "ab":
            await authority.add_root(
                f"workspace:{name}", f"sqlite:{tmp_path}/{name}.db", trusted=True
            )
            seats[name] = await authority.request_root(
                User("ann"), f"workspace:{name}", ACCESS, "to look"
            )
        one = await seats["a"].delegate(AgentRun("chat", "one"))
        await one.write_text("f.txt", "f\n")
        (file,) = (await seats["a"].review.queue()).files
        hunk, run = file.hunks[0].id, file.hunks[0].run
        for name in (hunk, f"{hunk}@{file.version}", run, f"{run}:f.txt"):
            for said in (seats["b"].review.accept, seats["b"].review.reject):
                with pytest.raises(PathNotFound):
                    await said(name)
        assert await ids(seats["a"]) == [hunk]


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("replace", [True, False])
async def test_a_file_of_another_program_that_made_room_comes_back(tmp_path, replace):
    async with rooted(tmp_path, "directory") as (person, agent):
        for name in ("from", "to", "other"):
            (tmp_path / "tree" / name).write_text(f"{name}\n")
        before = await pictured(person)
        one = await agent("one")
        await one.write_text("other", "2\n")
        if not replace:
            await one.remove("to")
        await one.move("from", "to", replace=replace)
        (run,) = await person.runs()
        assert [each.replaces for each in (await run.changes()).changes] == [False, True]
        await run.undo(["other"])
        assert (await person.review.reject(paths=["to"])).conflicts == []
        assert await pictured(person) == before
