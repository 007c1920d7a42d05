"""Looking at a tree of rows: names, nodes and places, in a branch, now or at an earlier version.

A branch shows itself and its ancestors, each as it was at its bound (`lineage`). The nearest that
knows a key decides, and what it knows may be that there is nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bailiwick.paths import ScopedPath, from_parts
from bailiwick.stores.volume.lookup.cache import LEVELS_MAX, SINCE, Cache
from bailiwick.stores.volume.rows.checksums import checked_inode, checked_name
from bailiwick.stores.volume.rows.database import HEAD, Row, RowSession, SpelledTwice
from bailiwick.stores.volume.rows.inner_nodes import AT_LEVEL, KeyedLookup, by_lookup
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    NOTHING,
    BoundName,
    BranchView,
    Inode,
    RowPlace,
)

PAGE_ROWS: Final = 512
"""Rows fetched at a time where the end is not known."""

INODE_COLUMNS: Final = (
    "id, born, kind, mode, size, mtime_ns, edition, sha256, content, data, created_ns"
)

_INODE_FIELDS: Final = ", ".join(f"i.{column}" for column in INODE_COLUMNS.split(", "))

# The newest row of a key that is not too new is found by its place in the index, and only then
# asked whether it is still alive: a condition on `died` alone would read the key's whole history.
NAME: Final = """
SELECT d.node, d.kind, d.guard FROM lineage l JOIN dentry d
    ON d.volume = l.volume AND d.branch = l.ancestor AND d.parent = $4 AND d.name = $5
    AND d.born = (SELECT max(e.born) FROM dentry e
        WHERE e.volume = l.volume AND e.branch = l.ancestor AND e.parent = $4 AND e.name = $5
        AND e.born <= CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END)
WHERE l.volume = $1 AND l.branch = $2 AND l.depth >= $6
    AND d.died > CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
ORDER BY l.depth LIMIT 1
"""

OWN_NAME: Final = """
SELECT born, node, kind FROM dentry
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4 AND died = 9223372036854775807
"""

INODE: Final = f"""
SELECT {_INODE_FIELDS}, i.guard FROM lineage l JOIN inode i
    ON i.volume = l.volume AND i.branch = l.ancestor AND i.id = $4
    AND i.born = (SELECT max(e.born) FROM inode e
        WHERE e.volume = l.volume AND e.branch = l.ancestor AND e.id = $4
        AND e.born <= CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END)
WHERE l.volume = $1 AND l.branch = $2 AND l.depth >= $5
ORDER BY l.depth LIMIT 1
"""


NO_INODE: Final = ", ".join(
    f"CAST(NULL AS {'BYTEA' if column in ('sha256', 'data') else 'BIGINT'})"
    for column in (*INODE_COLUMNS.split(", "), "guard")
)


def _paths(at: str, nodes: str, names: str) -> str:
    """Paths, each from a directory on by some names, in the words of PostgreSQL."""
    name = NAME.replace("$3", at).replace("$4", "s.node").replace("$5", "s.ahead")
    return f"""
WITH RECURSIVE step (path, n, names, parent, node, kind, guard) AS (
    SELECT w.path, 0, string_to_array(w.names, '/'), CAST(0 AS BIGINT), w.node,
        CAST({DIRECTORY} AS BIGINT), CAST(NULL AS BIGINT)
    FROM unnest(CAST({nodes} AS BIGINT[]), CAST({names} AS TEXT[]))
        WITH ORDINALITY AS w (node, names, path)
    UNION ALL
    SELECT s.path, s.n + 1, s.names, s.node, f.node, f.kind, f.guard FROM (
        SELECT path, n, names, node, kind, names[n + 1] AS ahead FROM step
    ) s CROSS JOIN LATERAL ({name.replace("$6", "0")}) f
    WHERE s.kind = {DIRECTORY} AND s.ahead IS NOT NULL
)
"""


def _steps(at: str, filled: str = "") -> str:
    """The steps of the paths, with what each node is, in their order."""
    inode = INODE.replace("$3", at).replace("$4", "s.node").replace("$5", "0")
    return f"""
