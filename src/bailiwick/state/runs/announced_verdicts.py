"""What people said of what is in the tree, from before it is taken back until that is kept.

The tree and the state are changed one after the other. What would be said is put down first: should
the process end in between, or the state have no room then, whoever looks next keeps what has come
to pass of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bailiwick.reviews import ReviewVerdicts
from bailiwick.state.database import Connection, Database
from bailiwick.state.grants.book import select

TABLE = """
CREATE TABLE review_announced (  -- what is to be kept once the tree was changed
    request  TEXT PRIMARY KEY,
    root     TEXT NOT NULL,
    owner    TEXT NOT NULL,      -- the process that is about to change it
    said     TEXT NOT NULL       -- JSON
) STRICT, WITHOUT ROWID;
"""


class AnnouncedVerdicts:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = database.owner
        self._under_way: set[str] = set()

    async def add(self, said: ReviewVerdicts) -> None:
        text = msgspec.json.encode(said, enc_hook=str).decode()
        row = said.request_id, said.root, self._owner.name, text

        def job(connection: Connection) -> None:
            connection.execute("DELETE FROM review_announced WHERE request = ?", row[:1])
            connection.execute("INSERT INTO review_announced VALUES (?, ?, ?, ?)", row)

        self._under_way.add(said.request_id)
        try:
            await self._database.write(job)
        except BaseException:
            self._under_way.discard(said.request_id)
            raise

    def over(self, request: str) -> None:
        """Nobody here is about to change anything for it any more."""
        self._under_way.discard(request)

    def left(self, root: str) -> list[ReviewVerdicts]:
        """What was announced, by those who are gone, or gave it up."""
        rows = self._database.read(
            "SELECT request, owner, said FROM review_announced WHERE root = ? ORDER BY request",
            (root,),
        )
        return [
            msgspec.json.decode(str(said), type=ReviewVerdicts, dec_hook=_as_kind)
            for request, owner, said in rows
            if request not in self._under_way
            and (owner == self._owner.name or not self._owner.is_alive(str(owner)))
        ]

    @staticmethod
    def take_in(connection: Connection, request: str) -> bool:
        """Whether something announced is still to be kept; from now on it is not."""
        found = select(
            connection, "DELETE FROM review_announced WHERE request = ? RETURNING request", request
        )
        return bool(found)


def _as_kind(kind: type, plain: Any) -> Any:
    return kind(plain)
