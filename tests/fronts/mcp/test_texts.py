"""What a model is told over MCP: text alone where a tool words its answer, and pictures."""

import base64
import json

import msgspec
import pytest

from tests.fronts.mcp.clients import RawClient, over_stdio

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100)
WORDED = {"read_file", "grep", "ls", "tree", "glob", "diff", "history"}
GIVEN = {
    "read_file": {"path": "a.txt"}, "grep": {"pattern": "two"}, "ls": {}, "tree": {},
    "glob": {"pattern": "*"}, "diff": {"path": "a.txt"}, "history": {"path": "a.txt"},
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "p.png").write_bytes(PNG)
    return place


@pytest.mark.spec("MCP-1", "TOOL-3")
@pytest.mark.parametrize("structured", [False, True])
async def test_text_alone_unless_the_object_is_asked_for(project, tmp_path, structured):
    async with over_stdio(project, state=tmp_path / "state", structured=structured) as client:
        for content in ("one\n", "two\n"):
            wrote = await client.call_tool("write_file", {"path": "a.txt", "content": content})
            assert wrote.structured_content["ok"], "a change has its object in any case"
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed.keys() >= WORDED
        for name in WORDED:
            result = await client.call_tool(name, GIVEN[name])
            assert not result.is_error
            assert (result.structured_content is not None) is structured, name
            assert (listed[name].output_schema is not None) is structured, name
            if not structured:
                [block] = result.content
                assert "\\n" not in block.text, "nothing is escaped"
                assert "two" in block.text or "a.txt" in block.text or "version" in block.text


@pytest.mark.spec("MCP-1", "TOOL-1")
async def test_a_picture_is_a_picture(project, tmp_path):
    async with over_stdio(project, state=tmp_path / "state", structured=False) as client:
        text, image = (await client.call_tool("read_file", {"path": "p.png"})).content
        assert "image/png" in text.text
        assert (image.type, image.mime_type) == ("image", "image/png")
        assert base64.b64decode(image.data) == PNG


@pytest.mark.spec("MCP-1")
def test_the_list_of_tools_is_small_with_six_roots(tmp_path):
    places = []
    for number in range(6):
        place = tmp_path / f"a-root-with-a-long-name-{number}"
        place.mkdir()
        places.append(place)
    with RawClient(*places, state=tmp_path / "state") as raw:
        result = raw.handshake().request("tools/list")["result"]
        told = json.loads(raw.tool("stat", path="x")["content"][0]["text"])
    assert len(result["tools"]) == 14
    assert len(msgspec.json.encode(result)) < 8 * 1024
    [named] = [
        tool["name"]
        for tool in result["tools"]
        if "enum" in tool["inputSchema"]["properties"]["root"]
    ]
    assert named == "ls"
    assert places[5].name in told["hint"], "whoever names none is told all"
