"""A LangChain agent that a rule interrupts, and that goes on with the person's answer.

Run it: ``python examples/langchain_agent.py``. The model follows a script.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import bailiwick
from bailiwick.fronts.tools.langchain import langchain_tools
from bailiwick.tools import tools


class Scripted(GenericFakeChatModel):
    """Says what it was told to, turn by turn."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        return self


def call(operation: str, **arguments: Any) -> AIMessage:
    name = f"workspace__notes__{operation}"
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": operation}])


async def main() -> None:
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1\n")
        box = tools(fs, name="notes")
        script = [
            call("write_file", path="a.md", content="# Notes\n"), call("read_file", path=".env"),
            AIMessage(content="Done."),
        ]  # fmt: skip
        agent = create_agent(
            Scripted(messages=iter(script)), langchain_tools(box),
            system_prompt=box.system_prompt, checkpointer=InMemorySaver(),
        )  # fmt: skip
        state: Any = await agent.ainvoke({"messages": [HumanMessage("Go.")]}, thread)
        for paused in state["__interrupt__"]:
            print(f"asked: {paused.value['prompt']}\nthe person says yes, to this")
            word = {"approved": True, "binding": paused.value["binding"]}
            state = await agent.ainvoke(Command(resume=word), thread)
        for message in state["messages"][1:]:
            print(f"{message.type}: {message.content or message.tool_calls}")


if __name__ == "__main__":
    asyncio.run(main())
