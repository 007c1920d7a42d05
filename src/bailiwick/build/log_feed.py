"""The feed of a root whose store keeps the log of its changes itself.

Nothing is told twice and nothing is kept beside it: what a process changed, this one or another, is
in the store's log from the instant it is committed, in order, with whoever asked for it. So a
cursor holds as long as the log is kept, across restarts and between processes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from bailiwick.errors import BailiwickError
from bailiwick.events import Listener, LogFeed
from bailiwick.model import Change
from bailiwick.store import ChangeLog, Noticed

_log = logging.getLogger("bailiwick.events")

POLL_S: Final = 0.04
"""How often a follower looks for what other processes changed; what this one did it hears of."""

_AT_ONCE: Final = 32
"""Changes taken from the log before other tasks get their turn: each costs several lookups."""

_NAMES_KEPT: Final = 8_192
"""What is kept of the newest changes, counted in the names that they tell: some megabytes."""


class Recent:
    """The newest changes of a log, read once for all who follow it.

    To say what a version changed takes the store several lookups. Whoever keeps up is given what
    the first of them had read; who has fallen behind what is kept reads the log itself.
    """

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._kept: list[tuple[int, Change]] = []
        self._after = 0
        self._end = -1
        self._names = 0
        self.through = 0
        """How far the log was read when there was nothing more to give."""

    def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        """The next changes after a place in the log; none where there are no more."""
        limit = min(limit, _AT_ONCE)
        if after < self._after:
            return self._read_log(after, limit)
        if after > self._end:  # nobody has followed for a while
            self._kept, self._names = [], 0
            self._after = self._end = after
        first = bisect_right(self._kept, after, key=_place)
        if first == len(self._kept):
            found = self._read_log(self._end, limit)
            self._end = max(self._end, self._log.place_of(self.through))
            self._keep(found)
            return found
        return self._kept[first : first + limit]

    def _read_log(self, after: int, limit: int) -> list[tuple[int, Change]]:
        found = self._log.read(after, limit)
        self.through = found.through
        return found.changes

    def _keep(self, found: list[tuple[int, Change]]) -> None:
        self._kept += found
        self._names += sum(map(_weight, found))
        if self._names > _NAMES_KEPT:
            half = (len(self._kept) + 1) // 2
            self._names -= sum(map(_weight, self._kept[:half]))
            self._after = self._kept[half - 1][0]
            del self._kept[:half]


def _place(change: tuple[int, Change]) -> int:
    return change[0]


def _weight(change: tuple[int, Change]) -> int:
    return 1 + len(change[1].beneath)


class StoreFeed(LogFeed):
    """The changes of one root, read from its store's log."""

    active = False
    """Operations need not tell what they change: the store does."""

    def __init__(self, log: ChangeLog) -> None:
        super().__init__(log.id, source=None, new_id=lambda: "")
        self._changes = log
        self._end_hearing: Callable[[], None] | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._recent = Recent(log)
        self._heard = 0

    def activate(self) -> None:
        if self._end_hearing is None:
            self._end_hearing = self._changes.on_commit(self._hear)

    def head(self) -> int:
        return self._changes.place_of(self._changes.end())

    def floor(self) -> int:
        return self._changes.place_of(self._changes.start())

    def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        return self._recent.read(after, limit)

    def publish(self, changes: Sequence[Change]) -> None:
        """There is nothing to tell: it is in the log already."""

    def _tell_noticed(self, noticed: Sequence[Noticed]) -> None:
        """Nobody else is watched: whoever changes the tree writes the log."""

    def _now_ns(self) -> int:
        return time.time_ns()

    # --- hearing of changes ------------------------------------------------------------------

    async def _more(self, position: int) -> None:
        """Wait for a version after those that were read: some of them may have nothing to tell, so
        the place of the last change says less."""
        read_through = self._recent.through
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            if self._changes.end() <= read_through and not self._closed:
                self._look_later()
                await waiting
        finally:
            self._waiting.discard(waiting)

    def _hear(self) -> None:
        """Something was changed, here or elsewhere."""
        if self._closed:
            return
        self.wake()
        if self._listeners:
            # Not from within the change itself: a listener may take its time.
            asyncio.get_running_loop().call_soon(self._call_all_listeners)

    def _call_all_listeners(self) -> None:
        if self._closed or not self._listeners:
            return
        try:
            found = self._recent.read(self._heard, _AT_ONCE)
        except BailiwickError as error:
            _log.warning("the changes of a volume could not be read", exc_info=error)
            return
        for position, change in found:
            self._heard = position
            self._call_listeners(self.stamped(change, position))
        if found:
            asyncio.get_running_loop().call_soon(self._call_all_listeners)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        if not self._listeners:
            self._heard = self.head()
        unsubscribe = super().subscribe(listener)
        self._look_later()
        return unsubscribe

    def _look_later(self) -> None:
        if self._poll is None and not self._closed:
            seen = self._changes.end()
            loop = asyncio.get_running_loop()
            self._poll = loop.call_later(POLL_S, self._look, seen)

    def _look(self, seen: int) -> None:
        """Whether another process changed something. Ends when nobody waits or listens."""
        self._poll = None
        if self._closed:
            return
        try:
            end = self._changes.end()
        except BailiwickError as error:
            _log.warning("the changes of a volume could not be read", exc_info=error)
            end = seen
        if end > seen:
            self._hear()
        if self._waiting or self._listeners:
            self._poll = asyncio.get_running_loop().call_later(POLL_S, self._look, end)

    def close(self) -> None:
        super().close()
        if self._poll is not None:
            self._poll.cancel()
        if self._end_hearing is not None:
            self._end_hearing()
