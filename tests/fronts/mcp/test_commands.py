"""Programs over MCP: the official client runs one, where an agent was granted that."""

import pytest
from mcp_types import ElicitResult

from bailiwick.toolbox import ALL_OPERATIONS, BASE_OPERATIONS, HISTORY_OPERATIONS
from tests.fronts.mcp.clients import inner, over_stdio, told

CONFIG = """\
[state]
path = "state"

[[root]]
id = "demo"
kind = "workspace"
path = "project"
trusted = true
history = "on"

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete", "move", "execute"]
"""


pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture
def config(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    file = tmp_path / "bailiwick.toml"
    file.write_text(CONFIG)
    return file


@pytest.mark.spec("EXEC-10", "MCP-1", "MCP-2")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_runs_a_command_that_its_person_has_seen(config, mode):
    asked = []

    async def person(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "once"})

    project = config.parent / "project"
    async with over_stdio(
        "--config", config, state=config.parent / "state", mode=mode, elicitation_callback=person
    ) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == list(ALL_OPERATIONS)
        marks = tools["run_command"].annotations
        assert (marks.read_only_hint, marks.destructive_hint) == (False, True)
        result = await client.call_tool("run_command", {"command": "cat a.txt; echo two > a.txt"})
        answer = told(result)
        assert inner(answer["output"]) == "one\n"
        assert answer["exitCode"] == 0
        assert answer["changes"] == [{"path": "a.txt", "kind": "updated"}]
        assert result.content[0].text == answer["output"], "what it printed comes first, as it is"
        [question] = asked
        assert "cat a.txt; echo two > a.txt" in question
        assert (project / "a.txt").read_text() == "two\n"
        undone = await client.call_tool("undo", {"request": answer["requestId"]})
        assert told(undone)["ok"]
        assert (project / "a.txt").read_text() == "one\n"


@pytest.mark.spec("EXEC-10", "MCP-1")
async def test_without_a_grant_of_it_or_to_read_only_there_is_no_such_tool(config, tmp_path):
    project, state = config.parent / "project", tmp_path / "other"
    async with over_stdio(
        "--config", config, "--read-only", state=config.parent / "state"
    ) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"read_file", "ls", "glob", "grep", "stat", "history", "diff", "tree"}
    async with over_stdio(project, state=state) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [*BASE_OPERATIONS, *HISTORY_OPERATIONS]
