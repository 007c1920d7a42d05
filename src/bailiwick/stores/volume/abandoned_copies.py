"""Letting go of a copy of a volume that was begun and is not to be gone on with.

It is given another name first, under which no copy goes on: so whoever still writes to it is told,
and whoever is killed meanwhile begins again. Its rows go, then its blobs, and its own row last.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final, NamedTuple

from bailiwick.errors import RootNotFound
from bailiwick.finishing import in_thread
from bailiwick.stores.volume.content.blobs import Blobs
from bailiwick.stores.volume.rows.checksums import row_guard
from bailiwick.stores.volume.rows.database import Row, RowDatabase, RowSession, SharedDatabase
from bailiwick.stores.volume.volume_copy import (
    BEGUN,
    LET_GO,
    PAGE_ROWS,
    TABLES,
    VOLUME,
    Told,
    VolumeRow,
    VolumeSide,
    drop_blobs,
    drop_row,
    key_width,
    scan_rows,
)

_RENAME: Final = "UPDATE volume SET name = $2, guard = $3 WHERE id = $1"
_DROP: Final = "DELETE FROM volume WHERE id = $1 AND name = $2"
_DROP_DOOMED: Final = "DELETE FROM doomed WHERE volume = $1"
_DROP_PINS: Final = "DELETE FROM pin WHERE volume = $1"


class CopiesDiscarded(NamedTuple):
    """What was let go of: how many copies, and their rows and blobs."""

    copies: int
    rows: int
    blobs: int


async def discard_copies(
    shared: SharedDatabase, blobs: Blobs, name: str, told: Told
) -> CopiesDiscarded:
    """Let go of all copies to a name that are not whole. Raises `RootNotFound` where there is
    none."""

    async def find(session: RowSession) -> list[tuple[VolumeRow, str]]:
        return [await _claimed(session, begun, name) for begun in await _begun(session, name)]

    found = await in_thread(shared.set_up, find)
    if not found:
        raise RootNotFound("no copy to this name was begun here and left")
    rows = gone = 0
    for volume, claimed in found:
        database = shared.acquire_again().database(volume.id)
        try:
            for table in TABLES:
                rows += await _empty(database, volume.id, table, told)
        finally:
            await database.aclose()
        gone += await in_thread(drop_blobs, blobs, volume.uid, pool=blobs.threads)

        async def end(session: RowSession, volume: int = volume.id, claimed: str = claimed) -> None:
            for statement in (_DROP_DOOMED, _DROP_PINS):
                await session.run(statement, volume)
            await session.run(_DROP, volume, claimed)

        await in_thread(shared.set_up, end)
    return CopiesDiscarded(len(found), rows, gone)


async def _begun(session: RowSession, name: str) -> list[str]:
    return [row[0] for row in await session.rows(BEGUN, f"{name}#", f"{name}$")]


async def _claimed(session: RowSession, begun: str, name: str) -> tuple[VolumeRow, str]:
    """A copy under the name by which it goes."""
    row = await session.row(VOLUME, begun)
    assert row is not None
    volume = VolumeRow(*row)
    claimed = f"{name}{LET_GO}{volume.uid}"
    guard = row_guard(volume.id, claimed, volume.uid, volume.root, volume.created_ns)
    await session.run(_RENAME, volume.id, claimed, guard)
    return volume, claimed


async def _empty(database: RowDatabase, volume: int, table: str, told: Told) -> int:
    count, waiting, width = 0, list[Row](), key_width(table)

    async def drop() -> None:
        keys = list(waiting)
        waiting.clear()

        async def job(turn: Any) -> None:
            for key in keys:
                await turn.session.run(drop_row(table), volume, *key)

        if keys:
            await database.write(job)

    side = VolumeSide(database.reading, volume)
    async with aclosing(scan_rows(side, table, told)) as rows:
        async for row in rows:
            waiting.append(row[:width])
            count += 1
            if len(waiting) >= PAGE_ROWS:
                await drop()
    await drop()
    return count
