"""The kernel's notices of what happens in directories: inotify(7), by descriptors only.

A directory is watched through ``/proc/self/fd``, by a descriptor that was opened beneath the root:
no path is looked up here, so nothing that stands under a name meanwhile can be watched in its
stead. The libraries for this watch by name, follow what they find there, and hide from their
callers that notices were lost; each of the three would break a promise of the feed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bailiwick.errors import Unsupported
from bailiwick.stores.disk import syscalls

# linux/inotify.h
MODIFY: Final = 0x2
ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
IS_DIRECTORY: Final = 0x40000000
_ONLY_DIRECTORIES: Final = 0x01000000
_EXCEPT_UNLINKED: Final = 0x04000000

_WATCHED: Final = (
    MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
    | _ONLY_DIRECTORIES | _EXCEPT_UNLINKED
)  # fmt: skip

_HEADER: Final = struct.Struct("iIII")

_READ_BYTES: Final = 32 * 1024
"""Notices taken in at a time: about a thousand, a millisecond of work."""


class Notice(NamedTuple):
    """One line of what the kernel tells. ``watch`` is -1 when it lost some (`OVERFLOW`)."""

    watch: int
    mask: int
    cookie: int
    name: bytes


class Inotify:
    """One queue of notices. Made with `open`, let go with `close`."""

    __slots__ = ("_libc", "fd")

    def __init__(self, fd: int, libc: Any) -> None:
        """Use `open`."""
        self.fd = fd
        self._libc = libc

    @classmethod
    def open(cls) -> Inotify:
        """Raises `Unsupported` on other systems, and where the user has too many queues."""
        if not syscalls.LINUX:
            raise Unsupported("what other programs change is noticed on Linux only")
        libc: Any = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            why = os.strerror(ctypes.get_errno())
            raise Unsupported(
                f"what other programs change cannot be noticed here ({why})",
                hint="the limit is in /proc/sys/fs/inotify/max_user_instances",
            )
        return cls(fd, libc)

    def watch(self, directory: int) -> int:
        """Watch an open directory; the number its notices will carry.

        The same number again for a directory that is watched already. Raises `OSError`: ENOSPC
        when the user has no watches left, EACCES for a directory that may not be read.
        """
        name = b"/proc/self/fd/%d" % directory
        watch: int = self._libc.inotify_add_watch(self.fd, name, ctypes.c_uint32(_WATCHED))
        if watch < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return watch

    def unwatch(self, watch: int) -> None:
        """Stop watching one directory. One that is gone is fine: the kernel has stopped itself."""
        self._libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> Iterator[Notice]:
        """The notices that wait, as many as one call takes; none where none do."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            watch, mask, cookie, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            yield Notice(watch, mask, cookie, data[position : position + length].rstrip(b"\0"))
            position += length

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
