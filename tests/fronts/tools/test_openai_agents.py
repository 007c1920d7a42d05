"""The Agents SDK's own loop, with a model that follows a script."""

import json

import pytest
from agents import Agent, ApplyPatchTool, RunConfig, Runner, RunState
from agents.editor import ApplyPatchEditor, ApplyPatchOperation
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import bailiwick
from bailiwick.fronts.tools import tools as make_tools
from bailiwick.fronts.tools.openai_agents import AgentTools, PatchEditor, function_tools
from bailiwick.toolbox import by_word
from tests.fronts.tools.support import answer, inner, name, running, workspace

QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """A model that says what it was told to, turn by turn, and keeps what it was sent."""

    def __init__(self, *turns):
        self.turns = list(turns)
        self.sent = []

    async def get_response(self, system_instructions, input, model_settings, tools, *_, **__):
        self.sent.append((system_instructions, input, tools))
        output = self.turns.pop(0)
        return ModelResponse(
            output=output if isinstance(output, list) else [output], usage=Usage(), response_id=None
        )

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError

    def outputs(self):
        """The tool outputs of the last turn, by call."""
        return {
            item["call_id"]: item["output"]
            for item in self.sent[-1][1]
            if isinstance(item, dict) and item.get("type", "").endswith("_output")
        }


def call(operation, call_id="c1", **arguments):
    return ResponseFunctionToolCall(
        type="function_call", name=name(operation), call_id=call_id, id=f"id-{call_id}",
        arguments=json.dumps(arguments),
    )  # fmt: skip


def say(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[part]
    )


def patch(kind, path, diff, call_id="p1"):
    operation = {"type": kind, "path": path}
    if diff is not None:
        operation["diff"] = diff
    return ResponseApplyPatchToolCall(
        id=f"id-{call_id}", call_id=call_id, type="apply_patch_call", status="completed",
        operation=operation,
    )  # fmt: skip


def agent(model, tools, **options):
    return Agent(name="a", instructions="work", model=model, tools=tools, **options)


@pytest.mark.spec("TOOL-1", "TOOL-5")
async def test_an_agent_reads_and_writes():
    async with workspace() as (fs, tools):
        model = Scripted(
            call("write_file", "c1", path="a.txt", content="one\n"),
            [call("read_file", "c2", path="a.txt"), call("read_file", "c3", path="none")],
            say("done"),
        )
        result = await Runner.run(agent(model, function_tools(tools)), "go", run_config=QUIET)
        assert result.final_output == "done"
        outputs = model.outputs()
        assert inner(answer(outputs["c2"])["text"]) == "one\n"
        assert answer(outputs["c3"])["errorKind"] == "path_not_found"
        assert [tool.name for tool in model.sent[0][2]] == [tool.name for tool in tools.tools]
        assert (await fs.read_text("a.txt")).text == "one\n"


async def interrupted(model, kit):
    runner = agent(model, [*kit.function_tools, kit.apply_patch_tool()])
    result = await Runner.run(runner, "go", run_config=QUIET)
    assert len(result.interruptions) == 1
    return runner, result, result.interruptions[0]


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_interrupts_the_run_until_the_person_answers(agreed):
    async with workspace() as (fs, tools):
        await fs.write_text(".git/config", "old\n", parents=True)
        kit = AgentTools(tools)
        model = Scripted(call("write_file", path=".git/config", content="new\n"), say("done"))
        runner, result, interruption = await interrupted(model, kit)
        assert (await fs.read_text(".git/config")).text == "old\n"
        question = kit.question(interruption)
        assert ".git/config" in question.prompt
        assert "+new" in question.shown()["diff"]

        state = result.to_state()
        state.approve(interruption) if agreed else state.reject(interruption)
        result = await Runner.run(runner, state, run_config=QUIET)
        assert result.final_output == "done"
        assert (await fs.read_text(".git/config")).text == ("new\n" if agreed else "old\n")
        if agreed:
            assert answer(model.outputs()["c1"])["ok"] is True


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_what_changed_after_the_person_looked_is_not_what_they_agreed_to():
    async with workspace() as (fs, tools):
        await fs.write_text(".git/config", "old\n", parents=True)
        kit = AgentTools(tools)
        model = Scripted(call("write_file", path=".git/config", content="new\n"), say("done"))
        runner, result, interruption = await interrupted(model, kit)
        state = result.to_state()
        state.approve(interruption)
        await fs.write_text(".git/config", "another\n")
        await Runner.run(runner, state, run_config=QUIET)
        assert answer(model.outputs()["c1"])["errorKind"] == "approval_denied"
        assert (await fs.read_text(".git/config")).text == "another\n"


