"""The Claude Agent SDK, the real package: server, options, permission callback and hook, each by
itself, a whole session of its program with a scripted model on this machine, and the program of
docs/claude-agent.md in a directory of its own.

A program of its own, run by ``make clients`` in an environment that has the SDK.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from claude_agent_sdk import (
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    ToolPermissionContext,
)
from mcp import Client

import bailiwick
from bailiwick.errors import ParseError
from bailiwick.fronts.tools.claude_agent import BUILT_IN, ClaudeWorkspace
from bailiwick.tools import tools

READ = "mcp__workspace__workspace__notes__read_file"
WRITE = "mcp__workspace__workspace__notes__write_file"


class Person:
    def __init__(self, agrees):
        self.agrees = agrees
        self.asked = []

    async def __call__(self, pending):
        self.asked.append(pending.prompt)
        return self.agrees


async def the_parts(fs):
    """Server, callback and hook, without the program."""
    await fs.write_text(".env", "KEY=1\n")
    await fs.write_text("a", "one\n")
    for agrees in (False, True):
        person = Person(agrees)
        workspace = ClaudeWorkspace(tools(fs, "notes"), ask=person)
        context = ToolPermissionContext(tool_use_id="t1")
        async with Client(workspace.server["instance"]) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert "workspace__notes__read_file" in listed
            assert isinstance(
                await workspace.can_use_tool(READ, {"path": "a"}, context), PermissionResultAllow
            )
            read = await client.call_tool("workspace__notes__read_file", {"path": "a"})
            assert "one\n" in read.content[0].text
            assert person.asked == []
            # Past the callback nothing is done that a person has to agree to.
            unasked = await client.call_tool("workspace__notes__read_file", {"path": ".env"})
            assert unasked.is_error
            assert "approval_pending" in unasked.content[0].text
            said = await workspace.can_use_tool(READ, {"path": ".env"}, context)
            kind = PermissionResultAllow if agrees else PermissionResultDeny
            assert isinstance(said, kind)
            assert len(person.asked) == 1
            answer = await client.call_tool("workspace__notes__read_file", {"path": ".env"})
            assert ("KEY=1" in answer.content[0].text) is agrees
            again = await client.call_tool("workspace__notes__read_file", {"path": ".env"})
            assert "KEY=1" not in again.content[0].text, "a yes is for one call"
        for name in (*BUILT_IN, "WebFetch", "mcp__other__x", "SomethingNew"):
            refused = await workspace.refuse_others({"tool_name": name}, "t2", {"signal": None})
            assert refused["hookSpecificOutput"]["permissionDecision"] == "deny"
            assert isinstance(await workspace.can_use_tool(name, {}, context), PermissionResultDeny)
        assert await workspace.refuse_others({"tool_name": READ}, "t3", {"signal": None}) == {}
    options = ClaudeWorkspace(tools(fs, "notes"), also=["WebSearch"]).options(model="m")
    assert set(BUILT_IN) <= set(options.disallowed_tools)
    assert options.tools == ["WebSearch"]
    for wrong in ({"permission_mode": "bypassPermissions"}, {"tools": ["Bash"]}):
        try:
            ClaudeWorkspace(tools(fs, "notes")).options(**wrong)
        except ParseError:
            continue
        raise AssertionError(wrong)


class Model(BaseHTTPRequestHandler):
    """Says what the script says next, as a stream of the Messages API."""

    script: list = []
    seen: list = []

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self._plain({"input_tokens": 1})
        if not body.get("tools"):
            block = {"type": "text", "text": "ok"}
        else:
            type(self).seen.append(body)
            block = self.script.pop(0) if self.script else {"type": "text", "text": "done"}
        why = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
            "content": [block], "stop_reason": why, "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        if not body.get("stream"):
            return self._plain(message)
        return self._stream(message, block, why)

    def _plain(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, message, block, why):
        empty = {**block, **({"input": {}} if why == "tool_use" else {"text": ""})}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if why == "tool_use"
            else {"type": "text_delta", "text": block["text"]}
        )
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in (
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None},
             "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ):  # fmt: skip
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def use(number, name, **given):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}


def results(seen):
    """What the model was told of each call."""
    told = {}
    for body in seen:
        for message in body["messages"]:
            if isinstance(message["content"], list):
                for block in message["content"]:
                    if block.get("type") == "tool_result":
                        told[block["tool_use_id"]] = json.dumps(block["content"])
    return told


@contextmanager
def saying(script, place):
    """A model that says these things, as variables for the program that asks it."""
    Model.script, Model.seen = script, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": "scripted", "HOME": place, "CLAUDE_CONFIG_DIR": place,
            "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()


async def a_session(fs, place):
    """The program itself, which asks a model that is none."""
    secret = Path(place) / "secret"
    secret.write_text("SECRET")
    script = [
        use(1, WRITE, path="b", content="written\n"),
        use(2, READ, path=".env"),
        use(3, "Read", file_path=str(secret)),
        use(4, "Bash", command=f"cat {secret}"),
    ]
    person = Person(True)
    workspace = ClaudeWorkspace(tools(fs, "notes"), ask=person)
    with saying(script, place) as variables:
        options = workspace.options(
            model="claude-sonnet-4-5", cwd=place, max_turns=8, env=variables
        )
        async with asyncio.timeout(120), ClaudeSDKClient(options) as client:
            await client.query("go")
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    assert not message.is_error, message
    offered = {tool["name"] for tool in Model.seen[0]["tools"]}
    assert READ in offered
    assert not offered & set(BUILT_IN), offered
    told = results(Model.seen)
    assert (await fs.read_text("b")).text == "written\n"
    assert len(person.asked) == 1
    assert "KEY=1" in told["toolu_2"]
    assert {"toolu_3", "toolu_4"} <= told.keys()
    assert "SECRET" not in json.dumps(told)


def the_page(place):
    """What the documentation shows, pasted: a person is asked about one file, and agrees."""
    text = (Path(__file__).parents[2] / "docs" / "claude-agent.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    project = Path(place) / "project"
    project.mkdir()
    (project / "a.txt").write_text("hello\n")
    (project / ".env").write_text("KEY=1\n")
    with saying([use(1, READ, path="a.txt"), use(2, READ, path=".env")], place) as variables:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=place, input="y\n", text=True, timeout=120,
            env={"PATH": os.environ["PATH"], **variables},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "[y/n]" in done.stdout, done.stdout
    told = results(Model.seen)
    assert "hello" in told["toolu_1"]
    assert "KEY=1" in told["toolu_2"]


async def main():
    async with bailiwick.open("memory:") as fs:
        await the_parts(fs)
        print("the server, options, permission callback and hook of the real package")
    # The program is started with nothing of this process's environment.
    for name in [each for each in os.environ if each.startswith(("ANTHROPIC", "CLAUDE"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as place:
        async with bailiwick.open("memory:") as fs:
            await fs.write_text(".env", "KEY=1\n")
            await a_session(fs, place)
    print("a whole session: an approval asked and granted, Read and Bash refused")
    with tempfile.TemporaryDirectory() as place:
        await asyncio.to_thread(the_page, place)
    print("the program of the page: an approval asked and granted")


if __name__ == "__main__":
    asyncio.run(main())
