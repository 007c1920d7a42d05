"""Work that nobody waits for, done again and again in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

_log = logging.getLogger("bailiwick.periodic_task")


class PeriodicTask:
    """Does ``work`` now and then, from `begin` until `aclose`.

    The first time after ``first_s``, then every ``every_s`` seconds, or ``rest`` times as long as
    the work took if that is longer. Work that fails is told in the log and tried again.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[object]],
        *,
        name: str,
        every_s: float,
        first_s: float | None = None,
        rest: float = 0.0,
    ) -> None:
        self._work = work
        self._name = name
        self._every_s = every_s
        self._first_s = every_s if first_s is None else first_s
        self._rest = rest
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"bailiwick-{self._name}")

    async def aclose(self) -> None:
        """Stop where the work waits, and wait for its end. To be called before what it works on is
        closed. Twice does nothing, nor is anything waited for on another loop: in a forked child
        nobody goes on with it."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._first_s)
        while True:
            began = clock()
            try:
                await self._work()
            except Exception as error:
                _log.warning("%s failed, and is tried again", self._name, exc_info=error)
            await asyncio.sleep(max(self._every_s, (clock() - began) * self._rest))
