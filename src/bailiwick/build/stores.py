"""The stores behind places."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bailiwick.build.homes import Homes, Kept, spelled_key
from bailiwick.build.options import Options
from bailiwick.finishing import in_thread
from bailiwick.limits import Limits
from bailiwick.store import Store

if TYPE_CHECKING:
    from bailiwick.build.places import Background
    from bailiwick.state.temps import TempPlace, TempRoots
    from bailiwick.stores.history import HistoryStore


def memory_store(options: Options) -> Store:
    from bailiwick.stores.memory import MemoryStore

    return MemoryStore(
        symlinks=options.symlinks,
        limits=options.limits,
        new_file_mode=options.new_file_mode,
        clock_ns=time.time_ns,
    )


def bucket_store(address: str, options: Options) -> Store:
    """The store on a bucket, which is asked nothing yet. Raises `ParseError`, `Unsupported`."""
    from bailiwick.stores.bucket import BucketStore
    from bailiwick.stores.volume.content.bucket import open_bucket

    return BucketStore(
        open_bucket(address), clock_ns=time.time_ns, monotonic_ns=time.monotonic_ns,
        limits=options.limits,
    )  # fmt: skip


def disk_store(directory: str, options: Options, kept: Kept | None = None) -> Store:
    """The store on a directory, whose unfinished changes are noted with what is ``kept`` of it."""
    kept = kept or Homes(options.state_dir).kept(directory, making=False)
    from bailiwick.stores.disk import DiskStore

    return DiskStore.open(
        directory,
        symlinks=options.symlinks,
        hardlinks=options.hardlinks or ("allow" if options.trusted else "reject"),
        cross_mounts=True if options.cross_mounts is None else options.cross_mounts,
        containment=options.containment or "auto",
        durability=options.durability or "full",
        new_file_mode=options.new_file_mode,
        limits=options.limits,
        state_dir=kept.folder,
        key=kept.key,
        earlier=kept.earlier,
    )


async def remembered(store: Store, options: Options, kept: Kept) -> tuple[Store, Background | None]:
    """The store of a directory, wrapped in its history where that is on, and what keeps it. The
    history lies outside the tree, in the state directory. A store that cannot be wrapped is
    closed."""
    if options.history == "off":
        return store, None
    from bailiwick.stores.history import HistoryAutoCollection

    try:
        wrapped = await in_thread(_with_history, store, options, kept, let_go=let_go)
    except BaseException:
        await store.aclose()
        raise
    keeping = HistoryAutoCollection(wrapped, options.keep_versions_days)
    keeping.begin()
    return wrapped, keeping


def _with_history(store: Store, options: Options, kept: Kept) -> HistoryStore:
    from bailiwick.stores.history import ambient_history_directory, open_history
    from bailiwick.stores.volume import VolumeStore

    def open_keeper(path: str) -> Store:
        return VolumeStore.open(path, limits=options.limits)

    def collecting(keeper: Store) -> Callable[[], Awaitable[object]]:
        assert isinstance(keeper, VolumeStore)
        return lambda: keeper.versions.collect(keep_days=0)

    return open_history(
        store,
        ambient_history_directory(kept.folder, kept.key),
        open_keeper,
        durable=options.durability != "rename",
        limits=options.limits,
        collect=collecting,
    )


async def let_go(store: Store | None) -> None:
    """Close a store that was opened for one who is no longer there."""
    if store is not None:
        await store.aclose()


async def remove_temp(place: TempPlace) -> None:
    """Remove a temporary root, whoever waits for it."""
    await in_thread(place.close)


def temp_roots(state: str) -> TempRoots:
    """The temporary roots of a state directory: one of these for all places of a process, since it
    is the process whose death ends them."""
    known = _temp_roots.get(state)
    if known is None:
        from bailiwick.state.temps import TempRoots

        known = _temp_roots[state] = TempRoots(os.path.join(state, "temp"), time.monotonic)
    return known


_temp_roots: dict[str, TempRoots] = {}


def temp_store(place: TempPlace, state: str, limits: Limits) -> Store:
    """The store on a temporary directory: no links, nothing shared."""
    options = Options(
        symlinks="reject", hardlinks="reject", durability="rename", limits=limits, state_dir=state
    )
    return disk_store(place.path, options, temp_kept(place, state))


def temp_kept(place: TempPlace, state: str) -> Kept:
    """Where what is noted of a temporary directory lies. It has a name that no other ever had."""
    return Kept(state, spelled_key(place.path))
