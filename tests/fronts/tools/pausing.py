"""Agents that pause in one process and go on in another: `python -m tests.fronts.tools.pausing`
begins a run, and leaves what the framework keeps of it in a file, and what was shown in another.

Each framework is a class: `pause` begins, `resume` goes on from what `pause` left, with what the
person said. The run wants to write ``.git/config``, about which agents have to ask.
"""

import asyncio
import json
import pickle
import sys
from collections import defaultdict
from pathlib import Path

import bailiwick
from bailiwick.tools import tools

BEFORE, WANTED = "before\n", "agreed\n"
PATH = ".git/config"


def box_of(fs):
    """The tools, as one and the same agent in both processes."""
    return tools(fs, "notes", session="run-1")


class Framework:
    @classmethod
    async def forged(cls, kept, *more):
        """The same state, but for what is to be written."""
        assert WANTED.encode()[:-1] in kept
        return kept.replace(b"agreed", b"forged")


class OpenAIAgents(Framework):
    """The state of a run as JSON. It holds hashes of its calls, which whoever forges it computes
    anew: here the SDK does that for them, in a run that wants something else."""

    @classmethod
    async def forged(cls, kept, *more):
        async with bailiwick.open("memory:") as fs:
            await fs.write_text(PATH, BEFORE, parents=True)
            forged, _ = await cls.pause(fs, *(more or ("write",)), "forged\n")
        return forged

    @staticmethod
    def runner(fs, agreed, *turns):
        from bailiwick.fronts.tools.openai_agents import AgentTools
        from tests.fronts.tools.test_openai_agents import Scripted, agent

        kit, model = AgentTools(box_of(fs), agreed=agreed), Scripted(*turns)
        return kit, model, agent(model, [*kit.function_tools, kit.apply_patch_tool()])

    @classmethod
    async def pause(cls, fs, kind="write", wanted=WANTED):
        from agents import Runner

        from tests.fronts.tools.test_openai_agents import QUIET, call, patch

        asks = {
            "write": lambda: call("write_file", path=PATH, content=wanted),
            "patch": lambda: patch("update_file", PATH, f"@@\n-before\n+{wanted}", "c1"),
        }[kind]()
        kit, _, agent = cls.runner(fs, None, asks)
        result = await Runner.run(agent, "go", run_config=QUIET)
        [interruption] = result.interruptions
        shown = {interruption.call_id: kit.question(interruption).binding}
        return result.to_state().to_string().encode(), shown

    @classmethod
    async def resume(cls, fs, kept, shown, word):
        from agents import Runner, RunState

        from tests.fronts.tools.test_openai_agents import QUIET, say

        _, model, agent = cls.runner(fs, shown, say("done"))
        state = await RunState.from_string(agent, kept.decode())
        for interruption in state.get_interruptions():
            if word == "always":
                state.approve(interruption, always_approve=True)
            else:
                state.approve(interruption) if word else state.reject(interruption)
        await Runner.run(agent, state, run_config=QUIET)
        return str(model.outputs())


class PydanticAI(Framework):
    """The messages so far as JSON."""

    @staticmethod
    async def pause(fs):
        from tests.fronts.tools.test_pydantic_ai import Script, agent, call

        script = Script([call("write_file", path=PATH, content=WANTED)])
        first = await agent(script, box_of(fs)).run("go")
        return first.all_messages_json(), first.output.metadata

    @staticmethod
    async def resume(fs, kept, shown, word):
        from pydantic_ai import DeferredToolResults, ModelMessagesTypeAdapter, TextPart, ToolDenied

        from tests.fronts.tools.test_pydantic_ai import Script, agent

        script = Script([TextPart("done")])
        results = DeferredToolResults(
            approvals={"c1": True if word else ToolDenied("no")}, metadata=shown or {}
        )
        last = await agent(script, box_of(fs)).run(
            message_history=ModelMessagesTypeAdapter.validate_json(kept),
            deferred_tool_results=results,
        )
        return str(script.returns() if script.sent else last.output)


class LangGraph(Framework):
    """What a checkpointer keeps, as bytes."""

    @staticmethod
    def saver(kept=None):
        from langgraph.checkpoint.memory import InMemorySaver

        saver = InMemorySaver()
        if kept is not None:
            storage, writes, blobs = pickle.loads(kept)
            for thread, spaces in storage.items():
                for space, checkpoints in spaces.items():
                    saver.storage[thread][space].update(checkpoints)
            saver.writes.update(writes)
            saver.blobs.update(blobs)
        return saver

    @staticmethod
    def kept(saver):
        def plain(value):
            return (
                {k: plain(v) for k, v in value.items()} if isinstance(value, defaultdict) else value
            )

        return pickle.dumps((plain(saver.storage), plain(saver.writes), dict(saver.blobs)))

    @staticmethod
    def agent(fs, saver, *turns):
        from langchain.agents import create_agent

        from bailiwick.fronts.tools.langchain import langchain_tools
        from tests.fronts.tools.test_langchain import scripted

        return create_agent(scripted(*turns), langchain_tools(box_of(fs)), checkpointer=saver)

    @classmethod
    async def pause(cls, fs):
        from tests.fronts.tools.test_langchain import GO, THREAD, call, calling

        saver = cls.saver()
        agent = cls.agent(fs, saver, calling(call("write_file", path=PATH, content=WANTED)))
        [paused] = (await agent.ainvoke(GO, THREAD))["__interrupt__"]
        return cls.kept(saver), {"binding": paused.value["binding"]}

    @classmethod
    async def resume(cls, fs, kept, shown, word):
        from langchain_core.messages import AIMessage
        from langgraph.types import Command

        from tests.fronts.tools.test_langchain import THREAD, replies

        agent = cls.agent(fs, cls.saver(kept), AIMessage(content="done"))
        answer = {"approved": word, **shown} if shown else word
        state = await agent.ainvoke(Command(resume=answer), THREAD)
        if "__interrupt__" in state:
            return f"asked again: {state['__interrupt__'][0].value['diff']}"
        return str(replies(state))


class DeepAgents(LangGraph):
    """The same, with the framework's own file tools."""

    @staticmethod
    def agent(fs, saver, *turns):
        from deepagents import create_deep_agent

        from bailiwick.fronts.tools.deepagents import BailiwickBackend
        from tests.fronts.tools.test_langchain import scripted

        backend = BailiwickBackend(fs, session="run-1")
        return create_deep_agent(scripted(*turns), backend=backend, checkpointer=saver)

    @classmethod
    async def pause(cls, fs):
        from tests.fronts.tools.test_langchain import GO, THREAD, calling

        saver = cls.saver()
        given = {"file_path": f"/{PATH}", "content": WANTED}
        asks = calling({"name": "write_file", "args": given, "id": "c1"})
        [paused] = (await cls.agent(fs, saver, asks).ainvoke(GO, THREAD))["__interrupt__"]
        return cls.kept(saver), {"binding": paused.value["binding"]}


FRAMEWORKS = {each.__name__: each for each in (OpenAIAgents, PydanticAI, LangGraph, DeepAgents)}


async def _begin(framework, project, *more):
    async with bailiwick.open(project) as fs:
        kept, shown = await FRAMEWORKS[framework].pause(fs, *more)
    folder = Path(project).parent
    (folder / "kept").write_bytes(kept)
    (folder / "shown").write_text(json.dumps(shown))


if __name__ == "__main__":
    asyncio.run(_begin(*sys.argv[1:]))
