"""Looking into the ledger: the newest records, those that fit a filter, all of them as JSON lines.

Everything is read in batches of bounded size, and whatever may be long runs in a thread. What is
read is not proved to be genuine: that is what `verify` is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from bailiwick.audit import LedgerRecord, Outcome
from bailiwick.errors import ParseError, Unsupported
from bailiwick.model import Value
from bailiwick.search.glob import compile_filter
from bailiwick.state.database import Database
from bailiwick.state.ledger.encoding import Hide, decode, keep_path

PAGE_RECORDS_MAX = 1_000
"""Records of one page, and of one `tail`: they are held in memory."""

SCANNED_RECORDS_MAX = 50_000
"""Records one page looks through for those that fit, some tenths of a second; then it says where
to go on."""

_BATCH_RECORDS = 500

_FOLLOW_SECONDS = 0.2
"""How often a follower looks for records of other processes: one indexed lookup."""

_SEQ_MAX = 2**63 - 1


class LedgerFilter(Value, frozen=True, kw_only=True):
    """Which records are wanted: those that fit everything that is given.

    ``subject`` and ``root`` may end in ``*``. ``path`` is a place: records about it, or about
    anything beneath it. ``glob`` is a pattern for paths. Both look at the destination too. Times
    are nanoseconds; ``until_ns`` itself is left out.
    """

    subject: str | None = None
    root: str | None = None
    operation: str | None = None
    verb: str | None = None
    outcome: Outcome | None = None
    error_kind: str | None = None
    path: str | None = None
    glob: str | None = None
    request_id: str | None = None
    grant_id: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


class LedgerPage(Value, frozen=True, kw_only=True):
    """Some records, newest first. ``next_cursor`` goes on to older ones; a page may be short, or
    empty, and still have one: then there was nothing that fits among those looked through."""

    records: list[LedgerRecord]
    scanned: int
    truncated: bool
    next_cursor: str | None


class _Batch(NamedTuple):
    records: list[LedgerRecord]
    scanned: int
    last: int | None


Fits = Callable[[LedgerRecord], bool]


class Reading:
    """Queries on one ledger."""

    def __init__(self, database: Database, hide: Hide = keep_path) -> None:
        self._database = database
        self._hide = hide

    async def tail(self, count: int = 20) -> list[LedgerRecord]:
        """The newest records, oldest of them first; at most `PAGE_RECORDS_MAX`."""
        return await asyncio.to_thread(self.tail_blocking, count)

    def tail_blocking(self, count: int = 20) -> list[LedgerRecord]:
        sql = "SELECT seq, body FROM ledger ORDER BY seq DESC LIMIT ?"
        rows = self._database.read(sql, (max(0, min(count, PAGE_RECORDS_MAX)),))
        return [decode(seq, body) for seq, body in reversed(rows)]

    async def query(
        self,
        wanted: LedgerFilter | None = None,
        *,
        cursor: str | None = None,
        limit: int = 100,
    ) -> LedgerPage:
        """One page of the records that fit, newest first.

        Raises `ParseError` for a bad cursor, pattern or limit, `Unsupported` for a question about
        names where none are kept.
        """
        return await asyncio.to_thread(self.query_blocking, wanted, cursor=cursor, limit=limit)

    def query_blocking(
        self,
        wanted: LedgerFilter | None = None,
        *,
        cursor: str | None = None,
        limit: int = 100,
    ) -> LedgerPage:
        if not 1 <= limit <= PAGE_RECORDS_MAX:
            raise ParseError(f"a page has 1 to {PAGE_RECORDS_MAX} records")
        wanted = wanted or LedgerFilter()
        fits = self._fits(wanted)
        before = _SEQ_MAX if cursor is None else _parse_cursor(cursor)
        found: list[LedgerRecord] = []
        scanned = 0
        while len(found) < limit and scanned < SCANNED_RECORDS_MAX:
            rows = self._older(wanted, before)
            if not rows:
                return LedgerPage(records=found, scanned=scanned, truncated=False, next_cursor=None)
            for seq, body in rows:
                before = seq
                scanned += 1
                record = decode(seq, body)
                if fits(record):
                    found.append(record)
                    if len(found) == limit:
                        break
        more = bool(self._older(wanted, before, 1))
        return LedgerPage(
            records=found, scanned=scanned, truncated=more,
            next_cursor=str(before) if more else None,
        )  # fmt: skip

    def export_blocking(
        self, wanted: LedgerFilter | None = None, *, after: int = 0
    ) -> Iterator[bytes]:
        """Every record that fits as a JSON line, oldest first, some hundred lines at a time."""
        fits = self._fits(wanted or LedgerFilter())
        while True:
            batch = self._newer(fits, after)
            if batch.last is None:
                return
            after = batch.last
            if batch.records:
                yield b"".join(json_line(record) for record in batch.records)

    async def export(
        self, wanted: LedgerFilter | None = None, *, after: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """Every record that fits as a JSON line, as `export_blocking`, read in a thread."""
        lines = self.export_blocking(wanted, after=after)
        while (chunk := await asyncio.to_thread(next, lines, None)) is not None:
            yield chunk

    async def follow(
        self, wanted: LedgerFilter | None = None, *, after: int | None = None
    ) -> AsyncGenerator[LedgerRecord, None]:
        """Every record that fits as it is written, by any process, from number ``after`` on (None:
        from now on). Ends only by being closed."""
        fits = self._fits(wanted or LedgerFilter())
        if after is None:
            after = int(self._database.read("SELECT coalesce(max(seq), 0) FROM ledger")[0][0])
        while True:
            batch = self._newer(fits, after)
            for record in batch.records:
                yield record
            if batch.last is None:
                await asyncio.sleep(_FOLLOW_SECONDS)
            else:
                after = batch.last

    def _older(
        self, wanted: LedgerFilter, before: int, count: int | None = None
    ) -> list[tuple[Any, ...]]:
        since = -_SEQ_MAX if wanted.since_ns is None else wanted.since_ns
        until = _SEQ_MAX if wanted.until_ns is None else wanted.until_ns
        return self._database.read(
            "SELECT seq, body FROM ledger WHERE seq < ? AND time_ns >= ? AND time_ns < ?"
            " ORDER BY seq DESC LIMIT ?",
            (before, since, until, count or _BATCH_RECORDS),
        )

    def _newer(self, fits: Fits, after: int) -> _Batch:
        rows = self._database.read(
            "SELECT seq, body FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, _BATCH_RECORDS),
        )
        records = [record for seq, body in rows if fits(record := decode(seq, body))]
        return _Batch(records, len(rows), rows[-1][0] if rows else None)

    def _fits(self, wanted: LedgerFilter) -> Fits:
        return compile_wanted(wanted, self._hide)


def json_line(record: LedgerRecord) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def compile_wanted(wanted: LedgerFilter, hide: Hide) -> Fits:
    """A filter as one function. Where names are hidden only a whole path can be asked for."""
    tests: list[Fits] = [
        _equals(field, value)
        for field in ("operation", "verb", "outcome", "error_kind", "request_id", "grant_id")
        if (value := getattr(wanted, field)) is not None
    ]
    tests += [
        _begins(field, value) if value.endswith("*") else _equals(field, value)
        for field in ("subject", "root")
        if (value := getattr(wanted, field)) is not None
    ]
    if wanted.path is not None:
        tests.append(_about(wanted.path, hide))
    if wanted.glob is not None:
        tests.append(_matches(wanted.glob, hide))
    since, until = wanted.since_ns, wanted.until_ns
    if since is not None:
        tests.append(lambda record: record.time_ns >= since)
    if until is not None:
        tests.append(lambda record: record.time_ns < until)
    return lambda record: all(test(record) for test in tests)


def _equals(field: str, value: str) -> Fits:
    return lambda record: getattr(record, field) == value


def _begins(field: str, pattern: str) -> Fits:
    prefix = pattern[:-1]
    return lambda record: (getattr(record, field) or "").startswith(prefix)


def _about(path: str, hide: Hide) -> Fits:
    """About a place or anything beneath it; where names are hidden, about the place itself."""
    if hide is not keep_path:
        hidden = hide(path)
        return lambda record: hidden in (record.path, record.destination)
    if path in (".", ""):
        return lambda record: record.path is not None
    beneath = f"{path}/"
    return lambda record: any(
        each is not None and (each == path or each.startswith(beneath))
        for each in (record.path, record.destination)
    )


def _matches(glob: str, hide: Hide) -> Fits:
    if hide is not keep_path:
        raise Unsupported(
            "this ledger keeps keyed hashes, no names: a pattern matches nothing",
            hint="ask for a whole path instead",
        )
    pattern = compile_filter((glob,))
    return lambda record: any(
        each is not None and (pattern.matches(each, False) or pattern.matches(each, True))
        for each in (record.path, record.destination)
    )


def _parse_cursor(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ParseError("this is no cursor of a ledger query")
    return int(text)
