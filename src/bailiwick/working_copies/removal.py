"""Taking away what a program left, however deep and whatever its modes.

Directories within directories are first renamed to stand beside each other, so that two open
descriptors do for any depth. No link is followed.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from contextlib import suppress
from typing import Final

_LIST_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
    """Unlink all but the directories in it, which come to stand in ``top``."""
    with os.scandir(directory) as entries:
        found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
        elif directory == top:
            waiting.append(name)
        else:
            os.close(_entered(directory, name))  # to be moved it must let itself be written to
            new = f"{prefix}-{len(waiting)}-{secrets.token_hex(4)}"
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
            waiting.append(new)
