"""Looking back and going back: the versions of a place, and restoring one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from bailiwick.errors import IoError, ParseError, PathNotFound
from bailiwick.model import Expected
from bailiwick.paths import DEPTH_MAX, ROOT, ScopedPath, tree_too_deep
from bailiwick.stores.volume.changes import copy_node
from bailiwick.stores.volume.core import ChangeTurn, VolumeCore
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.refusals import check_expected, no_such, not_on_the_way
from bailiwick.stores.volume.rows.checksums import row_guard
from bailiwick.stores.volume.rows.database import HEAD, RowSession
from bailiwick.stores.volume.rows.mutation import Attributes, Mutation, attributes_of
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    NOTHING,
    TYPES,
    BoundName,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import RowTree, open_tree
from bailiwick.stores.volume.versions.comparison import looks_same
from bailiwick.versions import ChangeKind, Mark, Version, Versions

_BINDINGS: Final = """
SELECT d.born, CASE WHEN d.died > l.bound THEN $5 ELSE d.died END, d.node, d.kind
FROM lineage l JOIN dentry d
    ON d.volume = l.volume AND d.branch = l.ancestor AND d.parent = $3 AND d.name = $4
    AND d.born <= l.bound
WHERE l.volume = $1 AND l.branch = $2 ORDER BY d.born DESC
"""
_ROWS: Final = """
SELECT i.born, i.kind, i.mode, i.size, i.sha256 FROM lineage l JOIN inode i
    ON i.volume = l.volume AND i.branch = l.ancestor AND i.id = $3 AND i.born <= l.bound
    AND i.born < $4
WHERE l.volume = $1 AND l.branch = $2 ORDER BY i.born DESC LIMIT $5
"""
_NAMED: Final = """
SELECT d.born FROM lineage l CROSS JOIN dentry d
WHERE l.volume = $1 AND l.branch = $2
    AND d.volume = l.volume AND d.branch = l.ancestor AND d.node = $3 AND d.born <= l.bound
    AND d.born < $4 AND d.kind <> 0 ORDER BY d.born DESC LIMIT $5
"""
"""In SQLite `CROSS JOIN` says what comes first: it would go through all names that ever were."""
_WHO: Final = """
SELECT c.time_ns, c.verb, c.subject, c.request FROM lineage l JOIN change c
    ON c.volume = l.volume AND c.branch = l.ancestor AND c.version = $3 AND c.seq = 0