SELECT s.path, s.n, s.parent, s.node, s.kind, s.guard{filled}, i.* FROM step s
    LEFT JOIN LATERAL ({inode}) i ON TRUE
WHERE s.n > 0 ORDER BY path, n
"""


# One step of a path in a branch without ancestors, and how far the counter is: one row in any case.
# In the words of SQLite: a node's row is found by its number, without a second search for its key.
_STEP: Final = f"""
SELECT v.last, CASE WHEN d.died > $3 THEN d.node END, d.kind, d.guard, {_INODE_FIELDS}, i.guard
FROM volume v
LEFT JOIN dentry d ON d.volume = $1 AND d.branch = $2 AND d.parent = $4 AND d.name = $5
    AND d.born <= $3
LEFT JOIN inode i ON i.rowid = (SELECT e.rowid FROM inode e
    WHERE e.volume = $1 AND e.branch = $2 AND e.id = d.node AND e.born <= $3
    ORDER BY e.born DESC LIMIT 1)
WHERE v.id = $1 ORDER BY d.born DESC LIMIT 1
"""

# The same in a branch with ancestors. The nearest that knows the name decides, and then the nearest
# that knows the node.
_STEP_OVER_ANCESTORS: Final = f"""
SELECT v.last, f.node, f.kind, f.guard, {_INODE_FIELDS}, i.guard
FROM volume v
LEFT JOIN ({NAME.replace("$6", "0")}) f ON TRUE
LEFT JOIN inode i ON i.rowid = (SELECT e.rowid FROM lineage l JOIN inode e
    ON e.volume = $1 AND e.branch = l.ancestor AND e.id = f.node
    AND e.born <= CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
    WHERE l.volume = $1 AND l.branch = $2
    ORDER BY l.depth, e.born DESC LIMIT 1)
WHERE v.id = $1
"""

PATHS: Final = _paths("$3", "$4", "$5") + _steps("$3")

# The same at the newest version, and with it what was changed since another one.
CHANGED_AND_PATHS: Final = f"""
{_paths(str(HEAD), "$5", "$6")}
SELECT 0 AS path, 0 AS n, c.*, {NO_INODE} FROM ({SINCE}) c UNION ALL
{_steps(str(HEAD), ", NULL, NULL, NULL")}
"""

PLACE: Final = """
SELECT d.parent, d.name FROM lineage l JOIN dentry d
    ON d.volume = l.volume AND d.branch = l.ancestor AND d.node = $4 AND d.kind <> 0
    AND d.born <= CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
    AND d.died > CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
WHERE l.volume = $1 AND l.branch = $2
ORDER BY l.depth LIMIT 1
"""

LEVEL: Final = """
SELECT name, node, kind FROM dentry
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name > $4 AND born <= $5 AND died > $5
ORDER BY name LIMIT $6
"""

# The names of a directory after $5, from all levels at once. A name counts where no nearer level
# knows it, if only to hide it.
_NAMED: Final = """
FROM lineage l JOIN dentry d
    ON d.volume = l.volume AND d.branch = l.ancestor AND d.parent = $4 AND d.name > $5
    AND d.born <= CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
    AND d.died > CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
    AND d.kind <> 0
    AND NOT EXISTS (SELECT 1 FROM lineage n JOIN dentry f
        ON f.volume = n.volume AND f.branch = n.ancestor AND f.parent = d.parent
        AND f.name = d.name AND f.born <= CASE WHEN n.bound < $3 THEN n.bound ELSE $3 END
        AND f.died > CASE WHEN n.bound < $3 THEN n.bound ELSE $3 END
        WHERE n.volume = l.volume AND n.branch = $2 AND n.depth < l.depth)
