"""Small content on its way to a name: the usual write, in one piece.

Over a file that stands, or to a new name in a directory, it does in a row what `changes.admit`,
`changes.publish` and `Mutation` do in steps, and leaves the same rows. One by one, over coroutines
that have nothing to wait for, the steps take three times as long as SQLite needs for the rows.
Whatever turns out to be unusual is left to them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from bailiwick.store import WritePlan, Written
from bailiwick.stores.volume import changes
from bailiwick.stores.volume.content.chunks import Stored
from bailiwick.stores.volume.core import FIRST, ChangeTurn, VolumeCore
from bailiwick.stores.volume.lookup.cache import Cache, Own
from bailiwick.stores.volume.lookup.paths import VolumeHandle
from bailiwick.stores.volume.refusals import check_expected
from bailiwick.stores.volume.rows.checksums import inode_guard, log_guard, name_guard
from bailiwick.stores.volume.rows.database import Row, run_through
from bailiwick.stores.volume.rows.mutation import LOG, NEW_INODE, PUT_NAME, TOUCH
from bailiwick.stores.volume.rows.records import (
    FILE,
    PERMISSION_BITS,
    Inode,
    RowPlace,
)
from bailiwick.stores.volume.rows.schema import for_sqlite
from bailiwick.stores.volume.rows.sqlite_file import VolumeTurn
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.versions import Mark

_NEW_INODE: Final = for_sqlite(NEW_INODE)
_PUT_NAME: Final = for_sqlite(PUT_NAME)
_TOUCH: Final = for_sqlite(TOUCH)
_LOG: Final = for_sqlite(LOG)
_LOG_WITH_NAME: Final = f"""{_LOG}, (
    ?1, ?2, ?3, 1, ?5, ?16, ?17, ?8, ?9, NULL, NULL, NULL, NULL, NULL, NULL
)"""

_VERB: Final = "write"


class SmallWrite:
    """One write of content that is kept in the node's row."""

    __slots__ = ("_core", "_data", "_held", "_mark", "_own", "_plan", "_sha256")

    def __init__(
        self, core: VolumeCore, held: VolumeHandle, data: bytes, sha256: bytes, plan: WritePlan,
        mark: Mark,
    ) -> None:  # fmt: skip
        self._core = core
        self._held = held
        self._data = data
        self._sha256 = sha256
        self._plan = plan
        self._mark = mark
        self._own: Own | None = None  # where it was done in one piece

    def done_inline(self) -> Written | None:
        """Do it at once, on this thread; None where it has to be awaited, and nothing was done."""
        if self._core.at_once is None:
            return None
        written = self._core.work_inline(self._core.at_once, self._in_turn)
        if written is not None and self._own is not None:
            self._core.cache.take(self._own)
        return written

    def done(self) -> Coroutine[Any, Any, Written]:
        """Do it, durably: to be awaited."""
        if self._core.at_once is None:
            return self._core.change(self._in_steps)
        return self._core.work(self._core.at_once, self._in_turn_elsewhere)

    def _in_turn(self, turn: VolumeTurn) -> Written:
        """On the thread of those who look: what they have seen is as the turn would see it, where
        nobody has changed anything since."""
        seen = self._core.cache
        return self._done_in(turn, seen if seen.seen == turn.begun_at else None)

    def _in_turn_elsewhere(self, turn: VolumeTurn) -> Written:
        written = self._done_in(turn, None)
        if self._own is not None:
            self._core.note(turn, self._own)
        return written

    def _done_in(self, turn: VolumeTurn, seen: Cache | None) -> Written:
        written = self.in_one_piece(turn, seen)
        return run_through(self._core.run(self._in_steps, turn)) if written is None else written

    # --- in steps ------------------------------------------------------------------------------

    async def _in_steps(self, turn: ChangeTurn) -> Written:
        held, plan = self._held, self._plan
        spot, old = await changes.admit(turn.tree, held, plan)
        fresh = changes.FreshContent(len(self._data), self._sha256, self._stored)
        return await changes.publish(turn, held, spot, old, fresh, plan, self._mark)

    async def _stored(self) -> Stored:
        return Stored(self._data, None)

    # --- in one piece --------------------------------------------------------------------------

    def in_one_piece(self, turn: VolumeTurn, seen: Cache | None) -> Written | None:
        """None where it is to be done in steps: nothing was done. What is ``seen`` by others is
        asked for what the turn does not remember itself."""
        core, held, plan = self._core, self._held, self._plan
        parent, view = held.parent, core.view
        cache = turn.cache(view.branch)
        seen = seen or cache
        if (
            parent is None
            or held.missing
            or turn.locks
            or self._mark.lock_token is not None
            or len(self._data) > plan.size_max
        ):
            return None
        if view.branch != FIRST:
            run_through(core.refuse_deleted(turn.session))
        tree = RowTree(turn.session, view, core.levels, cache)
        stands = cache.leads_up(parent, view.root) or seen.leads_up(parent, view.root)
        if not stands and run_through(tree.way_up(parent)) is None:
            return None
        place = RowPlace(parent, held.path.name)
        bound = cache.names.get(place) or seen.names.get(place)
        if bound is None and place not in cache.names and place not in seen.names:
            bound = run_through(tree.name(*place))
        node = parent if bound is None else bound.node
        found = cache.inodes.get(node) or seen.inodes.get(node) or run_through(tree.inode(node))
        if found is None:
            return None
        if bound is None:
            return self._under_a_new_name(turn, cache, place, found)
        if bound.kind != FILE or plan.mode == "create":
            return None
        if plan.conditional:
            check_expected(held.path, found, plan.expected)
        return self._over(turn, cache, found)

    def _over(self, turn: VolumeTurn, cache: Cache, old: Inode) -> Written:
        """Give a file that stands other content."""
        before = turn.numbers.last
        version = turn.numbers.next()
        inode = self._put(turn, version, old.id, old)
        cache.inodes[old.id] = inode
        self._own = Own(before, version, (), inode)
        return Written(False, inode.size, self._sha256.hex(), inode.version, inode.mode, old.size)

    def _under_a_new_name(
        self, turn: VolumeTurn, cache: Cache, place: RowPlace, directory: Inode
    ) -> Written | None:
        """Make a file. In a fork the name may hide another, which is looked at in steps."""
        core, numbers, plan = self._core, turn.numbers, self._plan
        volume, branch, _, _ = core.view
        parent, name = place
        if len(core.levels) > 1 or plan.mode == "replace" or plan.conditional:
            return None
        before, version = numbers.last, numbers.next()
        inode = self._put(turn, version, numbers.next(), None, place)
        node, now_ns, run = inode.id, inode.mtime_ns, turn.session.run_raw
        guard = name_guard(parent, name, node, FILE)
        run(_PUT_NAME, (volume, branch, parent, name, version, node, FILE, guard))
        above = directory.touched(now_ns)
        run(_TOUCH, (volume, branch, parent, above.born, now_ns, inode_guard(above)))
        cache.know(place, inode, above)
        self._own = Own(before, numbers.last, (), inode, place, above)
        return Written(True, inode.size, self._sha256.hex(), inode.version, inode.mode)

    def _put(
        self, turn: VolumeTurn, version: int, node: int, old: Inode | None, place: Row = ()
    ) -> Inode:
        """Say what a node is from this version on, and log it with who asked for it; also that it
        has a name, where it is given its ``place``."""
        volume, branch, _, _ = self._core.view
        plan, mark, data, now_ns = self._plan, self._mark, self._data, self._core.clock_ns()
        mode = self._core.modes.file if old is None else old.mode
        created_ns = now_ns if old is None else old.created_ns
        mode = (mode if plan.file_mode is None else plan.file_mode) & PERMISSION_BITS
        inode = Inode(
            node, version, FILE, mode, len(data), now_ns, version, self._sha256, None, data,
            created_ns,
        )  # fmt: skip
        subject, request, note = mark.subject or None, mark.request_id or None, mark.note or None
        guard = log_guard(branch, version, now_ns, _VERB, subject, request, note, mark.key)
        run = turn.session.run_raw
        run(_NEW_INODE, (volume, branch, *inode, inode_guard(inode)))
        run(
            _LOG_WITH_NAME if place else _LOG,
            (volume, branch, version, 0, now_ns, 0, "", node, 0, _VERB, subject, request, note,
             mark.key, guard, *place),
        )  # fmt: skip
        return inode
