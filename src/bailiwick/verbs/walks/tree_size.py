"""How much a whole tree holds: for quotas, which bound what is there, whoever put it there."""

from __future__ import annotations

import asyncio
from contextlib import closing

from bailiwick.errors import BailiwickError
from bailiwick.paths import DEPTH_MAX, ROOT
from bailiwick.store import Handle, Reader

_ENTRIES_AT_ONCE = 10_000


async def measure(store: Reader) -> tuple[int, int]:
    """The bytes and files beneath the root of a store. What cannot be read is not counted."""
    with closing(await store.resolve(ROOT, "object")) as top:
        return await measure_in(store, top)


async def measure_in(store: Reader, directory: Handle) -> tuple[int, int]:
    """The bytes and files beneath a held directory. Deeper than a path can name nothing counts:
    nobody got there through a scope."""
    size = files = 0
    levels = [_MeasuredLevel(directory)]
    try:
        while levels:
            level = levels[-1]
            if level.inner:
                below = await _opened(store, level)
                if below is not None:
                    levels.append(_MeasuredLevel(below))
                continue
            if not level.more:
                levels.pop()
                if level.directory is not directory:
                    level.directory.close()
                continue
            more_size, more_files = await _count_page(store, level, top=len(levels) == 1)
            size, files = size + more_size, files + more_files
            await asyncio.sleep(0)
    finally:
        for level in levels:
            if level.directory is not directory:
                level.directory.close()
    return size, files


class _MeasuredLevel:
    """One directory that is measured: what lies in it, a page at a time."""

    def __init__(self, directory: Handle) -> None:
        self.directory = directory
        self.after: str | None = None
        self.more = True
        self.inner: list[str] = []


async def _opened(store: Reader, level: _MeasuredLevel) -> Handle | None:
    try:
        return await store.descend(level.directory, level.inner.pop())
    except BailiwickError:
        return None


async def _count_page(store: Reader, level: _MeasuredLevel, *, top: bool) -> tuple[int, int]:
    size = files = 0
    goes_on = level.directory.path.levels < DEPTH_MAX
    try:
        page = await store.children(level.directory, after=level.after, limit=_ENTRIES_AT_ONCE)
    except BailiwickError:
        if top:
            raise
        level.more = False
        return 0, 0
    for child in page.entries:
        if child.type == "file":
            size, files = size + child.size, files + 1
        elif child.type == "directory" and child.addressable and goes_on:
            level.inner.append(child.name)
    level.more = page.more and bool(page.entries)
    level.after = page.entries[-1].name if page.entries else None
    return size, files
