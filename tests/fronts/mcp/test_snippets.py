"""What the documentation has people put into the settings of clients: it parses as what it claims
to be, and the command in it, as it stands there, is answered."""

import contextlib
import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from bailiwick.build.governed import Authority
from bailiwick.grant import User
from tests.fronts.mcp.clients import served, token_for
from tests.fronts.trust import trusted

PAGE = Path(__file__).parents[3] / "docs" / "mcp.md"
BLOCK = re.compile(r"^```(json|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOKENS = ("${BAILIWICK_TOKEN}", "${env:BAILIWICK_TOKEN}", "${input:bailiwick-token}")
PLACES = ("/home/me/project", "${workspaceFolder}")
PARSERS = {"json": json.loads, "toml": tomllib.loads}


def servers():
    """Every server that a block of the page describes: where, and its settings."""
    for block in BLOCK.finditer(PAGE.read_text()):
        line = PAGE.read_text().count("\n", 0, block.start()) + 2
        kind, text = block.groups()
        found = _by_command(text) if kind == "console" else _by_settings(PARSERS[kind](text))
        for server in found:
            way = "url" if "url" in server else "command"
            yield pytest.param(server, id=f"docs/mcp.md:{line} {kind} {way}")


def _by_settings(settings):
    """The servers in the settings of a client, wherever they keep them."""
    for table in settings.values():
        if isinstance(table, dict) and "files" in table:
            server = table["files"]
            if isinstance(server.get("command"), list):  # opencode has one list of both
                command, *args = server["command"]
                server = {"command": command, "args": args}
            yield server


def _by_command(text):
    """What ``claude mcp add`` is told, and ``bailiwick mcp`` itself."""
    for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        words = shlex.split(line)
        if words[:3] == ["claude", "mcp", "add"] and "--" in words:
            command, *args = words[words.index("--") + 1 :]
            yield {"command": command, "args": args}
        elif words[:3] == ["claude", "mcp", "add"]:
            name, _, value = words[words.index("--header") + 1].partition(": ")
            token = value.replace("$BAILIWICK_TOKEN", TOKENS[0])
            yield {"url": words[words.index("files") + 1], "headers": {name: token}}
        elif words[:2] == ["bailiwick", "mcp"]:
            yield {"command": words[0], "args": words[1:]}


SERVERS = list(servers())


def filled(text, places):
    for placeholder, value in places.items():
        text = text.replace(placeholder, value)
    return text


@contextlib.asynccontextmanager
async def started(server, project):
    """A client that was configured so, with the command found by ``PATH`` as it would be."""
    places = {place: str(project) for place in PLACES}
    binaries = os.path.dirname(sys.executable)
    parameters = StdioServerParameters(
        command=server["command"], args=[filled(each, places) for each in server["args"]],
        cwd=project.parent,
        env={"PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(project.parent)},
    )  # fmt: skip
    async with Client(stdio_client(parameters)) as client:
        yield client


@contextlib.asynccontextmanager
async def connected(server, project):
    async with Authority.open(state_dir=None) as authority:
        await authority.add_root("workspace:project", str(project), trusted=True)
        secret = await token_for(authority, User("local"))
        headers = server.get("headers", {})
        if "bearer_token_env_var" in server:
            assert server["bearer_token_env_var"] == "BAILIWICK_TOKEN"
            headers = {"Authorization": f"Bearer {TOKENS[0]}"}
        shown = {
            name: filled(value, dict.fromkeys(TOKENS, secret)) for name, value in headers.items()
        }
        async with (
            served(authority) as url,
            httpx2.AsyncClient(headers=shown, timeout=120, verify=trusted()) as http,
            Client(
                streamable_http_client(
                    filled(server["url"], {"http://127.0.0.1:4180": url}), http_client=http
                )
            ) as client,
        ):
            yield client


@pytest.mark.spec("MCP-1", "PY-6")
@pytest.mark.parametrize("server", SERVERS)
async def test_a_client_that_is_configured_so_has_the_tools(tmp_path, server):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("hello\n")
    async with (
        started(server, project) if "command" in server else connected(server, project) as client
    ):
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"read_file", "write_file"} <= names
        listed = await client.call_tool("ls", {})
        assert listed.content[0].text == "6\ta.txt"


@pytest.mark.spec("PY-6")
def test_every_block_of_settings_is_one_of_a_server():
    """A snippet in a shape that is not understood here would not be tested."""
    text = PAGE.read_text()
    blocks = sum(kind != "console" for kind, _ in BLOCK.findall(text))
    settings = [each for each in SERVERS if "console" not in each.id]
    assert len(settings) == blocks >= 8
    assert len(SERVERS) == blocks + 3
    assert text.count("```") == 2 * len(BLOCK.findall(text)), "blocks of another kind"
