"""Running programs, up to the point where one would be run: who may, who is asked, what is kept.

The verb planted here runs nothing. It passes the pipeline as one that does must.
"""

from contextlib import aclosing

import msgspec
import pytest

import bailiwick
from bailiwick.call import Target
from bailiwick.errors import ApprovalDenied, BailiwickError, MissingAccess, PolicyDenied
from bailiwick.operations import ALL_ACCESS, EXEC, FILE_ACCESS, WRITE, Command
from bailiwick.policy import Deny
from bailiwick.proposal import Proposal
from tests.authority.support import AGENT, EVERYTHING, ME, Person, governed, refusal

RUNNING = (*EVERYTHING, "execute")
GRANT = f'[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:demo"\naccess = {list(RUNNING)!r}\n'
RULE = '[[rule]]\nid = "ci"\noperation = ["exec"]\ncommand = ["make", "git *"]\neffect = "allow"\n'


async def _prepare(call):
    return Proposal(None, lambda _: call.command.words)


def run(fs, *argv, **how):
    command = Command(argv=argv, **how)
    return fs._run(EXEC, "exec", Target(command.cwd, "entry"), _prepare, command=command)


# --- who holds it --------------------------------------------------------------------------------


@pytest.mark.spec("EXEC-1", "AUTH-3")
async def test_without_execute_it_is_missing_access_and_on_record(tmp_path):
    async with governed(tmp_path) as house:
        with pytest.raises(MissingAccess, match="execute"):
            await run(await house.scope(), "make", "x")
        (record,) = await house.operations()
        assert (record.operation, record.error_kind) == ("exec", "missing_access")
        assert record.details == {"command": "make x"}
        with pytest.raises(MissingAccess, match="execute"):
            await house.scope(RUNNING)


@pytest.mark.spec("EXEC-1")
async def test_people_and_the_host_run_commands_in_a_trusted_workspace_only(tmp_path):
    async with governed(tmp_path) as house:
        for subject in (ME, bailiwick.Core("host")):
            fs = await house.scope(ALL_ACCESS, subject=subject)
            assert await run(fs, "make", "a b") == "make 'a b'"
        await house.authority.set_trust("workspace:demo", False, by=ME)
        with pytest.raises(bailiwick.UntrustedWorkspace):
            await run(fs, "make")
        await house.authority.add_root("knowledge:k", "memory:", trusted=True)
        for subject in (ME, bailiwick.Core("host")):
            with pytest.raises(MissingAccess):
                await house.scope(("read", "execute"), subject=subject, root="knowledge:k")
        await house.authority.add_grant(
            subject="user:me", root="knowledge:k", access={"read", "execute"}, by=ME
        )
        fs = await house.scope(("read", "execute"), subject=ME, root="knowledge:k")
        with pytest.raises(PolicyDenied):
            await run(fs, "make")


@pytest.mark.spec("EXEC-1", "AUTH-5")
async def test_it_is_passed_on_only_where_somebody_says_so(tmp_path):
    async with governed(tmp_path) as house:
        mine = await house.scope(ALL_ACCESS, subject=ME)
        heir = await mine.delegate(AGENT)
        assert heir.access == FILE_ACCESS
        with pytest.raises(MissingAccess):
            await run(heir, "make")
        named = await mine.delegate(AGENT, access={"read", "execute"})
        assert named.access == {"read", "execute"}
        assert isinstance(await refusal(run(named, "make")), ApprovalDenied)
        with pytest.raises(MissingAccess):
            await heir.delegate(AGENT, access={"execute"})
        temp = await mine.create_temp()
        assert temp.access == FILE_ACCESS
        assert (await house.authority.request_temp(ME, "a test")).access == FILE_ACCESS


