"""Forgetting: entries older than the retention, and content that none refers to any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, NamedTuple

import apsw

from bailiwick.errors import PathNotFound
from bailiwick.store import Store
from bailiwick.stores.history.contents import INCOMING, place_of
from bailiwick.stores.history.core import HistoryCore

_ENTRIES_A_STEP: Final = 200
"""Entries forgotten in one transaction: others wait no longer than that takes."""

_SPARED_NS: Final = 3600 * 10**9
"""Content that was kept within the hour is spared: the change it is for may not be noted yet."""

_OLD: Final = "SELECT id FROM entry WHERE time_ns < ? AND owner = '' ORDER BY id LIMIT ?"
_NEEDLESS: Final = """
SELECT sha256, data IS NULL FROM content c WHERE kept_ns < ?
    AND NOT EXISTS (SELECT 1 FROM effect WHERE before_sha = c.sha256)
    AND NOT EXISTS (SELECT 1 FROM effect WHERE after_sha = c.sha256)
LIMIT ?
"""


class HistoryCollected(NamedTuple):
    """What was forgotten."""

    entries: int
    contents: int


async def collect(
    core: HistoryCore, keep_days: float, *, spared_ns: int = _SPARED_NS
) -> HistoryCollected:
    """In small steps; whoever writes meanwhile waits for one of them at most."""
    now_ns = time.time_ns()
    entries = contents = 0
    while forgotten := await core.ledger.run(_forgetting(now_ns - int(keep_days * 86_400e9))):
        entries += forgotten
        await asyncio.sleep(0)
    large: list[bytes] = []
    while gone := await core.ledger.run(_clearing(now_ns - spared_ns)):
        contents += len(gone)
        large += [sha256 for sha256, is_large in gone if is_large]
        await asyncio.sleep(0)
    for sha256 in large:
        await _take_away(core.keeper, sha256)
    await _clear_incoming(core.keeper, now_ns - spared_ns)
    if core.collect is not None:
        await core.collect()
    return HistoryCollected(entries, contents)


def _forgetting(before_ns: int) -> Callable[[apsw.Connection], int]:
    def job(connection: apsw.Connection) -> int:
        ids = [row[0] for row in connection.execute(_OLD, (before_ns, _ENTRIES_A_STEP))]
        for entry in ids:
            connection.execute("DELETE FROM effect WHERE entry = ?", (entry,))
            connection.execute("DELETE FROM entry WHERE id = ?", (entry,))
        if ids:
            connection.execute("UPDATE counter SET horizon = max(horizon, ?)", (ids[-1],))
        return len(ids)

    return job


def _clearing(before_ns: int) -> Callable[[apsw.Connection], list[tuple[bytes, bool]]]:
    def job(connection: apsw.Connection) -> list[tuple[bytes, bool]]:
        rows: list[Any] = connection.execute(_NEEDLESS, (before_ns, _ENTRIES_A_STEP)).fetchall()
        for sha256, _ in rows:
            connection.execute("DELETE FROM content WHERE sha256 = ?", (sha256,))
        return [(sha256, bool(large)) for sha256, large in rows]

    return job


async def _take_away(keeper: Store, sha256: bytes) -> None:
    try:
        with closing(await keeper.resolve(place_of(sha256.hex()), "entry")) as entry:
            await keeper.remove(entry, recursive=False)
    except PathNotFound:
        return


async def _clear_incoming(keeper: Store, before_ns: int) -> None:
    """Content on its way in when its process died."""
    try:
        directory = await keeper.resolve(INCOMING, "object")
    except PathNotFound:
        return
    with closing(directory):
        left = [
            child.name
            for child in (await keeper.children(directory)).entries
            if child.mtime_ns < before_ns
        ]
    for name in left:
        with closing(await keeper.resolve(INCOMING.child(name), "entry")) as entry:
            try:
                await keeper.remove(entry, recursive=False)
            except PathNotFound:
                continue
