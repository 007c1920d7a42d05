"""Work that blocks, on a thread, whatever becomes of who waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from bailiwick.sqlite.writer import wait_through_cancellation

Result = TypeVar("Result")


async def in_thread(
    work: Callable[..., Result], *arguments: object, pool: Executor | None = None
) -> Result:
    """Run ``work`` on a thread of ``pool``, by default of the event loop's. Cancelled, this waits
    for its end before it gives way, so that whoever cleans up afterwards knows that nothing is
    still at work."""
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(pool, work, *arguments)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await wait_through_cancellation(running)
        if not running.cancelled():
            running.exception()  # looked at: nobody else will
        raise


class RestingPool(Executor):
    """A few threads for one purpose, which are there while they are needed.

    Whoever shares the pool may send it to rest: what was given to it is still done, and the next
    to give it something finds it awake.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._most, self._name)
            return self._threads.submit(work, *args, **kwargs)

    def rest(self) -> None:
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)