"""


_OF_BRANCH: Final = "WHERE l.volume = $1 AND l.branch = $2"

NAMES_IN_DIRECTORY: Final = f"{_NAMED} {_OF_BRANCH}"

# With what each node is, in the words of SQLite, which looks up one row of it for each name.
IN_DIRECTORY: Final = f"""
{_NAMED}
JOIN inode i ON i.volume = d.volume AND i.id = d.node
    AND (i.branch, i.born) = (SELECT e.branch, e.born FROM lineage k JOIN inode e
        ON e.volume = k.volume AND e.branch = k.ancestor AND e.id = d.node
        AND e.born <= CASE WHEN k.bound < $3 THEN k.bound ELSE $3 END
        WHERE k.volume = l.volume AND k.branch = $2
        ORDER BY k.depth, e.born DESC LIMIT 1)
{_OF_BRANCH}
"""

# PostgreSQL would look for that row once for each that the node ever had, among all of them: to
# list what was changed a thousand times took it seconds. So the newest of each level is asked for
# by itself, and the nearest is taken.
_IN_DIRECTORY_OF_POSTGRES: Final = f"""
{_NAMED}
CROSS JOIN LATERAL (SELECT n.* FROM lineage k CROSS JOIN LATERAL (SELECT e.* FROM inode e
        WHERE e.volume = k.volume AND e.branch = k.ancestor AND e.id = d.node
        AND e.born <= CASE WHEN k.bound < $3 THEN k.bound ELSE $3 END
        ORDER BY e.born DESC LIMIT 1) n
    WHERE k.volume = l.volume AND k.branch = $2 ORDER BY k.depth LIMIT 1) i
{_OF_BRANCH}
"""


def found_in_directory(what: str, more: str) -> SpelledTwice:
    """A statement about the names in a directory of a branch that has ancestors."""
    return SpelledTwice(
        f"{what} {IN_DIRECTORY} {more}", postgres=f"{what} {_IN_DIRECTORY_OF_POSTGRES} {more}"
    )


# The same in a branch without ancestors, in half the time.
IN_LONE_DIRECTORY: Final = """
FROM dentry d JOIN inode i
    ON i.volume = d.volume AND i.branch = d.branch AND i.id = d.node
    AND i.born = (SELECT max(e.born) FROM inode e
        WHERE e.volume = d.volume AND e.branch = d.branch AND e.id = d.node AND e.born <= $3)
WHERE d.volume = $1 AND d.branch = $2 AND d.parent = $4 AND d.name > $5
    AND d.born <= $3 AND d.died > $3
"""

_LISTED: Final = "SELECT d.name, d.node, d.kind, i.size, i.mtime_ns"

LISTING: Final = f"{_LISTED} {IN_LONE_DIRECTORY} ORDER BY d.name LIMIT $6"

# With how far the counter is, in one row at least.
_LISTING_NOW: Final = f"""
SELECT v.last, e.* FROM volume v LEFT JOIN ({LISTING}) e ON TRUE WHERE v.id = $1 ORDER BY e.name
"""

LISTING_UP_TO: Final = found_in_directory(_LISTED, "AND d.name <= $6 ORDER BY d.name")


def _beneath(look: KeyedLookup) -> str:
    """Names that are alive in a branch without ancestors, at most $4. The directories are found by
    an index of their own, each when the names in those before were counted; and these in an index,
    without looking at their rows."""
    alive = "d.volume = $1 AND d.branch = $2 AND d.parent = n.id AND d.died = 9223372036854775807"
    return f"""
WITH RECURSIVE inner_node (id) AS (
    SELECT CAST($3 AS BIGINT)
    UNION ALL
    SELECT d.node FROM inner_node n {look("d", f"{alive} AND d.kind = 2")}
)
SELECT count(*) FROM (SELECT 1 FROM inner_node n {look("d", alive)} LIMIT $4) AS found
"""


BENEATH: Final = by_lookup(_beneath)

LEVELS: Final = """
SELECT ancestor, bound FROM lineage WHERE volume = $1 AND branch = $2 ORDER BY depth
"""


class Level(NamedTuple):
    """An ancestor, and the version at which it is seen."""

    branch: int
    bound: int


async def levels_of(session: RowSession, view: BranchView) -> tuple[Level, ...]:
    """The branch itself and its ancestors, nearest first, as seen at the view's version."""
    rows = await session.rows(LEVELS, view.volume, view.branch)
    return tuple(Level(branch, min(bound, view.at)) for branch, bound in rows)


