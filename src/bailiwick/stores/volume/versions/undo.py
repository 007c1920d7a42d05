"""Taking back what was done: what a request, a subject or a range of versions changed."""

from __future__ import annotations

from typing import Final, NamedTuple

from bailiwick.errors import IoError, ParseError, PathNotFound
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.stores.volume.core import ChangeTurn
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.lookup.depths import Depths
from bailiwick.stores.volume.rows.checksums import log_guard
from bailiwick.stores.volume.rows.mutation import attributes_of
from bailiwick.stores.volume.rows.records import DIRECTORY, BoundName, Inode, RowPlace
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.stores.volume.versions.comparison import looks_same
from bailiwick.stores.volume.versions.history import CHECK, KEPT, number_of
from bailiwick.versions import Conflict, Mark, Undoing

_BY_REQUEST: Final = """
SELECT version, coalesce(subject, ''), time_ns, verb, subject, request, note, key, guard FROM change
WHERE volume = $1 AND branch = $2 AND request = $3 AND ($4 = 0 OR coalesce(subject, '') = $5)
ORDER BY version
"""
_BY_RANGE: Final = """
SELECT version, coalesce(subject, ''), time_ns, verb, subject, request, note, key, guard FROM change
WHERE volume = $1 AND branch = $2 AND version >= $3 AND version <= $4 AND seq = 0
    AND ($5 = 0 OR coalesce(subject, '') = $6)
ORDER BY version
"""
_KEYS: Final = """
SELECT parent, name, node, was FROM change
WHERE volume = $1 AND branch = $2 AND version = $3 ORDER BY seq
"""
_SINCE: Final = """
SELECT DISTINCT version, node FROM change WHERE volume = $1 AND branch = $2 AND version > $3
"""


class UndoneVersions(NamedTuple):
    """What an undo did: the version it made, what it left, and whose changes it was about."""

    version: int | None
    conflicts: list[Conflict]
    subjects: frozenset[str]


class _UndoKeys(NamedTuple):
    """All that one version touched."""

    names: set[RowPlace]
    nodes: set[int]


async def undo(turn: ChangeTurn, what: Undoing, mark: Mark) -> UndoneVersions:
    """Take back what a request, or a range of versions, changed.

    Versions that touch the same things are taken back together or not at all. What was changed
    since by others is reported and left. Nothing else is touched, and an undo can be undone.
    """
    tree, session = turn.tree, turn.transaction.session
    view = tree.view
    whose = (0, "") if what.subject is None else (1, what.subject)
    _, horizon = await session.row(KEPT, view.volume) or (0, 0)
    first = None if what.first is None else number_of(what.first)
    named = what.requests if what.request_id is None else (what.request_id,)
    if named:
        rows = []
        for request in named:
            rows += await session.rows(_BY_REQUEST, view.volume, view.branch, request, *whose)
        rows.sort(key=lambda row: row[0])
    else:
        last = view.at if what.last is None else number_of(what.last)
        since = horizon + 1 if first is None else first
        rows = await session.rows(_BY_RANGE, view.volume, view.branch, since, last, *whose)
    for version, _, *who, guard in rows:
        if guard is not None and guard != log_guard(view.branch, version, *who):
            raise IoError(f"what the log says of version {version} is damaged", hint=CHECK)
    if what.since_ns is not None:
        rows = [row for row in rows if row[2] >= what.since_ns]
    versions = [row[0] for row in rows]
    if (first or horizon + 1) <= horizon or (versions and versions[0] <= horizon):
        raise PathNotFound(
            "what is to be undone is no longer kept", details={"oldest": str(horizon)}
        )
    if not versions:
        raise PathNotFound(
            "nothing that is kept of this branch was changed by that",
            details={"oldest": str(horizon)},
        )
    keys: dict[int, _UndoKeys] = {}
    for version in versions:
        touched = await session.rows(_KEYS, view.volume, view.branch, version)
        keys[version] = _UndoKeys(
            {RowPlace(parent, name) for parent, name, _, _ in touched if parent},
            {node for parent, _, node, _ in touched if not parent},
        )
    lost = await _lost_above(turn, keys)
    plan = _UndoPlan(turn, keys, lost)
    for group in _groups(keys, lost):
        await plan.add(group)
    version = await plan.carry_out(mark)
    return UndoneVersions(version, plan.conflicts, frozenset(row[1] for row in rows))


