"""What people said for more than once: exactly what was asked, newest first, until taken back."""

import pytest

from bailiwick.errors import IoError
from bailiwick.grant import AgentRun, Automation, Core, Extension, User
from tests.state.rooms import NoDisk, opened, question
from tests.state.test_approvals import ANN, put

pytestmark = pytest.mark.both_engines(lean=True)


async def ruled(rooms, answer, **fields):
    about = question(**fields)
    await rooms.desk.answer(await put(rooms, about), answer, **ANN)
    if answer != "never":
        await rooms.desk.ask(about, asker=None, wait_s=0)
    return rooms.rules.rules()


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize(
    ("subject", "pattern"),
    [(AgentRun("c1", "r1"), "agent_run:*"), (Extension("x"), "extension:x"),
     (Automation("x"), "automation:x"), (User("x"), "user:x"), (Core("x"), "core:x")],
)  # fmt: skip
async def test_always_is_for_the_subject_and_for_agents_whatever_their_run(subject, pattern):
    async with opened() as rooms:
        [rule] = await ruled(rooms, "always", subject=subject)
        assert (rule.subject, rule.grant_id, rule.effect) == (pattern, None, "allow")
        assert rule.is_for(str(subject), "workspace:demo", "any")
        assert not rule.is_for(str(subject), "workspace:demo2", "any")
        assert not rule.is_for("user:y", "workspace:demo", "any")


@pytest.mark.spec("ASK-1")
async def test_for_this_grant_is_for_no_other():
    async with opened() as rooms:
        [rule] = await ruled(rooms, "grant")
        assert rule.is_for("agent_run:c1/r1", "workspace:demo", "h1")
        assert not rule.is_for("agent_run:c1/r1", "workspace:demo", "h2")
        assert not rule.is_for("agent_run:c1/r2", "workspace:demo", "h1")


@pytest.mark.spec("ASK-1")
async def test_a_rule_covers_what_was_asked_and_nothing_beside_it():
    async with opened() as rooms:
        [rule] = await ruled(rooms, "always", paths=("a/*", "b"), paths_total=2)
        assert rule.covers("write", "a/*", None)
        assert rule.covers("write", "b", None)
        assert not rule.covers("write", "a/x", None), "a path with a star is a name, not a pattern"
        assert not rule.covers("write", "b/c", None)
        assert not rule.covers("read", "b", None)
        assert not rule.covers("write", "b", "elsewhere")


@pytest.mark.spec("ASK-1")
async def test_what_may_go_to_one_place_may_not_go_to_another():
    async with opened() as rooms:
        [rule] = await ruled(
            rooms, "always", operation="copy", verb="copy", paths=(".env",), destination="kept/.env"
        )
        assert rule.covers("copy", ".env", "kept/.env")
        assert rule.covers("copy", "kept/.env", "kept/.env"), "the destination was asked about too"
        assert not rule.covers("copy", ".env", "public/env.txt")
        assert not rule.covers("copy", ".env", None)


async def test_rules_of_grants_come_first_and_the_newest_of_each():
    async with opened() as rooms:
        await ruled(rooms, "always", paths_sha256="1", paths=("1",))
        await ruled(rooms, "grant", paths_sha256="2", paths=("2",))
        await ruled(rooms, "always", paths_sha256="3", paths=("3",))
        await ruled(rooms, "never", paths_sha256="4", paths=("4",))
        assert [rule.paths[0] for rule in rooms.rules.rules()] == ["4", "2", "3", "1"]
        assert rooms.rules.rules() is rooms.rules.rules()


async def test_a_new_answer_to_the_same_question_replaces_the_old_one():
    async with opened() as rooms:
        await ruled(rooms, "grant")
        [rule] = await ruled(rooms, "never")
        assert rule.effect == "deny"
        [rule] = await ruled(rooms, "grant")
        assert rule.effect == "allow"


@pytest.mark.spec("AUDIT-1")
async def test_a_rule_is_forgotten_everywhere_and_on_record(tmp_path):
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        [rule] = await ruled(here, "always")
        assert there.rules.rules() == (rule,)
        here.fail_records = True
        with pytest.raises(NoDisk):
            await here.rules.forget(rule.id, **ANN)
        assert there.rules.rules() == (rule,)
        here.fail_records = False
        assert await here.rules.forget(rule.id, **ANN)
        assert not await here.rules.forget(rule.id, **ANN)
        assert there.rules.rules() == ()
        became = [r["details"]["became"] for r in here.records() if r["act"] == "rule"]
        assert became == ["made", "forgotten"]


@pytest.mark.sqlite_only
async def test_a_rule_that_cannot_be_read_is_a_fault_of_the_state():
    async with opened() as rooms:
        await ruled(rooms, "always")
        await rooms.database.write_control(
            lambda connection: connection.execute("UPDATE rules SET body = x'c1'").fetchall()
        )
        with pytest.raises(IoError):
            rooms.rules.rules()
