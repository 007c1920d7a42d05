"""A pydantic-ai agent whose call is deferred by a rule, approved, and made.

Run it: ``python examples/pydantic_ai_agent.py``. The model follows a script.
"""

import asyncio
from typing import Any

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import bailiwick
from bailiwick.fronts.tools.pydantic_ai import BailiwickToolset
from bailiwick.tools import tools


def call(operation: str, **arguments: Any) -> ModelResponse:
    part = ToolCallPart(f"workspace__notes__{operation}", arguments, tool_call_id=operation)
    return ModelResponse(parts=[part])


SCRIPT = [
    call("write_file", path="a.md", content="# Notes\n"),
    call("read_file", path=".env"),
    ModelResponse(parts=[TextPart("Done.")]),
]


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return SCRIPT.pop(0)


async def main() -> None:
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1\n")
        toolset = BailiwickToolset(tools(fs, name="notes"))
        agent = Agent(
            FunctionModel(scripted), toolsets=[toolset], output_type=[str, DeferredToolRequests]
        )
        result = await agent.run("Go.")
        while isinstance(result.output, DeferredToolRequests):
            requests = result.output
            for shown in requests.metadata.values():
                print(f"asked: {shown['prompt']}\nthe person says yes, to this")
            answers = DeferredToolResults(
                approvals={each.tool_call_id: True for each in requests.approvals},
                metadata=requests.metadata,
            )
            result = await agent.run(
                message_history=result.all_messages(), deferred_tool_results=answers
            )
        print(result.output)
        print(result.all_messages()[-2].parts)


if __name__ == "__main__":
    asyncio.run(main())
