"""Anthropic's client and its tool runner, with a service that follows a script."""

import asyncio
import json

import anthropic
import pytest
from anthropic.lib.tools import ToolError
from anthropic.types.beta import BetaMemoryTool20250818ViewCommand

import bailiwick
from bailiwick.fronts.tools import anthropic as front
from bailiwick.fronts.tools import tools
from tests.fronts.tools.support import (
    answer,
    blocking_workspace,
    http_library,
    inner,
    name,
    running,
    workspace,
)

http = http_library(anthropic.DefaultHttpxClient)


class Service:
    """Answers requests with the turns of a script and keeps what it was sent."""

    def __init__(self, *turns):
        self.turns = list(turns)
        self.sent = []

    def __call__(self, request):
        self.sent.append(json.loads(request.content))
        content = self.turns.pop(0)
        stop = "tool_use" if any(b["type"] == "tool_use" for b in content) else "end_turn"
        return http.Response(
            200,
            json={
                "id": "msg", "type": "message", "role": "assistant", "model": "scripted",
                "content": content, "stop_reason": stop, "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )  # fmt: skip

    def client(self):
        transport = http.MockTransport(self)
        return anthropic.AsyncAnthropic(
            api_key="x", http_client=anthropic.DefaultAsyncHttpxClient(transport=transport)
        )

    def blocking_client(self):
        transport = http.MockTransport(self)
        return anthropic.Anthropic(
            api_key="x", http_client=anthropic.DefaultHttpxClient(transport=transport)
        )

    def results(self):
        """The tool results in the last request, by call."""
        return {block["tool_use_id"]: block for block in self.sent[-1]["messages"][-1]["content"]}


def use(tool, call_id="t1", **arguments):
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


def say(text):
    return {"type": "text", "text": text}


def text_of(block):
    content = block["content"]
    return content if isinstance(content, str) else content[0]["text"]


ASK = {"model": "scripted", "max_tokens": 100}


@pytest.mark.spec("TOOL-1", "TOOL-5")
async def test_an_application_runs_the_loop():
    async with workspace() as (fs, tools):
        service = Service(
            [use(name("write_file"), path="a", content="one\n"), use("other_tool", "t9")],
            [use(name("read_file"), "t2", path="a"), use(name("rm"), "t3", path="b")],
            [say("done")],
        )
        messages = [{"role": "user", "content": "go"}]
        async with service.client() as client:
            while True:
                message = await client.messages.create(
                    **ASK, messages=messages, tools=front.tool_params(tools)
                )
                done = await front.run_calls(tools, message)
                assert not done.pending
                if message.stop_reason != "tool_use":
                    break
                messages += [
                    {"role": "assistant", "content": message.content},
                    {"role": "user", "content": done.outputs},
                ]
        assert message.content[0].text == "done"
        results = service.results()
        assert inner(answer(text_of(results["t2"]))["text"]) == "one\n"
        assert results["t3"]["is_error"] is True
        assert "t9" not in results, "a tool of somebody else is left to them"
        assert (await fs.read_text("a")).text == "one\n"


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_call_that_a_rule_asks_about_waits_for_the_person(agreed):
    async with workspace() as (fs, tools):
        await fs.write_text(".env", "KEY=1\n")
        message = {"content": [use(name("read_file"), path=".env"), use(name("ls"), "t2")]}
        done = await front.run_calls(tools, message)
        assert [block["tool_use_id"] for block in done.outputs] == ["t2"]
        [waiting] = done.pending
        assert waiting.pending.shown()["paths"] == [".env"]
        block = await waiting.resume(allowed=agreed)
        assert block["tool_use_id"] == "t1"
        assert ("KEY=1" in block["content"]) is agreed
        assert block.get("is_error", False) is not agreed


async def run(service, tools):
    async with service.client() as client:
        runner = client.beta.messages.tool_runner(
            **ASK, messages=[{"role": "user", "content": "go"}], tools=tools
        )
        return await runner.until_done()


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("word", ["once", "no"])
async def test_the_tool_runner_pauses_while_a_person_is_asked(word):
    """The SDK has no pause of its own: the run waits in the call."""
    async with workspace() as (fs, tools):
        await fs.write_text(".env", "KEY=1\n")
        asked, word_given = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def person(approval):
            asked.set()
            return await word_given

        service = Service([use(name("read_file"), path=".env")], [say("done")])
        running = asyncio.ensure_future(run(service, front.runnable_tools(tools, asker=person)))
        await asked.wait()
        assert not running.done()
        word_given.set_result(word)
        assert (await running).content[0].text == "done"
        result = service.results()["t1"]
        assert ("KEY=1" in text_of(result)) is (word == "once")
        assert bool(result.get("is_error")) is (word == "no")


EDITORS = {
    "20241022": "str_replace_editor",
    "20250124": "str_replace_editor",
    "20250429": "str_replace_based_edit_tool",
    "20250728": "str_replace_based_edit_tool",
}


@pytest.mark.spec("TOOL-5")
@pytest.mark.parametrize("version", EDITORS)
async def test_the_text_editor_in_the_tool_runner(version):
    async with workspace() as (fs, tools):
        editor = front.TextEditor(tools, version)
        assert editor.name == EDITORS[version]
        insert = {"insert_text" if version > "20250200" else "new_str": "two"}
        service = Service(
            [use(editor.name, command="create", path="/src/a.py", file_text="one\nthree\n")],
            [use(editor.name, command="insert", path="/src/a.py", insert_line=1, **insert)],
            [use(editor.name, command="str_replace", path="src/a.py", old_str="three",
                 new_str="drei")],
            [use(editor.name, "v", command="view", path="/src/a.py", view_range=[2, -1]),
             use(editor.name, "d", command="view", path="/"),
             use(editor.name, "u", command="undo_edit", path="/src/a.py")],
            [say("done")],
        )  # fmt: skip
        await run(service, [editor])
        assert (await fs.read_text("src/a.py")).text == "one\ntwo\ndrei\n"
        results = service.results()
        assert inner(text_of(results["v"])) == "     2\ttwo\n     3\tdrei\n     4\t"
        assert "/src/\n" in text_of(results["d"])
        assert "13B\t/src/a.py" in text_of(results["d"])
        undo = answer(text_of(results["u"]))["errorKind"]
        assert undo == ("missing_access" if version < "20250200" else "parse_error")
        assert service.sent[0]["tools"] == [{"type": f"text_editor_{version}", "name": editor.name}]


@pytest.mark.spec("TOOL-5", "TOOL-4")
async def test_what_the_text_editor_refuses():
    async with workspace(max_file_size_mb=1e-4) as (fs, tools):
        editor = front.TextEditor(tools, max_characters=20)
        assert editor.to_dict()["max_characters"] == 20
        await fs.write_text("a", "x\nx\n")
        await fs.write_text(".env", "KEY=1")
        refused = {
            "file_already_exists": {"command": "create", "path": "a", "file_text": "y"},
            "ambiguous_text_match": {"command": "str_replace", "path": "a", "old_str": "x"},
            "text_not_found": {"command": "insert", "path": "a", "insert_line": 9,
                               "insert_text": "y"},
            "path_outside_workspace": {"command": "view", "path": "../a"},
            "path_not_found": {"command": "view", "path": "/etc/passwd"},
            "approval_denied": {"command": "view", "path": "/.env"},
            "file_too_large": {"command": "create", "path": "b", "file_text": "y" * 200},
        }  # fmt: skip
        for kind, command in refused.items():
            with pytest.raises(ToolError) as failed:
                await editor.call(command)
            assert answer(failed.value.content)["errorKind"] == kind
        wrong = [
            None, [], {}, {"command": "delete", "path": "a"}, {"command": "view"},
            {"command": "view", "path": "a", "extra": 1}, {"command": "view", "path": 3},
            {"command": "view", "path": "a", "view_range": [2]},
            {"command": "view", "path": "a", "view_range": [9, 10]},
            {"command": "insert", "path": "a", "insert_line": 0},
        ]  # fmt: skip
        for command in wrong:
            with pytest.raises(ToolError) as failed:
                await editor.call(command)
            assert answer(failed.value.content)["errorKind"] == "parse_error"
        await fs.write_text("long", "y" * 60)
        view = await editor.call({"command": "view", "path": "long"})
        assert len(inner(view)) == 20
        assert view.endswith("[... truncated, 47 bytes omitted; go on with a `view_range`]")


@pytest.mark.spec("TOOL-5")
async def test_the_memory_tool_in_the_tool_runner():
    async with workspace() as (fs, tools):
        memory = front.MemoryTool(tools)
        path = "/memories/likes.md"
        service = Service(
            [use("memory", command="view", path="/memories")],
            [use("memory", command="create", path=path, file_text="coffee\n")],
            [use("memory", command="insert", path=path, insert_line=1, insert_text="tea\n")],
            [use("memory", command="str_replace", path=path, old_str="coffee", new_str="cocoa")],
            [use("memory", "v", command="view", path=path)],
            [use("memory", command="rename", old_path=path, new_path="/memories/b/c.md")],
            [use("memory", "o", command="view", path="/etc/passwd"),
             use("memory", "m", command="view", path="/memoriesx/a"),
             use("memory", "u", command="view", path="/memories/../../etc/passwd"),
             use("memory", "e", command="create", path="/memories/b", file_text="x")],
            [use("memory", command="delete", path="/memories/b")],
            [say("done")],
        )  # fmt: skip
        async with service.client() as client:
            runner = client.beta.messages.tool_runner(
                **ASK, messages=[{"role": "user", "content": "go"}], tools=[memory]
            )
            seen = {}
            async for _ in runner:
                reply = await runner.generate_tool_call_response()
                if reply is not None:
                    seen |= {block["tool_use_id"]: block for block in reply["content"]}
        assert inner(text_of(seen["v"])) == "     1\tcocoa\n     2\ttea\n     3\t"
        assert answer(text_of(seen["o"]))["errorKind"] == "parse_error"
        assert answer(text_of(seen["m"]))["errorKind"] == "parse_error"
        assert answer(text_of(seen["u"]))["errorKind"] == "path_outside_workspace"
        assert seen["e"]["is_error"] is True
        assert not await fs.exists("b")
        await fs.write_text("x/y", "z", parents=True)
        await memory.clear_all_memory()
        assert (await fs.list(".")).entries == []


@pytest.mark.spec("TOOL-5")
def test_the_blocking_runner():
    with blocking_workspace() as (fs, tools):
        service = Service(
            [use(name("write_file"), path="a", content="one\n")],
            [use("str_replace_based_edit_tool", command="view", path="a")],
            [use("memory", command="create", path="/memories/b", file_text="two\n")],
            [say("done")],
        )
        kit = [
            *front.blocking_tools(tools),
            front.Blocking(front.TextEditor(tools), tools),
            front.BlockingMemoryTool(tools),
        ]
        with service.blocking_client() as client:
            runner = client.beta.messages.tool_runner(
                **ASK, messages=[{"role": "user", "content": "go"}], tools=kit
            )
            assert runner.until_done().content[0].text == "done"
        assert fs.read_text("b").text == "two\n"
        assert front.BlockingMemoryTool(tools).clear_all_memory() == "All memory cleared"


@pytest.mark.spec("TOOL-5")
async def test_commands_as_the_sdk_says_them():
    async with workspace() as (fs, tools):
        await fs.write_text("a", "x")
        command = BetaMemoryTool20250818ViewCommand(command="view", path="/memories/a")
        memory = front.MemoryTool(tools)
        assert inner(await memory.execute(command)) == "     1\tx"
        assert inner(await memory.view(command)) == "     1\tx"


@pytest.mark.spec("TOOL-5")
async def test_the_text_editor_undoes_its_own_edits(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/a.db?volume=main") as fs:
        editor = front.TextEditor(tools(fs), "20250124")
        await editor.call({"command": "create", "path": "a", "file_text": "1"})
        for number in (1, 2):
            replace = {"command": "str_replace", "path": "a", "old_str": f"{number}"}
            await editor.call({**replace, "new_str": f"{number + 1}"})
        assert (await fs.read_text("a")).text == "3"
        undo = {"command": "undo_edit", "path": "a"}
        assert "undone" in await editor.call(undo)
        assert (await fs.read_text("a")).text == "2"
        assert "undone" in await editor.call(undo)
        assert (await fs.read_text("a")).text == "1"
        with pytest.raises(ToolError, match="no edit of yours"):
            await editor.call(undo)
        await editor.call({"command": "str_replace", "path": "a", "old_str": "1", "new_str": "one"})
        assert "undone" in await editor.call(undo)
        await fs.write_text("a", "the person's")
        with pytest.raises(ToolError, match="hash_mismatch"):
            await editor.call(undo)


# --- bash ----------------------------------------------------------------------------------------


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_command_of_bash_waits_for_the_person(project, agreed):
    async with running(project) as (_, box):
        bash = front.BashTool(box)
        message = {"content": [use("bash", command="echo hi | tee said; exit 3")]}
        done = await front.run_calls(box, message, bash=bash)
        [waiting] = done.pending
        assert "echo hi | tee said; exit 3" in waiting.pending.prompt
        assert list(project.iterdir()) == []
        block = await waiting.resume(allowed=agreed)
        assert block["tool_use_id"] == "t1"
        assert block.get("is_error", False) is not agreed
        assert [each.name for each in project.iterdir()] == (["said"] if agreed else [])
        if agreed:
            assert inner(block["content"]) == "hi\n"
            assert block["content"].endswith("\n[exit code 3]\n[changed: said created]")
        else:
            assert answer(block["content"])["errorKind"] == "approval_denied"


@pytest.mark.spec("EXEC-10", "EXEC-3", "TOOL-5")
async def test_bash_is_one_session_over_the_calls_of_the_tool_runner(project):
    (project / "d").mkdir()
    asked = []

    async def person(approval):
        asked.append(approval.question.command)
        return "no" if "forbidden" in approval.question.command else "once"

    async with running(project) as (_, box):
        bash = front.BashTool(box, asker=person)
        service = Service(
            [use("bash", "t1", command="cd d; touch made; cd /tmp; cd -")],
            [use("bash", "t2", command="pwd; ls; echo forbidding > /tmp/kept")],
            [use("bash", "t3", command="cat /tmp/kept; touch forbidden")],
            [use("bash", "t4", command="cat /tmp/kept; printf '\\036/etc'")],
            [use("bash", "t5", command="pwd"), use("bash", "t6", restart=True)],
            [use("bash", "t7", command="pwd"), use("bash", "t8")],
            [say("done")],
        )
        await run(service, [bash])
        await bash.aclose()
        results = {
            block["tool_use_id"]: block
            for sent in service.sent[1:]
            for block in sent["messages"][-1]["content"]
        }
        assert inner(text_of(results["t2"])).endswith("/d\nmade\n")
        assert "[changed: d/made created]" in text_of(results["t1"])
        assert results["t3"]["is_error"] is True
        assert "approval_denied" in text_of(results["t3"])
        assert inner(text_of(results["t4"])) == "forbidding\n\x1e/etc", "/tmp is kept, too"
        assert inner(text_of(results["t5"])).endswith("/d\n")
        assert "restarted" in text_of(results["t6"])
        assert not inner(text_of(results["t7"])).endswith("/d\n")
        assert results["t8"]["is_error"] is True
        assert not (project / "forbidden").exists()
        assert len(asked) == 6, "each command by itself"


@pytest.mark.spec("EXEC-10", "EXEC-8")
async def test_what_is_not_brought_back_is_there_for_the_next_command_of_bash(project):
    async def person(approval):
        return "once"

    async with running(project) as (fs, box):
        bash = front.BashTool(box, asker=person, publish="manual")
        text = await bash.call({"command": "echo one > a"})
        assert list(project.iterdir()) == []
        assert "bailiwick work show" in text
        assert inner(await bash.call({"command": "cat a"})) == "one\n"
        assert "kept as w" in await bash.call({"restart": True})
        assert "No such file" in await bash.call({"command": "cat a"})
        await bash.aclose()
        assert len(await fs.work()) == 1


@pytest.mark.spec("EXEC-10", "TOOL-2")
async def test_what_bash_prints_is_bounded_and_says_so(project):
    async def person(approval):
        return "once"

    async with running(project, max_tool_result_bytes=1000) as (_, box):
        bash = front.BashTool(box, asker=person)
        text = await bash.call({"command": "seq 1 100000; printf '\\036'; seq 1 100000"})
        assert "truncated" in text
        assert len(text) < 2000
        await bash.aclose()


@pytest.mark.spec("EXEC-10")
def test_the_blocking_runner_has_bash_too(project):
    async def person(approval):
        return "once"

    with bailiwick.open_sync(project, state_dir=str(project.parent / "state")) as fs:
        box = tools(fs, "notes", operations=["run_command"])
        bash = front.Blocking(front.BashTool(box, asker=person), box)
        assert bash.to_dict() == {"type": "bash_20250124", "name": "bash"}
        assert inner(bash.call({"command": "echo hi"})) == "hi\n"


@pytest.mark.spec("EXEC-10")
async def test_bash_is_there_where_commands_are(project):
    async with workspace() as (_, box):
        with pytest.raises(bailiwick.MissingAccess):
            front.BashTool(box)


@pytest.mark.spec("EXEC-10", "AUTH-4")
@pytest.mark.parametrize("rebase", [True, False])
async def test_bash_in_a_part_of_the_tree_stays_there(project, rebase):
    (project / "d" / "e").mkdir(parents=True)
    (project / "d" / "e" / "f").write_text("deep\n")

    async def person(approval):
        return "once"

    async with running(project) as (fs, _):
        agent = await fs.delegate(
            bailiwick.AgentRun("c", "r"), path="d", access=fs.access, rebase=rebase
        )
        bash = front.BashTool(tools(agent, "notes"), asker=person)
        assert inner(await bash.call({"command": "cd e; cat f"})) == "deep\n"
        assert inner(await bash.call({"command": "cat f; cd ../.."})) == "deep\n"
        assert inner(await bash.call({"command": "cat f"})) == "deep\n", "above it is not its own"
        await bash.aclose()
