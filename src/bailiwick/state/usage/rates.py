"""How often: operations in the last minute, for each bound that a grant or a root has.

Counted in the memory of this process. Within it the count is exact: in no sixty seconds are there
more than the bound. Processes that serve together have equal parts of it, and so have all that
share a state in PostgreSQL: there, for a minute after one more has come, it may be one part more.
Others that share a state each count for themselves, so that together they may do as many times the
bound as there are of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from bailiwick.errors import RateLimited

_MINUTE_NS = 60 * 10**9

_WINDOWS_KEPT = 1_024
"""Beyond so many windows those in which nothing happened for a minute are dropped."""


class Window:
    """The moments of what was let through in the last minute, under one bound."""

    __slots__ = ("_moments", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._moments: deque[int] = deque()

    def wait_ns(self, now_ns: int) -> int:
        """How long until one more fits; zero if it does now."""
        moments = self._moments
        past = now_ns - _MINUTE_NS
        while moments and moments[0] <= past:
            moments.popleft()
        if len(moments) < self.per_minute:
            return 0
        # The bound may have been lowered since: enough must go for one more to fit.
        return moments[len(moments) - self.per_minute] - past

    def count(self, now_ns: int) -> None:
        self._moments.append(now_ns)

    def is_quiet(self, now_ns: int) -> bool:
        return not self._moments or self._moments[-1] <= now_ns - _MINUTE_NS


class Rates:
    """The windows of all bounds, by a name for each."""

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self._windows: dict[str, Window] = {}
        self.processes = 1
        """How many processes have equal parts of every bound."""
        self.servers: Callable[[], int] = lambda: 1
        """The same, where more may come and go: each process is a server of its own there."""
        # Looking and counting are one step, whichever threads come through here.
        self._turn = threading.Lock()

    @property
    def parts(self) -> int:
        """How many processes have a part of what is counted."""
        return max(self.processes, self.servers())

    def pass_through(self, bounds: Sequence[tuple[str, int]]) -> None:
        """Count one operation under each bound (a name, and how many a minute), or raise
        `RateLimited` and count it under none."""
        with self._turn:
            now_ns = self._monotonic_ns()
            windows = [self._window(name, per_minute, now_ns) for name, per_minute in bounds]
            wait_ns = max(window.wait_ns(now_ns) for window in windows)
            if wait_ns == 0:
                for window in windows:
                    window.count(now_ns)
                return
        wait_s = round(wait_ns / 1e9, 3)
        raise RateLimited(
            "too many operations in a minute",
            hint=f"try again in {wait_s:g} s",
            details={"retry_after_s": wait_s},
        )

    def _window(self, name: str, per_minute: int, now_ns: int) -> Window:
        window = self._windows.get(name)
        if window is None:
            if len(self._windows) >= _WINDOWS_KEPT:
                self._windows = {
                    kept: each for kept, each in self._windows.items() if not each.is_quiet(now_ns)
                }
            window = self._windows[name] = Window(per_minute)
        window.per_minute = max(1, per_minute // self.parts)
        return window