@pytest.mark.spec("TOOL-5")
async def test_a_call_that_nobody_need_be_asked_about_is_made_once():
    """Finding out whether to ask must not do anything."""
    async with workspace() as (fs, tools):
        kit = AgentTools(tools)
        tool = next(t for t in kit.function_tools if t.name == name("write_file"))
        arguments = {"path": "a.txt", "content": "x"}
        assert await tool.needs_approval(None, arguments, "c1") is False
        assert not await fs.exists("a.txt")


@pytest.mark.spec("TOOL-5")
async def test_patches_create_update_move_and_delete():
    async with workspace() as (fs, tools):
        kit = AgentTools(tools)
        tool = kit.apply_patch_tool()
        assert isinstance(tool, ApplyPatchTool)
        assert isinstance(tool.editor, ApplyPatchEditor)
        model = Scripted(
            patch("create_file", "src/a.py", "+x = 1\n+y = 2\n+", "p1"),
            patch("update_file", "src/a.py", "@@\n-x = 1\n+x = 3\n y = 2\n", "p2"),
            [
                patch("update_file", "src/a.py", "@@\n-nothing\n+x\n", "p3"),
                patch("delete_file", "gone.py", None, "p4"),
                patch("create_file", "../out.py", "+x\n", "p5"),
            ],
            say("done"),
        )
        await Runner.run(agent(model, [tool]), "go", run_config=QUIET)
        assert (await fs.read_text("src/a.py")).text == "x = 3\ny = 2\n"
        outputs = model.outputs()
        assert answer(outputs["p3"])["errorKind"] == "parse_error"
        assert "nothing" not in outputs["p3"]
        assert answer(outputs["p4"])["errorKind"] == "path_not_found"
        assert answer(outputs["p5"])["errorKind"] == "path_outside_workspace"
        editor = PatchEditor(tools)
        moved = ApplyPatchOperation(
            type="update_file", path="src/a.py", diff="@@\n-x = 3\n+x = 4\n", move_to="b.py"
        )
        assert (await editor.update_file(moved)).status == "completed"
        assert (await fs.read_text("b.py")).text == "x = 4\ny = 2\n"
        gone = ApplyPatchOperation(type="delete_file", path="b.py")
        assert (await editor.delete_file(gone)).status == "completed"
        assert not await fs.exists("b.py")


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_patch_that_a_rule_asks_about_interrupts_the_run(agreed):
    async with workspace() as (fs, tools):
        await fs.write_text(".git/hooks/x", "old\n", parents=True)
        kit = AgentTools(tools)
        model = Scripted(patch("update_file", ".git/hooks/x", "@@\n-old\n+new\n"), say("done"))
        runner, result, interruption = await interrupted(model, kit)
        assert "-old" in kit.question(interruption).shown()["diff"]
        state = result.to_state()
        state.approve(interruption) if agreed else state.reject(interruption)
        await Runner.run(runner, state, run_config=QUIET)
        assert (await fs.read_text(".git/hooks/x")).text == ("new\n" if agreed else "old\n")


