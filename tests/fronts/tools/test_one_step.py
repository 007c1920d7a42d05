"""Several questions in one step of a LangGraph graph. The framework hands answers out in the order
in which a step asks, which is another one each time: a yes must not be spent on what it was not
said to."""

import asyncio
import contextlib

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from bailiwick.fronts.tools.deepagents import BailiwickBackend
from bailiwick.fronts.tools.graph_interrupts import GraphAsker
from bailiwick.fronts.tools.langchain import langchain_tools
from bailiwick.toolbox import Pending
from tests.fronts.tools.support import name, workspace
from tests.waiting import until

pytestmark = pytest.mark.spec("TOOL-5", "POL-4")

THREAD = {"configurable": {"thread_id": "t"}}
HARMLESS, EVIL = ".git/description", ".git/hooks/pre-commit"


class LangChain:
    """Our own tools."""

    def __init__(self, fs, tools):
        self.attempting = tools
        self.tools = langchain_tools(tools)
        [self.tool] = (each for each in self.tools if each.name == name("write_file"))

    @staticmethod
    def writing(path):
        return name("write_file"), {"path": path, "content": "x\n"}


class DeepAgents:
    """Tools on the backend, as the framework's own are."""

    def __init__(self, fs, tools):
        backend = BailiwickBackend(fs)
        self.attempting = backend._actor

        def write(path: str) -> str:
            """Write a file."""
            return str(backend.write(f"/{path}", "x\n").error)

        async def awrite(path: str) -> str:
            """Write a file."""
            return str((await backend.awrite(f"/{path}", "x\n")).error)

        self.tool = StructuredTool.from_function(write, awrite)
        self.tools = [self.tool]

    @staticmethod
    def writing(path):
        return "write", {"path": path}


class Order:
    """Who asks first: others have their question ready and wait."""

    def __init__(self, attempting, monkeypatch):
        self.first = None
        self.held = {}
        self.all_of = ()
        self.ready, self.asked = set(), set()
        attempt, ask = attempting.attempt, GraphAsker.ask

        async def ordered(*given):
            answer = await attempt(*given)
            if isinstance(answer, Pending):
                path = answer.question.paths[0]
                if path in self.held:
                    await self.held[path].wait()
                self.ready.add(path)
                if path == self.first:
                    # Those that have not begun when one interrupts are not begun at all.
                    await until(lambda: self.ready.issuperset(self.all_of))
                else:
                    await until(lambda: self.first in self.asked)
            return answer

        def noted(asker, pending):
            try:
                return ask(asker, pending)
            finally:
                self.asked.add(pending.question.paths[0])

        monkeypatch.setattr(attempting, "attempt", ordered)
        monkeypatch.setattr(GraphAsker, "ask", noted)

    @contextlib.asynccontextmanager
    async def beginning(self, first, *, all_of=()):
        """This one asks first; at the end all of these have asked."""
        self.first, self.all_of = first, all_of
        self.ready, self.asked = set(), set()
        yield
        await until(lambda: self.asked.issuperset(all_of))


class Conversation:
    """A graph with one step that writes all files at once, and what is said to it."""

    def __init__(self, fs, framework, blocking, *paths, more=()):
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode([*more, *framework.tools]))
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        self._graph = graph.compile(checkpointer=InMemorySaver())
        self._fs, self._blocking = fs, blocking
        calls = [(tool.name, {}) for tool in more] + [framework.writing(path) for path in paths]
        self.begin = {
            "messages": [AIMessage("", tool_calls=[
                {"name": tool, "args": args, "id": f"c{at}", "type": "tool_call"}
                for at, (tool, args) in enumerate(calls)
            ])]
        }  # fmt: skip

    async def say(self, given):
        """What is asked then."""
        if self._blocking:
            state = await asyncio.to_thread(self._graph.invoke, given, THREAD)
        else:
            state = await self._graph.ainvoke(given, THREAD)
        return [each.value for each in state.get("__interrupt__", [])]

    async def written(self):
        found = set()
        for path in (HARMLESS, EVIL):
            if await self._fs.exists(path):
                found.add(path)
        return found


