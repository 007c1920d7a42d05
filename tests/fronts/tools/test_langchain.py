"""LangChain's agent on LangGraph, with a model that follows a script."""

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from bailiwick.fronts.tools.langchain import langchain_tools
from tests.fronts.tools.support import (
    answer,
    blocking_workspace,
    inner,
    name,
    running,
    workspace,
)

THREAD = {"configurable": {"thread_id": "t"}}


class Scripted(GenericFakeChatModel):
    """A model that says what it was told to, turn by turn."""

    def bind_tools(self, tools, **_):
        return self


def scripted(*turns):
    return Scripted(messages=iter(turns))


def calling(*calls):
    return AIMessage(content="", tool_calls=list(calls))


def call(operation, call_id="c1", **arguments):
    return {"name": name(operation), "args": arguments, "id": call_id}


def replies(state):
    return {m.tool_call_id: m.content for m in state["messages"] if isinstance(m, ToolMessage)}


GO = {"messages": [("user", "go")]}


@pytest.mark.spec("TOOL-1", "TOOL-5")
async def test_an_agent_reads_and_writes():
    async with workspace() as (fs, tools):
        model = scripted(
            calling(call("write_file", path="a", content="one\n")),
            calling(call("read_file", "c2", path="a"), call("read_file", "c3", path="none")),
            AIMessage(content="done"),
        )
        state = await create_agent(model, langchain_tools(tools)).ainvoke(GO)
        assert state["messages"][-1].content == "done"
        told = replies(state)
        assert inner(answer(told["c2"])["text"]) == "one\n"
        assert answer(told["c3"])["errorKind"] == "path_not_found"
        assert (await fs.read_text("a")).text == "one\n"


@pytest.mark.spec("TOOL-5")
def test_a_blocking_agent():
    with blocking_workspace() as (fs, tools):
        model = scripted(
            calling(call("write_file", path="a", content="one\n")), AIMessage(content="done")
        )
        create_agent(model, langchain_tools(tools)).invoke(GO)
        assert fs.read_text("a").text == "one\n"


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_interrupts_the_graph(agreed):
    async with workspace() as (fs, tools):
        await fs.write_text(".git/config", "old\n", parents=True)
        model = scripted(
            calling(call("write_file", path=".git/config", content="new\n")),
            AIMessage(content="done"),
        )
        agent = create_agent(model, langchain_tools(tools), checkpointer=InMemorySaver())
        state = await agent.ainvoke(GO, THREAD)
        [paused] = state["__interrupt__"]
        assert paused.value["paths"] == [".git/config"]
        assert "+new" in paused.value["diff"]
        assert (await fs.read_text(".git/config")).text == "old\n"
        word = {"approved": agreed, "binding": paused.value["binding"]}
        state = await agent.ainvoke(Command(resume=word), THREAD)
        assert state["messages"][-1].content == "done"
        assert (await fs.read_text(".git/config")).text == ("new\n" if agreed else "old\n")


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("word", [True, False, "yes", {"approved": "true"}, None, {}])
def test_a_blocking_graph_is_interrupted_too_and_only_a_yes_is_one(word):
    with blocking_workspace() as (fs, tools):
        fs.write_text(".env", "KEY=1\n")
        model = scripted(calling(call("read_file", path=".env")), AIMessage(content="done"))
        agent = create_agent(model, langchain_tools(tools), checkpointer=InMemorySaver())
        state = agent.invoke(GO, THREAD)
        [paused] = state["__interrupt__"]
        # None cannot be told from no answer at all by the framework: it is given by id.
        state = agent.invoke(Command(resume={paused.id: word}), THREAD)
        assert ("KEY=1" in replies(state)["c1"]) is (word is True)


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_the_answer_is_bound_to_what_was_shown():
    async with workspace() as (fs, tools):
        await fs.write_text(".git/config", "old\n", parents=True)
        model = scripted(
            calling(call("write_file", path=".git/config", content="new\n")),
            AIMessage(content="done"),
        )
        agent = create_agent(model, langchain_tools(tools), checkpointer=InMemorySaver())
        [paused] = (await agent.ainvoke(GO, THREAD))["__interrupt__"]
        await fs.write_text(".git/config", "another\n")
        word = {"approved": True, "binding": paused.value["binding"]}
        [again] = (await agent.ainvoke(Command(resume=word), THREAD))["__interrupt__"]
        assert (await fs.read_text(".git/config")).text == "another\n"
        # It is another question by now, and has an answer of its own.
        assert "-another" in again.value["diff"]
        word = {"approved": True, "binding": again.value["binding"]}
        await agent.ainvoke(Command(resume=word), THREAD)
        assert (await fs.read_text(".git/config")).text == "new\n"


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_an_agent_shows_each_question_and_wants_answers_by_their_ids():
    """Each call is a step of its own in the framework's agents."""
    async with workspace() as (fs, tools):
        await fs.make_dir(".git")
        asks = [call("write_file", each, path=f".git/{each}", content="x\n") for each in "ab"]
        model = scripted(calling(*asks), AIMessage(content="done"))
        agent = create_agent(model, langchain_tools(tools), checkpointer=InMemorySaver())
        state = await agent.ainvoke(GO, THREAD)
        shown = {each.value["paths"][0]: each.id for each in state["__interrupt__"]}
        assert shown.keys() == {".git/a", ".git/b"}
        with pytest.raises(RuntimeError, match="multiple pending interrupts"):
            await agent.ainvoke(Command(resume=True), THREAD)
        words = {shown[".git/a"]: True, shown[".git/b"]: False}
        state = await agent.ainvoke(Command(resume=words), THREAD)
        assert state["messages"][-1].content == "done"
        assert await fs.exists(".git/a")
        assert not await fs.exists(".git/b")


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_without_a_graph_nothing_is_done_and_the_model_is_told():
    async with workspace() as (fs, tools):
        await fs.write_text(".env", "KEY=1\n")
        tool = next(t for t in langchain_tools(tools) if t.name == name("read_file"))
        told = answer(await tool.ainvoke({"path": ".env"}))
        assert told["errorKind"] == "approval_pending"
        assert tool.metadata["readOnly"] is True


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_command_interrupts_the_graph(project, agreed):
    async with running(project) as (_, tools):
        model = scripted(
            calling(call("run_command", command="echo hi | tee -a said")),
            AIMessage(content="done"),
        )
        agent = create_agent(model, langchain_tools(tools), checkpointer=InMemorySaver())
        [paused] = (await agent.ainvoke(GO, THREAD))["__interrupt__"]
        assert "echo hi | tee -a said" in paused.value["prompt"]
        assert list(project.iterdir()) == []
        word = {"approved": agreed, "binding": paused.value["binding"]}
        told = answer(replies(await agent.ainvoke(Command(resume=word), THREAD))["c1"])
        assert [each.name for each in project.iterdir()] == (["said"] if agreed else [])
        if agreed:
            assert inner(told["output"]) == "hi\n"
            assert (project / "said").read_text() == "hi\n", "it was run once"
        else:
            assert told["errorKind"] == "approval_denied"
