"""Completing the path of an address: what a client may list, and nothing it may not know of."""

import contextlib

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from bailiwick.build.governed import Authority
from bailiwick.fronts.mcp.addresses import TEMPLATE, parse_address
from bailiwick.grant import AgentRun, User
from tests.fronts.mcp.clients import RawClient, over_http, over_stdio, served, token_for

AGENT = AgentRun("test", "1")
REF = ResourceTemplateReference(uri=TEMPLATE)

CONFIG = """\
[state]
path = "state"

[[root]]
id = "w"
kind = "workspace"
path = "project"
trusted = true

[[rule]]
path = ["secret-drafts", "sub/secret*"]
effect = "hide"

[[rule]]
operation = ["list"]
path = ["vault"]
effect = "ask"

[[rule]]
operation = ["list"]
path = ["closed"]
effect = "deny"

[[grant]]
subject = "agent_run:*"
root = "workspace:w"
access = ["read", "list", "metadata"]
"""

FILES = (
    "a.txt", "secret-drafts/plan.md", "sub/secret.txt", "sub/seen.txt", "sub/deep/x.txt",
    "vault/gold.txt", "closed/door.txt", "odd/50% ?#&.txt", "odd/é.txt",
)  # fmt: skip


@pytest.fixture
def config(tmp_path):
    for name in FILES:
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n")
    (tmp_path / "outside-secret").mkdir()
    (tmp_path / "outside-secret" / "key").write_text("x\n")
    (tmp_path / "project" / "way-out").symlink_to(tmp_path / "outside-secret")
    file = tmp_path / "bailiwick.toml"
    file.write_text(CONFIG)
    return file


