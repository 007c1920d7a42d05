"""The authority's own database: one SQLite file in a private directory, or private in memory.

Everything the authority must not forget is kept here: grants, trust, rules, approvals, the ledger,
the change feed. Each family of tables is a `DatabasePart`, declared by the room that uses it. One
thread writes (`WriterThread`); reads have connections of their own and never wait for it. Several
processes may open the same directory at once.

    authority.db    the tables (with -wal and -shm beside it)
    epoch           the number that tells other processes to look again, see `Epoch`
    owners/         one locked file for each process that has it open, see `StateOwner`
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import logging
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import apsw

from bailiwick.errors import (
    FORKED,
    BailiwickError,
    Busy,
    Closed,
    IoError,
    PermissionDenied,
    Unsupported,
    from_os_error,
)
from bailiwick.finishing import in_thread
from bailiwick.model import Durability
from bailiwick.sqlite import fork_safety
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.sqlite.tasks import Task
from bailiwick.sqlite.whose import is_new
from bailiwick.sqlite.write_ahead import write_ahead
from bailiwick.sqlite.writer import Frame, WriterThread
from bailiwick.state.epoch import Epoch
from bailiwick.state.owner import StateOwner

_log = logging.getLogger("bailiwick.state")

Connection = apsw.Connection
Statements = apsw.Connection | apsw.Cursor
"""What runs statements one after the other, each of which is over when the next one comes: a cursor
that is kept does so too, and to make one for each takes as long as some of them."""
Result = TypeVar("Result")
Job = Callable[[apsw.Connection], Result]

FILE = "authority.db"
EPOCH_FILE = "epoch"
OWNERS_FOLDER = "owners"

_APPLICATION_ID = 0x62776B73
"""``bwks``: says in the file's header whose it is."""

_BUSY_MS_MAX = 10_000
"""How long a writer waits for one in another process, which holds the lock for one commit."""

_WAL_BYTES_KEPT = 16 * 1024 * 1024
"""What the log beside the database is cut back to after a burst."""

_HERE_S = 0.000_2
"""While a commit takes less than this, which a disk that has to be waited for does not, it is made
on the thread of whoever announces a change: to have it made on another takes three times as long,
and an event loop stands still for less than it does for a read of a large file."""

_READERS_KEPT = 4
"""Idle connections for reading; more are closed when they come back."""


class DatabasePart(NamedTuple):
    """A family of tables: a name and SQL scripts, each of which leads to the next version.

    Scripts that were published are never changed; a new version is a new script at the end.
    """

    name: str
    versions: tuple[str, ...]


class _StateFrame(Frame):
    """A commit that others must notice at once changes the epoch."""

    def __init__(self, connection: Connection, epoch: Epoch) -> None:
        self._connection = connection
        self._epoch = epoch

    def wait(self, patiently: bool) -> None:
        self._connection.set_busy_timeout(_BUSY_MS_MAX if patiently else 0)

    def committing(self, *, control: bool) -> AbstractContextManager[None] | None:
        return self._epoch.changing() if control else None


