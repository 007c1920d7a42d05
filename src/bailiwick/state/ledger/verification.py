"""Whether the ledger is as it was written: every record is computed again, one batch in memory.

Blocks, and reads only. What is changed, removed, added or moved is found, and the first record
that is not as it should be is named. That records are missing at the very end cannot be seen in the
rest: only a head that was kept elsewhere shows it.
"""

from __future__ import annotations

import errno
import hmac
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bailiwick.errors import IoError
from bailiwick.model import Value
from bailiwick.state.ledger.chain import (
    CHECKPOINT_COLUMNS,
    Checkpoint,
    Head,
    check_mark,
    genesis,
    record_mac,
)
from bailiwick.state.ledger.key import Keys

Read = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""`Database.read`."""

Row = tuple[Any, ...]
"""Number, time, body and mac, as they stand in the table: whatever somebody put there."""

_BATCH_RECORDS = 1_000
_SEQ_MIN, _SEQ_MAX = -(2**63), 2**63 - 1
_TRIES_MAX = 3


class BadRecord(Value, frozen=True):
    """The first record that is not as it was written, and what is wrong with it."""

    seq: int
    why: str


class Verification(Value, frozen=True, kw_only=True):
    """What a look through the whole ledger showed.

    ``records`` were found to be right, before the first bad one where there is one; ``moved_out``
    are those that retention took, of which only the checkpoint remains. ``tail_proved`` says that
    a kept head was given and nothing before it is missing.
    """

    ok: bool
    records: int
    moved_out: int
    first_bad: BadRecord | None
    head: str
    tail_proved: bool
    words: str


class Wrong(Exception):
    """Something is not as it was written."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(why)
        self.bad = BadRecord(seq, why)


def verify(read: Read, keys: Keys, kept: Head | None = None) -> Verification:
    """Check the whole ledger, and against a head that was kept where one is given.

    Raises `IoError` where the key is not the ledger's.
    """
    for (mark,) in read("SELECT mark FROM ledger_key", ()):
        check_mark(mark, keys)
    result = _ChainWalk(read, keys, kept).verify()
    for _ in range(_TRIES_MAX):
        if result.ok:
            break
        # Retention may have moved records out while they were being looked at.
        again = _ChainWalk(read, keys, kept).verify()
        if again.first_bad == result.first_bad:
            break
        result = again
    return result


class _ChainWalk:
    def __init__(self, read: Read, keys: Keys, kept: Head | None) -> None:
        self._read = read
        self._keys = keys
        self._kept = kept
        self._head = genesis(keys)
        self._moved_out = 0
        self._records = 0
        self._kept_seen = False

    def verify(self) -> Verification:
        bad: BadRecord | None = None
        try:
            self._pass_checkpoints()
            self._see(self._head)
            for row in self._rows():
                self._head = follow(self._keys, self._head, row)
                self._records += 1
                self._see(self._head)
            self._check_end()
        except Wrong as wrong:
            bad = wrong.bad
        except IoError as error:
            if error.errno != errno.EIO:
                raise
            bad = BadRecord(self._head.seq + 1, f"it cannot be read: {error.message}")
        return Verification(
            ok=bad is None, records=self._records, moved_out=self._moved_out, first_bad=bad,
            head=str(self._head), tail_proved=bad is None and self._kept_seen,
            words=self._words(bad),
        )  # fmt: skip

    def _rows(self) -> Iterator[Row]:
        sql = "SELECT seq, time_ns, body, mac FROM ledger WHERE seq >= ? ORDER BY seq LIMIT ?"
        start = _SEQ_MIN
        while rows := self._read(sql, (start, _BATCH_RECORDS)):
            yield from rows
            if rows[-1][0] == _SEQ_MAX:
                return
            start = rows[-1][0] + 1

    def _pass_checkpoints(self) -> None:
        sql = f"SELECT {CHECKPOINT_COLUMNS} FROM ledger_checkpoints ORDER BY seq"
        for row in self._read(sql, ()):
            checkpoint = Checkpoint(*row)
            if not checkpoint.is_genuine(self._keys):
                raise Wrong(checkpoint.seq, "the checkpoint after it was changed")
            if checkpoint.start != self._head:
                raise Wrong(self._head.seq + 1, "the checkpoint of its run is missing")
            self._moved_out += checkpoint.records
            self._head = checkpoint.end
            self._see(self._head)

    def _see(self, head: Head) -> None:
        if self._kept is None or head.seq != self._kept.seq:
            return
        if not hmac.compare_digest(head.mac, self._kept.mac):
            raise Wrong(head.seq, "it is not the record that the kept head names")
        self._kept_seen = True

    def _check_end(self) -> None:
        if self._kept is not None and self._kept.seq > self._head.seq:
            raise Wrong(
                self._head.seq + 1,
                f"the end was cut off: the kept head is record {self._kept.seq}",
            )

    def _words(self, bad: BadRecord | None) -> str:
        if bad is not None:
            return f"record {bad.seq} is not as it was written: {bad.why}"
        found = f"{self._records} records are as they were written"
        if self._moved_out:
            found += f", and {self._moved_out} before them were moved out"
        if self._kept_seen:
            return f"{found}; none is missing up to the kept head"
        if self._kept is not None:
            return f"{found}; the kept head names a record that was moved out: check its archive"
        return (
            f"{found}; whether records are missing at the end can only be shown against a head"
            " that was kept elsewhere"
        )


def follow(keys: Keys, head: Head, row: Row) -> Head:
    """The head after one more record. Raises `Wrong` where the record does not fit."""
    seq, time_ns, body, mac = row
    if not isinstance(seq, int) or seq > head.seq + 1:
        raise Wrong(head.seq + 1, "it is missing")
    if seq <= head.seq:
        raise Wrong(seq, "it was added before the beginning")
    try:
        expected = record_mac(keys, head.mac, seq, time_ns, body)
    except (TypeError, OverflowError, AttributeError):
        expected = b""
    if not isinstance(mac, bytes) or not hmac.compare_digest(expected, mac):
        raise Wrong(seq, "it, or its place among the others, was changed")
    return Head(seq, mac)
