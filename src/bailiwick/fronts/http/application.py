"""The application: from a request to an answer, in one order for all routes.

    host and origin ▸ route ▸ caller ▸ pace ▸ parameters ▸ body ▸ handler ▸ answer

Who a caller is is known before a byte of the body is read. Whatever goes wrong on the way, whoever
noticed it, is answered in one shape.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from bailiwick.build.governed import Authority
from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    MethodNotAllowed,
    ParseError,
    RateLimited,
    ReadOnly,
    RootNotFound,
    RouteNotFound,
)
from bailiwick.fronts.http.access.callers import (
    KEY,
    CallerBudget,
    Callers,
    HttpCaller,
    admit,
    admit_mounted,
)
from bailiwick.fronts.http.access.deadlines import Deadlines, patience_for
from bailiwick.fronts.http.access.executions import Executions
from bailiwick.fronts.http.access.gates import HostGate
from bailiwick.fronts.http.access.leases import LeaseNames
from bailiwick.fronts.http.access.refusals import Refusals
from bailiwick.fronts.http.access.scope_cache import Holding
from bailiwick.fronts.http.console_files import ConsoleFiles
from bailiwick.fronts.http.messages import bodies, conditions, errors, idempotency, replies
from bailiwick.fronts.http.messages.bodies import Receive
from bailiwick.fronts.http.messages.parameters import decoded, parse_query, require
from bailiwick.fronts.http.messages.recent_answers import RecentAnswers
from bailiwick.fronts.http.messages.replies import Send
from bailiwick.fronts.http.messages.requests import Reply, Request, sane_request_id
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.fronts.http.settings import FOR_PEOPLE, WHOLE, ServerSettings
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.transport.descriptors import limit, room_for
from bailiwick.hooks.metrics import Metrics
from bailiwick.scope.front_access import has_review_notes, review_notes
from bailiwick.wire import values
from bailiwick.wire.arguments import FORK, SESSION, Argument

ASGI = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

_CLOSE = (b"connection", b"close")

_ONCE = (b"authorization", b"host", b"origin", b"content-length", b"content-type", b"x-request-id",
         b"cookie", KEY, b"sec-fetch-site", b"range", b"if-match", b"if-none-match",
         b"transfer-encoding", b"content-encoding", idempotency.HEADER,
         idempotency.TRY)  # fmt: skip
"""Headers that mean something here: given twice, two readers could take two different ones."""

_METHODS = ("DELETE", "GET", "HEAD", "POST", "PUT")

_COUNTED = "bailiwick.counted"
_QUERIES_KEPT = 256
_QUERY_BYTES_KEPT = 256


class _Compiled:
    """A route and what can be known of it before any request."""

    __slots__ = (
        "decoder", "known", "parameters", "required", "route", "takes_body", "takes_session",
    )  # fmt: skip

    def __init__(self, route: Route) -> None:
        self.route = route
        self.parameters: dict[str, Argument] = {
            name: each for each in route.parameters for name in (each.shown, *each.aliases)
        }
        if route.rooted:
            self.parameters[FORK.shown] = FORK
        self.required = tuple(each for each in route.parameters if each.required)
        self.decoder = None if route.body is None else msgspec.json.Decoder(route.body)
        self.takes_body = route.body is not None or route.raw_body
        self.takes_session = SESSION in route.parameters
        self.known: dict[bytes, dict[str, Any]] = {}

    def parse(self, query: bytes) -> dict[str, Any]:
        """The parameters of a query, not to be changed. Agents ask the same again and again, so
        those that were right are remembered."""
        known = self.known.get(query)
        if known is None:
            known = parse_query(query, self.parameters)
            if self.required:
                require(known, self.required)
            if len(query) <= _QUERY_BYTES_KEPT:
                if len(self.known) >= _QUERIES_KEPT:
                    self.known.clear()
                self.known[query] = known
        return known


class Application:
    """An ASGI application that serves one authority."""

    def __init__(
        self, authority: Authority, settings: ServerSettings, mounts: dict[str, ASGI] | None = None
    ) -> None:
        self.authority = authority
        self.settings = settings
        self.room = room_for(limit())
        self.closing = asyncio.Event()
        self._metrics: Metrics | None = None
        self.started = time.monotonic()
        self.leases = LeaseNames(settings.lock_key)
        self.executions = Executions(self)
        self.recent_answers = RecentAnswers()
        self._deadlines = Deadlines()
        self.streams = 0
        self._refusals = Refusals(authority.ledger)
        self._console = ConsoleFiles(authority.tokens, secure=settings.secure)
        self._mounts = mounts or {}
        self._gate = HostGate(settings.allowed_hosts)
        self._callers = Callers(authority, settings, self._forget)
        self._parting: set[asyncio.Task[None]] = set()
        self._holdings: dict[int, tuple[HttpCaller, Holding]] = {}
        self._exact, self._named = _compiled(ROUTES)
        self._unregister: Callable[[], None] = lambda: None

    # --- ASGI --------------------------------------------------------------------------------

    @property
    def parts(self) -> int:
        """How many processes have a part of what is counted for a caller."""
        return max(self.settings.workers, self.authority.rates.parts)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other_protocol(scope, receive, send)
            return
        given = scope["headers"]
        headers: dict[bytes, bytes] = dict(given)
        head = scope["method"] == "HEAD"
        request: Request | None = None
        try:
            try:
                if len(headers) != len(given):
                    _refuse_repeated(given)
                self._gate.check(headers, scope["scheme"])
                path, plain = _path_within(scope)
                found = self._exact.get((scope["method"], path)) if plain else None
                if found is not None:
                    request = Request(self, found.route, {}, headers, receive)
                elif plain and await self._other(scope, receive, send, headers, path):
                    return
                else:
                    found, request = self._routed(scope, headers, receive)
                with patience_for(request):
                    self._admit(scope, found, request)
                    if found.decoder is not None:
                        request.body = await bodies.read_json(receive, headers, found.decoder)
                    elif not found.takes_body:
                        bodies.refuse_body(headers)
                    quickly = None if head else scope.get(WHOLE)
                    reply = await self._answered(request, quickly)
                if reply is None:
                    return
            except Exception as error:
                reply = self._refused(request, headers, error)
            await replies.send_reply(reply, send, receive, head=head)
        finally:
            budget: CallerBudget | None = scope.get(_COUNTED)
            if budget is not None:
                budget.requests -= 1

    async def _other_protocol(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":  # a websocket, which nobody here speaks
            await send({"type": "websocket.close", "code": 1000})
            return
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def aclose(self) -> None:
        """End streams and what waits for people, wait for changes under way, let go of scopes."""
        if self.closing.is_set():
            return
        self.closing.set()
        self._unregister()
        for app in self._mounts.values():
            close = getattr(app, "aclose", None)
            if close is not None:
                await close()
        await self.executions.aclose()
        for _, holding in list(self._holdings.values()):
            await holding.aclose()
        if self._parting:
            await asyncio.wait(self._parting)
        self._deadlines.close()
        await self._refusals.aclose()

    async def _answered(
        self, request: Request, quickly: Callable[[replies.Whole], bool] | None
    ) -> Reply | None:
        """What a request is answered with; None where that was sent at once."""
        if idempotency.HEADER in request.headers:
            known = await idempotency.once(request, partial(self._done, request))
            if known is not None:
                return known
        result = await self._deadlines.hold(request, _noted(request))
        return _replied(result, request.request_id, quickly)

    async def _done(self, request: Request) -> Reply:
        """What a request is answered with, whatever becomes of it."""
        try:
            result = await self._deadlines.hold(request, _noted(request))
            reply = result if type(result) is Reply else Reply(result)
            return replies.rendered(reply, request.request_id)
        except Exception as error:
            return self._refused(request, request.headers, error)

    def _enter(self, scope: dict[str, Any], caller: HttpCaller) -> None:
        """Count a request as under way for whoever asks, until it is answered. What all share is
        not for one agent alone, and a part of it not for agents at all."""
        budget = caller.budget
        if not caller.is_person:
            if FOR_PEOPLE in scope:
                raise Busy("the connections that are left are kept for people", hint="try again")
            if budget.requests >= self.room.for_one:
                raise RateLimited(
                    "as many requests of this subject are under way as may be",
                    hint="wait for their answers, or end a stream",
                    details={"limit": self.room.for_one},
                )
        budget.requests += 1
        scope[_COUNTED] = budget

    def _admit(self, scope: dict[str, Any], found: _Compiled, request: Request) -> None:
        """Who asks, whether they may, and what for: all that is known before the body is read."""
        route, headers = found.route, request.headers
        if route.who != "anyone":
            client = scope.get("client")
            query = scope["query_string"] if found.takes_session else b""
            caller = self._callers.find(headers, client[0] if client else None, query)
            self._enter(scope, caller)
            admit(caller, route, headers)
            request.caller = caller
        if route.changes and self.settings.read_only:
            raise ReadOnly("this server only reads")
        if self.closing.is_set():
            raise _closing()
        request.query = found.parse(scope["query_string"])

    # --- routes ------------------------------------------------------------------------------

    async def _other(
        self,
        scope: dict[str, Any],
        receive: Receive,
        send: Send,
        headers: dict[bytes, bytes],
        path: str,
    ) -> bool:
        """Answer what is no route of ours: the console's files, and what is mounted."""
        reply = await self._console.answer(scope["method"], path, scope["query_string"], headers)
        if reply is not None:
            head = scope["method"] == "HEAD"
            await replies.send_reply(replies.rendered(reply, None), send, receive, head=head)
            return True
        for prefix, app in self._mounts.items():
            if path == prefix or path.startswith(prefix + "/"):
                client = scope.get("client")
                caller = self._callers.find(headers, client[0] if client else None)
                self._enter(scope, caller)
                admit_mounted(caller, scope["method"], headers)
                if self.closing.is_set():
                    raise _closing()
                told = {
                    "bailiwick.subject": caller.subject, "bailiwick.grant": caller.grant_id,
                    "bailiwick.accountable": caller.budget.subject,
                    "bailiwick.most": self.holding_of(caller).most,
                    "bailiwick.holds": lambda caller=caller: self.still_knows(caller),
                }  # fmt: skip
                await app({**scope, **told}, receive, replies.with_house_headers(send))
                return True
        return False

    def _routed(
        self,
        scope: dict[str, Any],
        headers: dict[bytes, bytes],
        receive: Receive,
    ) -> tuple[_Compiled, Request]:
        """The route with names in its path, or beneath a root, that a request means."""
        method: str = scope["method"]
        segments = [part.decode("latin-1") for part in _raw_path(scope)[1:].split(b"/")]
        root: str | None = None
        names: dict[str, str] = {}
        found = self._match(method, segments, names)
        if found is None and len(segments) > 3 and segments[0] == "roots":
            root = f"{_named(segments[1])}:{_named(segments[2])}"
            found = self._match(method, segments[3:], names)
            if found is not None and not found.route.rooted:
                found = None
        if found is None:
            raise self._not_found(method, segments)
        request = Request(self, found.route, names, headers, receive)
        request.root = root
        return found, request

    def _match(self, method: str, segments: list[str], names: dict[str, str]) -> _Compiled | None:
        """The route that segments mean, as they were sent: its own words have one spelling, and
        only what stands for a value is decoded."""
        found = self._exact.get((method, "/" + "/".join(segments)))
        if found is not None:
            return found
        for parts, compiled in self._named.get((method, len(segments)), ()):
            if all(
                part.startswith("{") or part == given
                for part, given in zip(parts, segments, strict=True)
            ):
                for part, given in zip(parts, segments, strict=True):
                    if part.startswith("{"):
                        names[part[1:-1]] = _named(given)
                return compiled
        return None

    def _not_found(self, method: str, segments: list[str]) -> BailiwickError:
        """No such route, or not by this method."""
        methods = sorted(other for other in _METHODS if self._answers(other, segments))
        if methods:
            return MethodNotAllowed(
                "this route has not that method", details={"allow": ", ".join(methods)}
            )
        return RouteNotFound("there is no such route", hint="GET /openapi.json lists all of them")

    def _answers(self, method: str, segments: list[str]) -> bool:
        if self._match(method, segments, {}) is not None:
            return True
        if len(segments) <= 3 or segments[0] != "roots":
            return False
        found = self._match(method, segments[3:], {})
        return found is not None and found.route.rooted

    # --- scopes ------------------------------------------------------------------------------

    def default_root(self) -> str:
        """The root that a route means where none is named."""
        root = self.settings.root or self.authority.first_root
        if root is None:
            raise RootNotFound("this server has no root")
        return root

    @property
    def metrics(self) -> Metrics:
        """The counters, which begin to count when they are first asked for: a hook on every
        operation costs something, and most servers are never asked."""
        if self._metrics is None:
            self._metrics = Metrics()
            self._unregister = self.authority.hooks.register(self._metrics)
        return self._metrics

    def still_knows(self, caller: HttpCaller) -> bool:
        """Whether who was let in for something that lasts would be let in now."""
        return self._callers.holds(caller)

    def holding_of(self, caller: HttpCaller) -> Holding:
        if caller.holding is None:
            caller.holding = Holding(self.authority, caller, self.settings)
            self._holdings[id(caller)] = caller, caller.holding
        return caller.holding

    def _forget(self, caller: HttpCaller) -> None:
        """Let go of the scopes of a caller whose token has ended."""
        held = self._holdings.pop(id(caller), None)
        if held is not None:
            task = asyncio.ensure_future(self._part_with(caller, held[1]))
            self._parting.add(task)
            task.add_done_callback(self._parting.discard)

    async def _part_with(self, caller: HttpCaller, holding: Holding) -> None:
        await self.executions.end_of(caller)
        await holding.aclose()

    # --- errors ------------------------------------------------------------------------------

    def _refused(
        self, request: Request | None, headers: dict[bytes, bytes], error: Exception
    ) -> Reply:
        failure = errors.typed(error)
        self._refusals.note(failure)
        if request is not None and request.scope is not None:
            request.holding.forget(request.scope, failure)
        if request is not None and request.conditional:
            failure = conditions.judged(request, failure)
        given_id = sane_request_id(headers.get(b"x-request-id"))
        if failure.request_id is None:
            failure.request_id = given_id
        reply = replies.rendered(replies.failed(failure), failure.request_id)
        if bodies.expects_body(headers) and reply.status != 202:
            # Nobody has read what the client may still be sending, and nobody will.
            reply.headers.append(_CLOSE)
        return reply


