"""The volume's rows in an SQLite file: one writer for each process and file, readers of their own.

Reads run where they are asked for, on the event loop: a point lookup takes a few microseconds, a
thread hop ten times that. Changes go to the writer's thread, which commits whatever waits together.
Several processes may have the same file open.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Final, cast

import apsw

from bailiwick.errors import FORKED, Closed, ParseError, PermissionDenied, from_os_error
from bailiwick.finishing import in_thread
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.sqlite.tasks import Task
from bailiwick.sqlite.write_ahead import write_ahead
from bailiwick.sqlite.writer import Frame, WriterThread
from bailiwick.stores.volume.fsck.ownership import refuse_strangers
from bailiwick.stores.volume.rows.checksums import damaged
from bailiwick.stores.volume.rows.database import (
    Job,
    LatestLook,
    Result,
    Row,
    RowSession,
    SharedDatabase,
    run_through,
)
from bailiwick.stores.volume.rows.records import BranchView
from bailiwick.stores.volume.rows.schema import PAGE_BYTES, for_sqlite, migrate, version_of
from bailiwick.stores.volume.rows.sqlite_session import WHOSE, Patience, SqliteSession, connect
from bailiwick.stores.volume.rows.turns import TurnMemory

_WAL_BYTES_KEPT: Final = 64 * 1024 * 1024
"""What the log beside the database is cut back to after a burst."""

_CACHE_KIB: Final = 16 * 1024
"""Pages that the writer remembers: the names of a tree of several 100,000 files, to be counted."""

_INLINE_S: Final = 0.000_3
"""A commit that takes less is waited for in place: to be called back costs more than that is worth.
A disk whose syncs take longer is noticed by the first few."""

_IN_PLACE_S: Final = 0.001
"""The same where there is no disk: only what takes long by itself goes to the thread."""

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
"""Filesystems without a disk: a sync does nothing there."""

_LAST: Final = "SELECT last FROM volume WHERE id = {}"
"""With the number itself in it: asked by every look, and a value to be bound costs a tenth."""

_NAMED: Final = "SELECT 1 FROM volume WHERE name = ?1"
_STATE: Final = "SELECT last, locks FROM volume WHERE id = ?1"
_GIVEN_OUT: Final = "UPDATE volume SET last = ?2 WHERE id = ?1"

_ASIDE_KEPT: Final = 2
"""Connections for long looks that are kept for the next one. To open one, to read the schema and to
prepare a large statement takes a millisecond and more."""


class VolumeTurn(TurnMemory):
    """What the writer of a file remembers of one volume."""

    def __init__(self, volume: int, frame: FileFrame, session: SqliteSession) -> None:
        super().__init__(volume)
        self.session = session
        self._stamp = -1
        self._frame = frame
        self._key = (volume,)
        self.on_commit = frame.on_commit

    def enter(self) -> None:
        """Take up what others have committed, once for each transaction."""
        if self._stamp == self._frame.stamp:
            return
        row = self.session.run_raw(_STATE, self._key).get
        if row is None:
            raise Closed("the volume was deleted")
        last, self.locks = row
        if last != self.flushed:
            for branch, cache in self.caches.items():
                run_through(cache.catch_up(self.session, BranchView(self.volume, branch, 0, 0)))
        self.numbers.last = self.flushed = last
        self._stamp = self._frame.stamp

    def flush(self) -> None:
        """Write down how far the counter has come."""
        if self._stamp != self._frame.stamp or self.numbers.last == self.flushed:
            return
        self.session.run_raw(_GIVEN_OUT, (self.volume, self.numbers.last))
        self.written_down()

    def undone(self) -> None:
        super().undone()
        self._stamp = -1


Work = Callable[[VolumeTurn], Result]
"""Something to be done in a transaction, in one go."""


class FileFrame(Frame):
    """Around every transaction on a file: the counters of its volumes."""

    def __init__(self, connection: apsw.Connection, patience: Patience) -> None:
        self.stamp = 0
        self.on_commit: Callable[[Callable[[], None]], None] = lambda _: None
        self._patience = patience
        self._session = SqliteSession(connection)
        self._turns: dict[int, VolumeTurn] = {}

    def turn(self, volume: int) -> VolumeTurn:
        turn = self._turns.get(volume)
        if turn is None:
            turn = self._turns[volume] = VolumeTurn(volume, self, self._session)
        return turn

    def begin(self) -> None:
        self.stamp += 1

    def committing(self, *, control: bool) -> None:
        for turn in self._turns.values():
            turn.flush()

    def undone(self) -> None:
        for turn in self._turns.values():
            turn.undone()

    def wait(self, patiently: bool) -> None:
        self._patience.waits = patiently


class SqliteFile(SharedDatabase):
    """A file that this process has open, shared by all stores on it."""

    def __init__(
        self,
        path: str,
        identity: tuple[int, int],
        connection: apsw.Connection,
        patience: Patience,
    ) -> None:
        super().__init__()
        self.path = path
        self.identity = identity
        self.frame = FileFrame(connection, patience)
        in_memory = _is_in_memory(identity[0])
        self.writer = WriterThread(
            connection, whose=WHOSE, frame=self.frame, never_waits=in_memory,
            inline_s=_IN_PLACE_S if in_memory else _INLINE_S,
        )  # fmt: skip
        self.frame.on_commit = self.writer.on_commit
        self.is_abandoned = False
        self._connection = connection
        self._aside: deque[apsw.Connection] | None = deque()
        self._aside_lock = threading.Lock()

    def close_blocking(self) -> None:
        self.writer.close()
        with self._aside_lock:
            aside, self._aside = self._aside or (), None
        for connection in (*aside, self._connection):
            connection.close()

    @contextmanager
    def aside(self) -> Iterator[apsw.Connection]:
        """A connection for a long look at one state of the file, on a thread, while others go on.
        Its statements stay prepared for the next such look."""
        connection = None
        try:
            with self._aside_lock:
                if self._aside:
                    connection = self._aside.pop()
            if connection is None:
                connection = connect(self.path)
                connection.pragma("query_only", True)
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
            with self._aside_lock:
                if self._aside is not None and len(self._aside) < _ASIDE_KEPT:
                    self._aside.append(connection)
                    connection = None
        except apsw.Error as error:
            raise from_sqlite(error, WHOSE) from error
        finally:
            if connection is not None:
                connection.close()

    @contextmanager
    def at_hand(self) -> Iterator[apsw.Connection]:
        """A connection for a look of milliseconds: the writer's where nobody uses it, which need
        not read again what it has written itself. Whoever is to write waits so long."""
        if not self.writer.busy.acquire(blocking=False):
            with self.aside() as connection:
                yield connection
            return
        try:
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise from_sqlite(error, WHOSE) from error
        finally:
            self.writer.busy.release()

    def integrity_blocking(self) -> list[str]:
        """What SQLite finds wrong with the file: on a connection of its own, while others go on."""
        try:
            connection = connect(self.path)
            try:
                rows = connection.execute("PRAGMA integrity_check(20)").fetchall()
            finally:
                connection.close()
        except apsw.Error as error:
            return [from_sqlite(error, WHOSE).message]
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def cursor(self) -> apsw.Cursor:
        """For questions to the writer's connection, while `WriterThread.busy` is held."""
        return self._connection.cursor()

    def changes(self) -> int:
        """Rows that this process has changed since it opened the file."""
        return self._connection.total_changes()

    @property
    def blobs_folder(self) -> str:
        return f"{self.path}-blobs"

    def database(self, volume: int) -> SqliteDatabase:
        return SqliteDatabase(self, volume)

    def acquire_again(self) -> SqliteFile:
        return acquire(self.path)

    def release_blocking(self) -> None:
        release_blocking(self)

    def set_up(self, job: Callable[[RowSession], Coroutine[Any, Any, Result]]) -> Result:
        """Run a job that needs no volume yet. Blocks."""

        def run(connection: apsw.Connection) -> Result:
            return run_through(job(SqliteSession(connection)))

        return self.writer.run_blocking(run)

    def run(self, volume: int, work: Work[Result], _: apsw.Connection) -> Result:
        """Do something in a transaction of the writer's."""
        turn = self.frame.turn(volume)
        turn.enter()
        before = turn.numbers.last
        try:
            return work(turn)
        except BaseException:
            if turn.numbers.last != before:
                turn.forget()  # the numbers it took are not given out again
            raise


