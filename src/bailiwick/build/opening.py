"""`bailiwick.open` and `bailiwick.open_sync`: one scope on one place, for the local user.

They trust what they named.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Unpack

from bailiwick.build.options import (
    OpenOptions,
    Options,
    host_directory,
    place_text,
    read_options,
    refuse_disk_options,
)
from bailiwick.build.own import join
from bailiwick.build.stores import disk_store, memory_store
from bailiwick.errors import ParseError
from bailiwick.portal import Portal, SyncScope
from bailiwick.scope import Scope


class Opening:
    """A place about to be opened: ``async with bailiwick.open(…) as fs``."""

    def __init__(self, place: str | os.PathLike[str], options: Options) -> None:
        self._place = place_text(place)
        self._options = options
        self._scope: Scope | None = None

    async def __aenter__(self) -> Scope:
        self._scope = scope = await open_scope(self._place, self._options)
        return scope

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scope is not None:
            await self._scope.aclose()


class SyncOpening:
    """The same for blocking code: ``with bailiwick.open_sync(…) as fs``."""

    def __init__(self, place: str | os.PathLike[str], options: Options) -> None:
        self._place = place_text(place)
        self._options = options
        self._portal: Portal | None = None
        self._scope: Scope | None = None

    def __enter__(self) -> SyncScope:
        portal = Portal.borrow()
        try:
            self._scope = portal.run(open_scope(self._place, self._options))
        except BaseException:
            portal.give_back()
            raise
        self._portal = portal
        return SyncScope(self._scope, portal)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._portal is not None and self._scope is not None:
            try:
                self._portal.run(self._scope.aclose())
            finally:
                self._portal.give_back()


def open(place: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Opening:
    """Open a place for the local user: ``async with bailiwick.open("./project") as fs``.

    ``place`` is a directory, or ``"memory:"``. Options:

    - ``trusted`` (True): whether it may be changed at all.
    - ``access``: what the scope may do, for example ``{"read", "list", "metadata"}``.
    - ``mount_point``: where absolute paths begin (the directory itself; ``/`` in memory).
    - ``names``: ``"posix"``, or ``"portable"`` to refuse names that Windows or macOS would alias.
    - ``limits``: a `Limits`.
    - ``symlinks``: ``"in-root"`` follows links that stay inside, ``"reject"`` follows none.
    - ``new_file_mode``: ``"private"`` (0600), ``"umask"``, or permission bits.
    - ``ignore_files``: the names of files that hold ignore rules.

    For a directory also ``hardlinks`` (``"allow"``, ``"reject"``), ``cross_mounts``,
    ``containment`` (``"auto"``, ``"require-kernel"``, ``"walk"``), ``durability`` (``"full"``,
    ``"rename"``), ``copy_in`` (host directories that `Scope.copy_in` may copy from) and
    ``state_dir`` (where the journal of unfinished writes is kept).
    """
    return Opening(place, read_options(dict(options)))


def open_sync(place: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> SyncOpening:
    """`open` for blocking code: the same options, the same verbs, no ``await``."""
    return SyncOpening(place, read_options(dict(options)))


async def open_scope(place: str, options: Options) -> Scope:
    """Make the store of a place and join everything to a scope with a full grant."""
    if place.startswith("memory:"):
        refuse_disk_options(options)
        if place != "memory:":
            raise ParseError("a memory place has no name", hint='write "memory:"')
        return join(memory_store(options), options, "memory", "/")
    directory = host_directory(place)
    name = directory.rpartition("/")[2] or "root"
    store = disk_store(directory, options)
    try:
        sources = await open_sources(options)
    except BaseException:
        await store.aclose()
        raise
    return join(store, options, name, directory, sources)


async def open_sources(options: Options) -> tuple[Scope, ...]:
    """The host directories that a root may copy from: each to be read, and only that."""
    sources: list[Scope] = []
    try:
        for source in options.copy_in:
            only_read = Options(trusted=False, state_dir=options.state_dir, limits=options.limits)
            sources.append(await open_scope(host_directory(source), only_read))
    except BaseException:
        for scope in sources:
            await scope.aclose()
        raise
    return tuple(sources)
