"""Records on their way into the ledger: queued by whoever works, written in batches by the writer.

On the caller's thread a record costs two appends. Encoding, hashing and inserting happen on the
database's own thread, some hundred records in a transaction; or, while commits are quick, a few
along with an intent, whose commit is made anyway. What cannot be written stays queued
and is tried again; where the queue is full, the records of reads are given up, counted, and their
number is put on record as soon as that is possible. The records of changes are never given up.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import apsw
import msgspec

from bailiwick.audit import AuthorityRecord, Record
from bailiwick.errors import Busy, Closed, IoError
from bailiwick.limits import Limits
from bailiwick.model import Change
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.state.database import Connection, Database, Statements
from bailiwick.state.ledger.chain import append
from bailiwick.state.ledger.encoding import Hide, encode_authority, encode_record
from bailiwick.state.ledger.intents import drop_intents
from bailiwick.state.ledger.key import Keys
from bailiwick.state.ledger.notes import OpenNotes, keep_settled

_log = logging.getLogger("bailiwick.state")

KeepChanges = Callable[[Statements, Sequence[Change]], None]
"""Puts what one operation changed into the feed, in the transaction of its record: all of it or,
where it raises, nothing."""

ChangesKept = Callable[[], None]
"""Is called on the event loop of the operation, once its changes are in the feed."""

QUEUED_RECORDS_MAX = 65_536
"""Records that may wait to be written, a few tens of megabytes: more means that writing fails, or
that reads come faster than they can be recorded, and then they are held up."""

_FLUSH_RECORDS_MAX = 1_024
"""Records of one transaction: some ten milliseconds, in which no change can be announced."""

_SETTLE_SECONDS_MAX = 0.005
"""How long a settled change may wait for company, most often the next one's intent: a commit for
itself would hold that up. Its own intent is durable all the while."""

_ALONG_RECORDS = 8
_ALONG_SECONDS = 0.0025
"""So many records go along with an intent, since an event loop stands still for them; or as many as
there are, once the first will be due within that time. Written together they take half as long as
each by itself, and an intent that goes alone a third."""

_RETRY_SECONDS = 1.0
"""When records that could not be written are tried again, if nothing else is written before."""

_HELD_UP_SECONDS_MAX = 2.0
"""How long a read is held up by a full queue before its record is given up, and counted."""


class Keeper(NamedTuple):
    """The feed of one root, as the ledger sees it."""

    keep: KeepChanges
    kept: ChangesKept | None


class Settled(msgspec.Struct, frozen=True):
    """A change that was made, or failed, after it was announced."""

    record: Record
    intent: int | None
    changes: Sequence[Change]
    keeper: Keeper | None
    loop: asyncio.AbstractEventLoop | None
    noted: bool = False
    """Whether it was announced by a note with the change itself."""


class RecordQueue:
    """The records of one process that are not durable yet, and the newest that are or will be.

    ``settled`` is called on the writer's thread with the number of each intent that is gone, and
    whether it was a note.
    """

    def __init__(
        self,
        database: Database,
        keys: Keys,
        *,
        limits: Limits,
        clock: Callable[[], int],
        hide: Hide,
        settled: Callable[[int, bool], None],
        open_notes: OpenNotes,
    ) -> None:
        self.failing = False
        self.dropped = 0
        self.feed_failures = 0
        self.ring: deque[Record] = deque(maxlen=limits.audit_ring_records)
        self._database = database
        self._keys = keys
        self._batch_seconds_max = limits.audit_batch_seconds_max
        self._clock = clock
        self._hide = hide
        self._settled = settled
        self._open_notes = open_notes
        self._pending: deque[Record | Settled] = deque()
        self._due = 0.0
        """When the first of them is to be written, by the monotonic clock. Between threads it may
        be told too early, or by one batch too late."""
        self._counting = threading.Lock()
        self._taken = 0
        """Records that the writer's thread is at: neither queued any more nor durable yet."""
        self._left_over = False
        """Whether more was queued than the last attempt took."""
        self._dropped_told = 0
        self._statements: Statements | None = None
        self._told: set[ChangesKept] = set()
        """Feeds that will hear, in the next turn of the loop, that something was kept."""
        self._expecting = False
        """Whether a change was settled since the writer's thread looked last."""
        # Whether an attempt to write is queued that will come soon enough for each.
        self._note_armed = False
        self._settle_armed = False
        self._retry_armed = False

    def __len__(self) -> int:
        return len(self._pending) + self._taken

    def note(self, record: Record) -> None:
        """Queue the record of a call that changed nothing. Raises `Closed`."""
        pending = self._pending
        if len(pending) >= QUEUED_RECORDS_MAX and not self._make_room():
            self.dropped += 1
            return
        self.ring.append(record)
        due = time.monotonic() + self._batch_seconds_max
        if not pending or due < self._due:
            self._due = due
        pending.append(record)
        if not self._note_armed:
            self._note_armed = True
            self._arm(self._batch_seconds_max)

    def settle(
        self,
        record: Record,
        intent: int | None,
        changes: Sequence[Change],
        keeper: Keeper | None,
        *,
        noted: bool = False,
    ) -> None:
        """Queue the record of a change, which takes the place of its intent. Raises `Closed`."""
        self.ring.append(record)
        # Whatever the length: as many as have announced themselves, and none can while writing
        # fails.
        due = time.monotonic() + _SETTLE_SECONDS_MAX
        if not self._pending or due < self._due:
            self._due = due
        loop = asyncio._get_running_loop()
        self._pending.append(Settled(record, intent, changes, keeper, loop, noted))
        self._expecting = True
        if not self._settle_armed:
            self._settle_armed = True
            self._arm(_SETTLE_SECONDS_MAX)

    async def flush(self) -> None:
        """Wait until everything queued so far is durable. Raises `IoError`, `Closed`."""
        loop = asyncio.get_running_loop()
        while self._pending or self._taken:
            done: asyncio.Future[None] = loop.create_future()
            flush = _Flush(self)

            def ended(
                error: BaseException | None,
                flush: _Flush = flush,
                done: asyncio.Future[None] = done,
            ) -> None:
                flush.ended(error)
                with suppress(RuntimeError):  # the loop was closed: nobody waits
                    loop.call_soon_threadsafe(_tell, done)

            self._database.submit(flush.run, ended=ended)
            await done
            if self.failing:  # this attempt, or another that had taken the records before it
                raise self._database.not_written("records cannot be written")

    def _arm(self, within_s: float) -> None:
        """Have what is queued written within that time."""
        flush = _Flush(self)
        try:
            self._database.submit(
                flush.run, within_s=within_s, still_due=self._still_due, ended=flush.ended
            )
        except Closed:
            self._note_armed = self._settle_armed = self._retry_armed = False
            raise

    def _make_room(self) -> bool:
        """Hold the caller up until the queue is shorter; False where that does not help."""
        deadline = time.monotonic() + _HELD_UP_SECONDS_MAX
        while not self.failing and self._note_armed and time.monotonic() < deadline:
            time.sleep(0.001)  # lets the writer's thread run
            if len(self._pending) < QUEUED_RECORDS_MAX:
                return True
        return len(self._pending) < QUEUED_RECORDS_MAX

    def _tell_now(self, kept: ChangesKept) -> None:
        self._told.discard(kept)
        kept()

    # --- on the writer's thread --------------------------------------------------------------

    def _still_due(self) -> float | None:
        """When what is queued has to be written for its own sake, unless it goes along with an
        intent before that; None where it has gone, and nothing came for a while: whoever comes next
        arms anew."""
        if not self._pending:
            if self._expecting:
                # Whoever has just made a change makes another: to be woken for that one takes them
                # longer than it takes to look once more.
                self._expecting = False
                return time.monotonic() + _SETTLE_SECONDS_MAX
            self._note_armed = self._settle_armed = self._retry_armed = False
            if not self._pending and self.dropped == self._dropped_told:
                return None
        return self._due

    def _take(self) -> list[Record | Settled]:
        """What is to be written next; on closing, all there is."""
        self._note_armed = self._settle_armed = self._retry_armed = False
        wanted = len(self._pending)
        if not self._database.is_closing:
            wanted = min(wanted, _FLUSH_RECORDS_MAX)
        self._left_over = wanted < len(self._pending)
        return self._first(wanted)

    def _first(self, wanted: int) -> list[Record | Settled]:
        """The first that are queued, by whoever has the database to themselves."""
        with self._counting:
            self._taken += wanted
        return [self._pending.popleft() for _ in range(wanted)]

    def _written(self, count: int) -> None:
        with self._counting:
            self._taken -= count

    def _encoded(self, items: list[Record | Settled]) -> list[tuple[int, bytes]]:
        rows = []
        for item in items:
            record = item.record if isinstance(item, Settled) else item
            try:
                rows.append((record.time_ns, encode_record(record, self._hide)))
            except Exception as error:
                # One record that cannot be kept must not keep all others from being kept.
                _log.error("a record cannot be encoded", exc_info=error)
                rows.append(self._lost(1))
        return rows

    def _lost(self, records: int) -> tuple[int, bytes]:
        now = self._clock()
        lost = AuthorityRecord(
            time_ns=now, request_id=secrets.token_hex(8), subject="core:bailiwick", act="ledger",
            outcome="failed", error_kind="io_error", reason="records could not be kept",
            details={"lost_records": str(records)},
        )  # fmt: skip
        return now, encode_authority(lost, self._hide)

    def _statements_on(self, connection: Connection) -> Statements:
        """What runs statements on the one connection that is written on."""
        self._statements = self._statements or connection.cursor()
        return self._statements

    def _note_fault(self, error: Exception) -> None:
        """A fault of the feed is counted, and the record kept."""
        if _is_machines(error):
            raise error
        self.feed_failures += 1
        _log.error("changes could not be put into the feed", exc_info=error)

    def _try_again(self, items: list[Record | Settled]) -> None:
        self._pending.extendleft(reversed(items))
        self._written(len(items))
        self.failing = True
        # Until then nothing else need be armed: it would fail too.
        if not self._retry_armed:
            self._note_armed = self._settle_armed = self._retry_armed = True
            with suppress(Closed):
                self._arm(_RETRY_SECONDS)

    def _go_on(self, written: int) -> None:
        self._written(written)
        self.failing = False
        if self._left_over and not self._settle_armed:
            # What came since has seen to it itself that it will be written, with what comes next.
            self._note_armed = self._settle_armed = True
            with suppress(Closed):
                self._arm(0.0)


