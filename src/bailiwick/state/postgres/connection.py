"""The writer's connection: what jobs of the state say, one statement after the other.

A transaction holds a lock that all servers take, so their changes come one after the other, as
those of processes on one SQLite file do. What only begins or ends something is sent with the next
statement, since each thing that is sent is a trip to the server.

A commit whose answer is lost may have happened. Each has a number, which is kept with it: who asks
once the transaction is over, by the same lock, knows.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from bailiwick.errors import BailiwickError, Closed, IoError
from bailiwick.patience import AT_ONCE_S
from bailiwick.postgres.cut_off import ending_cut_off
from bailiwick.postgres.failures import FAILURES, SOON, from_postgres, in_doubt
from bailiwick.postgres.place import ServerPlace
from bailiwick.state.postgres.database_loop import DatabaseLoop

if TYPE_CHECKING:
    from bailiwick.state.postgres.pulse import Pulse

CHANNEL: Final = "bailiwick_state"

WRITING: Final = 0x62776B73
"""The advisory lock that whoever changes the state holds: ``bwks``."""

_BEGIN: Final = f"BEGIN; SELECT pg_advisory_xact_lock({WRITING})"
_NUMBER: Final = (
    "INSERT INTO state_writers VALUES ({}) ON CONFLICT (owner) DO UPDATE SET last = excluded.last"
)
_LAST: Final = "SELECT last FROM state_writers WHERE owner = $1"
_DOUBT_AGAIN_S: Final = 0.2

_NUMBERED: Final = re.compile(r"\?(\d*)")
_DEFERRED: Final = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK TO")


@lru_cache(maxsize=1_024)
def in_postgres_words(sql: str) -> str:
    """A statement with parameters as PostgreSQL writes them. No text of ours holds a ``?``."""
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${found[1] or count}"

    return _NUMBERED.sub(number, sql)


class StatementRows:
    """What a statement answered."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


