"""Whether the rows of a volume agree with each other.

A name and a node carry a sum over themselves, content has its hashes. The rest is held against what
else is known: a piece against the list it is in, a branch against its ancestors, and the log of
changes against the rows that each change made and ended. So a value that was altered is found where
anything else in the volume says what it should be. What stands nowhere else (who made a change, the
name of a branch) cannot be found like this; docs/volumes.md lists it.

Each page is one look, and only what must hold at every moment is asked: others may write meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from bailiwick.stores.volume.content.chunks import SHARED_BYTES_MIN
from bailiwick.stores.volume.core import FIRST, GUARDED, VolumeCore
from bailiwick.stores.volume.retention.garbage import Pace
from bailiwick.stores.volume.rows.checksums import log_guard, row_guard
from bailiwick.stores.volume.rows.database import HEAD, INFINITY, Row
from bailiwick.stores.volume.rows.records import NOTHING

PAGE_ROWS: Final = 256

_KEYS_MAX: Final = 200_000
"""Keys of the log that are remembered: about 30 MB. A version that touched more is read again."""

_TABLES: Final = (
    "branch", "lineage", "snapshot", "dentry", "inode", "content", "manifest", "chunk", "upload",
    "doomed", "fallen", "change", "lease", "pin", "mark", "taken",
)  # fmt: skip
# From one value to the next by the index: to look at every row would take as long as all the rest.
_STRAY: Final = """
WITH RECURSIVE found (number) AS (
    SELECT min(volume) FROM {0}
    UNION ALL SELECT (SELECT min(volume) FROM {0} WHERE volume > number) FROM found
    WHERE number IS NOT NULL
)
SELECT 1 FROM found WHERE number NOT IN (SELECT id FROM volume) LIMIT 1
"""
_OF_NO_BRANCH: Final = """
WITH RECURSIVE found (number) AS (
    SELECT min(branch) FROM {0} WHERE volume = $1
    UNION ALL SELECT (SELECT min(branch) FROM {0} WHERE volume = $1 AND branch > number) FROM found
    WHERE number IS NOT NULL
)
SELECT 1 FROM found WHERE number <> 0 AND NOT EXISTS (
    SELECT 1 FROM branch b WHERE b.volume = $1 AND b.id = number) LIMIT 1
