"""How much two branches hold of each other, and the state from which both have come.

A branch holds its ancestors up to where it was forked, and every branch that it took over, up to
where that was when it did so, with all that was held there (`taken`). A merge is sound only if its
base is the newest state that both sides hold, whichever of the two took over the other last: with
an older one, what one side took back since would look as if it had never been there.

Two branches that only ever took over each other have one such state, since a merge always takes
over the newest of the other. With more branches there may be several, none of which holds the
others (two branches took over a third one, each by itself). A node is then looked for in all of
them, and what differs is settled by the state from which those have come; where that does not
settle it, nobody guesses.
"""

from __future__ import annotations

from typing import Final

from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.rows.checksums import row_guard
from bailiwick.stores.volume.rows.database import HEAD, RowSession
from bailiwick.stores.volume.rows.records import BoundName, BranchView
from bailiwick.stores.volume.rows.tree import RowTree, open_tree
from bailiwick.stores.volume.versions.comparison import NodeState, looks_same, state_of

Held = dict[int, int]
"""Branches, and the version up to which the changes of each are held."""

_HELD: Final = """
SELECT t.source, max(t.upto) FROM lineage l JOIN taken t
    ON t.volume = l.volume AND t.branch = l.ancestor
    AND t.version <= CASE WHEN l.bound < $3 THEN l.bound ELSE $3 END
WHERE l.volume = $1 AND l.branch = $2 GROUP BY t.source
UNION ALL
SELECT ancestor, CASE WHEN bound < $3 THEN bound ELSE $3 END FROM lineage
WHERE volume = $1 AND branch = $2
"""
_LAST: Final = "SELECT max(version) FROM change WHERE volume = $1 AND branch = $2"
_BETWEEN: Final = """
SELECT 1 FROM change WHERE volume = $1 AND branch = $2 AND version > $3 AND version <= $4 LIMIT 1
"""
_PUT: Final = """
INSERT INTO taken (volume, branch, version, source, upto, guard) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (volume, branch, source, version) DO UPDATE SET
    upto = excluded.upto, guard = excluded.guard
"""


class Unsettled(Exception):
    """What a node was cannot be told: the newest states that both sides hold do not agree."""


async def held_by(session: RowSession, volume: int, branch: int, at: int = HEAD) -> Held:
    """All that a branch holds at a version, itself included; empty where it is no longer kept."""
    held: Held = {}
    for source, upto in await session.rows(_HELD, volume, branch, at):
        held[source] = max(upto, held.get(source, 0))
    return held


async def last_change(session: RowSession, volume: int, branch: int) -> int | None:
    """The version at which anything was changed in a branch last."""
    row = await session.row(_LAST, volume, branch)
    return None if row is None else row[0]


async def note_taken(
    session: RowSession, view: BranchView, version: int, ours: Held, source: int, theirs: Held
) -> None:
    """From ``version`` on a branch holds ``source`` as it is now, and all that this one holds."""
    last = await last_change(session, view.volume, source) or version
    for branch, upto in {**theirs, source: last}.items():
        if branch != view.branch and upto > ours.get(branch, 0):
            row = view.branch, version, branch, upto
            await session.run(_PUT, view.volume, *row, row_guard(*row))


async def _newest(session: RowSession, volume: int, shared: Held) -> dict[int, Held]:
    """Those of some states that no other one of them holds, each with what it holds itself."""
    newest: dict[int, Held] = {}
    # None holds what is newer than itself, so that one query settles most of them.
    for branch, at in sorted(shared.items(), key=lambda each: each[1], reverse=True):
        if any(held.get(branch, 0) >= at for held in newest.values()):
            continue
        own = await held_by(session, volume, branch, at)
        newest = {each: held for each, held in newest.items() if own.get(each, 0) < shared[each]}
        newest[branch] = own
    return newest


class Origin:
    """The newest state that two sides hold; made by `find_origin`."""

    def __init__(self, trees: list[RowTree], beneath: list[Origin]) -> None:
        self._trees = trees
        self._beneath = beneath  # of each tree but the first, and all before it

    async def state(self, node: int) -> NodeState | None:
        """A node as it was. Raises `Unsettled`."""
        if not self._trees:
            raise Unsettled
        found = await _state_then(self._trees[0], node)
        for tree, origin in zip(self._trees[1:], self._beneath, strict=True):
            other = await _state_then(tree, node)
            if is_same(found, other):
                continue
            before = await origin.state(node)
            if is_same(found, before):
                found = other
            elif not is_same(other, before):
                raise Unsettled
        return found

    async def name(self, parent: int, name: str) -> BoundName | None:
        """What had a name, in any of the states."""
        for tree in self._trees:
            bound = await tree.name(parent, name)
            if bound is not None:
                return bound
        return None

    async def path(self, node: int) -> ScopedPath | None:
        for tree in self._trees:
            path = await tree.path(node)
            if path is not None:
                return path
        return None


async def needs(session: RowSession, volume: int, branch: int, a: Held, b: Held) -> bool:
    """Whether a merge of two has to look at a third branch: one of them holds more of it, or it is
    what both have come from."""
    if branch not in a or branch not in b:
        return False
    ends = sorted((a[branch], b[branch]))
    if await session.row(_BETWEEN, volume, branch, *ends) is not None:
        return True
    return branch in await _newest(session, volume, _shared(a, b))


def _shared(a: Held, b: Held) -> Held:
    return {branch: min(a[branch], b[branch]) for branch in a.keys() & b.keys()}


async def find_origin(session: RowSession, view: BranchView, ours: Held, theirs: Held) -> Origin:
    """The newest state that both hold; ``view`` says of which volume."""
    shared = _shared(ours, theirs)
    newest = await _newest(session, view.volume, shared)
    trees, beneath, so_far = list[RowTree](), list[Origin](), Held()
    for branch, held in newest.items():
        if trees:
            beneath.append(await find_origin(session, view, so_far, held))
        trees.append(await open_tree(session, view._replace(branch=branch, at=shared[branch])))
        so_far = {
            each: max(so_far.get(each, 0), held.get(each, 0))
            for each in so_far.keys() | held.keys()
        }
    return Origin(trees, beneath)


async def common_state(
    session: RowSession, volume: int, ours: Held, theirs: Held
) -> tuple[int, int] | None:
    """The newest state that both hold, by its branch and version; None where there are several, or
    it is no longer kept."""
    shared = _shared(ours, theirs)
    newest = list(await _newest(session, volume, shared))
    if len(newest) != 1 or not await held_by(session, volume, newest[0]):
        return None
    return newest[0], shared[newest[0]]


async def _state_then(tree: RowTree, node: int) -> NodeState | None:
    if tree.levels:
        return await state_of(tree, node)
    # A branch that both took over was deleted, and taken away since. Nodes are numbered as they are
    # made, so this much is known of it.
    if node <= tree.view.at:
        raise Unsettled
    return None


def is_same(a: NodeState | None, b: NodeState | None) -> bool:
    """Whether a node is where it was, and what it was."""
    if a is None or b is None:
        return a is b
    return a.place == b.place and looks_same(a.inode, b.inode)
