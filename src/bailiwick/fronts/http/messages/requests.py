"""One request, as a handler sees it: checked values in, results out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from bailiwick.errors import BailiwickError
from bailiwick.fronts.http.messages.bodies import Receive
from bailiwick.scope import Scope
from bailiwick.scope.front_access import as_called

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bailiwick.build.governed import Authority
    from bailiwick.fronts.http.access.callers import HttpCaller
    from bailiwick.fronts.http.access.scope_cache import Holding
    from bailiwick.fronts.http.application import Application
    from bailiwick.fronts.http.table import Route

Headers = list[tuple[bytes, bytes]]


class Reply(msgspec.Struct, frozen=True):
    """An answer that is not simply a result with status 200. ``request_id`` is for one whose result
    does not say it, ``failure`` what was answered with an error. ``review`` is what people took
    back of what the caller did: told beside a result, once."""

    result: msgspec.Struct | None = None
    status: int = 200
    headers: Headers = []
    body: bytes | None = None
    chunks: AsyncGenerator[bytes, None] | None = None
    length: int | None = None
    request_id: str | None = None
    failure: BailiwickError | None = None
    review: tuple[msgspec.Struct, ...] = ()

    @property
    def is_only_a_result(self) -> bool:
        """Whether there is nothing to it but a result and its status."""
        own = self.headers or self.body or self.chunks or self.length or self.request_id
        return self.result is not None and not own and self.failure is None and not self.review


class Request:
    """What a handler may know of a request.

    ``body`` is the decoded JSON of a route that takes some. ``scope`` was chosen by the access that
    the route needs, and is kept here for whoever must know whose grant has ended. ``request_id``
    is the one that the client gave, if it did and it can be used; ``conditional`` says that headers
    of the request name what must hold. ``foretell`` keeps what will be answered should what is
    about to be done come to pass, where somebody will ask for it again; ``was_left`` says that they
    do, and that some of it may have been done by a server that has ended: ``made`` is what is known
    of that.
    """

    __slots__ = (
        "app", "body", "caller", "conditional", "foretell", "headers", "key", "made", "names",
        "query", "receive", "request_id", "root", "route", "scope", "was_left",
    )  # fmt: skip

    def __init__(
        self,
        app: Application,
        route: Route,
        names: dict[str, str],
        headers: dict[bytes, bytes],
        receive: Receive,
    ) -> None:
        self.app = app
        self.route = route
        self.names = names
        self.headers = headers
        self.receive = receive
        self.request_id = sane_request_id(headers.get(b"x-request-id"))
        self.key: bytes | None = None
        self.foretell: Callable[[str, Any], Awaitable[None]] | None = None
        self.was_left = False
        self.made: dict[str, Any] = {}
        self.conditional = False
        self.query: dict[str, Any] = {}
        self.body: Any = None
        self.caller: HttpCaller = None  # type: ignore[assignment]  # set before any handler runs
        self.root: str | None = None
        self.scope: Scope | None = None

    @property
    def authority(self) -> Authority:
        return self.app.authority

    @property
    def holding(self) -> Holding:
        return self.app.holding_of(self.caller)

    async def scoped(self, path: str | None = None) -> Scope:
        """The scope in which this request is done: under its request id, with its approval."""
        root = self.root or self.app.default_root()
        holding, needs, fork = self.holding, self.route.needs, self.query.get("fork")
        scope = None if fork is not None else holding.opened(root, needs, path)
        if scope is None:
            scope = await holding.scope(root, needs, path, fork)
        self.scope = scope
        if self.request_id is not None:
            scope = scope.with_request(self.request_id)
        title, step = self._named(b"x-bailiwick-run"), self._named(b"x-bailiwick-step")
        if title is not None or step is not None:
            scope = scope.with_run(title=title, step=step)
        approval = self.query.get("approval") or getattr(self.body, "approval", None)
        if approval is not None:
            scope = scope.with_approval(approval)
        if self.key is None:
            return scope
        return as_called(scope, key=self.key, foretell=self.foretell)

    def _named(self, name: bytes) -> str | None:
        """What a run or a step is called: percent-encoded, since a header holds ASCII only."""
        value = self.headers.get(name)
        return None if value is None else unquote(value.decode("latin-1"))

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


_is_sane = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?", re.ASCII).fullmatch
"""What a request id may be: one line of plain characters, not too long. It stands in headers,
records and logs."""


def sane_request_id(given: bytes | None) -> str | None:
    """The id that a client gave its request; None for one that cannot be used, in whose place it
    gets one of ours."""
    text = None if given is None else given.decode("latin-1")
    return text if text is not None and _is_sane(text) else None
