"""The rows of a history: entries, what each did to which place, and small content.

One SQLite file for each directory whose history is kept. An entry is written down, durably, before
the change is made, together with what stood there; that it was made is added afterwards, with the
next change or a moment later, and need not be waited for: an entry whose maker died is settled by
looking at what stands there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeVar

import apsw
import msgspec

from bailiwick.errors import Closed, IoError, Unsupported
from bailiwick.finishing import in_thread
from bailiwick.paths import ScopedPath
from bailiwick.sqlite import fork_safety
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.sqlite.tasks import Task
from bailiwick.sqlite.whose import is_new
from bailiwick.sqlite.write_ahead import write_ahead
from bailiwick.sqlite.writer import Frame, WriterThread
from bailiwick.stores.history.owners import HistoryOwner
from bailiwick.stores.history.states import Effect, PlaceState, content_of, packed, unpacked

Result = TypeVar("Result")

Statements = apsw.Connection | apsw.Cursor

WHOSE: Final = "history"

_APPLICATION_ID: Final = 0x62776B68
"""``bwkh``: says in the file's header whose it is."""

_BUSY_MS_MAX: Final = 10_000
"""How long a writer waits for one in another process, which holds the lock for one commit."""

_WAL_BYTES_KEPT: Final = 16 * 1024 * 1024
"""What the log beside the database is cut back to after a burst."""

_INLINE_S: Final = 0.000_25
"""A commit that takes less is done where it is asked for: a thread hop costs about as much."""

_HERE_S: Final = 0.000_2
"""While commits take less, a change is written down on the thread that makes it, as its intent is
(see `bailiwick.state.database`)."""

_HERE_EFFECTS_MAX: Final = 4
"""So many places of one change, each with small content at most, are written down there."""

FINISH_S: Final = 0.005
"""How long what became of a change may wait for the next one, to be written down with it: in a
transaction of its own it would take as long as the change itself."""

_NEXT: Final = "UPDATE counter SET last = last + 2 RETURNING last"
_PUT_ENTRY: Final = """
INSERT INTO entry (id, time_ns, verb, subject, request, owner, missed)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_PUT_EFFECT: Final = """
INSERT INTO effect (entry, seq, path, kind, other, before, after, before_sha, after_sha)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SET_AFTER: Final = "UPDATE effect SET after = ?, after_sha = ? WHERE entry = ? AND seq = ?"
_SET_FORETOLD: Final = "UPDATE effect SET after = ? WHERE entry = ? AND seq = ?"
_SET_BEFORE: Final = "UPDATE effect SET before = ?, before_sha = ? WHERE entry = ? AND seq = ?"
_DROP_EFFECT: Final = "DELETE FROM effect WHERE entry = ? AND seq = ?"
_LAST_SEQ: Final = "SELECT coalesce(max(seq), -1) FROM effect WHERE entry = ?"
_OVER: Final = "UPDATE entry SET owner = '' WHERE id = ?"
_DROP_ENTRY: Final = "DELETE FROM entry WHERE id = ?"
_DROP_EFFECTS: Final = "DELETE FROM effect WHERE entry = ?"
_PUT_CONTENT: Final = """
INSERT INTO content (sha256, size, kept_ns, data) VALUES (?, ?, ?, ?)
ON CONFLICT (sha256) DO UPDATE SET kept_ns = excluded.kept_ns
"""
_PUT_NEEDED: Final = """
INSERT INTO content (sha256, size, kept_ns, data) VALUES (?, ?, ?, ?)
ON CONFLICT (sha256) DO NOTHING
"""
"""For content that an effect refers to in the same transaction: nobody clears that up, so that when
it was kept last need not be written into a row that is there."""
_ENTRY: Final = "id, time_ns, verb, subject, request, owner, missed"
_EFFECT: Final = "path, before, after, kind, other"


class HistoryEntry(NamedTuple):
    """One change, as its row has it."""

    id: int
    time_ns: int
    verb: str
    subject: str
    request: str
    owner: str
    missed: int


class FreshEntry(NamedTuple):
    """A change about to be made."""

    verb: str
    subject: str
    request: str
    effects: Sequence[Effect]
    contents: Mapping[bytes, bytes]
    missed: int = 0


class EntryOutcome(NamedTuple):
    """What became of a change: of each effect what was left, by its number; which of them were not
    made after all; what was found, where that was not known; and what nobody could foretell."""

    after: Mapping[int, PlaceState | None] = {}
    dropped: Sequence[int] = ()
    added: Sequence[Effect] = ()
    before: Mapping[int, PlaceState] = {}


