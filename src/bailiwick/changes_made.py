"""Whether a change stands in the tree, and directories that are open while something comes into
them or goes from there, which their mode would keep out or in.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from typing import Final, NamedTuple

from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.model import Stat
from bailiwick.opened_together import Share, SharesDirectories, TellsModes
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, HostDirectory, Reader, Store
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Stale, Touch

_TRIES_MAX: Final = 200
_TRIED_EVERY_S: Final = 0.01
"""A directory is opened, or shut, in a few calls."""

ALL_OF_OWNER: Final = 0o700
"""What the mode of a directory must allow for something to come into it, or to go from there."""

MOUNTED_SINCE: Final = "another filesystem was mounted there meanwhile"


class GivenMode(NamedTuple):
    """A directory, the mode that it has, and the one that it is given."""

    path: ScopedPath
    now: int
    wanted: int


async def stands(store: Store, touch: Touch) -> bool:
    """Whether what a change makes stands in the tree."""
    try:
        entry = await unfollowed(store, touch.path)
    except PathNotFound:
        return touch.kind == "deleted"
    with closing(entry):
        return await _stands_at(store, entry, touch)


async def _stands_at(store: Store, entry: Handle, touch: Touch) -> bool:
    if touch.kind == "deleted" or entry.type is None:
        return touch.kind == "deleted" and entry.type is None
    if entry.type != touch.type:
        return False
    stat = await store.stat(entry)
    if touch.type == "symlink":
        return stat.target == touch.target
    if touch.mode is not None and stat.mode & 0o777 != touch.mode:
        return False
    return touch.type == "directory" or await hash_at(store, entry) == touch.sha256


def refuse_mounted(store: Store, mounts: frozenset[str] | None, touches: Sequence[Touch]) -> None:
    """Nothing is changed where another filesystem is mounted than when it was looked at, which was
    on those ``mounts``: what stands there is something else, whatever its name and its mode. Raises
    `Stale`."""
    if mounts is None or not isinstance(store, HostDirectory):
        return
    others = store.mounts() ^ mounts
    for touch in touches if others else ():
        for path in (touch.path, touch.origin or touch.path):
            if any(f"{path}/".startswith(f"{each}/") for each in others):
                raise Stale


def mounts_in(store: Reader) -> frozenset[str] | None:
    """The directories that other filesystems are mounted on; None where that is not known."""
    return store.mounts() if isinstance(store, HostDirectory) else None


def mounted_around(path: ScopedPath, mounts: Collection[str]) -> str | None:
    """Of those that other filesystems are mounted on, the innermost that something lies in."""
    around = [each for each in mounts if f"{path}/".startswith(f"{each}/")]
    return max(around, key=len, default=None)


async def hash_at(store: Store, entry: Handle) -> str:
    digest = hashlib.sha256()
    async with aclosing(store.stream(entry, 0, None)) as chunks:
        async for chunk in chunks:
            digest.update(chunk)
    return digest.hexdigest()


def leads_to(stat: Stat) -> str | None:
    """What a link is held by that goes by several names: where it leads. What leads out of the tree
    is not told; such a link is known by its time, which no change of another name touches."""
    if stat.type != "symlink":
        return None
    return f"\0{stat.size} {stat.mtime_ns}" if stat.target is None else stat.target


def opened_for_all(touch: Touch) -> Touch:
    """A change of a directory, as it is made first: whatever its mode, its owner may go in."""
    gets_mode = touch.kind == "created" or touch.sets_mode
    if touch.type != "directory" or touch.mode is None or not gets_mode:
        return touch
    return touch._replace(mode=touch.mode | ALL_OF_OWNER)


async def open_directories(store: Store, touches: Sequence[Touch]) -> None:
    """Those whose modes keep everything out of them, as they were while it came there."""
    for touch in touches:
        if (opened := opened_for_all(touch)) != touch:
            await _given_mode(store, touch, opened)


async def shut_directories(store: Store, touches: Sequence[Touch]) -> None:
    for touch in reversed(touches):
        if (opened := opened_for_all(touch)) != touch:
            await _given_mode(store, opened, touch)


async def shut_around(store: Store, touches: Sequence[Touch]) -> dict[ScopedPath, int]:
    """Directories of the tree whose mode is in the way of changes, with that mode."""
    if not isinstance(store, HostDirectory) or not store.heeds_modes():
        return {}
    around: set[ScopedPath] = set()
    for touch in touches:
        if touch.kind != "updated" or touch.type != "directory":
            around.add(touch.path.parent)
        if touch.origin is not None and not touch.beneath:
            around.add(touch.origin.parent)
            if touch.type == "directory" and touch.origin.parent != touch.path.parent:
                around.add(touch.origin)  # it is written in it what it lies in
    found: dict[ScopedPath, int] = {}
    for path in sorted(around, key=lambda each: each.order):
        with suppress(BailiwickError), closing(await unfollowed(store, path)) as entry:
            mode = await mode_but_for_others(store, entry)
            if entry.type == "directory" and mode & ALL_OF_OWNER != ALL_OF_OWNER:
                found[path] = mode
    return found


class OpenedAround:
    """Directories of a tree that are open for what comes into them or goes from there. Others may
    have them open as well: the last one out shuts them.

    Who is killed has let go of them; which they were is on record elsewhere. Of those who have not
    the same state, and where the system cannot tell who has one open, the first one out shuts it.
    """

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._shares: Final[dict[tuple[int, int], Share]] = {}

    async def open(self, shut: Mapping[ScopedPath, int], touches: Sequence[Touch] = ()) -> None:
        """Those directories, as far as they may be opened, and where ``touches`` moved them."""
        moved = {each.origin: each.path for each in touches if each.kind == "moved"}
        for path, mode in shut.items():
            for place in {path, moved.get(path, path)}:
                with suppress(BailiwickError):
                    await self._open(place, mode)

    async def close(self, shut: Mapping[ScopedPath, int], touches: Sequence[Touch] = ()) -> None:
        """Give those that are left open the mode they had, after ``touches``: where these moved
        them, and unless they gave them another."""
        moved = {each.origin: each.path for each in touches if each.kind == "moved"}
        changed = {each.path for each in touches if each.type == "directory"} - set(moved.values())
        changed |= {each.path for each in touches if each.kind == "moved" and each.sets_mode}
        try:
            for path, mode in reversed(list(shut.items())):
                place = moved.get(path, path)
                if place not in changed:
                    with suppress(BailiwickError):
                        await self._close(place, mode)
        finally:
            self.release()

    def release(self) -> None:
        """Let go of all that is left, as it is."""
        while self._shares:
            self._shares.popitem()[1].close()

    async def _open(self, path: ScopedPath, mode: int) -> None:
        with closing(await unfollowed(self._store, path)) as entry:
            async with _turn(self._store, entry):
                now = (await self._store.stat(entry)).mode & 0o777
                if entry.type != "directory" or now not in (mode, mode | ALL_OF_OWNER):
                    return  # others have changed it since: theirs stays
                # Before it is open: who finds it so knows that it is not to stay so.
                is_new = self._join(entry, mode)
                if now == mode or is_new:
                    await self._set_mode(entry, mode, mode | ALL_OF_OWNER, by_us=now == mode)

    async def _set_mode(self, entry: Handle, was: int, mode: int, *, by_us: bool) -> None:
        if isinstance(self._store, TellsModes):
            await self._store.set_mode_for_all(entry, was, mode, by_us=by_us)
        elif by_us:
            await self._store.set_mode(entry, mode)

    def _join(self, entry: Handle, mode: int) -> bool:
        beside = next(iter(self._shares.values()), None)
        share = share_of(self._store, entry, beside)
        if share is not None and share.key not in self._shares:
            share.join(mode)
            self._shares[share.key] = share
            return True
        return False

    async def _close(self, path: ScopedPath, mode: int) -> None:
        with closing(await unfollowed(self._store, path)) as entry:
            async with _turn(self._store, entry) as share:
                own = None if share is None else self._shares.get(share.key)
                asking = own or share
                is_last = asking is None or asking.others() is None
                opened = mode | ALL_OF_OWNER
                now = Touch(path, "updated", "directory", mode=opened)
                if (is_last or own) and await _stands_at(self._store, entry, now):
                    await self._set_mode(entry, opened, mode, by_us=is_last)
                # Only now: who finds it open and held by nobody takes it for one that is not shut.
                if own is not None:
                    self._shares.pop(own.key).close()


@asynccontextmanager
async def _turn(store: Store, entry: Handle) -> AsyncGenerator[Share | None, None]:
    """Be the only one who opens or shuts a directory, where that can be had."""
    share = share_of(store, entry)
    if share is None:
        yield None
        return
    try:
        for _ in range(_TRIES_MAX):  # then somebody else has locked it, for something else
            if share.try_turn():
                break
            await asyncio.sleep(_TRIED_EVERY_S)
        yield share
    finally:
        share.end_turn()
        share.close()


def share_of(store: Store, entry: Handle, beside: Share | None = None) -> Share | None:
    return store.share_directory(entry, beside) if isinstance(store, SharesDirectories) else None


async def mode_but_for_others(store: Store, entry: Handle) -> int:
    """The mode of a directory, or the one that it gets again from others who have opened it."""
    mode = (await store.stat(entry)).mode & 0o777
    share = share_of(store, entry) if mode & ALL_OF_OWNER == ALL_OF_OWNER else None
    if share is not None:
        with closing(share):
            before = share.others()
        if before is not None and before | ALL_OF_OWNER == mode:
            return before
    return mode


async def give_modes(store: Store, directories: Sequence[GivenMode]) -> None:
    """In their order; those that others have given another mode since keep theirs."""
    for path, mode, wanted in directories:
        now = Touch(path, "updated", "directory", mode=mode)
        await _given_mode(store, now, now._replace(mode=wanted))


async def finish_move(store: Store, touch: Touch) -> None:
    """What was moved, and not given its mode any more, gets it."""
    if touch.kind == "moved" and touch.sets_mode:
        await _given_mode(store, touch._replace(mode=touch.mode_before), touch)


async def _given_mode(store: Store, now: Touch, wanted: Touch) -> None:
    """What was looked at gets it, whatever comes to stand there meanwhile."""
    if wanted.mode is None:
        return
    with suppress(BailiwickError), closing(await unfollowed(store, now.path)) as entry:
        if not await _stands_at(store, entry, now):
            return  # others have changed it since: theirs stays
        if wanted.mode & ALL_OF_OWNER == ALL_OF_OWNER or not _is_shared(store, entry):
            await store.set_mode(entry, wanted.mode)  # else the last one out shuts it


def _is_shared(store: Store, entry: Handle) -> bool:
    share = share_of(store, entry)
    if share is None:
        return False
    with closing(share):
        return share.others() is not None
