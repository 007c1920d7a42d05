"""Taking away entries and whole trees, by descriptors, never through a link.

A tree is first given a staging name, which is the one instant at which it is gone, and then taken
apart out of sight: where no program is shown it that runs in a sandbox, from which names in it may
be hidden by the path that they had. If taking apart fails, what is left gets its name back.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Final, NamedTuple

from bailiwick.errors import PathNotFound
from bailiwick.paths import REMOVED, ScopedPath
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
    mount = None if publisher.settings.cross_mounts else publisher.lookup.root.mount
    demolition = Demolition(held.path, mount)
    with ExitStack() as places:
        hidden = _hide_at_top(publisher, held, stop, places) or _hide_beside(publisher, held, stop)
        if hidden is None:
            return demolition.run(held.parent, held.name, stop)
        try:
            return demolition.run(hidden.directory, hidden.name, stop)
        except BaseException:
            try:
                syscalls.rename_new(hidden.directory, hidden.name, held.parent, held.name)
            except OSError:
                publisher.journal.keep()
            raise


class _Hidden(NamedTuple):
    """Where a tree lies that is removed."""

    directory: int
    name: str


def _hide_at_top(publisher: Publisher, held: Held, stop: Stop, places: ExitStack) -> _Hidden | None:
    """Give the tree a name in `REMOVED`; None where it cannot go there: it is on another
    filesystem, say, or the top of the root is not ours to write to."""
    for _ in range(publisher.settings.limits.busy_retries_max):
        try:
            place = _open_removed(publisher)
            places.callback(_let_go_of_removed, publisher, place)
            return _hide(publisher, held, place, stop)
        except FileNotFoundError:
            # It may be the place that is gone, with what somebody else had removed.
            if held.refresh() is None:
                raise
        except OSError:
            break
    return None


def _hide_beside(publisher: Publisher, held: Held, stop: Stop) -> _Hidden | None:
    """Give the tree a staging name where it stands; None where that cannot be done either: on a
    full disk neither the journal nor the directory may take one more line, and removing must work
    all the same."""
    try:
        publisher.journal.staging_in(held.parent_path, held.parent)
    except OSError:
        return None
    return _hide(publisher, held, held.parent, stop)


def _hide(publisher: Publisher, held: Held, directory: int, stop: Stop) -> _Hidden | None:
    name = publisher.journal.new_stage_name()
    stop.commit()
    try:
        syscalls.rename_over(held.name, name, src_dir_fd=held.parent, dst_dir_fd=directory)
    except OSError as error:
        stop.take_back()
        if isinstance(error, FileNotFoundError):
            raise
        return None
    return _Hidden(directory, name)


def _open_removed(publisher: Publisher) -> int:
    """`REMOVED`, made where it is missing. Raises OSError, also where others may look into it: what
    is removed may have been theirs to see as little as the directory that it lay in."""
    publisher.journal.staging_in_removed()
    top, is_ours = publisher.lookup.root.fd, False
    with suppress(FileExistsError):
        syscalls.mkdir(REMOVED, 0o700, dir_fd=top)
        is_ours = True
    place = os.open(REMOVED, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=top)
    try:
        # Somebody who may write there can have put another in the place of what was just made.
        if _is_for_us_alone(place) or (is_ours and not _keeps_modes(publisher)):
            return place
        raise PermissionError(errno.EPERM, "not for us alone")
    except BaseException:
        os.close(place)
        raise


def _is_for_us_alone(fd: int) -> bool:
    status = os.fstat(fd)
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _keeps_modes(publisher: Publisher) -> bool:
    """Whether a file is whose it is said to be: a filesystem without that has one answer for all.
    Of a file that is made it can be asked without anybody coming in between."""
    top, name = publisher.lookup.root.fd, publisher.journal.new_stage_name()
    publisher.journal.staging_in(".", top)
    fd = syscalls.open_at(name, syscalls.STAGE_FLAGS, 0o600, dir_fd=top)
    try:
        return _is_for_us_alone(fd)
    finally:
        os.close(fd)
        remove_litter(top, name)


def _let_go_of_removed(publisher: Publisher, place: int) -> None:
    """Whoever is the last to have something there takes it away."""
    os.close(place)
    with suppress(OSError):
        os.rmdir(REMOVED, dir_fd=publisher.lookup.root.fd)


class _Storey:
    """A directory on the way down: its name, and which it is, also while it is not held."""

    def __init__(self, name: str, fd: int, status: os.stat_result) -> None:
        self.name = name
        self.fd = fd
        self.identity = status.st_dev, status.st_ino

    def let_go(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class Demolition:
    """Removes one tree: children before their parents, one descriptor a level.

    Of a deep tree no more than `LEVELS_MAX` are held: those in between are let go on the way down,
    and found again on the way up. Nothing is given another name: what cannot be removed stays
    where it was. What is mounted on it or inside, be it since the tree was looked at, is not
    entered.
    """

    def __init__(self, path: ScopedPath, mount: int | None, ours: bool = False) -> None:
        """``ours``: a tree of our own making, which goes whatever modes it was given already."""
        self._path = path
        self._mount = mount
        self._ours = ours
        self._device = -1
        self._lies_on: int | None = None
        self._outside = -1
        self._stack: list[_Storey] = []
        self._let_go = 0
        """How many levels are not held: those next to the top of the tree, which is."""
        self._count = 0

    def run(self, parent: int, name: str, stop: Stop) -> int:
        self._outside = parent
        self._lies_on = syscalls.mount_of(parent)
        try:
            self._enter(parent, name)
            while self._stack:
                stop.check()
                self._step()
        finally:
            for level in self._stack:
                level.let_go()
        return self._count

    def _enter(self, parent: int, name: str) -> None:
        if self._ours and not is_mount_point(parent, name):
            open_up(parent, name)  # what is mounted there is not ours, and keeps its modes
        directory = os.open(name, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=parent)
        status, mount = os.fstat(directory), syscalls.mount_of(directory)
        self._stack.append(_Storey(name, directory, status))
        if self._mount not in (None, mount):
            raise across_mount(self._path)
        if len(self._stack) == 1:
            self._device = status.st_dev  # a volume of its own, as Btrfs has them, is no mount
        if (status.st_dev, mount) != (self._device, self._lies_on):
            raise mounted(self._path)
        if len(self._stack) - self._let_go > LEVELS_MAX:
            self._let_go += 1
            self._stack[self._let_go].let_go()

    def _step(self) -> None:
        """Empty the innermost directory as far as it has no directories, then go in or out."""
        directory = self._stack[-1].fd
        with os.scandir(directory) as entries:
            batch = [(entry.name, leads_down(entry)) for entry in islice(entries, BATCH_ENTRIES)]
        for child, down in batch:
            if not down:
                self._unlink(directory, child)
        inner = next((child for child, down in batch if down), None)
        if inner is not None:
            with suppress(FileNotFoundError):
                self._enter(directory, inner)
        elif not batch:
            self._go_up()

    def _go_up(self) -> None:
        level = self._stack[-1]
        if not self._hold_again():
            return
        parent = self._stack[-2].fd if len(self._stack) > 1 else self._outside
        try:
            os.rmdir(level.name, dir_fd=parent)
            self._count += 1
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return  # someone put something in: empty it again
        self._stack.pop().let_go()

    def _hold_again(self) -> bool:
        """Hold the directory around the innermost, where it was let go. Where that lies in another
        by now nobody knows the way: it begins anew at the top."""
        if self._let_go == 0 or self._let_go != len(self._stack) - 2:
            return True
        around = self._stack[-2]
        around.fd = self._open_around()
        status = os.fstat(around.fd)
        if (status.st_dev, status.st_ino) == around.identity:
            self._let_go -= 1
            return True
        while len(self._stack) > 1:
            self._stack.pop().let_go()
        self._let_go = 0
        return False

    def _open_around(self) -> int:
        """From within, or where its mode keeps its owner out, all the way from the top."""
        flags = syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW
        with suppress(PermissionError):
            return os.open("..", flags, dir_fd=self._stack[-1].fd)
        found = os.dup(self._stack[0].fd)
        for level in self._stack[1:-1]:
            above = found
            try:
                found = os.open(level.name, flags, dir_fd=above)
            finally:
                os.close(above)
        return found

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