class _Flush:
    """One attempt to write what is queued, by whoever has the database to themselves."""

    __slots__ = ("_items", "_queue", "_rows", "_telling")

    def __init__(self, queue: RecordQueue) -> None:
        self._queue = queue
        self._items: list[Record | Settled] = []
        self._rows: list[tuple[int, bytes]] = []
        self._telling = 0

    def run(self, connection: Connection) -> None:
        queue = self._queue
        self._items = queue._take()
        self._write(queue._statements_on(connection))

    def _write(self, statements: Statements) -> None:
        queue = self._queue
        self._rows = queue._encoded(self._items)
        if queue.dropped > queue._dropped_told:
            self._telling = queue.dropped - queue._dropped_told
            queue._dropped_told += self._telling
            self._rows.append(queue._lost(self._telling))
        if not self._rows:
            return
        append(statements, queue._keys, self._rows)
        announced: list[int] = []
        noted: list[int] = []
        for item in self._items:
            if type(item) is not Settled:
                continue
            if item.intent is not None:
                (noted if item.noted else announced).append(item.intent)
            if item.changes and item.keeper is not None:
                try:
                    item.keeper.keep(statements, item.changes)
                except Exception as error:
                    queue._note_fault(error)
        owner = queue._database.owner.name
        if announced:
            drop_intents(statements, owner, announced)
        if noted:
            keep_settled(statements, owner, noted, queue._open_notes.settled_below(noted))

    def ended(self, error: BaseException | None) -> None:
        queue = self._queue
        if error is not None:
            queue._dropped_told -= self._telling
            queue._try_again(self._items)
            return
        if not self._rows:
            return  # somebody else has taken them, and will say how it went
        told: dict[tuple[ChangesKept, asyncio.AbstractEventLoop | None], None] = {}
        for item in self._items:
            if type(item) is Settled:
                if item.intent is not None:
                    queue._settled(item.intent, item.noted)
                if item.changes and item.keeper is not None and item.keeper.kept is not None:
                    told[item.keeper.kept, item.loop] = None
        for kept, loop in told:  # each feed once, on the loop where it was changed
            if loop is None:
                kept()
            else:
                self._tell(kept, loop)
        self._go_on()

    def _go_on(self) -> None:
        self._queue._go_on(len(self._items))

    def _tell(self, kept: ChangesKept, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody there is waiting
            loop.call_soon_threadsafe(kept)


class AnnouncedIntent(_Flush):
    """An intent that is kept on the thread of whoever announces it, and what goes along: the few
    that are queued first. An attempt that was queued for them comes all the same, and finds what
    came since."""

    __slots__ = ("_keep",)

    def __init__(self, queue: RecordQueue, keep: Callable[[Statements], None]) -> None:
        super().__init__(queue)
        self._keep = keep

    def run(self, connection: Connection) -> None:
        queue = self._queue
        statements = queue._statements or queue._statements_on(connection)
        waiting = len(queue._pending)
        if (
            waiting
            and not queue.failing
            and (waiting >= _ALONG_RECORDS or queue._due - time.monotonic() < _ALONG_SECONDS)
        ):
            self._items = queue._first(min(waiting, _ALONG_RECORDS))
            self._write(statements)
        self._keep(statements)

    def ended(self, error: BaseException | None) -> None:
        if self._items:
            super().ended(error)

    def _go_on(self) -> None:
        queue = self._queue
        with queue._counting:
            queue._taken -= len(self._items)

    def _tell(self, kept: ChangesKept, loop: asyncio.AbstractEventLoop) -> None:
        """Once for all that are kept in one turn of this loop."""
        told = self._queue._told
        if asyncio._get_running_loop() is not loop:
            super()._tell(kept, loop)
        elif kept not in told:
            told.add(kept)
            loop.call_soon(self._queue._tell_now, kept)


def _is_machines(error: Exception) -> bool:
    """Whether the machine failed, so that trying again may help."""
    if isinstance(error, apsw.Error):
        error = from_sqlite(error)
    return isinstance(error, IoError | Busy)


def _tell(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
