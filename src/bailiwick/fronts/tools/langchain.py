"""LangChain tools. In a LangGraph agent a rule that asks interrupts the graph; elsewhere the model
is told that a person has to agree first."""

from __future__ import annotations

from typing import Any

from bailiwick.fronts.tools.extras import extra
from bailiwick.fronts.tools.graph_interrupts import GraphAsker
from bailiwick.toolbox import Pending, Tool, Toolbox, images_of, text_of

with extra("langchain"):
    from langchain_core.tools import BaseTool, StructuredTool


def langchain_tools(tools: Toolbox) -> list[BaseTool]:
    """The tools of a workspace, for ``create_agent(tools=…)`` or ``model.bind_tools``.

    They work with ``invoke`` and ``ainvoke``; a blocking call needs a scope of
    `bailiwick.open_sync`, or a thread that is not the scope's own loop.
    """
    asker = GraphAsker()
    return [_langchain_tool(tools, tool, asker) for tool in tools.tools]


def _langchain_tool(tools: Toolbox, tool: Tool, asker: GraphAsker) -> BaseTool:
    async def run(**arguments: Any) -> Any:
        answer = await tools.attempt(tool.name, arguments)
        if isinstance(answer, Pending):
            word = asker.ask(answer)
            if word is None:
                return text_of(answer.answer())
            answer = await tools.resume(
                tool.name, arguments, allowed=word.allowed, binding=word.binding
            )
        return _content(answer)

    def run_blocking(**arguments: Any) -> Any:
        answer = tools.attempt_blocking(tool.name, arguments)
        if isinstance(answer, Pending):
            word = asker.ask(answer)
            if word is None:
                return text_of(answer.answer())
            answer = tools.resume_blocking(
                tool.name, arguments, allowed=word.allowed, binding=word.binding
            )
        return _content(answer)

    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.input_schema,
        func=run_blocking, coroutine=run,
        metadata={
            "readOnly": tool.read_only, "destructive": tool.destructive,
            "idempotent": tool.idempotent, "parallelSafe": tool.parallel_safe,
        },
    )  # fmt: skip


def _content(answer: dict[str, Any]) -> str | list[str | dict[str, Any]]:
    """An answer as a message holds it: a text, or with pictures a list of blocks."""
    text, images = text_of(answer), images_of(answer)
    if not images:
        return text
    shown = [
        {"type": "image", "base64": each.base64, "mime_type": each.mime_type} for each in images
    ]
    return [{"type": "text", "text": text}, *shown]
