"""Runs, told from the ledger: which there were, and which request is of which.

Whoever makes a change writes nothing here. Who asks for runs goes through the records that came
since the last time, in whichever process that was, and notes what follows from them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from bailiwick.audit import LedgerRecord
from bailiwick.grant import STANDING_ABOVE
from bailiwick.operations import OPERATIONS
from bailiwick.paths import ScopedPath
from bailiwick.reviews import NoteHolder
from bailiwick.runs import (
    RUN_IDLE_S,
    DigestShelf,
    RunEvent,
    RunPlace,
    RunRow,
    RunRows,
    RunStep,
    RunsWanted,
    begun_by,
    run_of,
)
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.grants.book import GrantBook
from bailiwick.state.ledger.durable import DurableLedger
from bailiwick.state.ledger.encoding import AUTHORITY_VERB, RUN, STEP, VIA, decode
from bailiwick.state.ledger.query import PAGE_RECORDS_MAX, LedgerFilter
from bailiwick.state.notices.book import NoticeBook
from bailiwick.state.runs.verdicts import VerdictBook

PART = DatabasePart(
    "runs",
    (
        """
        CREATE TABLE runs (              -- what one subject did in one session
            id       TEXT PRIMARY KEY,
            root     TEXT NOT NULL,
            subject  TEXT NOT NULL,
            front    TEXT NOT NULL,
            title    TEXT,
            begun_ns INTEGER NOT NULL,
            seen_ns  INTEGER NOT NULL,
            counts   TEXT NOT NULL       -- JSON: calls, changes, steps …
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX runs_whose ON runs (root, subject, front, seen_ns);
        CREATE TABLE run_requests (      -- which request is of which run
            run      TEXT NOT NULL,
            request  TEXT NOT NULL,
            step     TEXT,
            PRIMARY KEY (run, request)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE runs_through (      -- up to which record of the ledger all this goes
            one      INTEGER PRIMARY KEY CHECK (one = 1),
            seq      INTEGER NOT NULL
        ) STRICT;
        INSERT INTO runs_through VALUES (1, 0);
        """,
    ),
)

_BATCH: Final = 1_000

_PAGES_MAX: Final = 20
"""Of records that are looked through for who changed a path last: some tenths of a second."""

_LOOK_PAUSE_S: Final = 0.1
"""How often it is looked whether a call has ended."""

_WHOSE: Final = """
SELECT id, root, subject, front, title, begun_ns, seen_ns, counts FROM runs
WHERE root = ? AND subject = ? AND front = ? AND seen_ns >= ? ORDER BY seen_ns DESC
"""
_ROWS: Final = """
SELECT id, root, subject, front, title, begun_ns, seen_ns, counts FROM runs
WHERE root = ? ORDER BY seen_ns DESC, begun_ns DESC, id DESC
"""
_IS_AGENTS: Final = " AND ".join(
    f"substr(subject, 1, {len(each)}) <> '{each}'" for each in STANDING_ABOVE
)
_LISTED: Final = f"""
SELECT id, root, subject, front, title, begun_ns, seen_ns, counts FROM runs
WHERE root = ? AND seen_ns >= ? AND ? IN ('', subject)
    AND (seen_ns, begun_ns, id) < (?, ?, ?) AND (title IS NOT NULL OR {_IS_AGENTS})
ORDER BY seen_ns DESC, begun_ns DESC, id DESC LIMIT ?
"""
_BEFORE_ALL: Final = RunPlace(2**63 - 1, 0, "")
_SEEN: Final = """
SELECT id, root, subject, front, title, begun_ns, seen_ns, counts FROM runs
WHERE seen_ns >= ? ORDER BY seen_ns DESC LIMIT ?
"""
_COUNTS: Final = (
    "grant_id", "calls", "changes", "commands", "refusals", "questions", "approved", "asked", "via",
)  # fmt: skip


class HasBooks(Protocol):
    """The books that runs are told from."""

    @property
    def ledger(self) -> DurableLedger: ...

    @property
    def grants(self) -> GrantBook: ...


class RunIndex:
    """The runs of one authority: see `bailiwick.runs.RunBook`."""

    def __init__(
        self,
        database: Database,
        books: HasBooks,
        notices: NoticeBook,
        *,
        time_ns: Callable[[], int],
    ) -> None:
        """``notices`` is where verdicts are told."""
        self._database = database
        self._owner = database.owner
        self._ledger = books.ledger
        self._grants = books.grants
        self._time_ns = time_ns
        self.digests = DigestShelf()
        self.reviews = VerdictBook(database, notices, time_ns=time_ns)

    async def rows(self, root: str) -> list[RunRow]:
        await self.catch_up()
        return [_row(each) for each in self._database.read(_ROWS, (root,))]

    async def listed(self, root: str, wanted: RunsWanted) -> RunRows:
        await self.catch_up()
        most, after = wanted.limit + 1, wanted.after or _BEFORE_ALL
        asked = (root, wanted.since_ns or 0, wanted.subject or "", *after, most)
        rows = self._database.read(_LISTED, asked)
        return RunRows.of([_row(each) for each in rows], wanted.limit)

    async def requests(self, run: RunRow) -> Mapping[str, str | None]:
        found = self._database.read(
            "SELECT request, step FROM run_requests WHERE run = ?", (run.id,)
        )
        return dict(found)

    def is_active(self, run: RunRow) -> bool:
        if self._time_ns() - run.seen_ns > RUN_IDLE_S * 1e9:
            return False
        return run.grant_id is None or self._grants.load(run.grant_id) is not None

    async def through(self) -> int:
        """The record up to which all that was recorded is told, which is as of now."""
        await self.catch_up()
        ((seq,),) = self._database.read("SELECT seq FROM runs_through")
        return int(seq)

    def seen_since(self, since_ns: int, most: int) -> list[RunRow]:
        """The runs of agents, in every root, that were seen since, what was seen last first."""
        rows = [_row(each) for each in self._database.read(_SEEN, (since_ns, most))]
        return [each for each in rows if each.is_agents]

    async def at_work(self, root: str, subjects: Collection[str], wait_s: float) -> set[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            await self._ledger.try_flush()
            found = self._announced(root) & set(subjects)
            left = until - loop.time()
            if not found or left <= 0:
                return found
            await asyncio.sleep(min(left, _LOOK_PAUSE_S))

    def _announced(self, root: str) -> set[str]:
        """Who has announced a change in a root, or a command, that is not over yet."""
        rows = self._database.read("SELECT owner, body FROM ledger_intents WHERE root = ?", (root,))
        return {
            decode(0, body).subject
            for owner, body in rows
            if owner == self._owner.name or self._owner.is_alive(owner)
        }

    async def last_hands(
        self, root: str, paths: Collection[ScopedPath]
    ) -> Mapping[ScopedPath, NoteHolder]:
        await self._ledger.try_flush()
        waiting, found = {str(each): each for each in paths}, dict[ScopedPath, NoteHolder]()
        wanted, cursor = LedgerFilter(root=root, outcome="success"), None
        for _ in range(_PAGES_MAX):
            page = await self._ledger.query(wanted, cursor=cursor, limit=PAGE_RECORDS_MAX)
            for record in page.records:
                operation = OPERATIONS.get(record.operation)
                if operation is None or not operation.changes:
                    continue
                for place in (record.path, record.destination):
                    if place is not None and (path := waiting.pop(place, None)) is not None:
                        found[path] = NoteHolder(record.subject, _via(record))
            cursor = page.next_cursor
            if not waiting or cursor is None:
                break
        return found

    async def catch_up(self) -> None:
        """Go through what was recorded since the last time."""
        await self._ledger.try_flush()
        while self._is_behind() and await self._database.write(_fold):
            pass

    def _is_behind(self) -> bool:
        return bool(
            self._database.read(
                "SELECT 1 FROM ledger WHERE seq > (SELECT seq FROM runs_through) LIMIT 1"
            )
        )


def _fold(connection: Connection) -> bool:
    """Take the next records; whether there were any."""
    ((through,),) = connection.execute("SELECT seq FROM runs_through").fetchall()
    rows = connection.execute(
        "SELECT seq, body FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?", (through, _BATCH)
    ).fetchall()
    known: dict[tuple[str, str, str], list[RunRow]] = {}
    changed: dict[str, RunRow] = {}
    for seq, body in rows:
        event = _event(decode(int(seq), body))  # type: ignore[arg-type]
        if event is None:
            continue
        key = event.root, event.subject, event.front
        if key not in known:
            since = int(event.time_ns - 2 * RUN_IDLE_S * 1e9)
            found = connection.execute(_WHOSE, (*key, since)).fetchall()
            known[key] = [_row(each) for each in found]
        row = run_of(event, known[key])
        if row is None:
            row = begun_by(event)
            known[key].insert(0, row)
        else:
            row.take(event)
        changed[row.id] = row
        if event.changes:
            connection.execute(
                "INSERT INTO run_requests VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (row.id, event.request_id, event.step),
            )
    for row in changed.values():
        connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " title = excluded.title, seen_ns = excluded.seen_ns, counts = excluded.counts",
            (row.id, row.root, row.subject, row.front, row.title, row.begun_ns, row.seen_ns,
             _counts(row)),
        )  # fmt: skip
    if rows:
        connection.execute("UPDATE runs_through SET seq = ?", (rows[-1][0],))
    return bool(rows)


def _event(record: LedgerRecord) -> RunEvent | None:
    if record.verb == AUTHORITY_VERB or record.root is None:
        return None
    operation = OPERATIONS.get(record.operation)
    return RunEvent(
        time_ns=record.time_ns, request_id=record.request_id, subject=record.subject,
        root=record.root, front=record.front, grant_id=record.grant_id, verb=record.verb,
        outcome=record.outcome, changes=operation is not None and operation.changes,
        approval_id=record.approval_id, title=record.details.get(RUN),
        step=record.details.get(STEP), via=_via(record),
    )  # fmt: skip


def _via(record: LedgerRecord) -> tuple[str, ...]:
    return tuple(json.loads(record.details.get(VIA, "[]")))


def _counts(row: RunRow) -> str:
    told = {name: getattr(row, name) for name in _COUNTS}
    return json.dumps({**told, "steps": msgspec.to_builtins(row.steps)})


def _row(found: Sequence[object]) -> RunRow:
    id, root, subject, front, title, begun_ns, seen_ns, counts = found
    told = json.loads(str(counts))
    steps = msgspec.convert(told.pop("steps"), list[RunStep])
    via = tuple(told.pop("via", ()))
    return RunRow(
        id=str(id), root=str(root), subject=str(subject), front=str(front),
        title=None if title is None else str(title), begun_ns=int(begun_ns),  # type: ignore[call-overload]
        seen_ns=int(seen_ns), steps=steps, via=via, **told,  # type: ignore[call-overload]
    )  # fmt: skip
