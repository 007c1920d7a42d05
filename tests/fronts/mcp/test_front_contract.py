"""The story that every front tells, told over MCP: by pipes and by HTTP, in both dialects."""

import contextlib

import pytest

from bailiwick.errors import KINDS
from bailiwick.testing.front_contract import CASES, SUBJECT, Wrote, story_house
from tests.fronts.mcp.clients import inner, over_http, over_stdio, served, token_for, told


class McpFront:
    def __init__(self, client):
        self._client = client

    async def _call(self, operation, **given):
        given = {key: value for key, value in given.items() if value is not None}
        result = await self._client.call_tool(operation, given, meta={"bailiwick/wait": 60})
        answer = told(result)
        if result.is_error:
            raise KINDS[answer["errorKind"]](
                answer["message"], hint=answer["hint"], decided_by=answer.get("decidedBy")
            )
        return answer

    async def write(self, path, text, *, expected_sha256=None):
        done = await self._call(
            "write_file", path=path, content=text, expectedSha256=expected_sha256
        )
        return Wrote(done["sha256"], done["requestId"])

    async def read(self, path):
        return inner((await self._call("read_file", path=path))["text"])

    async def names(self, path):
        return [entry["name"] for entry in (await self._call("ls", path=path))["entries"]]

    async def edit(self, path, old, new):
        await self._call("edit_file", path=path, oldText=old, newText=new)

    async def remove(self, path):
        await self._call("rm", path=path)

    async def undo(self, request_id):
        return (await self._call("undo", request=request_id))["undone"]


@contextlib.asynccontextmanager
async def by_pipes(house, mode):
    state = house.config.replace("bailiwick.toml", "state")
    async with over_stdio("--config", house.config, state=state, mode=mode) as client:
        yield McpFront(client)


@contextlib.asynccontextmanager
async def by_http(house, mode):
    secret = await token_for(house.authority, SUBJECT)
    async with served(house.authority) as url, over_http(url, secret, mode=mode) as client:
        yield McpFront(client)


@pytest.mark.spec("ERR-4", "MCP-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("front", [by_pipes, by_http])
async def test_mcp_tells_the_same_story(tmp_path, front, mode):
    async with story_house(str(tmp_path)) as house, front(house, mode) as driver:
        for case in CASES:
            await case(driver, house)
