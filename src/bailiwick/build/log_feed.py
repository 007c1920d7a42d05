"""The feed of a root whose store keeps the log of its changes itself.

Nothing is told twice and nothing is kept beside it: what a process changed, this one or another, is
in the store's log from the instant it is committed, in order, with whoever asked for it. So a
cursor holds as long as the log is kept, across restarts and between processes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from bailiwick.change_log import ChangeLog, Logged
from bailiwick.errors import BailiwickError
from bailiwick.events import Listener
from bailiwick.model import Change
from bailiwick.patience import for_nobody
from bailiwick.recent import RecentFeed
from bailiwick.store import Noticed

_log = logging.getLogger("bailiwick.events")

_AT_ONCE: Final = 32
"""Changes taken from the log before other tasks get their turn: each costs several lookups."""


class StoreFeed(RecentFeed):
    """The changes of one root, read from its store's log."""

    active = False
    """Operations need not tell what they change: the store does."""

    def __init__(self, log: ChangeLog) -> None:
        super().__init__(log.id, source=None, new_id=lambda: "")
        self._changes = log
        self._end_hearing: Callable[[], None] | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def activate(self) -> None:
        if self._end_hearing is None:
            self._end_hearing = self._changes.on_commit(self._hear)

    async def head(self) -> int:
        return self._changes.place_of(await self._changes.end())

    async def floor(self) -> int:
        return self._changes.place_of(await self._changes.start())

    async def read_log(self, after: int, limit: int) -> Logged:
        return await self._changes.read(after, min(limit, _AT_ONCE))

    def place_of(self, version: int) -> int:
        return self._changes.place_of(version)

    def publish(self, changes: Sequence[Change]) -> None:
        """There is nothing to tell: it is in the log already."""

    def _tell_noticed(self, noticed: Sequence[Noticed]) -> None:
        """Nobody else is watched: whoever changes the tree writes the log."""

    def _now_ns(self) -> int:
        return time.time_ns()

    # --- hearing of changes ------------------------------------------------------------------

    def _someone_waits(self, position: int) -> None:
        self._look_later(self._recent.through)

    def _hear(self) -> None:
        """Something was changed, here or elsewhere."""
        if not self._closed:
            self.wake_for_more()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self.refuse_closed()
        known = self._changes.known()
        if not self._listeners:
            self._heard = self._changes.place_of(known)
        unsubscribe = super().subscribe(listener)
        self._look_later(known)
        return unsubscribe

    def _look_later(self, seen: int) -> None:
        if self._poll is None and self._looking is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._poll = loop.call_later(self._changes.poll_s, self._begin_to_look, seen)

    def _begin_to_look(self, seen: int) -> None:
        self._poll = None
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._looking = loop.create_task(self._look(seen), name="bailiwick-feed")

    async def _look(self, seen: int) -> None:
        """Whether another process changed something. Ends when nobody waits or listens."""
        for_nobody()
        try:
            end = await self._changes.end()
        except BailiwickError as error:
            _log.warning("the changes of a volume could not be read", exc_info=error)
            end = seen
        finally:
            self._looking = None
        if end > seen:
            self._hear()
        if self._waiting or self._listeners:
            self._look_later(end)

    def close(self) -> None:
        super().close()
        if self._poll is not None:
            self._poll.cancel()
        if self._looking is not None:
            self._looking.cancel()
        if self._end_hearing is not None:
            self._end_hearing()
