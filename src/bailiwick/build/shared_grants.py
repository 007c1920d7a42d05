"""Grants of processes that serve together: workers of one server, or servers on one state. What is
passed on, taken back or agreed to under one of them at one process is so at all."""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bailiwick.errors import GrantExpired, GrantRevoked
from bailiwick.grant import StandingGrant, Subject
from bailiwick.operations import Access

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.scope import Scope


class SharedGrants:
    """What they are called, and the scopes under them."""

    def __init__(self, key: bytes) -> None:
        """``key`` is the same for all workers, and another for every server."""
        self._key = key

    @property
    def front(self) -> str:
        """What the names of all of them begin with."""
        return f"shared-{self._digest('')[:8]}-"

    async def scope(
        self,
        authority: Authority,
        subject: Subject,
        root: str,
        standing: StandingGrant,
        access: frozenset[Access],
        reason: str,
        *,
        front: str,
        wait_s: float,
    ) -> Scope:
        """The scope under the grant that all have for this. After one that is over comes the
        next. Raises `GrantRevoked`."""
        what = (front, str(subject), root, standing.id, str(standing.path), *sorted(access))
        for name in self._names("\0".join(what)):
            try:
                return await authority.share_root(
                    subject, root, access, reason, grant_id=name, path=str(standing.path),
                    front=front, wait_s=wait_s,
                )  # fmt: skip
            except GrantExpired:
                continue
            except GrantRevoked:
                if standing.id:
                    raise
        raise AssertionError("there is always a next name")

    def _names(self, what: str) -> Iterator[str]:
        """The names for what a subject has of a root by a grant, one after the other."""
        for number in itertools.count():
            yield self.front + self._digest(f"{what}\0{number}")[:16]

    def _digest(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), hashlib.sha256).hex()
