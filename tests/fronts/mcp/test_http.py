"""`/mcp` on the server: the tokens of that server, and for each caller what they may do."""

import asyncio
import contextlib
import json
import subprocess
import sys

import httpx2
import pytest

from bailiwick.build.governed import Authority
from bailiwick.first_step import BeginsAtOnce
from bailiwick.fronts.http.transport.event_loop import new_event_loop
from bailiwick.grant import AgentRun, User
from bailiwick.model import MiB
from tests.fronts.mcp.clients import ENVELOPE, HANDSHAKE, over_http, served, token_for, told
from tests.fronts.trust import trusted

AGENT = AgentRun("test", "1")
MODERN = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
}


@contextlib.asynccontextmanager
async def two_roots(tmp_path):
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        for name in ("one", "two"):
            place = tmp_path / name
            place.mkdir()
            (place / "a.txt").write_text(f"{name}\n")
            await authority.add_root(f"workspace:{name}", str(place), trusted=True)
        yield authority


async def grant(authority, *access, root="workspace:one", path="."):
    return await authority.add_grant(
        subject=str(AGENT), root=root, access=access, path=path, by=User("local")
    )


async def names_of(client):
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.spec("MCP-1", "HTTP-2")
async def test_an_agent_has_what_it_was_granted(tmp_path):
    async with two_roots(tmp_path) as authority:
        await grant(authority, "read", "list")
        secret = await token_for(authority, AGENT)
        async with served(authority) as url, over_http(url, secret) as client:
            [tool, *_] = (await client.list_tools()).tools
            assert "root" not in tool.input_schema["properties"], "it has one root"
            read = told(await client.call_tool("read_file", {"path": "a.txt"}))
            assert "one" in read["text"]
            given = {"path": "a.txt", "content": "x"}
            refused = told(await client.call_tool("write_file", given))
            assert refused["errorKind"] == "missing_access"
            with pytest.raises(Exception, match="root"):
                await client.read_resource("bailiwick:///two/a.txt")
        verbs = ("read_text", "write_text")
        records = [each for each in await authority.ledger.tail(20) if each.verb in verbs]
        assert {str(each.subject) for each in records} == {str(AGENT)}


@pytest.mark.spec("MCP-1", "HTTP-2")
async def test_a_person_passes_on_what_they_have(tmp_path):
    async with two_roots(tmp_path) as authority:
        secret = await token_for(authority, User("local"))
        async with served(authority) as url, over_http(url, secret) as client:
            given = {"root": "two", "path": "b.txt", "content": "x"}
            assert told(await client.call_tool("write_file", given))["ok"]
            (tmp_path / "two" / ".env").write_text("SECRET=1\n")
            refused = await client.call_tool("read_file", {"root": "two", "path": ".env"})
            assert refused.is_error, "the rules for agents hold"
        [record] = [each for each in await authority.ledger.tail(50) if each.verb == "write_text"]
        assert str(record.subject).startswith("agent_run:mcp/")


@pytest.mark.spec("HTTP-2")
async def test_a_token_for_one_grant_is_for_that_alone(tmp_path):
    async with two_roots(tmp_path) as authority:
        for root in ("workspace:one", "workspace:two"):
            await grant(authority, "read", "list", "write", root=root)
        scope = await authority.request_root(AGENT, "workspace:one", {"read"}, "for a token")
        secret = await authority.tokens.issue(
            "narrow", str(AGENT), by=User("local"), front="test", grant_id=scope.grant.id
        )
        async with served(authority) as url, over_http(url, secret) as client:
            assert "one" in told(await client.call_tool("read_file", {"path": "a.txt"}))["text"]
            refused = told(await client.call_tool("ls", {}))
            assert refused["errorKind"] == "missing_access"
            given = {"path": "a.txt", "content": "x"}
            refused = told(await client.call_tool("write_file", given))
            assert refused["errorKind"] == "missing_access"
            await authority.revoke(scope.grant.id, by=User("local"))
            refused = told(await client.call_tool("read_file", {"path": "a.txt"}))
            assert refused["errorKind"] == "grant_revoked"
        await scope.aclose()


@pytest.mark.spec("HTTP-2", "MCP-1")
async def test_without_a_token_it_is_only_read(tmp_path):
    async with two_roots(tmp_path) as authority, served(authority) as url:
        async with over_http(url, None) as client:
            assert await names_of(client) == {"read_file", "ls", "glob", "grep", "stat", "tree"}
        secret = await token_for(authority, User("local"))
        async with httpx2.AsyncClient(verify=trusted()) as http:
            refused = await http.post(f"{url}/mcp", json={})
            assert (refused.status_code, refused.json()["errorKind"]) == (401, "unauthenticated")
            assert refused.headers["cache-control"] == "no-store"
        async with over_http(url, secret) as client:
            assert "write_file" in await names_of(client)


