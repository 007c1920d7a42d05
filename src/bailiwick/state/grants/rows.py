"""How grants stand in the rows of the book: as bytes that are checked before they are kept.

What is handed to the book comes from callers, at some remove. A row that cannot be read again would
be in the way of everyone, so it is read once before it is written; and one that cannot be read all
the same is left out of lists, gives nothing, and is in the log.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from bailiwick.errors import GrantExpired, GrantRevoked, IoError, ParseError
from bailiwick.grant import Grant, StandingGrant
from bailiwick.model import Value
from bailiwick.state.bodies import Bodies, encode, made_of

_log = logging.getLogger("bailiwick.state")

Read = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
"""Asks the state's database."""

NEVER = 2**63 - 1
"""The time at which a grant without an end ends."""

COLUMNS = "id, kind, parent, origin, body, created_ns, expires_ns, ended_ns"

LINE = """
    WITH RECURSIVE line (id, parent, step) AS (
        SELECT id, parent, 0 FROM grants WHERE id = ?1
        UNION SELECT grants.id, grants.parent, step + 1
        FROM grants JOIN line ON grants.id = line.parent)
"""
"""A grant, and those that it descends from, the nearest first."""

LISTED_THERE = "substr(origin, 1, 14) = 'configuration:'"
OF_CONFIGURATION = f"{LINE} SELECT 1 FROM line JOIN grants USING (id) WHERE {LISTED_THERE}"
"""What a configuration lists, and whether a grant descends from such."""

_HELD = """
    SELECT 1 FROM grants WHERE subject = ? AND root = ? AND kind = 'held' AND released = 0
    AND ended_ns IS NULL AND expires_ns > ? LIMIT 1
"""

_grants = Bodies(Grant)
_standing = msgspec.msgpack.Decoder(StandingGrant, dec_hook=made_of)


class GrantEntry(Value, frozen=True, kw_only=True):
    """A page of the book: a grant, and what became of it. Times are nanoseconds since 1970."""

    id: str
    kind: Literal["standing", "held"]
    parent: str | None
    configured: bool
    grant: StandingGrant | Grant
    created_ns: int
    ended_ns: int | None

    def holds(self, now_ns: int) -> bool:
        until = self.grant.expires_at
        return self.ended_ns is None and (until is None or now_ns < until * 1e9)


class GrantPage(NamedTuple):
    entries: list[GrantEntry]
    next_cursor: str | None


def encode_grant(grant: StandingGrant | Grant) -> bytes:
    """A grant as it is kept. Raises `ParseError` for one that could not be read again."""
    body = encode(grant) if isinstance(grant, StandingGrant) else _grants.encode(grant)
    try:
        decode_grant("standing" if isinstance(grant, StandingGrant) else "held", body)
    except IoError as error:
        raise ParseError(f"this is no grant: {error.__cause__}") from error
    return body


def decode_grant(kind: str, body: bytes) -> StandingGrant | Grant:
    return decode_standing(body) if kind == "standing" else _grants.decode(body)


def decode_standing(body: bytes) -> StandingGrant:
    try:
        return _standing.decode(body)
    except msgspec.MsgspecError as error:
        raise IoError("the authority's state holds a grant that cannot be read") from error


def readable_standing(grant_id: str, body: bytes) -> StandingGrant | None:
    """A standing grant; None, and a line in the log, where nobody can tell what it gives."""
    try:
        return decode_standing(body)
    except IoError as error:
        _log.error("a grant cannot be read", extra={"grant_id": grant_id}, exc_info=error)
        return None


def entry_of(row: tuple[Any, ...]) -> GrantEntry:
    id_, kind, parent, origin, body, created_ns, expires_ns, ended_ns = row[:8]
    grant = decode_grant(kind, body)
    # The time of what it descends from may have been shortened since.
    if isinstance(grant, Grant) and expires_ns < nanoseconds(grant.expires_at):
        grant = until(grant, expires_ns)
    return GrantEntry(
        id=id_, kind=kind, parent=parent, configured=bool(origin), grant=grant,
        created_ns=created_ns, ended_ns=ended_ns,
    )  # fmt: skip


def readable_entries(rows: Iterable[tuple[Any, ...]]) -> list[GrantEntry]:
    """The entries of rows, without those that cannot be read."""
    entries: list[GrantEntry] = []
    for row in rows:
        try:
            entries.append(entry_of(row))
        except IoError as error:
            _log.error("a grant cannot be read", extra={"grant_id": row[0]}, exc_info=error)
    return entries


def nanoseconds(expires_at: float | None) -> int:
    if expires_at is None:
        return NEVER
    if not math.isfinite(expires_at) or not 0 <= expires_at * 1e9 < NEVER:
        raise ParseError("a grant ends at a time in seconds since 1970, or never")
    return int(expires_at * 1e9)


def until(grant: Grant, expires_ns: int) -> Grant:
    return msgspec.structs.replace(grant, expires_at=expires_ns / 1e9)


def shared_of(rows: list[tuple[Any, ...]], now_ns: int) -> Grant | None:
    """The grant that processes share, of its row. Raises `GrantRevoked` or `GrantExpired`."""
    if not rows:
        return None
    entry = entry_of(rows[0])
    if entry.ended_ns is not None or not isinstance(entry.grant, Grant):
        raise revoked()
    if not entry.holds(now_ns):
        raise GrantExpired("the grant's time is up", hint="request the root again")
    return entry.grant


def is_held(read: Read, subject: str, root: str, now_ns: int) -> bool:
    """Whether anybody acts by this name in a root: a session that ended gave its grants back."""
    return bool(read(_HELD, (subject, root, now_ns)))


def revoked() -> GrantRevoked:
    return GrantRevoked("the grant was taken back", hint="request the root again")
