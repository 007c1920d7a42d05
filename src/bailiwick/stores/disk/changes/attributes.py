"""Modes and times of files and directories; never those of a link, a device or another's file."""

from __future__ import annotations

import os
import stat as stat_bits
from collections.abc import Callable

from bailiwick.errors import Busy, PathNotFound
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import Held, check_readable, is_directory, same_object
from bailiwick.stores.disk.writes.publisher import Publisher

Setting = Callable[[Publisher, Held], None]
"""A change of a mode or of times, once it is known which."""


class Shared(Exception):
    """The file has other names, which share its mode and times: it has to become one of its own.
    Never leaves this package."""


def set_mode(publisher: Publisher, held: Held, file_mode: int) -> None:
    fd = _open_to_change(publisher, held)
    try:
        os.chmod(_through(publisher, fd), file_mode & 0o777 | _special_bits(fd))
    finally:
        os.close(fd)


def _special_bits(fd: int) -> int:
    """What a directory keeps, whatever mode it is given: by setgid and sticky its owner says whose
    is what comes into it, and who may take it away. They are given to none, and files have none."""
    mode = os.fstat(fd).st_mode
    return mode & (stat_bits.S_ISGID | stat_bits.S_ISVTX) if stat_bits.S_ISDIR(mode) else 0


def set_times(publisher: Publisher, held: Held, mtime_ns: int, atime_ns: int | None) -> None:
    fd = _open_to_change(publisher, held)
    try:
        if atime_ns is None:
            atime_ns = os.fstat(fd).st_atime_ns
        os.utime(_through(publisher, fd), ns=(atime_ns, mtime_ns))
    finally:
        os.close(fd)


def _open_to_change(publisher: Publisher, held: Held) -> int:
    """Hold a file or directory whose mode or times may be changed; never a link or device."""
    status = held.refresh()
    if status is None:
        raise PathNotFound("no such file or directory", path=held.path)
    if not is_directory(status):
        check_readable(status, held.path, publisher.settings.hardlinks)
        if status.st_nlink > 1:
            raise Shared
    by_path = publisher.lookup.holds_objects
    if held.fd >= 0:
        # Without /proc only directories are held by a descriptor, and can be opened from it.
        return os.dup(held.fd) if by_path else held.open_for_listing()
    publisher.lookup.check_pinned(held)
    flags = syscalls.HOLD_FLAGS if by_path else syscalls.READ_FLAGS | syscalls.O_NOFOLLOW
    fd = os.open(held.name, flags, dir_fd=held.parent)
    if same_object(os.fstat(fd), status):
        return fd
    os.close(fd)
    raise Busy("something else took this name meanwhile", path=held.path)


def _through(publisher: Publisher, fd: int) -> str | int:
    """A descriptor as chmod and utime take it: an O_PATH one only by way of /proc."""
    return f"/proc/self/fd/{fd}" if publisher.lookup.holds_objects else fd
