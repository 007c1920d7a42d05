"""Feeds over a log that is costly to read: what is new is read once, for all who follow.

A change is read, and given its cursor, by the first who comes for it; everyone else who keeps up is
given the same object. Whoever waits asks the log nothing: it is told when there may be more. Who
has fallen behind what is kept reads the log itself.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Protocol

from bailiwick.change_log import Logged
from bailiwick.errors import BailiwickError
from bailiwick.events import LogFeed
from bailiwick.model import Change
from bailiwick.store import Watches

_BATCH: Final = 256
"""Changes read at a time for all who wait."""

_NAMES_KEPT: Final = 8_192
"""What is kept of the newest changes, counted in the names that they tell: some megabytes."""


class Readable(Protocol):
    """What is needed of a log: see `bailiwick.store.ChangeLog`."""

    def read(self, after: int, limit: int) -> Logged: ...

    def place_of(self, version: int) -> int: ...


class Recent:
    """The newest changes of a log.

    ``floor`` is the place from which on the log has everything.
    """

    def __init__(self, log: Readable, floor: Callable[[], int] = lambda: 0) -> None:
        self._log = log
        self._floor = floor
        self._kept: list[tuple[int, Change]] = []
        self._after = 0
        self._end = -1
        self._names = 0
        self.may_have_more = True
        """Whether the log may hold something that was not read: else nobody needs to ask it."""
        self.through = 0
        """How far the log was read when there was nothing more to give."""

    def clear(self) -> None:
        """Forget what was read, since it would be read differently now."""
        self._kept, self._names = [], 0
        self._after, self._end = 0, -1
        self.may_have_more = True

    def covers(self, after: int) -> bool:
        """Whether nothing that follows a place can be missing: it was read on from there."""
        return self._after <= after <= self._end

    def begins_anew(self, after: int) -> bool:
        """Whether a place lies beyond all that was read."""
        return after > self._end

    def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        """The next changes after a place in the log; none where there are no more."""
        if after < self._after:
            return self._read_log(after, limit)
        if self.begins_anew(after):  # nobody has followed for a while
            self.clear()
            self._after = self._end = after
        first = bisect_right(self._kept, after, key=_place)
        if first < len(self._kept):
            return self._kept[first : first + limit]
        if not self.may_have_more:
            return []
        return self._read_on(limit)

    def reads_on(self, limit: int) -> bool:
        """Read on, for all who have read everything so far; whether there may be news for them."""
        return self._end < 0 or bool(self._read_on(limit))

    def _read_on(self, limit: int) -> list[tuple[int, Change]]:
        found = self._read_log(self._end, limit)
        self.may_have_more = bool(found)
        if self._floor() > self._end:
            # Some were pruned before anybody read them: whoever stands here has lost them.
            self._kept, self._names = [], 0
            self._after = self._end = max(self._floor(), found[-1][0] if found else 0)
            return found
        self._end = max(self._end, self._log.place_of(self.through))
        self._keep(found)
        return found

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


class RecentFeed(LogFeed):
    """A feed over such a log."""

    def __init__(self, id: str, *, source: Watches | None, new_id: Callable[[], str]) -> None:
        super().__init__(id, source=source, new_id=new_id)
        self._recent: Final = Recent(_Stamped(self), self.floor)

    @abstractmethod
    def read_log(self, after: int, limit: int) -> Logged:
        """The changes after a place, oldest first, and how far that is."""

    @abstractmethod
    def place_of(self, version: int) -> int:
        """The last place of what `read_log` counts by."""

    def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        if self._recent.begins_anew(after):
            # What lies between was not read for those who wait before it: they read it themselves.
            super().wake()
        return self._recent.read(after, limit)

    def lost(self, position: int) -> bool:
        return not self._recent.covers(position) and super().lost(position)

    def may_have_more(self, position: int) -> bool:
        return self._recent.may_have_more

    def wake(self) -> None:
        self._recent.may_have_more = True
        super().wake()

    def wake_for_more(self) -> None:
        """Something may have been added: wake those who wait if it was. It is read here, once; all
        who wait have read everything that was read before."""
        self._recent.may_have_more = True
        try:
            if self._waiting and not self._recent.reads_on(_BATCH):
                return
        except BailiwickError:
            self._recent.may_have_more = True  # they meet it themselves
        super().wake()


class _Stamped:
    """The log of a feed, with a cursor on every change."""

    def __init__(self, feed: RecentFeed) -> None:
        self._feed = feed

    def read(self, after: int, limit: int) -> Logged:
        found, stamped = self._feed.read_log(after, limit), self._feed.stamped
        return Logged([(place, stamped(each, place)) for place, each in found.changes],
                      found.through)  # fmt: skip

    def place_of(self, version: int) -> int:
        return self._feed.place_of(version)
