"""Taking away what a program left, however deep and whatever its modes.

Directories within directories are first renamed to stand beside each other, so that two open
descriptors do for any depth. No link is followed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

_LIST_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_GONE: Final = ".gone"

_log = logging.getLogger("bailiwick.working_copies")


class PutAside:
    """A directory that nobody finds any more, and that is not removed yet. What a killed process
    did not come to is for `sweep`."""

    def __init__(self, parent: str, name: str) -> None:
        """Put the directory ``name`` of another aside. Raises OSError."""
        with ExitStack() as held:
            self._top = held.enter_context(_alone_with(parent, name))
            self._name = secrets.token_hex(8) + _GONE
            os.rename(name, self._name, src_dir_fd=self._top, dst_dir_fd=self._top)
            self._held = held.pop_all()

    def remove(self) -> None:
        with self._held:
            remove_tree(self._top, self._name)


def sweep(parent: str) -> None:
    """Remove what killed processes were taking away from a directory."""
    for name in os.listdir(parent):
        if name.endswith(_GONE):
            try:
                with _alone_with(parent, name) as top:
                    remove_tree(top, name)
            except (BlockingIOError, FileNotFoundError):
                pass  # its process lives, or another is quicker
            except OSError:
                _log.warning("what a killed process left could not be removed", exc_info=True)


@contextmanager
def _alone_with(parent: str, name: str) -> Iterator[int]:
    """A directory, opened, while nobody else removes the one of that name in it."""
    top = os.open(parent, _LIST_FLAGS)
    try:
        held = os.open(name, _LIST_FLAGS, dir_fd=top)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield top
        finally:
            os.close(held)
    finally:
        os.close(top)


def remove_tree(parent: int, name: str) -> None:
    """Remove the directory ``name`` of an open one, with all that is in it."""
    top = _entered(parent, name)
    try:
        prefix = secrets.token_hex(8)
        waiting: deque[str] = deque()
        _emptied(top, top, prefix, waiting)
        while waiting:
            each = waiting.popleft()
            directory = _entered(top, each)
            try:
                _emptied(directory, top, prefix, waiting)
            finally:
                os.close(directory)
            os.rmdir(each, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _entered(parent: int, name: str) -> int:
    """Open a directory, whatever mode keeps its owner out."""
    with suppress(OSError):
        held = os.open(name, _PATH_FLAGS, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{held}", 0o700)
        finally:
            os.close(held)
    return os.open(name, _LIST_FLAGS, dir_fd=parent)


def _emptied(directory: int, top: int, prefix: str, waiting: deque[str]) -> None:
    """Unlink all but the directories in it, which come to stand in ``top``. Files go first: on a
    full disk there is no room for more names."""
    with os.scandir(directory) as entries:
        found = [(each.is_dir(follow_symlinks=False), each.name) for each in entries]
    for is_directory, name in sorted(found):
        if not is_directory:
            os.unlink(name, dir_fd=directory)
        elif directory == top:
            waiting.append(name)
        else:
            os.close(_entered(directory, name))  # to be moved it must let itself be written to
            new = f"{prefix}-{len(waiting)}-{secrets.token_hex(4)}"
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
            waiting.append(new)
