"""Locks: leases on a place, with a number that grows, binding for every change that comes here.

A lease on a directory covers all that lies in it. The number is a fencing token: whoever was given
a lease later has a greater one. A change that carries a token passes with that of a lease that is
alive, or else with the newest that was ever given out for what it touches: a holder that slept
past the end of its lease finds out, also when those who came after it are gone again.

Tokens of ended leases stay in their rows. The oldest are forgotten first, and one that is forgotten
is no token: so what is forgotten can only refuse.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from bailiwick.errors import LockHeld, ParseError
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.stores.volume.core import ChangeTurn
from bailiwick.stores.volume.lookup.paths import VolumeHandle, stand
from bailiwick.stores.volume.refusals import stale_token
from bailiwick.stores.volume.rows.database import INFINITY
from bailiwick.stores.volume.rows.records import DIRECTORY, BoundName
from bailiwick.versions import Leased, Mark

_RECORD: Final = "SELECT token, owner, boot, ends_ms, expires_ms, parent, name FROM lease"
_AT: Final = f"{_RECORD} WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4"
_BY_TOKEN: Final = f"{_RECORD} WHERE volume = $1 AND branch = $2 AND token = $3"
_ALL: Final = f"""
{_RECORD} WHERE volume = $1 AND branch = $2 AND (expires_ms > 0 OR token >= $3)
"""
_PUT: Final = """
INSERT INTO lease (volume, branch, parent, name, token, owner, expires_ms, boot, ends_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (volume, branch, parent, name) DO UPDATE SET
    token = excluded.token, owner = excluded.owner, expires_ms = excluded.expires_ms,
    boot = excluded.boot, ends_ms = excluded.ends_ms
"""
_END: Final = "UPDATE lease SET expires_ms = 0 WHERE volume = $1 AND branch = $2 AND token = $3"
_SWEEP: Final = """
UPDATE lease SET expires_ms = 0
WHERE volume = $1 AND branch <> 0 AND expires_ms > 0
    AND (boot = $2 AND ends_ms <= $3 OR boot <> $2 AND expires_ms <= $4)
"""
_FORGET: Final = """
DELETE FROM lease WHERE volume = $1 AND branch <> 0 AND expires_ms = 0 AND token < (
    SELECT min(token) FROM (
        SELECT token FROM lease WHERE volume = $1 AND branch <> 0 AND expires_ms = 0
        ORDER BY token DESC LIMIT $2))
"""
_COUNT: Final = """
UPDATE volume SET locks =
    (SELECT count(*) FROM lease WHERE volume = $1 AND branch <> 0 AND expires_ms > 0)
WHERE id = $1 RETURNING locks
"""


class _Record(NamedTuple):
    """A lease that was given out, as its row has it."""

    token: int
    owner: str
    boot: str
    ends_ms: int
    expires_ms: int
    parent: int
    name: str

    def is_of(self, mark: Mark) -> bool:
        """Whether it is the caller's own. A number can be guessed, so it is good for nobody but
        the one it was given to."""
        return self.token == mark.lock_token and self.owner == mark.subject

    def is_alive(self, turn: ChangeTurn) -> bool:
        """One of another start is judged by the clock. Opening a volume has brought all of them
        to this start, so that is one of a machine that shares the file at this moment."""
        if not self.expires_ms:
            return False
        boot, now_ms = turn.core.uptime
        if self.boot == boot:
            return self.ends_ms > now_ms()
        return self.expires_ms > turn.core.clock_ns() // 1_000_000


async def check_lease(
    turn: ChangeTurn, parent: int, name: str, mark: Mark, *, beneath: BoundName | None = None
) -> None:
    """Refuse a change of a place that another holds a lease on, itself or a directory above it;
    for a directory that goes as a whole (``beneath``) also where something in it is locked.

    A token must be good for one of the places that a change touches: that it was good for none is
    known at the end, and refused by `Core.run`.
    """
    if mark.lock_token is None and not turn.transaction.locks:
        return
    over = await _covering(turn, parent, name)
    under = [] if beneath is None else await _inside(turn, beneath, mark)
    found = [*over, *under]
    own = next((each for each in found if each.is_of(mark)), None)
    if mark.lock_token is not None:
        turn.is_fenced = bool(turn.is_fenced) or own is not None
    other = next((each for each in found if each is not own and each.is_alive(turn)), None)
    if other is not None:
        above = await turn.tree.path(parent) if name else None
        path = ROOT if above is None else above.child(name)
        await _refuse_held(turn, path, other.owner if other in over else "", mark)
    elif own is not None and not own.is_alive(turn) and _is_followed(own, found):
        turn.refuse(stale_token())


def _is_followed(own: _Record, found: list[_Record]) -> bool:
    return any(each.token > own.token for each in found)


async def _covering(turn: ChangeTurn, parent: int, name: str) -> list[_Record]:
    """The newest lease of a place, and of each directory that it lies in by its own place."""
    view, found = turn.tree.view, list[_Record]()
    way = await turn.tree.way_up(parent) or []
    places = [(parent, name), *((above, own) for (_, own), (above, _) in pairwise(way))]
    for place in {*places, (view.root, ROOT.name)}:
        row = await turn.transaction.session.row(_AT, view.volume, view.branch, *place)
        if row is not None:
            found.append(_Record(*row))
    return found


async def _inside(turn: ChangeTurn, top: BoundName, mark: Mark) -> list[_Record]:
    """Leases of what lies in a directory: those that may be alive, and with a token those that are
    not older."""
    if top.kind != DIRECTORY:
        return []
    view, found = turn.tree.view, list[_Record]()
    since = INFINITY if mark.lock_token is None else mark.lock_token
    for row in await turn.transaction.session.rows(_ALL, view.volume, view.branch, since):
        record = _Record(*row)
        if top.node in {node for node, _ in await turn.tree.way_up(record.parent) or ()}:
            found.append(record)
    return found


async def _refuse_held(turn: ChangeTurn, path: ScopedPath, owner: str, mark: Mark) -> None:
    """The path is that of what would be changed: where the lease is another's to know."""
    is_stale = mark.lock_token is not None
    if is_stale:
        record = await _given_out(turn, mark)
        is_stale = record is None or not record.is_alive(turn)
    details = {"owner": owner, "stale": True} if is_stale else {"owner": owner}
    turn.refuse(
        LockHeld(
            "is locked", path=path, details=details,
            hint="wait until the lock is released or expires",
        )
    )  # fmt: skip


async def _given_out(turn: ChangeTurn, mark: Mark) -> _Record | None:
    """The lease that the caller's token was given out for; None where there was none."""
    view = turn.tree.view
    row = await turn.transaction.session.row(_BY_TOKEN, view.volume, view.branch, mark.lock_token)
    record = None if row is None else _Record(*row)
    return record if record is not None and record.is_of(mark) else None


async def lock(turn: ChangeTurn, held: VolumeHandle, ttl_s: float, mark: Mark) -> Leased:
    """Take a lease on a place, whether or not something stands there. Raises `LockHeld`."""
    _check_ttl(turn, ttl_s)
    spot = await stand(turn.tree, held)
    await check_lease(turn, spot.directory, held.path.name, mark, beneath=spot.bound)
    view, session, core = turn.tree.view, turn.transaction.session, turn.core
    boot, now_ms = core.uptime
    clock_ms = core.clock_ns() // 1_000_000
    await session.run(_SWEEP, view.volume, boot, now_ms(), clock_ms)
    await session.run(_FORGET, view.volume, core.limits.lock_tokens_max)
    token = turn.transaction.numbers.next()
    record = _record(turn, token, mark.subject, spot.directory, held.path.name, ttl_s)
    await _put(turn, record)
    await turn.keep_key("lock", mark)
    return _leased(held.path, record)


async def renew(turn: ChangeTurn, lease: Leased, ttl_s: float, mark: Mark) -> Leased:
    """Keep a lease for longer. Raises `LockHeld` where it has expired: another may have it."""
    _check_ttl(turn, ttl_s)
    token, owner, *_, parent, name = await _alive(turn, lease.path, lease.token, mark)
    record = _record(turn, token, owner, parent, name, ttl_s)
    await _put(turn, record)
    return _leased(lease.path, record)


async def lock_again(turn: ChangeTurn, path: ScopedPath, token: int, mark: Mark) -> Leased:
    """A lease that the caller was given. Raises `LockHeld` where it has expired."""
    return _leased(path, await _alive(turn, path, token, mark))


async def _alive(turn: ChangeTurn, path: ScopedPath, token: int, mark: Mark) -> _Record:
    record = await _given_out(turn, _with_token(mark, token))
    if record is None or not record.is_alive(turn):
        raise LockHeld("the lock has expired", path=path, details={"stale": True})
    return record


async def release(turn: ChangeTurn, lease: Leased, mark: Mark) -> bool:
    """Give a lease back. Returns whether it was still there."""
    view = turn.tree.view
    record = await _given_out(turn, _with_token(mark, lease.token))
    if record is None or not record.expires_ms:
        return False
    await turn.transaction.session.run(_END, view.volume, view.branch, record.token)
    await _count(turn)
    return True


def _with_token(mark: Mark, token: int) -> Mark:
    return msgspec.structs.replace(mark, lock_token=token)


def _record(
    turn: ChangeTurn, token: int, owner: str, parent: int, name: str, ttl_s: float
) -> _Record:
    """A lease from now on."""
    boot, now_ms = turn.core.uptime
    ttl_ms = int(ttl_s * 1000)
    expires_ms = turn.core.clock_ns() // 1_000_000 + ttl_ms
    return _Record(token, owner, boot, now_ms() + ttl_ms, expires_ms, parent, name)


async def _put(turn: ChangeTurn, record: _Record) -> None:
    token, owner, boot, ends_ms, expires_ms, parent, name = record
    view = turn.tree.view
    await turn.transaction.session.run(
        _PUT, view.volume, view.branch, parent, name, token, owner, expires_ms, boot, ends_ms
    )
    await _count(turn)


def _leased(path: ScopedPath, record: _Record) -> Leased:
    return Leased(path=path, token=record.token, expires_ns=record.expires_ms * 1_000_000)


def _check_ttl(turn: ChangeTurn, ttl_s: float) -> None:
    most = turn.core.limits.lock_ttl_seconds_max
    if not 0 < ttl_s <= most:
        raise ParseError(f"a lock lasts up to {most:g} seconds", details={"limit": most})


async def _count(turn: ChangeTurn) -> None:
    row = await turn.transaction.session.row(_COUNT, turn.tree.view.volume)
    if row is not None:
        turn.transaction.set_locks(row[0])