class Database:
    """The state of one authority, in a directory or in memory. Made by `open`."""

    is_shared = False
    """Whether servers on other machines have it, too."""

    @property
    def servers(self) -> int:
        """How many servers share it, as far as is known."""
        return 1

    @property
    def is_answering(self) -> bool:
        """Whether what keeps it has answered lately."""
        return True

    def time_ns(self) -> int:
        """How late it is for all who share it."""
        return time.time_ns()

    def __init__(
        self,
        directory: str | None,
        connection: Connection,
        epoch: Epoch,
        owner: StateOwner,
        *,
        frame: Frame | None = None,
        here_s: float | None = None,
    ) -> None:
        self.directory = directory
        self.epoch = epoch
        self.owner = owner
        self._connection = connection
        self._turn = threading.RLock()
        self._idle: deque[Connection] = deque()
        self._closing = threading.Lock()
        self._closed = False
        self._hint: str | None = None
        self._writer = WriterThread(
            connection, whose="state", frame=frame or _StateFrame(connection, epoch),
            turn=self._turn if directory is None else None,
            here_s=_HERE_S if here_s is None else here_s,
        )  # fmt: skip
        _still_open.add(self)

    @classmethod
    def open(
        cls,
        directory: str | None,
        parts: Sequence[DatabasePart],
        *,
        durability: Durability = "full",
    ) -> Database:
        """Open the state kept in ``directory``, made if missing; None keeps it in memory only.

        Blocks. With durability ``full`` what was written survives a power cut, with ``rename`` a
        crash of the process only. Raises `PermissionDenied` where others may write the directory,
        `Unsupported` for a state that a newer Bailiwick wrote, `IoError` and `Busy`.
        """
        try:
            if directory is None:
                return cls._open_in_memory(parts)
            return cls._open_in(os.path.abspath(directory), parts, durability)
        except apsw.Error as error:
            raise from_sqlite(error) from error
        except BailiwickError:
            raise
        except OSError as error:
            raise from_os_error(error) from error

    @classmethod
    def _open_in_memory(cls, parts: Sequence[DatabasePart]) -> Database:
        # One connection for reading and writing, in turns: nothing can be locked out of it.
        connection = apsw.Connection(":memory:")
        try:
            owner = StateOwner.alone()
            _prepare(connection, parts, owner)
        except BaseException:
            connection.close()
            raise
        return cls(None, connection, Epoch(None), owner)

    @classmethod
    def _open_in(
        cls, directory: str, parts: Sequence[DatabasePart], durability: Durability
    ) -> Database:
        try:
            os.makedirs(directory, 0o700, exist_ok=True)
        except OSError as error:
            raise PermissionDenied(
                "the state directory cannot be made",
                errno=error.errno,
                hint="name one that can be written: state_dir, --state, or $XDG_STATE_HOME",
            ) from None
        with _locked_directory(directory) as held:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(FILE, flags, 0o600, dir_fd=held))
            connection = fork_safety.connect(
                f"{directory}/{FILE}", flags=apsw.SQLITE_OPEN_READWRITE
            )
            try:
                connection.set_busy_timeout(_BUSY_MS_MAX)
                is_new(connection, _APPLICATION_ID, "state")  # another program's is left as it is
                write_ahead(connection, bytes_kept=_WAL_BYTES_KEPT)
                connection.pragma("synchronous", "full" if durability == "full" else "normal")
                owner = StateOwner.take(held, OWNERS_FOLDER)
                try:
                    _prepare(connection, parts, owner)
                    epoch = Epoch.open(held, EPOCH_FILE)
                except BaseException:
                    owner.close()
                    raise
            except BaseException:
                connection.close()
                raise
        return cls(directory, connection, epoch, owner)

    # --- writing ---------------------------------------------------------------------------

    async def write(self, job: Job[Result]) -> Result:
        """Run ``job`` on the writer's thread in a transaction, and return what it returned.

        Durable when this returns. Other jobs may share the transaction; one that raises is undone
        alone, and its exception comes out here. Cancelled before its turn the job never runs;
        later it is carried to its end, and the cancellation is delivered at the next await. Raises
        `IoError`, `Busy`, `Closed`.
        """
        return await self._writer.run(job)

    def write_here(
        self, job: Job[None], ended: Callable[[BaseException | None], None] | None = None
    ) -> bool:
        """Run a small ``job`` as `write` does, but on this thread and at once, while commits are
        quick; False where it would have to wait, and nothing was done. ``ended`` is told how it
        went before anybody else writes."""
        done = self._writer.run_here(job, ended)
        if done is None:
            return False
        if done.error is not None:
            raise done.error
        return True

    async def write_control(self, job: Job[Result]) -> Result:
        """Run ``job`` as `write` does, noticed by others at once: the epoch changes with it."""
        return await self._writer.run(job, control=True)

    def write_blocking(self, job: Job[Result], *, control: bool = False) -> Result:
        """Run ``job`` in a transaction for a thread without an event loop, which waits."""
        return self._writer.run_blocking(job, control=control)

    def submit(
        self,
        job: Callable[[Connection], None],
        after: Callable[[], None] | None = None,
        *,
        within_s: float = 0.0,
        still_due: Callable[[], float | None] | None = None,
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        """Queue a job and go on. ``after`` runs once it is committed, on the event loop this was
        called on (on the writer's thread where there is none).

        The job may wait up to ``within_s`` seconds for others to share a commit with. Where none
        came, ``still_due`` is asked on the writer's thread when it has to be done, by the monotonic
        clock; None means never, and then it does not end either. ``ended`` runs on the writer's
        thread however the job ends, and is told its error. A failure is counted and logged. Raises
        `Closed`.
        """
        due = time.monotonic() + within_s if within_s else 0.0
        loop: asyncio.AbstractEventLoop | None = None
        if after is not None:
            with suppress(RuntimeError):
                loop = asyncio.get_running_loop()

        def tell(_: object, error: BaseException | None) -> None:
            if error is not None:
                self._writer.failures += 1
                self._writer.broken = True
                _log.error("the state could not be written: %s", error)
            if ended is not None:
                ended(error)
            if error is None and after is not None:
                if loop is None:
                    after()
                else:
                    loop.call_soon_threadsafe(after)

        self._writer.put(Task(job, tell, None, due=due, still_due=still_due))

    def on_commit(self, action: Callable[[], None]) -> None:
        """For use inside a job: run ``action`` on the writer's thread once the job is committed,
        and not at all if it is undone."""
        self._writer.on_commit(action)

    # --- reading ---------------------------------------------------------------------------

    def read(self, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query answers, of what is committed. For small answers: runs on this thread.

        Not for use inside a job, which has a connection that sees its own changes. Raises
        `IoError`, `Busy`, `Closed`.
        """
        if self._closed:
            raise Closed("the state is closed", hint=self._hint)
        try:
            if self.directory is None:
                with self._turn:
                    return self._connection.execute(sql, tuple(bindings)).fetchall()
            connection = self._borrow()
            try:
                return connection.execute(sql, tuple(bindings)).fetchall()
            finally:
                self._give_back(connection)
        except apsw.Error as error:
            raise from_sqlite(error) from error

    def _borrow(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        connection = fork_safety.connect(
            f"{self.directory}/{FILE}", flags=apsw.SQLITE_OPEN_READWRITE
        )
        connection.set_busy_timeout(_BUSY_MS_MAX)
        connection.pragma("query_only", True)
        return connection

    def _give_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        while self._idle and (self._closed or len(self._idle) > _READERS_KEPT):
            try:
                self._idle.pop().close()
            except IndexError:
                return

    # --- state of the state ----------------------------------------------------------------

    @property
    def failures(self) -> int:
        """Submitted jobs that were not kept."""
        return self._writer.failures

    @property
    def broken(self) -> bool:
        """Whether the last attempt to write failed for a reason of the machine's."""
        return self._writer.broken

    @property
    def last_error(self) -> str | None:
        """What the machine said when writing last failed."""
        return self._writer.last_error

    def not_written(self, what: str) -> IoError:
        """What to raise where nothing is done because writing last failed, and why it did."""
        return IoError(f"{what}: {self.last_error}", errno=self._writer.last_errno)

    @property
    def is_closing(self) -> bool:
        """Whether no more jobs are taken; what is queued is still being done."""
        return self._writer.is_closing

    @property
    def transactions(self) -> int:
        """Transactions that were committed and changed something."""
        return self._writer.transactions

    async def aclose(self) -> None:
        """Do what is queued, and let go of everything. Closing twice does nothing."""
        # Off the loop: what is queued may have to tell the loop that it is done.
        await in_thread(self.close)

    def close(self) -> None:
        """Do what is queued, and let go of everything, for a thread without an event loop."""
        with self._closing:
            if self._closed:
                return
            self._writer.close()
            self._closed = True
            _still_open.discard(self)
            while self._idle:
                with suppress(IndexError):
                    self._idle.pop().close()
            # The last to close it, of all processes, leaves one file and no log.
            with self._turn:
                self._connection.close()
            self._let_go()  # whoever may still tell the epoch of a change has ended then
            self.epoch.close()
            self.owner.close()

    def _let_go(self) -> None:
        """Let go of what else there is."""


_still_open: set[Database] = set()


@atexit.register
def _close_what_is_open() -> None:
    """A process that ends without closing keeps what it has queued all the same."""
    for database in list(_still_open):
        with suppress(Exception):
            database.close()


def _let_go_after_fork() -> None:
    """A forked child has no writer's thread, and must not touch what its parent goes on using."""
    for database in _still_open:
        database._closed = True
        database._hint = FORKED
        database._closing = threading.Lock()
        database._writer.abandon()
        database.owner.abandon()
    _still_open.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)


# --- opening -----------------------------------------------------------------------------------


@contextmanager
def _locked_directory(directory: str) -> Iterator[int]:
    """Hold the state's directory open and locked: one process opens it at a time."""
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(held)
        if status.st_uid not in (os.geteuid(), 0):
            raise PermissionDenied(
                "the directory of the state belongs to another user",
                hint=f"run as its owner (uid {status.st_uid}), or make it your own (chown)",
            )
        if stat.S_IMODE(status.st_mode) & 0o022:
            raise PermissionDenied(
                "others may write the directory of the state",
                hint="whoever can write it holds every grant: make it private (chmod 700)",
            )
        fcntl.flock(held, fcntl.LOCK_EX)
        yield held
    finally:
        fcntl.flock(held, fcntl.LOCK_UN)  # a child forked meanwhile holds it as well
        os.close(held)


def _prepare(connection: Connection, parts: Sequence[DatabasePart], owner: StateOwner) -> None:
    """Bring every part to its newest version, all in one transaction. Raises `Busy` where others
    are at work with tables that would become something else."""
    connection.pragma("foreign_keys", True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.pragma("application_id") != _APPLICATION_ID:
            connection.pragma("application_id", _APPLICATION_ID)
            connection.execute(_PARTS)
        rows: Any = connection.execute("SELECT name, version FROM parts").fetchall()
        known: dict[str, int] = dict(rows)
        if any(0 < known.get(part.name, 0) < len(part.versions) for part in parts):
            _refuse_others(owner)
        for part in parts:
            _migrate(connection, part, known.get(part.name, 0))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_PARTS = """
CREATE TABLE parts (             -- which version of its scripts each family of tables is at
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID
"""


def refuse_newer(part: DatabasePart, version: int) -> None:
    """Raise `Unsupported` where the tables of a part are newer than what is known of them here."""
    if version > len(part.versions):
        raise Unsupported(
            f"the state was written by a newer Bailiwick: its part {part.name!r} has version"
            f" {version}, this one knows {len(part.versions)}",
            hint="use the newer version of Bailiwick, or another state directory",
        )


def _refuse_others(owner: StateOwner) -> None:
    if not owner.is_alone:
        raise Busy(
            "processes of an older Bailiwick have this state open",
            hint="stop them: the first that is started then brings the tables up to date",
        )


def _migrate(connection: Connection, part: DatabasePart, version: int) -> None:
    refuse_newer(part, version)
    newest = len(part.versions)
    if version == newest:
        return
    for script in part.versions[version:]:
        connection.execute(script)
    connection.execute("INSERT OR REPLACE INTO parts VALUES (?, ?)", (part.name, newest))
