"""An agent of the OpenAI Agents SDK whose run is interrupted by a rule, approved, and resumed.

Run it: ``python examples/openai_agents_agent.py``. The model follows a script.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import bailiwick
from bailiwick.fronts.tools.openai_agents import AgentTools
from bailiwick.tools import tools


def call(call_id: str, operation: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=f"workspace__notes__{operation}",
        arguments=json.dumps(arguments),
    )  # fmt: skip


class Scripted(Model):
    """Says what it was told to, turn by turn."""

    def __init__(self) -> None:
        text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        self.turns: list[Any] = [
            call("1", "write_file", path="a.py", content="x = 1\n"),
            call("2", "write_file", path=".git/config", content="[core]\n\tbare = false\n"),
            ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            ),
        ]

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(output=[self.turns.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def main() -> None:
    quiet = RunConfig(tracing_disabled=True)
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".git/config", "[core]\n\tbare = true\n", parents=True)
        box = tools(fs, name="notes")
        kit = AgentTools(box)
        agent = Agent(
            name="coder", instructions=box.system_prompt, model=Scripted(),
            tools=kit.function_tools,
        )  # fmt: skip
        result = await Runner.run(agent, "Set it up.", run_config=quiet)
        while result.interruptions:
            state = result.to_state()
            for interruption in result.interruptions:
                question = kit.question(interruption)
                assert question is not None
                print(f"asked: {question.prompt}\n{question.shown()['diff']}the person says yes")
                state.approve(interruption)
            result = await Runner.run(agent, state, run_config=quiet)
        print(result.final_output)
        print((await fs.read_text(".git/config")).text)


if __name__ == "__main__":
    asyncio.run(main())
