"""pydantic-ai's own loop, with a model that follows a script."""

import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolDenied,
)
from pydantic_ai.models.function import FunctionModel

from bailiwick.fronts.tools.pydantic_ai import BailiwickToolset
from tests.fronts.tools.support import inner, name, running, workspace


class Script:
    """A model that says what it was told to, turn by turn."""

    __name__ = "script"  # by which some releases name the model

    def __init__(self, *turns):
        self.turns = list(turns)
        self.sent = []

    def __call__(self, messages, info):
        self.sent.append((messages, info))
        return ModelResponse(parts=self.turns.pop(0))

    def returns(self):
        return {
            part.tool_call_id: part.content
            for part in self.sent[-1][0][-1].parts
            if part.part_kind == "tool-return"
        }


def call(operation, call_id="c1", **arguments):
    return ToolCallPart(tool_name=name(operation), args=arguments, tool_call_id=call_id)


def agent(script, tools):
    return Agent(
        FunctionModel(script),
        toolsets=[BailiwickToolset(tools)],
        output_type=[str, DeferredToolRequests],
    )


@pytest.mark.spec("TOOL-1", "TOOL-5")
async def test_an_agent_reads_and_writes():
    async with workspace() as (fs, tools):
        script = Script(
            [call("write_file", "c1", path="a", content="one\n"),
             call("edit_file", "c2", path="a", oldText="one", newText="two"),
             call("read_file", "c3", path="a"),
             call("read_file", "c4", path="a", foo=1)],
            [TextPart("done")],
        )  # fmt: skip
        result = await agent(script, tools).run("go")
        assert result.output == "done"
        returns = script.returns()
        assert inner(returns["c3"]) == "two\n", "changes are barriers"
        assert returns["c4"]["errorKind"] == "parse_error"
        definitions = {tool.name: tool for tool in script.sent[0][1].function_tools}
        assert definitions.keys() == {tool.name for tool in tools.tools}
        assert definitions[name("write_file")].sequential
        assert not definitions[name("read_file")].sequential
        assert "untrusted" in script.sent[0][1].instructions
        assert (await fs.read_text("a")).text == "two\n"


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("handed_back", [True, False])
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_defers_the_call(agreed, handed_back):
    async with workspace() as (fs, tools):
        await fs.write_text(".env", "KEY=1\n")
        script = Script([call("read_file", path=".env")], [TextPart("done")])
        runner = agent(script, tools)
        first = await runner.run("go")
        requests = first.output
        assert isinstance(requests, DeferredToolRequests)
        assert requests.metadata["c1"]["paths"] == [".env"]
        results = DeferredToolResults(
            approvals={"c1": True if agreed else ToolDenied("no")},
            metadata=requests.metadata if handed_back else {},
        )
        last = await runner.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert last.output == "done"
        assert ("KEY=1" in str(script.returns()["c1"])) is agreed


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_the_answer_is_bound_to_what_was_shown():
    async with workspace() as (fs, tools):
        await fs.write_text(".git/config", "old\n", parents=True)
        script = Script(
            [call("write_file", path=".git/config", content="new\n")], [TextPart("done")]
        )
        runner = agent(script, tools)
        first = await runner.run("go")
        await fs.write_text(".git/config", "another\n")
        results = DeferredToolResults(approvals={"c1": True}, metadata=first.output.metadata)
        await runner.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert script.returns()["c1"]["errorKind"] == "approval_denied"
        assert (await fs.read_text(".git/config")).text == "another\n"


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("handed_back", [True, False])
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_command_is_deferred_until_the_person_has_seen_it(project, agreed, handed_back):
    async with running(project) as (_, tools):
        script = Script([call("run_command", command="echo hi | tee -a said")], [TextPart("done")])
        runner = agent(script, tools)
        first = await runner.run("go")
        assert "echo hi | tee -a said" in first.output.metadata["c1"]["prompt"]
        assert list(project.iterdir()) == []
        results = DeferredToolResults(
            approvals={"c1": True if agreed else ToolDenied("no")},
            metadata=first.output.metadata if handed_back else {},
        )
        last = await runner.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert last.output == "done"
        assert [each.name for each in project.iterdir()] == (["said"] if agreed else [])
        if agreed:
            assert inner(script.returns()["c1"]) == "hi\n"
