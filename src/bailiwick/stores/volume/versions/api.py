"""Everything about versions that a volume offers beside the verbs of a store, in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from bailiwick.errors import BailiwickError, ParseError, PathNotFound, Unsupported
from bailiwick.model import ANYTHING, Expected
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle
from bailiwick.stores.volume import leases
from bailiwick.stores.volume.core import ChangeTurn, Identity, VolumeCore
from bailiwick.stores.volume.fsck import check
from bailiwick.stores.volume.fsck.check import Checked, Info
from bailiwick.stores.volume.lookup.cache import Cache
from bailiwick.stores.volume.retention import garbage
from bailiwick.stores.volume.retention.garbage import VolumeCollected
from bailiwick.stores.volume.rows.database import INFINITY, RowSession
from bailiwick.stores.volume.rows.records import RowKey
from bailiwick.stores.volume.rows.tree import levels_of
from bailiwick.stores.volume.versions import branches, change_log, history
from bailiwick.stores.volume.versions.ancestry import common_state, held_by, last_change
from bailiwick.stores.volume.versions.comparison import compare, touches_of
from bailiwick.stores.volume.versions.draft_core import NUMBERS as SET_ASIDE
from bailiwick.stores.volume.versions.draft_core import DraftCore
from bailiwick.stores.volume.versions.merge import Conflicted, DraftChanges, merge, merge_draft
from bailiwick.stores.volume.versions.undo import undo
from bailiwick.versions import (
    BeneathPage,
    BranchBeside,
    Conflict,
    Difference,
    Done,
    Fork,
    Leased,
    Mark,
    Plan,
    Snapshot,
    Stale,
    Touch,
    Undoing,
)
from bailiwick.versions import Versions as Recorded

if TYPE_CHECKING:
    from bailiwick.stores.volume.store import VolumeStore

_LOGGED: Final = """
SELECT version, parent, name, node, was FROM change WHERE volume = $1 AND branch = $2
"""
_BRANCH_NAME: Final = "SELECT coalesce(name, '') FROM branch WHERE volume = $1 AND id = $2"
_KEPT: Final = "SELECT last, horizon FROM volume WHERE id = $1"
_TRANSACTION_MS: Final = 3_600_000
"""After an hour a transaction whose process is gone is taken for abandoned."""

_NOTES: Final = """
SELECT c.version, c.note FROM change c
    JOIN branch b ON b.volume = c.volume AND b.id = c.branch
    AND (b.name IS NOT NULL OR b.ended IS NOT NULL)
WHERE c.volume = $1 AND c.note IS NOT NULL
    AND c.version > (SELECT drained FROM volume WHERE id = $1)
ORDER BY c.version LIMIT $2
"""
_DRAINED: Final = "UPDATE volume SET drained = $2 WHERE id = $1 AND drained < $2"


class VersionNote(NamedTuple):
    """What was kept with a change, for whoever wrote it there."""

    version: str
    note: bytes


class Worked(NamedTuple):
    """What came of a piece of work: the version it made, if any."""

    version: int | None
    conflicts: Sequence[Conflict] = ()
    subjects: frozenset[str] = frozenset()
    made_after: int = INFINITY  # as `touches_of` has it


Result = TypeVar("Result")
Work = Callable[[ChangeTurn], Awaitable[Worked]]


class _TakenBack(Exception):
    """Ends a turn whose work was only to be looked at."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


async def _nothing(number: int) -> None:
    """What somebody is told who comes again to delete what they have deleted."""


async def _looked_at(turn: ChangeTurn, worked: Worked) -> Plan:
    touches: list[Touch] = []
    if worked.version is not None:
        touches = await touches_of(turn, worked.version, worked.made_after)
    return Plan(touches, worked.conflicts, worked.subjects)


