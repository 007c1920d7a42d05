"""Questions, and the people who answer them: once each, for what was asked, and no longer."""

import asyncio

import pytest

from bailiwick.approvals import Approvals, Preview
from bailiwick.errors import ApprovalDenied, ApprovalTimeout, Closed, ParseError, PathNotFound
from bailiwick.grant import AgentRun, User
from bailiwick.state.approvals.desk import PENDING_MAX
from tests.state.processes import run_at_once, workers
from tests.state.rooms import Clock, opened, question, real_clock
from tests.waiting import give_a_chance

pytestmark = pytest.mark.both_engines

ANN = {"by": "user:ann", "front": "cli"}

OTHER_CONTENT = Preview(sha256="b" * 64, size=3, diff="-old\n+other\n")


async def asked(rooms, about=None, *, asker=None, wait_s=None):
    """A call that waits, and the approval it waits for."""
    before = {approval.id for approval in rooms.desk.pending()}
    call = asyncio.create_task(rooms.desk.ask(about or question(), asker=asker, wait_s=wait_s))
    while True:
        new = [each for each in rooms.desk.pending() if each.id not in before]
        if new:
            return call, new[0]
        await asyncio.sleep(0)


async def put(rooms, about=None):
    """A question that nobody waits for any more."""
    with pytest.raises(ApprovalTimeout) as waited:
        await rooms.desk.ask(about or question(), asker=None, wait_s=0)
    assert waited.value.details["pending"]
    return waited.value.details["approval_id"]


async def all_wait(rooms, calls):
    """Let so many calls come to where they wait."""
    while sum(map(len, rooms.desk._waiting.values())) < len(calls):
        await asyncio.sleep(0)


async def cancelled(task):
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


def says(answer):
    async def asker(approval):
        return answer

    return asker


async def never_answers(approval):
    await asyncio.Event().wait()


# --- asked and answered --------------------------------------------------------------------------


@pytest.mark.spec("ASK-1", "ASK-2", "AUDIT-1")
@pytest.mark.parametrize(
    ("answer", "allowed", "state"),
    [("once", True, "used"), ("grant", True, "used"), ("always", True, "used"),
     ("no", False, "denied"), ("never", False, "denied")],
)  # fmt: skip
async def test_a_call_waits_for_its_answer(answer, allowed, state):
    async with opened() as rooms:
        desk: Approvals = rooms.desk
        assert desk is rooms.desk
        call, approval = await asked(rooms)
        assert approval.question == question()
        assert not call.done()
        answered = await rooms.desk.answer(approval.id, answer, request_id="r7", **ANN)
        assert answered.answered_by == "user:ann"
        verdict = await call
        assert (verdict.allowed, verdict.approval_id, verdict.by) == (
            allowed, approval.id, "user:ann"
        )  # fmt: skip
        assert rooms.desk.get(approval.id).state == state
        record = rooms.records()[0]
        assert (record["act"], record["subject"], record["front"], record["request_id"]) == (
            "approve", "user:ann", "cli", "r7"
        )  # fmt: skip
        assert record["details"]["answer"] == answer
        assert record["details"]["asked_by"] == "agent_run:c1/r1"
        assert "secret" not in str(rooms.records())


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_where_nobody_can_be_asked_the_default_holds_at_once(default):
    async with opened(surface="none") as rooms:
        assert not rooms.desk.interactive("http")
        verdict = await rooms.desk.ask(question(default=default), asker=None, wait_s=None)
        assert (verdict.allowed, verdict.approval_id, verdict.by) == (
            default == "allow", None, "default"
        )  # fmt: skip
        assert rooms.rows("approvals") == []


@pytest.mark.parametrize("surface", ["console", "cli"])
async def test_a_surface_makes_every_front_one_that_asks(surface):
    async with opened(surface=surface) as rooms:
        assert rooms.desk.interactive("http")


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_when_its_time_is_up_the_default_holds(default):
    async with opened(seconds=60) as rooms:
        call, approval = await asked(rooms, question(default=default))
        rooms.clock.advance(59)
        await give_a_chance(0.25)  # several looks of who waits
        assert not call.done()
        rooms.clock.advance(1)
        verdict = await call
        assert (verdict.allowed, verdict.by) == (default == "allow", "default")
        assert rooms.desk.get(approval.id).state == "expired"
        with pytest.raises(ApprovalTimeout):
            await rooms.desk.answer(approval.id, "once", **ANN)
        with pytest.raises(ApprovalTimeout):
            await rooms.desk.redeem(approval.id, question(default=default))
        assert [record["details"]["answer"] for record in rooms.records()] == ["none"]
        assert rooms.records()[0]["subject"] == "default"