async def open_tree(session: RowSession, view: BranchView) -> RowTree:
    """Any branch at any version. Nothing of it is remembered beyond this."""
    return RowTree(session, view, await levels_of(session, view), Cache())


class RowTree:
    """One look at a view, through one session. What is remembered may be of an earlier look."""

    __slots__ = ("cache", "levels", "session", "view")

    def __init__(
        self, session: RowSession, view: BranchView, levels: tuple[Level, ...], cache: Cache
    ) -> None:
        self.session = session
        self.view = view
        self.levels = levels
        self.cache = cache

    # --- by name -----------------------------------------------------------------------------

    async def name(self, parent: int, name: str) -> BoundName | None:
        """The node that has a name in a directory."""
        key = (parent, name)
        names = self.cache.names
        if key in names:
            return names[key]
        known = self.cache.known
        if known is not None and key in known.names:
            bound = known.names[key]
        else:
            bound = await self.name_uncached(parent, name)
        self.cache.names[key] = bound
        if bound is not None:
            self.cache.places[bound.node] = RowPlace(parent, name)
        return bound

    async def name_uncached(self, parent: int, name: str, depth: int = 0) -> BoundName | None:
        """The node that has a name, from the rows, as seen by the ancestors from ``depth`` on."""
        view = self.view
        row = await self.session.row(NAME, view.volume, view.branch, view.at, parent, name, depth)
        if row is None:
            return None
        bound = checked_name(parent, name, *row)
        return None if bound.kind == NOTHING else bound

    async def own_name(self, parent: int, name: str) -> Row | None:
        """The row that the branch itself has of a name: since when, its node and kind."""
        own, key = self.cache.own, (parent, name)
        if key in own:
            return own[key]
        return await self.session.row(OWN_NAME, self.view.volume, self.view.branch, parent, name)

    async def is_inherited(self, parent: int, name: str) -> bool:
        """Whether an ancestor gives a name to anything, be it hidden here."""
        return await self.name_uncached(parent, name, depth=1) is not None

    async def children(
        self, parent: int, after: str = "", limit: int | None = None
    ) -> list[tuple[str, BoundName]]:
        """The names of a directory in order: those after ``after``, at most ``limit``.

        The levels are merged first and what hides something is taken out then; only what is left
        is counted.
        """
        found: list[tuple[str, BoundName]] = []
        cursors = [
            _Cursor(self.session, self.view.volume, level, parent, after) for level in self.levels
        ]
        heads = [
            (row[0], depth, row) for depth, each in enumerate(cursors) if (row := await each.next())
        ]
        heapq.heapify(heads)
        before = ""
        while heads and (limit is None or len(found) < limit):
            name, depth, (_, node, kind) = heads[0]
            if name != before and kind != NOTHING:
                found.append((name, BoundName(node, kind)))
            before = name
            following = await cursors[depth].next()
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following[0], depth, following))
        return found

    async def is_empty(self, directory: int) -> bool:
        return not await self.children(directory, limit=1)

    async def count_beneath(self, directory: int, limit: int) -> int | None:
        """How many names lie in a directory and all beneath it, at this moment, as far as that is
        not more than ``limit``; None where that cannot be told without looking at each, because the
        branch has ancestors."""
        if len(self.levels) > 1:
            return None
        view = self.view
        row = await self.session.row(BENEATH, view.volume, view.branch, directory, limit)
        return int(row[0]) if row else 0

    async def is_deeper(self, bound: BoundName, levels: int) -> bool:
        """Whether anything lies more than ``levels`` levels beneath a node. Only directories are
        looked at, and none that lies deeper than that."""
        if levels < 0:
            return True
        if bound.kind != DIRECTORY:
            return False
        view = self.view
        values = (view.volume, view.branch, view.at, bound.node, levels)
        for (lowest,) in await self.session.rows(AT_LEVEL, *values):
            if not await self.is_empty(lowest):
                return True
        return False

    async def listing(self, parent: int, after: str, limit: int) -> list[Row]:
        """At most ``limit`` names after ``after``, each with node, kind, size and time."""
        view = self.view
        values = (view.volume, view.branch, view.at, parent, after)
        if len(self.levels) == 1:
            return await self.session.rows(LISTING, *values, limit)
        # Which names these are is found page by page in each level; to sort all that follow would
        # take longer with every page of a large directory.
        names = await self.children(parent, after, limit)
        return await self.session.rows(LISTING_UP_TO, *values, names[-1][0]) if names else []

    # --- by node -----------------------------------------------------------------------------

    async def inode(self, node: int) -> Inode | None:
        """What a node is; None where it was removed, or never was."""
        inodes = self.cache.inodes
        if node in inodes:
            return inodes[node]
        known = self.cache.known
        if known is not None and node in known.inodes:
            inode = known.inodes[node]
        else:
            inode = await self.inode_uncached(node)
        self.cache.inodes[node] = inode
        return inode

    async def inode_uncached(self, node: int, depth: int = 0) -> Inode | None:
        view = self.view
        row = await self.session.row(INODE, view.volume, view.branch, view.at, node, depth)
        if row is None:
            return None
        inode = checked_inode(Inode(*row[:-1]), row[-1])
        return None if inode.kind == NOTHING else inode

    async def place(self, node: int) -> RowPlace | None:
        """The name that a node has, be its directory alive or not."""
        places = self.cache.places
        if node in places:
            return places[node]
        known = self.cache.known
        if known is not None and node in known.places:
            places[node] = known.places[node]
            return places[node]
        view = self.view
        row = await self.session.row(PLACE, view.volume, view.branch, view.at, node)
        place = None if row is None else RowPlace(*row)
        self.cache.places[node] = place
        return place

    async def way_up(self, node: int) -> list[tuple[int, str]] | None:
        """The node and the directories it lies in, each with its name, up to the root.

        None where one of them was removed, since removing a directory touches nothing that lies in
        it; also where a change under way has put a directory into itself, to be refused.
        """
        way: list[tuple[int, str]] = []
        root = self.view.root
        while node != root:
            # What is remembered is looked at here: every change goes this way.
            place = self.cache.places.get(node) or await self.place(node)
            inode = self.cache.inodes.get(node) or await self.inode(node)
            if place is None or inode is None or len(way) > LEVELS_MAX:
                return None
            way.append((node, place.name))
            node = place.parent
        way.append((node, ""))
        return way

    async def path(self, node: int) -> ScopedPath | None:
        """The path of a node; None where it has none any more."""
        way = await self.way_up(node)
        return None if way is None else from_parts([name for _, name in reversed(way[:-1])])


