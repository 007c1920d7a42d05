"""`bailiwick.connect` and `bailiwick.connect_sync`: a scope on a server, by address and token."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import msgspec

from bailiwick.client.core import prefix_of, session_of
from bailiwick.client.failures import no_answer
from bailiwick.client.retries import RETRY_SECONDS
from bailiwick.client.scope import RemoteScope
from bailiwick.client.transport import (
    RemoteRequest,
    Transport,
    checked_address,
    checked_token,
)
from bailiwick.errors import ParseError
from bailiwick.grant import parse_root_name
from bailiwick.portal import Opening, SyncOpening
from bailiwick.scope import Scope

if TYPE_CHECKING:
    import ssl

TIMEOUT_SECONDS = 120.0
"""How long one answer may take unless told: a server lets a person think for thirty seconds of it,
and a large tree is copied in the rest."""

_named_root = re.compile(r"(.*)/roots/([^/]+)/([^/]+)").fullmatch


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    """Where to connect, as whom, and to which root."""

    address: str
    token: str | None
    root: str | None
    fork: str | None
    timeout_s: float
    retry_s: float
    tls: ssl.SSLContext | None

    async def connected(self) -> RemoteScope:
        transport = Transport(
            self.address, self.token, timeout_s=self.timeout_s, tls=self.tls, retry_s=self.retry_s
        )
        try:
            prefix = ""
            if self.root is not None:
                kind, name = parse_root_name(self.root)
                prefix = prefix_of(kind, name)
            told = await transport.ask(
                RemoteRequest(
                    method="GET", route=f"{prefix}/capabilities", query={"fork": self.fork}
                )
            )
            if told.get("kind") != "capabilities":
                raise no_answer("it does not say what it can do")
            session = session_of(transport, told, self.fork)
        except BaseException:
            await transport.aclose()
            raise
        return RemoteScope(msgspec.structs.replace(session, closing=transport.aclose))


def connect(
    address: str,
    *,
    token: str | None = None,
    root: str | None = None,
    fork: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    retry: float = RETRY_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> Opening[RemoteScope]:
    """Work on a server: ``async with bailiwick.connect("http://127.0.0.1:4180", token=…) as fs``.

    - ``token``: as `bailiwick serve` printed it, or `bailiwick grant token` made it. Without one a
      server that has none lets callers on the same machine read.
    - ``root``: which of its roots, such as ``workspace:demo``; its first, unless told. An address
      may say the same: ``http://127.0.0.1:4180/roots/workspace/demo``.
    - ``fork``: a branch of the root to act in.
    - ``timeout``: seconds that one answer may take.
    - ``retry``: seconds for which what got no answer is asked again, some times; 0 is never. A
      change is sent under a key, so that it is made once however often it is sent. What cannot be
      known in the end is an error with ``details["unanswered"]`` or ``details["interrupted"]``:
      look before you try again. A source that was given to be read once is not sent again.
    - ``tls``: for https, whom to trust and how to show who we are.

    Raises what the server answers, and `IoError` where it cannot be reached.
    """
    return Opening(_server(address, token, root, fork, timeout, retry, tls).connected)


def connect_sync(
    address: str,
    *,
    token: str | None = None,
    root: str | None = None,
    fork: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    retry: float = RETRY_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> SyncOpening:
    """`connect` for blocking code: the same options, the same verbs, no ``await``."""
    server = _server(address, token, root, fork, timeout, retry, tls)
    # It has the verbs of a scope, which is all that its blocking twin knows of it.
    return SyncOpening(cast(Callable[[], Coroutine[Any, Any, Scope]], server.connected))


def _server(
    address: str,
    token: str | None,
    root: str | None,
    fork: str | None,
    timeout: float,
    retry: float,
    tls: ssl.SSLContext | None,
) -> _Server:
    """Check what was given, before anything is sent anywhere."""
    if not isinstance(address, str):
        raise ParseError("a server has an address like http://127.0.0.1:4180")
    where = checked_address(address)
    named = _named_root(where)
    if named is not None:
        if root is not None:
            raise ParseError("the address names a root already")
        where, root = named[1], f"{unquote(named[2])}:{unquote(named[3])}"
    if root is not None:
        parse_root_name(root)
    if token is not None:
        checked_token(token)
    if not _is_number(timeout) or not timeout > 0:
        raise ParseError("timeout is a number of seconds")
    if not _is_number(retry) or not retry >= 0:
        raise ParseError("retry is a number of seconds, 0 for never")
    return _Server(
        address=where, token=token, root=root, fork=fork, timeout_s=float(timeout),
        retry_s=float(retry), tls=tls,
    )  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
