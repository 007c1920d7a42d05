"""An event loop in a thread of its own, on which all connections of one state live.

The state is asked by threads that wait: its writer's, and those of event loops, which ask for a few
rows. None of them can wait on its own loop for an answer that comes there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from bailiwick.errors import BailiwickError
from bailiwick.postgres.failures import FAILURES, from_postgres

Result = TypeVar("Result")


class DatabaseLoop:
    """Runs what is to be said to a database. Made running; to be closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="bailiwick-postgres", daemon=True
        )
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for what it comes to, and no longer than that. Blocks. Raises `Busy` where it takes
        longer, `IoError`, and what the database refuses."""
        future = self.begin(work)
        try:
            return future.result(seconds)
        except BailiwickError:
            raise
        except FAILURES as error:
            future.cancel()
            raise from_postgres(error) from error

    def close(self) -> None:
        """End the loop, and whatever is left on it."""
        self.begin(_end_others()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
