"""`/mcp` of a server with several processes: a client never notices which of them answers."""

import contextlib
import json
import os
import subprocess
import sys

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from mcp_types.version import LATEST_MODERN_VERSION

from tests.fronts.mcp.clients import told
from tests.fronts.trust import trusted
from tests.processes import in_a_group
from tests.waiting import PATIENCE_S, loop_turns

CONFIG = """\
[state]
path = "state"

[[root]]
id = "w"
kind = "workspace"
path = "project"
trusted = true
history = "on"

[[rule]]
operation = ["write"]
path = ["reviewed/**"]
effect = "ask"
reason = "this is looked at first"
"""


@contextlib.contextmanager
def several(tmp_path):
    """A server of two processes, as somebody starts it; what it says of itself."""
    (tmp_path / "project").mkdir()
    config = tmp_path / "bailiwick.toml"
    config.write_text(CONFIG)
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("BAILIWICK_TOKEN", None)
    with in_a_group(
        [sys.executable, "-m", "bailiwick", "serve", "--config", str(config), "--port", "0",
         "--json", "--workers", "2"],
        stdout=subprocess.PIPE, env=environment,
    ) as server:  # fmt: skip
        yield json.loads(server.stdout.readline())
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


@contextlib.asynccontextmanager
async def client_of(house, mode, **handlers):
    """The official client, with a new connection for each request: whoever is free takes it."""
    headers = {"authorization": f"Bearer {house['token']}", "connection": "close"}
    limits = httpx2.Limits(max_keepalive_connections=0)
    place = f"{house['url']}/mcp?structured=true"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120, limits=limits, verify=trusted()) as http,
        Client(streamable_http_client(place, http_client=http), mode=mode, **handlers) as client,
    ):
        yield client
    await loop_turns(10)  # the client lets go of its streams a moment after it has ended


async def work(client):
    """Change things and take them back, each call by whichever process is free."""
    by = set()
    for number in range(10):
        path = f"a{number}.txt"
        wrote = told(await client.call_tool("write_file", {"path": path, "content": "x"}))
        assert wrote["ok"], wrote
        assert "x" in told(await client.call_tool("read_file", {"path": path}))["text"]
        [version] = told(await client.call_tool("history", {"path": path}))["versions"]
        by.add(version["by"])
        undone = told(await client.call_tool("undo", {"request": wrote["requestId"]}))
        assert undone["ok"], undone
    assert len(by) == 1, "one caller is one agent on record"


class Person:
    """Who agrees, and counts how often they are asked."""

    def __init__(self):
        self.asked = 0

    async def __call__(self, context, params):
        self.asked += 1
        return ElicitResult(action="accept", content={"answer": "once"})


@pytest.mark.slow
@pytest.mark.spec("MCP-1", "MCP-2", "HTTP-1")
async def test_it_does_not_matter_which_process_answers(tmp_path):
    """Nor which of them put a question: the call comes again with the answer, and as likely as not
    to the other one. The dialect is said: a client that looks for it waits ten seconds, in which a
    busy machine need not have started a server, and then speaks one in which nobody is asked."""
    person = Person()
    with several(tmp_path) as house:
        async with client_of(house, LATEST_MODERN_VERSION, elicitation_callback=person) as client:
            await work(client)
            for number in range(8):
                given = {"path": f"reviewed/{number}.txt", "content": "please"}
                wrote = told(await client.call_tool("write_file", given))
                assert wrote["ok"], wrote
    assert person.asked == 8, "once for each"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.spec("MCP-1", "HTTP-1", "ERR-5")
async def test_in_the_older_dialects_what_needs_a_session_is_refused_in_words(tmp_path):
    """A subscription is told by the process that has the session. Where there is none, saying yes
    would be a promise that nobody keeps. All else is answered as ever."""
    with several(tmp_path) as house:
        (tmp_path / "project" / "a.txt").write_text("x")
        async with client_of(house, "legacy") as client:
            with pytest.raises(MCPError, match="workers") as refused:
                await client.subscribe_resource("bailiwick:///w/a.txt")
            assert refused.value.error.data["errorKind"] == "unsupported"
            assert (await client.list_resources()).resources
            await work(client)