_LostAbove = dict[int, set[int]]
"""Of directories in which something was changed, those that they lay in and that are gone by what
is to be undone as well."""


async def _lost_above(turn: ChangeTurn, keys: dict[int, _UndoKeys]) -> _LostAbove:
    touched = {node for each in keys.values() for node in each.nodes}
    gone = {node for node in touched if await turn.tree.inode(node) is None}
    found: _LostAbove = {}
    for version, each in keys.items() if gone else ():
        then = turn.core.tree_at(
            turn.transaction.session, turn.core.view._replace(at=version)
        )  # fmt: skip
        for parent in {place.parent for place in each.names} - found.keys():
            found[parent] = gone & {node for node, _ in await then.way_up(parent) or ()}
    return found


def _groups(keys: dict[int, _UndoKeys], lost: _LostAbove) -> list[list[int]]:
    """Versions that touch a common key, or a directory and a name in it or beneath, together."""
    groups: list[tuple[_UndoKeys, list[int]]] = []
    for version, each in keys.items():
        above = {node for place in each.names for node in lost.get(place.parent, ())}
        touched = each._replace(nodes=each.nodes | above)
        members, apart = [version], []
        for others, versions in groups:
            if _meet(others, touched):
                touched = _UndoKeys(touched.names | others.names, touched.nodes | others.nodes)
                members += versions
            else:
                apart.append((others, versions))
        groups = [*apart, (touched, members)]
    return [sorted(versions) for _, versions in groups]


def _meet(a: _UndoKeys, b: _UndoKeys) -> bool:
    return bool(
        a.names & b.names
        or a.nodes & b.nodes
        or any(place.parent in b.nodes for place in a.names)
        or any(place.parent in a.nodes for place in b.names)
    )