class VolumeDraft:
    """A transaction of one branch. Made by `VolumeVersions.begin`."""

    store: VolumeStore

    def __init__(self, versions: VolumeVersions, forked: branches.Forked) -> None:
        self._versions = versions
        self._forked = forked
        self._over = False

    async def plan(self, mark: Mark) -> Plan:
        await self._write_what_is_needed()
        return await self._versions._planned(self._committing(mark))

    async def commit(self, mark: Mark, *, cleared: Plan | None = None) -> Done:
        await self._write_what_is_needed()
        return await self._versions._carried_out(self._committing(mark), cleared)

    def _committing(self, mark: Mark) -> Work:
        async def work(turn: ChangeTurn) -> Worked:
            changes = await self._changes(turn)
            version = await merge_draft(turn, changes, mark)
            return Worked(version, made_after=changes.begun_at)

        return work

    async def _changes(self, turn: ChangeTurn) -> DraftChanges:
        (branch, levels), core = self._forked, self.store.core
        if isinstance(core, DraftCore) and core.held is not None:
            return DraftChanges(branch, levels, core.held.keys, core.held.cache)
        rows = await turn.transaction.session.rows(_LOGGED, turn.tree.view.volume, branch)
        return DraftChanges(branch, levels, [RowKey(*row) for row in rows], Cache())

    async def _write_what_is_needed(self) -> None:
        """What a draft holds beyond its tree is not taken over with it."""
        core = self.store.core
        if isinstance(core, DraftCore) and core.held is not None and not core.held.is_tree_alone:
            await core.write_held()

    async def discard(self) -> None:
        if self._over:
            return
        self._over = True
        if hasattr(self, "store"):
            await self.store.aclose()
        core = self._versions._core
        if not core.is_closed:
            volume, branch = core.view.volume, self._forked.branch
            forgetting = core.database.write(
                lambda turn: branches.forget_branch(turn, volume, branch), core
            )
            with suppress(BailiwickError):
                await asyncio.shield(asyncio.ensure_future(forgetting))


