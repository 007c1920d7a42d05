"""Turns to change a volume in PostgreSQL: how few trips they take, and what makes them sound.

A job goes by what was seen before it, and what it would write is gathered (`write_set`). All of it
goes to the server in one statement, which writes only where the counter of the volume is still
where the jobs have begun: then all that they saw is as they saw it, and what they were refused was
rightly refused. Where somebody else was first nothing is written; the volume's row is locked, what
came meanwhile is taken up, and the jobs are run again. Whoever comes while a turn is under way
shares the next one.

A job that needs more than that, to change rows that it finds by a question or to see what it has
written, has a transaction: it locks the row of its volume, goes on, and is alone in it. So is one
that must not be run twice. Every transaction that changes anything moves the counter on, be it that
it has no use for the number: a change of rows that no counter tells of would not be noticed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import asyncpg

from bailiwick import patience
from bailiwick.errors import BailiwickError, Closed, IoError
from bailiwick.finishing import cancel_at_next_await, wait_through_cancellation
from bailiwick.model import MiB
from bailiwick.postgres.cut_off import ending_cut_off
from bailiwick.postgres.failures import FAILURES, from_postgres, in_doubt, is_lost
from bailiwick.postgres.place import ServerPlace
from bailiwick.stores.volume.lookup.cache import Cache, Own
from bailiwick.stores.volume.rows.database import Job, LatestLook, Row
from bailiwick.stores.volume.rows.postgres_notifications import payload
from bailiwick.stores.volume.rows.postgres_session import PostgresSession
from bailiwick.stores.volume.rows.records import BranchView
from bailiwick.stores.volume.rows.turns import TurnMemory
from bailiwick.stores.volume.rows.write_set import WriteSet, tables_of

Result = TypeVar("Result")

_STATE: Final = "SELECT last, locks FROM volume WHERE id = $1"
_LOCKED_STATE: Final = f"{_STATE} FOR UPDATE"
_UNCHANGED: Final = (
    "BEGIN; SELECT 1 FROM volume WHERE id = {:d} AND last = {:d} AND locks = {:d} FOR UPDATE"
)
"""Goes with the beginning of a transaction, which takes statements without parameters: the numbers
stand in it."""

_WRITTEN: Final = """
SELECT 1 FROM change
WHERE volume = $1 AND branch = $2 AND version = $3 AND seq = 0 AND time_ns = $4 AND guard = $5
"""

_TOGETHER_MAX: Final = 128
"""Jobs that share a turn: those who come meanwhile should not wait for too many."""

_TOGETHER_BYTES_MAX: Final = 4 * MiB
"""Of what jobs write that share a turn. What is sent is held in memory three times."""

_NOT_SEEN: Final = frozenset({"lease", "pin"})
"""Tables of whose rows the counter need not tell: nobody who changes a tree goes by pins, and how
many leases there are is compared with it."""

_ROLLBACK_S: Final = 1.0
"""There is nothing to it; a connection that does not answer it is ended, and that is one, too."""


class _Overtaken(Exception):
    """Somebody else has changed the volume: nothing was written."""


class _Alone(Exception):
    """A job needs a transaction, and shares its turn with others."""


class Connections(Protocol):
    """Where the connections of an event loop come from."""

    @property
    def session(self) -> str: ...
    @property
    def place(self) -> ServerPlace: ...
    async def take(self) -> Any: ...
    async def give_back(self, connection: Any) -> None: ...


class _Waiting(Generic[Result]):
    """A job, and whoever waits for it."""

    __slots__ = ("committed", "ended", "error", "is_begun", "job", "look", "result", "until")

    def __init__(self, job: Job[Result], look: LatestLook | None, seconds: float | None) -> None:
        self.job = job
        self.look = look
        self.until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self.is_begun = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.result: Result
        self.error: BaseException | None = None
        self.committed: list[Callable[[], None]] = []

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            self.error = error
        if not self.ended.done():
            self.ended.set_result(None)


class TurnSession:
    """The statements of a turn: rows to be written are gathered."""

    def __init__(self, turns: VolumeTurns) -> None:
        self._turns = turns

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        turns = self._turns
        answer = turns.writes.answer(sql, values)
        if answer is not None:
            return answer
        if not sql.lstrip().startswith(("SELECT", "WITH")):
            return await turns.run_now(sql, values)
        if turns.writes.stands_against(sql, values):
            await turns.send()
        return await turns.ask(sql, values)

    async def row(self, sql: str, *values: Any) -> Row | None:
        rows = await self.rows(sql, *values)
        return rows[0] if rows else None

    async def run(self, sql: str, *values: Any) -> None:
        if not self._turns.writes.take(sql, values):
            await self._turns.run_now(sql, values)


class VolumeTurns(TurnMemory):
    """The turns to change one volume that are taken on one event loop, one after the other."""

    def __init__(self, pool: Connections, volume: int) -> None:
        super().__init__(volume)
        self.session = TurnSession(self)
        self.writes = WriteSet(volume)
        self._pool = pool
        self._queue: deque[_Waiting[Any]] = deque()
        self._working: asyncio.Task[None] | None = None
        self._connection: Any = None
        self._begun_at = -1
        self._in_transaction = False
        self._is_shared = False
        self._is_whole = True  # what is remembered has all that is gathered
        self._changes_rows = False  # by a statement that was run
        self._sent: Row | None = None  # a change that was sent, by which it is known again
        self._is_committing = False  # what was sent may be done, and is not answered
        self._until: float | None = None  # when the patience of those ends whose turn it is
        self._looks: list[LatestLook] = []
        self._committed: list[Callable[[], None]] = []  # to be done after a job is
        self._after: list[Callable[[], None]] = []  # and after the turn

    # --- for jobs ----------------------------------------------------------------------------

    @property
    def begun_at(self) -> int:
        return self._begun_at

    def on_commit(self, action: Callable[[], None]) -> None:
        self._committed.append(action)

    def cache(self, branch: int, known: Cache | None = None) -> Cache:
        cache = super().cache(branch)
        cache.lean_on(known if self._is_whole else None, self._begun_at)
        return cache

    async def ask(self, sql: str, values: tuple[Any, ...]) -> list[Row]:
        return await PostgresSession(await self._connected()).rows(sql, *values)

    async def run_now(self, sql: str, values: tuple[Any, ...]) -> list[Row]:
        """Run a statement that changes rows, after all that was gathered."""
        await self.send()
        if not tables_of(sql) <= _NOT_SEEN:
            self._changes_rows = True
        return await self.ask(sql, values)

    async def send(self) -> None:
        """Have the database know what is gathered, in a transaction."""
        if self._is_shared:
            raise _Alone
        if not self._in_transaction:
            await self._lock_unchanged()
        if self.writes:
            await self._send()

    # --- waiting for a turn --------------------------------------------------------------------

    async def run(self, job: Job[Result], look: LatestLook | None = None) -> Result:
        """Cancelled before its turn the job never runs; later it is carried to its end, and the
        cancellation is delivered at the next await. Raises `Busy` where its turn does not come
        within the patience of who asks, and then it never runs either; later it is carried to its
        end, which comes within that patience, too."""
        with patience.waiting(part_s=self._pool.place.raised_s) as seconds:
            mine = _Waiting(job, look, seconds)
            self._queue.append(mine)
            if self._working is None:
                self._working = asyncio.get_running_loop().create_task(
                    self._work(), name="bailiwick-postgres"
                )
            try:
                if seconds is not None:
                    await asyncio.wait((mine.ended,), timeout=seconds)
                if seconds is not None and not mine.is_begun and not mine.ended.done():
                    self._queue.remove(mine)
                    raise patience.never_begun()
                await asyncio.shield(mine.ended)
            except asyncio.CancelledError:
                if not mine.is_begun:
                    if not mine.ended.done():  # else the event loop ends, and nobody works
                        self._queue.remove(mine)
                    raise
                await wait_through_cancellation(mine.ended)
                cancel_at_next_await()
        if mine.error is not None:
            raise mine.error
        return mine.result

    async def _work(self) -> None:
        """Take turns while anybody waits for one. Ends in the same step as the last of them."""
        patience.for_nobody()
        begun: list[_Waiting[Any]] = []
        try:
            while self._queue:
                begun = self._next()
                await self._take_turn(begun)
        finally:
            self._working = None
            lost = Closed("the event loop ends")
            for waiting in (*begun, *self._queue):
                waiting.end(None if waiting.ended.done() else lost)
            self._queue.clear()

    def _next(self) -> list[_Waiting[Any]]:
        """Those whose turn it is: one alone, or all that can share it, who are about as patient."""
        now = asyncio.get_running_loop().time()
        first = self._queue.popleft()
        begun, passed = [first], list[_Waiting[Any]]()
        patient = patience.level(first.until, now)
        while (
            self._queue
            and first.look is not None
            and self._queue[0].look is not None
            and len(begun) < _TOGETHER_MAX
        ):
            waiting = self._queue.popleft()
            is_alike = patience.level(waiting.until, now) == patient
            (begun if is_alike else passed).append(waiting)
        self._queue.extendleft(reversed(passed))
        for waiting in begun:
            waiting.is_begun = True
            if waiting.until is not None:  # what is begun at the last moment has one still
                waiting.until = max(waiting.until, now + patience.AT_ONCE_S)
        return begun

    async def _take_turn(self, begun: list[_Waiting[Any]]) -> None:
        left, is_locked = begun, begun[0].look is None
        try:
            try:
                left = await self._attempt(begun, is_locked=is_locked)
            except _Overtaken:
                left = await self._attempt(begun, is_locked=True)
        except BaseException as error:
            if len(begun) == 1 or not isinstance(error.__cause__, asyncpg.UniqueViolationError):
                for waiting in begun:
                    waiting.end(error)
                if not isinstance(error, Exception):
                    raise
                return
            left = begun  # one of them was done already: the others are innocent
        for waiting in begun:
            if waiting not in left:
                waiting.end()
        for waiting in left:  # what takes a transaction of its own, or did not fit
            try:
                await self._attempt([waiting], is_locked=True)
                waiting.end()
            except BaseException as error:
                waiting.end(error)
                if not isinstance(error, Exception):
                    raise

    # --- one turn ------------------------------------------------------------------------------

    async def _attempt(self, begun: list[_Waiting[Any]], *, is_locked: bool) -> list[_Waiting[Any]]:
        """Run jobs, and have written what they would write; returns those that have to be alone.
        Raises `_Overtaken`, with nothing done. Those who share it have the patience of the one who
        has least: where it ends nothing is answered, to anybody."""
        self.writes.clear()
        self._is_whole, self._changes_rows, self._sent = True, False, None
        self._is_committing = False
        self._until = min((each.until for each in begun if each.until is not None), default=None)
        self._is_shared = len(begun) > 1
        self._looks, self._after = list({each.look for each in begun if each.look}), []
        try:
            with ending_cut_off(self._pool.place):
                async with asyncio.timeout_at(self._until):
                    if is_locked:
                        await self._enter()
                    await self._go_by(self._looks)
                    left = [each for each in begun if not await self._did(each)]
                try:
                    async with asyncio.timeout_at(self._until):
                        await self._settle()
                except FAILURES as error:
                    if not await self._stands(error):
                        raise
        except BaseException as error:
            self.undone()
            if isinstance(error, TimeoutError) and self._connection is not None:
                with suppress(*FAILURES):
                    self._connection.terminate()  # it would be waited for once more
            if isinstance(error, FAILURES) and not isinstance(error, BailiwickError):
                raise from_postgres(error) from error
            raise
        finally:
            await self._let_go()
        self.written_down()
        for each in begun:
            if each not in left and each.error is None:
                self._after[:0] = each.committed
        for action in self._after:
            action()
        return left

    async def _did(self, waiting: _Waiting[Any]) -> bool:
        """Run a job, and keep how it ended; one that raises has written nothing. False where it has
        to be alone."""
        if self.writes.bytes > _TOGETHER_BYTES_MAX:
            return False
        mark, last, locks = self.writes.mark(), self.numbers.last, self.locks
        self._committed, waiting.error = [], None
        try:
            waiting.result = await waiting.job(self)
        except _Overtaken:
            raise
        except Exception as error:
            if self._changes_rows or (self._in_transaction and self.flushed != self._begun_at):
                raise  # some of it is in the database: all is undone
            if self.writes.mark() != mark or self.numbers.last != last:
                self.writes.take_back(mark)
                self.numbers.last, self.locks, self._is_whole = last, locks, False
                for cache in self.caches.values():
                    cache.clear()
                    cache.lean_on(None, 0)
            if isinstance(error, _Alone):
                return False
            waiting.error = error
        waiting.committed = self._committed
        return True

    async def _settle(self) -> None:
        """Have everything written, or see that nothing has changed meanwhile."""
        if (self.writes or self._changes_rows) and self.numbers.last == self._begun_at:
            nothing_touched = Own(self._begun_at, self.numbers.next(), (), None)
            for look in self._looks:
                self._after.append(partial(look.cache.note, nothing_touched))
        if self.writes or self.numbers.last != self.flushed:
            await self._send()
        elif not self._in_transaction and await self._state(_STATE) != (self.flushed, self.locks):
            raise _Overtaken
        if self._in_transaction:
            self._is_committing = True
            if await self._connection.execute("COMMIT") != "COMMIT":
                raise IoError("the database gave up the transaction")
            self._in_transaction = False

    async def _send(self) -> None:
        """What is gathered, and how far the counter has come, and tell others."""
        statement, arrays = self.writes.statement()
        last = self.numbers.last
        told = payload(self.volume, last, self._pool.session)
        connection = await self._connected()
        self._sent = self._sent or self.writes.first_change()
        self._is_committing = not self._in_transaction
        rows = await connection.fetch(
            statement, last, self.volume, self.flushed, self.locks, told, *arrays
        )
        if not rows:
            raise _Overtaken
        self.writes.clear()
        self.flushed = last

    async def _stands(self, error: BaseException) -> bool:
        """Whether what was sent is there, where the answer was lost or did not come in time.
        Raises `IoError` where it may be, and nobody tells."""
        if isinstance(error, TimeoutError) and self._is_committing:
            # It was called off: whatever the connection answers next, that is over.
            there = await self._was_written(asyncio.get_running_loop().time() + patience.AT_ONCE_S)
            if there is None:
                with suppress(*FAILURES):
                    self._connection.terminate()
                raise in_doubt() from error
            return there
        if isinstance(error, TimeoutError) or not is_lost(error) or self._sent is None:
            return False
        lost, self._connection, self._in_transaction = self._connection, None, False
        await self._pool.give_back(lost)
        until = self._until
        if until is not None:
            until = max(until, asyncio.get_running_loop().time() + patience.AT_ONCE_S)
        return await self._was_written(until) or False

    async def _was_written(self, until: float | None) -> bool | None:
        """Whether what was sent is there: the log tells. None where nobody does until then."""
        if self._sent is not None:
            with suppress(*FAILURES, BailiwickError):
                async with asyncio.timeout_at(until):
                    return bool(await self.ask(_WRITTEN, (self.volume, *self._sent)))
        return None

    # --- entering --------------------------------------------------------------------------------

    async def _go_by(self, looks: list[LatestLook]) -> None:
        """Begin where those have come to who looked: what they saw is as good as what is remembered
        here."""
        behind = [look for look in looks if look.cache.seen != self.flushed]
        for look in behind:
            # What was changed here in the meantime is known, and most often all there is.
            if look.cache.seen >= self.flushed or not look.cache.take_own(self.flushed):
                newest = max(self.flushed, *(each.cache.seen for each in looks))
                if look.cache.seen < max(newest, 1) or self._in_transaction:
                    await look.catch_up()
        newest = max((look.cache.seen for look in looks), default=self.flushed)
        if not self._in_transaction and newest > self.flushed:
            for cache in self.caches.values():
                cache.clear()
            self.flushed = newest
            for cache in self.caches.values():
                cache.seen = newest
        self.numbers.last = self._begun_at = self.flushed

    async def _lock_unchanged(self) -> None:
        """Go on in a transaction, which sees what was seen so far."""
        connection = await self._connected()
        self._in_transaction = True
        unchanged = _UNCHANGED.format(self.volume, self.flushed, self.locks)
        if await connection.execute(unchanged) != "SELECT 1":
            raise _Overtaken

    async def _enter(self) -> None:
        """Wait for the turn, and take up what others have committed."""
        # Nobody else has changed anything, most often: then that is all there is to know.
        with suppress(_Overtaken):
            await self._lock_unchanged()
            self.numbers.last = self._begun_at = self.flushed
            return
        last, self.locks = await self._state(_LOCKED_STATE)
        if last != self.flushed:
            for branch, cache in self.caches.items():
                view = BranchView(self.volume, branch, 0, 0)
                await cache.catch_up(PostgresSession(self._connection), view)
        self.numbers.last = self._begun_at = self.flushed = last

    async def _state(self, sql: str) -> tuple[int, int]:
        rows = await self.ask(sql, (self.volume,))
        if not rows:
            raise Closed("the volume was deleted")
        last, locks = rows[0]
        return last, locks

    async def _connected(self) -> Any:
        if self._connection is None:
            self._connection = await self._pool.take()
        return self._connection

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._in_transaction:
            self._in_transaction = False
            try:
                await connection.execute("ROLLBACK", timeout=_ROLLBACK_S)
            except FAILURES:  # one that died answers nothing, not even that it did
                with suppress(*FAILURES):
                    connection.terminate()
        await self._pool.give_back(connection)
