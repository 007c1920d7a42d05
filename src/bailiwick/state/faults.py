"""What went wrong beside the operations: hooks and listeners that failed, counted for `doctor`.

They change nothing for whoever acts, so nobody sees them but the log; here they are kept where
another process can find them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bailiwick.model import Value
from bailiwick.state.database import Connection, Database, DatabasePart

PART = DatabasePart(
    "faults",
    (
        """
        CREATE TABLE faults (
            what    TEXT NOT NULL,     -- hook, listener
            name    TEXT NOT NULL,     -- whose: the id of a hook, the root of a listener
            count   INTEGER NOT NULL,  -- how often, ever
            last    TEXT NOT NULL,     -- the class of the last error: its text may hold content
            last_ns INTEGER NOT NULL,
            PRIMARY KEY (what, name)
        ) STRICT, WITHOUT ROWID;
        """,
    ),
)

_GATHER_S = 0.5
"""A hook that fails on every read would otherwise be a write for every read."""


class RecordedFault(Value, frozen=True, kw_only=True):
    """How often something failed, and how it did last."""

    what: str
    name: str
    count: int
    last: str
    last_ns: int


class FaultBook:
    """Counts faults, for every process that shares a state. Used on one event loop."""

    def __init__(self, database: Database, *, time_ns: Callable[[], int]) -> None:
        self._database = database
        self._time_ns = time_ns
        self._gathered: dict[tuple[str, str], tuple[int, str]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, what: str, name: str, error: str) -> None:
        """Count one more. Never waits and never fails."""
        count, _ = self._gathered.get((what, name), (0, ""))
        self._gathered[what, name] = count + 1, error
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_S, self.flush)

    def flush(self) -> None:
        """Hand what was gathered to the database."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered = self._gathered, {}
        if not gathered:
            return
        now = self._time_ns()

        def job(connection: Connection) -> None:
            for (what, name), (count, error) in gathered.items():
                connection.execute(
                    "INSERT INTO faults VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (what, name) DO"
                    " UPDATE SET count = faults.count + excluded.count, last = excluded.last,"
                    " last_ns = excluded.last_ns",
                    (what, name, count, error, now),
                )

        self._database.submit(job)

    def faults(self) -> list[RecordedFault]:
        """All that was counted, what failed last first."""
        rows = self._database.read(
            "SELECT what, name, count, last, last_ns FROM faults ORDER BY last_ns DESC LIMIT 100"
        )
        return [
            RecordedFault(what=what, name=name, count=count, last=last, last_ns=last_ns)
            for what, name, count, last, last_ns in rows
        ]