@pytest.mark.spec("TOOL-6")
async def test_patches_keep_to_the_configuration():
    async with workspace(operations=["read_file", "edit_file"], max_file_size_mb=1e-5) as (
        fs,
        tools,
    ):
        await fs.write_text("a", "x\n")
        editor = PatchEditor(tools)
        made = await editor.create_file(
            ApplyPatchOperation(type="create_file", path="b", diff="+x\n")
        )
        assert answer(made.output)["errorKind"] == "missing_access"
        grown = ApplyPatchOperation(
            type="update_file", path="a", diff="@@\n-x\n+" + "y" * 100 + "\n"
        )
        assert answer((await editor.update_file(grown)).output)["errorKind"] == "file_too_large"
        moved = ApplyPatchOperation(type="update_file", path="a", diff="@@\n-x\n+y\n", move_to="c")
        assert answer((await editor.update_file(moved)).output)["errorKind"] == "missing_access"
        assert (await fs.read_text("a")).text == "x\n"


def several(last):
    return [
        ApplyPatchOperation(type="create_file", path="new/c.py", diff="+z = 1\n"),
        ApplyPatchOperation(
            type="update_file", path="b.py", diff="@@\n-y = 1\n+y = 2\n", move_to="lib/b.py"
        ),
        ApplyPatchOperation(type="delete_file", path="gone.py"),
        ApplyPatchOperation(type="update_file", path="a.py", diff=last),
    ]


@pytest.mark.spec("TOOL-5")
@pytest.mark.parametrize("place", ["memory:", "disk"])
async def test_a_patch_of_several_files_is_refused_where_it_could_be_half_done(tmp_path, place):
    async with workspace(tmp_path if place == "disk" else place) as (fs, tools):
        for path, text in {"a.py": "x = 1\n", "b.py": "y = 1\n", "gone.py": "old\n"}.items():
            await fs.write_text(path, text)
        editor = PatchEditor(tools)
        patches = several("@@\n-x = 1\n+x = 2\n")
        failed = answer((await editor.apply(patches)).output)
        assert failed["errorKind"] == "unsupported"
        assert "one by one" in failed["hint"]
        names = [str(path) for path in (await fs.glob("**/*.py")).paths]
        assert names == ["a.py", "b.py", "gone.py"]
        for each in patches:
            assert (await editor.apply([each])).status == "completed"
        names = [str(path) for path in (await fs.glob("**/*.py")).paths]
        assert sorted(names) == ["a.py", "lib/b.py", "new/c.py"]


@pytest.mark.spec("TOOL-5")
async def test_a_patch_of_several_files_is_applied_whole_or_not_at_all(tmp_path):
    async with workspace(f"sqlite:{tmp_path}/v.db") as (fs, tools):
        for path, text in {"a.py": "x = 1\n", "b.py": "y = 1\n", "gone.py": "old\n"}.items():
            await fs.write_text(path, text)
        editor = PatchEditor(tools)
        failed = await editor.apply(several("@@\n-q = 1\n+q = 2\n"))
        assert failed.status == "failed"
        assert answer(failed.output)["errorKind"] == "parse_error"
        names = [str(path) for path in (await fs.glob("**/*.py")).paths]
        assert names == ["a.py", "b.py", "gone.py"]
        assert (await fs.read_text("b.py")).text == "y = 1\n"
        assert not await fs.exists("new")
        done = await editor.apply(several("@@\n-x = 1\n+x = 2\n"))
        assert (done.status, done.output.splitlines()) == (
            "completed",
            ["created new/c.py", "updated b.py, now lib/b.py", "deleted gone.py", "updated a.py"],
        )
        names = [str(path) for path in (await fs.glob("**/*.py")).paths]
        assert sorted(names) == ["a.py", "lib/b.py", "new/c.py"]
        assert (await fs.read_text("lib/b.py")).text == "y = 2\n"


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_patch_that_moves_is_asked_about_with_what_will_stand_there(agreed):
    """The place it goes to is where the rule is: that was found out too late once."""
    async with workspace() as (fs, tools):
        await fs.write_text("a.sh", "one\n")
        moved = ApplyPatchOperation(
            type="update_file", path="a.sh", diff="@@\n-one\n+two\n", move_to=".git/hooks/a"
        )
        pending = await PatchEditor(tools).rehearse(moved)
        assert pending.question.target == ".git/hooks/a"
        assert "+two" in pending.shown()["diff"]
        assert (await fs.read_text("a.sh")).text == "one\n"
        editor = PatchEditor(tools, lambda operation: by_word(agreed, pending.binding))
        done = await editor.update_file(moved)
        assert done.status == ("completed" if agreed else "failed")
        assert await fs.exists("a.sh") is not agreed
        assert await fs.exists(".git/hooks/a") is agreed
        if agreed:
            assert (await fs.read_text(".git/hooks/a")).text == "two\n"
        else:
            assert (await fs.read_text("a.sh")).text == "one\n"


