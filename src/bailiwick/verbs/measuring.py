"""How much a whole tree holds: for quotas, which bound what is there, whoever put it there."""

from __future__ import annotations

import asyncio
from contextlib import closing

from bailiwick.errors import BailiwickError
from bailiwick.paths import ROOT
from bailiwick.store import Handle, Store

_ENTRIES_AT_ONCE = 10_000


async def measure(store: Store) -> tuple[int, int]:
    """The bytes and files beneath the root of a store. What cannot be read is not counted."""
    with closing(await store.resolve(ROOT, "object")) as top:
        return await measure_in(store, top)


async def measure_in(store: Store, directory: Handle) -> tuple[int, int]:
    """The same beneath a held directory."""
    size = files = 0
    after: str | None = None
    while True:
        page = await store.children(directory, after=after, limit=_ENTRIES_AT_ONCE)
        for child in page.entries:
            if child.type == "file":
                size, files = size + child.size, files + 1
            elif child.type == "directory" and child.addressable:
                try:
                    with closing(await store.descend(directory, child.name)) as below:
                        inner = await measure_in(store, below)
                except BailiwickError:
                    continue
                size, files = size + inner[0], files + inner[1]
        await asyncio.sleep(0)
        if not page.more or not page.entries:
            return size, files
        after = page.entries[-1].name
