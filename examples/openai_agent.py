"""OpenAI's Responses API with the file tools, in a loop of one's own.

Run it: ``python examples/openai_agent.py``. The client is OpenAI's own; the service behind it
follows a script, so nothing is sent anywhere.
"""

import asyncio
import json
from typing import Any

import httpx2
import openai

import bailiwick
from bailiwick.fronts.tools.openai import responses_tools, run_responses
from bailiwick.tools import Pending, tools


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": name, "name": name, "arguments": json.dumps(arguments)}
    ]


SCRIPT: list[list[dict[str, Any]]] = [
    call("workspace__notes__write_file", path="plan.md", content="1. read\n2. write\n"),
    call("workspace__notes__read_file", path="plan.md"),
    call("workspace__notes__read_file", path=".env"),
    call("workspace__notes__write_file", path=".git/hooks/pre-commit", content="exit 1\n"),
    [
        {
            "type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "The plan stands.", "annotations": []}],
        }
    ],
]  # fmt: skip


def service(request: httpx2.Request) -> httpx2.Response:
    answer = {
        "id": "r", "object": "response", "created_at": 0, "model": "scripted",
        "output": SCRIPT.pop(0), "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    return httpx2.Response(200, json=answer)


def agrees(pending: Pending) -> bool:
    """A person who lets things be read that are asked about, and nothing be written."""
    agreed = pending.question.operation == "read"
    print(f"asked: {pending.prompt}\nthe person says {'yes' if agreed else 'no'}")
    return agreed


async def main() -> None:
    transport = httpx2.MockTransport(service)
    client = openai.AsyncOpenAI(
        api_key="none", http_client=openai.DefaultAsyncHttpxClient(transport=transport)
    )
    async with bailiwick.open("memory:") as fs, client:
        await fs.write_text(".env", "KEY=1\n")
        box = tools(fs, name="notes")
        conversation: list[Any] = [{"role": "user", "content": "Write a plan."}]
        while True:
            response = await client.responses.create(
                model="scripted", instructions=box.system_prompt, input=conversation,
                tools=responses_tools(box),  # type: ignore[arg-type]
            )  # fmt: skip
            done = await run_responses(box, response.output)
            for waiting in done.pending:
                done.outputs.append(await waiting.resume(allowed=agrees(waiting.pending)))
            if not done.outputs:
                break
            for output in done.outputs:
                print(output["call_id"], output["output"])
            conversation += [*response.output, *done.outputs]
        print(response.output_text)


if __name__ == "__main__":
    asyncio.run(main())