def _compiled(
    routes: tuple[Route, ...],
) -> tuple[
    dict[tuple[str, str], _Compiled], dict[tuple[str, int], list[tuple[list[str], _Compiled]]]
]:
    exact: dict[tuple[str, str], _Compiled] = {}
    named: dict[tuple[str, int], list[tuple[list[str], _Compiled]]] = {}
    for route in routes:
        compiled = _Compiled(route)
        if route.names:
            parts = route.path.strip("/").split("/")
            for method in _methods(route):
                named.setdefault((method, len(parts)), []).append((parts, compiled))
        else:
            for method in _methods(route):
                exact[method, route.path] = compiled
    return exact, named


def _methods(route: Route) -> tuple[str, ...]:
    """What a route is asked by: HEAD wherever GET is. A route of its own for HEAD comes later in
    the table, and counts."""
    return ("GET", "HEAD") if route.method == "GET" else (route.method,)


def _replied(
    result: Any, request_id: str | None, quickly: Callable[[replies.Whole], bool] | None
) -> Reply | None:
    """What came of a request as a reply; None where it was sent at once."""
    answer = replies.whole(result, request_id)
    if answer is None:
        return replies.rendered(result, request_id)
    if quickly is not None and quickly(answer):
        return None
    return replies.plain(answer)


