"""What differs between two views: found from the log of changes, not by walking the trees.

Two branches are compared, and a tree with itself before a change: what the change touched is what
whoever decides about paths has to know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.core import ChangeTurn, VolumeCore
from bailiwick.stores.volume.rows.checksums import damaged, is_sound
from bailiwick.stores.volume.rows.database import HEAD, INFINITY, RowSession
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    FILE,
    LINK,
    TYPES,
    Inode,
    RowKey,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import (
    IN_LONE_DIRECTORY,
    INODE_COLUMNS,
    PAGE_ROWS,
    RowTree,
    found_in_directory,
    open_tree,
)
from bailiwick.versions import ChangeKind, Difference, Touch

_TOUCHED: Final = """
SELECT DISTINCT node, was FROM change
WHERE volume = $1 AND branch = $2 AND version > $3 AND version <= $4
"""

_FOUND: Final = "SELECT d.name, i.guard, {}".format(
    ", ".join(
        "CASE WHEN i.kind = 3 THEN i.data END" if column == "data" else f"i.{column}"
        for column in INODE_COLUMNS.split(", ")
    )
)
_IN_LONE_DIRECTORY: Final = f"{_FOUND} {IN_LONE_DIRECTORY} ORDER BY d.name LIMIT $6"
_IN_DIRECTORY: Final = found_in_directory(_FOUND, "AND d.name <= $6 ORDER BY d.name")

_ORDER: Final[dict[ChangeKind, int]] = {"deleted": 0, "moved": 1, "created": 2, "updated": 3}
"""What goes makes room for what comes."""


class NodeState(NamedTuple):
    """A node that can be reached: its place, and what it is."""

    place: RowPlace
    inode: Inode


async def state_of(tree: RowTree, node: int) -> NodeState | None:
    """The node as a tree shows it; None where it cannot be reached there."""
    if node == tree.view.root:
        inode = await tree.inode(node)
        return None if inode is None else NodeState(RowPlace(0, ""), inode)
    way = await tree.way_up(node)
    if way is None:
        return None
    inode = await tree.inode(node)
    place = await tree.place(node)
    return None if inode is None or place is None else NodeState(place, inode)


def looks_same(a: Inode, b: Inode) -> bool:
    """Whether nobody could tell two states of a node apart; a directory's time is kept up without
    a version, so it does not count."""
    if a.kind != b.kind or a.mode != b.mode:
        return False
    if a.kind == DIRECTORY:
        return True
    return (a.mtime_ns, a.sha256, a.size, a.data) == (b.mtime_ns, b.sha256, b.size, b.data)


# --- two branches ------------------------------------------------------------------------------


async def touched(
    session: RowSession, volume: int, held: Mapping[int, int], other: Mapping[int, int]
) -> set[int]:
    """Every node that was touched by what one side holds and the other does not; both say up to
    which version they have the changes of each branch."""
    nodes: set[int] = set()
    for branch, bound in held.items():
        since = min(other.get(branch, 0), bound)
        if since < bound:
            for row in await session.rows(_TOUCHED, volume, branch, since, bound):
                nodes.update(row)
    nodes.discard(0)
    return nodes


async def compare(core: VolumeCore, branch: int) -> list[Difference]:
    """What a branch has that this one has not, and the other way round, sorted by path."""
    async with core.looking() as session:
        ours = await core.tree(session)
        theirs = await open_tree(session, core.view._replace(branch=branch, at=HEAD))
        volume = core.view.volume
        here, there = dict(ours.levels), dict(theirs.levels)
        nodes = await touched(session, volume, here, there)
        nodes |= await touched(session, volume, there, here)
        found = [await _touch(ours, theirs, node, told=True) for node in nodes]
    return [
        Difference(
            kind=each.kind, path=each.path, type=each.type, origin=each.origin,
            sha256_before=each.sha256_before, sha256=each.sha256,
        )
        for each in sorted((each for each in found if each is not None), key=_by_path)
        if not each.beneath
    ]  # fmt: skip


def _by_path(touch: Touch) -> tuple[str, str]:
    return touch.path.order, touch.kind


# --- before and after a change -----------------------------------------------------------------


async def touches_of(turn: ChangeTurn, version: int, made_after: int = INFINITY) -> list[Touch]:
    """All that a version has touched, with what lies in directories that came, went or moved. Of
    nodes that were ``made_after`` a version, all that lies in them was touched itself."""
    after, before = turn.tree, _before(turn, version)
    told = {node for key in _logged(turn, version) for node in (key.node, key.was) if node}
    found: list[Touch] = []
    for node in told:
        touch = await _touch(before, after, node, told=True)
        if touch is not None:
            found.append(touch)
            is_known = touch.kind == "updated" or (touch.kind == "created" and node > made_after)
            if touch.type == "directory" and not is_known:
                found += await _carried_along(before, after, node, touch, told)
    return sorted(_replacements(found), key=lambda touch: (_ORDER[touch.kind], *_by_path(touch)))


def _logged(turn: ChangeTurn, version: int) -> list[RowKey]:
    return [key for keys in turn.made for key in keys if key.version == version]


def _before(turn: ChangeTurn, version: int) -> RowTree:
    """The tree before a version that was made in this turn. Where the change has remembered what it
    touched, all the rest is what it is now."""
    view, latest = turn.tree.view._replace(at=version - 1), turn.latest
    cache = None if latest is None or latest.version != version else latest.before
    if cache is not None:
        cache.lean_on(turn.tree.cache, turn.tree.cache.seen)
    return turn.core.tree_at(turn.transaction.session, view, cache)


async def _carried_along(
    before: RowTree, after: RowTree, top: int, touch: Touch, told: set[int]
) -> list[Touch]:
    """What comes, goes or moves only because a directory does in which it lies.

    Every row that a version gave or took is told. So what is not told has the same row in both
    views, and the path of each is that of its directory: one statement a page of names, and none
    for each node.
    """
    kind, found = touch.kind, list[Touch]()
    tree = before if kind == "deleted" else after
    waiting = [(top, touch.path, touch.origin)]
    while waiting:
        directory, path, origin = waiting.pop()
        async for name, inode in _inside(tree, directory):
            if inode.id in told:
                continue
            here, there = path.child(name), None if origin is None else origin.child(name)
            found.append(_along(kind, here, there, inode))
            if inode.kind == DIRECTORY:
                waiting.append((inode.id, here, there))
    return found


def _along(kind: ChangeKind, path: ScopedPath, origin: ScopedPath | None, inode: Inode) -> Touch:
    size, sha256, mode = _size(inode), _hex(inode), inode.mode
    was, comes = kind != "created", kind != "deleted"
    return Touch(
        path, kind, TYPES[inode.kind], origin, size if comes else 0, size if was else 0,
        sha256 if comes else None, sha256 if was else None, True, mode, mode if was else None,
        _target(inode), inode.version if comes else None,
    )  # fmt: skip


async def _inside(tree: RowTree, directory: int) -> AsyncIterator[tuple[str, Inode]]:
    """The names in a directory, with their nodes, but for the content of files."""
    view, lone = tree.view, len(tree.levels) == 1
    sql, after = _IN_LONE_DIRECTORY if lone else _IN_DIRECTORY, ""
    while True:
        values = (view.volume, view.branch, view.at, directory, after)
        if lone:
            rows = await tree.session.rows(sql, *values, PAGE_ROWS)
        else:
            # To sort all names that follow would take longer with every page.
            names = await tree.children(directory, after, PAGE_ROWS)
            rows = await tree.session.rows(sql, *values, names[-1][0]) if names else []
        for name, guard, *row in rows:
            inode = Inode(*row)
            if inode.kind != FILE and not is_sound(inode, guard):
                raise damaged()
            yield name, inode
        if len(rows) < PAGE_ROWS:
            return
        after = rows[-1][0]


async def _touch(before: RowTree, after: RowTree, node: int, *, told: bool) -> Touch | None:
    """How a node differs in two views, if it does, be it only by where it is found."""
    old, new = await state_of(before, node), await state_of(after, node)
    if new is None:
        if old is None:
            return None
        path, inode = await before.path(node), old.inode
        assert path is not None
        return Touch(
            path, "deleted", TYPES[inode.kind], None, 0, _size(inode), None, _hex(inode), not told,
            inode.mode, inode.mode, _target(inode),
        )  # fmt: skip
    path, inode = await after.path(node), new.inode
    assert path is not None
    kind, version = TYPES[inode.kind], inode.version
    if old is None:
        return Touch(
            path, "created", kind, None, _size(inode), 0, _hex(inode), None, not told,
            inode.mode, None, _target(inode), version,
        )  # fmt: skip
    origin, same = await before.path(node), looks_same(old.inode, inode)
    if origin == path and same:
        return None
    moved = origin != path
    along = moved and same and old.place == new.place
    return Touch(
        path, "moved" if moved else "updated", kind, origin if moved else None,
        _size(inode), _size(old.inode), _hex(inode), _hex(old.inode), along or not told,
        inode.mode, old.inode.mode, _target(inode), version,
    )  # fmt: skip


def _replacements(touches: list[Touch]) -> list[Touch]:
    """Touches in which a file that took the place of another one is told once."""
    gone = {each.path: each for each in touches if each.kind == "deleted"}
    found, replaced = [], set[ScopedPath]()
    for each in touches:
        old = gone.get(each.path) if each.kind == "created" else None
        if old is not None and old.type == each.type != "directory":
            replaced.add(each.path)
            each = each._replace(
                kind="updated", size_before=old.size_before, sha256_before=old.sha256_before,
                mode_before=old.mode_before,
            )  # fmt: skip
        found.append(each)
    return [each for each in found if each.kind != "deleted" or each.path not in replaced]


def _size(inode: Inode) -> int:
    return 0 if inode.kind == DIRECTORY else inode.size


def _hex(inode: Inode) -> str | None:
    return inode.sha256.hex() if inode.sha256 else None


def _target(inode: Inode) -> str | None:
    """The text of a link."""
    return inode.data.decode() if inode.kind == LINK and inode.data is not None else None
