"""Which of the processes that keep the same history are alive.

Each has a file of its own, locked for as long as it lives.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import Final
from weakref import WeakSet

from bailiwick.sqlite.owner_file import is_locked, make_locked

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
        self._descriptor = make_locked(making)
        try:
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
        return name == self.name or is_locked(self._path(name))

    def sweep(self, name: str) -> None:
        """Take away the file of one who is dead, once nothing refers to it."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def close(self) -> None:
        if self._descriptor >= 0:
            self.sweep(self.name)
            os.close(self._descriptor)
            self._descriptor = -1
