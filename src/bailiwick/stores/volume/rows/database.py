"""The seam between the volume store and the database that keeps its rows.

Everything above it is written once, as coroutines over a `RowSession`. On SQLite nothing ever
waits, so a coroutine is simply run to its end (`run_through`), on the event loop for reads and
on the writer's thread for changes; on a database across a network the same coroutines would be
awaited.
Parameters are numbered, ``$1`` …, in every statement.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bailiwick.errors import InternalError
from bailiwick.stores.volume.rows.records import Numbers

if TYPE_CHECKING:
    from bailiwick.stores.volume.lookup.cache import Cache

Row = tuple[Any, ...]
Result = TypeVar("Result")

INFINITY = 9223372036854775807
"""Later than every version. Stands as a literal in the statements, see the schema."""

HEAD = INFINITY - 1
"""The version at which the newest state is seen."""


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
    def locks(self) -> int:
        """How many leases there may be."""
        ...

    def set_locks(self, count: int) -> None: ...

    def on_commit(self, action: Callable[[], None]) -> None:
        """Have something done once the job is durable, before its caller is told."""
        ...

    def cache(self, branch: int) -> Cache:
        """What is remembered of a branch, true to the transaction."""
        ...


Job = Callable[[Transaction], Coroutine[Any, Any, Result]]


class RowDatabase(Protocol):
    """One volume's way to its rows."""

    def reading(self) -> AbstractAsyncContextManager[RowSession]:
        """A consistent, short look. Not to be held while anything else is awaited."""
        ...

    async def last(self) -> int:
        """The last number that was given out: another one after anybody has changed anything."""
        ...

    async def write(self, job: Job[Result]) -> Result:
        """Run ``job`` in a transaction that others may share; one that raises is undone alone.

        Durable when this returns. Cancelled before its turn the job never runs; later it is carried
        to its end, and the cancellation is delivered at the next await.
        """
        ...

    async def aclose(self) -> None: ...


def run_through(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that has nothing to wait for, to its end."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise InternalError("a database job waited for something else than the database")
