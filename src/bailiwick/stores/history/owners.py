"""Which of the processes that keep the same history are alive.

Each has a file of its own, locked for as long as it lives: the kernel lets go of the lock however
it ends. A process number would not do, since numbers are used again.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from typing import Final
from weakref import WeakSet

_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


_open_here: WeakSet[HistoryOwner] = WeakSet()


def _abandon_after_fork() -> None:
    for owner in list(_open_here):
        owner.abandon()


os.register_at_fork(after_in_child=_abandon_after_fork)


class HistoryOwner:
    """The name of this keeper of a history, until `close`."""

    def __init__(self, directory: str) -> None:
        """Blocks. A file is locked before it gets a name that others look at."""
        self._directory: Final = directory
        self.name: Final = secrets.token_hex(8)
        making = os.path.join(directory, f"new-{self.name}")
        self._descriptor = os.open(making, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(making, self._path(self.name))
        except BaseException:
            os.close(self._descriptor)
            raise
        _open_here.add(self)

    def abandon(self) -> None:
        """Let go of the lock's descriptor in a forked child, or it would outlive the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, f"owner-{name}")

    def is_alive(self, name: str) -> bool:
        """Whether whoever has that name still keeps this history."""
        if name == self.name:
            return True
        try:
            descriptor = os.open(self._path(name), _FLAGS)
        except FileNotFoundError:
            return False
        try:
            # Shared: two who look at the same time must not take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def sweep(self, name: str) -> None:
        """Take away the file of one who is dead, once nothing refers to it."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def close(self) -> None:
        if self._descriptor >= 0:
            self.sweep(self.name)
            os.close(self._descriptor)
            self._descriptor = -1
