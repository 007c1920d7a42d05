"""Acts on what was and on what lies apart: versions, branches, leases, working copies, programs."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from bailiwick.acts import Act, ActOfPlaces, on_condition
from bailiwick.changes_made import shut_around
from bailiwick.errors import escape_for_display
from bailiwick.finishing import to_the_end
from bailiwick.lying_aside import places_aside
from bailiwick.model import Expected
from bailiwick.paths import ScopedPath
from bailiwick.publication import Named, known_by_content, paths_of, publish
from bailiwick.store import Store
from bailiwick.versions import (
    Done,
    Draft,
    Leased,
    Mark,
    Plan,
    Snapshot,
    Undoing,
    branches,
    leases,
    remembers,
)
from bailiwick.working_copy import Alterations, GivingUp, Publishing, WorkingCopy


class KeepSnapshot(Act[Snapshot], frozen=True, eq=False):
    name: str

    @property
    def words(self) -> str:
        return f"keep this version as the snapshot {self.name}"

    def on(self, store: Store) -> Awaitable[Snapshot]:
        return branches(store).snapshot(self.name)


class DeleteSnapshot(Act[None], frozen=True, eq=False):
    name: str

    @property
    def words(self) -> str:
        return f"delete the snapshot {self.name}"

    def on(self, store: Store) -> Awaitable[None]:
        return branches(store).delete_snapshot(self.name)


class MakeFork(Act[Store], frozen=True, eq=False):
    name: str
    version: str | None

    @property
    def words(self) -> str:
        since = "" if self.version is None else f" from the version {self.version}"
        return f"make the fork {self.name}{since}"

    def on(self, store: Store) -> Awaitable[Store]:
        return branches(store).fork(self.name, version=self.version)


class OpenFork(Act[Store], frozen=True, eq=False):
    name: str

    @property
    def words(self) -> str:
        return f"open the fork {self.name}"

    def on(self, store: Store) -> Awaitable[Store]:
        return branches(store).open_fork(self.name)


class DeleteFork(Act[None], frozen=True, eq=False):
    name: str

    @property
    def words(self) -> str:
        return f"delete the fork {self.name}"

    def on(self, store: Store) -> Awaitable[None]:
        return branches(store).delete_fork(self.name)


class Lock(Act[Leased], frozen=True, eq=False):
    ttl: float

    @property
    def words(self) -> str:
        return f"lock it for {self.ttl:g} seconds"

    def on(self, store: Store) -> Awaitable[Leased]:
        return leases(store).lock(self.entry, self.ttl)


class Renew(Act[Leased], frozen=True, eq=False):
    lease: Leased
    ttl: float

    @property
    def words(self) -> str:
        return f"keep it locked for {self.ttl:g} seconds"

    def on(self, store: Store) -> Awaitable[Leased]:
        return leases(store).renew(self.lease, self.ttl)


class Release(ActOfPlaces[bool], frozen=True, eq=False):
    """Nobody is asked about giving something back."""

    lease: Leased
    asks: ClassVar[bool] = False

    def on(self, store: Store) -> Awaitable[bool]:
        return leases(store).release(self.lease)


class RunCommand(Act[Any], frozen=True, eq=False):
    """Start a program, in a working copy: nothing of the tree is changed by it."""

    command: str
    start: Callable[[], Awaitable[Any]]

    @property
    def words(self) -> str:
        return f"run {escape_for_display(self.command)}"

    def on(self, store: Store) -> Awaitable[Any]:
        return self.start()


def hash_of_effects(plan: Plan) -> str:
    """The hash of all that would be touched, each with what becomes of it."""
    return hashlib.sha256(repr([each.effect for each in plan.touches]).encode()).hexdigest()


class _Planned(Act[Done], frozen=True, eq=False):
    """``cleared`` is what a plan said it would touch: where it is something else by now, it is
    `Stale`."""

    cleared: Plan

    @property
    def whole(self) -> object:  # type: ignore[override]
        return self.cleared

    async def fingerprint(self) -> str:
        return hash_of_effects(self.cleared)


class Restore(_Planned, frozen=True, eq=False):
    version: str
    expected: Expected

    def on(self, store: Store) -> Awaitable[Done]:
        return remembers(store).restore(
            self.entry.path, self.version, cleared=self.cleared, **on_condition(self.expected)
        )


class Undo(_Planned, frozen=True, eq=False):
    what: Undoing

    def on(self, store: Store) -> Awaitable[Done]:
        return remembers(store).undo(self.what, cleared=self.cleared)


class Merge(_Planned, frozen=True, eq=False):
    name: str

    def on(self, store: Store) -> Awaitable[Done]:
        return branches(store).merge(self.name, cleared=self.cleared)


class BringBack(_Planned, frozen=True, eq=False):
    """What was changed in a working copy, as it was ``seen``; what is ``settled`` stands in the
    tree already. That it is under way is kept with the copy: what a killed process left half done
    is finished from there. By what it is ``named`` a place is told that could not be put back."""

    copy: WorkingCopy
    what: Publishing
    settled: frozenset[ScopedPath]
    seen: Alterations
    named: Named

    async def on(self, store: Store) -> Done:
        beside = {
            each.path: each.base.version for each in self.seen.altered if each.base is not None
        }
        what = await known_by_content(store, self.what, beside)
        touches, plan_id = what.plan.touches, f"{self.copy.id} {what.mark.request_id}"
        what = what._replace(
            shut=await shut_around(store, touches), aside=places_aside(store, touches, plan_id)
        )
        await self.copy.publishing(what)
        try:
            done = await publish(store, what, self.copy, self.named)
            await to_the_end(self._settle())
        finally:
            await to_the_end(self.copy.publishing(None))
        return done

    async def _settle(self) -> None:
        copy, what = self.copy, self.what
        if what.mark.key is not None:
            await copy.note_done(what.mark.key)
        for path in what.partly & paths_of(self.cleared):
            await copy.rebase(path, what.merged[path])
        brought = (self.settled | paths_of(self.cleared)) - what.partly - what.kept
        await copy.settle(brought, self.seen)


class DiscardWork(Act[None], frozen=True, eq=False):
    """Give up what was changed in a working copy, as it was ``seen``: all of it where ``paths`` is
    None, and some of it in the files that are ``rewritten``. Under a ``key`` that is kept with the
    copy while it is under way, as with `BringBack`."""

    copy: WorkingCopy
    seen: Alterations
    paths: tuple[ScopedPath, ...] | None
    rewritten: Mapping[ScopedPath, bytes] = {}
    key: bytes | None = None

    @property
    def words(self) -> str:
        return f"give up what was changed in the working copy {self.copy.id}"

    async def on(self, store: Store) -> None:
        if self.key is not None:
            await to_the_end(self._give_up_under(self.key))
        elif self.paths is None:
            await self.copy.discard(self.seen)
        else:
            await self._give_up(self.paths)

    async def _give_up(self, paths: tuple[ScopedPath, ...]) -> None:
        for path, data in self.rewritten.items():
            await self.copy.rewrite(path, data, self.seen)
        await self.copy.settle(paths, self.seen)

    async def _give_up_under(self, key: bytes) -> None:
        copy, seen, whole = self.copy, self.seen, self.paths is None
        paths = self.paths if self.paths is not None else [each.path for each in seen.altered]
        meant = {*paths, *self.rewritten}
        marks = {each.path: each.mark for each in seen.altered if each.path in meant}
        await copy.giving_up(GivingUp(key, whole, frozenset(paths), self.rewritten, marks))
        try:
            if self.paths is not None:
                await self._give_up(self.paths)
        except BaseException:
            await copy.giving_up(None)
            raise
        await copy.note_done(key)
        if whole:
            await copy.discard(seen)
        await copy.giving_up(None)


class Commit(_Planned, frozen=True, eq=False):
    draft: Draft
    mark: Mark

    def on(self, store: Store) -> Awaitable[Done]:
        return self.draft.commit(self.mark, cleared=self.cleared)