@pytest.fixture(params=["async", "blocking"])
def blocking(request):
    return request.param == "blocking"


@pytest.fixture(params=[LangChain, DeepAgents])
def made(request, monkeypatch):
    @contextlib.asynccontextmanager
    async def made():
        async with workspace() as (fs, tools):
            await fs.make_dir(".git/hooks", parents=True)
            framework = request.param(fs, tools)
            before = asyncio.all_tasks()
            yield fs, framework, Order(framework.attempting, monkeypatch)
            await settled(before)

    return made


async def settled(before):
    """Wait for calls that the framework has let go of: one interrupts, and the others go on."""
    if left := asyncio.all_tasks() - before:
        await asyncio.wait(left, timeout=120)


def paths(asked):
    return [each["paths"][0] for each in asked]


async def test_a_yes_to_one_question_is_none_to_another(made, blocking):
    async with made() as (fs, framework, order):
        run = Conversation(fs, framework, blocking, HARMLESS, EVIL)
        async with order.beginning(HARMLESS, all_of=(HARMLESS, EVIL)):
            assert paths(await run.say(run.begin)) == [HARMLESS]
        for first in (EVIL, HARMLESS, EVIL):
            async with order.beginning(first, all_of=(HARMLESS, EVIL)):
                [asked] = await run.say(Command(resume=True))
            assert await run.written() == set(), "two are open, and it does not say to which"
            assert "binding" in asked["hint"]


async def test_with_its_binding_an_answer_finds_its_question(made, blocking):
    async with made() as (fs, framework, order):
        run = Conversation(fs, framework, blocking, HARMLESS, EVIL)
        async with order.beginning(HARMLESS, all_of=(HARMLESS, EVIL)):
            asked = await run.say(run.begin)
        agreed = set()
        for first in (EVIL, HARMLESS) * 4:
            if not asked:
                break
            agreed.add(asked[0]["paths"][0])
            word = {"approved": True, "binding": asked[0]["binding"]}
            async with order.beginning(first):
                asked = await run.say(Command(resume=word))
            assert await run.written() <= agreed
        assert asked == []
        assert await run.written() == {HARMLESS, EVIL}


async def test_a_no_is_one_to_all_that_were_open(made, blocking):
    async with made() as (fs, framework, order):
        run = Conversation(fs, framework, blocking, HARMLESS, EVIL)
        async with order.beginning(HARMLESS, all_of=(HARMLESS, EVIL)):
            await run.say(run.begin)
        async with order.beginning(EVIL):
            assert await run.say(Command(resume=False)) == []
        assert await run.written() == set()


@pytest.mark.parametrize("bound", [True, False])
async def test_what_asks_first_takes_no_answer_from_the_one_that_was_shown(made, bound):
    """It had not asked yet when the other was shown, alone."""
    async with made() as (fs, framework, order):
        run = Conversation(fs, framework, False, HARMLESS, EVIL)
        late = order.held[EVIL] = asyncio.Event()
        async with order.beginning(HARMLESS):
            [asked] = await run.say(run.begin)
        assert asked["paths"] == [HARMLESS]
        assert "hint" not in asked
        del order.held[EVIL]
        word = {"approved": True, "binding": asked["binding"]} if bound else True
        async with order.beginning(EVIL, all_of=(HARMLESS, EVIL)):
            assert paths(await run.say(Command(resume=word))) == [EVIL]
        late.set()
        await settled({asyncio.current_task()})
        assert await run.written() == {HARMLESS}