class _HistoryFrame(Frame):
    """Waits for other processes, unless the task is tried on the event loop."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def wait(self, patiently: bool) -> None:
        self._connection.set_busy_timeout(_BUSY_MS_MAX if patiently else 0)


class HistoryLedger:
    """The rows of one directory's history. Made by `open`."""

    def __init__(
        self,
        connection: apsw.Connection,
        finisher: apsw.Connection,
        reader: apsw.Connection,
        owner: HistoryOwner,
    ) -> None:
        self.owner: Final = owner
        self._connection: Final = connection
        self._finisher: Final = finisher
        self._reader: Final = reader
        self._writer: Final = WriterThread(
            connection, whose=WHOSE, frame=_HistoryFrame(connection), inline_s=_INLINE_S,
            here_s=_HERE_S,
        )  # fmt: skip
        self._statements: Final = connection.cursor()
        """For the writer's jobs: to make a cursor for each statement takes as long as some do."""
        self._made: Final = _Unwritten()
        self._armed = False

    @classmethod
    def open(cls, directory: str, *, durable: bool) -> HistoryLedger:
        """Open the rows in a directory that exists. Blocks.

        With ``durable`` what is written survives a power cut, else a crash of the process. Raises
        `Unsupported` for rows of a newer Bailiwick or of another program, `IoError`, `Busy`.
        """
        path = os.path.join(directory, "history.db")
        # A file that SQLite has open here may not be opened beside it: closing that descriptor
        # would let go of all locks that the process has on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        opened: list[apsw.Connection] = []
        try:
            for _ in range(3):
                connection = fork_safety.connect(path, flags=apsw.SQLITE_OPEN_READWRITE)
                opened.append(connection)
                connection.set_busy_timeout(_BUSY_MS_MAX)
            connection, finisher, reader = opened
            is_new(connection, _APPLICATION_ID, "history")  # another program's is left as it is
            write_ahead(connection, bytes_kept=_WAL_BYTES_KEPT)
            connection.pragma("synchronous", "full" if durable else "normal")
            _migrate(connection)
            # What became of a change need not reach the disk by itself: it can be found out. So it
            # is written down at once, without a sync, and others are left to cut the log.
            finisher.pragma("synchronous", "normal")
            finisher.pragma("wal_autocheckpoint", 0)
            finisher.set_busy_timeout(0)
            reader.pragma("query_only", True)
            return cls(connection, finisher, reader, HistoryOwner(directory))
        except BaseException as error:
            for each in opened:
                each.close()
            if isinstance(error, apsw.Error):
                raise from_sqlite(error, WHOSE) from error
            raise

    # --- writing -----------------------------------------------------------------------------

    async def begin(self, fresh: FreshEntry, tell: Callable[[int], object]) -> int:
        """Write down a change that is about to be made, with what it will replace. ``tell`` is told
        its number also where nobody is left to take it, having been closed meanwhile. All that was
        made before is closed first: of two changes of a place only the last can be found out by
        looking."""
        if len(fresh.effects) <= _HERE_EFFECTS_MAX:
            along = _Closing(self._made)

            def together(_: apsw.Connection) -> int:
                along.run(self._statements)
                return self._put(fresh, tell)

            done = self._writer.run_here(together, along.ended)
            if done is not None:
                return done.unwrap()  # type: ignore[no-any-return]
        if self._made.any:
            self._put_closing(lambda: None)
        return await self._writer.run(lambda _: self._put(fresh, tell))

    def _put(self, fresh: FreshEntry, tell: Callable[[int], object]) -> int:
        execute, now_ns = self._statements.execute, time.time_ns()
        verb, subject, request, effects, contents, missed = fresh
        for sha256, data in contents.items():
            execute(_PUT_NEEDED, (sha256, len(data), now_ns, data))
        numbers: list[Any] = execute(_NEXT).fetchall()
        entry: int = numbers[0][0]
        execute(_PUT_ENTRY, (entry, now_ns, verb, subject, request, self.owner.name, missed))
        _put_effects(self._statements, entry, 0, effects)
        tell(entry)
        return entry

    def finish(self, entry: int, outcome: EntryOutcome, *, foretold: bool = False) -> None:
        """Add what became of a change: at once, or when others have had their turn. What was
        ``foretold``, so that looking would find it, is added with the next change, or a moment
        later. Where that fails, or the process dies, the entry stays open, and is settled by
        whoever looks next."""
        self._made.add(entry, outcome, foretold)
        if not foretold:
            self._close_now()
        if not self._armed and self._made.any:
            # By the loop: to wake a thread, for what the next change will mostly have taken along
            # by then, would take longer. Where the loop ends, looking finds what was foretold.
            self._arm(FINISH_S)

    def _arm(self, seconds: float) -> None:
        self._armed = True
        asyncio.get_running_loop().call_later(seconds, self._close_soon)

    def _close_soon(self) -> None:
        """Have what has waited long enough written down. What came since then is left to the next
        change, as long as changes come: a transaction in between would hold that up."""
        self._armed = False
        left_s = FINISH_S - self._made.waited_s()
        if left_s > 0 and self._made.any:
            self._arm(left_s)
        elif self._made.any:
            with suppress(Closed):
                self._put_closing(lambda: None)

    def _put_closing(self, done: Callable[[], None]) -> None:
        closing = _Closing(self._made)

        def ended(_: object, error: BaseException | None) -> None:
            closing.ended(error)
            done()

        self._writer.put(Task(closing.run, ended, None))

    def _close_now(self) -> None:
        """Have what was made written down in place, unless another is writing."""
        closing = _Closing(self._made)
        try:
            with self._finisher:
                closing.run(self._finisher)
            closing.ended(None)
        except apsw.Error as error:
            closing.ended(error)

    async def settle(self, entry: int, outcome: EntryOutcome) -> None:
        """Close an entry with its outcome, and wait until that is written. Where it cannot be, for
        want of room, it is as with `finish`: what was done is done."""
        try:
            await self._writer.run(lambda connection: _close(connection, entry, outcome))
        except IoError:
            self.finish(entry, outcome)

    async def withdraw(self, entry: int) -> None:
        """The change was not made."""

        def job(connection: apsw.Connection) -> None:
            connection.execute(_DROP_EFFECTS, (entry,))
            connection.execute(_DROP_ENTRY, (entry,))

        await self._writer.run(job)

    async def keep(self, contents: Mapping[bytes, bytes]) -> None:
        """Keep small content."""
        now_ns = time.time_ns()

        def job(connection: apsw.Connection) -> None:
            for sha256, data in contents.items():
                connection.execute(_PUT_CONTENT, (sha256, len(data), now_ns, data))

        await self._writer.run(job)

    async def note_kept(self, sha256: bytes, size: int) -> None:
        """Content is in the volume."""
        row = (sha256, size, time.time_ns(), None)
        await self._writer.run(lambda connection: connection.execute(_PUT_CONTENT, row).fetchall())

    async def run(self, job: Callable[[apsw.Connection], Result]) -> Result:
        """Run a job of whoever clears up."""
        return await self._writer.run(job)

    async def quiet(self) -> None:
        """Wait until all that was finished is written down."""
        if self._made.any:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()

            def tell() -> None:
                with suppress(RuntimeError):  # the loop was closed: nobody waits
                    loop.call_soon_threadsafe(_settle, done)

            self._put_closing(tell)
            await done

    # --- reading -----------------------------------------------------------------------------

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """What a query finds. Runs where it is called: a lookup takes a few microseconds."""
        if self._made.any:
            with self._writer.busy:
                pass  # who has taken some of it has come to an end
            self._close_now()
        try:
            return self._reader.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise from_sqlite(error, WHOSE) from error

    def entries(self, where: str, *values: Any) -> list[HistoryEntry]:
        return [
            HistoryEntry(*row) for row in self.rows(f"SELECT {_ENTRY} FROM entry {where}", *values)
        ]

    def effects(self, entry: int) -> list[Effect]:
        """What an entry did, in order; gaps are closed."""
        rows = self.rows(f"SELECT {_EFFECT} FROM effect WHERE entry = ? ORDER BY seq", entry)
        return [effect_of(row) for row in rows]

    def numbered_effects(self, entry: int) -> list[tuple[int, Effect]]:
        rows = self.rows(f"SELECT seq, {_EFFECT} FROM effect WHERE entry = ? ORDER BY seq", entry)
        return [(row[0], effect_of(row[1:])) for row in rows]

    def horizon(self) -> int:
        """Entries up to this are no longer kept."""
        return int(self.rows("SELECT horizon FROM counter")[0][0])

    def last(self) -> int:
        return int(self.rows("SELECT last FROM counter")[0][0])

    async def aclose(self) -> None:
        """Do what is queued, then let go."""
        await self.quiet()
        self._reader.close()
        self._finisher.close()
        await in_thread(self.close_blocking)

    def close_blocking(self) -> None:
        """Let go of everything, where there is no event loop."""
        self._writer.close()
        self._reader.close()
        self._finisher.close()
        self._connection.close()
        self.owner.close()


