"""A rule that asks: in line, by pausing and coming back, and known beforehand."""

import asyncio

import pytest

import bailiwick
from bailiwick.call import Target
from bailiwick.operations import ALL_ACCESS, EXEC
from bailiwick.proposal import Proposal
from bailiwick.toolbox import Pending
from bailiwick.toolbox import approval as approval_module
from tests.toolbox.support import inner, toolbox, workspace
from tests.waiting import let_pass


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("word", ["once", "no", None])
async def test_an_asker_is_asked_while_the_call_waits(word):
    seen = []

    async def person(approval):
        seen.append(approval)
        return word

    async with workspace() as (fs, box):
        await fs.write_text(".env", "KEY=1")
        answer = await box.call("read_file", {"path": ".env"}, asker=person)
        assert [each.question.paths for each in seen] == [(".env",)]
        assert seen[0].question.front == "tools"
        assert ("text" in answer) is (word == "once")


@pytest.mark.spec("TOOL-5", "MCP-2")
@pytest.mark.parametrize(("own_s", "wait_s"), [(0.05, 60.0), (60.0, 0.0)])
async def test_who_is_asked_has_the_longer_of_two_times(own_s, wait_s):
    """That of the scope, or that of the call: `--wait` of MCP holds for a form, too."""

    async def person(approval):
        await let_pass(0.3)
        return "once"

    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1")
        box = toolbox(fs.with_caller("mine", wait_s=own_s))
        answer = await box.call("read_file", {"path": ".env"}, asker=person, wait_s=wait_s)
        assert inner(answer["text"]) == "KEY=1"


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_the_asker_of_the_scope_that_was_given_is_used():
    async def person(approval):
        return "once"

    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1")
        box = toolbox(fs.with_caller("mine", asker=person))
        assert inner((await box.call("read_file", {"path": ".env"}))["text"]) == "KEY=1"


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_an_attempt_pauses_and_is_resumed(agreed):
    async with workspace() as (fs, box):
        await fs.write_text(".git/config", "old\n", parents=True)
        given = {"path": ".git/config", "content": "new\n"}
        pending = await box.attempt("write_file", given)
        assert isinstance(pending, Pending)
        assert (await fs.read_text(".git/config")).text == "old\n"
        shown = pending.shown()
        assert shown["tool"] == "write_file"
        assert shown["rules"] == ["protect.git"]
        assert "-old\n+new" in shown["diff"]
        assert pending.answer()["errorKind"] == "approval_pending"
        answer = await box.resume("write_file", given, allowed=agreed, binding=pending.binding)
        assert answer["ok"] is agreed
        assert (await fs.read_text(".git/config")).text == ("new\n" if agreed else "old\n")


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_an_attempt_that_nobody_need_be_asked_about_is_simply_made():
    async with workspace() as (fs, box):
        assert (await box.attempt("write_file", {"path": "a", "content": "x"}))["ok"] is True
        assert (await box.attempt("read_file", {"path": "none"}))["errorKind"] == "path_not_found"
        assert (await box.attempt("nothing"))["errorKind"] == "parse_error"
        assert await fs.exists("a")