async def test_a_yes_to_somebody_else_s_question_is_none_to_ours(made):
    async with made() as (fs, framework, order):

        def other() -> str:
            """Ask about something else, after ours."""
            asyncio.run(until(lambda: HARMLESS in order.asked))
            return str(interrupt({"paths": ["else"]}))

        asks = StructuredTool.from_function(other)
        run = Conversation(fs, framework, True, HARMLESS, more=(asks,))
        async with order.beginning(HARMLESS):
            assert paths(await run.say(run.begin)) == ["else"], "ours asked, and was not shown"
        async with order.beginning(HARMLESS):
            assert len(await run.say(Command(resume=True))) == 1
        assert await run.written() == set()


def node(work):
    """A graph of one step that does this."""
    graph = StateGraph(MessagesState)
    graph.add_node("step", work)
    graph.add_edge(START, "step")
    graph.add_edge("step", END)
    return graph


async def test_one_question_after_the_other_in_one_step_needs_no_binding(made):
    """Each was the only one that was open when it was shown."""
    async with made() as (fs, framework, order):

        async def one_by_one(state):
            for path in (HARMLESS, EVIL):
                if not await fs.exists(path):
                    order.first = path
                    await framework.tool.ainvoke(framework.writing(path)[1])
            return {}

        agent = node(one_by_one).compile(checkpointer=InMemorySaver())
        state = await agent.ainvoke({"messages": []}, THREAD)
        for expected in (HARMLESS, EVIL):
            [asked] = state["__interrupt__"]
            assert asked.value["paths"] == [expected]
            state = await agent.ainvoke(Command(resume=True), THREAD)
        assert await fs.exists(HARMLESS)
        assert await fs.exists(EVIL)


@pytest.mark.parametrize("word", [True, False])
@pytest.mark.parametrize("other", ["blue", True, False])
async def test_what_others_ask_before_and_after_is_theirs(made, other, word):
    async with made() as (fs, framework, order):
        heard = []

        async def mixed(state):
            before = interrupt("which colour?")
            if not await fs.exists(HARMLESS):
                order.first = HARMLESS
                await framework.tool.ainvoke(framework.writing(HARMLESS)[1])
            heard.append((before, interrupt("which shape?")))
            return {}

        agent = node(mixed).compile(checkpointer=InMemorySaver())
        await agent.ainvoke({"messages": []}, THREAD)
        [ours] = (await agent.ainvoke(Command(resume=other), THREAD))["__interrupt__"]
        assert ours.value["paths"] == [HARMLESS], "it is asked, whatever was said to the others"
        assert await run_to_its_end(agent, word)
        assert await fs.exists(HARMLESS) is word
        assert heard == [(other, "round")] or word


async def run_to_its_end(agent, word):
    """Answer ours, and then the other one that comes after it."""
    [after] = (await agent.ainvoke(Command(resume=word), THREAD))["__interrupt__"]
    assert after.value == "which shape?"
    return "__interrupt__" not in await agent.ainvoke(Command(resume="round"), THREAD)


@pytest.mark.parametrize("kind", [LangChain, DeepAgents])
async def test_a_mere_no_is_one_in_another_process_too(kind):
    async with workspace() as (fs, tools):
        await fs.make_dir(".git")
        saver = InMemorySaver()
        for given in ({"messages": []}, Command(resume=False)):
            framework = kind(fs, tools)  # which remembers nothing

            async def write(state, framework=framework):
                await framework.tool.ainvoke(framework.writing(HARMLESS)[1])
                return {}

            state = await node(write).compile(checkpointer=saver).ainvoke(given, THREAD)
        assert "__interrupt__" not in state
        assert not await fs.exists(HARMLESS)


async def test_one_yes_is_for_one_of_two_equal_calls(made, blocking):
    async with made() as (fs, framework, order):
        run = Conversation(fs, framework, blocking, HARMLESS, HARMLESS)
        order.first = HARMLESS
        [asked] = await run.say(run.begin)
        word = {"approved": True, "binding": asked["binding"]}
        assert paths(await run.say(Command(resume=word))) == [HARMLESS]
