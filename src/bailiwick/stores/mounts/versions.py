"""What was, of each mount by itself: a version is one of the mount in which a path lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from bailiwick.errors import ParseError, PathNotFound, ReadOnly, Unsupported
from bailiwick.model import ANYTHING, Expected
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Handle, Look, Store
from bailiwick.stores.mounts.table import MountedStore
from bailiwick.versions import (
    BeneathPage,
    Conflict,
    Done,
    Plan,
    Remembers,
    Stale,
    TellsBeneath,
    Touch,
    Undoing,
    Version,
    Versions,
    beneath_cursor,
    remembers,
)

MountOf = Callable[[ScopedPath], MountedStore | None]


class MountedPast:
    """Looking back and going back, in the mount that is meant; what happened beneath a directory
    that holds several is told of all of them. An undo of a request, or of a
    subject's work, is done in every mount that remembers it: in each whole or not at all."""

    def __init__(
        self,
        with_stores: Callable[[Callable[[MountedStore], Store]], Store],
        mounts: Sequence[MountedStore],
        mount_of: MountOf,
    ) -> None:
        self.counts_apart: Final = len(mounts) > 1
        self._with_stores: Final = with_stores
        self._mounts: Final = mounts
        self._mount_of: Final = mount_of

    async def history(
        self, path: ScopedPath, *, before: str | None = None, limit: int = 100, own: bool = False
    ) -> Versions:
        mount = self._mount(path)
        with mount.told():
            found = await _past(mount).history(
                mount.inside(path), before=before, limit=limit, own=own
            )
        return Versions([_outside(mount, each) for each in found.versions], found.more)

    async def beneath(self, path: ScopedPath, *, cursor: str | None, limit: int) -> BeneathPage:
        mount = self._mount_of(path)
        if mount is not None:
            return await _beneath(mount, mount.inside(path), cursor, limit)
        mounts = [each for each in self._mounts if each.point.lies_in(path)]
        for each in mounts:
            if not each.read_only:
                _past(each)  # else what happened there would be left out silently
        told = [each for each in mounts if "Remembers" in each.store.powers]
        if not told:
            self._mount(path)
        return await _together(told, cursor, limit)

    async def origin(self, path: ScopedPath, version: str) -> ScopedPath | None:
        mount = self._mount(path)
        with mount.told():
            found = await _past(mount).origin(mount.inside(path), version)
        return None if found is None else mount.outside(found)

    async def as_of(self, version: str) -> Store:
        """The tree in which every mount is as it was at its version of that name. None is looked
        at before somebody looks into it."""
        return self._with_stores(lambda mount: cast(Store, _MountThen(mount, version)))

    # --- going back --------------------------------------------------------------------------

    async def plan_restore(self, path: ScopedPath, version: str) -> Plan:
        mount = self._mount(path)
        with mount.told():
            return _plan_outside(
                mount, await _past(mount).plan_restore(mount.inside(path), version)
            )

    async def restore(
        self,
        path: ScopedPath,
        version: str,
        *,
        cleared: Plan | None = None,
        expected: Expected = ANYTHING,
    ) -> Done:
        mount = self._mount(path)
        if mount.read_only:
            raise ReadOnly("this mount can only be read", path=path)
        with mount.told():
            done = await _past(mount).restore(
                mount.inside(path), version, expected=expected,
                cleared=None if cleared is None else _plan_inside(mount, cleared),
            )  # fmt: skip
        return Done(done.version, _plan_outside(mount, done.plan))

    async def plan_undo(self, what: Undoing) -> Plan:
        return _joined([plan for _, plan in await self._plans(what)])

    async def undo(self, what: Undoing, *, cleared: Plan | None = None) -> Done:
        """What was planned is compared in all mounts before anything is done in one. Where others
        come in between after that, what they keep from being undone is told as a conflict."""
        plans = await self._plans(what)
        if cleared is not None and not cleared.covers(_joined([plan for _, plan in plans])):
            raise Stale
        done: list[Done] = []
        for mount, plan in plans:
            try:
                with mount.told():
                    one = await _past(mount).undo(what, cleared=_plan_inside(mount, plan))
            except Stale:
                if not done:
                    raise
                left = [Conflict(each.path, "others changed it meanwhile") for each in plan.touches]
                done.append(Done(None, Plan(conflicts=[*plan.conflicts, *left])))
            else:
                done.append(Done(one.version, _plan_outside(mount, one.plan)))
        version = next((each.version for each in reversed(done) if each.version is not None), None)
        return Done(version, _joined([each.plan for each in done]))

    async def _plans(self, what: Undoing) -> list[tuple[MountedStore, Plan]]:
        """What an undo would touch, in each mount that knows of what is to be undone."""
        if what.first is not None:
            raise Unsupported(
                "versions are each mount's own: there is no range over all of them",
                hint="undo a request, or restore a path",
            )
        found: list[tuple[MountedStore, Plan]] = []
        nothing: PathNotFound | None = None
        for mount in self._mounts:
            if "Remembers" not in mount.store.powers or mount.read_only:
                continue
            try:
                with mount.told():
                    plan = await _past(mount).plan_undo(what)
            except PathNotFound as error:
                nothing = error
                continue
            found.append((mount, _plan_outside(mount, plan)))
        if not found:
            raise nothing or PathNotFound("there is nothing to undo")
        return found

    def _mount(self, path: ScopedPath) -> MountedStore:
        mount = self._mount_of(path)
        if mount is None:
            raise Unsupported(
                "versions are each mount's own", path=path, hint="name a place in a mount"
            )
        return mount


