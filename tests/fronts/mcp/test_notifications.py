"""Changes are told to those who subscribed, whoever made them."""

import asyncio
import contextlib

import pytest
from mcp_types import ResourceUpdatedNotification

from bailiwick.build.governed import Authority
from bailiwick.grant import User
from tests.fronts.mcp.clients import RawClient, over_http, over_stdio, served, token_for


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    (place / "sub").mkdir(parents=True)
    (place / "a.txt").write_text("hello\n")
    return place


@contextlib.asynccontextmanager
async def client_of(way, project, tmp_path, **more):
    if way == "stdio":
        async with over_stdio(project, state=tmp_path / "state", **more) as client:
            yield client
        return
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:project", str(project), trusted=True)
        secret = await token_for(authority, User("local"))
        async with served(authority) as url, over_http(url, secret, **more) as client:
            yield client


@pytest.mark.spec("MCP-1", "EVENT-1")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_one_long_request_hears_of_changes(project, tmp_path, way):
    uri, other = "bailiwick:///project/a.txt", "bailiwick:///nowhere/x"
    async with (
        client_of(way, project, tmp_path) as client,
        client.listen(resource_subscriptions=[uri, other], resources_list_changed=True) as events,
    ):
        assert events.honored.resource_subscriptions == [uri]
        assert events.honored.resources_list_changed
        heard = aiter(events)
        (project / "a.txt").write_text("by another program\n")
        assert (await asyncio.wait_for(anext(heard), 120)).uri == uri
        await client.call_tool("write_file", {"path": "new", "content": "x"})
        while True:
            event = await asyncio.wait_for(anext(heard), 120)
            if type(event).__name__ == "ResourcesListChanged":
                break
            assert event.uri == uri


@pytest.mark.spec("MCP-1", "EVENT-1")
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_subscription_hears_of_changes(project, tmp_path, way):
    heard = asyncio.Queue()

    async def hear(message):
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(str(message.params.uri))

    uri = "bailiwick:///project/a.txt"
    async with client_of(way, project, tmp_path, mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource(uri)
        (project / "a.txt").write_text("by another program\n")
        assert await asyncio.wait_for(heard.get(), 120) == uri
        await client.unsubscribe_resource(uri)


@pytest.mark.spec("MCP-1")
def test_what_cannot_be_followed_is_refused(project, tmp_path):
    with RawClient(project, state=tmp_path / "state") as raw:
        raw.handshake()
        for uri in (
            "ftp://elsewhere/passwd",
            "bailiwick:///nowhere/x",
            "bailiwick:///project/../x",
        ):
            error = raw.request("resources/subscribe", {"uri": uri})["error"]
            assert error["code"] == -32602


@pytest.mark.spec("MCP-1")
def test_a_long_request_ends_with_the_conversation_or_when_cancelled(project, tmp_path):
    from tests.fronts.mcp.clients import ENVELOPE

    with RawClient(project, state=tmp_path / "state") as raw:
        for number in (1, 2):
            params = {"_meta": ENVELOPE, "notifications": {"resourcesListChanged": True}}
            raw.send({"jsonrpc": "2.0", "id": f"l{number}", "method": "subscriptions/listen",
                      "params": params})  # fmt: skip
            acknowledged = raw.receive()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            meta = acknowledged["params"]["_meta"]
            assert meta == {"io.modelcontextprotocol/subscriptionId": f"l{number}"}
        raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                  "params": {"requestId": "l1"}})  # fmt: skip
        raw.process.stdin.close()
        last = raw.receive()
        assert (last["id"], last["result"]["resultType"]) == ("l2", "complete")
        assert raw.process.stdout.read() == b""
    assert raw.code == 0