@pytest.mark.spec("MCP-1")
async def test_a_server_that_only_reads_offers_nothing_else(tmp_path):
    async with two_roots(tmp_path) as authority:
        secret = await token_for(authority, User("local"))
        async with (
            served(authority, read_only=True) as url,
            over_http(url, secret) as client,
        ):
            assert "write_file" not in await names_of(client)


@pytest.mark.spec("HTTP-2")
async def test_an_agent_without_a_grant_is_told_so(tmp_path):
    async with two_roots(tmp_path) as authority, served(authority) as url:
        secret = await token_for(authority, AGENT)
        async with httpx2.AsyncClient(
            headers={"authorization": f"Bearer {secret}"}, verify=trusted()
        ) as http:
            refused = await http.post(f"{url}/mcp", json={})
        assert (refused.status_code, refused.json()["errorKind"]) == (403, "missing_access")


@pytest.mark.spec("HTTP-2")
async def test_hosts_and_origins_of_others_are_refused(tmp_path):
    async with (
        two_roots(tmp_path) as authority,
        served(authority) as url,
        httpx2.AsyncClient(verify=trusted()) as http,
    ):
        for header in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert (await http.post(f"{url}/mcp", json={}, headers=header)).status_code == 403


@pytest.mark.spec("HTTP-2")
async def test_the_session_of_another_is_not_there(tmp_path):
    async with two_roots(tmp_path) as authority, served(authority) as url:
        shown = {}
        for who in (User("ann"), User("bob")):
            shown[who] = {
                "authorization": f"Bearer {await token_for(authority, who, who.id)}",
                "accept": "application/json, text/event-stream",
            }
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
        async with httpx2.AsyncClient(verify=trusted()) as http:
            opened = await http.post(f"{url}/mcp", json=asked, headers=shown[User("ann")])
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            for who, status in ((User("ann"), 200), (User("bob"), 404)):
                got = await http.post(f"{url}/mcp", json=listed, headers={**shown[who], **session})
                assert got.status_code == status


@pytest.mark.spec("MCP-3", "HTTP-3")
async def test_large_and_wrong_bodies_are_answered(tmp_path):
    async with two_roots(tmp_path) as authority, served(authority) as url:
        secret = await token_for(authority, User("local"))
        shown = {**MODERN, "authorization": f"Bearer {secret}", "content-type": "application/json"}
        given = {"root": "one", "path": "b", "content": "x" * (12 * MiB)}
        params = {"name": "write_file", "arguments": given, "_meta": ENVELOPE}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        named = {"mcp-method": "tools/call", "mcp-name": "write_file"}
        async with httpx2.AsyncClient(headers=shown, timeout=120, verify=trusted()) as http:
            got = await http.post(f"{url}/mcp", content=json.dumps(asked), headers=named)
            assert "file_too_large" in got.text
            assert got.headers["x-content-type-options"] == "nosniff"
            with contextlib.suppress(httpx2.WriteError, httpx2.ReadError):
                got = await http.post(f"{url}/mcp", content=b"x" * (40 * MiB), headers=named)
                assert got.status_code == 413
            for body in (b"{nope", b"[]", b"", b"[" * 100_000):
                assert (await http.post(f"{url}/mcp", content=body)).status_code == 400
            assert (await http.get(f"{url}/health")).status_code == 200


@pytest.mark.spec("PY-3")
def test_a_server_starts_without_the_weight_of_the_sdk():
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "import asyncio, bailiwick.fronts.http.serve_command, bailiwick.fronts.mcp.stdio_command\n"
        "from bailiwick.fronts.http.mounted import mounts_of\n"
        "app = mounts_of(None, workers=1)['/mcp']\n"
        "try: asyncio.run(app({}, None, None))\n"
        "except Exception as error: print(error.kind, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "unsupported pip install 'bailiwick[mcp]'"


@pytest.mark.spec("MCP-1", "LINE-4")
@pytest.mark.leaks_ok("uvloop keeps a pipe for signals as long as the process lives")
def test_calls_take_their_first_step_on_the_loop_of_a_server(tmp_path):
    """What the SDK does with its scopes of cancellation needs a task from the first step on."""

    async def work():
        assert isinstance(asyncio.get_running_loop(), BeginsAtOnce)
        async with two_roots(tmp_path) as authority:
            await grant(authority, "read", "list")
            secret = await token_for(authority, AGENT)
            async with served(authority) as url, over_http(url, secret) as client:
                calls = [client.call_tool("read_file", {"path": "a.txt"}) for _ in range(20)]
                for read in await asyncio.gather(*calls):
                    assert "one" in told(read)["text"]
                assert await names_of(client)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work())
