"""What forks and transactions have grown by, beside what their root's own branch holds.

A row for each bound that a branch is counted against: by how much its tree is larger than when it
began, or smaller. What is larger counts in the row of the bound itself; what is smaller counts as
nothing, since the root's own branch still has what is gone here. When the branch is over, all that
it counted for is given back.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from bailiwick.state.database import Connection
from bailiwick.state.grants.book import select

TABLE: Final = """
CREATE TABLE usage_apart (
    root   TEXT NOT NULL,
    branch TEXT NOT NULL,     -- a fork's name, or transaction: and a name
    kind   TEXT NOT NULL CHECK (kind IN ('grant', 'root')),
    name   TEXT NOT NULL,     -- as in usage
    bytes  INTEGER NOT NULL,  -- since the branch began: below 0 where it has shrunk
    files  INTEGER NOT NULL,
    since  INTEGER NOT NULL DEFAULT (unixepoch()),
    PRIMARY KEY (root, branch, kind, name)
) STRICT, WITHOUT ROWID;
"""

_TRANSACTION: Final = "transaction:"
_TRANSACTION_S: Final = 7_200
"""A transaction that is older has no process any more."""


class Usage(NamedTuple):
    bytes: int
    files: int

    def and_also(self, other: Usage) -> Usage:
        return Usage(self.bytes + other.bytes, self.files + other.files)

    def but_for(self, other: Usage) -> Usage:
        return Usage(self.bytes - other.bytes, self.files - other.files)

    @property
    def grown(self) -> Usage:
        """As far as it is more than nothing."""
        return Usage(max(0, self.bytes), max(0, self.files))


NONE: Final = Usage(0, 0)


class Beside(NamedTuple):
    """A branch beside its root's own."""

    root: str
    branch: str

    def size(self, connection: Connection, kind: Literal["grant", "root"], name: str) -> Usage:
        """What it is larger by than when it began, as counted against a bound."""
        rows = select(
            connection,
            "SELECT bytes, files FROM usage_apart"
            " WHERE root = ? AND branch = ? AND kind = ? AND name = ?",
            *self, kind, name,
        )  # fmt: skip
        return Usage(*rows[0]) if rows else NONE

    def resize(
        self, connection: Connection, kind: Literal["grant", "root"], name: str, size: Usage
    ) -> None:
        connection.execute(
            "INSERT INTO usage_apart (root, branch, kind, name, bytes, files)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (root, branch, kind, name) DO UPDATE SET"
            " bytes = excluded.bytes, files = excluded.files",
            (*self, kind, name, *size),
        )

    def give_back(self, connection: Connection) -> None:
        """Have it count for nothing any more."""
        rows = select(
            connection,
            "DELETE FROM usage_apart WHERE root = ? AND branch = ?"
            " RETURNING kind, name, bytes, files",
            *self,
        )
        for kind, name, size, files in rows:
            grown = Usage(size, files).grown
            connection.execute(
                "UPDATE usage SET bytes = CASE WHEN bytes > ?1 THEN bytes - ?1 ELSE 0 END,"
                " files = CASE WHEN files > ?2 THEN files - ?2 ELSE 0 END"
                " WHERE kind = ?3 AND name = ?4",
                (*grown, kind, name),
            )


def grown_beside(connection: Connection, root: str) -> Usage:
    """What all branches beside a root's own have grown by."""
    rows = select(
        connection,
        "SELECT CAST(coalesce(sum(CASE WHEN bytes > 0 THEN bytes END), 0) AS BIGINT),"
        " CAST(coalesce(sum(CASE WHEN files > 0 THEN files END), 0) AS BIGINT)"
        " FROM usage_apart WHERE root = ?1 AND kind = 'root' AND name = ?1",
        root,
    )
    return Usage(*rows[0])


def forks_beside(connection: Connection, root: str) -> set[str]:
    """The forks that are counted."""
    rows = select(connection, "SELECT DISTINCT branch FROM usage_apart WHERE root = ?", root)
    return {branch for (branch,) in rows if not branch.startswith(_TRANSACTION)}


def give_back_gone(connection: Connection, root: str, forks: Collection[str]) -> None:
    """Have these forks count for nothing, and transactions whose process must be gone."""
    rows = select(
        connection,
        "SELECT DISTINCT branch FROM usage_apart"
        " WHERE root = ? AND substr(branch, 1, 12) = ? AND since < unixepoch() - ?",
        root, _TRANSACTION, _TRANSACTION_S,
    )  # fmt: skip
    for branch in (*forks, *(each for (each,) in rows)):
        Beside(root, branch).give_back(connection)


def forget_all(connection: Connection, root: str) -> None:
    """A root is gone."""
    connection.execute("DELETE FROM usage_apart WHERE root = ?", (root,))
