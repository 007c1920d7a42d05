"""A person is asked, and something ends meanwhile: time, a grant, a scope, a process."""

import asyncio

import pytest

import bailiwick
from bailiwick.limits import Limits
from tests.authority.asked import ACTS, ASKS, ASKS_READING, TREE, surfaced, waits
from tests.authority.support import AGENT, ME, Person, governed, refusal, rule

# --- ends ------------------------------------------------------------------------------------


class Hesitating:
    """Someone who is asked and does not answer, until told."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.answer = asyncio.get_running_loop().create_future()

    async def __call__(self, approval):
        self.asked.set()
        return await self.answer


@pytest.mark.spec("ASK-2", "AUTH-5")
@pytest.mark.parametrize(
    ("rules", "act"),
    [
        (ASKS, ACTS["overwrite"][0]),
        (ASKS, lambda fs: fs.remove("kept", recursive=True)),
        (ASKS_READING, lambda fs: fs.read_text("kept.txt")),
    ],
)
async def test_revoked_while_a_person_is_asked(tmp_path, rules, act):
    async with governed(tmp_path, rules) as house:
        await house.plant(TREE)
        before = await house.tree()
        person = Hesitating()
        fs = await house.scope(asker=person)
        call = asyncio.ensure_future(act(fs))
        await person.asked.wait()
        await house.authority.revoke(fs.grant.id, by=ME)
        person.answer.set_result("once")
        assert (await refusal(call)).kind == "grant_revoked"
        assert await house.tree() == before


@pytest.mark.spec("ASK-2", "AUTH-7")
async def test_trust_lost_while_a_person_is_asked(tmp_path):
    async with governed(tmp_path, ASKS) as house:
        await house.plant(TREE)
        person = Hesitating()
        fs = await house.scope(asker=person)
        call = asyncio.ensure_future(fs.write_text("kept.txt", "x"))
        await person.asked.wait()
        await house.authority.set_trust("workspace:demo", False, by=ME)
        person.answer.set_result("always")
        assert (await refusal(call)).kind == "untrusted_workspace"
        assert (await house.tree())["kept.txt"] == b"old\n"


@pytest.mark.spec("ASK-2", "WRITE-3")
async def test_cancelled_while_a_person_is_asked(tmp_path):
    async with governed(tmp_path, ASKS) as house:
        await house.plant(TREE)
        before = await house.tree()
        person = Hesitating()
        fs = await house.scope(asker=person)
        call = asyncio.ensure_future(fs.write_text("kept.txt", "x"))
        await person.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await house.tree() == before
        assert (await house.operations())[-1].error_kind == "cancelled"


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("reading", [False, True])
async def test_closed_while_a_person_is_asked(tmp_path, reading):
    person = Hesitating()
    async with governed(tmp_path, ASKS_READING if reading else ASKS) as house:
        await house.plant(TREE)
        fs = await house.scope(asker=person)
        act = fs.read_text("kept.txt") if reading else fs.write_text("kept.txt", "x")
        call = asyncio.ensure_future(act)
        await person.asked.wait()
        bare = await house.bare()
        closing = asyncio.ensure_future(house.authority.aclose())
        assert (await refusal(call)).kind == "closed"
        await closing
        del bare


@pytest.mark.spec("ASK-2")
async def test_the_scope_is_closed_while_a_person_is_asked(tmp_path):
    """Others on the same root go on."""
    async with governed(tmp_path, ASKS) as house:
        await house.plant(TREE)
        person = Hesitating()
        fs = await house.scope(asker=person)
        others = await house.scope()
        call = asyncio.ensure_future(fs.write_text("kept.txt", "x"))
        await person.asked.wait()
        await fs.aclose()
        assert (await refusal(call)).kind == "closed"
        assert person.answer.cancelled()  # the question was taken back where it was put
        assert (await others.read_text("kept.txt")).text == "old\n"


@pytest.mark.spec("ASK-2")
async def test_a_closed_scope_does_not_come_back_in_another_form(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant(TREE)
        fs = await house.scope()
        before = fs.with_request("before")
        await fs.aclose()
        for scope in (fs, before, fs.with_request("q"), fs.with_approval("x"), fs.with_caller("y")):
            assert (await refusal(scope.read_text("free"))).kind == "closed"
        assert (await refusal(fs.delegate(AGENT))).kind == "closed"
        assert (await refusal(fs.create_temp())).kind == "closed"


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("default", ["allow", "deny"])
@pytest.mark.parametrize("nobody", [True, False], ids=["nobody to ask", "no answer in time"])
async def test_where_nobody_answers_the_default_of_the_rule_holds(tmp_path, default, nobody):
    rules = rule("ask", "kept.txt", access=["write", "read"], default=default)
    more = "" if nobody else surfaced("1 s")
    async with governed(tmp_path, rules, more=more) as house:
        await house.plant(TREE)
        fs = await house.scope()
        for act, denied in (
            (fs.read_text("kept.txt"), "read"), (fs.write_text("kept.txt", "x"), "write"),
        ):  # fmt: skip
            error = await refusal(act)
            kind = "approval_denied" if nobody else "approval_timeout"
            assert (error and error.kind) == (None if default == "allow" else kind), denied
        outcome = "success" if default == "allow" else "denied"
        assert [each.outcome for each in await house.operations()] == [outcome] * 2


@pytest.mark.spec("ASK-2")
async def test_a_question_survives_a_restart(tmp_path):
    place = tmp_path / "tree"
    place.mkdir()

    def opened():
        return governed(
            tmp_path, ASKS, on_disk=True, place=place, state_dir=tmp_path / "s", more=surfaced()
        )

    def act(fs):
        return fs.edit("kept.txt", old="old", new="new")

    async with opened() as house:
        await house.plant(TREE)
        approval = await waits(await house.scope(), act)
    async with opened() as house:
        (pending,) = house.authority.approvals.pending()
        assert pending.id == approval
        assert "+new" in pending.question.preview.diff
        fs = await house.scope()
        error = await refusal(act(fs.with_approval(approval)))
        assert (error.kind, error.details["pending"]) == ("approval_timeout", True)
        await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
    async with opened() as house:
        fs = await house.scope()
        await act(fs.with_approval(approval))
        assert (place / "kept.txt").read_text() == "new\n"
        assert (await refusal(act(fs.with_approval(approval)))).kind in (
            "approval_denied", "text_not_found",
        )  # fmt: skip


@pytest.mark.spec("ASK-2")
async def test_a_long_list_of_paths_is_bound_to_the_last(tmp_path):
    """Only the first of many are shown; an answer for longer may not come to mean the others."""
    shown = Limits().ask_paths_max
    tree = {f"kept/{number:04}": "" for number in range(shown + 5)}
    async with governed(tmp_path, ASKS, more=surfaced()) as house:
        await house.plant(tree)

        def act(fs):
            return fs.remove("kept", recursive=True)

        fs = await house.scope()
        approval = await waits(fs, act)
        (pending,) = house.authority.approvals.pending()
        assert pending.question.paths_total == len(tree) + 1
        assert len(pending.question.paths) == shown
        await house.authority.approvals.answer(approval, "once", by="user:me", front="cli")
        await house.plant({"kept/zzzz": "one more"})
        assert (await refusal(act(fs.with_approval(approval)))).kind == "approval_denied"
        await (await house.bare()).remove("kept/zzzz")
        await act(fs.with_approval(approval))
        assert "kept" not in await house.tree()


@pytest.mark.spec("ASK-1", "HOOK-1")
async def test_a_hook_that_asks_and_a_rule_that_asks_are_one_question(tmp_path):
    class Asking:
        id = "second-opinion"

        async def before(self, context):
            return bailiwick.Ask("hook:second-opinion", "are you sure?")

        async def after(self, context, record):
            return None

    async with governed(tmp_path, ASKS) as house:
        await house.plant(TREE)
        unregister = house.authority.hooks.register(Asking())
        person = Person("once")
        fs = await house.scope(asker=person)
        await fs.write_text("kept.txt", "x")
        (question,) = person.questions
        assert question.sources == ("ask", "hook:second-opinion")
        assert question.prompt == "kept; are you sure?"
        await fs.read_text("free")
        person.answer = "no"
        assert (await refusal(fs.read_text("free"))).decided_by.startswith("hook:second-opinion")
        unregister()
        await fs.read_text("free")
        (record,) = [each for each in await house.operations() if each.operation == "write"]
        assert record.hooks == ("second-opinion",)


# --- between roots -------------------------------------------------------------------------------

TWO = """
[[root]]
id = "two"
kind = "workspace"
memory = true
trusted = true
[[grant]]
subject = "agent_run:*"
root = "workspace:two"
access = ["read", "write", "list", "metadata"]
"""


@pytest.mark.spec("ASK-1", "ASK-2")
async def test_a_copy_to_another_root_is_asked_about_with_where_it_goes(tmp_path):
    async with governed(tmp_path, ASKS_READING, more=TWO) as house:
        await house.plant(TREE)
        person = Person("grant")
        fs = await house.scope(asker=person)
        two = await house.scope({"read", "write"}, root="workspace:two", asker=person)
        await two.copy_from(fs, "kept.txt", "there")
        assert "there" in (person.questions[0].destination or "")
        person.answer = "no"
        assert (await refusal(fs.copy("kept.txt", "elsewhere"))).kind == "approval_denied"


@pytest.mark.spec("ASK-1", "AUDIT-1", "AUDIT-3")
async def test_a_tree_copied_to_another_root_leaves_nothing_unsettled(tmp_path):
    async with governed(tmp_path, ASKS_READING, more=TWO) as house:
        await house.plant({"d/kept/x": "1", "d/e": "2"})
        person = Person("once")
        fs = await house.scope(asker=person)
        two = await house.scope({"read", "write"}, root="workspace:two")
        await two.copy_from(fs, "d", "d", recursive=True)
        assert len(person.asked) == 1
        await house.authority.ledger.flush()
        database = house.authority.ledger._database
        assert database.read("SELECT count(*) FROM ledger_intents") == [(0,)]


@pytest.mark.spec("ASK-2")
@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
async def test_whoever_is_asked_ends_nothing_but_the_asking(tmp_path, raised):
    """Out of a task `SystemExit` would end the event loop, with every other call on it."""

    async def leaving(approval):
        raise raised

    async with governed(tmp_path, ASKS) as house:
        await house.plant(TREE)
        before = await house.tree()
        fs = await house.scope(asker=leaving)
        assert (await refusal(fs.write_text("kept.txt", "x"))).kind == "approval_timeout"
        assert await house.tree() == before


@pytest.mark.spec("RUN-1", "ASK-2", "AUDIT-1")
async def test_a_question_that_waits_is_one_on_record_and_in_its_run(tmp_path):
    async with governed(tmp_path, ASKS + surfaced()) as house:
        await house.plant(TREE)
        fs = await house.scope()
        act = ACTS["edit"][0]
        approval = await waits(fs, act)
        assert await waits(fs, act) == approval
        waited = [each for each in await house.operations() if each.outcome == "denied"]
        assert [each.approval_id for each in waited] == [approval, approval]
        (run,) = [each for each in await fs.runs() if each.front == "http"]
        assert (run.questions, run.approved) == (1, 0)
        await house.authority.approvals.answer(approval, "once", by="user:ann", front="cli")
        await act(fs.with_caller("http", wait_s=0.0))
        (run,) = [each for each in await fs.runs() if each.front == "http"]
        assert (run.questions, run.approved) == (1, 1)
