"""Turns: changes that meet, at one place or one inside the other, go one after the other.

Within one process. Between processes what was written down before a change is compared with what
is found when it is made.
"""

from __future__ import annotations

import asyncio

from bailiwick.errors import Closed
from bailiwick.paths import ScopedPath


class PathTurns:
    """Places that are being changed."""

    def __init__(self) -> None:
        self._taken: list[ScopedPath] = []
        self._waiting: list[asyncio.Future[None]] = []
        self.closed = False

    async def take(self, *places: ScopedPath) -> None:
        """Have the places, and all beneath them, for a change. Raises `Closed`."""
        while True:
            if self.closed:
                raise Closed("the store is closed")
            if not self._taken or not any(self._meets(place) for place in places):
                break
            await self._wait()
        self._taken += places

    def give_back(self, *places: ScopedPath) -> None:
        """The change of places that were taken is over."""
        for place in places:
            self._taken.remove(place)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _meets(self, place: ScopedPath) -> bool:
        return any(place.lies_in(taken) or taken.lies_in(place) for taken in self._taken)

    async def _wait(self) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(ended)
        await ended

    async def close(self) -> None:
        """Refuse new changes, and wait for those under way."""
        self.closed = True
        while self._taken:
            await self._wait()
