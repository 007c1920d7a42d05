"""Taking away entries and whole trees, by descriptors, never through a link.

A tree is first given a staging name, which is the one instant at which it is gone, and then taken
apart out of sight. If taking apart fails, what is left gets its name back.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import islice
from typing import Final

from bailiwick.errors import PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.lookup.beneath import across_mount
from bailiwick.stores.disk.lookup.handles import Held, is_directory, root_itself
from bailiwick.stores.disk.lookup.mounts import is_mount_point, mounted, refuse_mounts
from bailiwick.stores.disk.lookup.trails import open_up
from bailiwick.stores.disk.workers import UNSTOPPABLE, Stop
from bailiwick.stores.disk.writes.publisher import Publisher

BATCH_ENTRIES: Final = 4_096
"""Names held in memory at a time while a directory is emptied."""

LEVELS_MAX: Final = 64
"""Descriptors one removal holds: a small part of the 1,024 a process commonly may have."""


def remove_blocking(publisher: Publisher, held: Held, recursive: bool, stop: Stop) -> int:
    """Remove an entry; how many objects went."""
    if held.path == ".":
        raise root_itself(held.path)
    found = held.refresh()
    if found is None:
        raise PathNotFound("no such file or directory", path=held.path)
    publisher.lookup.check_pinned(held)
    if recursive and is_directory(found):
        publisher.lookup.check_mount(held.parent, held.path, held.name)
        refuse_mounts(held)
    with Flushing(publisher.settings.durable, held.parent):
        if recursive and is_directory(found):
            return _remove_tree(publisher, held, stop)
        stop.commit()
        try:
            if is_directory(found):
                os.rmdir(held.name, dir_fd=held.parent)
            else:
                syscalls.unlink(held.name, dir_fd=held.parent)
        except OSError as error:
            if error.errno == errno.EBUSY and is_mount_point(held.parent, held.name):
                raise mounted(held.path) from None
            raise
        return 1


def _remove_tree(publisher: Publisher, held: Held, stop: Stop) -> int:
    hidden = _hide(publisher, held, stop)
    mount = None if publisher.settings.cross_mounts else publisher.lookup.root.mount
    demolition = Demolition(held.path, mount)
    if hidden is None:
        return demolition.run(held.parent, held.name, stop)
    try:
        return demolition.run(held.parent, hidden, stop)
    except BaseException:
        try:
            syscalls.rename_new(held.parent, hidden, held.parent, held.name)
        except OSError:
            publisher.journal.keep()
        raise


def _hide(publisher: Publisher, held: Held, stop: Stop) -> str | None:
    """Give the tree a staging name; None where that cannot be done.

    On a full disk neither the journal nor the directory may take one more line: removing must work
    all the same.
    """
    hidden = publisher.journal.new_stage_name()
    try:
        publisher.journal.staging_in(held.parent_path, held.parent)
        stop.commit()
        syscalls.rename_over(held.name, hidden, src_dir_fd=held.parent, dst_dir_fd=held.parent)
    except FileNotFoundError:
        raise
    except OSError:
        stop.take_back()
        return None
    return hidden


class Demolition:
    """Removes one tree: children before their parents, one descriptor a level.

    What lies deeper than `LEVELS_MAX` is first lifted to the top of the tree that is going, so
    that no depth needs more descriptors than that. What is mounted inside, be it since the tree
    was looked at, is not entered.
    """

    def __init__(self, path: ScopedPath, mount: int | None, ours: bool = False) -> None:
        """``ours``: a tree of our own making, which goes whatever modes it was given already."""
        self._path = path
        self._mount = mount
        self._ours = ours
        self._device = -1
        self._lies_on: int | None = None
        self._stack: list[tuple[int, int, str]] = []  # parent, directory, its name there
        self._count = 0

    def run(self, parent: int, name: str, stop: Stop) -> int:
        try:
            self._enter(parent, name)
            while self._stack:
                stop.check()
                self._step()
        finally:
            for _, directory, _ in self._stack:
                os.close(directory)
        return self._count

    def _enter(self, parent: int, name: str) -> None:
        if self._ours:
            open_up(parent, name)
        directory = os.open(name, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=parent)
        self._stack.append((parent, directory, name))
        device, mount = os.fstat(directory).st_dev, syscalls.mount_of(directory)
        if self._mount not in (None, mount):
            raise across_mount(self._path)
        if len(self._stack) == 1:
            self._device, self._lies_on = device, mount
        elif (device, mount) != (self._device, self._lies_on):
            raise mounted(self._path)

    def _step(self) -> None:
        """Empty the innermost directory as far as it has no directories, then go in or out."""
        parent, directory, name = self._stack[-1]
        with os.scandir(directory) as entries:
            batch = [(entry.name, leads_down(entry)) for entry in islice(entries, BATCH_ENTRIES)]
        for child, down in batch:
            if not down:
                self._unlink(directory, child)
        inner = next((child for child, down in batch if down), None)
        if inner is not None:
            with suppress(FileNotFoundError):
                self._go_down(directory, inner)
        elif not batch:
            self._go_up(parent, directory, name)

    def _go_down(self, directory: int, inner: str) -> None:
        if len(self._stack) < LEVELS_MAX:
            self._enter(directory, inner)
            return
        top = self._stack[0][1]
        os.rename(inner, os.urandom(16).hex(), src_dir_fd=directory, dst_dir_fd=top)

    def _go_up(self, parent: int, directory: int, name: str) -> None:
        try:
            os.rmdir(name, dir_fd=parent)
            self._count += 1
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return  # someone put something in: empty it again
        self._stack.pop()
        os.close(directory)

    def _unlink(self, directory: int, name: str) -> None:
        try:
            syscalls.unlink(name, dir_fd=directory)
            self._count += 1
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            pass  # it became one: the next look finds it


def leads_down(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory itself; one that cannot be examined is not entered."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def remove_litter(directory: int, name: str) -> None:
    """Remove something of ours, of whatever kind; one that is gone is fine."""
    try:
        syscalls.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        # Linux says EISDIR of a directory, POSIX and macOS say EPERM.
        Demolition(ScopedPath(name), None, ours=True).run(directory, name, UNSTOPPABLE)
