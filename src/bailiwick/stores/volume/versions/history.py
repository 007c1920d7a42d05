"""Looking back and going back: the versions of a place, restoring one, undoing what was done."""

from __future__ import annotations

from typing import Final, NamedTuple

from bailiwick.errors import IoError, ParseError, PathNotFound
from bailiwick.model import Expected
from bailiwick.paths import DEPTH_MAX, ROOT, ScopedPath, tree_too_deep
from bailiwick.stores.volume.changes import copy_node
from bailiwick.stores.volume.core import ChangeTurn, VolumeCore
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.lookup.depths import Depths
from bailiwick.stores.volume.refusals import check_expected, no_such, not_on_the_way
from bailiwick.stores.volume.rows.checksums import log_guard, row_guard
from bailiwick.stores.volume.rows.database import HEAD, RowSession
from bailiwick.stores.volume.rows.mutation import Attributes, Mutation, attributes_of
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    NOTHING,
    TYPES,
    BoundName,
    Inode,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import RowTree, open_tree
from bailiwick.stores.volume.versions.comparison import looks_same
from bailiwick.versions import ChangeKind, Conflict, Mark, Undoing, Version, Versions

_BINDINGS: Final = """
SELECT d.born, CASE WHEN d.died > l.bound THEN $5 ELSE d.died END, d.node, d.kind
FROM lineage l JOIN dentry d
    ON d.volume = l.volume AND d.branch = l.ancestor AND d.parent = $3 AND d.name = $4
    AND d.born <= l.bound
WHERE l.volume = $1 AND l.branch = $2 ORDER BY d.born DESC
"""
_ROWS: Final = """
SELECT i.born, i.kind, i.size, i.sha256, i.edition FROM lineage l JOIN inode i
    ON i.volume = l.volume AND i.branch = l.ancestor AND i.id = $3 AND i.born <= l.bound
    AND i.born < $4
WHERE l.volume = $1 AND l.branch = $2 ORDER BY i.born DESC LIMIT $5
"""
_NAMED: Final = """
SELECT d.born FROM lineage l JOIN dentry d
    ON d.volume = l.volume AND d.branch = l.ancestor AND d.node = $3 AND d.born <= l.bound
    AND d.born < $4
WHERE l.volume = $1 AND l.branch = $2 AND d.kind <> 0 ORDER BY d.born DESC LIMIT $5
"""
_WHO: Final = """
SELECT c.time_ns, c.verb, c.subject, c.request FROM lineage l JOIN change c
    ON c.volume = l.volume AND c.branch = l.ancestor AND c.version = $3 AND c.seq = 0
WHERE l.volume = $1 AND l.branch = $2 LIMIT 1
"""
_KEPT: Final = "SELECT last, horizon FROM volume WHERE id = $1"
_SNAPSHOT: Final = """
SELECT branch, version, created_ns, guard FROM snapshot
WHERE volume = $1 AND name = $2 AND ended IS NULL
"""
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


_CHECK: Final = "check the volume"

_DIGITS_MAX: Final = 18
"""No counter comes so far, and no database takes more."""


def number_of(version: str) -> int:
    """The number that a version is. Raises `ParseError` for what is none."""
    if not version.isascii() or not version.isdigit() or len(version) > _DIGITS_MAX:
        raise ParseError(f"{version[:64]!r} is no version", hint="versions are told by history")
    return int(version)


async def resolve_version(core: VolumeCore, session: RowSession, version: str) -> tuple[int, int]:
    """The branch and the number that a version or the name of a snapshot stand for.

    Raises `PathNotFound` for one that never was, or that is no longer kept.
    """
    volume, branch = core.view.volume, core.view.branch
    if not version.isascii() or not version.isdigit():
        row = await session.row(_SNAPSHOT, volume, version)
        if row is None:
            raise PathNotFound(f"there is no snapshot {version!r}")
        if row[3] is not None and row[3] != row_guard(version, *row[:3]):
            raise IoError("the row of the snapshot is damaged", hint=_CHECK)
        return row[0], row[1]
    number = number_of(version)
    last, horizon = await session.row(_KEPT, volume) or (0, 0)
    if number > last:
        raise PathNotFound(f"there is no version {version}")
    if number < horizon:
        raise PathNotFound(
            f"version {version} is no longer kept",
            details={"oldest": str(horizon)},
            hint=f"the oldest version that is kept is {horizon}; snapshots are kept until deleted",
        )
    return branch, number


async def find(tree: RowTree, path: ScopedPath) -> BoundName | None:
    """The node at a canonical path: links are not followed."""
    bound: BoundName | None = BoundName(tree.view.root, DIRECTORY)
    for name in path.parts:
        if bound is None or bound.kind != DIRECTORY:
            return None
        bound = await tree.name(bound.node, name)
    return bound


# --- history -----------------------------------------------------------------------------------


