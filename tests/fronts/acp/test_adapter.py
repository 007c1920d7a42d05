"""The adapter in a client built on the real SDK, with a real agent at the other end."""

import asyncio
import contextlib
import json
import sys
import threading

import acp
import pytest
from acp.schema import ClientCapabilities

import bailiwick
from bailiwick.errors import KINDS
from bailiwick.fronts.acp.adapter import FileSystemAdapter
from bailiwick.fronts.acp.errors import rpc_error
from bailiwick.grant import User
from bailiwick.testing.front_contract import ROOT, story_house
from tests.fronts.acp.editors import SCRIPTED_AGENT, Editor
from tests.waiting import until


class ScopedEditor(Editor):
    """An editor whose files are a scope's."""

    def __init__(self, scope, *, asks=True):
        super().__init__()
        ask = self.request_permission if asks else None
        self.adapter = FileSystemAdapter(scope, request_permission=ask)
        self.read_text_file = self.adapter.read_text_file
        self.write_text_file = self.adapter.write_text_file
        self.ext_method = self.adapter.ext_method
        self.capabilities = ClientCapabilities(fs=self.adapter.capabilities)


@contextlib.asynccontextmanager
async def agent_of(editor):
    """The scripted agent, right behind an editor."""
    process = await asyncio.create_subprocess_exec(
        *SCRIPTED_AGENT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )  # fmt: skip
    connection = acp.connect_to_agent(editor, process.stdin, process.stdout)
    try:
        await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=editor.capabilities
        )
        session = await connection.new_session(cwd="/", mcp_servers=[])

        async def run(*script):
            await connection.prompt(
                prompt=[acp.text_block(json.dumps(script))], session_id=session.session_id
            )
            await until(lambda: editor.messages)
            return json.loads(editor.messages.pop().content.text)

        yield run
    finally:
        await connection.close()
        process.stdin.close()
        await process.wait()


@pytest.mark.spec("ACP-1", "ACP-2", "ASK-2")
async def test_a_client_of_the_sdk_serves_its_files_from_a_scope(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / ".env").write_text("KEY=1")
    async with bailiwick.open(tmp_path) as scope:
        editor = ScopedEditor(scope)
        async with agent_of(editor) as run:
            read, window, wrote, missing, outside, asked, empty = await run(
                ["read", f"{tmp_path}/a"],
                ["read", f"{tmp_path}/a", {"line": 2, "limit": 1}],
                ["write", f"{tmp_path}/b/c", "new"],
                ["read", f"{tmp_path}/none"],
                ["read", f"{tmp_path.parent}/x"],
                ["read", f"{tmp_path}/.env"],
                ["read", ""],
            )
        await editor.adapter.aclose()
    assert read == {"ok": "one\ntwo\n"}
    assert window == {"ok": "two\n"}
    assert wrote == {"ok": None}
    assert (tmp_path / "b/c").read_text() == "new"
    assert (missing["code"], missing["data"]["errorKind"]) == (-32603, "path_not_found")
    assert missing["data"]["status"] == 404
    assert outside["data"]["errorKind"] == "path_outside_workspace"
    assert asked == {"ok": "KEY=1"}
    assert len(editor.questions) == 1
    assert (empty["code"], empty["data"]["errorKind"]) == (-32602, "parse_error")


@pytest.mark.spec("ACP-1", "AUTH-5")
async def test_it_acts_as_an_agent_and_is_on_record(tmp_path):
    async with story_house(str(tmp_path)) as house:
        scope = await house.authority.request_root(User("local"), ROOT, {"write"}, "mine")
        adapter = FileSystemAdapter(scope, session="s7")
        await adapter.write_text_file("s", "/a", "x")
        records = await house.authority.ledger.tail(10)
        await adapter.aclose()
        await scope.aclose()
    [record] = [record for record in records if record.operation == "write"]
    assert (str(record.subject), record.front) == ("agent_run:acp/s7", "acp")


@pytest.mark.spec("ACP-2")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_kept(kind):
    error = KINDS[kind]("what happened", path="a", hint="do this", decided_by="rule")
    code, message, data = rpc_error(error)
    assert code == (-32602 if kind == "parse_error" else -32603)
    assert message == "what happened"
    assert data["errorKind"] == kind
    assert data["hint"] == "do this"
    assert data["status"] == error.status
    json.dumps(data)


@pytest.mark.spec("ACP-2")
async def test_other_exceptions_pass_untouched():
    class Broken(Exception):
        pass

    def fail(path):
        raise Broken

    async with bailiwick.open("memory:") as scope:
        adapter = FileSystemAdapter(scope)
        adapter._calls.place_of = fail
        with pytest.raises(Broken):
            await adapter.read_text_file("s", "/a")
        with pytest.raises(Broken):
            await adapter.write_text_file("s", "/a", "x")


@pytest.mark.spec("ACP-1")
async def test_a_blocking_scope_is_asked_about_on_the_clients_loop():
    """A scope that lives on another loop: its person is still asked where the client is."""
    here = threading.get_ident()
    asked = []

    async def request_permission(options, session_id, tool_call):
        asked.append(threading.get_ident())
        return acp.RequestPermissionResponse(
            outcome=acp.schema.AllowedOutcome(outcome="selected", option_id="allow_once")
        )

    with bailiwick.open_sync("memory:") as scope:
        scope.write_text(".env", "KEY=1")
        adapter = FileSystemAdapter(scope, request_permission=request_permission)
        got = await adapter.read_text_file("s", "/.env")
        await adapter.aclose()
    assert got.content == "KEY=1"
    assert asked == [here]


@pytest.mark.spec("PY-3")
def test_without_the_sdk_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "acp", None)
    with bailiwick.open_sync("memory:") as scope, pytest.raises(bailiwick.Unsupported) as refused:
        FileSystemAdapter(scope)
    assert refused.value.hint == "pip install 'bailiwick[acp]'"
