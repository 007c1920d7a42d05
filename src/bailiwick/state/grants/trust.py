"""Which roots people trust: what was said at run time, in place of what the configuration says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bailiwick.audit import AuthorityRecord
from bailiwick.grant import parse_root_name
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.epoch import LastRead
from bailiwick.state.grants.book import Chain, new_id
from bailiwick.state.made_once import once

PART = DatabasePart(
    "trust",
    (
        """
        CREATE TABLE trust (
            root    TEXT PRIMARY KEY,
            trusted INTEGER NOT NULL CHECK (trusted IN (0, 1)),
            set_by  TEXT NOT NULL,
            set_ns  INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
    ),
)


class TrustBook:
    """The trust that was given or taken away, by the root's name. Others stay as configured."""

    def __init__(self, database: Database, chain: Chain, *, time_ns: Callable[[], int]) -> None:
        self._database = database
        self._chain = chain
        self._time_ns = time_ns
        self._said = LastRead(database.epoch, self.read)

    def is_trusted(self, root: str, configured: bool) -> bool:
        return self._said.get().get(root, configured)

    def read(self) -> Mapping[str, bool]:
        """All that was said, from the database."""
        rows = self._database.read("SELECT root, trusted FROM trust")
        return {root: bool(trusted) for root, trusted in rows}

    async def set_trust(
        self, root: str, trusted: bool, *, by: str, front: str, request_id: str = ""
    ) -> None:
        """Trust a root from now on, or no more, in every process and after every restart."""
        parse_root_name(root)

        def job(connection: Connection) -> None:
            now = self._time_ns()
            connection.execute(
                "INSERT INTO trust VALUES (?, ?, ?, ?) ON CONFLICT (root) DO UPDATE SET"
                " trusted = excluded.trusted, set_by = excluded.set_by, set_ns = excluded.set_ns",
                (root, int(trusted), by, now),
            )
            record = AuthorityRecord(
                time_ns=now, request_id=request_id or new_id(), subject=by, act="trust", root=root,
                front=front, details={"trusted": "true" if trusted else "false"},
            )  # fmt: skip
            self._chain(connection, record)

        await self._database.write_control(once(f"trust {root}", job))
