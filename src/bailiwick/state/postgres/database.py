"""The state of an authority in PostgreSQL, as one of the servers that share it has it.

Jobs are written by one thread on one connection, as in a directory; rows are read on others. Who
asks on an event loop stands still for the trip: what is asked there is asked seldom, and a database
that does not answer is not asked there at all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, cast

import apsw
import asyncpg

from bailiwick.errors import BailiwickError, Busy, Closed
from bailiwick.limits import Limits
from bailiwick.patience import standing_still, waiting
from bailiwick.postgres.cut_off import ending_cut_off
from bailiwick.postgres.failures import FAILURES, from_postgres, is_lost
from bailiwick.postgres.place import ServerPlace
from bailiwick.sqlite.writer import Frame
from bailiwick.state.database import Database, DatabasePart, Job, Result
from bailiwick.state.owner import StateOwner
from bailiwick.state.postgres.connection import PostgresConnection, in_postgres_words
from bailiwick.state.postgres.database_loop import DatabaseLoop
from bailiwick.state.postgres.pulse import Pulse
from bailiwick.state.postgres.schema import NAMESPACE, migrate
from bailiwick.state.postgres.standstill import Standstill

_READ_HERE_S: Final = 2.0
"""How long an event loop stands still for an answer, once: then the database counts as silent."""

_READERS_MAX: Final = 4
_IDLE_S: Final = 60.0


class _SharedFrame(Frame):
    """A commit that others must notice at once tells them, and changes the epoch here."""

    def __init__(self, connection: PostgresConnection, pulse: Pulse) -> None:
        self._connection = connection
        self._pulse = pulse

    def end_by(self, until: float) -> None:
        self._connection.end_by(until)

    def committing(self, *, control: bool) -> AbstractContextManager[None] | None:
        return self._noticed() if control else None

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        self._connection.control = True
        try:
            with self._pulse.epoch.changing():
                yield
        finally:
            self._connection.control = False


class _ServerOwner(StateOwner):
    """The name of this server, and whether others are there."""

    def __init__(self, name: str) -> None:
        super().__init__(None, name, None)
        self.state: PostgresState | None = None

    def is_alive(self, name: str) -> bool:
        return name == self.name or self.state is None or self.state.is_alive(name)


class PostgresState(Database):
    """The state of one authority, shared with all servers on the same database. Made by
    `open_in_postgres`."""

    is_shared = True

    def __init__(
        self, directory: str, place: ServerPlace, loop: DatabaseLoop, pulse: Pulse,
        owner: _ServerOwner,
    ) -> None:  # fmt: skip
        self._loop = loop
        self._place = place
        self._pulse = pulse
        self._pool: Any = None
        self._patience_s = place.statement_s + place.connect_s
        self._standstill = Standstill()
        connection = PostgresConnection(loop, place, owner.name, pulse)
        super().__init__(
            directory, cast(apsw.Connection, connection), pulse.epoch, owner,
            frame=_SharedFrame(connection, pulse), here_s=0.0,
        )  # fmt: skip
        owner.state = self

    @property
    def servers(self) -> int:
        return self._pulse.servers

    @property
    def is_answering(self) -> bool:
        return self._pulse.is_heard

    def time_ns(self) -> int:
        return self._pulse.clock.time_ns()

    @property
    def broken(self) -> bool:
        if self._writer.broken and self._pulse.is_steady:
            self._writer.broken = False  # nobody may write for a while, to find out
        return self._writer.broken or not self._pulse.is_heard

    # --- reading -------------------------------------------------------------------------------

    def read(self, sql: str, bindings: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._closed:
            raise Closed("the state is closed", hint=self._hint)
        return self._answer(in_postgres_words(sql), *bindings)

    def _answer(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if asyncio._get_running_loop() is None:
            return self._loop.run(self._ask(sql, *values), self._patience_s)
        return self._answer_here(lambda: self._ask(sql, *values))

    def _answer_here(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """An answer for which an event loop stands still."""
        self._pulse.refuse_silent()
        self._standstill.refuse()
        since = time.monotonic()
        with standing_still(_READ_HERE_S, time.monotonic) as seconds:
            try:
                return self._loop.run(work(), seconds)
            except Busy:
                if seconds == _READ_HERE_S:  # else it was this request that could not wait
                    self._pulse.missed()
                raise
            finally:
                self._standstill.note(time.monotonic() - since)

    async def _ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if self._pool is None:
            self._pool = await asyncpg.create_pool(
                min_size=0, max_size=_READERS_MAX, max_inactive_connection_lifetime=_IDLE_S,
                reset=_leave_as_it_is, **self._place.options,
            )  # fmt: skip
        async with self._pool.acquire(timeout=self._place.connect_s) as connection:
            try:
                return self._heard(await connection.fetch(sql, *values))
            except FAILURES as error:
                if not is_lost(error):
                    raise
        # It was lost before anything was asked, most often: to ask again changes nothing.
        async with self._pool.acquire(timeout=self._place.connect_s) as connection:
            return self._heard(await connection.fetch(sql, *values))

    def _heard(self, rows: Iterable[Any]) -> list[tuple[Any, ...]]:
        self._pulse.heard()
        return [tuple(row) for row in rows]

    def is_alive(self, name: str) -> bool:
        """Whether the server of a name still serves; in doubt it does."""
        try:
            if asyncio._get_running_loop() is not None:
                return self._answer_here(lambda: self._pulse.is_alive(self._ask, name))
            return self._loop.run(self._pulse.is_alive(self._ask, name), _READ_HERE_S)
        except BailiwickError:
            return True

    # --- what others must notice ---------------------------------------------------------------

    async def write(self, job: Job[Result]) -> Result:
        return await self._in_time(job, control=False)

    async def write_control(self, job: Job[Result]) -> Result:
        result = await self._in_time(job, control=True)
        knowing = asyncio.wrap_future(self._loop.begin(self._pulse.everyone_knows(self._ask)))
        try:
            await asyncio.wait((knowing,))
        except asyncio.CancelledError:
            knowing.cancel()
            raise
        if not knowing.cancelled():  # as it is where the state is closed: what was written stands
            knowing.result()
        return result

    async def _in_time(self, job: Job[Result], *, control: bool) -> Result:
        """Run a job within the patience of who asks: it is never begun later, and what is begun
        has come to its end by then."""
        with waiting() as seconds:
            return await self._writer.run(job, control=control, begun_within_s=seconds)

    def write_blocking(self, job: Job[Result], *, control: bool = False) -> Result:
        result = super().write_blocking(job, control=control)
        if control:
            with suppress(concurrent.futures.CancelledError):  # closed: what was written stands
                self._loop.begin(self._pulse.everyone_knows(self._ask)).result()
        return result

    def _let_go(self) -> None:
        self._loop.close(self._end(), self._patience_s)

    async def _end(self) -> None:
        await self._pulse.close()
        if self._pool is not None:
            self._pool.terminate()


async def _leave_as_it_is(_: Any) -> None:
    """Nothing is set on a connection while it is used, so there is nothing to be set back."""


def open_in_postgres(
    url: str, directory: str, parts: Sequence[DatabasePart], limits: Limits
) -> PostgresState:
    """The state in the database at an address. Blocks. ``directory`` is for what stays on this
    machine, the key of the ledger first of all. Raises `IoError` and `Busy` where the database is
    not to be had, `Unsupported` for one that a newer Bailiwick wrote."""
    place = ServerPlace.of(url, limits)._replace(
        namespace=NAMESPACE,
        # What is said of a state is small: a request is to end in time that waits for two of them.
        statement_s=limits.database_statement_seconds_max / 2,
    )
    loop, owner = DatabaseLoop(), _ServerOwner(secrets.token_hex(8))
    pulse = Pulse(loop, place, owner.name)
    try:
        loop.run(_prepared(place, parts), 2 * (place.statement_s + place.connect_s))
        loop.run(pulse.start(), place.statement_s + place.connect_s)
        return PostgresState(directory, place, loop, pulse, owner)
    except BaseException:
        loop.close(pulse.close(), place.connect_s)
        raise


async def _prepared(place: ServerPlace, parts: Sequence[DatabasePart]) -> None:
    try:
        connection = await asyncpg.connect(**place.options)
    except FAILURES as error:
        raise from_postgres(error) from error
    try:
        with ending_cut_off(place):
            await migrate(connection, parts)
    finally:
        connection.terminate()
