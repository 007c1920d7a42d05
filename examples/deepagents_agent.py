"""A deep agent whose files live in a scope: blocking code, with a pause.

Run it: ``python examples/deepagents_agent.py``. The model follows a script.
"""

from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import bailiwick
from bailiwick.fronts.tools.deepagents import BailiwickBackend


class Scripted(GenericFakeChatModel):
    """Says what it was told to, turn by turn."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        return self


def call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": name}])


def main() -> None:
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    script = [
        call("write_file", file_path="/src/a.py", content="x = 1\n"),
        call("edit_file", file_path="/src/a.py", old_string="1", new_string="2"),
        call("read_file", file_path="/src/a.py"),
        call("read_file", file_path="/.env"),
        call("write_file", file_path="/.git/hooks/pre-commit", content="exit 1\n"),
        AIMessage(content="Done."),
    ]
    with bailiwick.open_sync("memory:") as fs:
        fs.write_text(".env", "KEY=1\n")
        agent = create_deep_agent(
            Scripted(messages=iter(script)), backend=BailiwickBackend(fs),
            checkpointer=InMemorySaver(),
        )  # fmt: skip
        state: Any = agent.invoke({"messages": [HumanMessage("Go.")]}, thread)
        while paused := state.get("__interrupt__"):
            shown = paused[0].value
            agreed = shown["operation"] == "read"  # a person who lets things be read
            print(f"asked: {shown['prompt']}\nthe person says {'yes' if agreed else 'no'}")
            word = {"approved": agreed, "binding": shown["binding"]}
            state = agent.invoke(Command(resume=word), thread)
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                print(f"{message.name}: {message.content}")
        print([str(path) for path in fs.files(include_ignored=True).paths])


if __name__ == "__main__":
    main()
