"""Locks: leases on a place, with a number that grows, binding for every change that comes here.

A lease on a directory covers all that lies in it. The number is a fencing token: what holds a
later lease has a greater one, so whoever keeps the greatest it has seen can refuse the others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import msgspec

from bailiwick.errors import LockHeld, ParseError
from bailiwick.paths import ROOT
from bailiwick.stores.volume.core import Turn
from bailiwick.stores.volume.lookup import VolumeHandle, stand
from bailiwick.stores.volume.rows import DIRECTORY, Bound
from bailiwick.versions import Leased, Mark

_AT: Final = """
SELECT token, owner, expires_ms FROM lease
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4
"""
_ALL: Final = """
SELECT parent, token, owner FROM lease WHERE volume = $1 AND branch = $2 AND expires_ms > $3
"""
_PUT: Final = """
INSERT INTO lease (volume, branch, parent, name, token, owner, expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (volume, branch, parent, name) DO UPDATE SET
    token = excluded.token, owner = excluded.owner, expires_ms = excluded.expires_ms
"""
_RENEW: Final = """
UPDATE lease SET expires_ms = $4
WHERE volume = $1 AND branch = $2 AND token = $3 AND expires_ms > $5 AND owner = $6
RETURNING token
"""
_RELEASE: Final = """
DELETE FROM lease WHERE volume = $1 AND branch = $2 AND token = $3 AND owner = $4 RETURNING token
"""
_SWEEP: Final = "DELETE FROM lease WHERE volume = $1 AND expires_ms <= $2"
_COUNT: Final = """
UPDATE volume SET locks = (SELECT count(*) FROM lease WHERE volume = $1) WHERE id = $1
RETURNING locks
"""


async def check_lease(
    turn: Turn, parent: int, name: str, mark: Mark, *, beneath: Bound | None = None
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
    places.append((view.root, ROOT.name))
    for place in places:
        row = await session.row(_AT, view.volume, view.branch, *place)
        if row is not None and row[2] > now_ms and not _is_of(mark, row[0], row[1]):
            _refuse(turn, row[1])
    if beneath is None or beneath.kind != DIRECTORY:
        return
    for directory, token, owner in await session.rows(_ALL, view.volume, view.branch, now_ms):
        inside = {node for node, _ in await tree.way_up(directory) or ()}
        if beneath.node in inside and not _is_of(mark, token, owner):
            _refuse(turn, "")


def _is_of(mark: Mark, token: int, owner: str) -> bool:
    """Whether a lease is the caller's own. A number can be guessed, so it is good for nobody but
    the one it was given to."""
    return token == mark.lock_token and owner == mark.subject


def _refuse(turn: Turn, owner: str) -> None:
    """Raise, or note it for when it is known that all that is touched may be told."""
    held = LockHeld(
        "is locked", details={"owner": owner}, hint="wait until the lock is released or expires"
    )
    if turn.held_up is None:
        raise held
    turn.held_up.append(held)


async def lock(turn: Turn, held: VolumeHandle, ttl_s: float, mark: Mark) -> Leased:
    """Take a lease on a place, whether or not something stands there. Raises `LockHeld`."""
    _check_ttl(turn, ttl_s)
    spot = await stand(turn.tree, held)
    view, session = turn.tree.view, turn.transaction.session
    now_ms = turn.core.clock_ns() // 1_000_000
    await check_lease(turn, spot.directory, held.path.name, mark, beneath=spot.bound)
    await session.run(_SWEEP, view.volume, now_ms)
    token, expires_ms = turn.transaction.numbers.next(), now_ms + int(ttl_s * 1000)
    await session.run(
        _PUT, view.volume, view.branch, spot.directory, held.path.name, token, mark.subject,
        expires_ms,
    )  # fmt: skip
    await _count(turn)
    return Leased(path=held.path, token=token, expires_ns=expires_ms * 1_000_000)


async def renew(turn: Turn, lease: Leased, ttl_s: float, mark: Mark) -> Leased:
    """Keep a lease for longer. Raises `LockHeld` where it has expired: another may have it."""
    _check_ttl(turn, ttl_s)
    view, now_ms = turn.tree.view, turn.core.clock_ns() // 1_000_000
    expires_ms = now_ms + int(ttl_s * 1000)
    row = await turn.transaction.session.row(
        _RENEW, view.volume, view.branch, lease.token, expires_ms, now_ms, mark.subject
    )
    if row is None:
        raise LockHeld("the lock has expired", path=lease.path)
    return msgspec.structs.replace(lease, expires_ns=expires_ms * 1_000_000)


async def release(turn: Turn, lease: Leased, mark: Mark) -> bool:
    """Give a lease back. Returns whether it was still there."""
    view = turn.tree.view
    row = await turn.transaction.session.row(
        _RELEASE, view.volume, view.branch, lease.token, mark.subject
    )
    await _count(turn)
    return row is not None


def _check_ttl(turn: Turn, ttl_s: float) -> None:
    most = turn.core.limits.lock_ttl_seconds_max
    if not 0 < ttl_s <= most:
        raise ParseError(f"a lock lasts up to {most:g} seconds", details={"limit": most})


async def _count(turn: Turn) -> None:
    row = await turn.transaction.session.row(_COUNT, turn.tree.view.volume)
    if row is not None:
        turn.transaction.set_locks(row[0])
