"""What a person took back is told to the agent with its next result."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceUpdatedNotification

from bailiwick.build.governed import Authority
from bailiwick.fronts.mcp.conversation import Conversation
from bailiwick.fronts.mcp.service import server_info
from bailiwick.fronts.mcp.workspaces import WantedService, open_service
from bailiwick.grant import User
from tests.fronts.mcp.clients import over_http, over_stdio, served, token_for
from tests.fronts.mcp.test_run_names import HELLO, called
from tests.waiting import until

ACCESS = ("read", "write", "list", "delete", "metadata")


@pytest.mark.spec("REVIEW-3")
async def test_the_next_result_says_what_was_taken_back(tmp_path):
    async with Authority.open() as authority:
        await authority.add_root("workspace:w", f"sqlite:{tmp_path}/v.db", trusted=True)
        wanted = WantedService(User("local"), "s1")
        async with open_service(authority, wanted) as service:
            sent = []
            talk = Conversation(service, sent.append, server_info())
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            talk.receive(json.dumps(first).encode())
            talk.receive(called(1, "1.txt"))
            await until(lambda: len(sent) > 1)
            person = await authority.request_root(User("local"), "workspace:w", ACCESS, "look")
            (file,) = (await person.review.queue()).files
            await person.review.reject(file.hunks[0].id, note="not needed")
            for number in (2, 3):
                talk.receive(called(number, f"{number}.txt"))
                await until(lambda number=number: len(sent) > number)
            await talk.aclose()
    second, third = (json.loads(each)["result"] for each in sent[2:4])
    told = {"path": "1.txt", "lines": ["+x"], "note": "not needed"}
    assert second["_meta"] == {"bailiwick/review": [told]}
    assert "took back what you changed in 1.txt: not needed" in json.dumps(second["content"]) or (
        second["structuredContent"]["review"] == [told]
    )
    assert "_meta" not in third
    assert "review" not in third.get("structuredContent", {})


@pytest.mark.spec("REVIEW-3")
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_a_rejection_is_a_notification_and_a_resource(tmp_path, way, mode):
    project = tmp_path / "project"
    project.mkdir()
    heard, uri = asyncio.Queue(), "bailiwick-review:///project"

    async def hear(message):
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(str(message.params.uri))

    more = {"mode": "legacy", "message_handler": hear} if mode == "legacy" else {}
    async with (
        client_of(way, project, tmp_path, **more) as client,
        following(client, mode, uri, heard),
    ):
        await client.call_tool("write_file", {"path": "a.txt", "content": "x\n"})
        assert uri not in await listed(client)
        assert await told_by(client, uri) == []
        await reject_all(tmp_path, project, "not needed")
        assert await asyncio.wait_for(heard.get(), 120) == uri
        assert uri in await listed(client)
        (note,) = await told_by(client, uri)
        assert (note["path"], note["lines"], note["note"]) == ("a.txt", ["+x"], "not needed")
        result = await client.call_tool("write_file", {"path": "b.txt", "content": "x\n"})
        assert result.meta["bailiwick/review"][0]["path"] == "a.txt"
        assert await told_by(client, uri) == []
        with pytest.raises(MCPError):
            await client.read_resource("bailiwick-review:///elsewhere")


@pytest.mark.spec("REVIEW-3")
async def test_a_client_that_is_started_again_hears_what_the_one_before_did_not(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    async with client_of("stdio", project, tmp_path) as client:
        await client.call_tool("write_file", {"path": "a.txt", "content": "x\n"})
    await reject_all(tmp_path, project, "not needed")
    async with client_of("stdio", project, tmp_path) as client:
        result = await client.call_tool("write_file", {"path": "b.txt", "content": "x\n"})
        (note,) = result.meta["bailiwick/review"]
        assert (note["path"], note["note"]) == ("a.txt", "not needed")


@asynccontextmanager
async def client_of(way, project, tmp_path, **more):
    if way == "stdio":
        async with over_stdio(project, state=tmp_path / "state", **more) as client:
            yield client
        return
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:project", str(project), trusted=True, history="on")
        secret = await token_for(authority, User("local"))
        async with served(authority) as url, over_http(url, secret, **more) as client:
            yield client


@asynccontextmanager
async def following(client, mode, uri, heard):
    if mode == "legacy":
        await client.subscribe_resource(uri)
        yield
        await client.unsubscribe_resource(uri)
        return
    async with client.listen(resource_subscriptions=[uri]) as events:
        assert events.honored.resource_subscriptions == [uri]

        async def hear():
            async for event in events:
                heard.put_nowait(str(event.uri))

        hearing = asyncio.create_task(hear())
        yield
        hearing.cancel()
        with suppress(asyncio.CancelledError):
            await hearing


async def listed(client):
    return [str(each.uri) for each in (await client.list_resources()).resources]


async def told_by(client, uri):
    return json.loads((await client.read_resource(uri)).contents[0].text)["review"]


async def reject_all(tmp_path, project, note):
    """By a person in another process's place: a state of their own on the same directory."""
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:project", str(project), trusted=True, history="on")
        person = await authority.request_root(User("local"), "workspace:project", ACCESS, "look")
        (run,) = await person.runs()
        done = await person.review.reject(run=run.id, note=note)
        assert done.rejected