def _closing() -> Closed:
    return Closed("the server is closing", hint="ask again", details={"retry_after_s": 1.0})


def _refuse_repeated(given: list[tuple[bytes, bytes]]) -> None:
    seen: set[bytes] = set()
    for name, _ in given:
        if name in seen and name in _ONCE:
            raise ParseError(f"the header {name.decode('latin-1')!r} is given twice")
        seen.add(name)


def _named(segment: str) -> str:
    """A value that stands in an address."""
    return decoded(segment.encode("latin-1"))


def _path_within(scope: dict[str, Any]) -> tuple[str, bool]:
    """The path as this application sees it, wherever it is mounted; and whether it was sent as it
    reads, without escapes."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if prefix and path.startswith(prefix):
        path = path[len(prefix) :] or "/"
    return path, b"%" not in (scope.get("raw_path") or b"")


def _raw_path(scope: dict[str, Any]) -> bytes:
    """The path within this application as it was sent: a name may hold an escaped slash."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    prefix = scope.get("root_path", "").encode()
    return raw[len(prefix) :] if prefix and raw.startswith(prefix) else raw


def _handled(request: Request) -> Awaitable[Any]:
    """What the route makes of a request, once what its headers name is part of it."""
    headers, route = request.headers, request.route
    if route.changes and (b"if-match" in headers or b"if-none-match" in headers):
        return _conditionally(request)
    return route.handler(request)


async def _noted(request: Request) -> Any:
    """What a request is answered with; beside a document, what people took back of what the caller
    did."""
    result = await _handled(request)
    scope = request.scope
    if scope is None or not has_review_notes(scope):
        return result
    reply = result if type(result) is Reply else Reply(result)
    if reply.result is None:
        return result
    notes = values.REVIEW_NOTE.write_all(await review_notes(scope))
    return msgspec.structs.replace(reply, review=tuple(notes))


async def _conditionally(request: Request) -> Any:
    await conditions.apply(request)
    return await request.route.handler(request)
