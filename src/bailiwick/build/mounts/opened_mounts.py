"""Opening the places of a tree of mounts, and joining them to one store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from bailiwick.build.commands import finish_publishing
from bailiwick.build.homes import Homes, Kept
from bailiwick.build.mounts.mounted_scope import ScopeStore
from bailiwick.build.options import Options
from bailiwick.build.overlay import open_overlay
from bailiwick.build.places import Background, NamedMount, open_volume
from bailiwick.build.stores import bucket_store, disk_store, let_go, memory_store, remembered
from bailiwick.finishing import in_thread
from bailiwick.grant import Root, User
from bailiwick.store import Store


class KeepingMounts(NamedTuple):
    """What goes on beside the mounts of one tree."""

    each: Sequence[Background]

    async def aclose(self) -> None:
        for background in self.each:
            await background.aclose()


class OpenedMounts(NamedTuple):
    """One store over all mounts, and what keeps them."""

    store: Store
    keeping: Background


async def open_mounts(mounts: Sequence[NamedMount], options: Options) -> OpenedMounts:
    """The store of a tree of mounts. What lies in them is not looked at: only the places are
    opened."""
    from bailiwick.stores.mounts import MountedStore, MountsStore

    opened: list[MountedStore] = []
    keeping: list[Background] = []
    try:
        for each in mounts:
            store, background = await _open_place(each, options)
            opened.append(MountedStore(each.point, store, each.read_only))
            if background is not None:
                keeping.append(background)
        joined = MountsStore(opened, clock_ns=time.time_ns, limits=options.limits)
    except BaseException:
        for background in keeping:
            await background.aclose()
        for mount in opened:
            await mount.store.aclose()
        raise
    return OpenedMounts(joined, KeepingMounts(keeping))


async def _open_place(mount: NamedMount, options: Options) -> tuple[Store, Background | None]:
    """The store of one mount, and what keeps it. What a command had begun to bring back there is
    finished, unless nothing may be changed."""
    place = mount.place
    if place.store is not None:
        if isinstance(place.store, ScopeStore):
            place.store.begin()
        return place.store, None
    if place.bucket is not None:
        return await in_thread(bucket_store, place.bucket, options, let_go=let_go), None
    background: Background | None = None
    past = None
    if place.volume is not None:
        store, background = await open_volume(place.volume, options)
    elif place.directory is None:
        store = memory_store(options)
    else:
        homes = Homes(options.state_dir)
        making = place.over or options.history == "on"
        past = await in_thread(partial(homes.kept, place.directory, making=making))
        disk = await in_thread(disk_store, place.directory, options, past, let_go=let_go)
        store, background = await remembered(disk, options, past)
    try:
        if options.trusted and not mount.read_only:
            await finish_publishing(store, options.names, options.limits, options.state_dir, past)
        if place.over:
            return await _overlaid(store, options, past), background
    except BaseException:
        if background is not None:
            await background.aclose()
        await store.aclose()
        raise
    return store, background


async def _overlaid(lower: Store, options: Options, past: Kept | None) -> Store:
    """The overlay of a mounted place, which closes what it lies over."""
    root = Root(kind="workspace", id="mounts", names=options.names)
    over = await open_overlay(lower, root, User("local"), options, past)

    async def end() -> None:
        await over.aclose()
        await lower.aclose()

    over.store.ending = end
    return over.store
