"""What the conformance suite of the protocol wants of a server, on the machinery of this one.

The suite calls tools and resources by names of its own, which a server of files does not have. So
there are two of them here. `Fixtures` is a service with those names behind the speakers of this
package; its resources are files in a root, read as any other. `Bridge` lets the suite, which knows
HTTP only, speak with what speaks over pipes.
"""

import asyncio
import base64
import json
import secrets

from bailiwick.fronts.mcp.completion import completion
from bailiwick.fronts.mcp.conversation import Conversation
from bailiwick.fronts.mcp.service import Service, server_info
from tests.fronts.mcp.clients import ENVELOPE

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
FILES = {
    "test://static-text": ("text.txt", b"This is the content of the static text resource.\n"),
    "test://static-binary": ("pixel.png", PIXEL),
    "test://template/123/data": ("template/123/data.json", b'{"id": "123"}\n'),
    "test://watched-resource": ("watched.txt", b"watched\n"),
}

_IMAGE = {
    "type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png",
}  # fmt: skip
_AUDIO = {"type": "audio", "data": base64.b64encode(b"RIFF").decode(), "mimeType": "audio/wav"}
_TEXT = {"type": "text", "text": "This is a simple text response for testing."}
_RESOURCE = {
    "type": "resource",
    "resource": {"uri": "test://embedded", "mimeType": "text/plain", "text": "embedded"},
}

ANSWERS = {
    "test_simple_text": [_TEXT],
    "test_image_content": [_IMAGE],
    "test_audio_content": [_AUDIO],
    "test_embedded_resource": [_RESOURCE],
    "test_multiple_content_types": [_TEXT, _IMAGE, _RESOURCE],
}

_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
_PLAIN = ["option1", "option2", "option3"]
_DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {
        "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
    },
    "verified": {"type": "boolean", "default": True},
}  # fmt: skip
_ENUMS = {
    "untitledSingle": {"type": "string", "enum": _PLAIN},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": _PLAIN, "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _PLAIN}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}
FORMS = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": _DEFAULTS,
    "test_elicitation_sep1330_enums": _ENUMS,
}

_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "address", "type": "object", "properties": {"city": {"type": "string"}},
        },
    },
    "properties": {"address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["address"]}, {}]}],
    "if": {"required": ["address"]}, "then": {"minProperties": 1}, "else": {"maxProperties": 0},
    "additionalProperties": False,
}  # fmt: skip

_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
INPUTS = {
    "test_input_required_result_elicitation": ("user_name", None),
    "test_input_required_result_request_state": ("confirm", "a state of the server"),
}
"""Tools that end with a question in the current dialect: its name, and the state to come back."""


def plant(place):
    """Put the files there that the suite asks for."""
    for name, content in FILES.values():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)


class Fixtures(Service):
    """A service with the suite's names. Files are read, followed and told as ever."""

    def __init__(self, boxes):
        super().__init__(boxes)
        names = [*ANSWERS, *FORMS, *INPUTS, "test_error_handling"]
        self.tools = [_tool(name, {"type": "object"}) for name in names]
        self.tools.append(_tool("json_schema_2020_12_tool", _SCHEMA))

    async def call_tool(self, peer, name, arguments, again, wait_s=0.0):
        if name in ANSWERS:
            return {"content": ANSWERS[name], "isError": False}
        if name in FORMS:
            schema = {"type": "object", "properties": FORMS[name], "required": []}
            asked = {"message": (arguments or {}).get("message", "?"), "requestedSchema": schema}
            return {"content": [_said(await peer.elicit(asked))], "isError": False}
        if name in INPUTS:
            return _asked_back(*INPUTS[name], again)
        if name == "test_error_handling":
            return {"content": [_said("this tool always fails")], "isError": True}
        return await super().call_tool(peer, name, arguments, again, wait_s)

    async def complete(self, template, name, typed, known, *, modern):
        if template is None:
            return completion([f"{typed}ed"])
        return await super().complete(template, name, typed, known, modern=modern)

    def resource(self, uri):
        return super().resource(f"bailiwick:///w/{FILES[uri][0]}" if uri in FILES else uri)


def _tool(name, schema):
    return {"name": name, "description": "for the conformance suite", "inputSchema": schema}


def _asked_back(key, state, again):
    answer = (again.input_responses or {}).get(key)
    if isinstance(answer, dict) and again.request_state == state:
        return {"content": [_said({"state-ok": answer})], "isError": False}
    form = {"message": "Who is it?", "requestedSchema": _NAME}
    asked = {key: {"method": "elicitation/create", "params": form}}
    told = {"resultType": "input_required", "inputRequests": asked}
    return told if state is None else {**told, "requestState": state}


def _said(value):
    return {"type": "text", "text": json.dumps(value)}


class Bridge:
    """An ASGI application: each session is one conversation as it is had over pipes, and in the
    current dialect each request.

    A request is answered by a stream that holds all that the other side says until it has answered,
    so that its own questions arrive while the client waits.
    """

    def __init__(self, service):
        self._service = service
        self._sessions = {}

    async def __call__(self, scope, receive, send):
        headers = dict(scope["headers"])
        session = self._sessions.get(headers.get(b"mcp-session-id", b"").decode())
        if scope["method"] == "DELETE" and session is not None:
            await session.conversation.aclose()
            await _reply(send, 200)
        elif scope["method"] != "POST":
            await _reply(send, 405)
        else:
            message = json.loads(await _body(receive))
            gone = asyncio.ensure_future(receive())
            try:
                await self._take(message, session, send, gone)
            finally:
                gone.cancel()

    async def _take(self, message, session, send, gone):
        if session is not None:
            await session.take(message, send, gone)
        elif message.get("method") == "initialize":
            session = _Session(self._service)
            self._sessions[session.id] = session
            await session.take(message, send, gone)
        else:
            session = _Session(self._service)
            discover = {"method": "server/discover", "params": {"_meta": ENVELOPE}}
            session.conversation.receive(json.dumps({**_FIRST, **discover}).encode())
            try:
                await session.take(message, send, gone)
            finally:
                await session.conversation.aclose()

    async def aclose(self):
        for session in self._sessions.values():
            await session.conversation.aclose()


_FIRST = {"jsonrpc": "2.0", "id": "the current dialect is spoken"}


class _Session:
    def __init__(self, service):
        self.id = secrets.token_hex(8)
        self.conversation = Conversation(service, self._said, server_info())
        self._streams = {}

    def _said(self, line):
        message = json.loads(line)
        # What is no answer goes to whoever asked last.
        owner = next(reversed(self._streams), None) if "method" in message else message.get("id")
        if owner in self._streams:
            self._streams[owner].put_nowait(message)

    async def take(self, message, send, gone):
        """Pass a message on, and what is said to it, until it is answered or the client is gone."""
        asks = "method" in message and "id" in message
        if asks:
            stream = self._streams[message["id"]] = asyncio.Queue()
        self.conversation.receive(json.dumps(message).encode())
        if not asks:
            await _reply(send, 202)
            return
        kind = [(b"content-type", b"text/event-stream"), (b"mcp-session-id", self.id.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        said = {"method": "nothing yet"}
        while "method" in said and not gone.done():
            heard = asyncio.ensure_future(stream.get())
            await asyncio.wait((heard, gone), return_when=asyncio.FIRST_COMPLETED)
            if not heard.done():
                heard.cancel()
                break
            said = heard.result()
            data = b"event: message\ndata: " + json.dumps(said).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": data, "more_body": True})
        del self._streams[message["id"]]
        await send({"type": "http.response.body", "body": b""})


async def _body(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _reply(send, status):
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})
