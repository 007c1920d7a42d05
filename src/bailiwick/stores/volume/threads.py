"""Work that blocks, on a thread of the event loop's, whatever becomes of who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from bailiwick.sqlite.writer import wait_through_cancellation

Result = TypeVar("Result")


async def in_thread(work: Callable[..., Result], *arguments: object) -> Result:
    """Run ``work`` on a thread. Cancelled, this waits for its end before it gives way, so that
    whoever cleans up afterwards knows that nothing is still at work."""
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(None, work, *arguments)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await wait_through_cancellation(running)
        if not running.cancelled():
            running.exception()  # looked at: nobody else will
        raise