class PinnedTree(RowTree):
    """One look at one version, by statements that are awaited one after the other.

    What is remembered may come further meanwhile, for those who look anew. It is of no use for this
    look then, and this look has nothing to add to it.
    """

    __slots__ = ("_own", "_shared")

    @property
    def cache(self) -> Cache:
        return self._shared if self._shared.seen == self.view.at else self._own

    @cache.setter
    def cache(self, cache: Cache) -> None:
        self._shared = cache
        self._own = Cache()

    async def listing_now(self, parent: int, after: str, limit: int) -> list[Row] | None:
        """As `listing`, without having asked whether anything was changed since; None where
        something was, or it takes more than one statement."""
        if len(self.levels) > 1:
            return None
        view = self.view
        values = (view.volume, view.branch, HEAD, parent, after, limit)
        rows = await self.session.rows(_LISTING_NOW, *values)
        if not rows or rows[0][0] != view.at:
            return None
        return [tuple(row) for _, *row in rows if row[0] is not None]

    async def fetch_path(self, parts: tuple[str, ...]) -> None:
        """Come to know a path from the root, all that is not known of it by one statement. Ends
        where something is missing, or is no directory."""
        ahead = unknown_of(self.cache, self.view.root, parts)
        if ahead is not None:
            view, (node, names) = self.view, ahead
            rows = await self.session.rows(
                PATHS, view.volume, view.branch, view.at, [node], ["/".join(names)]
            )
            remember_path(self.cache, ahead, [row[2:] for row in rows])


