"""Runs in a place that someone opened for themselves: told from what this process has on record,
and from the versions that the place keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from bailiwick.audit import AuditRing, Record
from bailiwick.call import Machine
from bailiwick.operations import OPERATIONS
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.reviews import NoteHolder
from bailiwick.runs import (
    RUN_IDLE_S,
    DigestShelf,
    RunEvent,
    RunRow,
    RunRows,
    RunsInMemory,
    RunsWanted,
)
from bailiwick.store import Store
from bailiwick.versions import TellsBeneath, Version, past

_VERSIONS_MAX: Final = 10_000
_PAGE: Final = 500


class OwnRuns:
    """See `bailiwick.runs.RunBook`. What people say of runs is not kept here."""

    reviews = None

    def __init__(self, records: Callable[[], list[Record]], store: Store, machine: Machine) -> None:
        self._records = records
        self._store = store
        self._machine = machine
        self.digests = DigestShelf()

    @classmethod
    def over(cls, ring: AuditRing, store: Store, machine: Machine) -> OwnRuns:
        return cls(ring.records, store, machine)

    async def rows(self, root: str) -> list[RunRow]:
        return (await self._runs(root)).rows()

    async def listed(self, root: str, wanted: RunsWanted) -> RunRows:
        found = [each for each in await self.rows(root) if wanted.means(each)]
        return RunRows.of(found, wanted.limit)

    async def requests(self, run: RunRow) -> Mapping[str, str | None]:
        return (await self._runs(run.root)).requests(run.id)

    def is_active(self, run: RunRow) -> bool:
        return self._machine.time_ns() - run.seen_ns <= RUN_IDLE_S * 1e9

    async def at_work(self, root: str, subjects: Collection[str], wait_s: float) -> set[str]:
        return set()

    async def last_hands(
        self, root: str, paths: Collection[ScopedPath]
    ) -> Mapping[ScopedPath, NoteHolder]:
        return {}

    async def _runs(self, root: str) -> RunsInMemory:
        """By what is on record here; of other processes, by the versions that they made."""
        events = [_event(each) for each in self._records()]
        known = {(each.subject, each.request_id) for each in events}
        events += [
            _made(each, root)
            for each in await self._versions()
            if each.subject and (each.subject, each.request_id) not in known
        ]
        runs = RunsInMemory()
        for event in sorted(events, key=lambda each: each.time_ns):
            runs.add(event)
        return runs

    async def _versions(self) -> list[Version]:
        if "Remembers" not in self._store.powers:
            return []
        looking = past(self._store)
        found: list[Version] = []
        cursor: str | None = None
        while isinstance(looking, TellsBeneath) and len(found) < _VERSIONS_MAX:
            page = await looking.beneath(ROOT, cursor=cursor, limit=_PAGE)
            found += page.versions
            cursor = page.next_cursor
            if cursor is None:
                break
        return found


def _event(record: Record) -> RunEvent:
    operation = OPERATIONS.get(record.operation)
    return RunEvent(
        time_ns=record.time_ns, request_id=record.request_id, subject=str(record.subject),
        root=str(record.root), front=record.front, grant_id=None, verb=record.verb,
        outcome=record.outcome, changes=operation is not None and operation.changes,
        approval_id=record.approval_id, title=record.title, step=record.step, via=record.grant.via,
    )  # fmt: skip


def _made(version: Version, root: str) -> RunEvent:
    return RunEvent(
        time_ns=version.time_ns or 0, request_id=version.request_id, subject=version.subject,
        root=root, front="", grant_id=None, verb=version.verb or "", outcome="success",
        changes=True, approval_id=None,
    )  # fmt: skip
