"""The volume's rows in PostgreSQL: any number of processes on any number of machines.

A look is statements of their own, each at the version that the look began with: rows say from when
to when they are seen, so all of them show one state, and no transaction has to be opened and closed
for that. A change locks the row of its volume, which has the counter: so changes of one volume come
one after the other, wherever they are made, and each sees all that were before it.

A server that is lost or slow is `IoError` or `Busy` within the limits of time; both can be tried
again.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, TypeVar

import asyncpg

from bailiwick.errors import FORKED, BailiwickError, Closed
from bailiwick.finishing import look_at
from bailiwick.patience import for_nobody, waiting
from bailiwick.postgres.clock import NOW_US, SharedClock
from bailiwick.postgres.cut_off import ending_cut_off
from bailiwick.postgres.failures import FAILURES, from_postgres
from bailiwick.postgres.place import ServerPlace
from bailiwick.stores.volume.rows.database import (
    Job,
    LatestLook,
    Row,
    RowSession,
    SharedDatabase,
)
from bailiwick.stores.volume.rows.postgres_notifications import Notifications
from bailiwick.stores.volume.rows.postgres_schema import (
    FOUND,
    MIGRATING,
    begin,
    migrate,
    older_at_work,
)
from bailiwick.stores.volume.rows.postgres_session import PostgresSession
from bailiwick.stores.volume.rows.postgres_turns import VolumeTurns

Result = TypeVar("Result")

_IDLE_S: Final = 60.0
"""A connection that nobody has used for so long is closed: a server has room for some hundreds."""

_AGAIN_S: Final = 1.0
"""How often those who would change something look whether older servers are gone."""

_ANSWER_S: Final = 2.0
"""For the question whether it is there: who asks is to know within five seconds."""

_NOW: Final = f"SELECT {NOW_US}"
_LAST: Final = "SELECT last FROM volume WHERE id = $1"
_NAMED: Final = "SELECT 1 FROM volume WHERE name = $1"


class _Look:
    """A short look: a connection is taken by its first statement, and given back at its end."""

    __slots__ = ("_held", "_pool", "_session")

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._held: Any = None
        self._session: PostgresSession | None = None

    async def __aenter__(self) -> RowSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        held, self._held, self._session = self._held, None, None
        if held is not None:
            await self._pool.give_back(held)

    async def _taken(self) -> PostgresSession:
        if self._session is None:
            self._held = await self._pool.take()
            self._session = PostgresSession(self._held, self._pool.answer_s)
        return self._session

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        return await (await self._taken()).rows(sql, *values)

    async def row(self, sql: str, *values: Any) -> Row | None:
        return await (await self._taken()).row(sql, *values)

    async def run(self, sql: str, *values: Any) -> None:
        await (await self._taken()).run(sql, *values)


async def _leave_as_it_is(_: Any) -> None:
    """Nothing is set on a connection while it is used, so there is nothing to be set back."""


class _Pool:
    """The connections of one event loop, and what is written through them."""

    def __init__(self, place: ServerPlace, server: PostgresServer) -> None:
        self.users = 0
        self.session = server.session
        self.answer_s = place.answer_s
        self.place = place
        self.notifications = Notifications(place.options, server.session, server.learn)
        self._begin = server.begin
        self._opening = asyncio.Lock()
        self._pool: Any = None
        self._turns: dict[int, VolumeTurns] = {}

    def turns(self, volume: int) -> VolumeTurns:
        turns = self._turns.get(volume)
        if turns is None:
            turns = self._turns[volume] = VolumeTurns(self, volume)
        return turns

    async def take(self) -> Any:
        try:
            async with self._opening:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        min_size=0, max_size=self.place.connections_max, reset=_leave_as_it_is,
                        init=self._begin,
                        max_inactive_connection_lifetime=_IDLE_S, **self.place.options,
                    )  # fmt: skip
            with waiting(self.place.connect_s) as seconds:
                return await self._pool.acquire(timeout=seconds)
        except FAILURES as error:
            raise from_postgres(error) from error

    async def give_back(self, connection: Any) -> None:
        with suppress(*FAILURES):  # one that died is replaced
            await self._pool.release(connection)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        held = await self.take()
        try:
            yield held
        finally:
            await self.give_back(held)

    async def close(self) -> None:
        await self.notifications.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), self.place.connect_s)
            except FAILURES:
                pool.terminate()


class PostgresServer(SharedDatabase):
    """A database that this process uses, shared by all stores on it."""

    blobs_folder = None
    is_one_file = False

    def __init__(self, place: ServerPlace) -> None:
        super().__init__()
        self.place = place
        self.is_abandoned = False
        self.known: dict[int, int] = {}
        self._clock = SharedClock()
        self._tried_at = 0.0
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}

    def set_up(self, job: Callable[[RowSession], Coroutine[Any, Any, Result]]) -> Result:
        async def run(connection: Any) -> Result:
            await self.set_clock(connection)
            self.is_behind = not await migrate(connection)
            async with connection.transaction():
                # Two that make a volume at the same time would give it the same number.
                await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
                return await job(PostgresSession(connection))

        return _on_a_loop_of_its_own(_connected(self.place, run))

    def time_ns(self) -> int:
        return self._clock.time_ns()

    async def set_clock(self, connection: Any) -> None:
        asked_ns = time.time_ns()
        self._clock.heard(await connection.fetchval(_NOW), asked_ns)

    async def begin(self, connection: Any) -> None:
        """For each connection that stays."""
        await begin(connection)
        await self.set_clock(connection)

    async def catch_up(self) -> None:
        """Bring the tables up to date, where that had to wait. Raises `Busy` while it still has
        to, and where it takes longer than who asks has patience for."""
        if time.monotonic() - self._tried_at > _AGAIN_S:
            self._tried_at = time.monotonic()
            try:
                with waiting() as seconds:
                    async with asyncio.timeout(seconds):
                        self.is_behind = not await _connected(self.place, migrate)
            except TimeoutError as error:
                raise from_postgres(error) from error
        self.refuse_behind()

    def refuse_behind(self) -> None:
        if self.is_behind:
            raise older_at_work()

    def database(self, volume: int) -> PostgresDatabase:
        return PostgresDatabase(self, volume)

    def acquire_again(self) -> PostgresServer:
        return acquire(self.place)

    def release_blocking(self) -> None:
        with _servers_lock:
            self.users -= 1
            if not self.users and _servers.get(self.place) is self:
                del _servers[self.place]

    def pool(self) -> _Pool:
        """The connections of the running event loop, for one user more."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = _Pool(self.place, self)
        pool.users += 1
        return pool

    def learn(self, volume: int, last: int) -> None:
        """A number of a volume that was given out."""
        if last > self.known.get(volume, 0):
            self.known[volume] = last

    async def let_go(self, pool: _Pool) -> None:
        pool.users -= 1
        if not pool.users:
            self._pools = {loop: each for loop, each in self._pools.items() if each is not pool}
            await pool.close()