@pytest.mark.spec("TOOL-5", "TOOL-6")
@pytest.mark.parametrize("place", ["memory", "authority"])
async def test_a_bound_on_sizes_asks_no_second_question(place):
    """And it holds after the person has agreed."""

    async def edit(fs):
        await fs.write_text(".git/config", "old\n", parents=True)
        box = toolbox(fs, max_file_size_mb=0.0001)
        given = {"path": ".git/config", "oldText": "old", "newText": "new"}
        pending = await box.attempt("edit_file", given)
        done = await box.resume("edit_file", given, allowed=True, binding=pending.binding)
        assert done["ok"] is True
        large = {"path": ".git/config", "oldText": "new", "newText": "n" * 200}
        refused = await box.attempt("edit_file", large)
        if isinstance(refused, Pending):
            refused = await box.resume("edit_file", large, allowed=True)
        assert refused["errorKind"] == "file_too_large"
        assert (await fs.read_text(".git/config")).text == "new\n"

    if place == "memory":
        async with bailiwick.open("memory:") as fs:
            await edit(fs)
        return
    async with bailiwick.Authority.open() as authority:
        await authority.add_root("workspace:w", "memory:", trusted=True)
        await edit(await person_of(authority))


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_a_word_is_for_what_was_shown():
    """Approve one thing, do another: arguments, content beneath, destination."""
    async with workspace() as (fs, box):
        await fs.write_text(".git/a", "1", parents=True)
        await fs.write_text(".git/b", "2")
        pending = await box.attempt("write_file", {"path": ".git/a", "content": "x"})
        for given in ({"path": ".git/a", "content": "y"}, {"path": ".git/b", "content": "x"}):
            other = await box.resume("write_file", given, allowed=True, binding=pending.binding)
            assert other["errorKind"] == "approval_denied"
        other = await box.resume("rm", {"path": ".git/a"}, allowed=True, binding=pending.binding)
        assert other["errorKind"] == "approval_denied"
        moved = await box.attempt("move", {"from": ".git/a", "to": "c"})
        other = {"from": ".git/a", "to": "d"}
        answer = await box.resume("move", other, allowed=True, binding=moved.binding)
        assert answer["errorKind"] == "approval_denied"
        await fs.write_text(".git/a", "changed")
        given = {"path": ".git/a", "content": "x"}
        late = await box.resume("write_file", given, allowed=True, binding=pending.binding)
        assert late["errorKind"] == "approval_denied"
        assert (await fs.read_text(".git/a")).text == "changed"


CHANGES = [
    ("write_file", {"path": "a", "content": "x"}), ("write_file", {"path": "n/e/w", "content": ""}),
    ("edit_file", {"path": "a", "oldText": "1", "newText": "2"}), ("mkdir", {"path": "m"}),
    ("mkdir", {"path": "m/n", "recursive": True}), ("rm", {"path": "a"}),
    ("rm", {"path": "d", "recursive": True}), ("move", {"from": "a", "to": "b"}),
    ("move", {"from": "d", "to": "e"}), ("rm", {"path": "none"}), ("mkdir", {"path": 3}),
]  # fmt: skip


@pytest.mark.spec("TOOL-5")
@pytest.mark.parametrize(("operation", "given"), CHANGES)
@pytest.mark.parametrize("place", ["memory", "disk", "authority"])
async def test_a_rehearsal_changes_nothing(place, operation, given, tmp_path):
    async def rehearse(fs):
        await fs.write_text("a", "1")
        await fs.write_text("d/x", "1", parents=True)
        cursor = [str(p) for p in (await fs.find(include_ignored=True)).paths]
        box = toolbox(fs)
        assert await box.rehearse(operation, given) is None
        assert [str(p) for p in (await fs.find(include_ignored=True)).paths] == cursor
        assert (await fs.read_text("a")).text == "1"
        assert (await fs.stat("d")).type == "directory"

    if place == "authority":
        async with bailiwick.Authority.open(state_dir=str(tmp_path / "state")) as authority:
            (tmp_path / "root").mkdir()
            await authority.add_root("workspace:w", tmp_path / "root", trusted=True)
            await rehearse(await person_of(authority))
            assert authority.approvals.pending() == []
    else:
        async with bailiwick.open(tmp_path if place == "disk" else "memory:") as fs:
            await rehearse(fs)


