"""A volume opened to be looked after: how much it holds, whether it is sound, what can go.

For the operator, not for callers of a scope: nothing here reads or changes what files say.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import apsw

from bailiwick.build.options import Options
from bailiwick.build.places import blobs_of, check_file, on_host, volume_store
from bailiwick.build.stores import let_go
from bailiwick.config.places import VolumePlace, parse_volume
from bailiwick.errors import FileAlreadyExists, ParseError, RootNotFound, Unsupported
from bailiwick.finishing import in_thread
from bailiwick.limits import Limits
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.stores.volume import VolumeStore, abandoned_copies
from bailiwick.stores.volume.abandoned_copies import CopiesDiscarded
from bailiwick.stores.volume.core import MAIN, VolumeCore, folder_of
from bailiwick.stores.volume.fsck.check import PAGE_ROWS, Checked, Info, check
from bailiwick.stores.volume.retention.garbage import Pace, VolumeCollected, collect
from bailiwick.stores.volume.rows import databases
from bailiwick.stores.volume.rows.sqlite_session import WHOSE, connect
from bailiwick.stores.volume.volume_copy import VolumeCopied, VolumeCopy

Told = Callable[[int, int | None], None]
"""Told again and again how far a piece of work has come, and of how much where that is known."""

_PAGED_TABLES = ("chunk", "inode", "dentry")
"""What a check goes through, page by page."""


class Compacted(NamedTuple):
    """What the file of a volume took on disk, before and after."""

    bytes_before: int
    bytes_after: int


class Care:
    """One volume. Everything here can be done while others use it, but compacting."""

    def __init__(self, place: VolumePlace, store: VolumeStore) -> None:
        self.place = place
        self._store = store

    @property
    def core(self) -> VolumeCore:
        return self._store.core

    async def info(self) -> Info:
        return await self._store.versions.info()

    async def check(self, *, repair: bool = False, told: Told | None = None) -> Checked:
        """Verify every row, chunk and hash; with ``repair`` mend what can be mended."""
        core = self._store.core
        async with core.looking() as session:
            pages = 0
            for table in _PAGED_TABLES:
                row = await session.row(
                    f"SELECT count(*) FROM {table} WHERE volume = $1",
                    core.view.volume,
                )
                pages += int(row[0]) // PAGE_ROWS + 1 if row else 0
        return await check(core, repair=repair, pace=_pace(told, pages))

    async def collect(self, *, keep_days: float, told: Told | None = None) -> VolumeCollected:
        """Let go of versions older than ``keep_days`` that nothing stands on."""
        return await collect(self._store.core, keep_days, pace=_pace(told, None))

    async def compact(self) -> Compacted:
        """Give what is free in the file back to the disk. Nobody can write meanwhile, and it takes
        as much room again as the file has. Raises `Busy` where others do not let go, and
        `Unsupported` for a database that does so by itself."""
        if not self.place.in_file:
            raise Unsupported("PostgreSQL gives back by itself what is free", hint="see its VACUUM")
        before = _size(self.place.file)
        await in_thread(_compact, self.place.file)
        return Compacted(before, _size(self.place.file))


def _pace(told: Told | None, total: int | None) -> Pace:
    steps = 0

    async def step() -> None:
        nonlocal steps
        steps += 1
        if told is not None:
            told(steps, total)
        await asyncio.sleep(0)

    return step


def read_volume(text: str) -> VolumePlace:
    """The volume that a text such as ``sqlite:agent.db?volume=main`` names, from here."""
    return on_host(parse_volume(text), os.getcwd())


@asynccontextmanager
async def open_care(text: str) -> AsyncIterator[Care]:
    """Open a volume that exists. Raises `RootNotFound`."""
    place = read_volume(text)
    if not await in_thread(has_volume, place):
        raise RootNotFound("there is no such volume")
    store = await _store_of(place)
    try:
        yield Care(place, store)
    finally:
        await store.aclose()


async def create_volume(text: str) -> VolumePlace:
    """Make a volume, and its file where there is none. Raises `FileAlreadyExists`."""
    place = read_volume(text)
    if await in_thread(has_volume, place):
        raise FileAlreadyExists("there is such a volume already")
    store = await _store_of(place)
    await store.aclose()
    return place


async def copy_volume(source: str, target: str, *, told: Told | None = None) -> VolumeCopied:
    """Copy a volume to another database, with all branches and versions.

    Whoever was killed in the middle calls it again, and it goes on. The copy can be opened once it
    is whole and verified. Raises `RootNotFound` where there is no such volume, `FileAlreadyExists`
    where the target holds something else of that name, `Busy` where the source is changed all the
    time, and `IoError` where something in it is damaged.
    """
    there = read_volume(target)
    if (read_volume(source).branch, there.branch) != (MAIN, MAIN):
        raise ParseError("a volume is copied with all its branches", hint="leave out branch=")
    if there.in_file:
        check_file(there)
    async with open_care(source) as care:
        shared = await in_thread(databases.acquire, there.file, Limits())
        try:
            blobs = blobs_of(there) or folder_of(shared)
            copy = VolumeCopy(care.core, shared, blobs, _pace(told, None))
            try:
                return await copy.run(care.place.volume, there.volume)
            finally:
                blobs.close()
        finally:
            shared.release_blocking()


async def discard_copies(target: str, *, told: Told | None = None) -> CopiesDiscarded:
    """Let go of what was begun to be copied to a place, and is not to be gone on with. Raises
    `RootNotFound` where there is nothing of that kind; a volume that is whole is left alone."""
    there = read_volume(target)
    if there.in_file and not await in_thread(_holds_something, there.file):
        raise RootNotFound("there is no such file, or nothing in it")
    shared = await in_thread(databases.acquire, there.file, Limits())
    try:
        blobs = blobs_of(there) or folder_of(shared)
        try:
            return await abandoned_copies.discard_copies(
                shared, blobs, there.volume, _pace(told, None)
            )
        finally:
            blobs.close()
    finally:
        shared.release_blocking()


def has_volume(place: VolumePlace) -> bool:
    """Whether the volume exists. A file that is no volume's counts as one: who opens it is told
    what is wrong with it. Blocks."""
    return databases.has_volume(place.file, place.volume)


async def _store_of(place: VolumePlace) -> VolumeStore:
    store = await in_thread(volume_store, place, Options(), let_go=let_go)
    assert isinstance(store, VolumeStore)
    return store


def _holds_something(file: str) -> bool:
    """Whether this is a file, and not an empty one, which would be made a database by opening
    it."""
    try:
        status = os.stat(file)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _compact(file: str) -> None:
    connection = connect(file)
    try:
        connection.execute("VACUUM")
        # What was written went to the log beside the file: into the file with it, and cut the log.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except apsw.Error as error:
        raise from_sqlite(error, WHOSE) from error
    finally:
        connection.close()


def _size(file: str) -> int:
    """What the file and the log beside it take."""
    return sum(os.path.getsize(each) for each in (file, f"{file}-wal") if os.path.exists(each))
