"""Which of the processes that share a state are alive.

Each open state has a name and a file of that name, locked for as long as the process lives.
"""

from __future__ import annotations

import contextlib
import os
import secrets

from bailiwick.sqlite.owner_file import is_locked, make_locked


class StateOwner:
    """The name under which this process has opened a state, and a look at the others."""

    def __init__(self, directory: int | None, name: str, descriptor: int | None) -> None:
        self.name = name
        self._directory = directory
        self._descriptor = descriptor

    @classmethod
    def take(cls, state: int, folder: str) -> StateOwner:
        """Take a new name in the state's open directory, and sweep away those of the dead.

        The caller holds the lock on the state's directory: a name that was made and not yet locked
        would be taken for a dead one.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700, dir_fd=state)
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
                            dir_fd=state)  # fmt: skip
        try:
            for name in os.listdir(directory):
                if not _is_locked(directory, name):
                    os.unlink(name, dir_fd=directory)
            name = secrets.token_hex(8)
            descriptor = make_locked(name, directory)
        except BaseException:
            os.close(directory)
            raise
        return cls(directory, name, descriptor)

    @classmethod
    def alone(cls) -> StateOwner:
        """The one owner of a state that is private to this process."""
        return cls(None, secrets.token_hex(8), None)

    def is_alive(self, name: str) -> bool:
        """Whether the owner of that name still has the state open."""
        if name == self.name:
            return True
        return self._directory is not None and _is_locked(self._directory, name)

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has the state open."""
        if self._directory is None:
            return True
        names = os.listdir(self._directory)
        return not any(name != self.name and self.is_alive(name) for name in names)

    def abandon(self) -> None:
        """Let go of the lock's descriptor in a forked child, or it would outlive the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def close(self) -> None:
        if self._directory is not None and self._descriptor is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._directory)
            os.close(self._descriptor)
            os.close(self._directory)
            self._directory = self._descriptor = None


def _is_locked(directory: int, name: str) -> bool:
    return "/" not in name and name not in {"", ".", ".."} and is_locked(name, directory)
