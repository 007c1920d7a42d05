"""Feeds over a log that is costly to read: what is new is read once, for all who follow.

A change is read, and given its cursor, by the first who comes for it; everyone else who keeps up is
given the same object. Whoever waits asks the log nothing: it is told when there may be more. Who
has fallen behind what is kept reads the log itself.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from bailiwick.change_log import Logged
from bailiwick.errors import BailiwickError
from bailiwick.events import LogFeed
from bailiwick.model import Change
from bailiwick.patience import for_nobody
from bailiwick.store import Watches

_log = logging.getLogger("bailiwick.events")

_BATCH: Final = 256
"""Changes read at a time for all who wait."""

_NAMES_KEPT: Final = 8_192
"""What is kept of the newest changes, counted in the names that they tell: some megabytes."""


class Readable(Protocol):
    """What is needed of a log: see `bailiwick.store.ChangeLog`."""

    async def read(self, after: int, limit: int) -> Logged: ...

    def place_of(self, version: int) -> int: ...


async def _nothing_is_missing() -> int:
    return 0


class Recent:
    """The newest changes of a log.

    ``floor`` is the place from which on the log has everything.
    """

    def __init__(
        self, log: Readable, floor: Callable[[], Awaitable[int]] = _nothing_is_missing
    ) -> None:
        self._log = log
        self._floor = floor
        self._turn = asyncio.Lock()  # one reads on, the others are given what it read
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

    async def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        """The next changes after a place in the log; none where there are no more."""
        async with self._turn:
            if after < self._after:
                # How far the log was read is for those who keep up: it does not go back.
                return (await self._log.read(after, limit)).changes
            if self.begins_anew(after):  # nobody has followed for a while
                self.clear()
                self._after = self._end = after
            first = bisect_right(self._kept, after, key=_place)
            if first < len(self._kept):
                return self._kept[first : first + limit]
            if not self.may_have_more:
                return []
            return await self._read_on(limit)

    async def reads_on(self, limit: int) -> bool:
        """Read on, for all who have read everything so far; whether there may be news for them."""
        async with self._turn:
            return self._end < 0 or bool(await self._read_on(limit))

    async def _read_on(self, limit: int) -> list[tuple[int, Change]]:
        end, self.may_have_more = self._end, False
        try:
            batch = await self._log.read(end, limit)
            self.through, found = batch.through, batch.changes
            floor = await self._floor()
        except BaseException:
            self.may_have_more = True
            raise
        if found:  # else it stays as it is: somebody may have added something meanwhile
            self.may_have_more = True
        if self._end != end:  # it was all forgotten meanwhile
            return found
        if floor > end:
            # Some were pruned before anybody read them: whoever stands here has lost them.
            self._kept, self._names = [], 0
            self._after = self._end = max(floor, found[-1][0] if found else 0)
            return found
        self._end = max(end, self._log.place_of(self.through))
        self._keep(found)
        return found

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
        self._telling: asyncio.Task[None] | None = None
        self._news = False
        self._heard = 0

    @abstractmethod
    async def read_log(self, after: int, limit: int) -> Logged:
        """The changes after a place, oldest first, and how far that is."""

    @abstractmethod
    def place_of(self, version: int) -> int:
        """The last place of what `read_log` counts by."""

    async def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        if self._recent.begins_anew(after):
            # What lies between was not read for those who wait before it: they read it themselves.
            super().wake()
        return await self._recent.read(after, limit)

    async def lost(self, position: int) -> bool:
        return not self._recent.covers(position) and await super().lost(position)

    async def may_have_more(self, position: int) -> bool:
        return self._recent.may_have_more

    def wake(self) -> None:
        self._recent.may_have_more = True
        super().wake()

    def wake_for_more(self) -> None:
        """Something may have been added: those who wait and listen are told if it was, soon."""
        self._recent.may_have_more = self._news = True
        if self._telling is None and (self._waiting or self._listeners):
            self._telling = asyncio.get_running_loop().create_task(
                self._tell_news(), name="bailiwick-feed"
            )

    async def _tell_news(self) -> None:
        """One at a time, for all; what is added meanwhile is told by the next round."""
        for_nobody()
        try:
            while self._news and not self._closed:
                self._news = False
                await self._wake_if_more()
                await self._tell_listeners()
        finally:
            self._telling = None

    async def _wake_if_more(self) -> None:
        """It is read here, once; all who wait have read everything that was read before."""
        try:
            if self._waiting and not await self._recent.reads_on(_BATCH):
                return
        except BailiwickError:
            self._recent.may_have_more = True  # they meet it themselves
        super().wake()

    async def _tell_listeners(self) -> None:
        """Call those who listen with what was added since they heard something."""
        while self._listeners and not self._closed:
            try:
                found = await self.read(self._heard, _BATCH)
            except BailiwickError as error:
                _log.warning("the changes of a root could not be read", exc_info=error)
                return
            for position, change in found:
                self._heard = position
                self._call_listeners(self.stamped(change, position))
            if not found:
                return
            await asyncio.sleep(0)  # a listener may take its time

    def close(self) -> None:
        super().close()
        if self._telling is not None:
            self._telling.cancel()


class _Stamped:
    """The log of a feed, with a cursor on every change."""

    def __init__(self, feed: RecentFeed) -> None:
        self._feed = feed

    async def read(self, after: int, limit: int) -> Logged:
        found, stamped = await self._feed.read_log(after, limit), self._feed.stamped
        return Logged([(place, stamped(each, place)) for place, each in found.changes],
                      found.through)  # fmt: skip

    def place_of(self, version: int) -> int:
        return self._feed.place_of(version)
