"""How many names lie beneath a directory that a fork shares with others.

A fork shows its ancestors' names as they were when it was made, and each is looked for in what is
nearer. So they are counted beside the loop, and no more of them than are told.
"""

from __future__ import annotations

import asyncio

from bailiwick.finishing import cancel_at_next_await, to_the_end, wait_through_cancellation
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.database import (
    AnswersAtOnce,
    RowSession,
    run_through,
)
from bailiwick.stores.volume.rows.inner_nodes import NAMES_BENEATH
from bailiwick.stores.volume.rows.records import BranchView
from bailiwick.stores.volume.rows.sqlite_session import SqliteSession


async def count_beneath(core: VolumeCore, version: int, directory: int, limit: int) -> int:
    """How many names lay in a directory and all beneath it, as it was at a version, as far as that
    is not more than ``limit``: on a thread, while others read on.

    Whoever is cancelled meanwhile learns of it at the next await: what is counted has happened.
    """
    holder = object()
    core.hold_version(holder, version)
    try:
        return await _beside(core, core.view._replace(at=version), directory, limit)
    finally:
        core.let_go(holder)


async def _beside(core: VolumeCore, view: BranchView, directory: int, limit: int) -> int:
    if core.at_once is None:
        return await to_the_end(_count(core, view, directory, limit))
    loop = asyncio.get_running_loop()
    counting = loop.run_in_executor(None, _count_blocking, core.at_once, view, directory, limit)
    try:
        return await asyncio.shield(counting)
    except asyncio.CancelledError:
        await wait_through_cancellation(counting)
        cancel_at_next_await()
        return counting.result()


async def _count(core: VolumeCore, view: BranchView, directory: int, limit: int) -> int:
    async with core.looking() as session:
        return await counted(session, view, directory, limit)


def _count_blocking(database: AnswersAtOnce, view: BranchView, directory: int, limit: int) -> int:
    with database.at_hand() as connection:
        return run_through(counted(SqliteSession(connection), view, directory, limit))


async def counted(session: RowSession, view: BranchView, directory: int, limit: int) -> int:
    """How many names lie beneath a directory, at most ``limit``, by a session that has begun to
    look."""
    volume, branch, _, at = view
    row = await session.row(NAMES_BENEATH, volume, branch, at, directory, limit)
    return int(row[0]) if row else 0
