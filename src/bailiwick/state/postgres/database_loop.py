"""An event loop in a thread of its own, on which all connections of one state live.

The state is asked by threads that wait: its writer's, and those of event loops, which ask for a few
rows. None of them can wait on its own loop for an answer that comes there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from bailiwick.errors import BailiwickError, Closed
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
        self._turn = threading.Lock()
        self._closed = False

    def begin(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """What is begun is cancelled when the loop is closed; what comes later is from the
        beginning, since nobody would ever do it."""
        with self._turn:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        never: concurrent.futures.Future[Result] = concurrent.futures.Future()
        never.cancel()
        return never

    def run(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for what it comes to, and no longer than that. Blocks. Raises `Busy` where it takes
        longer, `IoError`, what the database refuses, and `Closed`."""
        return _result(self.begin(work), seconds)

    def close(self, farewell: Coroutine[Any, Any, None], seconds: float) -> None:
        """End whatever is left on the loop, then say farewell to the database, which no longer
        keeps anybody waiting than that, then end the loop."""
        with self._turn:
            self._closed = True
        asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
        with suppress(BailiwickError):
            _result(asyncio.run_coroutine_threadsafe(farewell, self._loop), seconds)
        asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _result(future: concurrent.futures.Future[Result], seconds: float) -> Result:
    try:
        return future.result(seconds)
    except BailiwickError:
        raise
    except concurrent.futures.CancelledError:
        raise Closed("the state is closed") from None
    except FAILURES as error:
        future.cancel()
        raise from_postgres(error) from error


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
