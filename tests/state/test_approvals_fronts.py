"""Fronts that put a question to their own person, what is kept of it, and what fails."""

import asyncio
import logging
import os
import stat
from contextlib import suppress

import pytest

from bailiwick.approvals import Preview
from bailiwick.errors import ApprovalTimeout, ParseError
from bailiwick.state.approvals.desk import KEPT_DAYS
from bailiwick.state.approvals.questions import DIFF_CHARACTERS_MAX, DIFFS_KEPT
from tests.state.rooms import NoDisk, held, opened, question
from tests.state.test_approvals import ANN, all_wait, asked, cancelled, never_answers, put, says
from tests.waiting import give_a_chance

# --- a front that asks ---------------------------------------------------------------------------


@pytest.mark.spec("ASK-1", "AUDIT-1")
@pytest.mark.parametrize("surface", ["none", "console"])
async def test_a_front_puts_the_question_to_its_own_person(surface):
    async with opened(surface=surface) as rooms:
        seen = []

        async def asker(approval):
            seen.append(approval)
            return "grant"

        verdict = await rooms.desk.ask(question(front="acp"), asker=asker, wait_s=None)
        assert (verdict.allowed, verdict.by) == (True, "user:acp")
        assert seen[0].question.preview.diff == question().preview.diff
        assert rooms.records()[0]["subject"] == "user:acp"
        assert len(rooms.rules.rules()) == 1


@pytest.mark.spec("ASK-1")
async def test_the_first_to_answer_wins_and_the_front_withdraws_its_question():
    async with opened() as rooms:
        withdrawn = asyncio.Event()

        async def asker(approval):
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()

        call, approval = await asked(rooms, asker=asker)
        await rooms.desk.answer(approval.id, "no", **ANN)
        assert not (await call).allowed
        assert withdrawn.is_set()


async def test_a_front_that_answers_too_late_changes_nothing():
    async with opened() as rooms:
        given, answered = asyncio.Event(), asyncio.Event()

        async def asker(approval):
            given.set()
            with suppress(asyncio.CancelledError):  # a front that does not give up
                await answered.wait()
            return "always"

        call, approval = await asked(rooms, asker=asker)
        await given.wait()
        await rooms.desk.answer(approval.id, "no", **ANN)
        assert not (await call).allowed
        assert rooms.desk.get(approval.id).answer == "no"
        assert rooms.rules.rules() == ()


async def test_a_front_where_nobody_answers_leaves_the_question_to_others():
    async with opened(surface="console") as rooms:
        call, approval = await asked(rooms, asker=says(None))
        await give_a_chance(0.15)
        assert not call.done()
        await rooms.desk.answer(approval.id, "once", **ANN)
        assert (await call).allowed


@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_a_front_where_nobody_answers_and_no_others_means_the_default(default):
    async with opened(surface="none") as rooms:
        verdict = await rooms.desk.ask(question(default=default), asker=says(None), wait_s=None)
        assert (verdict.allowed, verdict.by) == (default == "allow", "default")
        assert rooms.desk.get(verdict.approval_id).state == "expired"


async def test_a_front_that_fails_or_talks_nonsense_has_not_answered(caplog):
    async def fails(approval):
        raise RuntimeError("no terminal")

    async with opened(surface="none") as rooms:
        for asker in (fails, says("yes please"), says(42), says([])):
            with caplog.at_level(logging.WARNING, "bailiwick"):
                verdict = await rooms.desk.ask(question(), asker=asker, wait_s=None)
            assert not verdict.allowed
        assert len(caplog.records) == 4


@pytest.mark.spec("LIFE-1")
async def test_a_cancelled_call_leaves_its_question_and_no_task():
    async with opened() as rooms:
        call, approval = await asked(rooms, asker=never_answers)
        assert await cancelled(call)
        assert rooms.desk._waiting == {}
        assert rooms.desk.get(approval.id).state == "pending"
        await rooms.desk.answer(approval.id, "once", **ANN)
        assert (await rooms.desk.redeem(approval.id, question())).allowed


@pytest.mark.spec("LIFE-1")
async def test_a_call_cancelled_at_any_moment_leaves_nothing_running():
    for ticks in range(25):
        async with opened() as rooms:
            call = asyncio.create_task(rooms.desk.ask(question(), asker=says("once"), wait_s=None))
            for _ in range(ticks):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            await rooms.database.write(lambda connection: None)
            assert rooms.desk._waiting == {}
            assert all(not task.get_name().startswith("ask") for task in asyncio.all_tasks())
            states = {approval.state for approval in rooms.desk.list().approvals}
            assert states <= {"pending", "granted", "used"}


