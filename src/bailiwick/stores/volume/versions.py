"""Everything about versions that a volume offers beside the verbs of a store, in one place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from bailiwick.errors import BailiwickError, HashMismatch
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle
from bailiwick.stores.volume import branches, checking, collecting, history, leases
from bailiwick.stores.volume.branches import Fork, Snapshot
from bailiwick.stores.volume.checking import Checked, Info
from bailiwick.stores.volume.collecting import Collected
from bailiwick.stores.volume.comparing import Difference, diff
from bailiwick.stores.volume.core import Core, Identity, Turn
from bailiwick.stores.volume.history import Restored, Undone, Version
from bailiwick.stores.volume.leases import Lease
from bailiwick.stores.volume.merging import Conflicted, Merged, merge
from bailiwick.stores.volume.rows import NOBODY, Origin
from bailiwick.stores.volume.tree import levels_of

if TYPE_CHECKING:
    from bailiwick.stores.volume.store import VolumeStore

_TRANSACTION_MS: Final = 3_600_000
"""After an hour a transaction whose process is gone is taken for abandoned."""

_NOTES: Final = """
SELECT c.version, c.note FROM change c
    JOIN branch b ON b.volume = c.volume AND b.id = c.branch AND b.name IS NOT NULL
WHERE c.volume = $1 AND c.note IS NOT NULL
    AND c.version > (SELECT drained FROM volume WHERE id = $1)
