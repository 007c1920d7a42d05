"""Which of the processes that share a database are alive: each has a file that it locks.

The kernel lets go of the lock however the process ends. A process number would not do, since
numbers are used again, and mean another process in another container.
"""

from __future__ import annotations

import fcntl
import os

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def make_locked(path: str, dir_fd: int | None = None) -> int:
    """Make a new file that this process has locked. Returns the descriptor that holds the lock."""
    descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=dir_fd)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: str, dir_fd: int | None = None) -> bool:
    """Whether there is such a file, and whoever made it lives."""
    try:
        descriptor = os.open(path, _FLAGS, dir_fd=dir_fd)
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