class _UndoPlan:
    """What to put back, gathered before anything is changed."""

    def __init__(
        self, turn: ChangeTurn, keys: dict[int, _UndoKeys], lost: _LostAbove
    ) -> None:  # fmt: skip
        self._turn = turn
        self._keys = keys
        self._lost = lost
        self._names: dict[RowPlace, BoundName | None] = {}
        self._nodes: dict[int, Inode | None] = {}
        self.conflicts: list[Conflict] = []

    def _at(self, version: int) -> RowTree:
        core = self._turn.core
        return core.tree_at(self._turn.transaction.session, core.view._replace(at=version))

    async def add(self, versions: list[int]) -> None:
        """Plan one group; where one key of it was changed since, none of it is put back."""
        names: dict[RowPlace, BoundName | None] = {}
        nodes: dict[int, Inode | None] = {}
        conflicts: list[Conflict] = []
        tree = self._turn.tree
        for place in {each for version in versions for each in self._keys[version].names}:
            those = [version for version in versions if place in self._keys[version].names]
            if not await self._is_name_untouched(place, those):
                path = await self._path_of(place.parent, those, place.name)
                conflicts.append(Conflict(path, "the name was changed since"))
            elif await tree.way_up(place.parent) is None and not (
                await self._comes_back(place.parent, versions)
            ):
                path = await self._path_of(place.parent, those, place.name)
                conflicts.append(Conflict(path, "its directory is gone"))
            names[place] = await self._at(those[0] - 1).name(*place)
        for node in {each for version in versions for each in self._keys[version].nodes}:
            those = [version for version in versions if node in self._keys[version].nodes]
            now = await tree.inode(node)
            if not await self._is_node_untouched(node, those):
                conflicts.append(Conflict(await self._path_of(node, those), "it was changed since"))
            nodes[node] = await self._at(those[0] - 1).inode(node)
            if nodes[node] is None and now is not None:
                if await tree.place(node) not in names:
                    path = await self._path_of(node, those)
                    conflicts.append(Conflict(path, "it was moved since"))
                if now.kind == DIRECTORY:
                    conflicts += await self._put_in_since(node, those[-1])
        if conflicts:
            self.conflicts += conflicts
            return
        self._names |= names
        self._nodes |= nodes

    async def _is_name_untouched(self, place: RowPlace, those: list[int]) -> bool:
        """Whether nobody else has changed a name between and after these versions."""
        now = await self._turn.tree.name(*place)
        for version, following in zip(those, [*those[1:], None], strict=True):
            left = await self._at(version).name(*place)
            if left != (now if following is None else await self._at(following - 1).name(*place)):
                return False
        return True

    async def _is_node_untouched(self, node: int, those: list[int]) -> bool:
        now = await self._turn.tree.inode(node)
        for version, following in zip(those, [*those[1:], None], strict=True):
            left = await self._at(version).inode(node)
            found = now if following is None else await self._at(following - 1).inode(node)
            if (left is None) != (found is None):
                return False
            if left is not None and found is not None and not looks_same(left, found):
                return False
        return True

    async def _put_in_since(self, directory: int, after: int) -> list[Conflict]:
        """What others have changed or made since in a directory that is to go with all it holds."""
        tree, found = self._turn.tree, list[Conflict]()
        rows = await tree.session.rows(_SINCE, tree.view.volume, tree.view.branch, after)
        for node in {node for version, node in rows if node and version not in self._keys}:
            way = await tree.way_up(node)
            if node != directory and way and directory in {above for above, _ in way}:
                path = await tree.path(node)
                found.append(Conflict(path or ROOT, "it lies in a directory that is to go"))
        return found

    async def _comes_back(self, node: int, versions: list[int]) -> bool:
        """Whether a directory that is gone now is put back, or made and gone, by the same group;
        by itself, or with one that it lay in."""
        gone = {node, *self._lost.get(node, ())}
        return any(not gone.isdisjoint(self._keys[version].nodes) for version in versions)

    async def _path_of(self, node: int, those: list[int], name: str | None = None) -> ScopedPath:
        """The path of a node, or of a name in it, as it is now or was when it was last touched."""
        path = await self._turn.tree.path(node)
        for version in (those[-1], those[0] - 1):
            path = path if path is not None else await self._at(version).path(node)
        if path is None:
            return ROOT
        return path if name is None else path.child(name)

    async def carry_out(self, mark: Mark) -> int | None:
        """Put everything back that can be, as one version; None where that is nothing."""
        if not (self._names or self._nodes):
            return None
        turn, tree = self._turn, self._turn.tree
        await self._check_leases(mark)
        depths = Depths(tree)
        await depths.note(self._names.values())
        mutation = turn.mutation("undo", mark)
        # All names are taken before any is given: a node has one name at a time.
        for place in self._names:
            if await tree.name(*place) is not None:
                await mutation.set_name(place, None)
        for node, old in self._nodes.items():
            now = await tree.inode(node)
            if old is not None:
                await mutation.revive(node, attributes_of(old))
            elif now is not None:
                await mutation.end_inode(BoundName(node, now.kind))
        for place, bound in self._names.items():
            if bound is not None:
                await mutation.set_name(place, bound)
        await self._check_ways()
        await depths.check(self._names)
        await mutation.touch_directories()
        return mutation.version

    async def _check_leases(self, mark: Mark) -> None:
        """What somebody holds a lease on is not changed by undoing either."""
        tree = self._turn.tree
        for place in self._names:
            await check_lease(self._turn, *place, mark, beneath=await tree.name(*place))
        for node in self._nodes:
            at = await tree.place(node)
            if at is not None and await tree.way_up(node) is not None:
                await check_lease(self._turn, *at, mark)

    async def _check_ways(self) -> None:
        """What was put back must be reachable: a directory may lie in what it is put into by now.
        Only what lies in a directory that goes, goes with it."""
        tree = self._turn.tree
        for bound in self._names.values():
            if bound is None or await tree.way_up(bound.node) is not None:
                continue
            node, seen = bound.node, set[int]()
            while self._nodes.get(node, tree) is not None:
                up = await tree.place(node)
                if up is None or node in seen:
                    # Without its name: nobody has decided yet whether that may be told.
                    raise ParseError(
                        "it cannot be put back: where it belongs lies in it now, or is gone"
                    )
                seen.add(node)
                node = up.parent
