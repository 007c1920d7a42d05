"""Clients of the MCP front: a raw one, which says whatever it likes, and the official ones."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from bailiwick.fronts.http.application import Application
from bailiwick.fronts.http.mounted import mounts_of
from bailiwick.fronts.http.settings import ServerSettings
from bailiwick.fronts.http.transport.server import Server, configure
from bailiwick.fronts.http.transport.sockets import bind
from bailiwick.grant import User
from tests.fronts.trust import trusted

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def command(*arguments):
    return [sys.executable, "-m", "bailiwick", "mcp", *map(str, arguments)]


class RawClient:
    """Speaks with a server line by line. Used by ``with``; the server has ended afterwards."""

    def __init__(self, *arguments, state=None):
        self._command = command(*arguments, *(() if state is None else ("--state", state)))
        self._count = 0

    def __enter__(self):
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return self

    def __exit__(self, *raised):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.code = self.process.wait(120)
        finally:
            self.process.kill()
        self.process.stdout.close()
        self.errors = self.process.stderr.read().decode()
        self.process.stderr.close()

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server has ended: {self.process.stderr.read().decode()}")
        return json.loads(line)

    def request(self, method, params=None, *, request_id=None):
        self._count += 1
        asked = {"jsonrpc": "2.0", "id": request_id or self._count, "method": method}
        self.send({**asked, **({} if params is None else {"params": params})})
        while True:
            answer = self.receive()
            if answer.get("id") == asked["id"]:
                return answer

    def handshake(self, **capabilities):
        self.request("initialize", {**HANDSHAKE, "capabilities": capabilities})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def tool(self, name, **arguments):
        return self.request("tools/call", {"name": name, "arguments": arguments})["result"]


@contextlib.asynccontextmanager
async def over_stdio(*arguments, state, mode="auto", structured=True, **handlers):
    """The official client, speaking with a server of its own."""
    form = ("--structured",) if structured else ()
    program, *rest = command(*arguments, *form, "--state", state)
    parameters = StdioServerParameters(command=program, args=rest, env=dict(os.environ))
    async with Client(stdio_client(parameters), mode=mode, **handlers) as client:
        yield client


@contextlib.asynccontextmanager
async def served(authority, *, mounts=None, **settings):
    """A server with `/mcp` in this process, or with something else there; its address."""
    chosen = ServerSettings(**settings)
    mounts = mounts or mounts_of(authority, workers=chosen.workers)
    app = Application(authority, chosen, mounts)
    listener, ready = bind("127.0.0.1", 0), asyncio.Event()
    server = Server(configure(app), app)
    server.on_start(ready.set)
    running = asyncio.create_task(server.serve([listener]))
    await ready.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop()
        await running
        listener.close()
        await _end_watcher()


async def _end_watcher():
    """End what the SDK's event streams leave on the loop: a library of theirs starts it once, to
    look for the end of the process."""
    for task in asyncio.all_tasks():
        if task.get_coro().__qualname__ == "_shutdown_watcher":
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def token_for(authority, subject, name="test"):
    return await authority.tokens.issue(name, str(subject), by=User("local"), front="test")


@contextlib.asynccontextmanager
async def over_http(url, secret, mode="auto", structured=True, **handlers):
    """The official client, speaking with a server that is there."""
    shown = {} if secret is None else {"authorization": f"Bearer {secret}"}
    async with (
        httpx2.AsyncClient(headers=shown, timeout=120, verify=trusted()) as http,
        Client(
            streamable_http_client(
                f"{url}/mcp{'?structured=true' if structured else ''}", http_client=http
            ),
            mode=mode,
            **handlers,
        ) as client,
    ):
        yield client


def told(result):
    """The structured answer of a tool, or that it failed, as the model is told."""
    return json.loads(result.content[0].text) if result.is_error else result.structured_content


def inner(text):
    """What stands between the tags."""
    return text.partition(">\n")[2].rpartition("\n</")[0]
