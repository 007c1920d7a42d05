"""Over pipes the protocol is spoken here; the SDK, behind the same service, says the same."""

import asyncio
import contextlib
import json

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bailiwick.build.served import named_places, open_served
from bailiwick.fronts.mcp import sdk_server
from bailiwick.fronts.mcp.addresses import TEMPLATE
from bailiwick.fronts.mcp.conversation import Conversation
from bailiwick.fronts.mcp.service import server_info
from bailiwick.fronts.mcp.workspaces import WantedService, open_service
from bailiwick.grant import User
from tests.fronts.mcp.clients import ENVELOPE, HANDSHAKE

OTHER_VERSION = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2029-01-01"}
HALF = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
URI = "bailiwick:///project/a.txt"
TEMPLATE_REF = {"type": "ref/resource", "uri": TEMPLATE}

REQUESTS = [
    ("tools/list", {}),
    ("tools/list", {"cursor": 5}),
    ("tools/call", {"name": "stat", "arguments": {"path": "a.txt"}}),
    ("tools/call", {"name": "ls"}),
    ("tools/call", {"name": "stat", "arguments": {"path": "none"}}),
    ("tools/call", {"name": "stat", "arguments": {"wrong": 1}}),
    ("tools/call", {"name": "nonsense"}),
    ("tools/call", {}),
    ("tools/call", {"name": 5}),
    ("resources/list", {}),
    ("resources/list", {"cursor": "nonsense"}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": URI}),
    ("resources/read", {"uri": URI + "?offset=1&length=2"}),
    ("resources/read", {"uri": "bailiwick:///project"}),
    ("resources/read", {"uri": "bailiwick:///project/none"}),
    ("resources/read", {"uri": "ftp://elsewhere/passwd"}),
    ("resources/read", {}),
    ("completion/complete", {"ref": TEMPLATE_REF, "argument": {"name": "path", "value": "a"}}),
    ("completion/complete", {"ref": TEMPLATE_REF, "argument": {"name": "root", "value": ""}}),
    ("completion/complete", {"ref": TEMPLATE_REF, "argument": {"name": "path", "value": ""},
                             "context": {"arguments": {"root": "none"}}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"},
                             "argument": {"name": "path", "value": ""}}),
    ("completion/complete", {"ref": {"type": "nonsense"}, "argument": {"name": "", "value": ""}}),
    ("completion/complete", {"ref": TEMPLATE_REF, "argument": {"name": "path", "value": 5}}),
    ("completion/complete", {"ref": TEMPLATE_REF}),
    ("ping", {}),
    ("server/discover", {}),
    ("nonsense", {}),
    ("prompts/list", {}),
    ("logging/setLevel", {"level": "info"}),
    ("initialize", {}),
]  # fmt: skip

HANDSHAKES = [
    ("initialize", HANDSHAKE),
    ("initialize", {**HANDSHAKE, "protocolVersion": "2025-06-18"}),
    ("initialize", {**HANDSHAKE, "protocolVersion": "1999-01-01"}),
]


def conversations():
    for first in HANDSHAKES:
        yield pytest.param(
            [first, *REQUESTS, ("tools/list", {"_meta": ENVELOPE})],
            id=f"handshake {first[1]['protocolVersion']}",
        )
    yield pytest.param([("tools/list", {}), ("ping", {}), *HANDSHAKES], id="handshake late")
    yield pytest.param(
        [
            ("server/discover", {"_meta": ENVELOPE}),
            *((method, {**params, "_meta": ENVELOPE}) for method, params in REQUESTS),
            ("tools/list", {}), ("tools/list", {"_meta": HALF}),
            ("tools/list", {"_meta": OTHER_VERSION}), HANDSHAKES[0],
        ],
        id="envelope",
    )  # fmt: skip
    yield pytest.param([("tools/list", {"_meta": OTHER_VERSION})], id="another version")


@pytest.mark.spec("MCP-1")
@pytest.mark.parametrize("requests", list(conversations()))
async def test_both_say_the_same(tmp_path, monkeypatch, requests):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("hello\n")
    places = named_places([str(tmp_path / "project")])
    async with (
        open_served(places, None, str(tmp_path / "state"), history="off") as authority,
        open_service(authority, WantedService(User("local"), "s")) as service,
    ):
        monkeypatch.setattr(sdk_server, "_service", lambda context: service)
        messages = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(requests, 1)
        ]
        ours, theirs = await _ours(service, messages), await _theirs(messages)
    for message in messages:
        said, expected = ours[message["id"]], theirs[message["id"]]
        assert _comparable(said) == _comparable(expected), message


async def _ours(service, messages):
    said = asyncio.Queue()
    conversation = Conversation(service, said.put_nowait, server_info())
    answers = {}
    for message in messages:
        conversation.receive(json.dumps(message).encode())
        answer = json.loads(await said.get())
        answers[answer["id"]] = answer
    await conversation.aclose()
    return answers


async def _theirs(messages):
    server = sdk_server.create_server(asyncio.Event())
    to_server, incoming = anyio.create_memory_object_stream(10)
    outgoing, from_server = anyio.create_memory_object_stream(10)
    answers = {}
    with to_server, incoming, outgoing, from_server:
        running = asyncio.create_task(
            server.run(incoming, outgoing, server.create_initialization_options())
        )
        for message in messages:
            text = json.dumps(message)
            await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(text)))
            answer = (await from_server.receive()).message.model_dump(
                by_alias=True, exclude_unset=True, mode="json"
            )
            answers[answer["id"]] = answer
        to_server.close()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return answers


def _comparable(answer):
    """What must agree. Instructions are for one caller here and for all there; what an error of
    the protocol says in words may differ where its code does not."""
    if "error" in answer:
        return answer["error"]["code"]
    result = dict(answer["result"])
    result.pop("instructions", None)
    return result


@pytest.mark.spec("MCP-3")
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "envelope"])
async def test_an_answer_that_no_message_can_hold_is_an_error_and_not_silence(
    tmp_path, monkeypatch, modern
):
    (tmp_path / "tree").mkdir()
    places = named_places([str(tmp_path / "tree")])
    meta = {"_meta": ENVELOPE} if modern else {}
    begin = (
        [] if modern else [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}]
    )
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": meta}
    async with (
        open_served(places, None, str(tmp_path / "state"), history="off") as authority,
        open_service(authority, WantedService(User("local"), "s")) as service,
    ):
        monkeypatch.setattr(service, "list_tools", lambda: {"tools": [object()]})
        answers = await _ours(service, [*begin, asked])
    assert answers[1]["error"]["code"] == -32603