def _is_in_memory(device: int) -> bool:
    """Whether a device is memory, by the kernel's list of mounts; False where there is none."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = [line.split() for line in mounts]
    except OSError:
        return False
    return any(
        line[2] == number and line[line.index("-") + 1] in _IN_MEMORY
        for line in lines
        if "-" in line
    )


_files: dict[tuple[int, int], SqliteFile] = {}
_files_lock = threading.Lock()


def acquire(path: str) -> SqliteFile:
    """The file at ``path``, made if missing. Blocks. To be given back by `release_blocking`."""
    path = os.path.abspath(path)
    try:
        with _files_lock:
            # A file that SQLite has open here may not be opened beside it: closing that descriptor
            # would let go of all locks that the process has on it.
            is_ours = refuse_strangers(path)
            if not is_ours:
                with suppress(FileExistsError):
                    os.close(
                        os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                    )
                # In a directory of many, somebody else may have been first.
                is_ours = refuse_strangers(path)
            status = os.stat(path)
            if not is_ours:
                raise PermissionDenied("somebody else changes what stands there")
            identity = (status.st_dev, status.st_ino)
            file = _files.get(identity)
            if file is None:
                file = _files[identity] = _open(path, identity)
            file.users += 1
            return file
    except apsw.Error as error:
        raise from_sqlite(error, WHOSE) from error
    except OSError as error:
        raise from_os_error(error) from error


def has_volume(path: str, name: str) -> bool:
    """Whether a file has a volume of this name; one that is no volume's is said to. Blocks."""
    try:
        if os.stat(path).st_size == 0:
            return False
    except OSError:
        return False
    refuse_strangers(path)
    connection = None
    try:
        connection = connect(path)
        return connection.execute(_NAMED, (name,)).fetchone() is not None
    except apsw.Error:
        return True
    finally:
        if connection is not None:
            connection.close()


