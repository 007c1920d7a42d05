"""`bailiwick.versions.Remembers` for a wrapped store: looking back, and going back."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Final

from bailiwick.changes_made import mounts_in
from bailiwick.errors import ParseError, PathNotFound
from bailiwick.model import ANYTHING, Expected
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Store
from bailiwick.stores.history import garbage
from bailiwick.stores.history.core import HistoryCore
from bailiwick.stores.history.garbage import HistoryCollected
from bailiwick.stores.history.ledger import FINISH_S, HistoryEntry
from bailiwick.stores.history.own_directories import heeds_modes
from bailiwick.stores.history.past import PastStore
from bailiwick.stores.history.restore_plan import plan_restore
from bailiwick.stores.history.step_runner import Applier
from bailiwick.stores.history.steps import Planned
from bailiwick.stores.history.undo_plan import UndoPlanner
from bailiwick.versions import BeneathPage, Done, Mark, Plan, Stale, Undoing, Versions

_LOOKS_MAX: Final = 10
"""Times that changes of other processes are looked at which are open. One that is over then is not
for long, and one that takes its time is not waited for."""


class Remembering:
    """The history of one store. Made by `HistoryStore.versions`."""

    def __init__(self, core: HistoryCore, mark: Mark) -> None:
        self._core = core
        self._mark = mark

    async def history(
        self, path: ScopedPath, *, before: str | None = None, limit: int = 100, own: bool = False
    ) -> Versions:
        with self._core.working():
            await self._ready()
            lineage = self._core.lineage
            bound = None if before is None else lineage.number(before)
            found = lineage.history(path, bound, limit, own)
        if not found.versions and before is None:
            raise PathNotFound(
                "nothing is kept of it: it was never changed through Bailiwick", path=path
            )
        return found

    async def beneath(self, path: ScopedPath, *, cursor: str | None, limit: int) -> BeneathPage:
        with self._core.working():
            await self._ready()
            return self._core.lineage.beneath(path, cursor, limit)

    async def origin(self, path: ScopedPath, version: str) -> ScopedPath | None:
        with self._core.working():
            await self._ready()
            return self._core.lineage.origin(path, self._core.lineage.number(version))

    async def as_of(self, version: str) -> Store:
        with self._core.working():
            await self._ready()
        return PastStore(self._core, self._core.lineage.number(version))

    # --- going back --------------------------------------------------------------------------

    async def plan_restore(self, path: ScopedPath, version: str) -> Plan:
        with self._core.working():
            return (await self._planned_restore(path, version)).plan()

    async def restore(
        self, path: ScopedPath, version: str, *, cleared: Plan | None = None,
        expected: Expected = ANYTHING,
    ) -> Done:  # fmt: skip
        # Directories may have to be opened around it, which those who are at work there would see.
        place = ROOT if heeds_modes(self._core.inner) else path
        async with self._core.changing(place):
            await self._core.looker.require(path, expected)
            planned = await self._planned_restore(path, version)
            return await self._carry_out("restore", planned, cleared)

    async def _planned_restore(self, path: ScopedPath, version: str) -> Planned:
        await self._ready()
        core = self._core
        number = core.lineage.number(version)
        mounts = mounts_in(core.inner)
        planned = await plan_restore(core.lineage, core.looker, path, number, core.limits)
        return planned._replace(mounts=mounts)

    async def plan_undo(self, what: Undoing) -> Plan:
        with self._core.working():
            return (await self._planned_undo(what)).plan()

    async def undo(self, what: Undoing, *, cleared: Plan | None = None) -> Done:
        # Everything waits: which places it is about is only known once it is planned.
        async with self._core.changing(ROOT):
            return await self._carry_out("undo", await self._planned_undo(what), cleared)

    async def _planned_undo(self, what: Undoing) -> Planned:
        await self._ready()
        core = self._core
        mounts = mounts_in(core.inner)
        planned = await UndoPlanner(core.ledger, core.looker, self._entries(what)).plan()
        return planned._replace(mounts=mounts)

    async def _carry_out(self, verb: str, planned: Planned, cleared: Plan | None) -> Done:
        if cleared is not None and not cleared.covers(planned.plan()):
            raise Stale
        return await Applier(self._core, self._mark).carry_out(verb, planned)

    def _entries(self, what: Undoing) -> list[HistoryEntry]:
        """What is to be undone, newest first. Raises `PathNotFound` for nothing."""
        ledger = self._core.ledger
        horizon = ledger.horizon()
        if what.requests:
            each_alone = (
                self._entries_if_any(what._replace(request_id=request, requests=()))
                for request in what.requests
            )
            found = sorted(chain.from_iterable(each_alone), reverse=True)
        else:
            found = self._entries_if_any(what)
        if not found:
            raise PathNotFound(
                "nothing that is kept was changed by that",
                details={"oldest": str(horizon)},
                hint="only what was changed through Bailiwick while history was on can be undone",
            )
        return found

    def _entries_if_any(self, what: Undoing) -> list[HistoryEntry]:
        conditions, values = ["owner = ''"], list[str | int]()
        if what.request_id is not None:
            conditions.append("request = ?")
            values.append(what.request_id)
        elif what.first is None and what.last is None and what.subject is None:
            raise ParseError("say what to undo: a request, versions or a subject")
        if what.subject is not None:
            conditions.append("subject = ?")
            values.append(what.subject)
        if what.since_ns is not None:
            conditions.append("time_ns >= ?")
            values.append(what.since_ns)
        for bound, sign in ((what.first, ">="), (what.last, "<=")):
            if bound is not None:
                conditions.append(f"id {sign} ?")
                values.append(self._core.lineage.number(bound))
        where = f"WHERE {' AND '.join(conditions)} ORDER BY id DESC"
        return self._core.ledger.entries(where, *values)

    async def _ready(self) -> None:
        """Have everything written down that was done, by us and by those who died doing it. Others
        who live, and may have changed something just now, get a moment to write it down."""
        await self._core.ledger.quiet()
        for _ in range(_LOOKS_MAX):
            if not await self._core.recorder.settle_dead():
                return
            await asyncio.sleep(FINISH_S)

    # --- keeping house -----------------------------------------------------------------------

    async def collect(self, *, keep_days: float = 30.0) -> HistoryCollected:
        """Forget what is older than the retention, and the content that only it needed."""
        with self._core.working():
            await self._ready()
            return await garbage.collect(self._core, keep_days)