def _past(mount: MountedStore) -> Remembers:
    if "Remembers" not in mount.store.powers:
        raise Unsupported("this mount keeps no history", path=mount.point)
    return remembers(mount.store)


async def _beneath(
    mount: MountedStore, path: ScopedPath, cursor: str | None, limit: int
) -> BeneathPage:
    looking = _past(mount)
    if not isinstance(looking, TellsBeneath):
        raise Unsupported("this mount tells no history of directories", path=mount.point)
    with mount.told():
        page = await looking.beneath(path, cursor=cursor, limit=limit)
    return BeneathPage([_outside(mount, each) for each in page.versions], page.next_cursor)


async def _together(mounts: Sequence[MountedStore], cursor: str | None, limit: int) -> BeneathPage:
    """What happened in several mounts, by time. A cursor is where each of them goes on, and empty
    for one of which all is told."""
    begun = [None] * len(mounts) if cursor is None else cursor.split(",")
    if len(begun) != len(mounts):
        raise ParseError("this is no cursor of a history")
    pages = [
        BeneathPage([], None) if each == "" else await _beneath(mount, ROOT, each, limit)
        for mount, each in zip(mounts, begun, strict=True)
    ]
    order = sorted(
        (-(version.time_ns or 0), number, place)
        for number, page in enumerate(pages)
        for place, version in enumerate(page.versions)
    )
    # What a mount would go on with is older than all that its page has: the others wait for that.
    rests = [
        (-(page.versions[-1].time_ns or 0), number, len(page.versions))
        for number, page in enumerate(pages)
        if page.next_cursor is not None and page.versions
    ]
    order = [each for each in order if not rests or each <= min(rests)][:limit]
    told = [0] * len(mounts)
    for _, number, place in order:
        told[number] = max(told[number], place + 1)
    goes_on = [
        await _after(mount, page, each, count)
        for mount, page, each, count in zip(mounts, pages, begun, told, strict=True)
    ]
    found = [pages[number].versions[place] for _, number, place in order]
    return BeneathPage(found, ",".join(goes_on) if any(goes_on) else None)


async def _after(mount: MountedStore, page: BeneathPage, begun: str | None, told: int) -> str:
    """Where a mount goes on of which so much of a page was told."""
    if told == len(page.versions):
        return page.next_cursor or ""
    next_one = beneath_cursor(int(page.versions[told].version) + 1, 0)
    if not told:
        return begun or next_one
    # Only a mount knows its cursors: it is asked for as much as was told.
    for limit in range(told, len(page.versions) + 1):
        again = await _beneath(mount, ROOT, begun, limit)
        if len(again.versions) == told and again.next_cursor is not None:
            return again.next_cursor if again.versions == page.versions[:told] else next_one
    return next_one


def _outside(mount: MountedStore, version: Version) -> Version:
    return msgspec.structs.replace(version, path=mount.outside(version.path))


def _plan_outside(mount: MountedStore, plan: Plan) -> Plan:
    return _translated(plan, mount.outside)


def _plan_inside(mount: MountedStore, plan: Plan) -> Plan:
    return _translated(plan, mount.inside)


def _translated(plan: Plan, to: Callable[[ScopedPath], ScopedPath]) -> Plan:
    def touch(each: Touch) -> Touch:
        origin = None if each.origin is None else to(each.origin)
        return each._replace(path=to(each.path), origin=origin)

    return plan._replace(
        touches=[touch(each) for each in plan.touches],
        conflicts=[Conflict(to(each.path), each.reason) for each in plan.conflicts],
    )


def _joined(plans: Sequence[Plan]) -> Plan:
    return Plan(
        [touch for plan in plans for touch in plan.touches],
        [conflict for plan in plans for conflict in plan.conflicts],
        frozenset[str]().union(*(plan.subjects for plan in plans)),
    )


class _MountThen:
    """A mount as it was at a version: opened when somebody looks into it, and read by the methods
    of what was opened then."""

    def __init__(self, mount: MountedStore, version: str) -> None:
        self._mount: Final = mount
        self._version: Final = version
        self._opened: Store | None = None

    @property
    def powers(self) -> frozenset[str]:
        return frozenset()

    @property
    def description(self) -> dict[str, str]:
        return self._mount.store.description

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        if self._opened is None:
            self._opened = await _past(self._mount).as_of(self._version)
        return await self._opened.resolve(path, look, directory=directory, parents=parents)

    def __getattr__(self, name: str) -> Any:
        # Only with a handle, and handles come from `resolve`.
        if name.startswith("_") or self._opened is None:
            raise AttributeError(name)
        return getattr(self._opened, name)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
