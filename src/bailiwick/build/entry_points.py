"""`bailiwick.open` and `bailiwick.open_sync`: one scope on one place, for the local user.

They trust what they named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from bailiwick.build.commands import check_share, finish_publishing
from bailiwick.build.homes import Homes
from bailiwick.build.options import (
    OpenOptions,
    Options,
    host_directory,
    read_options,
    refuse_ledger_limits,
)
from bailiwick.build.own import join, join_overlay
from bailiwick.build.places import EMBEDDED, NamedPlace, open_volume, read_opened
from bailiwick.build.stores import disk_store, memory_store, remembered
from bailiwick.errors import NotADirectory, RootNotFound
from bailiwick.portal import Opening, SyncOpening
from bailiwick.scope import Scope
from bailiwick.store import Store

if TYPE_CHECKING:
    from bailiwick.config.places import VolumePlace

_VOLUME_SUFFIXES = (".db", ".sqlite", ".sqlite3")
"""How files are called that hold a database: whoever names one most likely means a volume."""


def open(
    place: str | os.PathLike[str] | Store = EMBEDDED,
    *,
    mounts: Mapping[str, Any] | None = None,
    **options: Unpack[OpenOptions],
) -> Opening[Scope]:
    """Open a place for the local user: ``async with bailiwick.open("./project") as fs``.

    ``place`` is a directory, ``"memory:"``, or a volume: versioned files in one SQLite file,
    ``"sqlite:agent.db?volume=main"``, also ``&branch=NAME`` for a fork and ``&blobs=FOLDER`` or
    ``&blobs=s3://…`` for the content of large files. Without a place it is the volume ``main`` in
    the user's data directory. ``"overlay:./project"`` is a directory that is read and never written
    until `Scope.apply`: what is changed is kept apart; ``"overlay:sqlite:agent.db"`` lies over a
    volume. A path object is always a directory. A store
    of your own (`bailiwick.store.Store`) is a place too, and is closed with the scope.
    ``"mounts:"`` joins the places ``mounts`` under one tree, by their names there:
    ``{"docs": {"place": "./docs", "mode": "read-only"}, "notes": "sqlite:notes.db"}``; also an
    overlay, a bucket (``"s3://bucket/prefix"``, to be read) and a scope. Options:

    - ``trusted`` (True): whether it may be changed at all.
    - ``access``: what the scope may do, for example ``{"read", "list", "metadata"}``.
    - ``mount_point``: where absolute paths begin (the directory itself; ``/`` elsewhere).
    - ``names``: ``"posix"``, or ``"portable"`` to refuse names that Windows or macOS would alias.
    - ``limits``: a `Limits`.
    - ``symlinks``: ``"in-root"`` follows links that stay inside, ``"reject"`` follows none.
    - ``new_file_mode``: ``"private"`` (0600), ``"umask"``, or permission bits.
    - ``ignore_files``: the names of files that hold ignore rules.
    - ``state_dir``: where working copies of commands are kept, and for a directory the journal of
      unfinished writes.
    - ``commands``: a `HostShare`: what commands may have of the machine besides the tree.

    For a directory also ``hardlinks`` (``"allow"``, ``"reject"``), ``cross_mounts``,
    ``containment`` (``"auto"``, ``"require-kernel"``, ``"walk"``), ``durability`` (``"full"``,
    ``"rename"``), ``copy_in`` (host directories that `Scope.copy_in` may copy from) and
    ``history`` (``"off"``; ``"on"`` keeps what is changed there, outside the tree, so that it can
    be restored and undone).
    For a volume, and a directory with history, also ``keep_versions_days`` (30): how long earlier
    versions are kept.
    """
    return Opening(_opens(read_opened(place, mounts, blocking=False), options))


def open_sync(
    place: str | os.PathLike[str] | Store = EMBEDDED,
    *,
    mounts: Mapping[str, Any] | None = None,
    **options: Unpack[OpenOptions],
) -> SyncOpening:
    """`open` for blocking code: the same options, the same verbs, no ``await``."""
    return SyncOpening(_opens(read_opened(place, mounts, blocking=True), options))


def _opens(place: NamedPlace, given: OpenOptions) -> Callable[[], Coroutine[Any, Any, Scope]]:
    options = read_options(dict(given))
    refuse_ledger_limits(options)
    return partial(open_scope, place, options)


async def open_scope(place: NamedPlace, options: Options) -> Scope:
    """Make the store of a place and join everything to a scope with a full grant."""
    place.refuse_unfit(options)
    if place.mounts is not None:
        from bailiwick.build.mounts.opened_mounts import open_mounts

        joined, kept = await open_mounts(place.mounts, options)
        return join(joined, options, "mounts", "/", keeping=kept, runs=False)
    if place.directory is not None:
        return await _open_directory(place, place.directory, options)
    if place.volume is not None:
        return await _open_volume(place, place.volume, options)
    check_share(options.commands, (), options.state_dir)
    if place.store is not None:
        return join(place.store, options, "store", "/")
    if place.over:
        return await join_overlay(memory_store(options), options, "memory", "/")
    return join(memory_store(options), options, "memory", "/")


async def _open_volume(place: NamedPlace, volume: VolumePlace, options: Options) -> Scope:
    check_share(options.commands, (volume.file, volume.blobs_folder), options.state_dir)
    store, keeping = await open_volume(volume, options)
    try:
        if options.trusted:
            await finish_publishing(store, options.names, options.limits, options.state_dir)
        if place.over:
            return await join_overlay(store, options, volume.volume, "/", keeping=keeping)
    except BaseException:
        await keeping.aclose()
        await store.aclose()
        raise
    return join(store, options, volume.volume, "/", keeping=keeping)


async def _open_directory(place: NamedPlace, directory: str, options: Options) -> Scope:
    check_share(options.commands, (directory,), options.state_dir)
    name = directory.rpartition("/")[2] or "root"
    making = place.over or options.history == "on"
    past = Homes(options.state_dir).kept(directory, making=making)
    try:
        disk = disk_store(directory, options, past)
    except (NotADirectory, RootNotFound) as error:
        if directory.endswith(_VOLUME_SUFFIXES):
            error.hint = f'for a volume write "sqlite:{name}"'
        raise
    store, kept = await remembered(disk, options, past)
    try:
        if options.trusted:
            await finish_publishing(store, options.names, options.limits, options.state_dir, past)
        sources = await open_sources(options)
        if place.over:
            return await join_overlay(
                store, options, name, directory, sources, keeping=kept, kept=past
            )
    except BaseException:
        if kept is not None:
            await kept.aclose()
        await store.aclose()
        raise
    return join(store, options, name, directory, sources, keeping=kept, kept=past)


async def open_sources(options: Options) -> tuple[Scope, ...]:
    """The host directories that a root may copy from: each to be read, and only that."""
    sources: list[Scope] = []
    try:
        for source in options.copy_in:
            only_read = Options(trusted=False, state_dir=options.state_dir, limits=options.limits)
            sources.append(
                await open_scope(NamedPlace(directory=host_directory(source)), only_read)
            )
    except BaseException:
        for scope in sources:
            await scope.aclose()
        raise
    return tuple(sources)