@pytest.mark.spec("EXEC-1")
async def test_whoever_opens_a_place_for_themselves_may_run_there_what_they_trust():
    async with bailiwick.open("memory:") as fs:
        assert fs.access == ALL_ACCESS
        assert await run(fs, "make") == "make"
        assert (await fs.delegate(AGENT)).access == FILE_ACCESS
        async with aclosing(await fs.create_temp()) as temp:
            assert temp.access == FILE_ACCESS
        agent = await fs.delegate(AGENT, access={"read", "execute"})
        assert isinstance(await refusal(run(agent, "make")), ApprovalDenied)
        extension = await fs.delegate(bailiwick.Extension("x"), access={"read", "execute"})
        assert isinstance(await refusal(run(extension, "make")), PolicyDenied)
    async with bailiwick.open("memory:", trusted=False) as fs:
        assert fs.access == FILE_ACCESS
    async with bailiwick.open("memory:", trusted=False, access={"execute"}) as fs:
        assert isinstance(await refusal(run(fs, "make")), BailiwickError)


# --- questions -----------------------------------------------------------------------------------


@pytest.mark.spec("EXEC-1", "ASK-1")
async def test_a_command_of_an_agent_is_asked_about_as_it_will_be_run(tmp_path):
    async with governed(tmp_path, GRANT) as house:
        await house.plant({"src/f": b""})
        ann = Person("once")
        fs = await house.scope(RUNNING, asker=ann)
        assert await run(fs, "git", "commit", "-m", "a; b", cwd="src", network="host")
        (question,) = ann.questions
        assert question.operation == "exec"
        assert question.command == "git commit -m 'a; b' (in src, network host)"
        assert question.command in question.arguments
        assert question.prompt == "a command of an agent"
        (record,) = [each for each in await house.operations() if each.operation == "exec"]
        assert record.details == {"command": "git commit -m 'a; b'"}
        assert (record.path, record.policy_source) == ("src", "kind.workspace.agent-commands")
        assert record.approval_id == ann.asked[0].id


@pytest.mark.spec("EXEC-1", "PATH-5")
async def test_a_question_about_a_command_cannot_repaint_a_terminal_or_look_like_another(tmp_path):
    async with governed(tmp_path, GRANT) as house:
        ann = Person("no")
        fs = await house.scope(RUNNING, asker=ann)
        for word in ("\x1b[2Jmake", "x\nonce", "\u202etset"):
            assert isinstance(await refusal(run(fs, "make", word)), ApprovalDenied)
        assert all(question.arguments.isprintable() for question in ann.questions)
        assert len({question.arguments for question in ann.questions}) == 3


@pytest.mark.spec("EXEC-1", "AUDIT-1")
async def test_what_a_command_changed_is_judged_as_what_it_is_and_names_the_command(tmp_path):
    """As it is when it is brought back: a rule that lets a command run lets nothing be written."""

    async def write(call):
        return Proposal(None, lambda _: "written")

    rules = RULE + '[[rule]]\nid = "kept"\npath = "kept"\naccess = "write"\neffect = "deny"\n'
    async with governed(tmp_path, GRANT + rules) as house:
        fs = await house.scope(RUNNING)
        command = Command(argv=("make",))

        def bring_back(path):
            place = Target(path, "entry", creates=True)
            return fs._run(WRITE, "write_text", place, write, command=command)

        assert await bring_back("free") == "written"
        assert isinstance(await refusal(bring_back("kept")), PolicyDenied)
        assert [each.details for each in await house.operations()] == [{"command": "make"}] * 2


@pytest.mark.spec("EXEC-1", "ASK-1")
@pytest.mark.parametrize("answer", ["always", "grant", "never"])
async def test_an_answer_for_longer_is_for_this_command(tmp_path, answer):
    async with governed(tmp_path, GRANT, state_dir=tmp_path / "state") as house:
        ann = Person(answer)
        fs = await house.scope(RUNNING, asker=ann)
        expected = type(await refusal(run(fs, "make", "test")))
        for _ in range(3):
            ended = type(await refusal(run(fs, "make", "test")))
            assert ended is (PolicyDenied if answer == "never" else expected)
        assert len(ann.asked) == 1
        ann.answer = "no"
        others = [
            ("make",), ("make", "test", "x"), ("make test",), ("/usr/bin/make", "test"),
        ]  # fmt: skip
        for other in others:
            assert isinstance(await refusal(run(fs, *other)), ApprovalDenied)
        for how in ({"network": "host"}, {"environment": ("PATH=.",)}):
            assert isinstance(await refusal(run(fs, "make", "test", **how)), ApprovalDenied)
        assert len(ann.asked) == 1 + len(others) + 2


