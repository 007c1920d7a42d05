"""One client over two pipes, in whichever dialect it begins.

Every request is answered, also one that cannot be understood; nothing that a client sends ends the
conversation but the end of its input.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

import msgspec

from bailiwick.first_step import BeginsAtOnce
from bailiwick.fronts.mcp import json_rpc
from bailiwick.fronts.mcp.json_rpc import RequestId, RpcRefusal, can_elicit, no_method, wrong_params
from bailiwick.fronts.mcp.pipes import LongLine
from bailiwick.fronts.mcp.service import Service
from bailiwick.fronts.mcp.subscriptions import Listening, Subscriptions
from bailiwick.fronts.mcp.workspaces import wait_of

_log = logging.getLogger("bailiwick.mcp")

REQUESTS_MAX: Final = 256
"""Requests under way at once: each may hold a message and an answer."""

CLOSE_SECONDS_MAX: Final = 5.0
"""How long work that was begun may go on when the client has gone."""

_decoder = msgspec.json.Decoder(json_rpc.Incoming)

_ID = rb'"id"\s*:\s*(-?[0-9]{1,18}|"(?:[^"\\]|\\.){0,200}")(?=\s*[,}])'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class Method(NamedTuple):
    """A request that can be made: what it takes, in which dialects it is known."""

    takes: type[json_rpc.Params]
    run: Callable[[Any, Any, Any], Awaitable[dict[str, Any]]]
    handshake: bool = True
    envelope: bool = True
    of_resources: bool = False


class Client:
    """The other side of one request."""

    __slots__ = ("_conversation", "can_elicit", "id", "modern")

    def __init__(
        self, conversation: Conversation, request_id: RequestId, *, modern: bool, elicits: bool
    ) -> None:
        self._conversation = conversation
        self.id = request_id
        self.modern = modern
        self.can_elicit = elicits

    async def elicit(self, form: dict[str, Any]) -> Any:
        return await self._conversation.ask("elicitation/create", form)


class Conversation:
    """What was said so far, and what is under way."""

    def __init__(
        self, service: Service, send: Callable[[bytes], None], server_info: dict[str, Any]
    ) -> None:
        self._service = service
        self._send = send
        self._info = server_info
        self._modern: bool | None = None
        self._initialized = False
        self._elicits = False
        self._under_way: dict[RequestId, asyncio.Task[None]] = {}
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._asked_count = 0
        self._subscriptions = Subscriptions(service, self.notify)
        self.closing = asyncio.Event()

    # --- what comes ------------------------------------------------------------------------

    def receive(self, line: bytes | LongLine) -> None:
        """Take one message. Whatever is wrong with it, the client is told."""
        if isinstance(line, LongLine):
            why = f"this message has {line.size} bytes, which is too much"
            self._refuse(_id_of(line), RpcRefusal(json_rpc.INVALID_REQUEST, why))
            return
        if not line or line.isspace():
            return
        try:
            message = _decoder.decode(line)
        except (msgspec.ValidationError, UnicodeDecodeError):
            self._refuse(_id_in(line), RpcRefusal(json_rpc.INVALID_REQUEST, "Invalid request"))
            return
        except (msgspec.DecodeError, RecursionError):
            self._refuse(_id_in(line), RpcRefusal(json_rpc.PARSE_ERROR, "Parse error"))
            return
        self._route(message)

    def _route(self, message: json_rpc.Incoming) -> None:
        given_id, method = message.id, message.method
        if message.jsonrpc != "2.0" or not message.is_sensible:
            known = None if isinstance(given_id, msgspec.UnsetType) else given_id
            self._refuse(known, RpcRefusal(json_rpc.INVALID_REQUEST, "Invalid request"))
        elif isinstance(method, msgspec.UnsetType):
            self._answered(message)
        elif isinstance(given_id, msgspec.UnsetType):
            self._notified(method, message.params)
        else:
            assert given_id is not None
            self._requested(given_id, method, message.params)

    def _requested(self, request_id: RequestId, method: str, params: Any) -> None:
        if request_id in self._under_way:
            why = "a request with this id is under way already"
            self._refuse(request_id, RpcRefusal(json_rpc.INVALID_REQUEST, why))
            return
        if len(self._under_way) >= REQUESTS_MAX:
            busy = RpcRefusal(
                json_rpc.INTERNAL_ERROR, "too many requests at once",
                {"errorKind": "busy", "hint": "wait for answers first"},
            )  # fmt: skip
            self._refuse(request_id, busy)
            return
        try:
            client, work = self._begun(request_id, method, params)
        except RpcRefusal as refusal:
            self._refuse(request_id, refusal)
            return
        if work is not None:
            task = _begin(self._answer(client, method, work))
            if not task.done():
                self._under_way[request_id] = task
                task.add_done_callback(lambda _: self._under_way.pop(request_id, None))

    def _begun(
        self, request_id: RequestId, method: str, params: Any
    ) -> tuple[Client, Awaitable[dict[str, Any]] | None]:
        """Understand a request; what the answer waits for, or None where it is given already."""
        known = _METHODS.get(method)
        given = _read(json_rpc.Params if known is None else known.takes, params)
        meta = None if given is None else given.meta
        if given is None:
            # What is wrong with them may stand beside an envelope that is right.
            bare = _read(json_rpc.Params, params)
            meta = None if bare is None else bare.meta
        enveloped = meta is not None and json_rpc.VERSION_KEY in meta
        if self._modern is None:
            self._modern = method != "initialize" and enveloped
        client = Client(self, request_id, modern=self._modern, elicits=self._elicits)
        if method == "initialize":
            # At once, so that what comes in the same breath finds the handshake done.
            self._send(json_rpc.result_line(request_id, self._initialize(params)))
            return client, None
        if self._modern:
            client.can_elicit = can_elicit(json_rpc.capabilities_in(meta))
        elif enveloped:
            raise RpcRefusal(
                json_rpc.INVALID_REQUEST,
                "this connection serves the handshake protocol era; requests carrying the"
                " 2026-07-28 envelope are not accepted on it",
            )
        self._refuse_unknown(method, known)
        if given is None or not (self._modern or self._initialized or method == "ping"):
            raise wrong_params()
        assert known is not None
        return client, known.run(self, client, given)

    def _refuse_unknown(self, method: str, known: Method | None) -> None:
        if known is None or not (known.envelope if self._modern else known.handshake):
            raise no_method(method)
        if known.of_resources and not self._service.has_resources:
            raise no_method(method)

    def _notified(self, method: str, params: Any) -> None:
        if method != "notifications/cancelled":
            return
        given = _read(json_rpc.CancelledParams, params)
        if given is None or given.request_id is None:
            return
        task = self._under_way.get(given.request_id)
        if task is not None:
            task.cancel()

    def _answered(self, message: json_rpc.Incoming) -> None:
        """An answer to what the client was asked; one that nobody waits for means nothing."""
        waiting = self._asked.get(message.id) if isinstance(message.id, str) else None
        if waiting is None or waiting.done():
            return
        result = message.result
        waiting.set_result(None if isinstance(result, msgspec.UnsetType) else _read(Any, result))

    # --- what goes -------------------------------------------------------------------------

    async def _answer(self, client: Client, method: str, work: Awaitable[dict[str, Any]]) -> None:
        try:
            result = await work
            if client.modern:
                result = self._enveloped(method, result)
            line = json_rpc.result_line(client.id, result)
        except RpcRefusal as refusal:
            self._refuse(client.id, refusal)
            return
        except Exception:
            # Its text may tell anything; the log is for those who may know.
            _log.exception("a request failed in a way nobody foresaw")
            self._refuse(client.id, RpcRefusal(json_rpc.INTERNAL_ERROR, "Internal error"))
            return
        self._send(line)

    def _enveloped(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        result = json_rpc.completed(method, result)
        meta = {**result.get("_meta", {}), json_rpc.SERVER_KEY: self._info}
        return {**result, "_meta": meta}

    def _refuse(self, request_id: RequestId | None, refusal: RpcRefusal) -> None:
        self._send(json_rpc.error_line(request_id, refusal))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send(json_rpc.notification_line(method, params))

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the client; None where it answers with an error, or has gone."""
        self._asked_count += 1
        own_id = f"bailiwick-{self._asked_count}"
        waiting = self._asked[own_id] = asyncio.get_running_loop().create_future()
        self._send(json_rpc.request_line(own_id, method, params))
        try:
            return await waiting
        except asyncio.CancelledError:
            self.notify("notifications/cancelled", {"requestId": own_id})
            raise
        finally:
            del self._asked[own_id]

    # --- the end ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """The client has gone: answer what was begun, if that does not take long."""
        self.closing.set()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_result(None)
        await self._subscriptions.aclose()
        left = list(self._under_way.values())
        if left:
            _, late = await asyncio.wait(left, timeout=CLOSE_SECONDS_MAX)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # --- requests --------------------------------------------------------------------------

    def _capabilities(self) -> dict[str, Any]:
        told: dict[str, Any] = {"tools": {"listChanged": bool(self._modern)}}
        if self._service.has_resources:
            told["resources"] = {"subscribe": True, "listChanged": bool(self._modern)}
            told["completions"] = {}
        return told

    def _initialize(self, params: Any) -> dict[str, Any]:
        given = _read(json_rpc.InitializeParams, params)
        if self._modern:
            supported: dict[str, Any] = {"supported": list(json_rpc.ENVELOPE_VERSIONS)}
            if given is not None:
                supported["requested"] = given.protocol_version
            raise RpcRefusal(
                json_rpc.UNSUPPORTED_VERSION,
                "connection is serving the 2026-07-28 protocol; the initialize handshake is not"
                " accepted",
                supported,
            )
        if given is None:
            raise wrong_params()
        asked: str = given.protocol_version
        self._initialized = True
        self._elicits = can_elicit(given.capabilities)
        return {
            "protocolVersion": (
                asked if asked in json_rpc.HANDSHAKE_VERSIONS else json_rpc.HANDSHAKE_VERSIONS[-1]
            ),
            "capabilities": self._capabilities(),
            "serverInfo": self._info,
            "instructions": self._service.instructions,
        }

    async def _ping(self, client: Client, given: json_rpc.Params) -> dict[str, Any]:
        return {}

    async def _discover(self, client: Client, given: json_rpc.Params) -> dict[str, Any]:
        return {
            "supportedVersions": list(json_rpc.ENVELOPE_VERSIONS),
            "capabilities": self._capabilities(),
            "instructions": self._service.instructions,
        }

    async def _list_tools(self, client: Client, given: json_rpc.ListParams) -> dict[str, Any]:
        return self._service.list_tools()

    async def _call_tool(self, client: Client, given: json_rpc.CallParams) -> dict[str, Any]:
        wait_s = wait_of(given.meta)
        return await self._service.call_tool(client, given.name, given.arguments, given, wait_s)

    async def _list_resources(self, client: Client, given: json_rpc.ListParams) -> dict[str, Any]:
        return await self._service.list_resources(given.cursor, modern=client.modern)

    async def _list_templates(self, client: Client, given: json_rpc.ListParams) -> dict[str, Any]:
        return self._service.list_templates()

    async def _read_resource(self, client: Client, given: json_rpc.ReadParams) -> dict[str, Any]:
        return await self._service.read_resource(client, given.uri, given)

    async def _complete(self, client: Client, given: json_rpc.CompleteParams) -> dict[str, Any]:
        template = given.ref.uri if isinstance(given.ref, json_rpc.TemplateRef) else None
        known = (given.context.arguments if given.context else None) or {}
        asked = given.argument
        return await self._service.complete(
            template, asked.name, asked.value, known, modern=client.modern
        )

    async def _subscribe(self, client: Client, given: json_rpc.SubscribeParams) -> dict[str, Any]:
        await self._subscriptions.add(given.uri)
        return {}

    async def _unsubscribe(self, client: Client, given: json_rpc.SubscribeParams) -> dict[str, Any]:
        self._subscriptions.remove(given.uri)
        return {}

    async def _listen(self, client: Client, given: json_rpc.ListenParams) -> dict[str, Any]:
        meta = {json_rpc.SUBSCRIPTION_KEY: client.id}
        listening = Listening(self._service, given.notifications)
        async with listening.begun() as honoured:
            self.notify(
                "notifications/subscriptions/acknowledged",
                {"notifications": honoured, "_meta": meta},
            )
            await listening.tell(
                lambda method, params: self.notify(method, {**params, "_meta": meta}),
                self.closing,
            )
        return {"_meta": meta}


