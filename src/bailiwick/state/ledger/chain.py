"""The tables of the ledger, and the chain that its records form.

Each record's mac is a keyed hash over the mac before it, its number, its time and its bytes. So a
record that is changed, removed, added or moved does not fit its neighbours any more, and nobody can
make it fit without the key. What a chain cannot show by itself is that its end was cut off: for
that its head (the last number and mac) must be kept somewhere else.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from bailiwick.errors import IoError, ParseError
from bailiwick.state.database import Connection, DatabasePart, Statements
from bailiwick.state.ledger.key import Keys

LEDGER = DatabasePart(
    "ledger",
    (
        """
        CREATE TABLE ledger (
            seq INTEGER PRIMARY KEY,      -- 1, 2, 3 … without a gap
            time_ns INTEGER NOT NULL,     -- as in the body: for looking up by time
            body BLOB NOT NULL,           -- the record, see encoding.py
            mac BLOB NOT NULL             -- over the mac before, seq, time_ns and body
        ) STRICT;

        CREATE TABLE ledger_checkpoints ( -- one for each run of records that was moved out
            seq INTEGER PRIMARY KEY,      -- the last record of the run
            first INTEGER NOT NULL,       -- its first
            before BLOB NOT NULL,         -- the mac of the record before the first
            mac BLOB NOT NULL,            -- the mac of the last
            archive TEXT,                 -- the file it was moved to, NULL where it was dropped
            signature BLOB NOT NULL       -- over all of these
        ) STRICT;

        CREATE TABLE ledger_intents (     -- changes that were announced and are not settled yet
            owner TEXT NOT NULL,          -- the process, see owner.py
            number INTEGER NOT NULL,      -- counted by that process
            time_ns INTEGER NOT NULL,
            root TEXT NOT NULL,
            places BLOB NOT NULL,         -- what it is about, see intents.py
            body BLOB NOT NULL,           -- the record that it becomes if the process dies
            mac BLOB NOT NULL,            -- over all of these
            PRIMARY KEY (owner, number)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE ledger_key (         -- tells a wrong key from a changed ledger
            id INTEGER PRIMARY KEY CHECK (id = 1),
            mark BLOB NOT NULL
        ) STRICT;
        """,
    ),
)


class Head(NamedTuple):
    """Where a chain ends: the number and mac of its last record."""

    seq: int
    mac: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.mac.hex()}"


def parse_head(text: str) -> Head:
    """The head in a text as ``str(head)`` writes it. Raises `ParseError`."""
    seq, _, mac = text.strip().partition(":")
    try:
        head = Head(int(seq), bytes.fromhex(mac))
    except ValueError:
        head = Head(-1, b"")
    if head.seq < 0 or len(head.mac) != 32:
        raise ParseError("a head is NUMBER:MAC as `audit head` prints it")
    return head


def genesis(keys: Keys) -> Head:
    """What the first record is chained to."""
    return Head(0, keys.chain(b"genesis"))


def record_mac(keys: Keys, before: bytes, seq: int, time_ns: int, body: bytes) -> bytes:
    message = before + seq.to_bytes(8, "big") + time_ns.to_bytes(8, "big", signed=True) + body
    return keys.chain(message)


class Checkpoint(NamedTuple):
    """A run of records that was moved out of the database: the chain goes on from its end."""

    seq: int
    first: int
    before: bytes
    mac: bytes
    archive: str | None
    signature: bytes

    @property
    def records(self) -> int:
        return self.seq - self.first + 1

    @property
    def end(self) -> Head:
        return Head(self.seq, self.mac)

    @property
    def start(self) -> Head:
        """What the first record of the run is chained to."""
        return Head(self.first - 1, self.before)

    def is_genuine(self, keys: Keys) -> bool:
        return hmac.compare_digest(self.signature, _signature(keys, self))


def signed_checkpoint(keys: Keys, start: Head, end: Head, archive: str | None) -> Checkpoint:
    unsigned = Checkpoint(end.seq, start.seq + 1, start.mac, end.mac, archive, b"")
    return unsigned._replace(signature=_signature(keys, unsigned))


def _signature(keys: Keys, checkpoint: Checkpoint) -> bytes:
    return keys.checkpoint(msgspec.msgpack.encode(checkpoint[:5]))


CHECKPOINT_COLUMNS = "seq, first, before, mac, archive, signature"

_LAST_RECORD = "SELECT seq, mac FROM ledger ORDER BY seq DESC LIMIT 1"
_INSERT = "INSERT INTO ledger VALUES (?, ?, ?, ?)"
_ROWS_TOGETHER = 128
"""Rows that one statement adds, where there are so many: at each statement the writer's thread lets
go of Python's lock, and takes it back from those who answer callers meanwhile."""
_INSERT_TOGETHER = _INSERT + ", (?, ?, ?, ?)" * (_ROWS_TOGETHER - 1)
_LAST_CHECKPOINT = "SELECT seq, mac FROM ledger_checkpoints ORDER BY seq DESC LIMIT 1"


def read_head(statements: Statements, keys: Keys) -> tuple[int, bytes]:
    """Where the chain ends now, as the transaction at hand sees it: as a `Head`."""
    for sql in (_LAST_RECORD, _LAST_CHECKPOINT):
        rows: list[Any] = statements.execute(sql).fetchall()
        if rows:
            return rows[0]  # type: ignore[no-any-return]
    return genesis(keys)


def append(statements: Statements, keys: Keys, records: Sequence[tuple[int, bytes]]) -> int:
    """Add records, each a time and a body, to the end of the chain; returns the first's number.

    Other processes append too, so that the end is looked up anew in each transaction.
    """
    last, mac = read_head(statements, keys)
    seq = last
    rows = []
    for time_ns, body in records:
        seq += 1
        mac = record_mac(keys, mac, seq, time_ns, body)
        rows.append((seq, time_ns, body, mac))
    together = len(rows) - len(rows) % _ROWS_TOGETHER
    for start in range(0, together, _ROWS_TOGETHER):
        block = rows[start : start + _ROWS_TOGETHER]
        statements.execute(_INSERT_TOGETHER, tuple(chain.from_iterable(block)))
    statements.executemany(_INSERT, rows[together:])
    return last + 1


def adopt_key(connection: Connection, keys: Keys) -> None:
    """Mark a new ledger with its key, or check that this is the key of an old one.

    Raises `IoError` for another key: going on with it would break the chain.
    """
    for (mark,) in connection.execute("SELECT mark FROM ledger_key").fetchall():
        check_mark(mark, keys)
        return
    connection.execute("INSERT INTO ledger_key VALUES (1, ?)", (keys.mark,))


def check_mark(mark: object, keys: Keys) -> None:
    if not isinstance(mark, bytes) or not hmac.compare_digest(mark, keys.mark):
        raise IoError(
            "this is not the key that the ledger was written with",
            hint="restore ledger.key from a backup; without it nothing can be proved",
        )
