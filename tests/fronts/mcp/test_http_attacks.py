"""Somebody who should not get in, at `/mcp`: with another's session, another's page, a token that
was taken back, or more than a server can hold."""

import asyncio
import contextlib

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, ResourceUpdatedNotification

from bailiwick.build.governed import Authority
from bailiwick.fronts.mcp import mounting
from bailiwick.fronts.mcp.addresses import TEMPLATE
from bailiwick.grant import AgentRun, User
from bailiwick.model import MiB
from tests.fronts.mcp.clients import HANDSHAKE, over_http, served, token_for, told
from tests.fronts.trust import trusted

ANN, BOB = AgentRun("ann", "1"), AgentRun("bob", "1")
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
STREAMS = "application/json, text/event-stream"


@contextlib.asynccontextmanager
async def house(tmp_path):
    """One root, where both agents were granted the same; the authority and the tokens' secrets."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.txt").write_text("one\n")
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:one", str(tmp_path / "one"), trusted=True)
        secrets = {}
        for who in (ANN, BOB):
            access = ("read", "list", "metadata", "write", "watch")
            await authority.add_grant(
                subject=str(who), root="workspace:one", access=access, path=".", by=User("local")
            )
            secrets[who] = await token_for(authority, who, who.conversation_id)
        async with served(authority) as url:
            yield authority, url, secrets


def shown(secret, **more):
    return {"authorization": f"Bearer {secret}", "accept": STREAMS, **more}


async def opened(http, url, secret):
    """A session of the older dialects: its id."""
    answer = await http.post(f"{url}/mcp", json=INITIALIZE, headers=shown(secret))
    assert answer.status_code == 200
    return answer.headers["mcp-session-id"]


@pytest.mark.spec("HTTP-2", "MCP-1")
async def test_a_session_is_nobodys_but_who_began_it(tmp_path):
    """Neither used, nor followed, nor ended; and who has no token learns no more than that."""
    async with house(tmp_path) as (_, url, secrets), httpx2.AsyncClient(verify=trusted()) as http:
        session = {"mcp-session-id": await opened(http, url, secrets[ANN])}
        for headers, status in (
            (shown(secrets[BOB], **session), 404),
            (shown("wrong", **session), 401),
            ({"accept": STREAMS, **session}, 401),
        ):
            assert (await http.post(f"{url}/mcp", json=LIST, headers=headers)).status_code == status
            assert (await http.get(f"{url}/mcp", headers=headers)).status_code == status
            assert (await http.delete(f"{url}/mcp", headers=headers)).status_code == status
        mine = shown(secrets[ANN], **session)
        assert (await http.post(f"{url}/mcp", json=LIST, headers=mine)).status_code == 200
        assert (await http.delete(f"{url}/mcp", headers=mine)).status_code == 200
        assert (await http.post(f"{url}/mcp", json=LIST, headers=mine)).status_code == 404


@pytest.mark.spec("HTTP-2", "MCP-1")
@pytest.mark.parametrize(
    "page",
    [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"},
     {"host": "127.0.0.1.evil.example"}, {"origin": "http://127.0.0.1.evil.example"},
     {"sec-fetch-site": "cross-site"}],
    ids=str,
)  # fmt: skip
async def test_a_page_from_elsewhere_gets_nothing_even_with_a_token(tmp_path, page):
    async with house(tmp_path) as (_, url, secrets), httpx2.AsyncClient(verify=trusted()) as http:
        session = {"mcp-session-id": await opened(http, url, secrets[ANN])}
        headers = shown(secrets[ANN], **session, **page)
        assert (await http.post(f"{url}/mcp", json=LIST, headers=headers)).status_code == 403
        assert (await http.get(f"{url}/mcp", headers=headers)).status_code == 403
        assert (await http.delete(f"{url}/mcp", headers=headers)).status_code == 403
        fine = shown(secrets[ANN], **session)
        assert (await http.post(f"{url}/mcp", json=LIST, headers=fine)).status_code == 200


@pytest.mark.spec("MCP-3", "HTTP-2")
async def test_a_message_that_does_not_say_how_long_it_is_ends_too(tmp_path):
    async def without_end():
        for _ in range(40):
            yield b"x" * MiB

    async with (
        house(tmp_path) as (_, url, secrets),
        httpx2.AsyncClient(timeout=120, verify=trusted()) as http,
    ):
        headers = shown(secrets[ANN], **{"content-type": "application/json"})
        with contextlib.suppress(httpx2.WriteError, httpx2.ReadError):
            got = await http.post(f"{url}/mcp", content=without_end(), headers=headers)
            assert got.status_code == 413
        await opened(http, url, secrets[ANN])


@pytest.mark.spec("HTTP-2", "MCP-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_token_that_is_taken_back_bites_at_the_next_call(tmp_path, mode):
    async with house(tmp_path) as (authority, url, secrets):
        async with over_http(url, secrets[ANN], mode=mode) as client:
            assert "one" in told(await client.call_tool("read_file", {"path": "a.txt"}))["text"]
            await authority.tokens.revoke("ann", by=User("local"), front="test")
            with pytest.raises(MCPError):
                await client.call_tool("read_file", {"path": "a.txt"})
        reads = [each for each in await authority.ledger.tail(20) if each.verb == "read_text"]
        assert len(reads) == 1, "the second call was not made"
        async with over_http(url, secrets[BOB], mode=mode) as other:
            assert told(await other.call_tool("read_file", {"path": "a.txt"}))["text"]


@pytest.mark.spec("HTTP-2", "MCP-1", "EVENT-1")
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
async def test_who_lost_their_token_hears_of_nothing_any_more(tmp_path):
    """A stream that is open already ends: what changes is not for them to know."""
    heard = {ANN: [], BOB: []}
    woken = asyncio.Event()

    def ear(who):
        async def hear(message):
            if isinstance(message, ResourceUpdatedNotification):
                heard[who].append(str(message.params.uri))
                woken.set()

        return hear

    async with house(tmp_path) as (authority, url, secrets), contextlib.AsyncExitStack() as stack:
        for who in (ANN, BOB):
            client = await stack.enter_async_context(
                over_http(url, secrets[who], mode="legacy", message_handler=ear(who))
            )
            await client.subscribe_resource("bailiwick:///one/a.txt")
        (tmp_path / "one" / "a.txt").write_text("first\n")
        while not all(heard.values()):
            woken.clear()
            await asyncio.wait_for(woken.wait(), 120)
        await authority.tokens.revoke("ann", by=User("local"), front="test")
        before = {who: len(each) for who, each in heard.items()}
        (tmp_path / "one" / "a.txt").write_text("second\n")
        while len(heard[BOB]) == before[BOB]:
            woken.clear()
            await asyncio.wait_for(woken.wait(), 120)
        assert len(heard[ANN]) == before[ANN]


@pytest.mark.spec("AUTH-5", "MCP-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_grant_that_is_taken_back_bites_at_the_next_call(tmp_path, mode):
    async with house(tmp_path) as (authority, url, _):
        scope = await authority.request_root(ANN, "workspace:one", {"read", "list"}, "a token")
        secret = await authority.tokens.issue(
            "narrow", str(ANN), by=User("local"), front="test", grant_id=scope.grant.id
        )
        async with over_http(url, secret, mode=mode) as client:
            assert (await client.list_resources()).resources
            await authority.revoke(scope.grant.id, by=User("local"))
            refused = told(await client.call_tool("ls", {}))
            assert refused["errorKind"] == "grant_revoked"
            asked = (
                client.read_resource("bailiwick:///one/a.txt"),
                client.list_resources(),
                client.complete(
                    ResourceTemplateReference(uri=TEMPLATE), {"name": "path", "value": ""}
                ),
            )
            for call in asked:
                with pytest.raises(MCPError) as error:
                    await call
                assert error.value.error.data["errorKind"] == "grant_revoked"
        await scope.aclose()


@pytest.mark.spec("HTTP-12")
async def test_who_delegates_to_itself_has_no_more_sessions(tmp_path, monkeypatch):
    monkeypatch.setattr(mounting, "SESSIONS_PER_SUBJECT_MAX", 2)
    async with (
        house(tmp_path) as (authority, url, secrets),
        httpx2.AsyncClient(verify=trusted()) as http,
    ):
        scope = await authority.request_root(ANN, "workspace:one", {"read", "list"}, "test")
        heirs = []
        for number, heir in enumerate((ANN, AgentRun("carl", "1"))):
            passed = await scope.delegate(heir)
            heirs.append(
                await authority.tokens.issue(
                    f"heir{number}", str(heir), by=User("local"), front="test",
                    grant_id=passed.grant.id,
                )
            )  # fmt: skip
        session = await opened(http, url, secrets[ANN])
        await opened(http, url, heirs[0])
        for secret in (secrets[ANN], *heirs):
            answer = await http.post(f"{url}/mcp", json=INITIALIZE, headers=shown(secret))
            assert (answer.status_code, answer.json()["errorKind"]) == (429, "rate_limited")
        # Others have theirs, and one that has ended leaves room.
        assert await opened(http, url, secrets[BOB])
        ended = shown(secrets[ANN], **{"mcp-session-id": session})
        assert (await http.delete(f"{url}/mcp", headers=ended)).status_code == 200
        assert await opened(http, url, heirs[1])
