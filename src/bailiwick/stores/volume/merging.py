"""Taking over what another branch has changed: three-way, node by node, never guessing.

For each node that the other side touched, three states are held against each other: as it was when
the two went apart (base), here (ours), there (theirs). What only they changed is taken over. Where
both changed the same thing differently it is a conflict, and nothing at all is taken over.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bailiwick.stores.volume.comparing import State, state_of, touched
from bailiwick.stores.volume.core import Turn
from bailiwick.stores.volume.database import HEAD
from bailiwick.stores.volume.history import Conflict, find, looks_same
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.mutation import Attributes, Mutation, attributes_of
from bailiwick.stores.volume.rows import DIRECTORY, Bound, Inode, Origin, Place
from bailiwick.stores.volume.tree import INODE, Tree, open_tree

_MERGED: Final = """
SELECT version FROM merged WHERE volume = $1 AND branch = $2 AND source = $3
"""
_PUT_MERGED: Final = """
INSERT INTO merged (volume, branch, source, version) VALUES ($1, $2, $3, $4)
ON CONFLICT (volume, branch, source) DO UPDATE SET version = excluded.version
"""
_SINCE: Final = """
SELECT DISTINCT node, was FROM change WHERE volume = $1 AND branch = $2 AND version > $3
"""


class Merged(NamedTuple):
    """What a merge took over, or the conflicts for which it took over nothing."""

    version: str | None
    changed: list[str]
    conflicts: list[Conflict]


class Conflicted(Exception):
    """Ends a merge that was begun: everything is undone."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


async def merge(turn: Turn, source: int, origin: Origin, *, verb: str = "merge") -> Merged:
    """Take over the changes of the branch ``source``. Raises `Conflicted`."""
    merging = _Merge(turn, source, origin, verb)
    await merging.look()
    await merging.plan()
    if merging.conflicts:
        raise Conflicted(merging.conflicts)
    return await merging.carry_out()


