"""Connections to an SQLite file of volumes, and the statements on one of them."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

import apsw

from bailiwick.errors import ParseError
from bailiwick.sqlite import fork_safety
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.stores.volume.rows.checksums import damaged
from bailiwick.stores.volume.rows.database import Row, RowSession
from bailiwick.stores.volume.rows.schema import for_sqlite

WHOSE: Final = "volume"

_BUSY_S_MAX: Final = 10.0
"""How long a writer waits for one in another process, which holds the lock for one commit."""

_PAUSE_S_MAX: Final = 0.004
"""Waits between tries grow to this. SQLite's own are fixed, and let a waiting process starve."""

_STATEMENTS_KEPT: Final = 200
"""More statements than the store has: none is ever prepared twice."""


def connect(path: str, patience: Patience | None = None) -> apsw.Connection:
    """A connection that waits for others in short, uneven steps."""
    connection = fork_safety.connect(
        path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=_STATEMENTS_KEPT
    )
    # Without this SQLite plans every statement with a range anew whenever it is run: it hopes to
    # learn from the value that is bound. A point lookup then costs five to nine times as much.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_handler(patience or Patience())
    return connection


class Patience:
    """Decides for SQLite whether a lock is waited for a little longer."""

    def __init__(self) -> None:
        self.waits = True
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + _BUSY_S_MAX
        if now > self._until or not self.waits:
            return False
        time.sleep(random.uniform(0.0001, min(_PAUSE_S_MAX, 0.0002 * (tries + 1))))
        return True


class SqliteSession:
    """Statements on one connection. None of them ever waits, so no coroutine here suspends."""

    __slots__ = ("_begun", "_execute", "_looking", "run_raw")

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self.run_raw = connection.cursor().execute
        """A statement in SQLite's words, done at once. One cursor does for all of them, as long as
        an answer is taken whole (``.get``); one that was left halfway would be held on to."""
        self._looking = False
        self._begun = False

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        if self._looking and not self._begun:
            self._begin()
        try:
            return self._execute(for_sqlite(sql), values).fetchall()
        except UnicodeEncodeError:
            raise ParseError("a name is not valid text") from None
        except UnicodeDecodeError:
            raise damaged() from None

    async def row(self, sql: str, *values: Any) -> Row | None:
        if self._looking and not self._begun:
            self._begin()
        try:
            return self._execute(for_sqlite(sql), values).fetchone()
        except UnicodeEncodeError:
            raise ParseError("a name is not valid text") from None
        except UnicodeDecodeError:
            raise damaged() from None

    async def run(self, sql: str, *values: Any) -> None:
        self.run_raw(for_sqlite(sql), values)

    # --- looking: a read transaction, begun by its first statement -----------------------------

    def _begin(self) -> None:
        self._execute("BEGIN")
        self._begun = True

    async def __aenter__(self) -> RowSession:
        self._looking = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._looking = False
        if self._begun:
            self._begun = False
            # A look is short by nature. One that was held would keep the log from being cut.
            try:
                self._execute("COMMIT")
            except apsw.Error as failure:
                with suppress(apsw.Error):
                    self._execute("ROLLBACK")
                error = error or failure
        if isinstance(error, apsw.Error):
            raise from_sqlite(error, WHOSE) from error
