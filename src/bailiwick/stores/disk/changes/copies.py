"""Copies of files, links and trees: made whole under a staging name, then given their own.

By descriptors throughout; a link is copied as a link and never followed.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from bailiwick.errors import (
    BailiwickError,
    FileTooLarge,
    IsADirectory,
    ParseError,
    PathNotFound,
)
from bailiwick.model import MiB
from bailiwick.paths import (
    DEPTH_MAX,
    RESERVED_PREFIX,
    ScopedPath,
    check_stays_inside,
    tree_too_deep,
)
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.changes.links import check_links_made
from bailiwick.stores.disk.changes.removal import remove_litter
from bailiwick.stores.disk.lookup.beneath import check_filesystem
from bailiwick.stores.disk.lookup.handles import (
    FORMAT_MASK,
    Held,
    check_free,
    check_readable,
    is_directory,
)
from bailiwick.stores.disk.reader import check_not_rewritten
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.publisher import Publisher, rename_new

PIECE_BYTES: Final = 8 * MiB
"""Bytes the kernel copies between two looks at a cancellation: a few milliseconds."""

_LINK: Final = 0o120000


def copy_blocking(
    publisher: Publisher, source: Held, destination: Held, recursive: bool, stop: Stop
) -> int:
    """Copy an entry to a new name; how many objects were made."""
    found = source.refresh()
    if found is None:
        raise PathNotFound("no such file or directory", path=source.path)
    if is_directory(found):
        if not recursive:
            raise IsADirectory("is a directory", path=source.path, hint="copy with recursive")
        if destination.path != "." and destination.path.parent.lies_in(source.path):
            raise ParseError("a directory cannot be copied into itself", path=destination.path)
    check_free(destination)
    if destination.path.levels > DEPTH_MAX:
        raise tree_too_deep(destination.path)
    publisher.journal.staging_in(destination.parent_path, destination.parent)
    stage = publisher.journal.new_stage_name()
    try:
        count = _copy_to_stage(publisher, source, destination, stage, stop)
        publisher.lookup.check_pinned(destination)
        parent = destination.parent
        with Flushing(publisher.settings.durable, parent):
            stop.commit()
            rename_new(parent, stage, parent, destination.name, destination.path)
    except BaseException:
        try:
            remove_litter(destination.parent, stage)
        except OSError:
            publisher.journal.keep()
        raise
    return count


def _copy_to_stage(
    publisher: Publisher, source: Held, destination: Held, stage: str, stop: Stop
) -> int:
    copying = _Copying(publisher, stop)
    parent, path, target = destination.parent, source.path, destination.path
    try:
        if source.type == "directory":
            copying.tree(source.open_for_listing(), parent, stage, path, target)
        elif source.fd < 0:
            copying.leaf(source.parent, source.name, parent, stage, path, target)
        elif source.type == "symlink":
            copying.link(os.readlink("", dir_fd=source.fd), parent, stage, path, target)
        else:
            assert source.status is not None
            check_readable(source.status, path, publisher.settings.hardlinks)
            original = source.open_for_reading_unchecked()
            try:
                copying.file(original, parent, stage, path)
            finally:
                os.close(original)
    finally:
        copying.close()
    return copying.count


class _CopyLevel:
    """One directory of a tree being copied: where from, where to, what is left to do."""

    __slots__ = ("copy", "left", "original", "path", "status", "target")

    def __init__(self, original: int, copy: int, path: ScopedPath, target: ScopedPath) -> None:
        self.original = original
        self.copy = copy
        self.path = path
        self.target = target
        self.status = os.fstat(original)
        self.left = sorted(os.listdir(original), reverse=True)


class _Copying:
    """Copies by descriptors, one level of a tree at a time."""

    def __init__(self, publisher: Publisher, stop: Stop) -> None:
        self._settings: Final = publisher.settings
        self._limits: Final = publisher.settings.limits
        self._lookup: Final = publisher.lookup
        self._stop: Final = stop
        self._levels: list[_CopyLevel] = []
        self.count = 0

    def close(self) -> None:
        while self._levels:
            level = self._levels.pop()
            os.close(level.original)
            os.close(level.copy)

    def tree(
        self, original: int, parent: int, name: str, path: ScopedPath, target: ScopedPath
    ) -> None:
        """Copy a directory, whose descriptor is owned from here on, and all beneath it."""
        self._enter(original, parent, name, path, target)
        while self._levels:
            self._stop.check()
            level = self._levels[-1]
            if not level.left:
                self._leave()
                continue
            child = level.left.pop()
            if child.startswith(RESERVED_PREFIX):
                continue
            try:
                self._copy_child(level, child)
            except FileNotFoundError as error:
                if isinstance(error, BailiwickError):
                    raise
                # Removed since it was listed: then it is not part of the copy.

    def _copy_child(self, level: _CopyLevel, name: str) -> None:
        path, target = level.path.child(name), level.target.child(name)
        if target.levels > DEPTH_MAX:
            raise tree_too_deep(self._levels[0].target)
        status = os.stat(name, dir_fd=level.original, follow_symlinks=False)
        if is_directory(status):
            flags = syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW
            original = os.open(name, flags, dir_fd=level.original)
            self._enter(original, level.copy, name, path, target)
        else:
            self.leaf(level.original, name, level.copy, name, path, target)

    def _enter(
        self, original: int, parent: int, name: str, path: ScopedPath, target: ScopedPath
    ) -> None:
        try:
            self._check_bounds(original, path, target)
            syscalls.mkdir(name, 0o700, dir_fd=parent)
            copy = os.open(name, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=parent)
        except BaseException:
            os.close(original)
            raise
        try:
            self._levels.append(_CopyLevel(original, copy, path, target))
        except BaseException:
            os.close(original)
            os.close(copy)
            raise
        self.count += 1

    def _check_bounds(self, original: int, path: ScopedPath, target: ScopedPath) -> None:
        if target.levels > DEPTH_MAX or len(self._levels) >= self._limits.depth_max:
            raise tree_too_deep(self._levels[0].target if self._levels else target)
        self._lookup.check_mount(original, path)
        if os.fstat(original).st_dev != self._lookup.root.dev:
            check_filesystem(original, path)

    def _leave(self) -> None:
        """The last child is copied: only now do the directory's own mode and times hold."""
        level = self._levels.pop()
        try:
            self._finish(level.copy, level.status)
        finally:
            os.close(level.original)
            os.close(level.copy)

    def _finish(self, copy: int, status: os.stat_result) -> None:
        os.fchmod(copy, status.st_mode & 0o777)
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        if self._settings.durable:
            syscalls.flush(copy)

    def leaf(
        self,
        directory: int,
        name: str,
        parent: int,
        copy_name: str,
        path: ScopedPath,
        target: ScopedPath,
    ) -> None:
        """Copy what is no directory: a file, or a link as a link."""
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if status.st_mode & FORMAT_MASK == _LINK:
            text = os.readlink(name, dir_fd=directory)
            self.link(text, parent, copy_name, path, target)
            return
        check_readable(status, path, self._settings.hardlinks)
        self._lookup.check_mount(directory, path, name)
        original = os.open(name, syscalls.READ_FLAGS | syscalls.O_NOFOLLOW, dir_fd=directory)
        try:
            self.file(original, parent, copy_name, path)
        finally:
            os.close(original)

    def link(self, text: str, parent: int, name: str, path: ScopedPath, target: ScopedPath) -> None:
        check_links_made(target, self._settings.symlinks)
        for place in (path, target):
            check_stays_inside(text, place)
        os.symlink(text, name, dir_fd=parent)
        self.count += 1

    def file(self, original: int, parent: int, name: str, path: ScopedPath) -> None:
        before = os.fstat(original)
        check_readable(before, path, self._settings.hardlinks)
        self._check_size(before.st_size, path)
        copy = syscalls.open_at(name, syscalls.STAGE_FLAGS, 0o600, dir_fd=parent)
        try:
            self._copy_bytes(original, copy, path)
            check_not_rewritten(original, before, path)
            self._finish(copy, before)
        finally:
            os.close(copy)
        self.count += 1

    def _copy_bytes(self, original: int, copy: int, path: ScopedPath) -> None:
        """Copy to the end of the file, wherever that turns out to be."""
        size = 0
        while True:
            moved = copy_piece(original, copy)
            if not moved:
                return
            size += moved
            self._check_size(size, path)
            self._stop.check()

    def _check_size(self, size: int, path: ScopedPath) -> None:
        limit = self._limits.max_file_bytes
        if size > limit:
            raise FileTooLarge(
                f"the file is larger than {limit} bytes", path=path, details={"limit": limit}
            )


_NOT_IN_KERNEL: Final = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EBADF)


def copy_piece(original: int, copy: int) -> int:
    """Copy some bytes from one offset to the other; 0 at the end.

    Inside the kernel where it can: some filesystems then share the blocks. A file that does not
    tell its size looks empty to that call, so a plain read has the last word.
    """
    if hasattr(os, "copy_file_range"):
        try:
            moved: int = os.copy_file_range(original, copy, PIECE_BYTES)
        except OSError as error:
            if error.errno not in _NOT_IN_KERNEL:
                raise
        else:
            if moved:
                return moved
    piece = os.read(original, 1 * MiB)
    left = memoryview(piece)
    while left:
        left = left[syscalls.write(copy, left) :]
    return len(piece)
