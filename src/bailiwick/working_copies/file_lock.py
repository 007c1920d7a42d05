"""The lock by which a working copy is one process's own."""

from __future__ import annotations

import fcntl
import time
from typing import Final

from bailiwick.errors import Busy

_TRIES: Final = 20
_PAUSE_S: Final = 0.05
"""A second in all: far longer than a program takes to start."""


def lock_file(file: int) -> None:
    """Of a process that was just killed a child may have the lock for the instant until it becomes
    another program: it is tried for a while."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return
    raise Busy("this working copy is in use")
