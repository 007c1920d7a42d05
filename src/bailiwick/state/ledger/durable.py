"""The durable ledger: every operation on record, chained, in the state database.

A change is announced before it is published (`intend`) and settled afterwards; both go through the
database's one writer, so that many share a commit. What changed nothing is queued and written in
batches: on the caller's thread a record costs two appends. Encoding, hashing and inserting happen
on the writer's thread.

    intend ──▶ intent row, durable ──▶ the change is published ──▶ settle ──▶ record + feed rows,
                                                                              intent row gone
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Literal

from bailiwick.audit import AuthorityRecord, Intent, Ledger, LedgerRecord, Record
from bailiwick.change_log import Note
from bailiwick.errors import BailiwickError, Busy, IoError
from bailiwick.limits import Limits
from bailiwick.model import Change, Value
from bailiwick.state.database import Connection, Database, Statements
from bailiwick.state.ledger.chain import Head, adopt_key, append, genesis, parse_head
from bailiwick.state.ledger.encoding import Hide, encode_authority, keep_path, names_of
from bailiwick.state.ledger.intents import (
    keep_intent,
    lineage,
    other_places,
    places_of,
    record_interrupted,
    touches,
)
from bailiwick.state.ledger.key import KEY_BYTES, Keys, load_key, make_key
from bailiwick.state.ledger.notes import OpenNotes, TakenNotes, note_of, take_over
from bailiwick.state.ledger.query import LedgerFilter, LedgerPage, Reading
from bailiwick.state.ledger.queue import (
    AnnouncedIntent,
    ChangesKept,
    KeepChanges,
    Keeper,
    RecordQueue,
)
from bailiwick.state.ledger.retention import Moved, Retention
from bailiwick.state.ledger.verification import Verification, verify

_log = logging.getLogger("bailiwick.state")

PathsKept = Literal["raw", "keyed-hash"]


class LedgerHealth(Value, frozen=True, kw_only=True):
    """How the ledger is doing, for `doctor` and for metrics.

    ``dropped`` are records of reads and refusals that could not be kept; a record in the ledger
    says so too, as soon as it can.
    """

    ok: bool
    queued: int
    open_intents: int
    dropped: int
    failures: int
    feed_failures: int
    last_error: str | None


def ledger_key(database: Database) -> bytes:
    """The key for the ledger in this state, made if there was never one. Blocks.

    Raises `IoError` where there was one and it is gone: with another the chain would break.
    """
    if database.directory is None:
        return secrets.token_bytes(KEY_BYTES)
    key = load_key(database.directory)
    if key is not None:
        return key
    if database.read("SELECT 1 FROM ledger_key"):
        raise IoError(
            "the key of the ledger is missing",
            hint=f"copy ledger.key of another server to {database.directory}"
            if database.is_shared
            else "restore ledger.key from a backup; without it nothing can be proved",
        )
    return make_key(database.directory)


class DurableLedger:
    """Every record, durable and chained. Made by `open`; shared by all roots of an authority."""

    takes_intents = True

    def __init__(
        self,
        database: Database,
        keys: Keys,
        *,
        limits: Limits,
        clock: Callable[[], int],
        hide: Hide,
    ) -> None:
        self.interrupted: tuple[LedgerRecord, ...] = ()
        """What dead processes had announced and never settled, put on record at opening."""
        self._database = database
        self._keys = keys
        self.shared_key = keys.shared
        self._clock = clock
        self._hide = hide
        self._numbers = itertools.count(secrets.randbits(48))
        self._open: dict[int, Intent] = {}
        self._notes = OpenNotes()
        self._queue = RecordQueue(
            database, keys, limits=limits, clock=clock, hide=hide,
            settled=self._forget, open_notes=self._notes,
        )  # fmt: skip
        self._reading = Reading(database, hide)
        self.retention = Retention(database, keys)
        """Moving old records out, and what was moved."""
        self.note = self._queue.note
        """Queues the record of a call that changed nothing."""

    @classmethod
    def open(
        cls,
        database: Database,
        key: bytes,
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = time.time_ns,
        paths: PathsKept = "raw",
    ) -> DurableLedger:
        """Open the ledger in a state that has the part `LEDGER`. Blocks.

        Intents that dead processes left behind are put on record. With paths ``keyed-hash`` no
        path is kept, only ``hmac-sha256:…``, equal for equal paths. Raises `IoError` for a key
        that is not the ledger's.
        """
        keys = Keys(key)
        hide = keys.hidden_path if paths == "keyed-hash" else keep_path
        ledger = cls(database, keys, limits=limits or Limits(), clock=clock, hide=hide)
        database.write_blocking(lambda connection: adopt_key(connection, keys))
        ledger.interrupted = tuple(ledger.recover())
        return ledger

    def for_root(
        self, keep_changes: KeepChanges, changes_kept: ChangesKept | None = None
    ) -> Ledger:
        """This ledger with the feed of one root for what is settled through it."""
        return _RootLedger(self, Keeper(keep_changes, changes_kept))

    # --- what the pipeline calls -------------------------------------------------------------

    async def intend(self, intent: Intent) -> int:
        """Keep an intent, durably when this returns. Raises `IoError` where it cannot be kept."""
        number = next(self._numbers)
        self._open[number] = intent
        database = self._database

        def keep(statements: Statements) -> None:
            keep_intent(statements, self._keys, database.owner.name, number, intent, self._hide)

        try:
            announced = AnnouncedIntent(self._queue, keep)
            if not database.write_here(announced.run, announced.ended):
                await database.write(keep)
        except BaseException as error:
            del self._open[number]
            if isinstance(error, Busy):
                raise IoError(f"the change cannot be put on record: {error.message}") from error
            raise
        return number

    def settle(self, record: Record, intent: int | None, changes: Sequence[Change]) -> None:
        """Queue the record of a change, which takes the place of its intent. Tells no feed."""
        self._queue.settle(record, intent, changes, None)

    def _forget(self, number: int, noted: bool) -> None:
        if noted:
            self._notes.end(number)
        else:
            self._open.pop(number, None)

    # --- notes: records that a store commits with the change ---------------------------------

    def for_log(self, log: str) -> Ledger:
        """This ledger for a root whose store commits a note with each change, and whose own
        log is its feed. A state in memory has nothing that could be taken over later, so its
        changes are announced as elsewhere."""
        if self._database.directory is None:
            return _RootLedger(self, None)
        return _NotingLedger(self, log)

    def enclose(self, log: str, intent: Intent) -> tuple[int, bytes]:
        """A note for a change of a volume, and its number for `settle`.

        Raises `IoError` where records cannot be written: a change must not go unrecorded for as
        long as that lasts.
        """
        if self._queue.failing or self._database.broken:
            raise self._database.not_written("the change cannot be put on record")
        number = next(self._numbers)
        self._notes.begin(number)
        try:
            owner = self._database.owner.name
            return number, note_of(self._keys, log, owner, number, intent, self._hide)
        except BaseException:
            self._notes.end(number)
            raise

    async def take_over(self, log: str, notes: Sequence[Note], after: int) -> TakenNotes:
        """Put notes on record whose process died before it could. Durable when this returns."""
        keys, database = self._keys, self._database

        return await database.write(
            lambda connection: take_over(
                connection, keys, log, notes, after, database.owner.is_alive
            )
        )

    # --- acts on the authority ---------------------------------------------------------------

    async def append_authority(self, record: AuthorityRecord) -> None:
        """Put an act on the authority on record, durably when this returns."""
        await self._database.write(lambda connection: self.chain_in(connection, record))

    def chain_in(self, connection: Connection, record: AuthorityRecord) -> None:
        """Put an act on record within somebody else's job, so that act and record are one."""
        rows = [(record.time_ns, encode_authority(record, self._hide))]
        append(connection, self._keys, rows)

    # --- looking back ------------------------------------------------------------------------

    async def tail(self, count: int = 20) -> list[LedgerRecord]:
        """The newest records, see `Reading.tail`."""
        await self.try_flush()
        return await self._reading.tail(count)

    async def query(
        self, wanted: LedgerFilter | None = None, *, cursor: str | None = None, limit: int = 100
    ) -> LedgerPage:
        """A page of the records that fit, newest first, see `Reading.query`."""
        await self.try_flush()
        return await self._reading.query(wanted, cursor=cursor, limit=limit)

    async def export(self, wanted: LedgerFilter | None = None) -> AsyncGenerator[bytes, None]:
        """The records that fit as JSON lines, oldest first, see `Reading.export`."""
        await self.try_flush()
        async for lines in self._reading.export(wanted):
            yield lines

    def follow(
        self, wanted: LedgerFilter | None = None, *, after: int | None = None
    ) -> AsyncGenerator[LedgerRecord, None]:
        """Records as they are written, by any process, see `Reading.follow`."""
        return self._reading.follow(wanted, after=after)

    async def try_flush(self) -> None:
        """Whoever looks back sees what was just noted, and what there is where writing fails."""
        with suppress(IoError):
            await self.flush()

    def records(self) -> list[Record]:
        """The newest records of this process, oldest first, from memory."""
        return list(self._queue.ring)

    def head(self) -> str:
        """Where the chain ends now, for keeping elsewhere: a cut tail shows against it."""
        rows = self._database.read("SELECT seq, mac FROM ledger ORDER BY seq DESC LIMIT 1")
        if not rows:
            rows = self._database.read(
                "SELECT seq, mac FROM ledger_checkpoints ORDER BY seq DESC LIMIT 1"
            )
        return str(Head(*rows[0]) if rows else genesis(self._keys))

    async def verify(self, head: str | None = None) -> Verification:
        """Check every record. Runs in a thread, with one batch in memory.

        Raises `ParseError` for a head that is none, `IoError` for a wrong key.
        """
        await self.try_flush()
        return await asyncio.to_thread(self.verify_blocking, head)

    def verify_blocking(self, head: str | None = None) -> Verification:
        kept = None if head is None else parse_head(head)
        return verify(self._database.read, self._keys, kept)

    async def retain(self, retention_days: float) -> Moved:
        """Move records older than that many days out to files, and record it."""
        horizon = self._clock() - int(retention_days * 24 * 3600 * 1e9)
        moved = await self.retention.move_out(horizon)
        if moved.records:
            await self.append_authority(
                AuthorityRecord(
                    time_ns=self._clock(), request_id=secrets.token_hex(8),
                    subject="core:bailiwick", act="ledger", details=moved.details(),
                )
            )  # fmt: skip
        return moved

    def in_flight(self, root: str, path: str) -> bool:
        """Whether a change that was announced, by any living process, and is not yet settled is
        about this path, something above it, or something beneath it.

        A change counts as settled once its record and its feed rows are durable: whoever sees it
        on disk finds it either here or in the feed.
        """
        line = lineage(path)
        for intent in list(self._open.values()):
            paths = intent.path, intent.destination
            if names_of(intent.grant).root == root and touches(places_of(paths, keep_path), line):
                return True
        owner = self._database.owner
        rows = self._database.read(
            "SELECT owner, places FROM ledger_intents WHERE root = ? AND owner != ?",
            (root, owner.name),
        )
        hidden = [self._hide(each) for each in line] if rows else []
        return any(
            touches(places, hidden) and owner.is_alive(name) for name, places in other_places(rows)
        )

    def recover(self) -> list[LedgerRecord]:
        """Put on record what dead processes announced and never settled. Blocks.

        Done at opening; a process that runs for long may do it now and then.
        """
        keys, owner = self._keys, self._database.owner
        if not self._database.read("SELECT 1 FROM ledger_intents WHERE owner != ?", (owner.name,)):
            return []
        return self._database.write_blocking(
            lambda connection: record_interrupted(connection, keys, owner.is_alive)
        )

    def health(self) -> LedgerHealth:
        queue, database = self._queue, self._database
        troubled = database.broken or queue.failing or queue.dropped or queue.feed_failures
        return LedgerHealth(
            ok=not troubled,
            queued=len(queue), open_intents=len(self._open) + len(self._notes),
            dropped=queue.dropped, failures=database.failures,
            feed_failures=queue.feed_failures, last_error=database.last_error,
        )  # fmt: skip

    async def flush(self) -> None:
        """Wait until everything noted and settled so far is durable. Raises `IoError`."""
        await self._queue.flush()

    async def aclose(self) -> None:
        """Write what is queued. The database is its owner's to close.

        Closing succeeds whatever happens: what could not be written is logged.
        """
        try:
            await self.flush()
        except BailiwickError as error:
            _log.error("%d records are lost: %s", len(self._queue), error)


class _RootLedger:
    """The ledger as the pipeline of one root sees it: with that root's feed."""

    takes_intents = True

    def __init__(self, ledger: DurableLedger, keeper: Keeper | None) -> None:
        self._queue = ledger._queue
        self._keeper = keeper
        self.intend = ledger.intend
        self.note = ledger.note
        self.flush = ledger.flush

    def settle(self, record: Record, intent: int | None, changes: Sequence[Change]) -> None:
        self._queue.settle(record, intent, changes, self._keeper)


class _NotingLedger(_RootLedger):
    """The ledger of a root whose store commits the note of a change with it."""

    def __init__(self, ledger: DurableLedger, log: str) -> None:
        super().__init__(ledger, None)
        self._ledger = ledger
        self._log = log

    def enclose(self, intent: Intent) -> tuple[int, bytes]:
        return self._ledger.enclose(self._log, intent)

    def settle(self, record: Record, intent: int | None, changes: Sequence[Change]) -> None:
        noted = intent in self._ledger._notes
        self._queue.settle(record, intent, changes, self._keeper, noted=noted)
