"""OpenAI's function tools, for an application that runs the loop itself.

Definitions are plain JSON; nothing here imports the `openai` package, whose objects are taken as
they come.

    response = await client.responses.create(..., tools=responses_tools(tools))
    done = await run_responses(tools, response.output)
"""

from __future__ import annotations

from typing import Any

from bailiwick.fronts.tools.rounds import Round, ToolCall, field, run_round
from bailiwick.toolbox import Toolbox, images_of, text_of


def responses_tools(tools: Toolbox) -> list[dict[str, Any]]:
    """The tools as the Responses API takes them."""
    return [
        {
            "type": "function", "name": tool.name, "description": tool.description,
            "parameters": tool.input_schema, "strict": False,
        }
        for tool in tools.tools
    ]  # fmt: skip


def chat_tools(tools: Toolbox) -> list[dict[str, Any]]:
    """The tools as the Chat Completions API takes them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name, "description": tool.description,
                "parameters": tool.input_schema,
            },
        }
        for tool in tools.tools
    ]  # fmt: skip


async def run_responses(tools: Toolbox, output: Any) -> Round:
    """Make the function calls in the output of a response; ``outputs`` are input items."""
    calls = [
        ToolCall(field(item, "call_id"), field(item, "name"), field(item, "arguments"))
        for item in output
        if field(item, "type") == "function_call"
    ]
    return await run_round(
        tools,
        calls,
        lambda call, answer: {
            "type": "function_call_output", "call_id": call.id, "output": _output(answer),
        },
    )  # fmt: skip


def _output(answer: dict[str, Any]) -> str | list[dict[str, Any]]:
    """An answer as the Responses API takes it: a text, or with pictures a list."""
    text, images = text_of(answer), images_of(answer)
    if not images:
        return text
    shown = [{"type": "input_image", "image_url": each.data_url} for each in images]
    return [{"type": "input_text", "text": text}, *shown]


async def run_chat(tools: Toolbox, message: Any) -> Round:
    """Make the tool calls of an assistant's message; ``outputs`` are messages. That API takes text
    alone from a tool, so that of a picture the model gets size, type and hash."""
    calls = [
        ToolCall(
            field(item, "id"),
            field(field(item, "function"), "name"),
            field(field(item, "function"), "arguments"),
        )
        for item in field(message, "tool_calls") or ()
        if field(item, "type") == "function"
    ]
    return await run_round(
        tools,
        calls,
        lambda call, answer: {
            "role": "tool", "tool_call_id": call.id, "content": text_of(answer),
        },
    )  # fmt: skip
