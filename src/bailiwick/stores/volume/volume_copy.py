"""A whole volume in another database: every row, chunk and blob, with all versions and branches.

The tables are the same in every database, and numbers are of the volume alone: so rows are copied
as they are, but for the number of the volume, and blobs under keys of the copy. Both sides are gone
through in the order of their keys, and what is missing, differs or is too much is mended. That is
done until a whole round finds nothing: then the copy is what the source was at one moment, be it
that it was changed meanwhile. Whoever is killed begins again, and what is there already is only
compared.

Until it is whole a copy has a name that nobody can say. It says of which volume it is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import cache, partial
from secrets import token_hex
from typing import Any, Final, NamedTuple

from bailiwick.errors import BailiwickError, Busy, FileAlreadyExists, IoError, ParseError
from bailiwick.finishing import in_thread
from bailiwick.model import MiB
from bailiwick.stores.volume.content.blobs import Blobs, is_blob, new_key
from bailiwick.stores.volume.content.chunks import Chunk, checked, chunk_of, fetched
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.checksums import is_sound, row_guard
from bailiwick.stores.volume.rows.database import Row, RowDatabase, RowSession, SharedDatabase
from bailiwick.stores.volume.rows.postgres_schema import tables
from bailiwick.stores.volume.rows.records import Inode
from bailiwick.stores.volume.rows.tree import INODE_COLUMNS

PAGE_ROWS: Final = 256
"""Rows that are compared at a time: with the content of small files up to a mebibyte a side."""

_PAGE_BYTES: Final = 4 * MiB
"""Bytes that are written at a time."""

_ROUNDS_MAX: Final = 8
"""A source that changes all the time is never the same from the first table to the last."""

_CHECKED_AT_ONCE: Final = 4
"""Chunks that are read back at a time: blobs of 4 MiB over a network."""

TABLES: Final = (
    "branch", "lineage", "snapshot", "taken", "mark", "content", "manifest", "chunk", "upload",
    "fallen", "lease", "inode", "dentry", "change",
)  # fmt: skip
"""The log of changes last: whatever was changed while the others were gone through is found there.
Without `pin` and `doomed`: who reads the source does not read the copy, which has blobs of its
own."""

_NOT_COMPARED: Final[dict[str, tuple[str, ...]]] = {
    "chunk": ("data", "blob"),
    "lease": ("boot", "ends_ms"),
}
"""What is as good where it differs: bytes are known by their hash, and are in a blob of either
side; how long a lease lasts is counted by whoever opens a volume."""

VOLUME: Final = """
SELECT id, uid, root, last, horizon, locks, drained, created_ns FROM volume WHERE name = $1
"""
BEGUN: Final = "SELECT name FROM volume WHERE name >= $1 AND name < $2 ORDER BY name"
_BEGIN: Final = """
INSERT INTO volume (id, name, uid, root, last, horizon, locks, drained, created_ns, guard)
VALUES ($1, $2, $3, $4, $5, 0, 0, 0, $6, $7)
"""
_FREE: Final = "SELECT coalesce(max(id), 0) + 1 FROM volume"
_IS_BEGUN: Final = "SELECT 1 FROM volume WHERE id = $1 AND name = $2"
_END: Final = """
UPDATE volume SET name = $2, last = $3, horizon = $4, locks = $5, drained = $6, guard = $7
WHERE id = $1
"""
_NAME: Final = "SELECT name FROM volume WHERE uid = $1"
_LEASES: Final = "SELECT count(*) FROM lease WHERE volume = $1"

LET_GO: Final = "#gone-"
"""In the name of a copy that nobody goes on with."""

Told = Callable[[], Awaitable[None]]


class VolumeRow(NamedTuple):
    """The row of a volume, but for its name."""

    id: int
    uid: str
    root: int
    last: int
    horizon: int
    locks: int
    drained: int
    created_ns: int


class VolumeCopied(NamedTuple):
    """What a copy took: rows that were written, and bytes of content; whether it went on with one
    that was begun before, or found it whole."""

    rows: int
    bytes: int
    resumed: bool
    was_whole: bool


class VolumeSide(NamedTuple):
    """A volume, and how its rows are looked at."""

    look: Callable[[], Any]
    volume: int


class _Columns(NamedTuple):
    """The columns of a table: its key, those that are compared, and all."""

    key: tuple[str, ...]
    compared: tuple[str, ...]
    all: tuple[str, ...]


@cache
def _columns(table: str) -> _Columns:
    known = tables()[table]
    every = tuple(column for column in known.types if column != "volume")
    compared = tuple(each for each in every if each not in _NOT_COMPARED.get(table, ()))
    return _Columns(known.key[1:], compared, every)


@cache
def _page(table: str) -> str:
    key, compared, _ = _columns(table)
    shown = [*key, *compared]
    if table == "chunk":
        shown += ["length(data)", "CASE WHEN blob IS NULL THEN 0 ELSE 1 END"]
    after = ", ".join(f"${number}" for number in range(2, len(key) + 2))
    by = ", ".join(key)
    return (
        f"SELECT {', '.join(shown)} FROM {table} WHERE volume = $1 AND ({by}) > ({after})"
        f" ORDER BY {by} LIMIT ${len(key) + 2}"
    )


@cache
def _rest(table: str) -> str:
    """The whole row of a key."""
    key, _, every = _columns(table)
    found = " AND ".join(f"{column} = ${at}" for at, column in enumerate(key, start=2))
    return f"SELECT {', '.join(every)} FROM {table} WHERE volume = $1 AND {found}"


@cache
def _put(table: str) -> str:
    key, _, every = _columns(table)
    values = ", ".join(f"${number}" for number in range(1, len(every) + 2))
    kept = ", ".join(f"{each} = excluded.{each}" for each in every if each not in key)
    return (
        f"INSERT INTO {table} (volume, {', '.join(every)}) VALUES ({values})"
        f" ON CONFLICT (volume, {', '.join(key)}) DO UPDATE SET {kept}"
    )


def key_width(table: str) -> int:
    """Of how many columns the key of a row is, but for its volume."""
    return len(_columns(table).key)


@cache
def drop_row(table: str) -> str:
    """The statement that takes a row away, by its key."""
    found = " AND ".join(
        f"{column} = ${at}" for at, column in enumerate(_columns(table).key, start=2)
    )
    return f"DELETE FROM {table} WHERE volume = $1 AND {found}"


def _before_all(table: str) -> Row:
    types = tables()[table].types
    return tuple(
        {"BIGINT": -1, "TEXT": "", "BYTEA": b""}[types[each]] for each in _columns(table).key
    )


async def scan_rows(side: VolumeSide, table: str, told: Told) -> AsyncGenerator[Row, None]:
    """All rows of a table in the order of their keys, which come first in each."""
    after, count = _before_all(table), len(_columns(table).key)
    while True:
        async with side.look() as session:
            rows: list[Row] = await session.rows(_page(table), side.volume, *after, PAGE_ROWS)
        await told()
        for row in rows:
            yield row
        if len(rows) < PAGE_ROWS:
            return
        after = rows[-1][:count]


class VolumeCopy:
    """A copy of a volume, under way."""

    def __init__(
        self, source: VolumeCore, target: SharedDatabase, blobs: Blobs, told: Told
    ) -> None:
        self._source = source
        self._from = VolumeSide(source.looking, source.view.volume)
        self._shared = target
        self._blobs = blobs
        self._told = told
        self._rows = self._bytes = 0
        self._database: RowDatabase
        self._into: VolumeSide
        self._row: VolumeRow
        self._begun_as: str

    async def run(self, source_name: str, name: str) -> VolumeCopied:
        """Make the copy, or go on with it. Raises `FileAlreadyExists` where the target has
        something else of this name, `Busy` where the source changes all the time or somebody else
        makes the copy or lets go of it, and `IoError` where something in it is damaged."""
        async with self._source.looking() as session:
            row = await session.row(VOLUME, source_name)
        assert row is not None
        begin = partial(_find_or_begin, VolumeRow(*row), name)
        found = await in_thread(self._shared.set_up, begin)
        self._row, self._begun_as = found.row, found.begun_as
        self._database = self._shared.acquire_again().database(found.row.id)
        self._into = VolumeSide(self._database.reading, found.row.id)
        holder = object()
        self._source.hold_version(holder, 0)  # gc spares what is copied
        try:
            if not found.begun_as:
                await self._compare_whole()
                return VolumeCopied(0, 0, False, True)
            await self._copy(is_fresh=found.is_fresh)
            await self._read_back()
            await self._end(source_name, name)
        except BailiwickError as error:
            if await self._is_let_go_of():
                # Whoever did that has not seen what was put beside the database since.
                await in_thread(drop_blobs, self._blobs, self._row.uid, pool=self._blobs.threads)
                raise Busy("the copy was let go of by somebody else meanwhile") from error
            raise
        finally:
            self._source.let_go(holder)
            await self._database.aclose()
        return VolumeCopied(self._rows, self._bytes, not found.is_fresh, False)

    async def _is_let_go_of(self) -> bool:
        async def is_gone(session: RowSession) -> bool:
            row = await session.row(_NAME, self._row.uid)
            return row is None or LET_GO in row[0]

        return await in_thread(self._shared.set_up, is_gone)

    async def _compare_whole(self) -> None:
        """A target that has the volume already is whole, or something else."""
        for table in TABLES:
            if any(await self._differences(table, _leave)):
                raise _something_else()

    async def _copy(self, *, is_fresh: bool) -> None:
        for _ in range(_ROUNDS_MAX):
            found = 0
            if not is_fresh:
                # What ends before what begins: there is one name for a node at a time.
                counted = [await self._mend(table) for table in TABLES]
                found = sum(map(sum, counted))
            if is_fresh or found:
                for table in TABLES:
                    await self._add(table)
            if not found and not is_fresh:
                return
            is_fresh = False
        raise Busy("the volume keeps changing", hint="stop who writes to it, and copy it again")

    # --- rows --------------------------------------------------------------------------------

    async def _differences(
        self, table: str, each: Callable[[Row | None, Row | None], Awaitable[None]]
    ) -> tuple[int, int, int]:
        """Go through a table on both sides; returns how many rows are missing, differ, and are too
        much. ``each`` is told of all of them: the row here and there."""
        missing = changed = extra = 0
        count = len(_columns(table).key)
        async with (
            aclosing(scan_rows(self._from, table, self._told)) as theirs,
            aclosing(scan_rows(self._into, table, self._told)) as ours,
        ):
            there, here = await anext(theirs, None), await anext(ours, None)
            shown: tuple[Row | None, Row | None]
            while there is not None or here is not None:
                if here is None or (there is not None and there[:count] < here[:count]):
                    missing += 1
                    shown, there = (there, None), await anext(theirs, None)
                elif there is None or here[:count] < there[:count]:
                    extra += 1
                    shown, here = (None, here), await anext(ours, None)
                else:
                    same = there == here
                    shown = (there, here)
                    there, here = await anext(theirs, None), await anext(ours, None)
                    if same:
                        continue
                    changed += 1
                await each(*shown)
        return missing, changed, extra

    async def _mend(self, table: str) -> tuple[int, int, int]:
        """Change and take away what differs. What is missing is counted."""
        count = len(_columns(table).key)
        dropped: list[Row] = []
        changed: list[Row] = []

        async def note(there: Row | None, here: Row | None) -> None:
            if there is None and here is not None:
                dropped.append(here[:count])
            elif there is not None and here is not None:
                changed.append(there)
            if len(dropped) + len(changed) >= PAGE_ROWS:
                await self._write(table, changed, dropped)

        found = await self._differences(table, note)
        await self._write(table, changed, dropped)
        return found

    async def _add(self, table: str) -> None:
        missing: list[Row] = []

        async def note(there: Row | None, here: Row | None) -> None:
            if there is not None and here is None:
                missing.append(there)
            if len(missing) >= PAGE_ROWS:
                await self._write(table, missing, [])

        await self._differences(table, note)
        await self._write(table, missing, [])

    async def _write(self, table: str, found: list[Row], dropped: list[Row]) -> None:
        """Write rows that were found in the source, and take others away by their keys."""
        rows: list[Row] = []
        size = 0
        for each in found:
            row = await self._whole_row(table, each)
            if row is not None:
                rows.append(row)
                size += sum(len(each) for each in row if isinstance(each, bytes))
            if size >= _PAGE_BYTES:
                await self._send(table, rows, [])
                rows, size = [], 0
        await self._send(table, rows, dropped)
        found.clear()
        dropped.clear()

    async def _send(self, table: str, rows: list[Row], dropped: Iterable[Row]) -> None:
        dropped = list(dropped)
        if not rows and not dropped:
            return
        volume, begun_as = self._into.volume, self._begun_as

        async def job(turn: Any) -> None:
            if await turn.session.row(_IS_BEGUN, volume, begun_as) is None:
                raise _copied_meanwhile()
            for key in dropped:
                await turn.session.run(drop_row(table), volume, *key)
            for row in rows:
                await turn.session.run(_put(table), volume, *row)

        await self._database.write(job)
        self._rows += len(rows)
        await self._told()

    async def _whole_row(self, table: str, found: Row) -> Row | None:
        """The row as it is to be in the copy; None where it has gone from the source."""
        count = len(_columns(table).key)
        if table not in _NOT_COMPARED:
            row = found[count:]
            if table == "inode":
                _refuse_damaged(row)
            return row
        async with self._source.looking() as session:
            whole: Row | None = await session.row(_rest(table), self._from.volume, *found[:count])
        if whole is None or table != "chunk":
            return whole
        columns = dict(zip(_columns(table).all, whole, strict=True))
        chunk = Chunk(*(columns[each] for each in ("hash", "size", "data", "blob", "packed")))
        if chunk.blob is None:
            checked(chunk, chunk.data)
        else:
            key = await in_thread(self._copy_blob, chunk, pool=self._blobs.threads)
            columns.update(blob=key)
        self._bytes += chunk.size
        await self._told()
        return tuple(columns.values())

    def _copy_blob(self, chunk: Chunk) -> str:
        """The key of the same bytes in the place of the copy, durably. Blocks."""
        assert chunk.blob is not None
        kept = bytearray(chunk.size if chunk.packed is None else chunk.packed)
        if self._source.blobs.fetch(chunk.blob, memoryview(kept)) != len(kept):
            raise IoError("a part of the content is missing", hint="check the volume")
        checked(chunk, kept)
        key = new_key(self._row.uid, chunk.digest)
        self._blobs.put(key, [kept])
        return key

    # --- in the end ----------------------------------------------------------------------------

    async def _read_back(self) -> None:
        """See that all content of the copy is there, and has its hash."""
        async with aclosing(scan_rows(self._into, "chunk", self._told)) as rows:
            waiting: list[int] = []
            async for number, *_ in rows:
                waiting.append(number)
                if len(waiting) == _CHECKED_AT_ONCE:
                    await asyncio.gather(*map(self._check_chunk, waiting))
                    waiting.clear()
            await asyncio.gather(*map(self._check_chunk, waiting))

    async def _check_chunk(self, number: int) -> None:
        async with self._into.look() as session:
            chunk = await chunk_of(session, self._into.volume, number)
        if chunk.blob is None:
            checked(chunk, chunk.data)
        else:
            await in_thread(fetched, self._blobs, chunk, None, pool=self._blobs.threads)

    async def _end(self, source_name: str, name: str) -> None:
        """Give the copy its name, and the counter of the source."""
        async with self._source.looking() as session:
            row = await session.row(VOLUME, source_name)
        assert row is not None
        newest, begun_as = VolumeRow(*row), self._begun_as

        async def end(session: RowSession) -> None:
            found = await session.row(VOLUME, begun_as)
            if found is None:
                raise _copied_meanwhile()
            if await session.row(VOLUME, name) is not None:
                raise _something_else()
            copy = VolumeRow(*found)
            leases = await session.row(_LEASES, copy.id)
            last = max(newest.last, copy.last)
            guard = row_guard(copy.id, name, copy.uid, copy.root, copy.created_ns)
            await session.run(
                _END, copy.id, name, last, newest.horizon, leases[0] if leases else 0,
                newest.drained, guard,
            )  # fmt: skip

        await in_thread(self._shared.set_up, end)


def drop_blobs(blobs: Blobs, uid: str) -> int:
    """Take away all blobs of a volume that nobody will open. Blocks."""
    keys = [each.key for each in blobs.all(uid) if is_blob(each.key)]
    for key in keys:
        blobs.delete(key)
    return len(keys)


async def _leave(_: Row | None, __: Row | None) -> None:
    """To be told of what differs, and no more."""


class _CopyPlace(NamedTuple):
    """The volume to copy to. Without a name that it was begun under it is whole, or another."""

    row: VolumeRow
    begun_as: str
    is_fresh: bool


async def _find_or_begin(source: VolumeRow, name: str, session: RowSession) -> _CopyPlace:
    standing = await session.row(VOLUME, name)
    if standing is not None:
        row = VolumeRow(*standing)
        if row.uid == source.uid:
            raise ParseError("a volume is not copied onto itself")
        if (row.root, row.created_ns) != (source.root, source.created_ns):
            raise _something_else()
        return _CopyPlace(row, "", False)
    begun_as = f"{name}#copy-of-{source.uid}"
    for (other,) in await session.rows(BEGUN, f"{name}#", f"{name}$"):
        if other != begun_as:
            raise FileAlreadyExists(
                "a copy of another volume to this name was begun here",
                hint="bailiwick volume discard-copy lets go of it",
            )
    begun = await session.row(VOLUME, begun_as)
    if begun is not None:
        return _CopyPlace(VolumeRow(*begun), begun_as, False)
    free = await session.row(_FREE)
    assert free is not None
    made = VolumeRow(free[0], token_hex(8), source.root, source.last, 0, 0, 0, source.created_ns)
    guard = row_guard(made.id, begun_as, made.uid, made.root, made.created_ns)
    await session.run(
        _BEGIN, made.id, begun_as, made.uid, made.root, made.last, made.created_ns, guard
    )
    return _CopyPlace(made, begun_as, True)


def _copied_meanwhile() -> Busy:
    return Busy("the same volume was copied here by somebody else meanwhile")


def _something_else() -> FileAlreadyExists:
    return FileAlreadyExists(
        "the target holds another volume of this name", hint="name another: …?volume=NAME"
    )


def _refuse_damaged(row: Row) -> None:
    """A node whose small content is not what was written is not carried on."""
    found = dict(zip(_columns("inode").all, row, strict=True))
    inode = Inode(*(found[column] for column in INODE_COLUMNS.split(", ")))
    if not is_sound(inode, found["guard"]):
        raise IoError("a node of the volume is damaged", hint="bailiwick volume check says which")
