"""A request at `/mcp` waits no longer for databases than any other over HTTP."""

import asyncio
import contextlib

import httpx2
import pytest

from bailiwick.build.governed import Authority
from bailiwick.grant import User
from tests.fronts.http.serving import asking_config
from tests.fronts.mcp.clients import ENVELOPE, served, token_for
from tests.fronts.trust import trusted
from tests.postgres_proxy import ProxyThread
from tests.waiting import until

pytestmark = [pytest.mark.spec("SCALE-6", "MCP-1"), pytest.mark.slow]

MODERN = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "write_file",
}
WRITE = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "write_file", "arguments": {"path": "f", "content": "x"}, "_meta": ENVELOPE},
}  # fmt: skip


@contextlib.asynccontextmanager
async def slow_volume(postgres, tmp_path):
    """What asks for a write, and the way to the database of the root."""
    with postgres.fresh_database() as dsn, ProxyThread(postgres) as way:
        file = tmp_path / "bailiwick.toml"
        file.write_text(
            asking_config(f'volume = "{way.through(dsn)}?volume=main&blobs={tmp_path}/blobs"')
        )
        async with Authority.from_config(file, str(tmp_path / "state")) as authority:
            headers = {**MODERN, "authorization": await bearer(authority)}
            async with (
                served(authority) as url,
                httpx2.AsyncClient(timeout=120, verify=trusted()) as http,
            ):

                async def write():
                    """What is answered, within the fifteen seconds."""
                    async with asyncio.timeout(15):
                        answer = await http.post(f"{url}/mcp", json=WRITE, headers=headers)
                    return answer.text.replace("\\", "").replace(" ", "")

                yield write, way


async def bearer(authority):
    return f"Bearer {await token_for(authority, User('local'))}"


async def test_a_call_ends_in_time_where_the_root_opens_slowly_and_where_it_is_slow(
    postgres, tmp_path
):
    async with slow_volume(postgres, tmp_path) as (write, way):
        way.slow_down(1.0)
        assert '"busy"' in await write()
        way.slow_down(0.0)

        async def done():
            return '"ok":true' in await write()

        await until(done)
        way.slow_down(4.5)
        assert '"busy"' in await write()
        way.slow_down(0.0)
        await until(done)