class Approved:
    """What the SDK says of a run that another process has begun: one call of it was approved."""

    def is_tool_approved(self, name, call_id):
        return True if call_id == "call-1" else None


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_what_was_agreed_to_in_another_process_counts_once_for_a_patch():
    async with workspace() as (fs, tools):
        await fs.make_dir(".git/hooks", parents=True)
        made = ApplyPatchOperation(
            type="create_file", path=".git/hooks/x", diff="+x", ctx_wrapper=Approved()
        )
        pending = await PatchEditor(tools).rehearse(made)
        kit = AgentTools(tools, agreed={"call-1": pending.binding})
        editor = kit.apply_patch_tool().editor
        other = ApplyPatchOperation(
            type="create_file", path=".git/hooks/x", diff="+y", ctx_wrapper=Approved()
        )
        assert (await editor.create_file(other)).status == "failed"
        assert (await editor.create_file(made)).status == "completed"
        await fs.remove(".git/hooks/x")
        again = await editor.create_file(made)
        assert answer(again.output)["errorKind"] == "approval_denied"
        assert not await fs.exists(".git/hooks/x")


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_command_is_run_when_the_person_has_seen_it(project, tmp_path, agreed):
    async with bailiwick.open(project, state_dir=str(tmp_path / "state")) as fs:
        kit = AgentTools(make_tools(fs, "notes", operations=["run_command"]))
        model = Scripted(call("run_command", command="echo hi | tee said"), say("done"))
        runner, result, interruption = await interrupted(model, kit)
        assert list(project.iterdir()) == []
        assert "echo hi | tee said" in kit.question(interruption).prompt
        state = result.to_state()
        state.approve(interruption) if agreed else state.reject(interruption)
        result = await Runner.run(runner, state, run_config=QUIET)
        assert result.final_output == "done"
        assert [each.name for each in project.iterdir()] == (["said"] if agreed else [])
        if agreed:
            told = answer(model.outputs()["c1"])
            assert inner(told["output"]) == "hi\n"
            assert told["changes"] == [{"path": "said", "kind": "created"}]


@pytest.mark.spec("EXEC-10", "EXEC-1")
async def test_a_tool_that_is_approved_for_good_runs_no_other_command(project, tmp_path):
    async with bailiwick.open(project, state_dir=str(tmp_path / "state")) as fs:
        kit = AgentTools(make_tools(fs, "notes", operations=["run_command"]))
        model = Scripted(
            call("run_command", "c1", command="touch one"),
            call("run_command", "c2", command="touch two"),
            say("done"),
        )
        runner, result, interruption = await interrupted(model, kit)
        state = result.to_state()
        state.approve(interruption, always_approve=True)
        result = await Runner.run(runner, state, run_config=QUIET)
        while result.interruptions:
            state = result.to_state()
            state.reject(result.interruptions[0])
            result = await Runner.run(runner, state, run_config=QUIET)
        assert [each.name for each in project.iterdir()] == ["one"]


def shell(*commands, call_id="s1", **limits):
    action = {"commands": list(commands), "max_output_length": None, "timeout_ms": None, **limits}
    return ResponseFunctionShellToolCall(
        id=f"id-{call_id}", call_id=call_id, type="shell_call", status="completed", action=action
    )