async def history(core: VolumeCore, path: ScopedPath, before: int | None, limit: int) -> Versions:
    """The versions of what stands at a canonical path, and of what stood there before; newest
    first, at most ``limit`` of those older than ``before``. A thing that was moved here brings its
    versions along, each with the path that it had then."""
    async with core.looking() as session:
        tree = await core.tree(session)
        view = core.view
        # Later than every version: what is told is older.
        until = view.at if view.at == HEAD else view.at + 1
        found = _Found(core, tree, until if before is None else before, limit)
        if path == ROOT:
            await found.add_node(BoundName(view.root, DIRECTORY), found.before)
            return found.newest_first()
        parent = await find(tree, path.parent)
        if parent is None or parent.kind != DIRECTORY:
            raise no_such(path)
        rows = await session.rows(
            _BINDINGS, view.volume, view.branch, parent.node, path.name, until
        )
        since = until
        for born, ended, node, kind in rows:
            # What an ancestor has lost later is here until the branch itself said otherwise.
            died, since = min(ended, since), born
            if kind == NOTHING:
                continue
            await found.add_node(BoundName(node, kind), died)
            await found.add_loss(path, died, BoundName(node, kind))
            if found.has_enough(born):
                break  # what stood here earlier is older than all of these
        if not found.versions and before is None:
            raise no_such(path)
        return found.newest_first()


class _Found:
    """The versions of a place, as they are found."""

    def __init__(self, core: VolumeCore, tree: RowTree, before: int, limit: int) -> None:
        self._core = core
        self._tree = tree
        self.before = before
        self._limit = limit
        self.versions: dict[int, Version] = {}

    def newest_first(self) -> Versions:
        found = [self.versions[number] for number in sorted(self.versions, reverse=True)]
        return Versions(found[: self._limit], len(found) > self._limit)

    def has_enough(self, since: int) -> bool:
        """Whether there are more than wanted from a version on."""
        return sum(number >= since for number in self.versions) > self._limit

    async def add_node(self, bound: BoundName, until: int) -> None:
        """Every row of a node that is older than ``until``, and how it came by its names."""
        view = self._tree.view
        asked = (view.volume, view.branch, bound.node, min(until, self.before), self._limit + 2)
        rows = await self._tree.session.rows(_ROWS, *asked)
        for number, (born, kind, size, sha256, _) in enumerate(rows[: self._limit + 1]):
            if kind != NOTHING and born not in self.versions:
                path = await self._at(born).path(bound.node)
                what: ChangeKind = "created" if number == len(rows) - 1 else "updated"
                # A row that a stage or a fork made before it had a name has no path of its own.
                await self._add(born, what, path or ROOT, kind, size, sha256)
        for (born,) in await self._tree.session.rows(_NAMED, *asked):
            if born not in self.versions:
                then = self._at(born)
                path, inode = await then.path(bound.node), await then.inode(bound.node)
                size, sha256 = (inode.size, inode.sha256) if inode else (0, None)
                await self._add(born, "moved", path or ROOT, bound.kind, size, sha256)

    async def add_loss(self, path: ScopedPath, died: int, bound: BoundName) -> None:
        """How a node lost its name: where the directory lay then that has ``path`` by now."""
        if died < self.before and died not in self.versions:
            after = await self._at(died).inode(bound.node)
            then = await self._at(died - 1).path(bound.node) or path
            await self._add(died, "moved" if after else "deleted", then, bound.kind, 0, None)

    def _at(self, version: int) -> RowTree:
        return self._core.tree_at(self._tree.session, self._tree.view._replace(at=version))

    async def _add(
        self, version: int, what: ChangeKind, path: ScopedPath, kind: int, size: int,
        sha256: bytes | None,
    ) -> None:  # fmt: skip
        view = self._tree.view
        row = await self._tree.session.row(_WHO, view.volume, view.branch, version)
        time_ns, verb, subject, request = row or (None, None, None, None)
        self.versions[version] = Version(
            version=str(version), kind=what, path=path, type=TYPES[kind],
            size=0 if kind == DIRECTORY else size, sha256=sha256.hex() if sha256 else None,
            time_ns=time_ns, verb=verb, subject=subject or "", request_id=request or "",
        )  # fmt: skip


# --- restore -----------------------------------------------------------------------------------


