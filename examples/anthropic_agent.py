"""Anthropic's tool runner with the text editor tool, the memory tool and the file tools.

Run it: ``python examples/anthropic_agent.py``. The client is Anthropic's own; the service behind it
follows a script, so nothing is sent anywhere.
"""

import asyncio
from typing import Any

import anthropic
import httpx2

import bailiwick
from bailiwick.fronts.tools.anthropic import MemoryTool, TextEditor, runnable_tools
from bailiwick.tools import tools


def use(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": "t", "name": name, "input": arguments}]


EDITOR = "str_replace_based_edit_tool"
SCRIPT: list[list[dict[str, Any]]] = [
    use("memory", command="create", path="/memories/style.md", file_text="Short sentences.\n"),
    use(EDITOR, command="create", path="/src/a.py", file_text="x = 1\n"),
    use(EDITOR, command="str_replace", path="/src/a.py", old_str="1", new_str="2"),
    use(EDITOR, command="view", path="/src/a.py"),
    use("workspace__code__read_file", path=".env"),
    use(EDITOR, command="create", path="/.git/hooks/pre-commit", file_text="exit 1\n"),
    [{"type": "text", "text": "Done."}],
]


def service(request: httpx2.Request) -> httpx2.Response:
    content = SCRIPT.pop(0)
    answer = {
        "id": "m", "type": "message", "role": "assistant", "model": "scripted",
        "content": content, "stop_sequence": None,
        "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return httpx2.Response(200, json=answer)


async def person(approval: bailiwick.Approval) -> bailiwick.Answer:
    """Lets things be read that are asked about, and nothing be written."""
    asked = approval.question
    answer: bailiwick.Answer = "once" if asked.operation == "read" else "no"
    print(f"asked: {asked.prompt} ({asked.target})\nthe person says {answer}")
    return answer


async def main() -> None:
    transport = httpx2.MockTransport(service)
    client = anthropic.AsyncAnthropic(
        api_key="none", http_client=anthropic.DefaultAsyncHttpxClient(transport=transport)
    )
    async with bailiwick.open("memory:") as code, bailiwick.open("memory:") as memory, client:
        await code.write_text(".env", "KEY=1\n")
        box = tools(code, name="code")
        runner = client.beta.messages.tool_runner(
            model="scripted", max_tokens=1000, system=box.system_prompt,
            messages=[{"role": "user", "content": "Go."}],
            tools=[
                *runnable_tools(box, asker=person),
                TextEditor(box, asker=person),
                MemoryTool(tools(memory, name="memory")),
            ],
        )  # fmt: skip
        async for message in runner:
            results = await runner.generate_tool_call_response()
            for block in results["content"] if results else message.content:
                print(block)


if __name__ == "__main__":
    asyncio.run(main())