@pytest.mark.spec("ASK-2")
async def test_a_call_that_waits_only_so_long_is_told_where_to_come_back():
    async with opened() as rooms:
        with pytest.raises(ApprovalTimeout) as waited:
            await rooms.desk.ask(question(), asker=None, wait_s=0.05)
        details = waited.value.details
        approval = rooms.desk.get(details["approval_id"])
        assert details == {
            "approval_id": approval.id, "expires_ns": approval.expires_ns, "pending": True,
        }  # fmt: skip
        with pytest.raises(ApprovalTimeout) as still:
            await rooms.desk.redeem(approval.id, question())
        assert still.value.details == details
        await rooms.desk.answer(approval.id, "once", **ANN)
        verdict = await rooms.desk.redeem(approval.id, question())
        assert verdict.allowed
        assert verdict.by == "user:ann"


# --- answered once -------------------------------------------------------------------------------


@pytest.mark.spec("ASK-2")
async def test_the_first_answer_counts_and_later_ones_are_refused():
    async with opened() as rooms:
        approval_id = await put(rooms)
        answers = ("no", "once", "always", "never", "grant")
        results = await asyncio.gather(
            *(rooms.desk.answer(approval_id, answer, **ANN) for answer in answers),
            return_exceptions=True,
        )
        lost = [result for result in results if isinstance(result, ApprovalDenied)]
        assert len(lost) == 4
        assert rooms.desk.get(approval_id).answer == "no"
        assert rooms.rules.rules() == ()
        assert len(rooms.records()) == 1


@pytest.mark.spec("ASK-2")
@pytest.mark.slow
async def test_of_two_processes_that_answer_at_once_one_wins(tmp_path):
    async with opened(tmp_path, real_clock) as rooms:
        for _ in range(3):
            call, approval = await asked(rooms)
            said = await asyncio.to_thread(
                run_at_once,
                ("answer", tmp_path, approval.id, "once", "user:ann"),
                ("answer", tmp_path, approval.id, "no", "user:bob"),
            )
            assert sorted(said) == ["approval_denied", "won"]
            verdict = await call
            assert verdict.allowed == (said[0] == "won")
            assert verdict.by == ("user:ann" if said[0] == "won" else "user:bob")
        assert len(rooms.records()) == 3


@pytest.mark.spec("ASK-2")
async def test_a_waiting_call_hears_of_an_answer_in_another_process(tmp_path):
    async with opened(tmp_path, real_clock) as rooms:
        call, approval = await asked(rooms)
        with workers(("answer", tmp_path, approval.id, "once", "user:ann")) as [worker]:
            worker.go()
            assert await asyncio.to_thread(worker.line) == "won"
            assert (await call).allowed


@pytest.mark.parametrize("ticks", [-1, 0, 1])
async def test_at_the_last_moment_either_the_answer_or_the_clock_wins(ticks):
    async with opened(seconds=60) as rooms:
        call, approval = await asked(rooms)
        rooms.clock.now_ns = approval.expires_ns + ticks
        try:
            await rooms.desk.answer(approval.id, "once", **ANN)
        except ApprovalTimeout:
            answered = False
        else:
            answered = True
        assert answered == (ticks < 0)
        verdict = await call
        assert verdict.allowed == answered
        assert len(rooms.records()) == 1


async def test_a_clock_that_passes_while_they_race_never_gives_two_outcomes():
    for number in range(30):
        async with opened(seconds=60) as rooms:
            call, approval = await asked(rooms)
            rooms.clock.now_ns = approval.expires_ns - 1

            async def answer(rooms=rooms, approval=approval):
                return await rooms.desk.answer(approval.id, "always", **ANN)

            async def pass_time(rooms=rooms, number=number):
                for _ in range(number):
                    await asyncio.sleep(0)
                rooms.clock.advance(1)

            answered, _ = await asyncio.gather(answer(), pass_time(), return_exceptions=True)
            verdict = await call
            won = not isinstance(answered, ApprovalTimeout)
            assert verdict.allowed == won
            assert len(rooms.rules.rules()) == won


