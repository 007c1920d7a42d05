"""Who has a directory open, said by locks on one file beside the journals of the root.

Each who has one open holds one byte of the file, shared, whose place says which directory it is and
the mode that it had: whoever asks what is in the way of a lock there is told of one of them. Who
opens or shuts it just now holds another byte, alone. The kernel takes all of them away with the
descriptor, so also from who is killed. Others than the owner of the state cannot open the file, and
so cannot say that something was shut which was not.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Final

from bailiwick.opened_together import Share
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.journal import JournalPlace
from bailiwick.stores.disk.lookup.handles import Held, is_directory

_FILE: Final = "opened"
_MODES: Final = 0o1000
"""So many bytes of a directory are its modes, and the next is its turn."""

_PLACES: Final = 2 * _MODES
_DIRECTORY_BYTES: Final = 5
"""Of the hash by which a directory has its place: two that share one are as one."""


class _OpenFile:
    """The file by one descriptor, for as many directories as one has open: a process may have few
    descriptors, and directories are many."""

    def __init__(self, place: JournalPlace) -> None:
        self._place: Final = place
        self.fd = -1
        self.users = 0

    def opened(self, *, making: bool) -> int:
        """-1 where there is none, or none can be made: then nobody tells of anything."""
        if self.fd < 0:
            with suppress(OSError):
                directory = self._place.ambient_make() if making else self._place.ambient_open()
                if directory is None:
                    return -1
                try:
                    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if making else 0)
                    self.fd = syscalls.open_at(_FILE, flags, 0o600, dir_fd=directory)
                finally:
                    os.close(directory)
        return self.fd

    def close_unused(self) -> None:
        if self.fd >= 0 and not self.users:
            os.close(self.fd)
            self.fd = -1


class DirectoryShare:
    """A part in one directory, by a descriptor of its own or ``beside`` another part."""

    def __init__(
        self, place: JournalPlace, key: tuple[int, int], beside: DirectoryShare | None
    ) -> None:
        self.key: Final = key
        digest = hashlib.sha256(b"%d %d" % key).digest()
        self._first: Final = int.from_bytes(digest[:_DIRECTORY_BYTES]) * _PLACES
        self._file: Final[_OpenFile] = _OpenFile(place) if beside is None else beside._file
        self._is_in = False

    def try_turn(self) -> bool:
        fd = self._file.opened(making=True)
        return fd < 0 or syscalls.try_lock_byte(fd, self._first + _MODES)

    def end_turn(self) -> None:
        if self._file.fd >= 0:
            syscalls.unlock_bytes(self._file.fd, self._first + _MODES, 1)

    def others(self) -> int | None:
        fd = self._file.opened(making=False)
        found = None if fd < 0 else syscalls.byte_locked_by_others(fd, self._first, _MODES)
        return None if found is None else max(found, self._first) - self._first

    def join(self, mode: int) -> None:
        fd = self._file.opened(making=True)
        if fd >= 0:
            self._file.users += not self._is_in
            self._is_in = True
            syscalls.share_byte(fd, self._first + mode)

    def close(self) -> None:
        if self._is_in:
            # A process that is just being started may have the descriptor still.
            syscalls.unlock_bytes(self._file.fd, self._first, _PLACES)
            self._is_in = False
            self._file.users -= 1
        self._file.close_unused()


def share_directory(held: Held, place: JournalPlace, beside: Share | None) -> DirectoryShare | None:
    status = held.refresh() if syscalls.CAN_LOCK_BYTES else None
    if status is None or not is_directory(status):
        return None
    beside = beside if isinstance(beside, DirectoryShare) else None
    return DirectoryShare(place, (status.st_dev, status.st_ino), beside)
