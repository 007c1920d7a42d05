"""What differs between two branches: found from the log of changes, not by walking the trees."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.core import Core
from bailiwick.stores.volume.database import HEAD, Session
from bailiwick.stores.volume.history import looks_same
from bailiwick.stores.volume.rows import TYPES, Inode, Place
from bailiwick.stores.volume.tree import Level, Tree, open_tree

_TOUCHED: Final = """
SELECT DISTINCT node, was FROM change
WHERE volume = $1 AND branch = $2 AND version > $3 AND version <= $4
"""


class Difference(NamedTuple):
    """One thing that is not the same in two branches. A directory that was moved or removed is one
    thing, whatever lies in it."""

    kind: Literal["added", "removed", "modified", "moved"]
    path: ScopedPath
    type: EntryType
    origin: ScopedPath | None = None
    sha256_before: str | None = None
    sha256: str | None = None


class State(NamedTuple):
    """A node that can be reached: its place, and what it is."""

    place: Place
    inode: Inode


async def state_of(tree: Tree, node: int) -> State | None:
    """The node as a tree shows it; None where it cannot be reached there."""
    if node == tree.view.root:
        inode = await tree.inode(node)
        return None if inode is None else State(Place(0, ""), inode)
    way = await tree.way_up(node)
    if way is None:
        return None
    inode = await tree.inode(node)
    place = await tree.place(node)
    return None if inode is None or place is None else State(place, inode)


async def touched(
    session: Session, volume: int, levels: tuple[Level, ...], others: tuple[Level, ...]
) -> set[int]:
    """Every node that one side has touched since it went its own way from the other."""
    bounds = dict(others)
    nodes: set[int] = set()
    for branch, bound in levels:
        since = min(bounds.get(branch, 0), bound)
        if since < bound:
            for row in await session.rows(_TOUCHED, volume, branch, since, bound):
                nodes.update(row)
    nodes.discard(0)
    return nodes


async def diff(core: Core, branch: int) -> list[Difference]:
    """What a branch has that this one has not, and the other way round, sorted by path."""
    async with core.looking() as session:
        ours = await core.tree(session)
        theirs = await open_tree(session, core.view._replace(branch=branch, at=HEAD))
        volume = core.view.volume
        nodes = await touched(session, volume, ours.levels, theirs.levels)
        nodes |= await touched(session, volume, theirs.levels, ours.levels)
        found = [await _difference(ours, theirs, node) for node in nodes]
    return sorted(each for each in found if each is not None)


async def _difference(ours: Tree, theirs: Tree, node: int) -> Difference | None:
    before, after = await state_of(ours, node), await state_of(theirs, node)
    if before is None and after is None:
        return None
    old_path = await ours.path(node) if before else None
    new_path = await theirs.path(node) if after else None
    if before is None and after is not None and new_path is not None:
        return Difference("added", new_path, TYPES[after.inode.kind], sha256=_hex(after.inode))
    if after is None and before is not None and old_path is not None:
        return Difference(
            "removed", old_path, TYPES[before.inode.kind], sha256_before=_hex(before.inode)
        )
    assert before is not None
    assert after is not None
    assert new_path is not None
    moved = before.place != after.place
    if not moved and looks_same(before.inode, after.inode):
        return None
    return Difference(
        "moved" if moved else "modified", new_path, TYPES[after.inode.kind],
        old_path if moved else None, _hex(before.inode), _hex(after.inode),
    )  # fmt: skip


def _hex(inode: Inode) -> str | None:
    return inode.sha256.hex() if inode.sha256 else None
