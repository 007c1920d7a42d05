"""The seam between the volume store and the database that keeps its rows.

Everything above it is written once, as coroutines over a `RowSession`. On SQLite nothing ever
waits, so a coroutine is simply run to its end (`run_through`), on the event loop for reads and
on the writer's thread for changes; on a database across a network the same coroutines are
awaited. What a database can answer without waiting is a power of its own (`AnswersAtOnce`): what
is built on it has a way without.
Parameters are numbered, ``$1`` …, in every statement.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar
from weakref import WeakSet

from bailiwick.errors import InternalError
from bailiwick.stores.volume.rows.records import Numbers

if TYPE_CHECKING:
    import apsw

    from bailiwick.stores.volume.lookup.cache import Cache
    from bailiwick.stores.volume.rows.sqlite_file import VolumeTurn

Row = tuple[Any, ...]
Result = TypeVar("Result")

INFINITY = 9223372036854775807
"""Later than every version. Stands as a literal in the statements, see the schema."""

HEAD = INFINITY - 1
"""The version at which the newest state is seen."""


class SpelledTwice(str):
    """A statement that SQLite and PostgreSQL do not agree on: the text itself is for SQLite."""

    __slots__ = ("postgres",)

    def __new__(cls, sqlite: str, postgres: str) -> Self:
        both = super().__new__(cls, sqlite)
        both.postgres = postgres
        return both

    postgres: str


class RowSession(Protocol):
    """Statements on one state of the database: a snapshot, or a transaction under way."""

    async def rows(self, sql: str, *values: Any) -> list[Row]: ...

    async def row(self, sql: str, *values: Any) -> Row | None:
        """The first row, or None."""
        ...

    async def run(self, sql: str, *values: Any) -> None:
        """A statement without an answer."""
        ...


class Transaction(Protocol):
    """A turn to change the volume. Nobody else changes it until the turn is over."""

    @property
    def session(self) -> RowSession: ...
    @property
    def numbers(self) -> Numbers:
        """Versions and ids are taken here, inside the transaction, and nowhere else."""
        ...

    @property
    def begun_at(self) -> int:
        """The last number that was given out before the transaction, which sees all up to it."""
        ...

    @property
    def locks(self) -> int:
        """How many leases there may be."""
        ...

    def set_locks(self, count: int) -> None: ...

    def on_commit(self, action: Callable[[], None]) -> None:
        """Have something done once the job is durable, before its caller is told."""
        ...

    def cache(self, branch: int, known: Cache | None = None) -> Cache:
        """What is remembered of a branch, true to the transaction. Where to look something up takes
        waiting, ``known`` is asked first: it is true as well while it has seen as much."""
        ...


Job = Callable[[Transaction], Coroutine[Any, Any, Result]]


class LatestLook(Protocol):
    """What whoever wants to change something has seen, and goes by."""

    @property
    def cache(self) -> Cache: ...

    async def catch_up(self) -> None:
        """See what was committed meanwhile."""
        ...


class VersionHolder(Protocol):
    """Whoever reads, and may go on reading what others replace meanwhile."""

    @property
    def volume(self) -> int: ...
    def oldest_held(self) -> int: ...


class Pin(NamedTuple):
    """What this process has told others that it may go on reading, and when to tell them again."""

    due: float
    version: int


class SharedDatabase(ABC):
    """A database that this process has open, shared by all stores on it."""

    is_one_file = True
    """Whether the volumes beside one are looked at as well, to tell what is wrong with the whole.
    A server may hold a million of them, and each is looked at alone."""

    is_behind = False
    """Whether its tables are of an older Bailiwick that is still at work on them: they are read,
    and nothing is changed."""

    def __init__(self) -> None:
        self.session = secrets.token_hex(8)
        """The name under which this process says what is read here."""
        self.settings: dict[str, dict[str, str]] = {}
        self.users = 0
        self.holders: WeakSet[VersionHolder] = WeakSet()
        self.pins: dict[int, Pin] = {}

    def time_ns(self) -> int:
        """How late it is for all who share it."""
        return time.time_ns()

    def refuse_behind(self) -> None:  # noqa: B027 - most have nothing to refuse
        """Raises `Busy` where nothing may be changed yet."""

    def oldest_held(self, volume: int) -> int:
        """The oldest version of a volume that somebody in this process may go on reading."""
        holders = [each for each in list(self.holders) if each.volume == volume]
        return min((each.oldest_held() for each in holders), default=HEAD)

    @property
    @abstractmethod
    def blobs_folder(self) -> str | None:
        """Where blobs are kept unless somebody says otherwise; None where somebody has to."""

    @abstractmethod
    def set_up(self, job: Callable[[RowSession], Coroutine[Any, Any, Result]]) -> Result:
        """Run a job that needs no volume yet, in a transaction. Blocks."""

    @abstractmethod
    def database(self, volume: int) -> RowDatabase:
        """A way to one of its volumes. Lets go of what was acquired for it when it is closed."""

    @abstractmethod
    def acquire_again(self) -> SharedDatabase:
        """For one user more. Blocks."""

    @abstractmethod
    def release_blocking(self) -> None:
        """Of what was acquired and is used by nobody."""


class RowDatabase(Protocol):
    """One volume's way to its rows."""

    @property
    def shared(self) -> SharedDatabase: ...

    @property
    def at_once(self) -> AnswersAtOnce | None:
        """What can be had of this database without waiting, if anything can."""
        ...

    def known(self) -> int:
        """A number that was given out, the newest that is known without waiting: none that was
        given out here is newer."""
        ...

    @property
    def poll_s(self) -> float:
        """How often whoever follows looks for what other processes changed, unless told."""
        ...

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have ``told`` called on the event loop when another process has changed the volume, where
        that can be heard; the answer ends it."""
        ...

    def learn(self, last: int) -> None:
        """A number that was given out, as somebody has just seen."""
        ...

    def reading(self) -> AbstractAsyncContextManager[RowSession]:
        """A consistent, short look. Not to be held while anything else is awaited."""
        ...

    async def last(self) -> int:
        """The last number that was given out: another one after anybody has changed anything."""
        ...

    async def write(self, job: Job[Result], look: LatestLook | None = None) -> Result:
        """Run ``job`` in a transaction that others may share; one that raises is undone alone.

        With a ``look`` it may be run more than once: what it did is let go of where somebody else
        has changed the volume since that look, and it is run again.
        Durable when this returns. Cancelled before its turn the job never runs; later it is carried
        to its end, and the cancellation is delivered at the next await.
        """
        ...

    def submit(self, job: Job[None]) -> None:
        """Run a job some time soon; nobody waits for it, or learns that it failed."""
        ...

    async def integrity(self) -> list[str]:
        """What the database itself finds wrong with its tables."""
        ...

    async def aclose(self) -> None: ...


class AnswersAtOnce(Protocol):
    """A power: rows at hand, on any thread, in the words of SQLite."""

    def newest(self) -> int:
        """The last number that was given out."""
        ...

    def row_at_once(self, sql: str, *values: Any) -> Row | None:
        """The only row of one statement, which sees the last commit."""
        ...

    def work(self, work: Callable[[VolumeTurn], Result]) -> Coroutine[Any, Any, Result]:
        """Do what is done in one go, in a transaction on the writer's thread."""
        ...

    def work_inline(self, work: Callable[[VolumeTurn], Result]) -> Result | None:
        """Do a piece of work at once; None where it has to be awaited, and nothing was done."""
        ...

    def aside(self) -> AbstractContextManager[apsw.Connection]:
        """A connection for a long look at one state, on a thread, while others go on."""
        ...

    def at_hand(self) -> AbstractContextManager[apsw.Connection]:
        """A connection for a look of milliseconds, on a thread."""
        ...


def run_through(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that has nothing to wait for, to its end."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise InternalError("a database job waited for something else than the database")