class _MadeChange(msgspec.Struct, frozen=True, gc=False):
    """A change that was made, whether what it left was foretold, but for its version and mode, and
    since when it is known, by the monotonic clock."""

    entry: int
    outcome: EntryOutcome
    foretold: bool
    since_s: float


class _Unwritten:
    """What became of changes and is not written down yet, whoever has taken it to do that."""

    def __init__(self) -> None:
        self._waiting: deque[_MadeChange] = deque()
        self._entries: set[int] = set()

    @property
    def any(self) -> bool:
        return bool(self._entries)

    def add(self, entry: int, outcome: EntryOutcome, foretold: bool) -> None:
        self._entries.add(entry)
        self._waiting.append(_MadeChange(entry, outcome, foretold, time.monotonic()))

    def waited_s(self) -> float:
        """How long the first has waited for somebody to take it."""
        with suppress(IndexError):
            return time.monotonic() - self._waiting[0].since_s
        return 0.0

    def take(self) -> list[_MadeChange]:
        waiting, taken = self._waiting, list[_MadeChange]()
        with suppress(IndexError):  # another has taken the last one
            while waiting:
                taken.append(waiting.popleft())
        return taken

    def written(self, taken: list[_MadeChange]) -> None:
        self._entries.difference_update([made.entry for made in taken])

    def give_back(self, taken: list[_MadeChange]) -> None:
        self._waiting.extendleft(reversed(taken))