def streams(model, call_id="s1"):
    """What the model was told of each command of a shell call."""
    return [each["stdout"] or each["stderr"] for each in model.outputs()[call_id]]


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("agreed", [True, False])
async def test_the_shell_tool_waits_for_the_person(project, agreed):
    async with running(project) as (_, box):
        kit = AgentTools(box)
        model = Scripted(shell("echo one > a; exit 3", "cat a"), say("done"))
        runner = agent(model, [kit.shell_tool()])
        result = await Runner.run(runner, "go", run_config=QUIET)
        [interruption] = result.interruptions
        prompts = [each.prompt for each in kit.questions(interruption)]
        assert ["echo one > a" in prompts[0], "cat a" in prompts[1]] == [True, True]
        assert kit.question(interruption) is None, "who shows one of two shows half"
        assert list(project.iterdir()) == []
        state = result.to_state()
        state.approve(interruption) if agreed else state.reject(interruption)
        result = await Runner.run(runner, state, run_config=QUIET)
        assert result.final_output == "done"
        assert [each.name for each in project.iterdir()] == (["a"] if agreed else [])
        if agreed:
            first, second = streams(model)
            assert first.endswith("[exit code 3]\n[changed: a created]")
            assert inner(second) == "one\n"
            [one, two] = model.outputs()["s1"]
            assert (one["outcome"]["exit_code"], two["outcome"]["exit_code"]) == (3, 0)


@pytest.mark.spec("EXEC-10", "EXEC-1")
async def test_the_word_for_a_call_of_the_shell_is_for_no_other(project):
    async with running(project) as (_, box):
        kit = AgentTools(box)
        model = Scripted(shell("touch one"), shell("touch two", call_id="s2"), say("done"))
        runner = agent(model, [kit.shell_tool()])
        result = await Runner.run(runner, "go", run_config=QUIET)
        state = result.to_state()
        state.approve(result.interruptions[0], always_approve=True)
        await Runner.run(runner, state, run_config=QUIET)
        assert [each.name for each in project.iterdir()] == ["one"]
        [refused] = streams(model, "s2")
        assert answer(refused)["errorKind"] == "approval_timeout"


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("given", ["agreed", "nothing", "another"])
async def test_a_call_of_the_shell_goes_on_in_another_process_with_what_was_shown(project, given):
    async with running(project, session="run-1") as (_, box):
        kit, turn = AgentTools(box), shell("touch one", "touch two")
        result = await Runner.run(agent(Scripted(turn), [kit.shell_tool()]), "go", run_config=QUIET)
        [interruption] = result.interruptions
        bindings = [each.binding for each in kit.questions(interruption)]
        kept = result.to_state().to_string()
        agreed = {"agreed": {"s1": bindings}, "nothing": {}, "another": {"s1": bindings[1]}}[given]
        model = Scripted(say("done"))
        runner = agent(model, [AgentTools(box, agreed=agreed).shell_tool()])
        state = await RunState.from_string(runner, kept)
        state.approve(state.get_interruptions()[0])
        await Runner.run(runner, state, run_config=QUIET)
        made = {"agreed": ["one", "two"], "nothing": [], "another": ["two"]}[given]
        assert sorted(each.name for each in project.iterdir()) == made


@pytest.mark.spec("EXEC-10", "TOOL-2")
async def test_what_the_shell_prints_is_bounded_before_the_sdk_cuts_its_tags(project):
    async with running(project) as (fs, box):
        kit = AgentTools(box)
        long = shell("seq 1 100000", "sleep 100", max_output_length=6000, timeout_ms=1000)
        model = Scripted(long, say("done"))
        runner = agent(model, [kit.shell_tool()])
        result = await Runner.run(runner, "go", run_config=QUIET)
        state = result.to_state()
        state.approve(result.interruptions[0])
        await Runner.run(runner, state, run_config=QUIET)
        first, second = model.outputs()["s1"]
        assert inner(first["stdout"]).startswith("1\n2\n")
        assert "truncated" in first["stdout"]
        assert inner(first["stdout"].partition("]\n")[2]).endswith("100000\n")
        assert second["outcome"] == {"type": "timeout"}
        assert await fs.work() == []
