"""The locks that callers hold, by an id: a lease is renewed and released by later requests."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from bailiwick.errors import PathNotFound
from bailiwick.grant import Subject
from bailiwick.scope.versioning import Lease

_LEASES_KEPT = 10_000


class Held(NamedTuple):
    """A lease, who holds it, and on which root or fork."""

    holder: str
    subject: Subject
    lease: Lease
    root: str
    fork: str | None


class Leases:
    """The leases that were taken through this process and not given back."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def keep(self, held: Held) -> str:
        if len(self._held) >= _LEASES_KEPT:
            # The oldest has run out long ago: none lasts longer than ten minutes unrenewed.
            self._held.pop(next(iter(self._held)))
        name = secrets.token_urlsafe(16)
        self._held[name] = held
        return name

    def find(self, name: str, holder: str | None) -> Held:
        """The lease of an id, for its holder; for anybody where none is given. Raises
        `PathNotFound`."""
        held = self._held.get(name)
        if held is None or (holder is not None and held.holder != holder):
            raise PathNotFound("there is no such lock")
        return held

    def drop(self, name: str) -> None:
        self._held.pop(name, None)