async def test_answers_come_from_other_threads_too(tmp_path):
    async with opened(tmp_path) as rooms:
        call, approval = await asked(rooms)

        async def answer():
            await rooms.desk.answer(approval.id, "once", **ANN)

        await asyncio.to_thread(asyncio.run, answer())
        assert (await call).allowed


async def test_an_answer_in_this_process_wakes_the_call_without_any_poll():
    async with opened(seconds=10**6, poll_s=10**5) as rooms:
        call, approval = await asked(rooms)
        await all_wait(rooms, [call])
        await rooms.desk.answer(approval.id, "once", **ANN)
        assert (await call).allowed


# --- what is remembered --------------------------------------------------------------------------


@pytest.mark.spec("ASK-1", "ASK-2")
async def test_answers_for_more_than_once_become_rules_with_the_answer(tmp_path):
    async with opened(tmp_path) as rooms:
        for answer in ("once", "no"):
            await rooms.desk.answer(await put(rooms), answer, **ANN)
            if answer == "once":
                await rooms.desk.ask(question(), asker=None, wait_s=0)
        assert rooms.rules.rules() == ()
        approval_id = await put(rooms)
        await rooms.desk.answer(approval_id, "never", **ANN)
        [rule] = rooms.rules.rules()
        assert (rule.effect, rule.grant_id, rule.subject, rule.paths, rule.root) == (
            "deny", "h1", "agent_run:c1/r1", (".git/config",), "workspace:demo"
        )  # fmt: skip
        assert (rule.operation, rule.access, rule.approval_id, rule.by) == (
            "write", ("write",), approval_id, "user:ann"
        )  # fmt: skip
        acts = [record["act"] for record in rooms.records()]
        assert acts == ["approve", "approve", "approve", "rule"]
    async with opened(tmp_path) as rooms:
        assert rooms.rules.rules() == (rule,)


@pytest.mark.spec("ASK-2")
async def test_without_a_record_an_answer_leaves_no_rule_and_no_trace():
    async with opened() as rooms:
        call, approval = await asked(rooms)
        rooms.fail_records = True
        before = rooms.everything()
        for answer in ("always", "never", "once", "no"):
            with pytest.raises(NoDisk):
                await rooms.desk.answer(approval.id, answer, **ANN)
        assert rooms.everything() == before
        assert rooms.rules.rules() == ()
        assert not call.done()
        rooms.fail_records = False
        await rooms.desk.answer(approval.id, "always", **ANN)
        assert (await call).allowed


async def test_without_a_record_a_question_does_not_run_out_quietly():
    async with opened(seconds=60) as rooms:
        call, approval = await asked(rooms)
        rooms.fail_records = True
        rooms.clock.advance(60)
        with pytest.raises(NoDisk):
            await call
        assert rooms.rows("approvals")[0][2] == "pending"
        assert rooms.desk.get(approval.id).state == "expired"


# --- content -------------------------------------------------------------------------------------


def files_that_hold(directory, text):
    return sorted(
        name.name for name in directory.rglob("*")
        if name.is_file() and text.encode() in name.read_bytes()
    )  # fmt: skip


@pytest.mark.spec("NOTE-2")
@pytest.mark.parametrize("settled_by", ["answer", "time"])
async def test_the_diff_is_erased_where_nobody_answered_and_of_secret_roots(tmp_path, settled_by):
    marker = "HUNTER2" * 3_000  # more than a page: what is erased is on pages of its own
    root = "secret:keys" if settled_by == "answer" else "workspace:demo"
    about = question(root=root, preview=Preview(sha256="a" * 64, diff=f"+{marker}\n"))
    async with opened(tmp_path, seconds=60) as rooms:
        approval_id = await put(rooms, about)
        assert rooms.desk.get(approval_id).question.preview.diff == f"+{marker}\n"
        for path in tmp_path.iterdir():
            if path.is_file():
                assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path.name
        if settled_by == "answer":
            await rooms.desk.answer(approval_id, "once", **ANN)
        else:
            rooms.clock.advance(60)
            await rooms.desk.prune()
        settled = rooms.desk.get(approval_id)
        assert settled.question.preview.diff is None
        assert settled.question.preview.sha256 == "a" * 64
    assert files_that_hold(tmp_path, "HUNTER2") == [], "overwritten, and the log is folded in"


