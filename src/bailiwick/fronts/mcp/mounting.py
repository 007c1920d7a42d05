"""`/mcp` on the HTTP server: the service of whoever calls, by the tokens of that server.

Loaded by name, and only when it is first asked for: the SDK takes longer to load than the server
does to start. The server has checked host, origin and token; it says in the request who calls, and
what they may do at most.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bailiwick.errors import BailiwickError, Closed, RateLimited
from bailiwick.fronts.mcp.sdk_server import SERVICE_KEY, create_server
from bailiwick.fronts.mcp.service import Service
from bailiwick.fronts.mcp.workspaces import WantedService, open_service
from bailiwick.model import MiB
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.patience import keeping

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.build.shared_grants import SharedGrants

_log = logging.getLogger("bailiwick.mcp")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_OPENING_SECONDS_MAX: Final = 2.5
"""All that a request may wait for databases before it is looked at: what it asks for then has its
own time (`patience.WAITS_SECONDS_MAX`), and both end within fifteen seconds. A root that opens more
slowly goes on being opened, and is open for who asks again."""

BODY_BYTES_MAX: Final = 32 * MiB
"""One message: what a text write takes at most, every character of it escaped."""

_SERVICES_MAX = 1_000
"""Callers whose workspaces are held open at once; the one that has not called for longest goes
first."""

SESSIONS_PER_SUBJECT_MAX = 64
"""Sessions of one subject and of those it has passed grants on to: more clients than one has."""

_SESSION_CHARACTERS = 12

Key = tuple[str, str | None, frozenset[Access], bool]

_STRUCTURED = ("true", "1")
"""What ``?structured=`` says at the end of the address, for every answer with its object."""


class Mount:
    """An ASGI application for one authority; `aclose` ends its streams and lets go of scopes."""

    def __init__(
        self, authority: Authority, *, workers: int, shared: SharedGrants | None = None
    ) -> None:
        """``shared`` are the grants under which others serve with it."""
        self._authority = authority
        self._shared = shared
        self._closing = asyncio.Event()
        self._services: dict[Key, asyncio.Task[tuple[Service, AsyncExitStack]]] = {}
        # A session lives in one process; where there are several, every request stands alone.
        self._manager = StreamableHTTPSessionManager(
            create_server(self._closing), stateless=workers > 1,
            max_request_body_size=BODY_BYTES_MAX,
        )  # fmt: skip
        self._ready = asyncio.Event()
        self._running = asyncio.create_task(self._run(), name="bailiwick-mcp")

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._closing.wait()
            await asyncio.sleep(0)  # streams that end by themselves say so

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises what the caller is refused: the server tells it."""
        await self._ready.wait()
        subject = str(scope["bailiwick.subject"])
        counts_for: str = scope.get("bailiwick.accountable", subject)
        if _begins_session(scope["headers"]):
            self._refuse_many_sessions(counts_for)
        with keeping(_OPENING_SECONDS_MAX):
            service = await self._service_of(scope)
        # By this the SDK keeps the sessions of different callers apart.
        client = f"{subject} {scope.get('bailiwick.grant') or ''}"
        token = AccessToken(token="", client_id=client, scopes=[], subject=counts_for)
        request = {
            **scope, SERVICE_KEY: service, "user": AuthenticatedUser(token),
            # Blanks around a value are not part of it; the SDK compares values as they come.
            "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]],
        }  # fmt: skip
        stream = _Stream(receive, send, scope.get("bailiwick.holds"))
        try:
            await self._manager.handle_request(request, stream.receive, stream.send)
        except RuntimeError:
            # What the SDK says of a request whose body came to an end after its own.
            if not self._closing.is_set():
                raise
            raise Closed("the server is closing") from None

    def _refuse_many_sessions(self, counts_for: str) -> None:
        """Refuse a subject that has as many sessions as it may: the SDK counts only all of them."""
        owners = self._manager._session_owners.values()
        if sum(each["subject"] == counts_for for each in owners) < SESSIONS_PER_SUBJECT_MAX:
            return
        raise RateLimited(
            f"a subject has at most {SESSIONS_PER_SUBJECT_MAX} sessions at a time",
            hint="end one of them: DELETE with its Mcp-Session-Id",
            details={"limit": SESSIONS_PER_SUBJECT_MAX},
        )

    async def aclose(self) -> None:
        self._closing.set()
        await self._running
        for opening in list(self._services.values()):
            await self._close(opening)
        self._services.clear()

    async def _service_of(self, scope: Scope) -> Service:
        """The service of a caller, opened when they first come. Raises what they are refused."""
        subject, grant_id = scope["bailiwick.subject"], scope.get("bailiwick.grant")
        most: frozenset[Access] = scope.get("bailiwick.most") or ALL_ACCESS
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        structured = query.get("structured", [""])[-1] in _STRUCTURED
        key = (str(subject), grant_id, most, structured)
        opening = self._services.pop(key, None)
        if opening is not None:
            self._services[key] = opening  # now the last to go
        if opening is None or _has_failed(opening):
            wanted = WantedService(
                subject, _session_of(key), most, grant_id=grant_id, structured=structured,
                shared=self._shared,
            )  # fmt: skip
            opening = asyncio.create_task(self._open(wanted))
            self._services[key] = opening
            if len(self._services) > _SERVICES_MAX:
                await self._close(self._services.pop(next(iter(self._services))))
        service, _ = await asyncio.shield(opening)
        return service

    async def _open(self, wanted: WantedService) -> tuple[Service, AsyncExitStack]:
        stack = AsyncExitStack()
        service = await stack.enter_async_context(open_service(self._authority, wanted))
        return service, stack

    async def _close(self, opening: asyncio.Task[tuple[Service, AsyncExitStack]]) -> None:
        try:
            _, stack = await opening
        except BailiwickError:
            return
        await stack.aclose()


class _Stream:
    """An answer that may last. It ends when who asked for it would not be let in any more."""

    def __init__(self, receive: Receive, send: Send, holds: Callable[[], bool] | None) -> None:
        self._receive = receive
        self._send = send
        self._holds = holds
        self._ended = asyncio.Event()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._ended.is_set():
            return
        lasts = message["type"] == "http.response.body" and message.get("more_body", False)
        if lasts and self._holds is not None and not self._holds():
            self._ended.set()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def receive(self) -> MutableMapping[str, Any]:
        """What the client says, or that it is as good as gone."""
        said = asyncio.ensure_future(self._receive())
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((said, ended), return_when=asyncio.FIRST_COMPLETED)
            return said.result() if said.done() else {"type": "http.disconnect"}
        finally:
            said.cancel()
            ended.cancel()


def _begins_session(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request would have a session of its own: the newer dialects have none."""
    given = {name: value.strip(b" \t").decode("latin-1") for name, value in headers}
    return (
        b"mcp-session-id" not in given
        and given.get(b"mcp-protocol-version") not in MODERN_PROTOCOL_VERSIONS
    )


def _session_of(key: Key) -> str:
    """What the agent of a caller is called: the same in every process that serves, and after a
    restart. What it did it can take back then, and what a person was asked about it is found again,
    whoever answers."""
    subject, grant_id, most, _ = key
    text = "\0".join((subject, grant_id or "", *sorted(most)))
    return hashlib.sha256(text.encode()).hexdigest()[:_SESSION_CHARACTERS]


def _has_failed(opening: asyncio.Task[Any]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


def create(authority: Authority, *, workers: int = 1, shared: SharedGrants | None = None) -> Mount:
    """The application that answers ``/mcp``."""
    return Mount(authority, workers=workers, shared=shared)
