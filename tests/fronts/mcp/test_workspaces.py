"""Which roots a client gets, and as whom: by places, by a configuration, by both."""

import pytest

from bailiwick import AgentRun, Authority, User
from bailiwick.fronts.mcp import workspaces
from bailiwick.fronts.mcp.workspaces import WantedService
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS
from tests.fronts.mcp.clients import RawClient, over_stdio, told

CONFIG = """\
[state]
path = "state"

[[root]]
id = "granted"
kind = "workspace"
path = "granted"
trusted = true

[[root]]
id = "kept"
kind = "workspace"
path = "kept"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:granted"
access = ["read", "list", "metadata"]
"""


@pytest.fixture
def config(tmp_path):
    for name in ("granted", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"{name}\n")
    file = tmp_path / "bailiwick.toml"
    file.write_text(CONFIG)
    return file


@pytest.mark.spec("MCP-1", "AUTH-2")
async def test_a_configuration_gives_agents_what_it_grants(config):
    async with over_stdio("--config", config, state=config.parent / "state") as client:
        assert "granted" in told(await client.call_tool("read_file", {"path": "a.txt"}))["text"]
        refused = told(await client.call_tool("write_file", {"path": "a.txt", "content": "x"}))
        assert refused["errorKind"] == "missing_access"


@pytest.mark.spec("MCP-1", "AUTH-2")
async def test_a_root_that_is_named_is_passed_on_by_the_person(config):
    given = ("--config", config, "workspace:kept")
    async with over_stdio(*given, state=config.parent / "state") as client:
        wrote = told(await client.call_tool("write_file", {"path": "b.txt", "content": "x"}))
        assert wrote["ok"]
    assert (config.parent / "kept" / "b.txt").read_text() == "x"


@pytest.mark.spec("MCP-1", "AUTH-2")
async def test_naming_a_root_gives_no_more_than_what_was_granted(config):
    given = ("--config", config, "workspace:granted")
    async with over_stdio(*given, state=config.parent / "state") as client:
        refused = told(await client.call_tool("write_file", {"path": "a.txt", "content": "x"}))
        assert refused["errorKind"] == "missing_access"


@pytest.mark.spec("EXEC-1", "MCP-1")
async def test_a_model_may_run_programs_only_where_the_configuration_grants_it(config):
    config.write_text(CONFIG.replace('"metadata"]', '"metadata", "execute"]'))
    async with Authority.from_config(config, str(config.parent / "state")) as authority:

        async def held(subject, root, **how):
            wanted = WantedService(subject, "s", **how)
            return (await workspaces._scope(authority, wanted, f"workspace:{root}")).access

        agent, person = AgentRun("mcp", "s"), User("local")
        assert "execute" in await held(agent, "granted")
        assert await held(agent, "granted", most=workspaces.LOOKING) == {"read", "list", "metadata"}
        assert await held(person, "kept") == FILE_ACCESS
        await authority.add_grant(
            subject="user:local", root="workspace:kept", access=ALL_ACCESS, by=person
        )
        assert await held(person, "kept") == ALL_ACCESS


@pytest.mark.spec("MCP-1")
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (["workspace:nowhere"], "root_not_found"),
        (["workspace:kept", "workspace:granted"], "parse_error"),
    ],
)
def test_what_cannot_be_served_is_said(config, given, kind):
    with RawClient("--config", config, *given) as raw:
        raw.process.wait(120)
    assert raw.code == 1
    assert raw.errors.startswith(kind)


@pytest.mark.spec("MCP-1")
def test_a_configuration_that_grants_agents_nothing_serves_nothing(config):
    config.write_text(CONFIG.partition("[[grant]]")[0])
    with RawClient("--config", config) as raw:
        raw.process.wait(120)
    assert raw.code == 1
    assert raw.errors.startswith("missing_access")


@pytest.mark.spec("MCP-1", "AUDIT-1")
async def test_the_session_is_on_record(config):
    state = config.parent / "state"
    given = ("--config", config, "--session", "monday")
    async with over_stdio(*given, state=state) as client:
        await client.call_tool("read_file", {"path": "../outside"})
    from bailiwick.build.governed import Authority

    async with Authority.from_config(str(config)) as authority:
        records = await authority.ledger.tail(20)
    assert "agent_run:mcp/monday" in {str(record.subject) for record in records}