async def test_unknown_ids_answers_and_people_are_refused():
    async with opened() as rooms:
        approval_id = await put(rooms)
        with pytest.raises(PathNotFound):
            await rooms.desk.answer("nothing", "once", **ANN)
        with pytest.raises(ParseError):
            await rooms.desk.answer(approval_id, "maybe", **ANN)
        for someone in ("agent_run:c1/r1", "extension:x", "automation:x"):
            with pytest.raises(ApprovalDenied):
                await rooms.desk.answer(approval_id, "once", by=someone, front="http")
        with pytest.raises(ParseError):
            await rooms.desk.answer(approval_id, "once", by="someone", front="http")
        with pytest.raises(ApprovalDenied):
            await rooms.desk.redeem("nothing", question())
        assert rooms.desk.get("nothing") is None
        assert rooms.desk.get(approval_id).state == "pending"


# --- used once, for what was asked ---------------------------------------------------------------

ELSE = [
    ("subject", {"subject": AgentRun("c1", "r2")}),
    ("subject", {"subject": AgentRun("c1/r1", "x")}),
    ("root", {"root": "workspace:other"}),
    ("operation", {"operation": "edit"}),
    ("verb", {"verb": "append"}),
    ("paths", {"paths_sha256": "q" * 64}),
    ("paths", {"paths_total": 2}),
    ("destination", {"destination": "x"}),
    ("content", {"preview": OTHER_CONTENT}),
    ("content", {"preview": Preview()}),
]


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize(("differs", "fields"), ELSE)
async def test_an_approval_is_for_what_was_asked_and_nothing_else(differs, fields):
    async with opened() as rooms:
        approval_id = await put(rooms)
        for answered in (False, True):
            if answered:
                await rooms.desk.answer(approval_id, "once", **ANN)
            with pytest.raises(ApprovalDenied) as refused:
                await rooms.desk.redeem(approval_id, question(**fields))
            assert refused.value.details == {"differs": differs}
        assert rooms.desk.get(approval_id).state == "granted", "not used up by a wrong call"
        # Nor does a new question find it.
        other = await put(rooms, question(**fields))
        assert other != approval_id


@pytest.mark.spec("AUTH-1", "ASK-2")
def test_no_two_agent_runs_are_written_alike():
    assert str(AgentRun("c/d", "r")) == "agent_run:c/d/r"
    with pytest.raises(ParseError):
        AgentRun("c", "d/r")


@pytest.mark.spec("ASK-2")
async def test_another_grant_of_the_same_subject_may_use_it():
    async with opened() as rooms:
        approval_id = await put(rooms)
        await rooms.desk.answer(approval_id, "once", **ANN)
        again = question(grant_id="h2", request_id="q2", reason="again", front="http")
        assert (await rooms.desk.redeem(approval_id, again)).allowed


@pytest.mark.spec("ASK-2")
async def test_of_many_that_redeem_at_once_one_goes_on(tmp_path):
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        approval_id = await put(here)
        await here.desk.answer(approval_id, "once", **ANN)
        results = await asyncio.gather(
            *(rooms.desk.redeem(approval_id, question()) for rooms in (here, there) * 10),
            return_exceptions=True,
        )
        assert sum(not isinstance(result, ApprovalDenied) for result in results) == 1
        assert here.desk.get(approval_id).state == "used"


@pytest.mark.spec("ASK-2")
async def test_what_a_waiting_call_used_cannot_be_redeemed():
    async with opened() as rooms:
        call, approval = await asked(rooms)
        await rooms.desk.answer(approval.id, "once", **ANN)
        assert (await call).allowed
        with pytest.raises(ApprovalDenied):
            await rooms.desk.redeem(approval.id, question())


async def test_a_waiting_call_and_one_that_redeems_do_not_both_go_on():
    for _ in range(20):
        async with opened() as rooms:
            call, approval = await asked(rooms)
            await rooms.desk.answer(approval.id, "once", **ANN)
            results = await asyncio.gather(
                call, rooms.desk.redeem(approval.id, question()), return_exceptions=True
            )
            assert sum(not isinstance(result, ApprovalDenied) for result in results) == 1


async def test_what_was_refused_stays_refused():
    async with opened() as rooms:
        approval_id = await put(rooms)
        await rooms.desk.answer(approval_id, "no", **ANN)
        with pytest.raises(ApprovalDenied) as refused:
            await rooms.desk.redeem(approval_id, question())
        assert refused.value.decided_by == "user:ann"