def _open(path: str, identity: tuple[int, int]) -> SqliteFile:
    patience = Patience()
    connection = connect(path, patience)
    try:
        version_of(connection)  # another program's file is left as it is
        connection.pragma("page_size", PAGE_BYTES)
        write_ahead(connection, bytes_kept=_WAL_BYTES_KEPT)
        connection.pragma("synchronous", "full")
        connection.pragma("cache_size", -_CACHE_KIB)
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return SqliteFile(path, identity, connection, patience)


def release_blocking(file: SqliteFile) -> None:
    """Give a file back; the last to do so closes it, once what is queued is done."""
    with _files_lock:
        file.users -= 1
        if file.users or _files.get(file.identity) is not file:
            return
        del _files[file.identity]
    file.close_blocking()


@atexit.register
def _close_what_is_open() -> None:
    """A process that ends without closing keeps what it has queued all the same."""
    for file in list(_files.values()):
        with suppress(Exception):
            file.close_blocking()


def _let_go_after_fork() -> None:
    """A forked child has no writer's thread, and must not touch what its parent goes on using."""
    global _files_lock
    _files_lock = threading.Lock()
    for file in _files.values():
        file.writer.abandon()
        file.is_abandoned = True
    _files.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)


class SqliteDatabase:
    """One store's way to its volume in a file."""

    poll_s = 0.04  # some microseconds

    def __init__(self, file: SqliteFile, volume: int) -> None:
        self.file = file
        self.volume = volume
        self._last = _LAST.format(int(volume))
        self._closed = False
        try:
            self._connection = connect(file.path)
        except apsw.Error as error:
            raise from_sqlite(error, WHOSE) from error
        self._connection.pragma("query_only", True)
        self._session = SqliteSession(self._connection)
        self._ask = self._connection.cursor().execute
        self._ask_writer = file.cursor().execute
        self._busy = file.writer.busy

    @property
    def shared(self) -> SqliteFile:
        return self.file

    @property
    def at_once(self) -> SqliteDatabase:
        return self

    @property
    def aside(self) -> Callable[[], AbstractContextManager[apsw.Connection]]:
        return self.file.aside

    @property
    def at_hand(self) -> Callable[[], AbstractContextManager[apsw.Connection]]:
        return self.file.at_hand

    def reading(self) -> SqliteSession:
        self._check_open()
        return self._session

    async def last(self) -> int:
        return self.newest()

    def known(self) -> int:
        return self.newest()

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Nobody is told of what another process does to a file: it is looked for."""
        return lambda: None

    def learn(self, last: int) -> None:
        """There is nothing to be remembered: it can be asked for at any time."""

    def newest(self) -> int:
        """The last number that was given out, told at once."""
        last: int | None = self._told_at_once(self._last, ())
        if last is None:
            raise Closed("the volume was deleted")
        return last

    def row_at_once(self, sql: str, *values: Any) -> Row | None:
        """The only row of one statement, which sees the last commit."""
        try:
            row: Row | None = self._told_at_once(for_sqlite(sql), values)
        except UnicodeEncodeError:
            raise ParseError("a name is not valid text") from None
        except UnicodeDecodeError:
            raise damaged() from None
        return row

    def _told_at_once(self, sql: str, values: Row) -> Any:
        """What a statement tells, by a transaction of its own."""
        if self._closed or self.file.is_abandoned:
            self._check_open()
        try:
            # The writer's connection knows the pages that it has written. Another one has to find
            # them again after each change, which takes ten times as long.
            if self._busy.acquire(blocking=False):
                try:
                    return self._ask_writer(sql, values).get
                finally:
                    self._busy.release()
            return self._ask(sql, values).get
        except apsw.Error as error:
            raise from_sqlite(error, WHOSE) from error

    async def write(self, job: Job[Result], look: LatestLook | None = None) -> Result:
        return await self.work(lambda turn: run_through(job(turn)))

    def work(self, work: Work[Result]) -> Coroutine[Any, Any, Result]:
        """Do what is done in one go, in a transaction on the writer's thread."""
        self._check_open()
        return self.file.writer.run(partial(self.file.run, self.volume, work))

    def work_inline(self, work: Work[Result]) -> Result | None:
        """Do a piece of work at once; None where it has to be awaited, and nothing was done."""
        if self._closed or self.file.is_abandoned:
            self._check_open()
        done = self.file.writer.run_inline(partial(self.file.run, self.volume, work))
        return None if done is None else cast(Result, done.unwrap())

    def submit(self, job: Job[None]) -> None:
        """Run a job some time soon; nobody waits for it, or learns that it failed."""
        self._check_open()
        work = partial(self.file.run, self.volume, lambda turn: run_through(job(turn)))
        self.file.writer.put(Task(work, lambda _, __: None, None))

    async def integrity(self) -> list[str]:
        return await in_thread(self.file.integrity_blocking)

    def _check_open(self) -> None:
        if self.file.is_abandoned:
            raise Closed("the store is closed", hint=FORKED)
        if self._closed:
            raise Closed("the store is closed")

    async def aclose(self) -> None:
        if self._closed or self.file.is_abandoned:
            return
        self._closed = True
        self._connection.close()
        # Off the loop: what is queued may have to tell the loop that it is done.
        await in_thread(release_blocking, self.file)