async def restore(
    turn: ChangeTurn, path: ScopedPath, branch: int, version: int, mark: Mark, expected: Expected
) -> int | None:
    """Make a place what it was at a version: a file, a link or a whole directory, or nothing.

    A node that still stands where it stood keeps its id. Everything else is made anew: an id that
    died may still have its place in a directory that was removed, and rows that gc may take.
    Returns the version that was made, None where nothing had to be changed.
    """
    then = await _tree_of(turn, branch, version)
    tree = turn.tree
    old = BoundName(tree.view.root, DIRECTORY) if path == ROOT else await find(then, path)
    now = await find(tree, path)
    if old is None and now is None:
        raise PathNotFound("it did not exist then, nor does it now", path=path)
    check_expected(path, None if now is None else await tree.inode(now.node), expected)
    mutation = turn.mutation("restore", mark)
    if path == ROOT:
        await check_lease(turn, 0, "", mark, beneath=old)
        changed = await _restore_directory(mutation, then, BoundName(tree.view.root, DIRECTORY), 0)
    else:
        place = await _place_for(turn, mutation, path)
        await check_lease(turn, place.parent, place.name, mark, beneath=await tree.name(*place))
        changed = await _restore(mutation, then, place, old, path.levels)
    await mutation.touch_directories()
    return mutation.version if changed else None


async def _tree_of(turn: ChangeTurn, branch: int, version: int) -> RowTree:
    core = turn.core
    view = core.view._replace(branch=branch, at=version)
    return await open_tree(turn.transaction.session, view)


async def _place_for(turn: ChangeTurn, mutation: Mutation, path: ScopedPath) -> RowPlace:
    """The place of a path; directories that are missing above it are made."""
    directory = turn.tree.view.root
    for name in path.parent.parts:
        bound = await turn.tree.name(directory, name)
        if bound is None:
            mode = turn.core.modes.directory
            attributes = Attributes(DIRECTORY, mode, 0, mutation.now_ns, None, None, None, None)
            directory = (await mutation.new_node(RowPlace(directory, name), attributes)).id
        elif bound.kind != DIRECTORY:
            raise not_on_the_way(path)
        else:
            directory = bound.node
    return RowPlace(directory, path.name)


async def _restore(
    mutation: Mutation, then: RowTree, place: RowPlace, old: BoundName | None, levels: int
) -> int:
    """Make one place what it was, ``levels`` levels deep."""
    tree = mutation.tree
    now = await tree.name(*place)
    if now is not None and old is not None and now.node == old.node:
        if old.kind == DIRECTORY:
            return await _restore_directory(mutation, then, old, levels)
        return await _restore_inode(mutation, then, old)
    changed = 0
    if now is not None:
        await mutation.set_name(place, None)
        await mutation.end_inode(now)
        changed += 1
    if old is not None:
        inode = await then.inode(old.node)
        if inode is not None:
            if await then.is_deeper(old, DEPTH_MAX - levels):
                raise tree_too_deep()
            changed += await copy_node(mutation, then, inode, place, anew=False)
    return changed


async def _restore_inode(mutation: Mutation, then: RowTree, bound: BoundName) -> int:
    old, now = await then.inode(bound.node), await mutation.tree.inode(bound.node)
    if old is None or (now is not None and looks_same(old, now)):
        return 0
    edition = now.edition if now is not None and now.sha256 == old.sha256 else None
    await mutation.set_inode(bound.node, attributes_of(old, edition=edition))
    return 1


async def _restore_directory(mutation: Mutation, then: RowTree, top: BoundName, levels: int) -> int:
    """Everything beneath a directory that still stands, and its own attributes."""
    changed, waiting = 0, [(top, levels + 1)]
    while waiting:
        directory, levels = waiting.pop()
        changed += await _restore_inode(mutation, then, directory)
        before = dict(await then.children(directory.node))
        after = dict(await mutation.tree.children(directory.node))
        # What goes, goes first: a node has one name at a time.
        for name in sorted(after.keys() - before.keys()):
            changed += await _restore(mutation, then, RowPlace(directory.node, name), None, levels)
        for name, old in before.items():
            if after.get(name) == old and old.kind == DIRECTORY:
                waiting.append((old, levels + 1))
            else:
                changed += await _restore(
                    mutation, then, RowPlace(directory.node, name), old, levels
                )
    return changed


# --- undo --------------------------------------------------------------------------------------


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
    _, horizon = await session.row(_KEPT, view.volume) or (0, 0)
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
            raise IoError(f"what the log says of version {version} is damaged", hint=_CHECK)
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
    plan = _UndoPlan(turn, keys)
    for group in _groups(keys):
        await plan.add(group)
    version = await plan.carry_out(mark)
    return UndoneVersions(version, plan.conflicts, frozenset(row[1] for row in rows))


def _groups(keys: dict[int, _UndoKeys]) -> list[list[int]]:
    """Versions that touch a common key, or a directory and a name in it, together."""
    groups: list[tuple[_UndoKeys, list[int]]] = []
    for version, touched in keys.items():
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

    def __init__(self, turn: ChangeTurn, keys: dict[int, _UndoKeys]) -> None:
        self._turn = turn
        self._keys = keys
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
        """Whether a directory that is gone now is put back, or made and gone, by the same group."""
        return any(node in self._keys[version].nodes for version in versions)

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