class UnknownPath(NamedTuple):
    """Where to go on from, and by which names."""

    node: int
    names: tuple[str, ...]


def unknown_of(cache: Cache, root: int, parts: tuple[str, ...]) -> UnknownPath | None:
    """What is not known of a path; None where all is, or nothing more is to be found."""
    node, names = root, cache.names
    for count, name in enumerate(parts):
        if (node, name) not in names:
            return UnknownPath(node, parts[count:])
        bound = names[node, name]
        if bound is None or bound.kind != DIRECTORY:
            return None
        node = bound.node
    return None


def step_over(levels: tuple[Level, ...]) -> str:
    """The statement that finds one step of a path in a branch of so many levels."""
    return _STEP if len(levels) == 1 else _STEP_OVER_ANCESTORS


def remember_step(cache: Cache, place: RowPlace, row: Row) -> None:
    """Remember what `step_over` has found, which is as the cache or newer."""
    cache.trim()
    if row[1] is None:
        cache.names[place] = None
    else:
        _remember(cache, place, row[1:])


def remember_path(cache: Cache, ahead: UnknownPath, rows: list[Row]) -> None:
    """Remember the steps of a path, which were found as they are where the cache has come to."""
    node, names = ahead
    for name, (parent, *row) in zip(names, rows, strict=False):
        if not _remember(cache, RowPlace(parent, name), row):
            return
    if len(rows) < len(names):
        last = rows[-1][1:3] if rows else (node, DIRECTORY)
        if last[1] == DIRECTORY:
            cache.names[last[0], names[len(rows)]] = None


def _remember(cache: Cache, place: RowPlace, row: Sequence[Any]) -> bool:
    """Remember a name and what its node is; False where it hides something."""
    node, kind, guard = row[:3]
    bound = checked_name(*place, node, kind, guard)
    if kind == NOTHING:
        cache.names[place] = None
        return False
    cache.names[place], cache.places[node] = bound, place
    found = None if row[3] is None else checked_inode(Inode._make(row[3:-1]), row[-1])
    cache.inodes[node] = None if found is None or found.kind == NOTHING else found
    return True


async def catch_up_with(
    session: RowSession, view: BranchView, cache: Cache, wanted: list[tuple[str, ...]]
) -> None:
    """Forget what was changed, and come to know paths, by one statement for all of them."""
    unknown = {unknown_of(cache, view.root, parts) for parts in wanted} - {None}
    ahead = [each for each in unknown if each is not None]
    if not ahead:
        await cache.catch_up(session, view)
        return
    since, most = cache.to_forget()
    rows = await session.rows(
        CHANGED_AND_PATHS, view.volume, view.branch, since, most,
        [node for node, _ in ahead], ["/".join(names) for _, names in ahead],
    )  # fmt: skip
    changed = [row[2:9] for row in rows if row[0] == 0]
    cache.forget_changed(changed, since, most)
    if cache.seen != changed[0][0]:
        return  # what was found is older than what is known
    found: dict[int, list[Row]] = {}
    for path, _, *row in rows[len(changed) :]:
        found.setdefault(path, []).append((*row[:4], *row[7:]))
    for number, each in enumerate(ahead, start=1):
        remember_path(cache, each, found.get(number, []))


class _Cursor:
    """The names of a directory in one level, a page at a time."""

    __slots__ = ("_after", "_level", "_more", "_page", "_parent", "_session", "_volume")

    def __init__(
        self, session: RowSession, volume: int, level: Level, parent: int, after: str
    ) -> None:
        self._session = session
        self._volume = volume
        self._level = level
        self._parent = parent
        self._after = after
        self._page: list[Row] = []
        self._more = True

    async def next(self) -> Row | None:
        if not self._page and self._more:
            branch, bound = self._level
            self._page = await self._session.rows(
                LEVEL, self._volume, branch, self._parent, self._after, bound, PAGE_ROWS
            )
            self._more = len(self._page) == PAGE_ROWS
            if self._page:
                self._after = self._page[-1][0]
                self._page.reverse()
        return self._page.pop() if self._page else None
