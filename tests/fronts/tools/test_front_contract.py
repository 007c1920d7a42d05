"""The story that every front tells, told by the tools of models."""

import contextlib

import pytest

from bailiwick.errors import KINDS
from bailiwick.fronts.tools import tools
from bailiwick.grant import User
from bailiwick.operations import ALL_ACCESS
from bailiwick.testing.front_contract import CASES, ROOT, SUBJECT, Wrote, story_house
from tests.fronts.tools.support import inner, name

ACCESS = {"read", "list", "metadata", "write", "delete", "move"}


class ToolsFront:
    """The tools, called as a model calls them."""

    def __init__(self, box):
        self._box = box

    async def _call(self, operation, **given):
        answer = await self._box.call(name(operation), given)
        if answer.get("ok") is False:
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
async def on_an_agents_scope(house):
    scope = await house.authority.request_root(SUBJECT, ROOT, ACCESS, "the story")
    try:
        yield ToolsFront(tools(scope, "notes"))
    finally:
        await scope.aclose()


@contextlib.asynccontextmanager
async def on_a_persons_scope(house):
    scope = await house.authority.request_root(User("ann"), ROOT, ALL_ACCESS, "the story")
    box = tools(scope, "notes")
    try:
        yield ToolsFront(box)
    finally:
        await box.aclose()
        await scope.aclose()


@pytest.mark.spec("ERR-4", "TOOL-1", "TOOL-4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("front", [on_an_agents_scope, on_a_persons_scope])
async def test_the_tools_tell_the_same_story(tmp_path, front, case):
    async with story_house(str(tmp_path)) as house, front(house) as driver:
        await case(driver, house)