_METHODS: dict[str, Method] = {
    "ping": Method(json_rpc.Params, Conversation._ping, envelope=False),
    "server/discover": Method(json_rpc.Params, Conversation._discover, handshake=False),
    "tools/list": Method(json_rpc.ListParams, Conversation._list_tools),
    "tools/call": Method(json_rpc.CallParams, Conversation._call_tool),
    "resources/list": Method(json_rpc.ListParams, Conversation._list_resources, of_resources=True),
    "resources/templates/list": Method(
        json_rpc.ListParams, Conversation._list_templates, of_resources=True
    ),
    "resources/read": Method(json_rpc.ReadParams, Conversation._read_resource, of_resources=True),
    "completion/complete": Method(
        json_rpc.CompleteParams, Conversation._complete, of_resources=True
    ),
    "resources/subscribe": Method(
        json_rpc.SubscribeParams, Conversation._subscribe, envelope=False, of_resources=True
    ),
    "resources/unsubscribe": Method(
        json_rpc.SubscribeParams, Conversation._unsubscribe, envelope=False, of_resources=True
    ),
    "subscriptions/listen": Method(json_rpc.ListenParams, Conversation._listen, handshake=False),
}


def _begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Take the first step at once, where that can be: most requests are answered by it."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, BeginsAtOnce) and asyncio.current_task() is None:
        return loop.begin(work)
    return loop.create_task(work)


def _read(kind: type[Any], params: Any) -> Any:
    """The parameters of a request; None where they are wrong. None at all are as empty ones."""
    try:
        return msgspec.json.decode(
            b"{}" if isinstance(params, msgspec.UnsetType) else params, type=kind
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _id_of(line: LongLine) -> RequestId | None:
    """Which request a message was that is too long to be read, by its beginning or its end."""
    found = _ID_FIRST.match(line.head) or _ID_LAST.search(line.tail)
    return None if found is None else _id_value(found[1])


def _id_in(line: bytes) -> RequestId | None:
    found = _ID_FIRST.match(line) or _ID_LAST.search(line[-512:])
    return None if found is None else _id_value(found[1])


def _id_value(text: bytes) -> RequestId | None:
    try:
        value: RequestId = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return value
