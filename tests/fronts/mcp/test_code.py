"""Code over MCP: the official client runs it, where an agent was granted that."""

import pytest

from bailiwick.sandboxes.bubblewrap import Bubblewrap
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
access = ["read", "list", "metadata", "write", "execute"]

[[rule]]
id = "code"
command = ["bailiwick.code"]
effect = "allow"
"""


@pytest.mark.spec("CODE-1", "CODE-2", "MCP-1")
async def test_the_official_client_runs_code(tmp_path):
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("one\n")
    config = tmp_path / "bailiwick.toml"
    config.write_text(CONFIG)
    async with over_stdio("--config", config, state=tmp_path / "state") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        marks = tools["run_code"].annotations
        assert (marks.read_only_hint, marks.destructive_hint) == (False, True)
        source = "print('on')\nstate.edit('a.txt', old='one', new='two').replacements"
        result = await client.call_tool("run_code", {"source": source})
        answer = told(result)
        assert (inner(answer["output"]), inner(answer["value"])) == ("on\n", "1")
        assert result.content[0].text == answer["output"], "what it printed comes first, as it is"
        assert (tmp_path / "project" / "a.txt").read_text() == "two\n"
        undone = await client.call_tool("undo", {"request": answer["requestId"]})
        assert told(undone)["ok"]
        assert (tmp_path / "project" / "a.txt").read_text() == "one\n"
    async with over_stdio("--config", config, "--read-only", state=tmp_path / "state") as client:
        assert "run_code" not in {tool.name for tool in (await client.list_tools()).tools}
