"""OpenAI's own client, with a service that follows a script."""

import json

import openai
import pytest

from bailiwick.fronts.tools import openai as front
from tests.fronts.tools.support import answer, http_library, inner, name, workspace

http = http_library(openai.DefaultHttpxClient)


class Service:
    """Answers requests with the turns of a script and keeps what it was sent."""

    def __init__(self, render, *turns):
        self.render = render
        self.turns = list(turns)
        self.sent = []

    def __call__(self, request):
        self.sent.append(json.loads(request.content))
        return http.Response(200, json=self.render(self.turns.pop(0)))

    def client(self):
        transport = http.MockTransport(self)
        return openai.AsyncOpenAI(
            api_key="x", http_client=openai.DefaultAsyncHttpxClient(transport=transport)
        )


def chat(message):
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [
            {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
        ],
    }  # fmt: skip


def response(output):
    return {
        "id": "r", "object": "response", "created_at": 0, "model": "scripted", "output": output,
        "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "status": "completed",
    }  # fmt: skip


def chat_call(operation, call_id, **arguments):
    function = {"name": name(operation), "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def call(operation, call_id, **arguments):
    return {
        "type": "function_call", "id": f"f{call_id}", "call_id": call_id, "name": name(operation),
        "arguments": json.dumps(arguments), "status": "completed",
    }  # fmt: skip


@pytest.mark.spec("TOOL-1", "TOOL-5")
async def test_chat_completions():
    async with workspace() as (fs, tools):
        service = Service(
            chat,
            {
                "content": None,
                "tool_calls": [chat_call("write_file", "1", path="a", content="x\n")],
            },
            {"content": None, "tool_calls": [chat_call("read_file", "2", path="a")]},
            {"content": "done"},
        )
        messages = [{"role": "system", "content": tools.system_prompt}]
        async with service.client() as client:
            while True:
                got = await client.chat.completions.create(
                    model="scripted", messages=messages, tools=front.chat_tools(tools)
                )
                message = got.choices[0].message
                done = await front.run_chat(tools, message)
                if not done.outputs:
                    break
                messages += [message.to_dict(), *done.outputs]
        assert message.content == "done"
        assert inner(answer(service.sent[-1]["messages"][-1]["content"])["text"]) == "x\n"
        assert (await fs.read_text("a")).text == "x\n"


@pytest.mark.spec("TOOL-1", "TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_responses_with_a_call_that_waits_for_a_person(agreed):
    async with workspace() as (fs, tools):
        await fs.write_text(".env", "KEY=1\n")
        text = {"type": "output_text", "text": "done", "annotations": []}
        message = {
            "type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [text],
        }  # fmt: skip
        service = Service(
            response, [call("ls", "1"), call("read_file", "2", path=".env")], [message]
        )
        async with service.client() as client:
            got = await client.responses.create(
                model="scripted", input="go", tools=front.responses_tools(tools)
            )
            done = await front.run_responses(tools, got.output)
            assert [item["call_id"] for item in done.outputs] == ["1"]
            [waiting] = done.pending
            assert ".env" in waiting.pending.prompt
            outputs = [*done.outputs, await waiting.resume(allowed=agreed)]
            got = await client.responses.create(
                model="scripted", input=[*got.output, *outputs], tools=front.responses_tools(tools)
            )
        assert got.output_text == "done"
        sent = answer(service.sent[-1]["input"][-1]["output"])
        assert ("text" in sent) is agreed
        assert agreed or sent["errorKind"] == "approval_denied"