@pytest.mark.spec("EXEC-1", "ASK-2")
async def test_an_approval_of_one_command_does_not_let_another_run(tmp_path):
    more = '[ask]\nsurface = "cli"\n'
    async with governed(tmp_path, GRANT, more=more) as house:
        fs = await house.scope(RUNNING, wait_s=0)
        with pytest.raises(bailiwick.ApprovalTimeout) as waiting:
            await run(fs, "make")
        approval = waiting.value.details["approval_id"]
        await house.authority.approvals.answer(approval, "once", by=str(ME), front="cli")
        redeeming = fs.with_approval(approval)
        for other in (("make", "x"), ("rm",)):
            with pytest.raises(ApprovalDenied, match="something else"):
                await run(redeeming, *other)
        assert await run(redeeming, "make") == "make"


# --- rules and hooks -----------------------------------------------------------------------------


@pytest.mark.spec("EXEC-1")
async def test_a_rule_lets_some_commands_run_unasked(tmp_path):
    async with governed(tmp_path, GRANT + RULE) as house:
        fs = await house.scope(RUNNING)
        for _ in range(2):  # whatever is kept of the first is not taken for the next
            assert await run(fs, "make", "all")
            assert await run(fs, "git", "status")
            for kept in (("git",), ("./git", "x"), ("sh", "-c", "git x"), ("rm", "make")):
                assert isinstance(await refusal(run(fs, *kept)), ApprovalDenied)
        explained = house.authority.explain(
            AGENT, "workspace:demo", "exec", ".", command=Command(argv=("git", "push"))
        )
        assert explained.decision.source == "ci"
        with pytest.raises(bailiwick.ParseError):
            house.authority.explain(
                AGENT, "workspace:demo", "read", ".", command=Command(argv=("git",))
            )


@pytest.mark.spec("EXEC-1", "AUTH-5")
async def test_what_is_asked_of_an_agent_is_asked_of_its_heirs(tmp_path):
    rules = RULE.replace("[[rule]]", '[[rule]]\nsubject = "agent_run:sub/*"')
    async with governed(tmp_path, GRANT + rules) as house:
        fs = await house.scope(RUNNING)
        heir = await fs.delegate(bailiwick.AgentRun("sub", "1"), access={"read", "execute"})
        assert isinstance(await refusal(run(heir, "make")), ApprovalDenied)


@pytest.mark.spec("EXEC-1", "AUDIT-1")
async def test_hooks_see_the_command_and_may_refuse_it(tmp_path):
    seen = []

    class Watching:
        id = "watching"

        async def before(self, context):
            seen.append(context.command)
            if context.command is not None and context.command.network != "none":
                return Deny("watching", "not out there")
            return None

        async def after(self, context, record):
            seen.append(record.command)

    async with governed(tmp_path) as house:
        house.authority.hooks.register(Watching())
        fs = await house.scope(ALL_ACCESS, subject=ME)
        await run(fs, "make", "x", session="s1")
        assert seen == [Command(argv=("make", "x"), session="s1"), "make x"]
        with pytest.raises(PolicyDenied):
            await run(fs, "make", network="host")
        seen.clear()
        await fs.exists(".")
        assert seen == [None, None]


@pytest.mark.spec("EXEC-1", "AUDIT-1")
async def test_a_ledger_that_keeps_no_names_keeps_no_words(tmp_path):
    more = '[audit]\npaths = "keyed-hash"\n'
    async with governed(tmp_path, more=more) as house:
        await run(await house.scope(ALL_ACCESS, subject=ME), "make", "secret-name")
        assert b"secret-name" not in await house.export()
        (record,) = await house.operations()
        assert record.details["command"].startswith("hmac-sha256:")


def test_a_command_is_a_value_that_can_be_kept():
    command = Command(argv=("make", "x"), environment=("A=1",))
    body = msgspec.msgpack.encode(command)
    assert msgspec.msgpack.decode(body, type=Command) == command
    assert hash(command) == hash(Command(argv=("make", "x"), environment=("A=1",)))