async def test_what_is_granted_late_can_be_used_for_a_while_and_not_for_ever():
    async with opened(seconds=60) as rooms:
        for wait_s, usable in ((59, True), (60, False)):
            approval_id = await put(rooms, question(request_id=str(wait_s)))
            rooms.clock.advance(59)
            await rooms.desk.answer(approval_id, "once", **ANN)
            rooms.clock.advance(wait_s)
            if usable:
                assert (await rooms.desk.redeem(approval_id, question())).allowed
            else:
                assert rooms.desk.get(approval_id).state == "expired"
                with pytest.raises(ApprovalTimeout):
                    await rooms.desk.redeem(approval_id, question())


# --- asked by several ----------------------------------------------------------------------------


async def test_the_same_question_put_again_joins_the_open_one():
    async with opened() as rooms:
        approval_id = await put(rooms)
        assert await put(rooms, question(request_id="q2")) == approval_id
        assert await put(rooms, question(grant_id="h2")) != approval_id
        calls = [asyncio.create_task(rooms.desk.ask(question(), asker=None, wait_s=None))
                 for _ in range(5)]  # fmt: skip
        await all_wait(rooms, calls)
        await rooms.desk.answer(approval_id, "once", **ANN)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(not isinstance(result, ApprovalDenied) for result in results) == 1


@pytest.mark.parametrize("answer", ["grant", "always", "no", "never"])
async def test_an_answer_for_more_than_once_is_for_all_who_asked(answer):
    async with opened() as rooms:
        calls = [asyncio.create_task(rooms.desk.ask(question(), asker=None, wait_s=None))
                 for _ in range(5)]  # fmt: skip
        await all_wait(rooms, calls)
        [approval] = rooms.desk.pending()
        await rooms.desk.answer(approval.id, answer, **ANN)
        allowed = {verdict.allowed for verdict in await asyncio.gather(*calls)}
        assert allowed == {answer in ("grant", "always")}


async def test_an_answer_to_more_paths_than_were_shown_is_for_one_call():
    async with opened() as rooms:
        many = question(paths_total=500)
        calls = [asyncio.create_task(rooms.desk.ask(many, asker=None, wait_s=None))
                 for _ in range(3)]  # fmt: skip
        await all_wait(rooms, calls)
        [approval] = rooms.desk.pending()
        await rooms.desk.answer(approval.id, "grant", **ANN)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(not isinstance(result, ApprovalDenied) for result in results) == 1


@pytest.mark.spec("ASK-2")
async def test_a_question_survives_a_restart_and_the_call_that_put_it(tmp_path):
    clock = Clock()
    async with opened(tmp_path, clock) as rooms:
        call, approval = await asked(rooms)
        assert await cancelled(call)
        assert rooms.desk.get(approval.id).state == "pending"
    async with opened(tmp_path, clock) as rooms:
        assert rooms.desk.pending() == [approval]
        await rooms.desk.answer(approval.id, "once", **ANN)
    async with opened(tmp_path, clock) as rooms:
        verdict = await rooms.desk.ask(question(), asker=None, wait_s=0)
        assert (verdict.allowed, verdict.approval_id, verdict.by) == (
            True, approval.id, "user:ann"
        )  # fmt: skip
        with pytest.raises(ApprovalDenied):
            await rooms.desk.redeem(approval.id, question())


async def test_a_joined_question_ends_with_the_default_of_each_call():
    async with opened(seconds=60) as rooms:
        first = asyncio.create_task(
            rooms.desk.ask(question(default="allow"), asker=None, wait_s=None)
        )
        second = asyncio.create_task(
            rooms.desk.ask(question(default="deny"), asker=None, wait_s=None)
        )
        await all_wait(rooms, (first, second))
        rooms.clock.advance(60)
        assert ((await first).allowed, (await second).allowed) == (True, False)


async def test_one_subject_cannot_bury_people_in_questions():
    async with opened(seconds=60) as rooms:
        for number in range(PENDING_MAX):
            await put(rooms, question(paths_sha256=str(number)))
        with pytest.raises(ApprovalDenied):
            await rooms.desk.ask(question(), asker=None, wait_s=0)
        await put(rooms, question(subject=User("x")))
        rooms.clock.advance(60)
        await put(rooms)


async def test_closing_the_state_ends_a_waiting_call(tmp_path):
    """Wherever it is: with PostgreSQL it may still wait until others know of the question."""
    async with opened(tmp_path) as rooms:
        call, _ = await asked(rooms, asker=never_answers)
    with pytest.raises(Closed):
        await call