ORDER BY c.version LIMIT $2
"""
_DRAINED: Final = "UPDATE volume SET drained = $2 WHERE id = $1 AND drained < $2"


class Note(NamedTuple):
    """What was kept with a change, for whoever wrote it there."""

    version: str
    note: bytes


class Versions:
    """The history of one store's branch. Made by `VolumeStore.versions`."""

    def __init__(self, store: VolumeStore) -> None:
        self._store = store
        self._core: Core = store.core

    # --- looking back ------------------------------------------------------------------------

    async def history(self, path: ScopedPath, limit: int = history.HISTORY_MAX) -> list[Version]:
        """The versions of a place, newest first. ``path`` is canonical. Raises `PathNotFound`."""
        return await history.history(self._core, path, limit)

    async def as_of(self, version: str) -> VolumeStore:
        """The tree as it was at a version or snapshot: a store that only reads. To be closed, since
        gc keeps what it may look at. Raises `PathNotFound` for what is not kept."""
        core = self._core
        async with core.looking() as session:
            branch, number = await history.resolve_version(core, session, version)
            view = core.view._replace(branch=branch, at=number)
            levels = await levels_of(session, view)
        identity = Identity(core.view.volume, core.identity.uid, branch, core.view.root)
        then = Core(
            core.database, identity, levels, core.blobs,
            limits=core.limits, modes=core.modes, clock_ns=core.clock_ns, at=number,
        )  # fmt: skip
        core.hold_version(then, number)
        return type(self._store)(then, self._store.symlinks, self._store)

    async def restore(self, path: ScopedPath, version: str, *, origin: Origin = NOBODY) -> Restored:
        """Make a place what it was at a version or snapshot, with all that lies beneath it."""
        core = self._core

        async def job(turn: Turn) -> Restored:
            session = turn.transaction.session
            branch, number = await history.resolve_version(core, session, version)
            return await history.restore(turn, path, branch, number, origin)

        return await core.change(job)

    async def undo(
        self, *, request_id: str | None = None, subject: str = "", first: str | None = None,
        last: str | None = None, preview: bool = False, origin: Origin = NOBODY,
    ) -> Undone:  # fmt: skip
        """Take back what a request (of a subject, where one is named) or the versions from
        ``first`` to ``last`` changed. Raises `PathNotFound` where there is nothing, or it is no
        longer kept."""
        return await self._core.change(
            lambda turn: history.undo(
                turn, origin, preview=preview, request=request_id, subject=subject,
                first=None if first is None else int(first),
                last=None if last is None else int(last),
            )
        )  # fmt: skip

    # --- branches ----------------------------------------------------------------------------

    async def snapshot(self, name: str) -> Snapshot:
        """Keep the newest version under a name. Raises `FileAlreadyExists`."""
        return await self._core.change(lambda turn: branches.snapshot(turn, name))

    async def snapshots(self) -> list[Snapshot]:
        return await branches.snapshots(self._core)

    async def delete_snapshot(self, name: str) -> None:
        await self._core.change(lambda turn: branches.delete_snapshot(turn, name))

    async def fork(self, name: str, *, version: str | None = None) -> VolumeStore:
        """A branch of its own from the newest version, or from an earlier one. Raises
        `FileAlreadyExists`, `PathNotFound`."""
        core = self._core

        async def job(turn: Turn) -> int:
            if version is None:
                return await branches.fork(turn, name)
            source, at = await history.resolve_version(core, turn.transaction.session, version)
            return await branches.fork(turn, name, source=source, at=at)

        return await self._open(await core.change(job))

    async def forks(self) -> list[Fork]:
        return await branches.forks(self._core)

    async def open_fork(self, name: str) -> VolumeStore:
        """Another branch of the same volume. Raises `PathNotFound`."""
        async with self._core.looking() as session:
            branch = await branches.branch_named(session, self._core.view.volume, name)
        return await self._open(branch)

    async def _open(self, branch: int) -> VolumeStore:
        core = await branches.open_sibling(self._core, branch)
        return type(self._store)(core, self._store.symlinks)

    async def delete_fork(self, name: str) -> None:
        """Let go of a branch; gc takes its rows away."""
        await self._core.change(lambda turn: branches.delete_fork(turn, name))

    async def diff(self, other: str) -> list[Difference]:
        """What the branch ``other`` has that this one has not, and the other way round."""
        async with self._core.looking() as session:
            branch = await branches.branch_named(session, self._core.view.volume, other)
        return await diff(self._core, branch)

    async def merge(self, source: str, *, origin: Origin = NOBODY) -> Merged:
        """Take over what the branch ``source`` changed; with conflicts, nothing."""

        async def job(turn: Turn) -> Merged:
            session, volume = turn.transaction.session, turn.tree.view.volume
            branch = await branches.branch_named(session, volume, source)
            return await merge(turn, branch, origin)

        return await self._merged(job)

    async def _merged(self, job: collecting.TurnJob[Merged]) -> Merged:
        try:
            return await self._core.change(job)
        except Conflicted as conflicted:
            return Merged(None, [], conflicted.conflicts)

    @asynccontextmanager
    async def transaction(self, *, origin: Origin = NOBODY) -> AsyncIterator[VolumeStore]:
        """Many changes that appear at once, or not at all.

        They are made in a branch that nobody else sees, which shows this one as it was when it
        began. In the end they are taken over together. Raises `HashMismatch` where others have
        changed the same things meanwhile. What was only read is not compared. A version that is
        told inside is not the one that the file has afterwards.
        """
        core = self._core
        expires_ms = core.clock_ns() // 1_000_000 + _TRANSACTION_MS
        branch = await core.change(lambda turn: branches.fork(turn, None, expires_ms=expires_ms))
        store = await self._open(branch)
        try:
            try:
                yield store
            finally:
                await store.aclose()

            merged = await self._merged(
                lambda turn: merge(turn, branch, origin, verb="transaction")
            )
            if merged.conflicts:
                raise HashMismatch(
                    "others have changed the same things meanwhile",
                    path=merged.conflicts[0].path,
                    details={"conflicts": [list(each) for each in merged.conflicts]},
                    hint="begin the transaction again",
                )
        finally:
            if not core.is_closed:
                volume = core.view.volume
                forgetting = core.database.write(
                    lambda turn: branches.forget_branch(turn, volume, branch)
                )
                with suppress(BailiwickError):
                    await asyncio.shield(asyncio.ensure_future(forgetting))

    # --- locks -------------------------------------------------------------------------------

    async def lock(
        self, entry: Handle, ttl_s: float, *, owner: str = "", origin: Origin = NOBODY
    ) -> Lease:
        """A lease on a place. Changes by others are `LockHeld` until it is released or expires;
        those that carry its token (`Origin.lock_token`) are not."""
        held = self._store.held(entry)
        return await self._core.change(lambda turn: leases.lock(turn, held, ttl_s, owner, origin))

    async def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """Keep a lease longer. Raises `LockHeld` where it has expired."""
        return await self._core.change(lambda turn: leases.renew(turn, lease, ttl_s))

    async def release(self, lease: Lease) -> bool:
        """Give a lease back. Returns whether it was still there."""
        return await self._core.change(lambda turn: leases.release(turn, lease))

    # --- notes -------------------------------------------------------------------------------

    async def notes(self, limit: int = 1_000) -> list[Note]:
        """Notes of changes in all branches that were not taken over yet, oldest first. Those made
        inside a transaction are not among them: its own origin has one for all."""
        async with self._core.looking() as session:
            rows = await session.rows(_NOTES, self._core.view.volume, limit)
        return [Note(str(version), note) for version, note in rows]

    async def drained(self, version: str) -> None:
        """Notes up to ``version`` were taken over."""
        number = int(version)
        volume = self._core.view.volume
        await self._core.change(lambda turn: turn.transaction.session.run(_DRAINED, volume, number))

    # --- keeping house -----------------------------------------------------------------------

    async def collect(self, *, keep_days: float = 30.0) -> Collected:
        """Take away what is older than the retention and nothing stands on, in small steps."""
        return await collecting.collect(self._core, keep_days)

    async def check(self, *, repair: bool = False) -> Checked:
        """Verify every row, chunk and hash; mend what can be mended."""
        return await checking.check(self._core, repair=repair)

    async def info(self) -> Info:
        """How much there is."""
        return await checking.info(self._core)
