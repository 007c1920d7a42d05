"""Taking away what nobody can look at any more, in steps of a few hundred rows.

A row is seen from the version it was born at until the one it died at. It goes when it died at or
before the horizon, and no root lies in between: roots are the versions that forks were made from,
snapshots, and those up to which branches were merged. Readers hold the horizon back, and a branch
or snapshot that was deleted stays for as long as somebody reads what was there before.

A directory is removed by one row, so what lies in it still looks alive. Once the removal is behind
the horizon, gc ends those rows too, a directory at a time (`fallen`).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import combinations, islice, pairwise
from typing import Final, NamedTuple, TypeVar

from bailiwick.finishing import in_thread
from bailiwick.stores.volume.content.blobs import is_blob
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.retention.release import Releasing
from bailiwick.stores.volume.rows.database import HEAD, RowSession, Transaction
from bailiwick.stores.volume.rows.mutation import GONE
from bailiwick.stores.volume.rows.records import DIRECTORY, NOTHING, BranchView
from bailiwick.stores.volume.rows.tree import RowTree, open_tree
from bailiwick.stores.volume.versions.ancestry import held_by, needs

Result = TypeVar("Result")

STEP_ROWS: Final = 256
"""Rows of one step: a few milliseconds for which writers wait."""

_SETTLE_S: Final = 0.01
"""Longer than it takes to note a hold on what was just looked up."""

_DAY_NS: Final = 24 * 3600 * 10**9

_ORPHAN_AGE_NS: Final = _DAY_NS
"""A blob that no chunk names is of an upload under way, until it is this old."""

_MARK: Final = """
INSERT INTO mark (volume, time_ns, version) VALUES ($1, $2, $3)
ON CONFLICT (volume, time_ns) DO NOTHING
"""
_MARKED: Final = "SELECT max(version) FROM mark WHERE volume = $1 AND time_ns <= $2"
_UNMARK: Final = "DELETE FROM mark WHERE volume = $1 AND version < $2"
_PINNED: Final = """
SELECT min(version) FROM pin WHERE volume = $1 AND session <> $2 AND expires_ms > $3
"""
_UNPIN: Final = "DELETE FROM pin WHERE volume = $1 AND expires_ms <= $2"
_HORIZON: Final = """
UPDATE volume SET horizon = $2 WHERE id = $1 AND horizon < $2
"""
_BRANCHES: Final = "SELECT id FROM branch WHERE volume = $1 ORDER BY id"
_BOUNDS: Final = """
SELECT DISTINCT bound FROM lineage WHERE volume = $1 AND ancestor = $2 AND branch <> $2
"""
_NAMED: Final = """
SELECT CASE WHEN l.bound < s.version THEN l.bound ELSE s.version END FROM lineage l
    JOIN snapshot s ON s.volume = l.volume AND s.branch = l.branch
WHERE l.volume = $1 AND l.ancestor = $2
"""
_TAKEN_OVER: Final = """
SELECT CASE WHEN l.bound < t.upto THEN l.bound ELSE t.upto END FROM lineage l
    JOIN taken t ON t.volume = l.volume AND t.source = l.branch
WHERE l.volume = $1 AND l.ancestor = $2
"""
_DEAD_NAMES: Final = """
SELECT died, parent, name, born FROM dentry
WHERE volume = $1 AND branch = $2 AND died <= $3 AND died < 9223372036854775807
    AND (died, parent, name, born) > ($4, $5, $6, $7)
