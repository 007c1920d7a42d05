"""Whole trees made under a staging name: then one rename, or a merge that can be undone.

By descriptors throughout, one component at a time, and no link is ever followed. The stage lies
beside the name it is for, or inside the directory it is merged into, so that it is on the same
filesystem; the journal knows of it before it is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from bailiwick.errors import FileTooLarge, InternalError, from_os_error
from bailiwick.model import Expected
from bailiwick.paths import ScopedPath, check_stays_inside
from bailiwick.sparse_files import write_all
from bailiwick.store import Staged, StagedRemoval
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.copies import copy_piece
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.changes.links import check_link_text, check_links_made
from bailiwick.stores.disk.changes.removal import remove_litter
from bailiwick.stores.disk.lookup.beneath import moved_meanwhile
from bailiwick.stores.disk.lookup.handles import Held, check_free
from bailiwick.stores.disk.lookup.trails import Trail, open_up
from bailiwick.stores.disk.workers import UNSTOPPABLE, Stop, Workers
from bailiwick.stores.disk.writes.publisher import Publisher, rename_new
from bailiwick.stores.disk.writes.tree_merge import TreeMerge
from bailiwick.stores.disk.writes.tree_swap import TreeSwap

FLUSHED_SINGLY_MAX: Final = 32
"""Files of one tree that are made durable one by one; a flush of the whole filesystem has to write
what others have written as well, so it is for those who have much to write themselves."""


class _OpenStagedFile(NamedTuple):
    """The file that content goes to."""

    fd: int
    step: Staged


class StagedTree:
    """One tree under a staging name. Its methods block, and run one at a time."""

    def __init__(self, publisher: Publisher, place: Held, size_max: int) -> None:
        self._publisher: Final = publisher
        self._place: Final = place
        self._into: Final = place.type == "directory"
        self._size_max: Final = size_max
        self._name = ""
        self._parent = -1
        self._trail: Trail | None = None
        self._file: _OpenStagedFile | None = None
        self._size = 0
        self._unflushed: list[int] = []
        self._too_many_to_flush = False
        self._directories: dict[ScopedPath, Staged] = {}
        self._implied: set[ScopedPath] = set()
        self._leaves: list[Staged] = []

    # --- beginning ----------------------------------------------------------------------------

    def begin_blocking(self, stop: Stop) -> None:
        place, journal = self._place, self._publisher.journal
        if self._into:
            self._parent = place.open_for_listing()
            parent_path: str = place.path
        else:
            check_free(place)
            self._parent, parent_path = os.dup(place.parent), place.parent_path
        self._check_pinned()
        stop.check()
        journal.staging_in(parent_path, self._parent)
        name = journal.new_stage_name()
        syscalls.mkdir(name, 0o700, dir_fd=self._parent)
        self._name = name
        flags = syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW
        self._trail = Trail(os.open(name, flags, dir_fd=self._parent))

    def _check_pinned(self) -> None:
        """The directory that is staged in is still where it was found."""
        path = self._place.path if self._into else self._place.parent_path
        lookup = self._publisher.lookup
        if path != "." and not lookup.leads_to(path, os.fstat(self._parent)):
            raise moved_meanwhile(self._place.path)

    # --- making -------------------------------------------------------------------------------

    def add_blocking(self, steps: Sequence[Staged | bytes], stop: Stop) -> None:
        for step in steps:
            stop.check()
            if isinstance(step, bytes):
                self._write(step)
                continue
            self._end_file()
            try:
                self._make(step)
            except OSError as error:
                raise from_os_error(error, self._final(step.path)) from None

    def _make(self, step: Staged) -> None:
        if step.type == "directory":
            self._make_dir(step)
            return
        directory, name = self._parent_of(step.path)
        if step.type == "symlink":
            self._check_link(step)
            os.symlink(step.target, name, dir_fd=directory)
        else:
            fd = syscalls.open_at(name, syscalls.STAGE_FLAGS, 0o600, dir_fd=directory)
            self._file, self._size = _OpenStagedFile(fd, step), 0
            if step.type == "copy":
                self._copy_from(ScopedPath(step.target), fd)
                self._end_file()
        self._leaves.append(step)

    def _make_dir(self, step: Staged) -> None:
        if step.path not in self._implied:
            directory, name = self._parent_of(step.path)
            syscalls.mkdir(name, 0o700, dir_fd=directory)
        self._implied.discard(step.path)
        self._directories[step.path] = step

    def _parent_of(self, path: ScopedPath) -> tuple[int, str]:
        """The directory an object goes to, made if it is not there yet, and its name in it."""
        trail = self._trail
        if trail is None:
            raise InternalError("the stage is gone")
        missing: list[ScopedPath] = []
        above = path.parent
        while not above.is_root and above not in self._directories:
            missing.append(above)
            above = above.parent
        for directory in reversed(missing):
            syscalls.mkdir(directory.name, 0o700, dir_fd=trail.go(directory.parent))
            self._directories[directory] = Staged(directory, "directory")
            self._implied.add(directory)
        return trail.go(path.parent), path.name

    def _check_link(self, step: Staged) -> None:
        final, settings = self._final(step.path), self._publisher.settings
        check_link_text(step.target, final, settings.limits.link_text_bytes_max)
        check_links_made(final, settings.symlinks)
        check_stays_inside(step.target, final)

    def _copy_from(self, source: ScopedPath, copy: int) -> None:
        """The content of a file that was staged before."""
        directory, name = self._parent_of(source)
        flags = syscalls.READ_FLAGS | syscalls.O_NOFOLLOW
        original = os.open(name, flags, dir_fd=directory)
        try:
            while moved := copy_piece(original, copy):
                self._count(moved)
        finally:
            os.close(original)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise InternalError("content follows the file it belongs to")
        self._count(len(data))
        write_all(self._file.fd, data, syscalls.write)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._size_max:
            raise FileTooLarge(
                f"the file would be larger than {self._size_max} bytes",
                details={"limit": self._size_max},
            )

    def _end_file(self) -> None:
        opened, self._file = self._file, None
        if opened is None:
            return
        try:
            mode = opened.step.file_mode
            os.fchmod(opened.fd, self._publisher.modes.file if mode is None else mode & 0o777)
            if opened.step.mtime_ns is not None:
                os.utime(opened.fd, ns=(opened.step.mtime_ns, opened.step.mtime_ns))
        except BaseException:
            os.close(opened.fd)
            raise
        self._unflushed.append(opened.fd)
        if len(self._unflushed) > FLUSHED_SINGLY_MAX:
            self._too_many_to_flush = syscalls.CAN_FLUSH_ALL
            self._close_files(flushing=not syscalls.CAN_FLUSH_ALL)

    def _flush_files(self, trail: Trail) -> None:
        """Before anything appears: what appears is durable."""
        self._close_files(flushing=not self._too_many_to_flush)
        if self._too_many_to_flush and self._publisher.settings.durable:
            syscalls.flush_all(trail.top)
        self._too_many_to_flush = False

    def _close_files(self, *, flushing: bool) -> None:
        """Those that were written, and are held until it is known how many there are."""
        while self._unflushed:
            fd = self._unflushed.pop()
            try:
                if flushing and self._publisher.settings.durable:
                    syscalls.flush(fd)
            finally:
                os.close(fd)

    # --- appearing ----------------------------------------------------------------------------

    def publish_blocking(self, stop: Stop) -> None:
        self._end_file()
        place, parent = self._place, self._parent
        trail = self._trail
        assert trail is not None
        self._flush_files(trail)
        for path in sorted(self._directories, reverse=True):
            self._dress(trail.go(path), self._directories[path], stop)
        self._dress(trail.top, Staged(place.path, "directory"), stop)
        self._check_pinned()
        named = False
        try:
            with Flushing(self._publisher.settings.durable, parent):
                stop.commit()
                rename_new(parent, self._name, parent, place.name, place.path)
                named = True
        except BaseException:
            if named:
                # Whether the name will last is not known: then it is not given.
                rename_new(parent, place.name, parent, self._name, place.path)
            raise
        self._name = ""

    def _dress(self, directory: int, step: Staged, stop: Stop) -> None:
        """Give a finished directory the mode and time it shall have."""
        stop.check()
        mode = step.file_mode
        os.fchmod(directory, self._publisher.modes.directory if mode is None else mode & 0o777)
        if step.mtime_ns is not None:
            os.utime(directory, ns=(step.mtime_ns, step.mtime_ns))
        if self._publisher.settings.durable:
            syscalls.flush(directory)

    def merge_blocking(self, replace: bool, stop: Stop) -> None:
        self._end_file()
        assert self._trail is not None
        self._flush_files(self._trail)
        self._check_pinned()
        merge = TreeMerge(
            self._publisher, self._trail, os.dup(self._parent), self._place.path, replace
        )
        try:
            merge.run(self._directories, self._leaves, stop)
        finally:
            merge.close()

    def swap_blocking(
        self, over: Mapping[ScopedPath, Expected], gone: Sequence[StagedRemoval], stop: Stop
    ) -> None:
        self._end_file()
        assert self._trail is not None
        self._flush_files(self._trail)
        self._check_pinned()
        target = os.dup(self._parent)
        swap = TreeSwap(self._publisher, self._trail, target, self._place.path, over)
        try:
            swap.run_all(gone, self._directories, self._implied, self._leaves, stop)
        finally:
            swap.close()

    def discard_blocking(self, _stop: Stop) -> None:
        """Take away what is left under the staging name, and let go of everything."""
        opened, self._file = self._file, None
        if opened is not None:
            os.close(opened.fd)
        self._close_files(flushing=False)
        if self._name and not self._publisher.journal.is_anothers:
            try:
                self._make_removable()
                remove_litter(self._parent, self._name)
            except OSError:
                self._publisher.journal.keep()
        self._name = ""
        if self._trail is not None:
            self._trail.close()
            self._trail = None
        if self._parent >= 0:
            os.close(self._parent)
            self._parent = -1

    def _make_removable(self) -> None:
        """Directories may have got a mode by now that keeps everything in them."""
        trail = self._trail
        if trail is None:
            return
        os.fchmod(trail.top, 0o700)
        for path in sorted(self._directories):
            with suppress(OSError):
                open_up(trail.go(path.parent), path.name)

    def _final(self, path: ScopedPath) -> ScopedPath:
        """Where something of the stage will stand."""
        return path.beneath(self._place.path)


class DiskStage:
    """A staged tree as a store hands it out: each step in a thread of the store."""

    def __init__(self, tree: StagedTree, path: ScopedPath, workers: Workers) -> None:
        self._tree: Final = tree
        self._path: Final = path
        self._workers: Final = workers

    async def begin(self) -> None:
        await self._run(self._tree.begin_blocking)

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        await self._run(self._tree.add_blocking, tuple(steps))

    async def publish(self) -> None:
        await self._run(self._tree.publish_blocking)

    async def merge(self, *, replace: bool) -> None:
        await self._run(self._tree.merge_blocking, replace)

    async def swap(
        self, over: Mapping[ScopedPath, Expected], gone: Sequence[StagedRemoval]
    ) -> None:
        await self._run(self._tree.swap_blocking, over, tuple(gone))

    async def discard(self) -> None:
        if self._workers.closed:
            self._tree.discard_blocking(UNSTOPPABLE)
        else:
            await self._run(self._tree.discard_blocking)

    async def _run(self, job: Callable[..., None], *args: Any) -> None:
        try:
            await self._workers.run(job, *args)
        except OSError as error:
            raise from_os_error(error, self._path) from None