"""
_BRANCHED: Final = (
    "lineage", "snapshot", "dentry", "inode", "fallen", "change", "lease", "taken",
)  # fmt: skip

_STANDING: Final = """EXISTS (SELECT 1 FROM branch b
    WHERE b.volume = r.volume AND b.id = r.branch AND b.name IS NOT NULL)"""
_KEPT: Final = "r.{} > (SELECT horizon FROM volume v WHERE v.id = r.volume)"


class _Law(NamedTuple):
    """What holds for every row of a table. ``keys`` say where a page ends."""

    what: str
    table: str
    keys: tuple[str, ...]
    holds: str
    first: tuple[Any, ...] = (0,)

    @property
    def sql(self) -> str:
        keys = ", ".join(f"r.{key}" for key in self.keys)
        given = ", ".join(f"${number}" for number in range(2, len(self.keys) + 2))
        return f"""
            SELECT {keys}, ({self.holds}) FROM {self.table} r
            WHERE r.volume = $1 AND ({keys}) > ({given})
            ORDER BY {keys} LIMIT ${len(self.keys) + 2}
        """


_LAWS: Final = (
    _Law(
        "chunk {}: its row is damaged", "chunk", ("id",),
        f"""r.shared = CASE WHEN r.size >= {SHARED_BYTES_MIN} THEN 1 ELSE 0 END
        AND (r.data IS NULL) = (r.blob IS NOT NULL)
        AND (r.packed IS NULL OR r.data IS NULL OR r.packed = length(r.data))
        AND (r.blob IS NULL OR r.blob LIKE (SELECT uid FROM volume v WHERE v.id = r.volume) || '/%')
        """,
    ),
    # An upload under way has pieces where they are found, and no size yet.
    _Law(
        "content {}: its row does not fit its pieces", "content", ("id",),
        """r.size = 0 AND r.base IS NULL AND r.keep = 0 AND r.depth = 0 AND EXISTS (
            SELECT 1 FROM upload u WHERE u.volume = r.volume AND u.content = r.id)
        OR (r.size = coalesce((SELECT max(m.start + m.size) FROM manifest m
                WHERE m.volume = r.volume AND m.content = r.id), r.keep)
            AND r.size - r.keep = coalesce((SELECT sum(m.size) FROM manifest m
                WHERE m.volume = r.volume AND m.content = r.id), 0)
            AND CASE WHEN r.base IS NULL THEN r.keep = 0 AND r.depth = 0
                ELSE EXISTS (SELECT 1 FROM content c WHERE c.volume = r.volume AND c.id = r.base
                    AND c.size >= r.keep AND c.depth + 1 = r.depth) END)""",
    ),
    _Law(
        "node {1}, version {2}: its content has another size, or it has two", "inode",
        ("branch", "id", "born"),
        """CASE WHEN r.kind IN (0, 2) THEN r.data IS NULL AND r.content IS NULL
        WHEN r.content IS NOT NULL THEN r.data IS NULL AND r.size = coalesce((
            SELECT c.size FROM content c WHERE c.volume = r.volume AND c.id = r.content), r.size)
        ELSE 1 = 1 END""", (0, 0, 0),
    ),
    _Law(
        "snapshot {}: it is of a version that cannot be", "snapshot", ("name",),
        """r.version <= (SELECT last FROM volume v WHERE v.id = r.volume)
        AND (r.ended IS NULL) = (r.name NOT LIKE '%#%')
        AND r.version >= (SELECT b.at FROM branch b
            WHERE b.volume = r.volume AND b.id = r.branch)""", ("",),
    ),
    _Law(
        "branch {}: its row is damaged", "branch", ("id",),
        f"""CASE WHEN r.id = {FIRST} THEN r.parent = 0 AND r.at = 0 AND r.name = 'main'
        ELSE EXISTS (SELECT 1 FROM lineage l WHERE l.volume = r.volume AND l.branch = r.id
            AND l.depth = 1 AND l.ancestor = r.parent AND l.bound = r.at)
        END AND CASE WHEN r.name IS NOT NULL THEN r.expires_ms = {INFINITY} AND r.ended IS NULL
            ELSE r.expires_ms < {INFINITY} AND (r.ended IS NULL OR r.expires_ms = 0) END""",
    ),
    _Law(
        "branch {}: its ancestors are not those of its parent", "lineage", ("branch", "depth"),
        f"""CASE WHEN r.depth = 0 THEN r.ancestor = r.branch AND r.bound = {HEAD}
        ELSE EXISTS (SELECT 1 FROM branch b JOIN lineage l
            ON l.volume = b.volume AND l.branch = b.parent AND l.depth = r.depth - 1
            WHERE b.volume = r.volume AND b.id = r.branch AND l.ancestor = r.ancestor
            AND r.bound = CASE WHEN l.bound < b.at THEN l.bound ELSE b.at END) END""", (0, -1),
    ),
    _Law(
        "branch {}: what it has taken over cannot be", "taken", ("branch", "source", "version"),
        """r.upto <= r.version AND r.source <> r.branch AND r.version <= (
            SELECT last FROM volume v WHERE v.id = r.volume)""", (0, 0, 0),
    ),
    # Of a key that a version touched twice only the last state has a row. A name that a branch took
    # from an ancestor has no row of its own that ended. A version that touched nothing is there for
    # the key that it was asked for under.
    _Law(
        "version {1}: entry {2} of the log is not what was changed", "change",
        ("branch", "version", "seq"),
        f"""NOT {_STANDING} OR NOT {_KEPT.format("version")} OR (
        (r.verb IS NOT NULL) = (r.seq = 0)
        AND (r.seq = 0 OR (r.subject IS NULL AND r.request IS NULL AND r.note IS NULL
            AND r.key IS NULL AND r.guard IS NULL
            AND EXISTS (SELECT 1 FROM change p WHERE p.volume = r.volume AND p.branch = r.branch
                AND p.version = r.version AND p.seq = r.seq - 1 AND p.time_ns = r.time_ns)))
        AND CASE WHEN r.parent = 0 AND r.node = 0 THEN r.seq = 0 AND r.key IS NOT NULL
        WHEN r.parent = 0 THEN r.name = '' AND r.was = 0 AND EXISTS (
            SELECT 1 FROM inode i WHERE i.volume = r.volume AND i.branch = r.branch
                AND i.id = r.node AND i.born = r.version)
        ELSE (r.node = 0 OR EXISTS (SELECT 1 FROM dentry d
                WHERE d.volume = r.volume AND d.branch = r.branch AND d.parent = r.parent
                AND d.name = r.name AND d.born = r.version AND d.node = r.node)
            OR EXISTS (SELECT 1 FROM change t WHERE t.volume = r.volume AND t.branch = r.branch
                AND t.version = r.version AND t.seq > r.seq AND t.parent = r.parent
                AND t.name = r.name))
            AND (r.was = coalesce((SELECT d.node FROM dentry d
                WHERE d.volume = r.volume AND d.branch = r.branch AND d.parent = r.parent
                AND d.name = r.name AND d.died = r.version AND d.kind <> 0), 0)
            OR EXISTS (SELECT 1 FROM change t WHERE t.volume = r.volume AND t.branch = r.branch
                AND t.version = r.version AND t.seq < r.seq AND t.parent = r.parent
                AND t.name = r.name)
            OR EXISTS (SELECT 1 FROM lineage l WHERE l.volume = r.volume AND l.branch = r.branch
                AND l.depth = 1)) END)""", (0, 0, -1),
    ),
)  # fmt: skip

_VOLUME: Final = """
SELECT v.last >= (SELECT coalesce(max(x), 0) FROM (
        SELECT (SELECT max(c.version) FROM change c WHERE c.volume = $1 AND c.branch = b.id) AS x
            FROM branch b WHERE b.volume = $1
        UNION ALL SELECT (SELECT max(i.id) FROM inode i WHERE i.volume = $1 AND i.branch = b.id)
            FROM branch b WHERE b.volume = $1
        UNION ALL SELECT max(id) FROM branch WHERE volume = $1
        UNION ALL SELECT max(id) FROM content WHERE volume = $1
        UNION ALL SELECT max(token) FROM lease WHERE volume = $1
        UNION ALL SELECT max(id) FROM chunk WHERE volume = $1)),
    v.horizon BETWEEN 0 AND v.last AND v.drained BETWEEN 0 AND v.last,
    v.locks > 0 OR NOT EXISTS (SELECT 1 FROM lease l WHERE l.volume = $1 AND l.branch <> 0
        AND l.expires_ms > 0),
    EXISTS (SELECT 1 FROM inode i WHERE i.volume = $1 AND i.branch = 2 AND i.id = v.root
        AND i.kind = 2)
