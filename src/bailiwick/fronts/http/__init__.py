"""HTTP: one table of routes, and what it takes to answer them.

    table · routes/       what can be asked: method, path, parameters, body, result, access
    parameters · bodies   from text nobody trusts to checked values, strictly
    callers · gates       who asks, by which host and origin, how often
    holding               the scopes of those who ask
    conditions · ranges   what must hold of a file, and which part of it is meant
    answering             one ASGI application that joins them
    replying              from a result or an error to what is sent
    errors                every kind of error, and its status
    protocol · serving    the server itself: slow and oversized clients, signals, workers

A route parses, calls a verb of a scope or of the authority, and renders. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority

__all__ = ["create_app"]


def create_app(
    authority: Authority,
    *,
    root: str | None = None,
    allowed_hosts: Collection[str] | None = None,
    read_only: bool = False,
    mounts: dict[str, Callable[..., Any]] | None = None,
) -> Any:
    """The ASGI application that serves an authority, for embedding in another.

    ``root`` is the root that the short routes mean (the first, unless told). ``allowed_hosts`` are
    the names a request may give for this server: those of this machine alone, unless told; ``*``
    allows all. ``mounts`` are other ASGI applications by the prefix they answer, behind the same
    checks of host, origin and caller. The authority stays its owner's to close, after the
    application's ``aclose``.
    """
    from bailiwick.fronts.http.application import Application
    from bailiwick.fronts.http.settings import ServerSettings

    settings = ServerSettings(
        root=root,
        allowed_hosts=None if allowed_hosts is None else frozenset(allowed_hosts),
        read_only=read_only,
    )
    return Application(authority, settings, mounts or {})
