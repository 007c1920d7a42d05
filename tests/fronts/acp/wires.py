"""A relay with both ends in the hands of a test, as bytes."""

import asyncio
import contextlib
import json
import socket

import bailiwick
from bailiwick.fronts.acp.extension import CALLS, Served
from bailiwick.fronts.acp.files import FileCalls
from bailiwick.fronts.acp.places import Places
from bailiwick.fronts.acp.relay import Relay
from bailiwick.fronts.acp.terminals import Terminals

SECONDS_MAX = 20
SERVES = Served(read=True, write=True, more=list(CALLS))


class End:
    """One end of the relay: what it says, and what it hears."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def say(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self):
        """The next line, as it came."""
        async with asyncio.timeout(SECONDS_MAX):
            return await self.reader.readline()

    async def hear_json(self):
        return json.loads(await self.hear())

    async def request(self, method, params, request=1):
        """Say a request; the answer to it."""
        asked = {"jsonrpc": "2.0", "id": request, "method": method, "params": params}
        await self.say(json.dumps(asked).encode() + b"\n")
        return await self.hear_json()

    async def hears_nothing(self):
        """Whether nothing is on its way: asked after something else has arrived."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                return (await self.reader.read(1)) == b""
        return True


async def _pair(limit):
    one, other = socket.socketpair()
    mine = await asyncio.open_connection(sock=one, limit=limit)
    theirs = await asyncio.open_connection(sock=other, limit=limit)
    return End(*mine), theirs


class Wires:
    def __init__(self, relay, editor, agent, said, scope):
        self.relay = relay
        self.editor = editor
        self.agent = agent
        self.said = said
        self.scope = scope

    async def read(self, path, **more):
        return await self.agent.request(
            "fs/read_text_file", {"sessionId": "s", "path": path, **more}
        )

    async def write(self, path, content):
        return await self.agent.request(
            "fs/write_text_file", {"sessionId": "s", "path": path, "content": content}
        )


@contextlib.asynccontextmanager
async def wires(scope=None, *, limit=80 * 1024 * 1024, serves=SERVES, terminals=False):
    """A relay over a scope, by default in memory."""
    async with contextlib.AsyncExitStack() as stack:
        scope = scope or await stack.enter_async_context(bailiwick.open("memory:"))
        editor, editors = await _pair(limit)
        agent, agents = await _pair(limit)
        places = Places(scope.root.mount_point, None)
        files = FileCalls(
            scope, session="test", place_of=places.place_of, shown=places.shown,
            passes_execute=terminals,
        )  # fmt: skip
        said = []
        relay = Relay(
            editor=editors, agent=agents, files=files, places=places, serves=serves,
            say=said.append, terminals=Terminals(files) if terminals else None,
        )  # fmt: skip
        going = [
            asyncio.create_task(relay.editor_to_agent()),
            asyncio.create_task(relay.agent_to_editor()),
        ]
        try:
            yield Wires(relay, editor, agent, said, scope)
        finally:
            for task in going:
                task.cancel()
            await asyncio.wait(going)
            await relay.aclose()
            await files.aclose()
            for writer in (editor.writer, agent.writer, editors[1], agents[1]):
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