ORDER BY died, parent, name, born LIMIT $8
"""
_DROP_NAME: Final = """
DELETE FROM dentry WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4 AND born = $5
"""
_NODES: Final = """
SELECT id, born, kind, content FROM inode
WHERE volume = $1 AND branch = $2 AND (id, born) >= ($3, $4) ORDER BY id, born LIMIT $5
"""
_DROP_NODE: Final = "DELETE FROM inode WHERE volume = $1 AND branch = $2 AND id = $3 AND born = $4"
_FALLEN: Final = """
SELECT branch, node, version, after FROM fallen
WHERE volume = $1 AND version <= $2 ORDER BY version LIMIT 1
"""
_IS_FALLEN: Final = "SELECT 1 FROM fallen WHERE volume = $1 AND branch = $2 AND node = $3"
_FALL: Final = """
INSERT INTO fallen (volume, branch, node, version, after) VALUES ($1, $2, $3, $4, '')
ON CONFLICT (volume, branch, node) DO NOTHING
"""
_FALLEN_UPTO: Final = """
UPDATE fallen SET after = $4 WHERE volume = $1 AND branch = $2 AND node = $3
"""
_LANDED: Final = "DELETE FROM fallen WHERE volume = $1 AND branch = $2 AND node = $3"
_END_NAME: Final = """
UPDATE dentry SET died = CASE WHEN born > $5 THEN born ELSE $5 END
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4 AND died = 9223372036854775807
"""
_END_HIDERS: Final = """
UPDATE dentry SET died = CASE WHEN born > $4 THEN born ELSE $4 END
WHERE volume = $1 AND branch = $2 AND parent = $3 AND died = 9223372036854775807
"""
_NEWEST: Final = """
SELECT born, kind FROM inode WHERE volume = $1 AND branch = $2 AND id = $3
ORDER BY born DESC LIMIT 1
"""
_END_NODE: Final = """
INSERT INTO inode (
    volume, branch, id, born, kind, mode, size, mtime_ns, edition, sha256, content, data
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""
_OLD_LOG: Final = """
SELECT version, seq FROM change WHERE volume = $1 AND branch = $2 AND version <= $3
    AND (note IS NULL OR version <= (SELECT drained FROM volume WHERE id = $1))
ORDER BY version, seq LIMIT $4
"""
_DROP_LOG: Final = """
DELETE FROM change WHERE volume = $1 AND branch = $2 AND version = $3 AND seq = $4
"""
_ABANDONED: Final = """
SELECT id FROM branch b WHERE volume = $1 AND name IS NULL AND expires_ms <= $2
    AND (ended IS NULL OR ended <= $3)
    AND NOT EXISTS (SELECT 1 FROM lineage l
        WHERE l.volume = $1 AND l.ancestor = b.id AND l.branch <> b.id)
    AND NOT EXISTS (SELECT 1 FROM snapshot s WHERE s.volume = $1 AND s.branch = b.id)
    AND NOT EXISTS (SELECT 1 FROM change c
        WHERE c.volume = $1 AND c.branch = b.id AND c.note IS NOT NULL
        AND c.version > (SELECT drained FROM volume WHERE id = $1)
        AND c.verb NOT IN ('stage', 'discard'))
"""
_ENDED_SNAPSHOTS: Final = "DELETE FROM snapshot WHERE volume = $1 AND ended <= $2"
_TAKERS: Final = "SELECT count(DISTINCT branch) FROM taken WHERE volume = $1 AND source = $2"
# What can be merged, now or once it is forked from.
_MERGEABLE: Final = """
SELECT id, 9223372036854775806 FROM branch WHERE volume = $1 AND name IS NOT NULL
UNION ALL SELECT branch, version FROM snapshot WHERE volume = $1 AND ended IS NULL
"""
_TAKEN: Final = """
SELECT source, version FROM taken WHERE volume = $1 AND branch = $2 ORDER BY source, version
"""
_DROP_TAKEN: Final = """
DELETE FROM taken WHERE volume = $1 AND branch = $2 AND source = $3 AND version = $4
"""
# Whoever holds a branch that only one took over holds that one too, as it was then.
_DROP_GONE: Final = """
DELETE FROM taken WHERE volume = $1
    AND NOT EXISTS (SELECT 1 FROM branch b WHERE b.volume = $1 AND b.id = taken.source)
    AND NOT EXISTS (SELECT 1 FROM taken o
        WHERE o.volume = $1 AND o.source = taken.source AND o.branch <> taken.branch)
"""


class VolumeCollected(NamedTuple):
    """What a collection took away, and the oldest version that is still kept."""

    horizon: str
    names: int
    nodes: int
    contents: int
    chunks: int
    blobs: int
    steps: int


Pace = Callable[[], Awaitable[None]]


async def unpaced() -> None:
    """No pace at all: only whoever waits comes first."""
    await asyncio.sleep(0)


async def collect(
    core: VolumeCore,
    keep_days: float,
    *,
    pace: Pace = unpaced,
    orphans: bool = True,
    unless: str | None = None,
) -> VolumeCollected:
    """One whole pass. Each step is a change of its own, so that nobody waits for long; ``pace`` is
    awaited between two of them. With ``orphans`` the blob store is looked through as well. Where
    the horizon is ``unless`` still, which was passed before, that is all."""
    gc = _Collector(core, pace)
    await gc.settle_horizon(keep_days)
    if gc.result().horizon == unless:
        return gc.result()
    await gc.push_down()
    await gc.drop_abandoned()
    for branch in await gc.branches():
        await gc.drop_taken(branch)
        await gc.drop_names(branch)
        await gc.drop_nodes(branch)
        await gc.drop_log(branch)
    await gc.drop_left_over()
    await gc.delete_blobs()
    if orphans:
        await gc.delete_orphans()
    return gc.result()


class _Collector:
    def __init__(self, core: VolumeCore, pace: Pace) -> None:
        self._core = core
        self._pace = pace
        self._volume = core.view.volume
        self._horizon = 0
        self._read_from = 0  # the oldest version that somebody reads, if it is not the newest
        self._names = self._nodes = self._blobs = self._steps = 0
        self._releasing = Releasing(self._volume)
        self._cut_off: set[tuple[int, int]] = set()  # in a branch, what lies in what is gone

    def result(self) -> VolumeCollected:
        released = self._releasing
        return VolumeCollected(
            str(self._horizon), self._names, self._nodes, released.contents, released.chunks,
            self._blobs, self._steps,
        )  # fmt: skip

    async def _step(self, job: Callable[[Transaction], Awaitable[Result]]) -> Result:
        self._steps += 1

        async def run(transaction: Transaction) -> Result:
            return await job(transaction)

        self._core.check_open()
        result = await self._core.database.write(run)
        await self._pace()
        return result

    async def settle_horizon(self, keep_days: float) -> None:
        """How far back everything is kept: by time, and by what is being read."""
        core, volume = self._core, self._volume
        async with core.looking() as session:
            row = await session.row("SELECT last FROM volume WHERE id = $1", volume)
        newest = row[0] if row else 0
        # Whoever has just looked at something that was replaced before this has said so by now.
        await asyncio.sleep(_SETTLE_S)

        async def job(turn: Transaction) -> tuple[int, int]:
            now_ns, last = core.clock_ns(), newest
            await turn.session.run(_MARK, volume, now_ns, last)
            cutoff = now_ns - int(keep_days * _DAY_NS)
            row = await turn.session.row(_MARKED, volume, cutoff)
            horizon = row[0] if row and row[0] is not None else 0
            pinned = await turn.session.row(
                _PINNED, volume, core.database.shared.session, now_ns // 1_000_000
            )
            read_from = min(last, core.database.shared.oldest_held(volume))
            if pinned and pinned[0] is not None:
                read_from = min(read_from, pinned[0])
            horizon = min(horizon, read_from)
            await turn.session.run(_UNPIN, volume, now_ns // 1_000_000)
            await turn.session.run(_HORIZON, volume, horizon)
            await turn.session.run(_UNMARK, volume, horizon)
            row = await turn.session.row("SELECT horizon FROM volume WHERE id = $1", volume)
            return row[0] if row else 0, read_from

        self._horizon, self._read_from = await self._step(job)

    async def branches(self) -> list[int]:
        async with self._core.looking() as session:
            return [row[0] for row in await session.rows(_BRANCHES, self._volume)]

    # --- what was removed with its directory ---------------------------------------------------

    async def push_down(self) -> None:
        while await self._step(self._push_down_some):
            pass

    async def _push_down_some(self, turn: Transaction) -> bool:
        """Small directories share a step: one for each would be a commit for each."""
        rows = 0
        while rows < STEP_ROWS:
            ended = await self._push_down_one(turn, STEP_ROWS - rows)
            if ended is None:
                return False
            rows += ended + 1
        return True

    async def _push_down_one(self, turn: Transaction, most: int) -> int | None:
        """End what lies in one directory, at most so many names; how many, None where there is no
        such directory any more."""
        row = await turn.session.row(_FALLEN, self._volume, self._horizon)
        if row is None:
            return None
        branch, node, version, after = row
        key = (self._volume, branch, node)
        tree = await open_tree(
            turn.session, BranchView(self._volume, branch, self._core.view.root, HEAD)
        )
        if await tree.inode(node) is not None:
            # A stage that nobody published, or what a fork shares with others: nothing ever said
            # that it is gone. Where its directory was found to be, that is not looked for again.
            cut_off = (branch, node) in self._cut_off
            if not cut_off and await tree.way_up(node) is not None:
                await turn.session.run(_LANDED, *key)
                return 0
            await self._end_node(turn, branch, node, version)
        children = await tree.children(node, after, most)
        for name, bound in children:
            await turn.session.run(_END_NAME, *key, name, version)
            await self._end_node(turn, branch, bound.node, version)
            if bound.kind == DIRECTORY:
                await turn.session.run(_FALL, self._volume, branch, bound.node, version)
                self._cut_off.add((branch, bound.node))
        if len(children) == most:
            await turn.session.run(_FALLEN_UPTO, *key, children[-1][0])
        else:
            await turn.session.run(_END_HIDERS, *key, version)
            await turn.session.run(_LANDED, *key)
            self._cut_off.discard((branch, node))
        return len(children)

    async def _end_node(self, turn: Transaction, branch: int, node: int, version: int) -> None:
        """Say that a node is gone, in a branch that has said anything of it."""
        newest = await turn.session.row(_NEWEST, self._volume, branch, node)
        if newest is not None and newest[1] != NOTHING:
            born = max(version, newest[0] + 1)
            await turn.session.run(_END_NODE, self._volume, branch, node, born, *GONE)

    # --- rows that nobody sees ----------------------------------------------------------------

    async def _roots(self, session: RowSession, branch: int) -> list[int]:
        """The versions of a branch that are kept whatever their age, sorted."""
        roots: set[int] = set()
        for sql in (_BOUNDS, _NAMED, _TAKEN_OVER):
            roots.update(row[0] for row in await session.rows(sql, self._volume, branch))
        return sorted(roots)

    async def drop_names(self, branch: int) -> None:
        after = (0, 0, "", 0)

        async def job(turn: Transaction) -> tuple[int, int, str, int] | None:
            roots = await self._roots(turn.session, branch)
            rows = await turn.session.rows(
                _DEAD_NAMES, self._volume, branch, self._horizon, *after, STEP_ROWS
            )
            for died, parent, name, born in rows:
                if not _is_seen(roots, born, died):
                    await turn.session.run(_DROP_NAME, self._volume, branch, parent, name, born)
                    self._names += 1
            return rows[-1] if len(rows) == STEP_ROWS else None

        following: tuple[int, int, str, int] | None = after
        while following is not None:
            after = following
            following = await self._step(job)

    async def drop_nodes(self, branch: int) -> None:
        position: tuple[int, int] | None = (0, 0)
        while position is not None:
            job = partial(self._drop_some_nodes, branch, position)
            position = await self._step(job)

    async def _drop_some_nodes(
        self, branch: int, start: tuple[int, int], turn: Transaction
    ) -> tuple[int, int] | None:
        """Look at rows from ``start`` on; returns where to go on, None at the end."""
        roots = await self._roots(turn.session, branch)
        tree = await open_tree(
            turn.session, BranchView(self._volume, branch, self._core.view.root, HEAD)
        )
        rows = await turn.session.rows(_NODES, self._volume, branch, *start, STEP_ROWS)
        more = len(rows) == STEP_ROWS
        for index, (node, born, kind, content) in enumerate(rows):
            following = rows[index + 1] if index + 1 < len(rows) else None
            if following is None and more:
                return node, born
            if following is not None and following[0] == node:
                if following[1] <= self._horizon and not _is_seen(roots, born, following[1]):
                    await self._drop_node(turn, branch, node, born, content)
            elif kind == NOTHING and born <= self._horizon:
                await self._drop_tombstone(turn, tree, node, born)
        return None

    async def _drop_node(
        self, turn: Transaction, branch: int, node: int, born: int, content: int | None
    ) -> None:
        await turn.session.run(_DROP_NODE, self._volume, branch, node, born)
        self._nodes += 1
        if content is not None:
            await self._releasing.release(turn, content)

    async def _drop_tombstone(self, turn: Transaction, tree: RowTree, node: int, born: int) -> None:
        """A row that says that a node is gone goes last, and only if nothing shows the node."""
        branch = tree.view.branch
        older = await turn.session.row(_OLDER, self._volume, branch, node, born)
        if older is not None or await tree.inode_uncached(node, depth=1) is not None:
            return
        if await turn.session.row(_IS_FALLEN, self._volume, branch, node) is None:
            await self._drop_node(turn, branch, node, born, None)

    async def drop_log(self, branch: int) -> None:
        """Changes that no undo, diff or merge can ask for: those of the first branch up to the
        horizon, unless a fork from before them is still compared with it."""

        async def job(turn: Transaction) -> bool:
            levels = await open_tree(
                turn.session, BranchView(self._volume, branch, self._core.view.root, HEAD)
            )
            if len(levels.levels) > 1:
                return False
            bounds = [row[0] for row in await turn.session.rows(_BOUNDS, self._volume, branch)]
            upto = min([self._horizon, *bounds])
            rows = await turn.session.rows(_OLD_LOG, self._volume, branch, upto, STEP_ROWS)
            for version, seq in rows:
                await turn.session.run(_DROP_LOG, self._volume, branch, version, seq)
            return len(rows) == STEP_ROWS

        while await self._step(job):
            pass

    # --- branches, uploads and blobs ----------------------------------------------------------

    async def drop_abandoned(self) -> None:
        """Take away branches that nobody can open, reads, stands on, or has yet to make a record
        of; and snapshots that were deleted."""
        now_ms = self._core.clock_ns() // 1_000_000

        async def job(turn: Transaction) -> bool:
            session = turn.session
            await session.run(_ENDED_SNAPSHOTS, self._volume, self._read_from)
            rows = await session.rows(_ABANDONED, self._volume, now_ms, self._read_from)
            for (branch,) in rows:
                if not await self._is_origin(session, branch):
                    return await self._drop_branch(turn, branch)
            await session.run(_DROP_GONE, self._volume)
            return False

        while await self._step(job):
            pass

    async def _is_origin(self, session: RowSession, branch: int) -> bool:
        """Whether others took it over whose merge has to look at it. Where only one did, whoever
        else holds it has it from there."""
        takers = await session.row(_TAKERS, self._volume, branch)
        if takers is None or takers[0] < 2:
            return False
        rows = await session.rows(_MERGEABLE, self._volume)
        holders = [await held_by(session, self._volume, each, at) for each, at in rows]
        for a, b in combinations([held for held in holders if branch in held], 2):
            if await needs(session, self._volume, branch, a, b):
                return True
        return False

    async def drop_taken(self, branch: int) -> None:
        """Forget what a branch held at versions that nobody can ask for."""

        async def job(turn: Transaction) -> None:
            roots = await self._roots(turn.session, branch)
            rows = await turn.session.rows(_TAKEN, self._volume, branch)
            for (source, version), (following, until) in pairwise(rows):
                superseded = source == following and until <= self._horizon
                if superseded and not _is_seen(roots, version, until):
                    await turn.session.run(_DROP_TAKEN, self._volume, branch, source, version)

        await self._step(job)

    async def _drop_branch(self, turn: Transaction, branch: int) -> bool:
        """Take away some rows of a branch that nobody can open; in the end, the branch."""
        rows = await turn.session.rows(_NODES, self._volume, branch, 0, 0, STEP_ROWS)
        for node, born, _, content in rows:
            await self._drop_node(turn, branch, node, born, content)
        if rows:
            return True
        for table in ("dentry", "change", "fallen", "lease", "taken", "lineage"):
            await turn.session.run(_DROP_ROWS[table], self._volume, branch)
        await turn.session.run(_DROP_BRANCH, self._volume, branch)
        return True

    async def drop_left_over(self) -> None:
        now_ms = self._core.clock_ns() // 1_000_000
        while await self._step(lambda turn: self._releasing.release_expired(turn, now_ms)):
            pass

    async def delete_blobs(self) -> None:
        """Delete blobs that were let go of."""
        core = self._core
        async with core.looking() as session:
            keys = await self._releasing.doomed(session)
        for key in keys:
            await in_thread(core.blobs.delete, key)
            self._blobs += 1
        if keys:
            await self._step(lambda turn: self._releasing.forget_doomed(turn, keys))

    async def delete_orphans(self) -> None:
        """Delete blobs that no chunk ever came to name."""
        core = self._core
        oldest_ns = core.clock_ns() - _ORPHAN_AGE_NS
        prefix = core.identity.uid
        listing = core.blobs.all(prefix)
        # A page at a time: there may be more of them than fit into memory.
        while page := await in_thread(lambda: list(islice(listing, STEP_ROWS))):
            old = [blob.key for blob in page if blob.mtime_ns < oldest_ns and is_blob(blob.key)]
            for key in old:
                async with core.looking() as session:
                    named = await self._releasing.is_named(session, key)
                if not named:
                    await in_thread(core.blobs.delete, key)
                    self._blobs += 1


_OLDER: Final = """
SELECT 1 FROM inode WHERE volume = $1 AND branch = $2 AND id = $3 AND born < $4 LIMIT 1
"""
_DROP_ROWS: Final = {
    table: f"DELETE FROM {table} WHERE volume = $1 AND branch = $2"
    for table in ("dentry", "change", "fallen", "lease", "taken", "lineage")
}
_DROP_BRANCH: Final = "DELETE FROM branch WHERE volume = $1 AND id = $2"


def _is_seen(roots: list[int], born: int, died: int) -> bool:
    """Whether a root lies where the row is seen."""
    index = bisect_left(roots, born)
    return index < len(roots) and roots[index] < died
