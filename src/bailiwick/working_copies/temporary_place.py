"""Room on disk for what is gone with its process: the working copies of a root in memory.

Each place is locked as long as its process lives. Those that killed processes left are taken away
by the next one that needs a place.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from typing import Final

from bailiwick.errors import from_os_error
from bailiwick.working_copies.removal import remove_tree

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryPlace:
    """A directory that is this process's own."""

    def __init__(self, path: str, directory: int) -> None:
        """``directory`` is a descriptor of it, locked, owned from here on."""
        self.path: Final = path
        self._directory = directory
        self._process = os.getpid()

    def remove(self) -> None:
        """Take it away with all that is in it; a fork of the process that made it leaves it."""
        directory, self._directory = self._directory, -1
        if directory >= 0:
            if os.getpid() == self._process:
                _take_away(os.path.dirname(self.path), os.path.basename(self.path))
            os.close(directory)


def temporary_place(parent: str) -> TemporaryPlace:
    """A new one. Raises `PermissionDenied`, `IoError`."""
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        for name in os.listdir(parent):
            _sweep(parent, name)
        path = tempfile.mkdtemp(prefix="p", dir=parent)
        directory = os.open(path, _DIRECTORY_FLAGS)
        fcntl.flock(directory, fcntl.LOCK_SH)
        return TemporaryPlace(path, directory)
    except OSError as error:
        raise from_os_error(error) from None


def _sweep(parent: str, name: str) -> None:
    with suppress(OSError):  # in use, or another was quicker
        directory = os.open(os.path.join(parent, name), _DIRECTORY_FLAGS)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _take_away(parent, name)
        finally:
            os.close(directory)


def _take_away(parent: str, name: str) -> None:
    with suppress(OSError):
        top = os.open(parent, _DIRECTORY_FLAGS)
        try:
            remove_tree(top, name)
        finally:
            os.close(top)