WHERE l.volume = $1 AND l.branch = $2 LIMIT 1
"""
KEPT: Final = "SELECT last, horizon FROM volume WHERE id = $1"
_SNAPSHOT: Final = """
SELECT branch, version, created_ns, guard FROM snapshot
WHERE volume = $1 AND name = $2 AND ended IS NULL
"""


CHECK: Final = "check the volume"

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
            raise IoError("the row of the snapshot is damaged", hint=CHECK)
        return row[0], row[1]
    number = number_of(version)
    last, horizon = await session.row(KEPT, volume) or (0, 0)
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


async def history(
    core: VolumeCore, path: ScopedPath, before: int | None, limit: int, own: bool = False
) -> Versions:
    """The versions of what stands at a canonical path, and of what stood there before; newest
    first, at most ``limit`` of those older than ``before``. A thing that was moved here brings its
    versions along, each with the path that it had then; one that was removed with its directory is
    told as if it had been by itself. With ``own`` what came from elsewhere is the last of it."""
    async with core.looking() as session:
        tree = await core.tree(session)
        view = core.view
        # Later than every version: what is told is older.
        until = view.at if view.at == HEAD else view.at + 1
        found = _Found(core, tree, until if before is None else before, limit, own)
        if path == ROOT:
            await found.add_node(BoundName(view.root, DIRECTORY), found.before)
            return found.newest_first()
        for parent in await found.directories(path.parent, until):
            async for name in found.names(parent, path.name):
                await found.add_node(name.bound, name.died)
                await found.add_loss(path, name.died, name.bound)
                if found.has_enough(name.born):  # what stood here earlier is older than those
                    return found.newest_first()
        if not found.versions and before is None:
            raise no_such(path)
        return found.newest_first()


async def origin(core: VolumeCore, path: ScopedPath, version: int) -> ScopedPath | None:
    """Where something lay that a version has moved to a canonical path."""
    async with core.looking() as session:
        then, before = (
            core.tree_at(session, core.view._replace(at=each)) for each in (version, version - 1)
        )
        bound = await find(then, path)
        return None if bound is None else await before.path(bound.node)


class _Name(NamedTuple):
    """What had a name in a directory, from a version on to another."""

    bound: BoundName
    born: int
    died: int


class _Found:
    """The versions of a place, as they are found."""

    def __init__(self, core: VolumeCore, tree: RowTree, before: int, limit: int, own: bool) -> None:
        self._core = core
        self._tree = tree
        self.before = before
        self._limit = limit
        self._own = own
        self.versions: dict[int, Version] = {}

    def newest_first(self) -> Versions:
        found = [self.versions[number] for number in sorted(self.versions, reverse=True)]
        return Versions(found[: self._limit], len(found) > self._limit)

    def has_enough(self, since: int) -> bool:
        """Whether there are more than wanted from a version on."""
        return sum(number >= since for number in self.versions) > self._limit

    async def directories(self, path: ScopedPath, until: int) -> list[_Name]:
        """The directories that stand at a path or were removed from it, the newest first. What lay
        in one that was moved away is told where it went, from before it came there, too."""
        found = [_Name(BoundName(self._tree.view.root, DIRECTORY), 0, until)]
        for name in path.parts:
            found = [
                each._replace(born=0) if await self._was_elsewhere(*each[:2]) else each
                for above in found
                async for each in self.names(above, name)
                if each.bound.kind == DIRECTORY
                and (each.died == until or await self._at(each.died).path(each.bound.node) is None)
            ]
        return found

    async def names(self, directory: _Name, name: str) -> AsyncGenerator[_Name, None]:
        """All that had a name in a directory while that stood there, the newest first."""
        view, since = self._tree.view, directory.died
        rows = await self._tree.session.rows(
            _BINDINGS, view.volume, view.branch, directory.bound.node, name, directory.died
        )
        for born, ended, node, kind in rows:
            # What an ancestor has lost later is here until the branch itself said otherwise.
            died, since = min(ended, since), born
            if kind != NOTHING and directory.born < died and born < directory.died:
                yield _Name(BoundName(node, kind), born, died)
                if self._own and await self._was_elsewhere(BoundName(node, kind), born):
                    return

    async def _was_elsewhere(self, bound: BoundName, born: int) -> bool:
        """Whether a node had a name before."""
        view = self._tree.view
        rows = await self._tree.session.rows(_NAMED, view.volume, view.branch, bound.node, born, 1)
        return bool(rows)

    async def add_node(self, bound: BoundName, until: int) -> None:
        """Every row of a node that is older than ``until``, and how it came by its names."""
        view = self._tree.view
        asked = (view.volume, view.branch, bound.node, min(until, self.before), self._limit + 2)
        rows = await self._tree.session.rows(_ROWS, *asked)
        for number, (born, kind, mode, size, sha256) in enumerate(rows[: self._limit + 1]):
            if kind != NOTHING and born not in self.versions:
                path = await self._at(born).path(bound.node)
                what: ChangeKind = "created" if number == len(rows) - 1 else "updated"
                # A row that a stage or a fork made before it had a name has no path of its own.
                await self._add(born, what, path or ROOT, kind, mode, size, sha256)
        for (born,) in await self._tree.session.rows(_NAMED, *asked):
            if born not in self.versions:
                then = self._at(born)
                path, inode = await then.path(bound.node), await then.inode(bound.node)
                attributes = (inode.mode, inode.size, inode.sha256) if inode else (None, 0, None)
                await self._add(born, "moved", path or ROOT, bound.kind, *attributes)

    async def add_loss(self, path: ScopedPath, died: int, bound: BoundName) -> None:
        """How a node lost its name: where the directory lay then that has ``path`` by now."""
        if died < self.before and died not in self.versions:
            after = await self._at(died).path(bound.node)
            then = await self._at(died - 1).path(bound.node) or path
            await self._add(died, "moved" if after else "deleted", then, bound.kind)

    def _at(self, version: int) -> RowTree:
        return self._core.tree_at(self._tree.session, self._tree.view._replace(at=version))

    async def _add(
        self, version: int, what: ChangeKind, path: ScopedPath, kind: int, mode: int | None = None,
        size: int = 0, sha256: bytes | None = None,
    ) -> None:  # fmt: skip
        view = self._tree.view
        row = await self._tree.session.row(_WHO, view.volume, view.branch, version)
        time_ns, verb, subject, request = row or (None, None, None, None)
        self.versions[version] = Version(
            version=str(version), kind=what, path=path, type=TYPES[kind],
            size=0 if kind == DIRECTORY else size, sha256=sha256.hex() if sha256 else None,
            time_ns=time_ns, verb=verb, subject=subject or "", request_id=request or "",
            mode=None if mode is None else mode & 0o777,
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
