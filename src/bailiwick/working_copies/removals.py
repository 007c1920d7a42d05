"""Removing what nobody needs any more, while others go on."""

from __future__ import annotations

import asyncio
import logging

from bailiwick.finishing import in_thread
from bailiwick.working_copies.removal import PutAside

_log = logging.getLogger("bailiwick.working_copies")


class Removals:
    """Those that are under way in a root."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, aside: PutAside) -> None:
        task = asyncio.ensure_future(_removed(aside))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def begin_with(self, aside: PutAside) -> None:
        """For whoever was left when it had been put aside."""
        self.begin(aside)

    async def wait(self) -> None:
        """Until nothing is left of them."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))


async def _removed(aside: PutAside) -> None:
    try:
        await in_thread(aside.remove)
    except OSError:
        _log.warning("what a command left could not be removed", exc_info=True)
