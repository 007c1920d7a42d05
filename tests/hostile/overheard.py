"""Attacks on what a person says to one agent: by others who are called nearly like it, who were
given its name, who come when it is gone, or who only reach a part of the root.

Every function here runs behind the wall.
"""

import asyncio
import json
import pathlib
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from bailiwick.build.governed import Authority
from bailiwick.grant import AgentRun, parse_subject
from tests.fronts.http.serving import PERSON, serving
from tests.fronts.mcp.clients import served
from tests.fronts.trust import trusted

ROOT = "workspace:demo"
ALL = ("read", "write", "list", "delete", "move", "metadata")
WORDS, LINES = "said to the victim", "written by the victim"
CALLED = ("http", "mcp", "c1")
"""The first half of the names that people give to agents, and fronts to their sessions."""

CONFIG = """
[[root]]
id = "demo"
kind = "workspace"
path = "{home}/tree"
trusted = true
history = "on"
"""


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_attacked(pathlib.Path(directory)))


class _Served:
    """A server with all of its fronts, and clients of it."""

    def __init__(self, authority: Authority, url: str, stack: AsyncExitStack) -> None:
        self.authority = authority
        self._url = url
        self.stack = stack

    async def client(self, secret: str) -> httpx.AsyncClient:
        shown = {"authorization": f"Bearer {secret}"}
        client = httpx.AsyncClient(base_url=self._url, headers=shown, timeout=60, verify=trusted())
        return await self.stack.enter_async_context(client)

    async def token(self, name: str, subject: str, grant_id: str | None = None) -> str:
        return await self.authority.tokens.issue(
            name, subject, by=PERSON, front="test", grant_id=grant_id
        )

    async def agent(self, name: str, subject: str, path: str = ".") -> str:
        await self.authority.add_grant(subject=subject, root=ROOT, access=ALL, path=path, by=PERSON)
        return await self.token(name, subject)


@asynccontextmanager
async def _serving_again(home: pathlib.Path) -> AsyncGenerator[_Served, None]:
    opening = Authority.from_config(home / "bailiwick.toml", str(home / "state"))
    async with opening as authority, served(authority) as url, AsyncExitStack() as stack:
        yield _Served(authority, url, stack)


async def _attacked(place: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = {"heard": [], "asked": 0, "control": {}}
    for called in CALLED:
        home = place / called
        (home / "tree").mkdir(parents=True)
        async with serving(home, config=CONFIG.format(home=home)) as house:
            person, agent = (
                house.client(),
                await house.agent(*ALL, subject=f"agent_run:{called}/victim"),
            )
            write = {"path": "private/a", "content": f"{LINES}\n", "parents": True}
            wrote = await agent.post("/file/write", json=write)
            assert wrote.status_code < 300, wrote.text
            run = (await person.get("/review")).json()["files"][0]["hunks"][0]["run"]
            said = {"reject": [f"{run}:private/a"], "note": WORDS}
            assert (await person.post("/review", json=said)).json()["rejected"]
            victim = agent.headers["authorization"].removeprefix("Bearer ")
        # The server ends, and with it every grant that somebody held: nobody is there to hear it.
        async with _serving_again(home) as house:
            others = await _others(house, called)
            for who in (*others, "the name alone"):
                secret = others.get(who) or await _given_the_name(house, called)
                for answer in await _asked(await house.client(secret)):
                    found["asked"] += 1
                    if WORDS in answer or LINES in answer:
                        found["heard"].append(f"{called}: {who}")
            heard = await _asked(await house.client(victim))
            found["control"][called] = any(WORDS in each for each in heard)
    return found


async def _others(house: _Served, called: str) -> dict[str, str]:
    """All who would like to be told, and their tokens."""
    names = ("other", "victim2", "victi", "victim%", "VICTIM", "victim.", "_ictim", "part")
    subjects = [f"agent_run:{called}/{name}" for name in names]
    return {
        subject: await house.agent(f"t{number}", subject, "public" if "part" in subject else ".")
        for number, subject in enumerate((*subjects, f"extension:{called}", "automation:nightly"))
    }


async def _given_the_name(house: _Served, called: str) -> str:
    """The token of whom an agent gave the very name."""
    giver = await house.authority.request_root(
        parse_subject(f"agent_run:{called}/other"), ROOT, ALL, "to pass on", front="http"
    )
    heir = await giver.delegate(AgentRun(called, "victim"))
    house.stack.push_async_callback(giver.aclose)
    house.stack.push_async_callback(heir.aclose)
    return await house.token("given", str(heir.subject), heir.grant.id)


async def _asked(client: httpx.AsyncClient) -> list[str]:
    """All answers in which somebody could be told: over HTTP, and over MCP, in the results of tools
    and as the resource, which is looked at first: that takes nothing away."""
    headers = {
        "accept": "application/json, text/event-stream", "content-type": "application/json",
    }  # fmt: skip
    hello = {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }  # fmt: skip
    told = []
    for number, (method, given) in enumerate((
        ("initialize", hello), ("resources/list", {}),
        ("resources/read", {"uri": "bailiwick-review:///workspace:demo"}),
        ("resources/read", {"uri": "bailiwick-review:///demo"}),
        ("tools/call", {"name": "ls", "arguments": {"path": "."}}),
    )):  # fmt: skip
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        answer = await client.post("/mcp", content=json.dumps(body), headers=headers)
        if "mcp-session-id" in answer.headers:
            headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        told.append(answer.text)
    told += [
        (await client.get("/list", params={"path": "."})).text,
        (await client.get("/file", params={"path": "private/a"})).text,
        (await client.post("/file/write", json={"path": "x", "content": "x\n"})).text,
    ]
    return told