class VolumeVersions:
    """The history of one store's branch. Made by `VolumeStore.versions`."""

    def __init__(self, store: VolumeStore) -> None:
        self._store = store
        self._core: VolumeCore = store.core

    # --- looking back ------------------------------------------------------------------------

    async def history(
        self, path: ScopedPath, *, before: str | None = None, limit: int = 100, own: bool = False
    ) -> Recorded:
        """The versions of a place, newest first. ``path`` is canonical. Raises `PathNotFound`."""
        until = None if before is None else history.number_of(before)
        return await history.history(self._core, path, until, limit, own)

    async def beneath(self, path: ScopedPath, *, cursor: str | None, limit: int) -> BeneathPage:
        return await change_log.beneath(self._core, path, cursor, limit)

    async def origin(self, path: ScopedPath, version: str) -> ScopedPath | None:
        return await history.origin(self._core, path, history.number_of(version))

    async def as_of(self, version: str) -> VolumeStore:
        """The tree as it was at a version or snapshot: a store that only reads. To be closed, since
        gc keeps what it may look at. Raises `PathNotFound` for what is not kept."""
        core = self._core
        async with core.looking() as session:
            branch, number = await history.resolve_version(core, session, version)
            return await self._then(session, branch, number)

    async def _then(self, session: RowSession, branch: int, number: int) -> VolumeStore:
        core = self._core
        levels = await levels_of(session, core.view._replace(branch=branch, at=number))
        identity = Identity(core.view.volume, core.identity.uid, branch, core.view.root)
        then = VolumeCore(
            core.database, identity, levels, core.blobs,
            limits=core.limits, modes=core.modes, clock_ns=core.clock_ns, uptime=core.uptime,
            at=number,
        )  # fmt: skip
        core.hold_version(then, number)
        return type(self._store)(then, self._store.symlinks, self._store)

    async def plan_restore(self, path: ScopedPath, version: str) -> Plan:
        return await self._planned(self._restoring(path, version))

    async def restore(
        self, path: ScopedPath, version: str, *, cleared: Plan | None = None,
        expected: Expected = ANYTHING,
    ) -> Done:  # fmt: skip
        """Make a place what it was at a version or snapshot, with all that lies beneath it."""
        return await self._carried_out(self._restoring(path, version, expected), cleared)

    def _restoring(self, path: ScopedPath, version: str, expected: Expected = ANYTHING) -> Work:
        async def work(turn: ChangeTurn) -> Worked:
            session = turn.transaction.session
            branch, number = await history.resolve_version(turn.core, session, version)
            mark = self._store.mark
            made = await history.restore(turn, path, branch, number, mark, expected)
            return Worked(made)

        return work

    async def plan_undo(self, what: Undoing) -> Plan:
        return await self._planned(self._undoing(what))

    async def undo(self, what: Undoing, *, cleared: Plan | None = None) -> Done:
        return await self._carried_out(self._undoing(what), cleared)

    def _undoing(self, what: Undoing) -> Work:
        async def work(turn: ChangeTurn) -> Worked:
            return Worked(*await undo(turn, what, self._store.mark))

        return work

    # --- in two steps ------------------------------------------------------------------------

    async def _planned(self, work: Work) -> Plan:
        """What something would touch: it is done, looked at, and taken back. Leases do not stand
        against looking: who holds one is told to those who may change what it covers."""

        async def job(turn: ChangeTurn) -> None:
            turn.held_up = []
            raise _TakenBack(await _looked_at(turn, await work(turn)))

        try:
            await self._core.change(job)
        except _TakenBack as taken_back:
            return taken_back.plan
        except Conflicted as conflicted:
            return Plan(conflicts=conflicted.conflicts)
        raise AssertionError("a plan is always taken back")

    async def _carried_out(self, work: Work, cleared: Plan | None) -> Done:
        """Do the work for good, if it touches what was cleared and nothing else."""

        async def job(turn: ChangeTurn) -> Done:
            turn.held_up = []
            worked = await work(turn)
            plan = await _looked_at(turn, worked)
            if cleared is not None and not cleared.covers(plan):
                raise Stale
            if turn.held_up:
                raise turn.held_up[0]
            return Done(None if worked.version is None else str(worked.version), plan)

        try:
            return await self._core.change(job)
        except Conflicted as conflicted:
            found = Plan(conflicts=conflicted.conflicts)
            if cleared is not None and not cleared.covers(found):
                raise Stale from None
            return Done(None, found)

    async def _once(
        self,
        job: Callable[[ChangeTurn], Awaitable[Result]],
        again: Callable[[int], Awaitable[Result]],
    ) -> Result:
        """Do what touches nothing of the tree; under a key, once: whoever comes again is told what
        the first was told, ``again`` by the number that it took."""
        key = self._store.mark.key
        try:
            return await self._core.change(job)
        except BailiwickError:
            made = None if key is None else await change_log.version_under(self._core, key)
            if made is None:
                raise
            return await again(made - 1)  # see `ChangeTurn.keep_key`

    # --- branches ----------------------------------------------------------------------------

    async def branch(self) -> str:
        """The name of this branch; a draft has none."""
        view = self._core.view
        async with self._core.looking() as session:
            row = await session.row(_BRANCH_NAME, view.volume, view.branch)
        return "" if row is None else str(row[0])

    async def snapshot(self, name: str) -> Snapshot:
        """Keep the newest version under a name. Raises `FileAlreadyExists`."""
        mark = self._store.mark

        async def again(number: int) -> Snapshot:
            for each in await self.snapshots():
                if (each.name, each.version) == (name, str(number)):
                    return each
            raise PathNotFound("the snapshot was deleted")

        return await self._once(lambda turn: branches.snapshot(turn, name, mark), again)

    async def snapshots(self) -> list[Snapshot]:
        return await branches.snapshots(self._core)

    async def delete_snapshot(self, name: str) -> None:
        mark = self._store.mark
        await self._once(lambda turn: branches.delete_snapshot(turn, name, mark), _nothing)

    async def fork(self, name: str, *, version: str | None = None) -> VolumeStore:
        """A branch of its own from the newest version, or from an earlier one. Raises
        `FileAlreadyExists`, `PathNotFound`."""
        core, mark = self._core, self._store.mark

        async def job(turn: ChangeTurn) -> branches.Forked:
            if version is None:
                return await branches.fork(turn, name, mark=mark)
            source, at = await history.resolve_version(core, turn.transaction.session, version)
            return await branches.fork(turn, name, source=source, at=at, mark=mark)

        forked = await self._once(job, partial(branches.forked_again, core))
        return self._opened(branches.open_sibling(core, forked, VolumeCore))

    async def forks(self) -> list[Fork]:
        return await branches.forks(self._core)

    async def open_fork(self, name: str) -> VolumeStore:
        """Another branch of the same volume. Raises `PathNotFound`."""
        async with self._core.looking() as session:
            branch = await branches.branch_named(session, self._core.view.volume, name)
        return self._opened(await branches.open_branch(self._core, branch))

    def _opened(self, core: VolumeCore, *, is_draft: bool = False) -> VolumeStore:
        return type(self._store)(core, self._store.symlinks, is_draft=is_draft)

    async def delete_fork(self, name: str) -> None:
        """Let go of a branch; gc takes its rows away."""
        mark = self._store.mark
        await self._once(lambda turn: branches.delete_fork(turn, name, mark), _nothing)

    async def compare(self, name: str) -> list[Difference]:
        """What the branch ``name`` has that this one has not, and the other way round."""
        async with self._core.looking() as session:
            branch = await branches.branch_named(session, self._core.view.volume, name)
        return await compare(self._core, branch)

    async def beside(self, name: str) -> BranchBeside:
        core = self._core
        async with core.looking() as session:
            volume = core.view.volume
            branch = await branches.branch_named(session, volume, name)
            ours = await held_by(session, volume, core.view.branch)
            theirs = await held_by(session, volume, branch)
            common = await common_state(session, volume, ours, theirs)
            last = await last_change(session, volume, branch)
            newest, horizon = await session.row(_KEPT, volume) or (0, 0)
            levels = await levels_of(session, core.view._replace(branch=branch, at=newest))
            # What a branch has come from is kept for as long as that shows it.
            if common is None or (common[1] < horizon and common not in levels):
                raise Unsupported(
                    "the state that both branches have come from is not one, or no longer kept",
                    hint="merge it: that looks at each node by itself",
                )
            origin = await self._then(session, *common)
            store = await self._then(session, branch, newest)
            return BranchBeside(store, origin, VolumeVersions(store), str(last or 0))

    async def plan_merge(self, name: str) -> Plan:
        return await self._planned(self._merging(name))

    async def merge(self, name: str, *, cleared: Plan | None = None) -> Done:
        """Take over what the branch ``name`` changed; with conflicts, nothing."""
        return await self._carried_out(self._merging(name), cleared)

    def _merging(self, name: str) -> Work:
        async def work(turn: ChangeTurn) -> Worked:
            session, volume = turn.transaction.session, turn.tree.view.volume
            branch = await branches.branch_named(session, volume, name)
            if branch == turn.tree.view.branch:
                raise ParseError("a branch is not merged into itself")
            return Worked(await merge(turn, branch, self._store.mark))

        return work

    async def begin(self) -> VolumeDraft:
        """A transaction: changes made in a branch that nobody else sees, which shows this one as it
        was when it began. What was only read is not compared in the end. A version that is told
        inside is not the one that the file has afterwards."""
        core = self._core
        expires_ms = core.clock_ns() // 1_000_000 + _TRANSACTION_MS
        is_held = core.at_once is None

        async def job(turn: ChangeTurn) -> tuple[branches.Forked, int]:
            forked = await branches.fork(turn, None, expires_ms=expires_ms)
            numbers = turn.transaction.numbers
            last = numbers.last
            if is_held:
                numbers.last += SET_ASIDE
            return forked, last

        forked, last = await core.change(job)
        draft = VolumeDraft(self, forked)
        try:
            inside = branches.open_sibling(core, forked, DraftCore if is_held else VolumeCore)
        except BaseException:
            await draft.discard()
            raise
        if isinstance(inside, DraftCore):
            inside.begin_holding(core, last)
        draft.store = self._opened(inside, is_draft=True)
        return draft

    # --- locks -------------------------------------------------------------------------------

    async def lock(self, entry: Handle, ttl_s: float) -> Leased:
        """A lease on a place. Changes by others are `LockHeld` until it is released or expires;
        those that carry its token (`Mark.lock_token`) are not."""
        held, mark = self._store.held(entry), self._store.mark

        async def again(token: int) -> Leased:
            path = held.path
            return await self._core.change(lambda turn: leases.lock_again(turn, path, token, mark))

        return await self._once(lambda turn: leases.lock(turn, held, ttl_s, mark), again)

    async def renew(self, lease: Leased, ttl_s: float) -> Leased:
        """Keep a lease longer. Raises `LockHeld` where it has expired."""
        mark = self._store.mark
        return await self._core.change(lambda turn: leases.renew(turn, lease, ttl_s, mark))

    async def release(self, lease: Leased) -> bool:
        """Give a lease back. Returns whether it was still there."""
        mark = self._store.mark
        return await self._core.change(lambda turn: leases.release(turn, lease, mark))

    # --- notes -------------------------------------------------------------------------------

    async def notes(self, limit: int = 1_000) -> list[VersionNote]:
        """Notes of changes in all branches that were not taken over yet, oldest first. Those made
        inside a transaction are not among them: its own mark has one for all."""
        async with self._core.looking() as session:
            rows = await session.rows(_NOTES, self._core.view.volume, limit)
        return [VersionNote(str(version), note) for version, note in rows]

    async def drained(self, version: str) -> None:
        """Notes up to ``version`` were taken over."""
        number = int(version)
        volume = self._core.view.volume
        await self._core.change(lambda turn: turn.transaction.session.run(_DRAINED, volume, number))

    # --- keeping house -----------------------------------------------------------------------

    async def collect(self, *, keep_days: float = 30.0) -> VolumeCollected:
        """Take away what is older than the retention and nothing stands on, in small steps."""
        return await garbage.collect(self._core, keep_days)

    async def check(self, *, repair: bool = False) -> Checked:
        """Verify every row, chunk and hash; mend what can be mended."""
        return await check.check(self._core, repair=repair)

    async def info(self) -> Info:
        """How much there is."""
        return await check.info(self._core)
