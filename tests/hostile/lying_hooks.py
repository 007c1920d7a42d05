"""A webhook whose server lies: it sends elsewhere on this machine, answers without an end or never,
or speaks something else. Beside it listens a server that only this machine can reach.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import os
import pathlib
import resource
import tempfile
import time
from typing import Any

import httpx

from bailiwick import AgentRun, ApprovalTimeout, Authority
from bailiwick.notifiers import outbox, webhook
from tests.notifiers.listening import babbles, drips_headers, listening, says, stalls
from tests.waiting import let_pass

CONFIG = """
[ask]
timeout = "60 s"
[notify]
url = "{url}"
secret_file = "{place}/secret"
[[root]]
id = "demo"
kind = "workspace"
path = "{place}/tree"
trusted = true
[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write"]
[[rule]]
subject = "agent_run:*"
operation = ["write"]
effect = "ask"
"""
QUESTIONS = 20
CONTENT = "what nobody else is told"


async def _endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
        await writer.drain()


async def _endless_line(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 ")
    await babbles(writer)


async def _byte_by_byte(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"H")
        await writer.drain()
        await let_pass(0.01)


LIES: dict[str, Any] = {
    **{
        f"{status} to a port of this machine": status
        for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent")
    },
    "a body without an end": _endless_body,
    "a line without an end": _endless_line,
    "garbage without an end": babbles,
    "headers without an end": drips_headers,
    "a byte now and then": _byte_by_byte,
    "no answer": stalls,
}


def run(lie: str) -> dict[str, Any]:
    # What is bounded by seconds is bounded by less of them here.
    webhook.EXCHANGE_SECONDS_MAX, outbox.LETTING_GO_S = 0.2, 0.2
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_told(pathlib.Path(directory), LIES[lie]))


async def _told(place: pathlib.Path, lie: Any) -> dict[str, Any]:
    (place / "tree").mkdir()
    secret = os.open(place / "secret", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(secret, b"0123456789abcdef" * 2)
    os.close(secret)
    reached = 0

    async def reach(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal reached
        reached += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(reach, "127.0.0.1", 0) as beside:
        port = beside.sockets[0].getsockname()[1]
        there = f"Location: http://127.0.0.1:{port}/stop-everything"
        answer = says(lie, there) if isinstance(lie, str) else lie
        async with listening(answer) as hook:
            (place / "bailiwick.toml").write_text(CONFIG.format(url=hook.url, place=place))
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            ended = await _asked(place, hook)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown
            bodies = [body for _, _, body in hook.requests]
            found = {
                "requests": len(bodies), "told": sum(CONTENT.encode() in each for each in bodies),
                "reached": reached, "grown_kib": grown, "ended_s": ended, "control": None,
            }  # fmt: skip
            if isinstance(lie, str):
                # A client as one finds them goes where it is sent.
                async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as client:
                    with contextlib.suppress(httpx.HTTPError):
                        await client.post(hook.url, content=b"{}")
                found["control"] = reached > 0
    return found


async def _asked(place: pathlib.Path, hook: Any) -> float:
    """Put questions, and end; how long that takes."""
    opening = Authority.from_config(
        place / "bailiwick.toml", str(place / "state"), surface="console"
    )
    async with opening as authority:
        scope = await authority.request_root(
            AgentRun("c1", "r1"), "workspace:demo", ["write"], "to see", wait_s=0.0
        )
        for number in range(QUESTIONS):
            try:
                await scope.write_text(f"{number}.txt", CONTENT)
            except ApprovalTimeout:
                continue
            raise AssertionError("nobody was asked")
        assert len(authority.approvals.pending()) == QUESTIONS
        await hook.count(1)
        began = time.monotonic()
    return time.monotonic() - began