@contextlib.asynccontextmanager
async def by_pipes(config, mode):
    state = config.parent / "state"
    async with over_stdio("--config", config, state=state, mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def by_http(config, mode):
    async with Authority.from_config(config, str(config.parent / "state")) as authority:
        secret = await token_for(authority, AGENT)
        async with served(authority) as url, over_http(url, secret, mode=mode) as client:
            yield client


WAYS = [
    pytest.param(way, mode, id=f"{way.__name__} {mode}")
    for way in (by_pipes, by_http)
    for mode in ("legacy", "auto")
]


async def completed(client, text, name="path", **known):
    result = await client.complete(REF, {"name": name, "value": text}, known or None)
    return result.completion


@pytest.mark.spec("MCP-1")
@pytest.mark.parametrize(("way", "mode"), WAYS)
async def test_a_path_is_completed_by_what_may_be_listed(config, way, mode):
    async with way(config, mode) as client:
        assert client.server_capabilities.completions is not None
        found = await completed(client, "")
        assert found.values == ["a.txt", "closed/", "odd/", "sub/", "vault/", "way-out"]
        assert (found.total, found.has_more) == (6, False)
        assert (await completed(client, "s")).values == ["sub/"]
        assert (await completed(client, "sub/")).values == ["sub/deep/", "sub/seen.txt"]
        assert (await completed(client, "sub/de", root="w")).values == ["sub/deep/"]
        assert (await completed(client, "", name="root")).values == ["w"]
        assert (await completed(client, "z", name="root")).values == []
        assert (await completed(client, "1", name="offset")).values == []


@pytest.mark.spec("MCP-1")
async def test_what_is_completed_makes_an_address_that_can_be_read(config):
    """The template takes what is given as it is, so marks of an address in a name are escaped."""
    async with by_pipes(config, "auto") as client:
        found = await completed(client, "odd/")
        assert len(found.values) == 2
        for value in found.values:
            uri = TEMPLATE.partition("{?")[0].replace("{root}", "w").replace("{+path}", value)
            [content] = (await client.read_resource(uri)).contents
            assert content.text == "x\n"
            assert parse_address(content.uri).path in FILES
        assert (await completed(client, "odd/%C3%A9")).values == ["odd/%C3%A9.txt"]
        assert (await completed(client, "odd/é")).values == ["odd/%C3%A9.txt"]


NOTHING = (
    "secret", "secret-drafts/", "secret-drafts/p", "sub/sec", "closed/", "closed/d", "vault/",
    "vault/g", "way-out/", "way-out/k", "../", "../outside", "/", "//", "sub/../../outside",
    "none/", "a.txt/", "\0", "sub/\0/", "x" * 5_000 + "/", "%00/", "%2e%2e/", "..%2f", "%ff/",
    "sub/" * 400,
)  # fmt: skip


@pytest.mark.spec("MCP-1", "POL-1", "AUTH-2")
@pytest.mark.parametrize(("way", "mode"), WAYS)
async def test_nothing_is_told_that_could_not_be_listed(config, way, mode):
    """What is hidden, refused, asked about, outside or not there: all of it is no completion, so
    that one cannot be told from the other."""
    async with way(config, mode) as client:
        for text in NOTHING:
            found = await completed(client, text)
            assert (found.values, found.total, found.has_more) == ([], 0, False), text


@pytest.mark.spec("MCP-1", "ASK-1")
async def test_typing_puts_no_question_to_anybody(config):
    """Also where whoever types could be asked, and where listing would ask."""
    async with Authority.from_config(config, str(config.parent / "state")) as authority:
        secret = await token_for(authority, AGENT)

        async def asked(*_):
            raise AssertionError("a person was asked because somebody typed")

        async with (
            served(authority) as url,
            over_http(url, secret, mode="legacy", elicitation_callback=asked) as client,
        ):
            assert (await completed(client, "vault/")).values == []
            assert authority.approvals.pending() == []


@pytest.mark.spec("MCP-1", "AUTH-2", "AUDIT-1")
async def test_a_grant_for_a_part_completes_that_part_and_is_on_record(tmp_path, config):
    async with Authority.open(state_dir=None) as authority:
        await authority.add_root("workspace:w", str(tmp_path / "project"), trusted=True)
        await authority.add_grant(
            subject=str(AGENT), root="workspace:w", access=("read", "list"), path="sub",
            by=User("local"),
        )  # fmt: skip
        secret = await token_for(authority, AGENT)
        async with served(authority) as url, over_http(url, secret) as client:
            for text in ("a", "odd/", "vault/"):
                assert (await completed(client, text)).values == []
            assert "sub/seen.txt" in (await completed(client, "sub/")).values
        listed = [each for each in await authority.ledger.tail(20) if each.verb == "list"]
        assert {(str(each.subject), each.front) for each in listed} == {(str(AGENT), "mcp")}
        assert [each.outcome for each in listed if str(each.path) == "sub"] == ["success"]
        assert len(listed) >= 3, "what was refused is on record too"


@pytest.mark.spec("MCP-1", "POL-1")
async def test_a_crowd_of_hidden_names_is_neither_told_nor_in_the_way(config):
    crowd = config.parent / "project" / "sub"
    for number in range(4_100):
        (crowd / f"secret{number}").touch()
    async with by_pipes(config, "auto") as client:
        found = await completed(client, "sub/se")
        assert (found.values, found.total, found.has_more) == (["sub/seen.txt"], 1, False)
        assert (await completed(client, "sub/secret")).total == 0


@pytest.mark.spec("MCP-1", "TREE-7")
async def test_a_large_directory_is_bounded_and_says_so(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    for number in range(12_001):
        (place / f"f{number:05}").touch()
    async with over_stdio(place, state=tmp_path / "state") as client:
        found = await completed(client, "f")
        assert len(found.values) == 100
        assert found.has_more
        assert found.total is None, "nobody looked at all of them"
        assert (await completed(client, "f0012")).values == [f"f0012{n}" for n in range(10)]
        assert (await completed(client, "f11")).values == [], "beyond what is looked at"
        assert (await completed(client, "f11")).has_more


@pytest.mark.spec("MCP-1")
async def test_of_several_roots_one_has_to_be_known(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
    async with over_stdio(tmp_path / "one", tmp_path / "two", state=tmp_path / "s") as client:
        assert (await completed(client, "", name="root")).values == ["one", "two"]
        assert (await completed(client, "", root="two")).values == ["two.txt"]
        assert (await completed(client, "")).values == []
        assert (await completed(client, "", root="three")).values == []


@pytest.mark.spec("MCP-1")
@pytest.mark.parametrize(("way", "mode"), WAYS)
async def test_what_has_no_completions_is_refused(config, way, mode):
    async with way(config, mode) as client:
        for ref in (PromptReference(name="x"), ResourceTemplateReference(uri="other:{path}")):
            with pytest.raises(MCPError) as refused:
                await client.complete(ref, {"name": "path", "value": ""})
            assert refused.value.error.code == -32602


@pytest.mark.spec("MCP-1")
def test_without_resources_there_is_nothing_to_complete(tmp_path):
    (tmp_path / "project").mkdir()
    with RawClient(tmp_path / "project", "--tools", "stat", state=tmp_path / "s") as client:
        client.handshake()
        asked = {"ref": {"type": "ref/resource", "uri": TEMPLATE},
                 "argument": {"name": "path", "value": ""}}  # fmt: skip
        assert client.request("completion/complete", asked)["error"]["code"] == -32601