FROM volume v WHERE v.id = $1
"""
_VOLUME_FAULTS: Final = (
    "numbers were given out that the counter does not know",
    "the oldest version that is kept, or that is on record, cannot be",
    "there are locks, and the volume says that there are none",
    "the root directory is missing",
)

_GUARDED: Final = {
    "the row of branch {0} is damaged": """
        SELECT id, name, parent, at, expires_ms, created_ns, guard FROM branch
        WHERE volume = $1 AND guard IS NOT NULL""",
    "the row of snapshot {0} is damaged": """
        SELECT name, branch, version, created_ns, guard FROM snapshot
        WHERE volume = $1 AND guard IS NOT NULL""",
    "what branch {0} has taken over is damaged": """
        SELECT branch, version, source, upto, guard FROM taken
        WHERE volume = $1 AND guard IS NOT NULL""",
}
_WHO: Final = """
SELECT branch, version, time_ns, verb, subject, request, note, key, guard FROM change
WHERE volume = $1 AND (branch, version) > ($2, $3) AND seq = 0 ORDER BY branch, version LIMIT $4
"""
_NAMED_ROWS: Final = f"""
SELECT r.branch, r.parent, r.name, r.born, r.died,
    {_STANDING}, (SELECT horizon FROM volume v WHERE v.id = r.volume)
FROM dentry r WHERE r.volume = $1 AND (r.branch, r.parent, r.name, r.born) > ($2, $3, $4, $5)
ORDER BY r.branch, r.parent, r.name, r.born LIMIT $6
"""
_NODE_ROWS: Final = f"""
SELECT r.branch, r.id, r.born, r.kind = {NOTHING} AND r.guard IS NULL
FROM inode r WHERE r.volume = $1 AND (r.branch, r.id, r.born) > ($2, $3, $4)
    AND {_KEPT.format("born")} AND {_STANDING} AND r.born > 3
