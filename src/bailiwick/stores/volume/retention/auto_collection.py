"""A volume that collects by itself: now and then, in small steps, one process at a time.

Each open place has one of these. Whoever comes first takes a lease on collecting in the volume; the
others look again later. Between two steps it waits at least as long as the step took, so that
writers have the file for themselves half of the time and more.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import Final, NamedTuple

from bailiwick.errors import BailiwickError, Busy
from bailiwick.periodic_task import PeriodicTask
from bailiwick.stores.volume.core import VolumeCore, compare_settings
from bailiwick.stores.volume.retention.garbage import VolumeCollected, collect
from bailiwick.stores.volume.rows.database import Transaction
from bailiwick.stores.volume.store import VolumeStore

KEEP_DAYS: Final = 30.0

_FIRST_S: Final = 10.0
"""After opening: a place that is opened for one change does not collect."""

_EVERY_S: Final = 600.0

_REST: Final = 20.0
"""So many times as long as a pass took it rests: a large volume is not collected all the time."""

_ANYWAY_S: Final = 6 * 3600.0
"""How often a volume in which nothing was changed is looked at all the same: versions grow old."""

_ORPHANS_S: Final = 24 * 3600.0
"""How often the whole blob store is looked through for what no chunk names: that may be long, and
in a bucket it costs money."""

_LEASE_MS: Final = 60_000
_PAUSE_S_MIN: Final = 0.005
_PAUSE_S_MAX: Final = 1.0

# No branch has the number 0, so nobody's path ever meets this lease.
_TAKE: Final = """
INSERT INTO lease (volume, branch, parent, name, token, owner, expires_ms, boot, ends_ms)
VALUES ($1, 0, 0, 'collecting', 0, $2, $3, $5, $6)
ON CONFLICT (volume, branch, parent, name) DO UPDATE SET
    owner = excluded.owner, expires_ms = excluded.expires_ms, boot = excluded.boot,
    ends_ms = excluded.ends_ms
WHERE lease.owner = excluded.owner
    OR lease.boot = $5 AND lease.ends_ms <= $7 OR lease.boot <> $5 AND lease.expires_ms <= $4
RETURNING owner
"""
_GIVE_BACK: Final = """
DELETE FROM lease
WHERE volume = $1 AND branch = 0 AND parent = 0 AND name = 'collecting' AND owner = $2
"""
_LAST: Final = "SELECT last FROM volume WHERE id = $1"


class _Passed(NamedTuple):
    """A pass that was made: up to which number there was anything, and up to which version what
    nobody can look at any more was taken away."""

    last: int
    horizon: str
    when: float


class VolumeAutoCollection(PeriodicTask):
    """Collects in a volume from `begin` until `aclose`, which stops between two steps."""

    def __init__(
        self,
        store: VolumeStore,
        name: str,
        keep_days: float | None = None,
        *,
        first_s: float = _FIRST_S,
        every_s: float = _EVERY_S,
    ) -> None:
        super().__init__(
            self.collect_if_due, name="volume-keeping",
            first_s=first_s, every_s=every_s, rest=_REST,
        )  # fmt: skip
        self._core: VolumeCore = store.core
        self._keep_days = KEEP_DAYS if keep_days is None else keep_days
        self._owner = secrets.token_hex(8)
        self._leased_until = 0.0
        self._step_ended = 0.0
        self._passed: _Passed | None = None
        self._orphans_due = 0.0
        compare_settings(
            self._core.database.shared, f"the retention of the volume {name!r}",
            {"keep_versions_days": f"{self._keep_days:g}"},
        )  # fmt: skip

    async def collect_if_due(self) -> VolumeCollected | None:
        """Collect, unless somebody else does: then None."""
        now = time.monotonic()
        if not await self._take():
            return None
        try:
            last, before = await self._last(), self._passed
            orphans = now >= self._orphans_due
            unless = None
            if before is not None and before.last == last and now < before.when + _ANYWAY_S:
                unless = before.horizon
            done = await collect(
                self._core, self._keep_days, pace=self._pace, orphans=orphans, unless=unless
            )
        finally:
            with suppress(BailiwickError):
                await self._give_back()
        if done.horizon != unless:
            seen = await self._last_but_for(done, last)
            # Where nothing is kept the horizon is the counter, and has moved on with it.
            horizon = str(seen) if done.horizon == str(last) else done.horizon
            self._passed = _Passed(seen, horizon, now)
            if orphans:
                self._orphans_due = now + _ORPHANS_S
        return done

    async def _last_but_for(self, done: VolumeCollected, before: int) -> int:
        """Up to which number there was anything before a pass. Over a network each of its steps may
        have taken a number as well, and is no news."""
        if self._core.at_once is not None:
            return before
        last = await self._last()
        return last if last - before <= done.steps else before

    async def _last(self) -> int:
        async with self._core.looking() as session:
            row = await session.row(_LAST, self._core.volume)
        return int(row[0]) if row else 0

    async def _pace(self) -> None:
        """Between two steps: let others work, and keep the lease."""
        now = time.monotonic()
        took = now - self._step_ended
        await asyncio.sleep(min(max(took, _PAUSE_S_MIN), _PAUSE_S_MAX))
        if time.monotonic() > self._leased_until - _LEASE_MS / 2000 and not await self._take():
            raise Busy("another process collects in this volume by now")
        self._step_ended = time.monotonic()

    async def _take(self) -> bool:
        volume, clock_ms = self._core.volume, self._core.clock_ns() // 1_000_000
        boot, now_ms = self._core.uptime.boot, self._core.uptime.now_ms()

        async def job(turn: Transaction) -> bool:
            row = await turn.session.row(
                _TAKE, volume, self._owner, clock_ms + _LEASE_MS, clock_ms, boot,
                now_ms + _LEASE_MS, now_ms,
            )  # fmt: skip
            return row is not None

        taken = await self._core.database.write(job)
        self._leased_until = time.monotonic() + _LEASE_MS / 1000
        self._step_ended = time.monotonic()
        return taken

    async def _give_back(self) -> None:
        volume = self._core.volume

        async def job(turn: Transaction) -> None:
            await turn.session.run(_GIVE_BACK, volume, self._owner)

        await self._core.database.write(job)