class PostgresConnection:
    """For the thread that writes; made anew when it is lost."""

    def __init__(
        self, loop: DatabaseLoop, place: ServerPlace, owner: str, pulse: Pulse
    ) -> None:  # fmt: skip
        """Where the database has not answered lately, as ``pulse`` knows, no transaction is begun,
        and nobody waits for one."""
        assert owner.isalnum(), "it stands in statements as it is"
        self._loop = loop
        self._place = place
        self._owner = owner
        self._pulse = pulse
        self._failed: BailiwickError | None = None  # what the transaction cannot go on after
        # A statement that does not end by itself is given up a little later.
        self._seconds = 2 * (place.statement_s + place.connect_s)
        self._until: float | None = None  # when the patience of those ends who share a transaction
        self._raw: Any = None
        self._prepared: dict[str, Any] = {}
        self._deferred: list[str] = []
        self._sent = self._begun = False
        self._number = 0
        self._begun_at = self._changed = self._last = 0
        self._closed = False
        self.in_transaction = False
        self.control = False
        """Whether the next commit is one that other servers must notice at once."""

    # --- what a connection of SQLite has, too --------------------------------------------------

    def cursor(self) -> PostgresConnection:
        return self

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> StatementRows:
        if sql.startswith(_DEFERRED):
            self._defer(sql)
            return StatementRows([])
        if sql in ("COMMIT", "ROLLBACK"):
            self._end(sql)
            return StatementRows([])
        return StatementRows(self._run(self._execute(sql, bindings)))

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> None:
        rows = list(many)
        if rows:
            self._run(self._execute_many(sql, rows))

    def changes(self) -> int:
        """Rows that the last statement changed."""
        return self._last

    def total_changes(self) -> int:
        """Grows with whatever there is to be undone, failed statements among it: PostgreSQL takes
        no other after one of those."""
        return self._changed

    def pragma(self, name: str, value: object = None) -> None:
        """Settings of SQLite mean nothing here."""

    def close(self) -> None:
        self._closed = True
        raw, self._raw = self._raw, None
        if raw is not None:
            self._loop.run(_closed(raw), self._seconds)

    # --- statements ----------------------------------------------------------------------------

    def end_by(self, until: float) -> None:
        """Have the transaction that is under way take no longer, by the monotonic clock: all who
        share it have the patience of the least patient. One that is begun at the last moment has
        one still."""
        self._until = max(until, time.monotonic() + AT_ONCE_S)

    def _left_s(self, own_s: float, least_s: float = AT_ONCE_S) -> float:
        """How long the next step of the transaction may take: its end always has a moment."""
        if self._until is None:
            return own_s
        return min(own_s, max(least_s, self._until - time.monotonic()))

    def _run(self, work: Any) -> Any:
        if self._failed is not None:
            work.close()
            # What shares the transaction would wait as long, for no more.
            raise self._failed.with_traceback(None)
        try:
            return self._loop.run(work, self._left_s(self._seconds, 0.0))
        except BailiwickError as error:
            self._changed += 1
            if not self._begun or _is_lost(error):
                self._failed = error
            raise

    async def _ready(self) -> Any:
        """The connection, told all that was put off."""
        if not self._sent:
            self._pulse.refuse_silent()
            await self._connect()
        if self._raw.is_closed():
            raise IoError("the connection to the database was lost", details=dict(SOON))
        if self._deferred:
            statements, self._deferred = "; ".join(self._deferred), []
            self._sent = True
            with ending_cut_off(self._place):
                await self._raw.execute(statements)
            self._begun = True
        return self._raw

    async def _connect(self) -> None:
        if self._closed:
            raise Closed("the state is closed")
        if self._raw is None or self._raw.is_closed():
            self._prepared.clear()
            self._raw = await asyncpg.connect(**self._place.options)

    async def _execute(self, sql: str, bindings: Sequence[Any]) -> list[tuple[Any, ...]]:
        raw = await self._ready()
        statement = self._prepared.get(sql)
        if statement is None:
            statement = self._prepared[sql] = await raw.prepare(in_postgres_words(sql))
        rows = [tuple(row) for row in await statement.fetch(*bindings)]
        self._pulse.heard()
        self._count(statement.get_statusmsg())
        return rows

    async def _execute_many(self, sql: str, rows: list[Sequence[Any]]) -> None:
        await (await self._ready()).executemany(in_postgres_words(sql), rows)
        self._last = len(rows)
        self._changed += len(rows)

    def _count(self, status: str) -> None:
        word, _, count = status.rpartition(" ")
        if not word.startswith("SELECT") and count.isdigit():
            self._last = int(count)
            self._changed += self._last

    # --- transactions --------------------------------------------------------------------------

    def _defer(self, sql: str) -> None:
        if sql.startswith("BEGIN"):
            self.in_transaction, self._sent, self._begun = True, False, False
            self._failed, self._begun_at, self._until = None, self._changed, None
            self._deferred, sql = [], _BEGIN
        self._deferred.append(sql)

    def _end(self, sql: str) -> None:
        sent, self.in_transaction = self._sent, False
        self._sent = False
        deferred, self._deferred = self._deferred, []
        if not sent:
            return  # nothing was said
        if sql == "COMMIT" and self._failed is None and self._changed != self._begun_at:
            self._loop.run(self._commit(deferred), self._seconds)
            return
        self._loop.run(self._give_up(), self._seconds)
        if sql == "COMMIT" and self._failed is not None:
            raise self._failed.with_traceback(None)

    async def _give_up(self) -> None:
        if self._failed is not None and _is_lost(self._failed):
            self._raw.terminate()  # it would be waited for once more
            return
        try:
            await self._raw.execute("ROLLBACK", timeout=self._left_s(self._place.connect_s))
        except FAILURES:
            self._raw.terminate()

    async def _commit(self, deferred: list[str]) -> None:
        self._number += 1
        own = f"'{self._owner}', {self._number:d}"
        statements = [*deferred, _NUMBER.format(own)]
        if self.control:
            statements += [
                "UPDATE state_control SET number = number + 1",
                f"SELECT pg_notify('{CHANNEL}', '{self._owner}')",
            ]
        try:
            script, seconds = "; ".join([*statements, "COMMIT"]), self._left_s(self._place.answer_s)
            if await self._raw.execute(script, timeout=seconds) != "COMMIT":
                raise IoError("the database gave up the transaction")
        except asyncpg.PostgresError as error:
            if not self._raw.is_closed() and not (error.sqlstate or "").startswith(("08", "57")):
                await self._give_up()  # it would hold the lock until the next
                raise
            await self._clear_doubt(error)
        except FAILURES as error:
            await self._clear_doubt(error)

    async def _clear_doubt(self, error: BaseException) -> None:
        """Ask whether a commit happened whose answer was lost, for as long as a request may wait.
        Raises the error where it did not, `IoError` where nobody can tell."""
        self._raw.terminate()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._left_s(self._place.statement_s)
        is_there: bool | None = None
        while is_there is None and loop.time() < until:
            try:
                async with asyncio.timeout_at(until):
                    is_there = await self._was_committed()
            except FAILURES:
                self._raw.terminate()  # it may be in the middle of an answer
                await asyncio.sleep(_DOUBT_AGAIN_S)
        if is_there is None:
            raise in_doubt() from error
        if not is_there:
            raise from_postgres(error) from error

    async def _was_committed(self) -> bool:
        await self._connect()
        async with self._raw.transaction():
            # Whoever held it before has ended, one way or the other.
            with ending_cut_off(self._place):
                await self._raw.execute("SELECT pg_advisory_xact_lock($1)", WRITING)
            last = await self._raw.fetchval(_LAST, self._owner)
        return last is not None and last >= self._number


def _is_lost(error: BailiwickError) -> bool:
    """Whether nobody knows what the connection is at: neither has the server said that it failed,
    nor was it never asked, because of a value that cannot be sent."""
    return not isinstance(error.__cause__, (asyncpg.PostgresError, ValueError))


async def _closed(raw: Any) -> None:
    try:
        await raw.close(timeout=1.0)
    except FAILURES:
        raw.terminate()