async def _connected(
    place: ServerPlace, work: Callable[[Any], Coroutine[Any, Any, Result]]
) -> Result:
    """Do something on a connection of its own."""
    try:
        connection = await asyncpg.connect(**place.options)
        try:
            with ending_cut_off(place):
                result = await work(connection)
        except BaseException:
            connection.terminate()  # it may be in the middle of an answer
            raise
        else:
            await connection.close(timeout=place.connect_s)
            return result
    except BailiwickError:
        raise
    except FAILURES as error:
        raise from_postgres(error) from error


def has_volume(place: ServerPlace, name: str) -> bool:
    """Whether a database has a volume of this name. Blocks."""

    async def look(connection: Any) -> bool:
        if not await connection.fetchval(FOUND):
            return False
        return await connection.fetchval(_NAMED, name) is not None

    return _on_a_loop_of_its_own(_connected(place, look))


def answer(place: ServerPlace) -> None:
    """Return once the database has answered. Raises `IoError` or `Busy` where it does not, within
    seconds. Blocks."""

    async def ask() -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                connection = await asyncpg.connect(**place.options)
                connection.terminate()
        except asyncpg.TooManyConnectionsError:
            return  # it has answered: those that there are go on
        except FAILURES as error:
            raise from_postgres(error) from error

    _on_a_loop_of_its_own(ask())


def _on_a_loop_of_its_own(work: Coroutine[Any, Any, Result]) -> Result:
    """Run something to its end for a thread that may be an event loop's. Blocks."""
    ended: list[Result | BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(work))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, name="bailiwick-postgres")
    thread.start()
    thread.join()
    (outcome,) = ended
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


_servers: dict[ServerPlace, PostgresServer] = {}
_servers_lock = threading.Lock()


def acquire(place: ServerPlace) -> PostgresServer:
    """The database at a place. Connects to nothing. To be given back by `release_blocking`."""
    with _servers_lock:
        server = _servers.get(place)
        if server is None:
            server = _servers[place] = PostgresServer(place)
        server.users += 1
        return server


def _let_go_after_fork() -> None:
    """A forked child must not speak on what its parent goes on speaking on."""
    global _servers_lock
    _servers_lock = threading.Lock()
    for server in _servers.values():
        server.is_abandoned = True
    _servers.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)


class PostgresDatabase:
    """One store's way to its volume."""

    at_once = None
    poll_s = 1.0  # notifications are heard, but for those that are lost

    def __init__(self, server: PostgresServer, volume: int) -> None:
        self.shared = server
        self.volume = volume
        self._pool: _Pool | None = None
        self._closed = False
        self._submitted: set[asyncio.Task[None]] = set()

    def reading(self) -> _Look:
        return _Look(self._used())

    async def last(self) -> int:
        async with self.reading() as session:
            row = await session.row(_LAST, self.volume)
        if row is None:
            raise Closed("the volume was deleted")
        self.learn(row[0])
        return int(row[0])

    def known(self) -> int:
        return self.shared.known.get(self.volume, 0)

    def learn(self, last: int) -> None:
        self.shared.learn(self.volume, last)

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        return self._used().notifications.listen(self.volume, told)

    async def write(self, job: Job[Result], look: LatestLook | None = None) -> Result:
        if self.shared.is_behind:
            await self.shared.catch_up()
        turns = self._used().turns(self.volume)
        result = await turns.run(job, look)
        self.learn(turns.flushed)
        return result

    def submit(self, job: Job[None]) -> None:
        async def run() -> None:
            for_nobody()
            with suppress(BailiwickError):
                await self.write(job)

        self._used()
        task = asyncio.get_running_loop().create_task(run(), name="bailiwick-postgres")
        self._submitted.add(task)
        task.add_done_callback(self._submitted.discard)

    async def integrity(self) -> list[str]:
        """PostgreSQL checks its pages as it reads them, where it was told to; there is nothing to
        be asked for."""
        return []

    def _used(self) -> _Pool:
        if self.shared.is_abandoned:
            raise Closed("the store is closed", hint=FORKED)
        if self._closed:
            raise Closed("the store is closed")
        if self._pool is None:
            self._pool = self.shared.pool()
        return self._pool

    async def aclose(self) -> None:
        if self._closed or self.shared.is_abandoned:
            return
        self._closed = True
        for task in self._submitted:
            task.add_done_callback(look_at)
        if self._submitted:
            await asyncio.wait(self._submitted)
        if self._pool is not None:
            await self.shared.let_go(self._pool)
        self.shared.release_blocking()
