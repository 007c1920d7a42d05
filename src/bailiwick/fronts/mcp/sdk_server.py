"""The service of MCP behind the official SDK, which speaks the protocol over HTTP.

The SDK's server knows no callers: which service answers a request stands in the request itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, NoReturn

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bailiwick.errors import Unsupported
from bailiwick.fronts.mcp.json_rpc import (
    AskedAgain,
    RpcRefusal,
    WantedChanges,
    can_elicit,
    completed,
)
from bailiwick.fronts.mcp.service import Service, server_info
from bailiwick.fronts.mcp.subscriptions import LISTED, Listening, Subscriptions
from bailiwick.fronts.mcp.workspaces import wait_of
from bailiwick.toolbox import failure
from bailiwick.toolbox.prompt import prompt_fragment

_log = logging.getLogger("bailiwick.mcp")

SERVICE_KEY = "bailiwick.service"
"""Where a request says which service is its own."""

Context = ServerRequestContext[Any, Any]


def create_server(closing: asyncio.Event) -> Server[Any]:
    """A server of the SDK, for every caller; ``closing`` ends what would go on for long."""
    desk, info = _Desk(closing), server_info()
    return Server(
        info["name"],
        version=info["version"],
        title=info["title"],
        instructions=prompt_fragment(None, ""),
        on_list_tools=desk.list_tools,
        on_call_tool=desk.call_tool,
        on_list_resources=desk.list_resources,
        on_list_resource_templates=desk.list_templates,
        on_read_resource=desk.read_resource,
        on_completion=desk.complete,
        on_subscribe_resource=desk.subscribe,
        on_unsubscribe_resource=desk.unsubscribe,
        on_subscriptions_listen=desk.listen,
    )


class _Client:
    """The other side of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.modern = _is_modern(context)
        declared = context.session.client_capabilities
        told = {} if declared is None else declared.model_dump(by_alias=True, exclude_none=True)
        self.can_elicit = can_elicit(told) and (self.modern or context.session.can_send_request)

    async def elicit(self, form: dict[str, Any]) -> Any:
        answer = await self._context.session.elicit_form(
            form["message"], form["requestedSchema"], related_request_id=self._context.request_id
        )
        return answer.model_dump(by_alias=True, exclude_none=True)


