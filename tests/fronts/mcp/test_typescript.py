"""The TypeScript SDK's client against this server."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from bailiwick.testing.front_contract import SUBJECT, story_house
from tests.fronts.mcp.clients import command, inner, served, token_for
from tests.fronts.mcp.npm import installed

HERE = Path(__file__).parent


@pytest.fixture
def modules():
    found = installed()
    if isinstance(found, str):
        print(found)
        pytest.skip(found)
    return found


async def run(*arguments):
    process = await asyncio.create_subprocess_exec(
        *map(str, arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, (out + errors).decode()[-3_000:]
    return out.decode()


@pytest.mark.slow
@pytest.mark.spec("MCP-1", "MCP-2", "MCP-3")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_the_typescript_client_is_served(tmp_path, modules, way):
    script = tmp_path / "client.mjs"
    shutil.copy(HERE / "client.mjs", script)
    (tmp_path / "node_modules").symlink_to(modules)
    async with story_house(str(tmp_path)) as house:
        if way == "stdio":
            target = json.dumps(command("--config", house.config, "--structured"))
            told = json.loads(await run("node", script, way, target))
        else:
            secret = await token_for(house.authority, SUBJECT)
            async with served(house.authority) as url:
                told = json.loads(
                    await run("node", script, way, f"{url}/mcp?structured=true", secret)
                )
    assert told["server"] == "bailiwick"
    assert len(told["tools"]) == 14
    assert told["written"]["created"]
    assert inner(told["read"]["text"]) == "hello\n"
    assert told["missing"]["isError"]
    assert "file_too_large" in told["large"]["content"][0]["text"]
    assert told["reviewed"]["ok"]
    assert "reviewed/x" in told["asked"][0]
    assert told["resources"] == ["bailiwick:///story/reviewed", "bailiwick:///story/ts"]
    assert told["content"][0]["text"] == "hello\n"
