"""How quickly a database is written, and by how many: that decides on which thread it is done."""

from __future__ import annotations

import asyncio
from collections import deque

_CROWD_TASKS = 64
"""Where two tasks came at once, so many are left to the thread, which does them together."""

_STREAK_TASKS = 16
"""So many quick tasks one caller has done one after the other; then others get their turn."""

_ALL_SLOW = 0b11111
_SLOW_COMMITS = 3
"""So many of the last five commits tell that the disk is slow: one that the machine interrupted,
for milliseconds where others work on it too, says nothing."""

_KEPT = 5
"""Transactions whose middle one tells how long they take, for the same reason."""


class CommitPace:
    """Whether tasks come one by one, and are done quickly enough not to go to another thread."""

    def __init__(self, inline_s: float, here_s: float = 0.0) -> None:
        """Transactions that take less than ``inline_s`` may be done inline, and commits that take
        less than ``here_s`` are quick."""
        self._inline_s = inline_s
        self._here_s = here_s
        self._arriving = 0  # tasks that have come in this turn of the event loop
        self._crowded = 0  # so many tasks more are left to the thread
        self._usual_s = 0.0  # what a transaction of one task takes
        self._taken: deque[float] = deque([0.0] * _KEPT, maxlen=_KEPT)
        self._last = 0  # who has come last, and how often in a row
        self._streak = 0
        self.is_quick = here_s > 0.0
        """Whether commits are quick, as most of the last few were."""
        # Which of them were slow, the newest in the lowest bit.
        self._slow = 0 if self.is_quick else _ALL_SLOW

    def goes_on(self) -> bool:
        """Whether a task that has just come is again of the caller of the last one, and may be done
        at once: whoever waits for each of its changes has no company."""
        if self._crowded or self._usual_s >= self._inline_s or self._streak >= _STREAK_TASKS:
            return False
        if id(asyncio.current_task()) != self._last:
            return False
        self._streak += 1
        return True

    async def is_alone(self) -> bool:
        """Whether any other task may be done at once.

        Others that come in the same turn of the event loop are let come first: they are then put in
        a row, before the thread gets hold of the interpreter, and share a commit. Nothing has
        happened yet, so this is also where a task that is cancelled ends.
        """
        if self._crowded:
            self._crowded -= 1
        elif self._usual_s >= self._inline_s:
            return False
        else:
            self._last, self._streak = id(asyncio.current_task()), 0
        self._arriving += 1
        try:
            await asyncio.sleep(0)
            if self._arriving > 1 and not self._crowded:
                self._crowded = _CROWD_TASKS
        finally:
            self._arriving -= 1
        return not self._crowded

    def took(self, seconds: float) -> None:
        """A transaction of one task took so long, wherever it was done."""
        self._taken.append(seconds)
        self._usual_s = sorted(self._taken)[_KEPT // 2]

    def committed(self, seconds: float) -> None:
        """A commit took so long, whatever was in it."""
        self._slow = (self._slow << 1 | (seconds >= self._here_s)) & _ALL_SLOW
        self.is_quick = self._slow.bit_count() < _SLOW_COMMITS
