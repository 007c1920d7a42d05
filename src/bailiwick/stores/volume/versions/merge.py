"""Taking over what another branch has changed: three-way, node by node, never guessing.

For each node that the other side touched, three states are held against each other: as it was in
the newest state that both sides hold (base), here (ours), there (theirs). What only they changed is
taken over. Where both changed the same thing differently it is a conflict, and nothing at all is
taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bailiwick.errors import HashMismatch
from bailiwick.paths import DEPTH_MAX, ROOT, tree_too_deep
from bailiwick.stores.volume.core import ChangeTurn
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.lookup.ahead import AskedAhead, fetch_ahead
from bailiwick.stores.volume.lookup.cache import Cache
from bailiwick.stores.volume.lookup.depths import Depths
from bailiwick.stores.volume.rows.database import HEAD, INFINITY, RowSession
from bailiwick.stores.volume.rows.mutation import Attributes, Mutation, attributes_of
from bailiwick.stores.volume.rows.records import DIRECTORY, BoundName, Inode, RowKey, RowPlace
from bailiwick.stores.volume.rows.tree import INODE, Level, RowTree, open_tree
from bailiwick.stores.volume.versions.ancestry import (
    Origin,
    Unsettled,
    find_origin,
    held_by,
    is_same,
    note_taken,
)
from bailiwick.stores.volume.versions.comparison import NodeState, looks_same, state_of, touched
from bailiwick.versions import Conflict, Mark

_DRAFT: Final = """
SELECT id FROM branch WHERE volume = $1 AND id = $2 AND name IS NULL AND expires_ms > 0
"""


class Conflicted(Exception):
    """Ends a merge that was begun: everything is undone."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


class DraftChanges(NamedTuple):
    """What a draft is to be taken over from: its branch with all that it shows, what it has
    touched, and what is remembered of it."""

    branch: int
    levels: tuple[Level, ...]
    keys: Sequence[RowKey]
    cache: Cache

    @property
    def begun_at(self) -> int:
        """The version that it shows where it has changed nothing. All nodes that it made have
        greater numbers, and what lies in those it has made as well."""
        return self.levels[1].bound


async def merge(turn: ChangeTurn, source: int, mark: Mark) -> int | None:
    """Take over the changes of the branch ``source``; returns the version that was made, None where
    there was nothing to take over. Raises `Conflicted`."""
    merging = _Merge(turn, source, mark)
    await merging.look()
    return await _merged(merging)


async def merge_draft(turn: ChangeTurn, draft: DraftChanges, mark: Mark) -> int | None:
    """Take over a draft as it was seen: what others have put meanwhile into a directory that it
    moves is a conflict too, and so is a file that both have made or changed, be it that it holds
    the same: two who each count one more have not counted two. Raises `HashMismatch` where the
    draft is no longer kept."""
    merging = _Merge(turn, draft.branch, mark, draft)
    if not await merging.look_at(draft):
        raise HashMismatch("the transaction took too long", hint="begin it again")
    return await _merged(merging)


async def _merged(merging: _Merge) -> int | None:
    await merging.plan()
    await merging.refuse_newcomers()
    if merging.conflicts:
        raise Conflicted(merging.conflicts)
    return await merging.carry_out()