@pytest.mark.spec("NOTE-2")
async def test_the_diffs_of_the_last_answered_questions_are_kept_and_no_more(tmp_path):
    marker = "HUNTER2" * 3_000
    async with opened(tmp_path, seconds=60) as rooms:
        ids = []
        for number in range(DIFFS_KEPT + 2):
            text = f"+{marker}\n" if number < 2 else f"+{number}\n"
            about = question(paths_sha256=str(number), preview=Preview(sha256="a" * 64, diff=text))
            ids.append(await put(rooms, about))
            await rooms.desk.answer(ids[-1], "no" if number % 2 else "once", **ANN)
        kept = [rooms.desk.get(each).question.preview.diff for each in ids]
        assert kept == [None, None, *(f"+{number}\n" for number in range(2, DIFFS_KEPT + 2))]
    assert files_that_hold(tmp_path, "HUNTER2") == []


async def test_a_diff_is_kept_as_far_as_it_can_be_shown():
    async with opened() as rooms:
        long = question(preview=Preview(sha256="a" * 64, diff="x" * (DIFF_CHARACTERS_MAX + 1)))
        kept = rooms.desk.get(await put(rooms, long)).question.preview
        assert (len(kept.diff), kept.diff_truncated) == (DIFF_CHARACTERS_MAX, True)
        odd = question(preview=Preview(sha256="b" * 64, diff="a\ud800b"))
        kept = rooms.desk.get(await put(rooms, odd)).question.preview
        assert (kept.diff, kept.diff_truncated) == ("a\\ud800b", False)


# --- lists ---------------------------------------------------------------------------------------


async def test_questions_are_listed_by_state_and_page_by_page():
    async with opened(seconds=60) as rooms:
        ids = [await put(rooms, question(paths_sha256=str(number))) for number in range(5)]
        await rooms.desk.answer(ids[0], "no", **ANN)
        await rooms.desk.answer(ids[1], "once", **ANN)
        assert [approval.id for approval in rooms.desk.pending()] == ids[2:]
        first = rooms.desk.list(limit=2)
        second = rooms.desk.list(limit=2, cursor=first.next_cursor)
        third = rooms.desk.list(limit=2, cursor=second.next_cursor)
        pages = (*first.approvals, *second.approvals, *third.approvals)
        assert [approval.id for approval in pages] == ids[::-1]
        assert third.next_cursor is None

        def listed(state):
            return [approval.id for approval in rooms.desk.list(state=state).approvals]

        assert listed("denied") == [ids[0]]
        assert listed("granted") == [ids[1]]
        assert listed("pending") == ids[:1:-1]
        assert listed("expired") == []
        rooms.clock.advance(60)
        assert rooms.desk.pending() == []
        assert listed("pending") == []
        assert listed("granted") == []
        assert listed("expired") == ids[:0:-1]
        for bad in ({"state": "open"}, {"limit": 0}, {"cursor": "1; DROP"}):
            with pytest.raises(ParseError):
                rooms.desk.list(**bad)


async def test_ids_are_not_to_be_guessed_and_can_be_typed():
    async with opened() as rooms:
        ids = {await put(rooms, question(paths_sha256=str(number))) for number in range(50)}
        assert len(ids) == 50
        assert all(len(id_) == 16 and id_.isalnum() and id_ == id_.lower() for id_ in ids)


async def test_old_questions_are_cleared_away_with_the_rules_of_grants_that_ended():
    async with opened(seconds=60) as rooms:
        for grant_id in ("h1", "h2"):
            await rooms.grants.hand_out(held(grant_id), front="python")
            approval_id = await put(rooms, question(grant_id=grant_id))
            await rooms.desk.answer(approval_id, "grant", **ANN)
        await put(rooms, question(paths_sha256="other"))
        await rooms.grants.revoke("h1", **ANN)
        rooms.clock.advance(61)
        await rooms.desk.prune()
        assert [rule.grant_id for rule in rooms.rules.rules()] == ["h2"]
        assert len(rooms.rows("approvals")) == 3
        rooms.clock.advance(KEPT_DAYS * 24 * 3600 + 61)
        await rooms.desk.prune()
        assert rooms.rows("approvals") == []


async def test_asking_clears_away_by_itself():
    async with opened(seconds=60) as rooms:
        for number in range(130):
            await put(rooms, question(paths_sha256=str(number)))
            rooms.clock.advance(KEPT_DAYS * 24 * 3600)
        assert len(rooms.rows("approvals")) <= 65
        with pytest.raises(ApprovalTimeout):
            await rooms.desk.redeem(rooms.desk.list().approvals[0].id, question(paths_sha256="129"))
