"""The last notices of a state, numbered: written with what they tell of, read by who follows.

Whoever changes something that people are told of puts a row here in the same transaction, under
`Database.write_control`: the epoch moves, and every process that follows looks for what is new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from bailiwick.errors import IoError
from bailiwick.notices import ReviewNotice
from bailiwick.state.bodies import encode
from bailiwick.state.database import Connection, Database, DatabasePart

PART = DatabasePart(
    "notices",
    (
        """
        CREATE TABLE notices (           -- what followers are told, the newest ones
            seq    INTEGER PRIMARY KEY,
            what   TEXT NOT NULL,        -- approval or review
            kind   TEXT NOT NULL,        -- asked, answered, expired; accepted, rejected
            about  TEXT NOT NULL,        -- the id of the approval; empty for a review
            body   BLOB NOT NULL         -- the ReviewNotice; empty for an approval, which has a row
        ) STRICT;
        """,
    ),
)

NOTICES_KEPT = 1_000
"""Followers look ten times a second: who is further behind than that has stood still, and looks at
what is open instead."""

_reviews = msgspec.msgpack.Decoder(ReviewNotice)


class NoticeRow(NamedTuple):
    seq: int
    what: str
    kind: str
    about: str
    body: bytes

    @property
    def review(self) -> ReviewNotice:
        try:
            return _reviews.decode(self.body)
        except msgspec.MsgspecError as error:
            raise IoError("the authority's state holds a notice that cannot be read") from error


class NoticeBook:
    """Puts notices down and finds those that came since. ``stir`` is set by whoever follows in
    this process: called on the writer's thread once something was put down."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.stir: Callable[[], None] = _nobody_follows

    def approval_in(self, connection: Connection, kind: str, approval_id: str) -> None:
        """Put down what became of a question, in the transaction that made it so."""
        self._put_in(connection, "approval", kind, approval_id, b"")

    def review_in(self, connection: Connection, notice: ReviewNotice) -> None:
        """For whoever keeps a verdict, in the transaction that keeps it."""
        self._put_in(connection, "review", notice.kind, "", encode(notice))

    async def tell(self, notice: ReviewNotice) -> None:
        """Put a notice down by itself."""
        await self._database.write_control(lambda connection: self.review_in(connection, notice))

    @property
    def newest(self) -> int:
        found: Any = self._database.read("SELECT max(seq) FROM notices")[0][0]
        return found or 0

    def since(self, seq: int) -> list[NoticeRow]:
        rows = self._database.read(
            "SELECT seq, what, kind, about, body FROM notices WHERE seq > ? ORDER BY seq", (seq,)
        )
        return [NoticeRow(*row) for row in rows]

    def _put_in(
        self, connection: Connection, what: str, kind: str, about: str, body: bytes
    ) -> None:
        connection.execute(
            "INSERT INTO notices (what, kind, about, body) VALUES (?, ?, ?, ?)",
            (what, kind, about, body),
        )
        # The newest always stays, so that numbers go on from it.
        connection.execute(
            "DELETE FROM notices WHERE seq <= (SELECT max(seq) FROM notices) - ?", (NOTICES_KEPT,)
        )
        self._database.on_commit(lambda: self.stir())


def _nobody_follows() -> None:
    pass
