"""Locks: leases on a place, with a number that grows, binding for every change that comes here.

A lease on a directory covers all that lies in it. The number is a fencing token: what holds a
later lease has a greater one, so whoever keeps the greatest it has seen can refuse the others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from bailiwick.errors import LockHeld, ParseError
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.core import Turn
from bailiwick.stores.volume.lookup import VolumeHandle, stand
from bailiwick.stores.volume.rows import DIRECTORY, Bound, Origin

TTL_S_MAX: Final = 600.0
"""Ten minutes: a caller that died keeps others out no longer than this."""

_AT: Final = """
SELECT token, owner, expires_ms FROM lease
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4
"""
_ALL: Final = """
SELECT parent, token FROM lease WHERE volume = $1 AND branch = $2 AND expires_ms > $3
"""
_PUT: Final = """
INSERT INTO lease (volume, branch, parent, name, token, owner, expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (volume, branch, parent, name) DO UPDATE SET
    token = excluded.token, owner = excluded.owner, expires_ms = excluded.expires_ms
"""
_RENEW: Final = """
UPDATE lease SET expires_ms = $4
WHERE volume = $1 AND branch = $2 AND token = $3 AND expires_ms > $5 RETURNING token
"""
_RELEASE: Final = """
DELETE FROM lease WHERE volume = $1 AND branch = $2 AND token = $3 RETURNING token
"""
_SWEEP: Final = "DELETE FROM lease WHERE volume = $1 AND expires_ms <= $2"
_COUNT: Final = """
UPDATE volume SET locks = (SELECT count(*) FROM lease WHERE volume = $1) WHERE id = $1
RETURNING locks
"""


class Lease(NamedTuple):
    """A lock that was given, until it expires."""

    path: ScopedPath
    token: int
    expires_ms: int


async def check_lease(
    turn: Turn, parent: int, name: str, origin: Origin, *, beneath: Bound | None = None
) -> None:
    """Refuse a change of a place that another holds a lease on, itself or a directory above it;
    for a directory that goes as a whole (``beneath``) also where something in it is locked."""
    if not turn.transaction.locks:
        return
    tree, session = turn.tree, turn.transaction.session
    view, now_ms = tree.view, turn.core.clock_ns() // 1_000_000
    way = await tree.way_up(parent) or []
    # Each directory by its own place.
    places = [(parent, name), *((above, own) for (_, own), (above, _) in pairwise(way))]
    for place in places:
        row = await session.row(_AT, view.volume, view.branch, *place)
        if row is not None and row[2] > now_ms and row[0] != origin.lock_token:
            raise _held(row[1])
    if beneath is None or beneath.kind != DIRECTORY:
        return
    for directory, token in await session.rows(_ALL, view.volume, view.branch, now_ms):
        inside = {node for node, _ in await tree.way_up(directory) or ()}
        if beneath.node in inside and token != origin.lock_token:
            raise _held("")


def _held(owner: str) -> LockHeld:
    return LockHeld(
        "is locked", details={"owner": owner}, hint="wait until the lock is released or expires"
    )


async def lock(turn: Turn, held: VolumeHandle, ttl_s: float, owner: str, origin: Origin) -> Lease:
    """Take a lease on a place, whether or not something stands there. Raises `LockHeld`."""
    if not 0 < ttl_s <= TTL_S_MAX:
        raise ParseError(f"a lock lasts up to {TTL_S_MAX:g} seconds", details={"limit": TTL_S_MAX})
    spot = await stand(turn.tree, held)
    view, session = turn.tree.view, turn.transaction.session
    now_ms = turn.core.clock_ns() // 1_000_000
    await check_lease(turn, spot.directory, held.path.name, origin, beneath=spot.bound)
    await session.run(_SWEEP, view.volume, now_ms)
    token, expires_ms = turn.transaction.numbers.next(), now_ms + int(ttl_s * 1000)
    await session.run(
        _PUT, view.volume, view.branch, spot.directory, held.path.name, token, owner, expires_ms
    )
    await _count(turn)
    return Lease(held.path, token, expires_ms)


async def renew(turn: Turn, lease: Lease, ttl_s: float) -> Lease:
    """Keep a lease for longer. Raises `LockHeld` where it has expired: another may have it."""
    view, now_ms = turn.tree.view, turn.core.clock_ns() // 1_000_000
    expires_ms = now_ms + int(min(ttl_s, TTL_S_MAX) * 1000)
    row = await turn.transaction.session.row(
        _RENEW, view.volume, view.branch, lease.token, expires_ms, now_ms
    )
    if row is None:
        raise LockHeld("the lock has expired", path=lease.path)
    return lease._replace(expires_ms=expires_ms)


async def release(turn: Turn, lease: Lease) -> bool:
    """Give a lease back. Returns whether it was still there."""
    view = turn.tree.view
    row = await turn.transaction.session.row(_RELEASE, view.volume, view.branch, lease.token)
    await _count(turn)
    return row is not None


async def _count(turn: Turn) -> None:
    row = await turn.transaction.session.row(_COUNT, turn.tree.view.volume)
    if row is not None:
        turn.transaction.set_locks(row[0])
