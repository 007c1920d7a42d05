"""How quickly a directory's disk takes what is flushed: that decides on which thread it is done.

A hop to a thread and back takes longer than a flush that waits for nothing, as in memory or on a
disk whose cache outlives a power cut. A disk is taken for a slow one until some jobs have shown
that it is not, so that nobody ever stands still to find out.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from bailiwick.stores.disk import syscalls

T = TypeVar("T")

_QUICK_S: Final = 0.000_2
"""So long an event loop may stand still for the flushes of one job: as for a commit."""

_JOBS_KEPT: Final = 5
"""Jobs whose middle one tells how quick the disk is: one that the machine interrupted says nothing,
and a disk that has become slow shows by the third."""


class _FlushSpent(threading.local):
    seconds = 0.0


_spent: Final = _FlushSpent()


def flush(fd: int) -> None:
    """Put what was written to ``fd`` on stable storage, and note how long that took."""
    begun = time.perf_counter()
    try:
        syscalls.flush(fd)
    finally:
        _spent.seconds += time.perf_counter() - begun


class FlushPace:
    """What flushing took in the last jobs of one directory."""

    def __init__(self) -> None:
        self._took: deque[float] = deque([float("inf")] * _JOBS_KEPT, maxlen=_JOBS_KEPT)
        self.is_quick = False

    def timed(self, job: Callable[..., T], *args: Any) -> T:
        """Do a job, and note what it flushed."""
        _spent.seconds = 0.0
        try:
            return job(*args)
        finally:
            if _spent.seconds:
                self._took.append(_spent.seconds)
                self.is_quick = sorted(self._took)[_JOBS_KEPT // 2] < _QUICK_S