class _Closing:
    """What was made, written down in one transaction, whosever that is."""

    def __init__(self, made: _Unwritten) -> None:
        self._made = made
        self._taken: list[_MadeChange] = []

    def run(self, statements: Statements) -> None:
        self._taken = self._made.take()
        for made in self._taken:
            _close(statements, made.entry, made.outcome, foretold=made.foretold)

    def ended(self, error: BaseException | None) -> None:
        if error is None:
            self._made.written(self._taken)
        else:
            self._made.give_back(self._taken)


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def has_entries(directory: str) -> bool:
    """Whether anything was ever written down in a directory's history. Makes nothing."""
    try:
        connection = fork_safety.connect(
            os.path.join(directory, "history.db"), flags=apsw.SQLITE_OPEN_READWRITE
        )
    except apsw.CantOpenError:
        return False
    try:
        connection.set_busy_timeout(_BUSY_MS_MAX)
        return bool(connection.execute("SELECT 1 FROM entry LIMIT 1").fetchall())
    except apsw.Error as error:
        raise from_sqlite(error, WHOSE) from error
    finally:
        connection.close()


def effect_of(row: Sequence[Any]) -> Effect:
    path, before, after, kind, other = row
    return Effect(ScopedPath(path), unpacked(before), unpacked(after), kind, ScopedPath(other))


def _put_effects(statements: Statements, entry: int, first: int, effects: Iterable[Effect]) -> None:
    for number, (path, before, after, kind, other) in enumerate(effects, first):
        statements.execute(
            _PUT_EFFECT,
            (entry, number, str(path), kind, str(other), packed(before), packed(after),
             content_of(before), content_of(after)),
        )  # fmt: skip


def _close(
    statements: Statements, entry: int, outcome: EntryOutcome, *, foretold: bool = False
) -> None:
    execute = statements.execute
    for number, state in outcome.after.items():
        if foretold:  # its content was, and stands there
            execute(_SET_FORETOLD, (packed(state), entry, number))
        else:
            execute(_SET_AFTER, (packed(state), content_of(state), entry, number))
    for number, state in outcome.before.items():
        execute(_SET_BEFORE, (packed(state), content_of(state), entry, number))
    for number in outcome.dropped:
        execute(_DROP_EFFECT, (entry, number))
    if outcome.dropped or outcome.added:
        numbers: list[Any] = execute(_LAST_SEQ, (entry,)).fetchall()
        last: int = numbers[0][0]
        _put_effects(statements, entry, last + 1, outcome.added)
        if last < 0 and not outcome.added:
            execute(_DROP_ENTRY, (entry,))
            return
    execute(_OVER, (entry,))


def _migrate(connection: apsw.Connection) -> None:
    """Make the tables where there are none. Raises `Unsupported` for what is not ours."""
    if _is_ready(connection):
        return
    script = files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ready(connection):
            connection.execute(script)
            connection.pragma("application_id", _APPLICATION_ID)
            connection.pragma("user_version", 1)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_ready(connection: apsw.Connection) -> bool:
    if is_new(connection, _APPLICATION_ID, "history"):
        return False
    if connection.pragma("user_version") > 1:
        raise Unsupported(
            "the history was written by a newer Bailiwick",
            hint="use the newer version of Bailiwick",
        )
    return True