async def person_of(authority):
    return await authority.request_root(
        subject=bailiwick.User("ann"), root="workspace:w", access=ALL_ACCESS, reason="test"
    )


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("read_file", {"path": ".env"}), ("write_file", {"path": ".git/x", "content": "x"}),
        ("edit_file", {"path": ".git/config", "oldText": "old", "newText": "new"}),
        ("rm", {"path": ".git", "recursive": True}), ("move", {"from": ".git", "to": "git"}),
        ("mkdir", {"path": ".git/d"}), ("move", {"from": "plain", "to": ".git/plain"}),
    ],
)  # fmt: skip
async def test_a_rehearsal_asks_what_the_call_would_ask(operation, given):
    async with workspace() as (fs, box):
        await fs.write_text(".env", "KEY=1")
        await fs.write_text("plain", "p")
        await fs.write_text(".git/config", "old\n", parents=True)
        rehearsed = await box.rehearse(operation, given)
        attempted = await box.attempt(operation, given)
        assert isinstance(attempted, Pending)
        assert rehearsed.binding == attempted.binding
        assert rehearsed.prompt == attempted.prompt
        answer = await box.resume(operation, given, allowed=True, binding=rehearsed.binding)
        assert answer.get("ok", True) is True


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_a_question_of_an_authority_stays_where_people_look(tmp_path):
    """The framework pauses; somebody answers in the console; the agent comes again."""
    config = tmp_path / "bailiwick.toml"
    config.write_text(
        '[ask]\nsurface = "console"\n[[root]]\nid = "w"\nkind = "workspace"\nmemory = true\n'
        "trusted = true\n"
    )
    async with bailiwick.Authority.from_config(config, str(tmp_path / "state")) as authority:
        person = await person_of(authority)
        await person.write_text(".env", "KEY=1")
        box = toolbox(person)
        pending = await box.attempt("read_file", {"path": ".env"})
        again = await box.attempt("read_file", {"path": ".env"})
        assert pending.approval_id == again.approval_id, "one question, however often it is put"
        await authority.approvals.answer(
            pending.approval_id, "once", by="user:ann", front="console"
        )
        assert inner((await box.attempt("read_file", {"path": ".env"}))["text"]) == "KEY=1"
        third = await box.attempt("read_file", {"path": ".env"})
        assert isinstance(third, Pending), "once is once"
        answer = await box.resume("read_file", {"path": ".env"}, allowed=True)
        assert inner(answer["text"]) == "KEY=1"


@pytest.mark.spec("TOOL-5")
async def test_an_attempt_that_is_cancelled_leaves_nothing_running():
    asked = asyncio.Event()

    async def person(approval):
        asked.set()
        await asyncio.Event().wait()

    async with workspace() as (fs, box):
        await fs.write_text(".env", "KEY=1")
        calling = asyncio.ensure_future(box.call("read_file", {"path": ".env"}, asker=person))
        await asked.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await box.call("write_file", {"path": "a", "content": "x"}))["ok"] is True


@pytest.mark.spec("ASK-2", "TOOL-5")
async def test_a_bare_yes_is_for_what_was_shown_first():
    """A framework that runs a step again asks again, about what it then finds; the person's word
    was about the first."""
    async with workspace() as (fs, box):
        await fs.write_text(".git/config", "a\nb\n", parents=True)
        given = {"path": ".git/config", "content": "a\nb\nc\n"}
        assert isinstance(await box.attempt("write_file", given), Pending)
        await fs.write_text(".git/config", "somebody else's work\n")
        assert isinstance(await box.attempt("write_file", given), Pending)
        refused = await box.resume("write_file", given, allowed=True)
        assert refused["errorKind"] == "approval_denied"
        assert (await fs.read_text(".git/config")).text == "somebody else's work\n"
        assert isinstance(await box.attempt("write_file", given), Pending)
        assert (await box.resume("write_file", given, allowed=True))["ok"] is True


@pytest.mark.spec("EXEC-1", "ASK-2")
async def test_what_is_agreed_to_is_one_command_and_none_that_looks_like_it():
    bindings = []
    async with bailiwick.open("memory:") as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "r"), access={"read", "execute"})

        async def asker(approval):
            bindings.append(approval_module.binding_of(approval.question))
            return "no"

        async def prepare(call):
            return Proposal(None, lambda _: None)

        for word in ("\x1b", "\\x1b", "\x1b"):
            command = bailiwick.Command(argv=("make", word))
            with pytest.raises(bailiwick.ApprovalDenied):
                await agent.with_caller("python", asker=asker)._run(
                    EXEC, "exec", Target(".", "entry"), prepare, command=command
                )
    first, other, again = bindings
    assert first == again != other
