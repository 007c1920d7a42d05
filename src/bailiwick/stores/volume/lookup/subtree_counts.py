"""How many names lie beneath a directory that a fork shares with others, without visiting each.

A fork shows its ancestors' names as they were when it was made. Almost all of them are still alive,
and living names are counted in an index without a look at their rows. What is not so is found one
by one: names that ended after the fork, that came after it, that hide others, or are hidden.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bailiwick.finishing import cancel_at_next_await, to_the_end, wait_through_cancellation
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.database import (
    AnswersAtOnce,
    RowSession,
    SpelledTwice,
    run_through,
)
from bailiwick.stores.volume.rows.records import BranchView
from bailiwick.stores.volume.rows.sqlite_session import SqliteSession

_HORIZON: Final = "SELECT horizon FROM volume WHERE id = $1"
_OLDEST_BOUND: Final = "SELECT min(bound) FROM lineage WHERE volume = $1 AND branch = $2"

_NOT_HIDDEN: Final = """
NOT EXISTS (SELECT 1 FROM level k CROSS JOIN dentry f
    WHERE k.depth < d.depth AND f.volume = $1 AND f.branch = k.branch AND f.parent = d.parent
        AND f.name = d.name AND f.born <= k.bound AND f.died > k.bound)
"""

# `level` is each ancestor as it is seen; `ended` names that it had then and has no more;
# `inner_node` the directories beneath. Living names are counted, those that are not seen are taken
# off again, and so is whatever a nearer level knows better.
_LEVELS: Final = """
WITH RECURSIVE level (depth, branch, bound) AS MATERIALIZED (
    SELECT depth, ancestor, CASE WHEN bound < $3 THEN bound ELSE $3 END FROM lineage
    WHERE volume = $1 AND branch = $2
),
ended (depth, parent, name, node, kind) AS MATERIALIZED (
    SELECT l.depth, d.parent, d.name, d.node, d.kind FROM level l CROSS JOIN dentry d
    WHERE d.volume = $1 AND d.branch = l.branch AND d.died > l.bound
        AND d.died < 9223372036854775807 AND d.born <= l.bound
),
"""
_ALIVE_INNER: Final = """
        SELECT l.depth, e.parent, e.name, e.node FROM level l CROSS JOIN dentry e
        WHERE e.volume = $1 AND e.branch = l.branch AND e.born <= l.bound
            AND e.died = 9223372036854775807 AND e.kind = 2
"""
# PostgreSQL has one arm that refers to what is found so far; with two SQLite takes half the time.
_TREE: Final = SpelledTwice(
    f"""
{_LEVELS}
inner_node (id) AS (
    SELECT CAST($4 AS BIGINT)
    UNION
    SELECT d.node FROM inner_node n CROSS JOIN ({_ALIVE_INNER}) d
    WHERE d.parent = n.id AND {_NOT_HIDDEN}
    UNION
    SELECT d.node FROM inner_node n CROSS JOIN ended d
    WHERE d.parent = n.id AND d.kind = 2 AND {_NOT_HIDDEN}
)
""",
    postgres=f"""
{_LEVELS}
inner_node (id) AS (
    SELECT CAST($4 AS BIGINT)
    UNION
    SELECT d.node FROM inner_node n CROSS JOIN (
        {_ALIVE_INNER} UNION ALL SELECT depth, parent, name, node FROM ended WHERE kind = 2
    ) d WHERE d.parent = n.id AND {_NOT_HIDDEN}
)
""",
)
_UNSEEN: Final = """
    + (SELECT count(*) FROM ended d WHERE d.kind <> 0 AND d.parent IN (SELECT id FROM inner_node))
    - (SELECT count(*) FROM level l CROSS JOIN dentry d
        WHERE d.volume = $1 AND d.branch = l.branch AND d.node = 0 AND d.born <= l.bound
            AND d.died = 9223372036854775807 AND d.parent IN (SELECT id FROM inner_node))
    - (SELECT count(*) FROM (SELECT DISTINCT j.depth, d.parent, d.name
        FROM inner_node n CROSS JOIN level k CROSS JOIN dentry d CROSS JOIN level j
            CROSS JOIN dentry f
        WHERE k.depth < (SELECT max(depth) FROM level)
            AND d.volume = $1 AND d.branch = k.branch AND d.parent = n.id
            AND d.born <= k.bound AND d.died > k.bound AND j.depth > k.depth
            AND f.volume = $1 AND f.branch = j.branch AND f.parent = d.parent
            AND f.name = d.name AND f.born <= j.bound AND f.died > j.bound AND f.kind <> 0))
"""
_ALIVE: Final = """
SELECT (SELECT count(*) FROM inner_node n CROSS JOIN level l CROSS JOIN dentry d
    WHERE d.volume = $1 AND d.branch = l.branch AND d.parent = n.id
        AND d.died = 9223372036854775807)
    - (SELECT count(*) FROM (SELECT DISTINCT l.branch, l.bound, c.parent, c.name
            FROM level l CROSS JOIN change c
            WHERE c.volume = $1 AND c.branch = l.branch AND c.version > l.bound AND c.parent <> 0
                AND c.parent IN (SELECT id FROM inner_node)) c CROSS JOIN dentry d
        WHERE d.volume = $1 AND d.branch = c.branch AND d.parent = c.parent AND d.name = c.name
            AND d.died = 9223372036854775807 AND d.born > c.bound)
"""
"""Names that came later are in the log."""

_ALIVE_BY_ROWS: Final = """
SELECT (SELECT count(*) FROM inner_node n CROSS JOIN level l CROSS JOIN dentry d
    WHERE d.volume = $1 AND d.branch = l.branch AND d.parent = n.id AND d.born <= l.bound
        AND d.died = 9223372036854775807)
"""
"""The same where the log does not reach back so far: twice the time."""


def _counting(alive: str) -> SpelledTwice:
    return SpelledTwice(f"{_TREE}{alive}{_UNSEEN}", postgres=f"{_TREE.postgres}{alive}{_UNSEEN}")


_BY_LOG: Final = _counting(_ALIVE)
_BY_ROWS: Final = _counting(_ALIVE_BY_ROWS)


async def count_beneath(core: VolumeCore, view: BranchView, directory: int) -> int:
    """How many names lay in a directory and all beneath it, on a thread, while others read on.

    Whoever is cancelled meanwhile learns of it at the next await: what is counted has happened.
    """
    if core.at_once is None:
        return await to_the_end(_count(core, view, directory))
    loop = asyncio.get_running_loop()
    counting = loop.run_in_executor(None, _count_blocking, core.at_once, view, directory)
    try:
        return await asyncio.shield(counting)
    except asyncio.CancelledError:
        await wait_through_cancellation(counting)
        cancel_at_next_await()
        return counting.result()


async def _count(core: VolumeCore, view: BranchView, directory: int) -> int:
    async with core.looking() as session:
        return await counted(session, view, directory)


def _count_blocking(database: AnswersAtOnce, view: BranchView, directory: int) -> int:
    with database.at_hand() as connection:
        return run_through(counted(SqliteSession(connection), view, directory))


async def counted(session: RowSession, view: BranchView, directory: int) -> int:
    """How many names lie beneath a directory, by a session that has begun to look."""
    volume, branch, _, at = view
    horizon = await session.row(_HORIZON, volume)
    oldest = await session.row(_OLDEST_BOUND, volume, branch)
    since = min(oldest[0] if oldest and oldest[0] else 0, at)
    statement = _BY_LOG if since >= (horizon[0] if horizon else 0) else _BY_ROWS
    row = await session.row(statement, volume, branch, at, directory)
    return int(row[0]) if row else 0
