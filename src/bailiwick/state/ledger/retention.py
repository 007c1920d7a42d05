"""Moving old records out of the database without breaking the chain.

What is moved out leaves a signed checkpoint: where the run began, where it ended, and which macs
stood there. The rest is verified from the checkpoint on; a run that was archived is verified by
itself, between the two ends that the checkpoint names. Archives are JSON lines in files of their
own, and hold the bytes that the chain covers beside what people read.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bailiwick.audit import LedgerRecord
from bailiwick.errors import IoError, ParseError, Unsupported, from_os_error
from bailiwick.finishing import in_thread
from bailiwick.model import Value
from bailiwick.state.database import Connection, Database
from bailiwick.state.ledger.chain import (
    CHECKPOINT_COLUMNS,
    Checkpoint,
    Head,
    genesis,
    signed_checkpoint,
)
from bailiwick.state.ledger.encoding import decode
from bailiwick.state.ledger.key import Keys
from bailiwick.state.ledger.verification import BadRecord, Row, Wrong, follow

FOLDER = "ledger-archive"

SEGMENT_RECORDS_MAX = 50_000
"""Records of one archive, some ten megabytes; they are deleted in one transaction."""

_BATCH_RECORDS = 1_000


class Moved(Value, frozen=True, kw_only=True):
    """What retention did: how many records went, the last of them, and to which files."""

    records: int = 0
    through: int = 0
    archives: tuple[str, ...] = ()

    def details(self) -> dict[str, str]:
        return {
            "moved_records": str(self.records), "through": str(self.through),
            "to": ", ".join(self.archives),
        }  # fmt: skip


class Archived(Value, frozen=True, kw_only=True):
    """Whether an archive is as it was written."""

    ok: bool
    archive: str
    records: int
    first_bad: BadRecord | None


class _Line(msgspec.Struct, frozen=True):
    """One line of an archive: the record for people, and the row itself for the chain."""

    record: LedgerRecord
    time_ns: int
    body: str
    mac: str


_line = msgspec.json.Decoder(_Line)


class Retention:
    """Moves records out of one ledger, and verifies what it moved."""

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database = database
        self._keys = keys

    async def move_out(self, horizon_ns: int) -> Moved:
        """Move out every record before the first that is as new as ``horizon_ns``.

        In segments: a crash leaves some moved and the rest where they were, and at worst a file
        that no checkpoint names. Raises `Unsupported` for a state in memory.
        """
        if self._database.directory is None:
            raise Unsupported("a state in memory has no place for archives")
        moved = Moved()
        while (segment := await self._move_segment(horizon_ns)) is not None:
            files = (segment.archive,) if segment.archive is not None else ()
            moved = Moved(
                records=moved.records + segment.records, through=segment.seq,
                archives=moved.archives + files,
            )  # fmt: skip
        return moved

    async def _move_segment(self, horizon_ns: int) -> Checkpoint | None:
        last = await asyncio.to_thread(self._last_before, horizon_ns)
        if last is None:
            return None
        checkpoint = await in_thread(self._segment, last)
        if not await self._database.write(lambda connection: _cut(connection, checkpoint)):
            # Another process was quicker: its archive may well be the same file.
            await in_thread(self._discard, checkpoint)
            return None
        return checkpoint

    def _last_before(self, horizon_ns: int) -> int | None:
        """The last record of the next segment; None where nothing is old enough."""
        first, newest = self._database.read("SELECT min(seq), max(seq) FROM ledger")[0]
        if first is None:
            return None
        end = min(newest, first + SEGMENT_RECORDS_MAX - 1)
        sql = "SELECT min(seq) FROM ledger WHERE seq BETWEEN ? AND ? AND time_ns >= ?"
        too_new = self._database.read(sql, (first, end, horizon_ns))[0][0]
        last = end if too_new is None else too_new - 1
        return None if last < first else int(last)

    def _segment(self, last: int) -> Checkpoint:
        """Verify a segment and archive it; what does not fit the chain is not signed for."""
        start = self._start()
        name = f"{start.seq + 1:012}-{last:012}.jsonl"
        try:
            end = self._write_archive(name, start, last)
        except OSError as error:
            raise from_os_error(error) from error
        return signed_checkpoint(self._keys, start, end, name)

    def _start(self) -> Head:
        sql = f"SELECT {CHECKPOINT_COLUMNS} FROM ledger_checkpoints ORDER BY seq DESC LIMIT 1"
        for row in self._database.read(sql):
            checkpoint = Checkpoint(*row)
            if not checkpoint.is_genuine(self._keys):
                raise IoError("the last checkpoint of the ledger was changed: nothing is moved")
            return checkpoint.end
        return genesis(self._keys)

    def _checked(self, head: Head, row: Row) -> Head:
        try:
            return follow(self._keys, head, row)
        except Wrong as wrong:
            raise IoError(
                f"record {wrong.bad.seq} of the ledger is not as it was written: nothing is moved",
                hint="run `audit verify`",
            ) from wrong

    def _rows(self, last: int) -> Iterator[Row]:
        sql = (
            "SELECT seq, time_ns, body, mac FROM ledger WHERE seq > ? AND seq <= ?"
            " ORDER BY seq LIMIT ?"
        )
        after = -(2**63)
        while rows := self._database.read(sql, (after, last, _BATCH_RECORDS)):
            yield from rows
            after = rows[-1][0]

    def _write_archive(self, name: str, head: Head, last: int) -> Head:
        folder = self._folder()
        os.makedirs(folder, 0o700, exist_ok=True)
        staged = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
        descriptor = os.open(
            staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            with open(descriptor, "wb") as file:
                for row in self._rows(last):
                    head = self._checked(head, row)
                    file.write(_encoded_line(row))
                file.flush()
                os.fsync(descriptor)
            os.rename(staged, os.path.join(folder, name))
        except BaseException:
            os.unlink(staged)
            raise
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(held)
        finally:
            os.close(held)
        return head

    def _folder(self) -> str:
        if self._database.directory is None:
            raise Unsupported("a state in memory has no archives")
        return os.path.join(self._database.directory, FOLDER)

    def _discard(self, unused: Checkpoint) -> None:
        name = unused.archive
        sql = "SELECT 1 FROM ledger_checkpoints WHERE archive = ?"
        if name is not None and not self._database.read(sql, (name,)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder(), name))

    # --- verifying archives ------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """Every run that was moved out, oldest first."""
        sql = f"SELECT {CHECKPOINT_COLUMNS} FROM ledger_checkpoints ORDER BY seq"
        return [Checkpoint(*row) for row in self._database.read(sql)]

    async def verify_archives(self) -> list[Archived]:
        """Check every archive that a checkpoint names, in a thread."""
        return await asyncio.to_thread(
            lambda: [
                self.verify_archive_blocking(checkpoint)
                for checkpoint in self.checkpoints()
                if checkpoint.archive is not None
            ]
        )

    def verify_archive_blocking(self, checkpoint: Checkpoint) -> Archived:
        """Check one archive against its checkpoint, line by line."""
        name = checkpoint.archive
        if name is None:
            raise ParseError("these records were dropped: there is no archive of them")
        head, records = checkpoint.start, 0
        bad: BadRecord | None = None
        try:
            if not checkpoint.is_genuine(self._keys):
                raise Wrong(checkpoint.seq, "the checkpoint after it was changed")
            for row in _archived_rows(os.path.join(self._folder(), os.path.basename(name))):
                head = follow(self._keys, head, row)
                records += 1
            if head != checkpoint.end:
                raise Wrong(head.seq + 1, "it is missing, or was added")
        except Wrong as wrong:
            bad = wrong.bad
        except (OSError, ValueError):
            bad = BadRecord(head.seq + 1, "it cannot be read")
        return Archived(ok=bad is None, archive=name, records=records, first_bad=bad)


def _cut(connection: Connection, checkpoint: Checkpoint) -> bool:
    """Put the checkpoint in the place of its records; False where they are not there any more."""
    rows: Sequence[tuple[Any, ...]] = connection.execute(
        "SELECT min(seq), count(*) FROM ledger WHERE seq <= ?", (checkpoint.seq,)
    ).fetchall()
    if rows[0] != (checkpoint.first, checkpoint.records):
        return False
    connection.execute("DELETE FROM ledger WHERE seq <= ?", (checkpoint.seq,))
    connection.execute("INSERT INTO ledger_checkpoints VALUES (?, ?, ?, ?, ?, ?)", checkpoint)
    return True


def _encoded_line(row: Row) -> bytes:
    seq, time_ns, body, mac = row
    line = _Line(decode(seq, body), time_ns, base64.b64encode(body).decode(), mac.hex())
    return msgspec.json.encode(line) + b"\n"


def _archived_rows(path: str) -> Iterator[Row]:
    """The rows of an archive. What people read in it must be what the chain covers."""
    with open(path, "rb") as file:
        for text in file:
            line = _line.decode(text)
            body = base64.b64decode(line.body, validate=True)
            seq = line.record.seq
            if line.record != decode(seq, body) or line.record.time_ns != line.time_ns:
                raise Wrong(seq, "what it says is not what was recorded")
            yield seq, line.time_ns, body, bytes.fromhex(line.mac)