class _Merge:
    def __init__(
        self, turn: ChangeTurn, source: int, mark: Mark, draft: DraftChanges | None = None
    ) -> None:
        self._turn = turn
        self._source = source
        self._mark = mark
        self._draft = draft
        # Numbers after this one are of nodes that this branch has never had.
        self._made_after = INFINITY if draft is None else draft.begun_at
        self._touched_here: set[int] | None = None
        self._ours = turn.tree
        self.conflicts: list[Conflict] = []
        self._removed: list[tuple[int, NodeState]] = []
        self._added: list[tuple[int, NodeState]] = []
        self._moved: dict[int, RowPlace] = {}
        self._changed: dict[int, Attributes] = {}
        self._same: dict[int, int | None] = {}  # a directory of theirs that is one of ours

    async def look(self) -> None:
        """Find out what both sides have touched that the other one does not hold."""
        session, view = self._turn.transaction.session, self._ours.view
        self._theirs = await open_tree(session, view._replace(branch=self._source, at=HEAD))
        self._held = await held_by(session, view.volume, view.branch)
        self._held_there = await held_by(session, view.volume, self._source)
        self._base: Origin = await find_origin(session, view, self._held, self._held_there)
        # What a third branch did and took back there has left no trace in the other one itself.
        self._nodes = await touched(session, view.volume, self._held_there, self._held)
        for branch, upto in self._held_there.items():
            is_behind = 0 < self._held.get(branch, 0) < upto
            if is_behind and not await held_by(session, view.volume, branch):
                reason = "both hold another branch, not equally far, that is no longer kept"
                self.conflicts.append(Conflict(ROOT, reason))

    async def look_at(self, draft: DraftChanges) -> bool:
        """See what a draft changed: it has come from this branch as it was, took over nothing, and
        is taken over once. Returns whether it is still kept."""
        session, view = self._turn.transaction.session, self._ours.view
        self._theirs = RowTree(
            session, view._replace(branch=draft.branch, at=HEAD), draft.levels, draft.cache
        )
        then = RowTree(session, view._replace(at=draft.begun_at), draft.levels[1:], Cache())
        self._base = Origin([then], [])
        self._nodes = {node for key in draft.keys for node in (key.node, key.was) if node}
        if self._turn.core.at_once is not None:
            return await session.row(_DRAFT, view.volume, draft.branch) is not None
        return await self._fetch_ahead(session, draft, then)

    async def _fetch_ahead(self, session: RowSession, draft: DraftChanges, then: RowTree) -> bool:
        ours, begun_at = self._ours, draft.begun_at
        names = {RowPlace(key.parent, key.name) for key in draft.keys if key.parent}
        old = {node for node in self._nodes if node <= begun_at}
        above = {place.parent for place in names if place.parent <= begun_at}
        for cache in (ours.cache, then.cache):
            for node in self._nodes - old:  # nobody has these but the draft
                cache.inodes[node] = cache.places[node] = None
            for place in names:
                if place.parent > begun_at:
                    cache.names[place] = None
        here = [place for place in names if place.parent <= begun_at]
        wanted = [
            AskedAhead(ours, old | above, here),
            AskedAhead(self._theirs, self._nodes | above),
            AskedAhead(then, old, here),
        ]
        return await fetch_ahead(session, ours.view.volume, wanted, draft.branch)

    async def _changed_here(self) -> set[int]:
        """What was touched here since the other side has last seen it."""
        if self._touched_here is None:
            session, view = self._turn.transaction.session, self._ours.view
            if self._draft is None:
                held, seen = self._held, self._held_there
            else:
                held, seen = {view.branch: HEAD}, {view.branch: self._draft.begun_at}
            self._touched_here = await touched(session, view.volume, held, seen)
        return self._touched_here

    # --- planning ------------------------------------------------------------------------------

    async def plan(self) -> None:
        for node in sorted(self._nodes):  # a directory is older than what is made in it
            ours, theirs = await state_of(self._ours, node), await self._state_there(node)
            try:
                base = await self._base.state(node)
            except Unsettled:
                if not is_same(ours, theirs):
                    await self._conflict(node, "both sides come from different states of it")
                continue
            if theirs is None:
                await self._plan_removal(node, base, ours)
            elif base is None:
                await self._plan_addition(node, ours, theirs)
            elif ours is None:
                is_changed = not is_same(base, theirs)
                if is_changed and not await self._is_settled(node, self._theirs, self._ours):
                    await self._conflict(node, "it was changed there and removed here")
            else:
                await self._plan_change(node, base, ours, theirs)

    async def _state_there(self, node: int) -> NodeState | None:
        """A node as it is on the other side, in the directory that it would have here."""
        theirs = await state_of(self._theirs, node)
        if len(await self._theirs.way_up(node) or ()) > DEPTH_MAX + 1:
            raise tree_too_deep()  # at once: to look at each of a very deep tree takes minutes
        return None if theirs is None else theirs._replace(place=await self._here(theirs.place))

    async def _plan_removal(
        self, node: int, base: NodeState | None, ours: NodeState | None
    ) -> None:
        if base is None:
            return
        if ours is None:
            standing = await self._ours.name(*base.place)
            if standing is not None and await self._theirs.name(*base.place) is None:
                await self._conflict(standing.node, "it was removed there and replaced here")
            return
        if not is_same(base, ours):
            if not await self._is_settled(node, self._ours, self._theirs):
                await self._conflict(node, "it was removed there and changed here")
            return
        if ours.inode.kind == DIRECTORY:
            for other in await self._changed_here():
                if other != node and await self._differs_beneath(other, node):
                    await self._conflict(other, "it lies in a directory that was removed there")
                    return
        self._removed.append((node, ours))

    async def _is_settled(self, node: int, tree: RowTree, other: RowTree) -> bool:
        """Whether the side that removed a file has the same again where the other one has it: be it
        another node, somebody has decided between the two."""
        path, mine = await tree.path(node), await tree.inode(node)
        if self._draft is not None or path is None or mine is None or mine.kind == DIRECTORY:
            return False
        found = BoundName(other.view.root, DIRECTORY)
        for name in path.parts:
            bound = await other.name(found.node, name)
            if bound is None:
                return False
            found = bound
        theirs = await other.inode(found.node)
        return theirs is not None and _has_same_content(mine, theirs)

    async def _differs_beneath(self, other: int, directory: int) -> bool:
        way = await self._ours.way_up(other)
        if way is None or directory not in {node for node, _ in way}:
            return False
        ours = await state_of(self._ours, other)
        try:
            return ours is not None and not is_same(await self._base.state(other), ours)
        except Unsettled:
            return True

    async def _plan_addition(self, node: int, ours: NodeState | None, theirs: NodeState) -> None:
        if ours is not None:
            if not is_same(ours, theirs):
                await self._conflict(node, "it was changed on both sides")
            return
        if theirs.inode.kind == DIRECTORY and await self._twin(node) is not None:
            return
        standing = await self._ours.name(*theirs.place)
        before = await self._base.name(*theirs.place)
        if standing is None and before is not None and await self._ours.inode(before.node) is None:
            # Saving a file often means to put another in its place.
            await self._conflict(node, "it was replaced there and removed here")
            return
        if standing is not None and await self._leaves(standing.node):
            standing = None
        here = None if standing is None else await self._ours.inode(standing.node)
        if here is not None and self._draft is None and _has_same_content(here, theirs.inode):
            return
        self._added.append((node, theirs))

    async def _leaves(self, node: int) -> bool:
        """Whether a node that stands here goes, or moves away, because it did there."""
        if node not in self._nodes:
            return False
        try:
            base = await self._base.state(node)
        except Unsettled:
            return False  # that it stays is a conflict already, unless it is the same there
        theirs = await self._state_there(node)
        if base is None or theirs is not None:
            return base is not None and theirs is not None and theirs.place != base.place
        return is_same(base, await state_of(self._ours, node))  # else it is settled, or a conflict

    async def _plan_change(
        self, node: int, base: NodeState, ours: NodeState, theirs: NodeState
    ) -> None:
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
        if _content(theirs.inode) != _content(base.inode):
            is_changed = _content(ours.inode) != _content(base.inode)
            if _has_same_bytes(theirs.inode, ours.inode) and not (is_changed and self._draft):
                # With its time, be it that both wrote the same: from here on they are alike.
                merged = merged._replace(mtime_ns=theirs.inode.mtime_ns)
            elif is_changed:
                await self._conflict(node, "it was changed on both sides")
                return
            else:
                merged = attributes_of(theirs.inode, mode=merged.mode, edition=None)
        if not _looks(merged, ours.inode):
            self._changed[node] = merged

    async def refuse_newcomers(self) -> None:
        """What came into a directory that a draft moves was not there when that was decided on."""
        if self._draft is None or not self._moved:
            return
        for node in await self._changed_here():
            way = await self._ours.way_up(node)
            above = {each for each, _ in way or ()} & self._moved.keys()
            if above - {node} and await self._base.state(node) is None:
                await self._conflict(node, "it lies in a directory that was moved there")

    async def _here(self, place: RowPlace) -> RowPlace:
        """Where a place is in this branch: its directory may be another one here that both sides
        have made under the same name."""
        parent = place.parent
        if not parent or await self._ours.inode(parent) is not None:
            return place
        twin = await self._twin(parent)
        return place if twin is None else RowPlace(twin, place.name)

    async def _twin(self, directory: int) -> int | None:
        """The directory here that stands where one does that is not known here; None where there
        is none, or it leaves. One that was known here and removed has none.

        Which one it is may depend on the twins of any number of others, each on the next.
        """
        waiting = [directory] if directory not in self._same else []
        while waiting:
            # Meanwhile it has none: what stands here may move into it.
            self._same.setdefault(waiting[-1], None)
            needed = await self._settle(waiting[-1])
            if needed is None:
                waiting.pop()
            else:
                waiting.append(needed)
        return self._same[directory]

    async def _settle(self, directory: int) -> int | None:
        """Find out which directory here one of theirs is; returns another that has to be settled
        first, if there is one."""
        view, row = self._ours.view, None
        if directory <= self._made_after:
            row = await self._ours.session.row(
                INODE, view.volume, view.branch, view.at, directory, 0
            )
        place = None if row else await self._theirs.place(directory)
        if place is None:
            return None
        if await self._is_open(place.parent):
            return place.parent
        bound = await self._ours.name(*await self._here(place))
        if bound is None or bound.kind != DIRECTORY:
            return None
        goes_to = await self._theirs.place(bound.node) if bound.node in self._nodes else None
        if goes_to is not None and await self._is_open(goes_to.parent):
            return goes_to.parent
        if not await self._leaves(bound.node):
            self._same[directory] = bound.node
        return None

    async def _is_open(self, directory: int) -> bool:
        """Whether it takes a twin to say which directory it is here, and none was looked for."""
        if not directory or directory in self._same:
            return False
        return await self._ours.inode(directory) is None

    async def _conflict(self, node: int, reason: str) -> None:
        path = await self._ours.path(node) or await self._theirs.path(node)
        path = path or await self._base.path(node)
        self.conflicts.append(Conflict(path or ROOT, reason))

    # --- carrying out ----------------------------------------------------------------------------

    async def carry_out(self) -> int | None:
        if not (self._removed or self._added or self._moved or self._changed):
            await self._note_taken(self._turn.transaction.numbers.last)
            return None
        turn, tree, mark = self._turn, self._ours, self._mark
        mutation = turn.mutation("merge" if self._draft is None else "transaction", mark)
        for node, state in self._removed:
            bound = BoundName(node, state.inode.kind)
            await check_lease(turn, *state.place, mark, beneath=bound)
        # All names are taken before any is given: a node has one name at a time.
        for _, state in self._removed:
            if await tree.name(*state.place) is not None:
                await mutation.set_name(state.place, None)
        depths = Depths(tree, self._made_after)
        for node in self._moved:
            place = await tree.place(node)
            if place is not None:
                moving = await tree.name(*place)
                await depths.note([moving])
                await check_lease(turn, *place, mark, beneath=moving)
                await mutation.set_name(place, None)
        for node, state in self._removed:
            await mutation.end_inode(BoundName(node, state.inode.kind))
        for node, attributes in self._changed.items():
            place = await tree.place(node)
            if place is not None:
                await check_lease(turn, *place, mark)
            await mutation.set_inode(node, attributes)
        bindings = dict(self._moved)
        for node, state in self._added:
            bindings[node] = state.place
            await mutation.revive(node, attributes_of(state.inode, edition=None))
        await depths.check(await self._bind(mutation, bindings))
        await mutation.touch_directories()
        await self._note_taken(mutation.version)
        return mutation.version

    async def _note_taken(self, version: int) -> None:
        """From here on the two are apart again, be it that both had done the same. A draft is not
        taken over again."""
        if self._draft is None:
            session, view = self._turn.transaction.session, self._ours.view
            await note_taken(session, view, version, self._held, self._source, self._held_there)

    async def _bind(
        self, mutation: Mutation, bindings: dict[int, RowPlace]
    ) -> dict[RowPlace, BoundName | None]:
        """Give the names, and return them. Raises `Conflicted` where one is taken, or leads
        nowhere."""
        tree = self._ours
        given: dict[RowPlace, BoundName | None] = {}
        for node, place in bindings.items():
            inode = await tree.inode(node)
            assert inode is not None
            if await tree.name(*place) is not None:
                await self._conflict(node, "its name is taken here")
                continue
            await check_lease(self._turn, *place, self._mark)
            given[place] = BoundName(node, inode.kind)
            await mutation.set_name(place, given[place])
        for node in bindings:
            if not self.conflicts and await tree.way_up(node) is None:
                await self._conflict(node, "its directory is gone here, or was moved into it")
        if self.conflicts:
            raise Conflicted(self.conflicts)
        return given


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
