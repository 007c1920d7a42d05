"""How a stream that broke is taken up again: how often, and after which pauses."""

from __future__ import annotations

import asyncio

from bailiwick.errors import BailiwickError

SILENCE_SECONDS_MAX = 45.0
"""A stream on which nothing comes for so long is dead: the server says something every fifteen."""

RETRIES_MAX = 10
RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 5.0
STEADY_SECONDS = 10.0
"""How often in a row a lost server is looked for, and the pauses between, each twice as long: it is
given half a minute to come back. A connection that lasted ten seconds was found."""


class Reconnection:
    """The tries to follow one stream."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._retries, self._pause = 0, RETRY_SECONDS
        self._began = self._clock()

    def begin(self) -> None:
        """A connection is tried."""
        self._began = self._clock()

    async def lost(self, error: BailiwickError) -> None:
        """It was lost by ``error``: wait before the next try. Raises it where there is none."""
        if self._clock() - self._began >= STEADY_SECONDS:
            self._retries, self._pause = 0, RETRY_SECONDS
        elif self._retries == RETRIES_MAX:
            raise error
        self._retries += 1
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, RETRY_SECONDS_MAX)