class _Merge:
    def __init__(self, turn: Turn, source: int, origin: Origin, verb: str) -> None:
        self._turn = turn
        self._source = source
        self._origin = origin
        self._verb = verb
        self._ours = turn.tree
        self.conflicts: list[Conflict] = []
        self._removed: list[tuple[int, State]] = []
        self._added: list[tuple[int, State]] = []
        self._moved: dict[int, Place] = {}
        self._changed: dict[int, Attributes] = {}
        self._same: dict[int, int] = {}  # a directory of theirs that is one of ours

    async def look(self) -> None:
        """Find out what both sides have touched, and since when."""
        session, view = self._turn.transaction.session, self._ours.view
        self._theirs = await open_tree(session, view._replace(branch=self._source, at=HEAD))
        ours, theirs = dict(self._ours.levels), self._theirs.levels
        row = await session.row(_MERGED, view.volume, view.branch, self._source)
        if row is not None:
            base = view._replace(branch=self._source, at=row[0])
            rows = await session.rows(_SINCE, view.volume, self._source, row[0])
            self._nodes = {node for each in rows for node in each if node}
        else:
            common = next(level for level in theirs if level.branch in ours)
            at = min(common.bound, ours[common.branch])
            base = view._replace(branch=common.branch, at=at)
            self._nodes = await touched(session, view.volume, theirs, self._ours.levels)
        self._base: Tree = await open_tree(session, base)
        self._touched_here = await touched(session, view.volume, self._ours.levels, theirs)

    # --- planning ------------------------------------------------------------------------------

    async def plan(self) -> None:
        for node in sorted(self._nodes):  # a directory is older than what is made in it
            base = await state_of(self._base, node)
            ours = await state_of(self._ours, node)
            theirs = await state_of(self._theirs, node)
            if theirs is None:
                await self._plan_removal(node, base, ours)
            elif base is None:
                await self._plan_addition(node, ours, theirs)
            elif ours is None:
                if not _is_same(base, theirs):
                    await self._conflict(node, "it was changed there and removed here")
            else:
                await self._plan_change(node, base, ours, theirs)

    async def _plan_removal(self, node: int, base: State | None, ours: State | None) -> None:
        if base is None:
            return
        if ours is None:
            standing = await self._ours.name(*base.place)
            if standing is not None and await self._theirs.name(*base.place) is None:
                await self._conflict(standing.node, "it was removed there and replaced here")
            return
        if not _is_same(base, ours):
            await self._conflict(node, "it was removed there and changed here")
            return
        if ours.inode.kind == DIRECTORY:
            for other in self._touched_here:
                if other != node and await self._differs_beneath(other, node):
                    await self._conflict(other, "it lies in a directory that was removed there")
                    return
        self._removed.append((node, ours))

    async def _differs_beneath(self, other: int, directory: int) -> bool:
        way = await self._ours.way_up(other)
        if way is None or directory not in {node for node, _ in way}:
            return False
        ours, base = await state_of(self._ours, other), await state_of(self._base, other)
        return ours is not None and (base is None or not _is_same(base, ours))

    async def _plan_addition(self, node: int, ours: State | None, theirs: State) -> None:
        if ours is not None:
            if not _is_same(ours, theirs):
                await self._conflict(node, "it was changed on both sides")
            return
        standing = await self._ours.name(*await self._here(theirs.place))
        before = await self._base.name(*theirs.place)
        if standing is None and before is not None and await self._ours.inode(before.node) is None:
            # Saving a file often means to put another in its place.
            await self._conflict(node, "it was replaced there and removed here")
            return
        if standing is not None and await self._leaves(standing.node):
            standing = None
        here = None if standing is None else await self._ours.inode(standing.node)
        if here is not None and here.kind == theirs.inode.kind == DIRECTORY:
            self._same[node] = here.id
            return
        if here is not None and _has_same_content(here, theirs.inode):
            return
        self._added.append((node, theirs))

    async def _leaves(self, node: int) -> bool:
        """Whether a node that stands here goes, or moves away, because it did there."""
        if node not in self._nodes:
            return False
        theirs, base = await state_of(self._theirs, node), await state_of(self._base, node)
        return base is not None and (theirs is None or theirs.place != base.place)

    async def _plan_change(self, node: int, base: State, ours: State, theirs: State) -> None:
        if theirs.place != base.place and theirs.place != ours.place:
            if ours.place != base.place:
                await self._conflict(node, "it was moved on both sides")
                return
            self._moved[node] = theirs.place
        merged = attributes_of(ours.inode)
        if theirs.inode.mode != base.inode.mode:
            if ours.inode.mode not in (base.inode.mode, theirs.inode.mode):
                await self._conflict(node, "its mode was set on both sides")
                return
            merged = merged._replace(mode=theirs.inode.mode)
        if _content(theirs.inode) != _content(base.inode) and not (
            _has_same_bytes(theirs.inode, ours.inode)
        ):
            if _content(ours.inode) not in (_content(base.inode), _content(theirs.inode)):
                await self._conflict(node, "it was changed on both sides")
                return
            merged = attributes_of(theirs.inode, mode=merged.mode, edition=None)
        if not _looks(merged, ours.inode):
            self._changed[node] = merged

    async def _here(self, place: Place) -> Place:
        """The same place in this branch: its directory may be another one here that both sides have
        made under the same name. One that was known here and removed is not looked for."""
        parent = place.parent
        if parent not in self._same and await self._ours.inode(parent) is None:
            view = self._ours.view
            row = await self._ours.session.row(INODE, view.volume, view.branch, view.at, parent, 0)
            path = await self._theirs.path(parent)
            there = None if row or path is None else await find(self._ours, path)
            if there is not None and there.kind == DIRECTORY:
                self._same[parent] = there.node
        return Place(self._same.get(parent, parent), place.name)

    async def _conflict(self, node: int, reason: str) -> None:
        path = await self._ours.path(node) or await self._theirs.path(node)
        path = path or await self._base.path(node)
        self.conflicts.append(Conflict(path or f"node {node}", reason))

    # --- carrying out ----------------------------------------------------------------------------

    async def carry_out(self) -> Merged:
        turn, tree, origin = self._turn, self._ours, self._origin
        mutation = turn.mutation(self._verb, origin)
        changed: list[str] = []
        for node, state in self._removed:
            changed.append(str(await tree.path(node)))
            bound = Bound(node, state.inode.kind)
            await check_lease(turn, *state.place, origin, beneath=bound)
        # All names are taken before any is given: a node has one name at a time.
        for _, state in self._removed:
            if await tree.name(*state.place) is not None:
                await mutation.set_name(state.place, None)
        for node in self._moved:
            place = await tree.place(node)
            if place is not None:
                await check_lease(turn, *place, origin)
                await mutation.set_name(place, None)
        for node, state in self._removed:
            await mutation.end_inode(Bound(node, state.inode.kind))
        for node, attributes in self._changed.items():
            await mutation.set_inode(node, attributes)
        bindings = {node: await self._here(place) for node, place in self._moved.items()}
        for node, state in self._added:
            bindings[node] = await self._here(state.place)
            await mutation.revive(node, attributes_of(state.inode, edition=None))
        await self._bind(mutation, bindings)
        changed += [str(await tree.path(node)) for node in {*bindings, *self._changed}]
        await mutation.touch_directories()
        view = tree.view
        await turn.transaction.session.run(
            _PUT_MERGED, view.volume, view.branch, self._source, mutation.version
        )
        return Merged(str(mutation.version), sorted(set(changed)), [])

    async def _bind(self, mutation: Mutation, bindings: dict[int, Place]) -> None:
        """Give the names. Raises `Conflicted` where one is taken, or leads nowhere."""
        tree = self._ours
        for node, place in bindings.items():
            inode = await tree.inode(node)
            assert inode is not None
            if await tree.name(*place) is not None:
                await self._conflict(node, "its name is taken here")
                continue
            await check_lease(self._turn, *place, self._origin)
            await mutation.set_name(place, Bound(node, inode.kind))
        for node in bindings:
            if not self.conflicts and await tree.way_up(node) is None:
                await self._conflict(node, "its directory is gone here, or was moved into it")
        if self.conflicts:
            raise Conflicted(self.conflicts)


def _is_same(a: State, b: State) -> bool:
    return a.place == b.place and looks_same(a.inode, b.inode)


def _content(inode: Inode) -> tuple[object, ...]:
    """What is taken over as one: the content of a file with its time, the text of a link."""
    if inode.kind == DIRECTORY:
        return ()
    return (inode.sha256, inode.size, inode.mtime_ns, inode.data)


def _has_same_bytes(a: Inode, b: Inode) -> bool:
    return (a.sha256, a.size, a.data) == (b.sha256, b.size, b.data)


def _has_same_content(a: Inode, b: Inode) -> bool:
    """Whether both sides have made the same thing."""
    return a.kind == b.kind and a.mode == b.mode and _has_same_bytes(a, b)


def _looks(attributes: Attributes, inode: Inode) -> bool:
    return looks_same(inode._replace(**attributes._replace(edition=0)._asdict()), inode)
