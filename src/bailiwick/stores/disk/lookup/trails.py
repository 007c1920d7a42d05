"""The way down to one directory of a tree, held open, for visits that mostly go to near places."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import syscalls

_FLAGS: Final = syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW


class Trail:
    """Directories beneath a held one, opened one component at a time, never through a link.

    The descriptors of the way to the last place stay open: as many as the tree is deep.
    """

    def __init__(self, top: int) -> None:
        """``top`` is owned from here on."""
        self.top: Final = top
        self._names: list[str] = []
        self._fds: list[int] = []

    def go(self, path: ScopedPath) -> int:
        """The descriptor of a directory, valid until the next `go`."""
        parts = path.parts
        kept = 0
        while kept < len(self._names) and kept < len(parts) and self._names[kept] == parts[kept]:
            kept += 1
        while len(self._names) > kept:
            self._names.pop()
            os.close(self._fds.pop())
        for name in parts[kept:]:
            fd = os.open(name, _FLAGS, dir_fd=self._fds[-1] if self._fds else self.top)
            self._names.append(name)
            self._fds.append(fd)
        return self._fds[-1] if self._fds else self.top

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        self._names.clear()
        os.close(self.top)


def open_up(parent: int, name: str) -> None:
    """Let the owner into a directory again, whatever its mode; best effort, never a link's."""
    with suppress(OSError):
        fd = os.open(name, syscalls.HOLD_DIRECTORY_FLAGS, dir_fd=parent)
        try:
            if os.fstat(fd).st_mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)
