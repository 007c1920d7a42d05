"""The seam where a grant is asked, before every operation, whether it still holds.

Someone who opens a place for themselves holds a grant that only time can end. An authority can end
one at any moment, in this process or another, and counts what is done under it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bailiwick.errors import GrantExpired, UntrustedWorkspace
from bailiwick.grant import Grant
from bailiwick.operations import Operation


class Standing(Protocol):
    """Whether grants hold. Asked synchronously on the hot path: no I/O but shared memory."""

    @property
    def constant(self) -> bool:
        """Whether grants can only end by time: then an unexpired reader need not be asked."""
        ...

    def check(self, grant: Grant, operation: Operation) -> None:
        """Raise as `holds` does, and count one more operation: may raise `RateLimited` too."""
        ...

    def holds(self, grant: Grant, operation: Operation) -> object:
        """Raise `GrantRevoked`, `GrantExpired`, or `UntrustedWorkspace` for a change in a root that
        is not trusted."""
        ...


class OwnStanding:
    """The standing of a grant that nobody but time can end."""

    constant = True

    def __init__(self, time_ns: Callable[[], int]) -> None:
        self._time_ns = time_ns

    def check(self, grant: Grant, operation: Operation) -> None:
        if grant.expires_at is not None:
            refuse_expired(grant, self._time_ns())
        if operation.changes and not grant.root.trusted:
            raise untrusted()

    holds = check


def refuse_expired(grant: Grant, now_ns: int) -> None:
    if grant.expires_at is not None and now_ns >= grant.expires_at * 1e9:
        raise GrantExpired("the grant's time is up", hint="request the root again")


def untrusted() -> UntrustedWorkspace:
    return UntrustedWorkspace(
        "this root is not trusted, so it can only be read", hint="trust it to change it"
    )