class _Desk:
    """Takes requests as the SDK has them, and answers as the service does."""

    def __init__(self, closing: asyncio.Event) -> None:
        self._closing = closing
        self._subscriptions: dict[int, Subscriptions] = {}

    async def list_tools(self, context: Context, given: Any) -> Any:
        return _completed(context, _service(context).list_tools())

    async def call_tool(self, context: Context, given: types.CallToolRequestParams) -> Any:
        service, again = _service(context), _again(given)
        told = given.model_dump(by_alias=True, exclude_none=True, mode="json")
        wait_s = wait_of(told.get("_meta"))
        call = service.call_tool(_Client(context), given.name, given.arguments, again, wait_s)
        return _completed(context, await _answered(call))

    async def list_resources(self, context: Context, given: Any) -> Any:
        service = _service(context)
        if not service.has_resources:
            return _completed(context, {"resources": []})
        cursor = None if given is None else given.cursor
        call = service.list_resources(cursor, modern=_is_modern(context))
        return _completed(context, await _answered(call))

    async def list_templates(self, context: Context, given: Any) -> Any:
        service = _service(context)
        listed = service.list_templates() if service.has_resources else {"resourceTemplates": []}
        return _completed(context, listed)

    async def read_resource(self, context: Context, given: types.ReadResourceRequestParams) -> Any:
        service = _service(context)
        if not service.has_resources:
            raise MCPError(types.INVALID_PARAMS, "there are no resources here")
        call = service.read_resource(_Client(context), given.uri, _again(given))
        return _completed(context, await _answered(call))

    async def complete(self, context: Context, given: types.CompleteRequestParams) -> Any:
        service = _service(context)
        if not service.has_resources:
            raise MCPError(types.INVALID_PARAMS, "there are no resources here")
        template = given.ref.uri if given.ref.type == "ref/resource" else None
        known = (given.context.arguments if given.context else None) or {}
        asked, modern = given.argument, _is_modern(context)
        call = service.complete(template, asked.name, asked.value, known, modern=modern)
        return _completed(context, await _answered(call))

    async def subscribe(self, context: Context, given: types.SubscribeRequestParams) -> Any:
        if not context.session.can_send_request:
            _refuse_without_session()
        await _answered(self._of(context).add(given.uri))
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, given: types.UnsubscribeRequestParams) -> Any:
        self._of(context).remove(given.uri)
        return types.EmptyResult()

    def _of(self, context: Context) -> Subscriptions:
        """The subscriptions of one session, which end with it."""
        # The SDK has no public name for it; a session is told apart, and ends, by this alone.
        connection = context.session._connection
        known = self._subscriptions.get(id(connection))
        if known is not None:
            return known
        tell = _Teller(context)
        subscriptions = Subscriptions(_service(context), tell)

        async def forget() -> None:
            self._subscriptions.pop(id(connection), None)
            await subscriptions.aclose()
            await tell.aclose()

        self._subscriptions[id(connection)] = subscriptions
        connection.exit_stack.push_async_callback(forget)
        return subscriptions

    async def listen(
        self, context: Context, given: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        asked = given.notifications
        listening = Listening(
            _service(context),
            WantedChanges(asked.resources_list_changed, asked.resource_subscriptions),
        )
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        async with listening.begun() as honoured:
            honoured_params = types.SubscriptionsListenRequestParams.model_validate(
                {"notifications": honoured, "_meta": {}}, by_name=False
            )
            telling = asyncio.create_task(self._publish(listening, bus, handler))
            try:
                return await handler(context, honoured_params)
            finally:
                telling.cancel()
                with suppress(asyncio.CancelledError):
                    await telling

    async def _publish(
        self, listening: Listening, bus: InMemorySubscriptionBus, handler: ListenHandler
    ) -> None:
        events: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        telling = asyncio.create_task(
            listening.tell(
                lambda method, params: events.put_nowait((method, params)), self._closing
            )
        )
        telling.add_done_callback(lambda _: events.put_nowait(("", {})))
        try:
            while True:
                method, params = await events.get()
                if not method:
                    handler.close()
                    return
                listed = method == LISTED
                await bus.publish(
                    ResourcesListChanged() if listed else ResourceUpdated(uri=params["uri"])
                )
        finally:
            telling.cancel()


class _Teller:
    """Tells one session of changes, one after the other."""

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._changed: asyncio.Queue[str] = asyncio.Queue(1_000)
        self._task = asyncio.create_task(self._tell())

    def __call__(self, method: str, params: dict[str, Any]) -> None:
        with suppress(asyncio.QueueFull):  # who does not read misses some
            self._changed.put_nowait(params["uri"])

    async def _tell(self) -> None:
        while True:
            uri = await self._changed.get()
            try:
                await self._session.send_resource_updated(uri)
            except Exception as error:
                _log.debug("a change could not be told", exc_info=error)

    async def aclose(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def _refuse_without_session() -> NoReturn:
    """Say that nobody would be told: with several processes a session has no home."""
    error = Unsupported(
        "with several workers this server keeps no sessions to tell of changes",
        hint="use subscriptions/listen of 2026-07-28, or a server with one worker",
    )
    raise MCPError(types.INTERNAL_ERROR, error.message, failure(error))


def _service(context: Context) -> Service:
    service: Service = context.request.scope[SERVICE_KEY]  # type: ignore[union-attr]
    return service


def _is_modern(context: Context) -> bool:
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def _completed(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    return completed(context.method, result) if _is_modern(context) else result


def _again(given: types.InputResponseRequestParams) -> AskedAgain:
    told = given.model_dump(by_alias=True, exclude_none=True, mode="json")
    return AskedAgain(
        input_responses=told.get("inputResponses"), request_state=told.get("requestState")
    )


async def _answered(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except RpcRefusal as refusal:
        raise MCPError(refusal.code, refusal.message, refusal.data) from None
