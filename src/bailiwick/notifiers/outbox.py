"""What is still to be told in one way: a bounded queue, and one task that works it off."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bailiwick.approvals import Approval

_log = logging.getLogger("bailiwick.notifiers")

Way = Callable[[Approval], Awaitable[None]]
"""Tells of one question. It ends within a bounded time; what it raises is logged."""

LETTING_GO_S = 2.0
"""What is under way when all is closed gets so long to end: a program that asks and ends at once
has told, and nobody waits for a server that does not answer."""

_LOG_EVERY = 100


class Outbox:
    """Hands questions to one way of telling, one after the other, on the loop it was made on.

    What finds ``most`` others waiting is dropped, which is logged: the question itself lies where
    it lies.
    """

    def __init__(self, way: Way, *, name: str, most: int) -> None:
        self._way = way
        self._name = name
        self._most = most
        self._waiting: deque[Approval] = deque()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.dropped = 0

    def put(self, approval: Approval) -> None:
        """Tell of a question soon. From any thread, and never waits."""
        with suppress(RuntimeError):  # the loop was closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self._take, approval)

    def _take(self, approval: Approval) -> None:
        if self._closed:
            return
        if len(self._waiting) >= self._most:
            if self.dropped % _LOG_EVERY == 0:
                _log.warning(
                    "%s: a question is not told, %d wait already", self._name, self._most,
                    extra={"approval": approval.id, "dropped": self.dropped + 1},
                )  # fmt: skip
            self.dropped += 1
            return
        self._waiting.append(approval)
        if self._task is None:
            self._task = self._loop.create_task(self._work(), name=f"bailiwick-{self._name}")

    async def _work(self) -> None:
        try:
            while self._waiting:
                approval = self._waiting.popleft()
                try:
                    await self._way(approval)
                except Exception as error:
                    _log.warning("%s failed", self._name, exc_info=error)
        finally:
            self._task = None

    async def aclose(self) -> None:
        """Take nothing more, and give what waits a moment."""
        await asyncio.sleep(0)  # what was put before this is taken
        self._closed = True
        task = self._task
        if task is None:
            return
        await asyncio.wait((task,), timeout=LETTING_GO_S)
        if not task.done():
            _log.warning(
                "%s: %d questions are not told any more", self._name, len(self._waiting) + 1
            )
            task.cancel()
            await asyncio.wait((task,))