ORDER BY r.branch, r.id, r.born LIMIT $5
"""
_LOGGED: Final = """
SELECT parent, name, node FROM change WHERE volume = $1 AND branch = $2 AND version = $3
"""


class _TableKeys(NamedTuple):
    """What the log says that a version has touched."""

    names: frozenset[tuple[int, str]]
    nodes: frozenset[int]


class ConsistencyCheck:
    """One look through a volume for rows that contradict each other."""

    def __init__(self, core: VolumeCore, pace: Pace) -> None:
        self._core = core
        self._pace = pace
        self._volume = core.view.volume
        self._logged: OrderedDict[tuple[int, int], _TableKeys] = OrderedDict()
        self._remembered = 0

    async def faults(self) -> AsyncIterator[str]:
        """What is not as everything else says, in words."""
        async for what in self._of_volume():
            yield what
        async for what in self._of_guarded():
            yield what
        for law in _LAWS:
            async for row in self._pages(law.sql, law.first):
                if not row[-1]:
                    yield law.what.format(*row)
        async for row in self._pages(_NAMED_ROWS, (0, 0, "", 0)):
            branch, parent, name, born, died, stands, horizon = row
            for version in (born, died):
                if not stands or not horizon < version < INFINITY:
                    continue
                if (parent, name) not in (await self._keys(branch, version)).names:
                    yield f"a name changed in version {version}, and the log does not know it"
        async for branch, node, version, is_of_gc in self._pages(_NODE_ROWS, (0, 0, 0)):
            if not is_of_gc and node not in (await self._keys(branch, version)).nodes:
                yield f"node {node} changed in version {version}, and the log does not know it"

    @property
    def _all_tables(self) -> tuple[str, ...]:
        return _TABLES if self._core.database.shared.is_one_file else ()

    async def _of_volume(self) -> AsyncIterator[str]:
        async with self._core.looking() as session:
            row = await session.row(_VOLUME, self._volume)
            stray = [each for each in self._all_tables if await session.row(_STRAY.format(each))]
            lost = [
                each
                for each in _BRANCHED
                if await session.row(_OF_NO_BRANCH.format(each), self._volume)
            ]
        for holds, what in zip(row or (), _VOLUME_FAULTS, strict=True):
            if not holds:
                yield what
        for table in stray:
            yield f"there are rows of no volume ({table})"
        for table in lost:
            yield f"there are rows of no branch ({table})"

    async def _of_guarded(self) -> AsyncIterator[str]:
        """Rows with a sum over themselves."""
        async with self._core.looking() as session:
            found = {what: await session.rows(_GUARDED[what], self._volume) for what in _GUARDED}
            if self._core.database.shared.is_one_file:
                volumes = await session.rows(GUARDED)
            else:
                volumes = await session.rows(f"{GUARDED} AND id = $1", self._volume)
        for what, rows in found.items():
            for *row, guard in rows:
                if guard != row_guard(*row):
                    yield what.format(*row)
        for guard, *row in volumes:
            if guard != row_guard(*row):
                yield f"the row of volume {row[1]} is damaged"
        async for *row, guard in self._pages(_WHO, (0, 0)):
            if guard is not None and guard != log_guard(*row):
                yield f"what the log says of version {row[1]} is damaged"

    async def _pages(self, sql: str, first: Sequence[Any]) -> AsyncIterator[Row]:
        after, width = tuple(first), len(first)
        while True:
            async with self._core.looking() as session:
                rows = await session.rows(sql, self._volume, *after, PAGE_ROWS)
            for row in rows:
                yield row
            if len(rows) < PAGE_ROWS:
                return
            after = rows[-1][:width]
            await self._pace()

    async def _keys(self, branch: int, version: int) -> _TableKeys:
        """What a version touched, remembered: one may have touched a hundred thousand things."""
        known = self._logged.get((branch, version))
        if known is not None:
            return known
        async with self._core.looking() as session:
            rows = await session.rows(_LOGGED, self._volume, branch, version)
        # A directory gets a row of its own in a fork when a name in it changes.
        found = _TableKeys(
            frozenset((parent, name) for parent, name, _ in rows if parent),
            frozenset(parent or node for parent, _, node in rows),
        )
        self._logged[branch, version] = found
        self._remembered += len(rows)
        while self._remembered > _KEYS_MAX and len(self._logged) > 1:
            _, forgotten = self._logged.popitem(last=False)
            self._remembered -= len(forgotten.names) + len(forgotten.nodes)
        return found
