"""Work that is done once for all who ask for it while the same is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from bailiwick.finishing import look_at
from bailiwick.patience import for_nobody, never_begun, waiting

Wanted = TypeVar("Wanted")


class SharedRounds(Generic[Wanted]):
    """Rounds of some work, one after the other. Whoever asks is told of a round that was begun
    after they asked: those who come during one share the next. The work is told what each of them
    wants."""

    def __init__(self, work: Callable[[list[Wanted]], Awaitable[None]]) -> None:
        self._work = work
        self._wanted: list[Wanted] = []
        self._running: asyncio.Future[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def join(self, wanted: Wanted | None = None) -> None:
        """Have it done once more. Raises what the work raises, and `Busy` where that takes longer
        than who asks has patience for."""
        if wanted is not None:
            self._wanted.append(wanted)
        if self._next is None:
            if self._running is None:
                await self._round()
                return
            self._next = asyncio.ensure_future(self._after(self._running))
            self._next.add_done_callback(look_at)
        with waiting() as seconds:
            joined = self._next
            await asyncio.wait((joined,), timeout=seconds)
            if not joined.done():
                raise never_begun()
            joined.result()

    async def _after(self, running: asyncio.Future[None]) -> None:
        for_nobody()
        await asyncio.wait((running,))
        self._next = None
        await self._round()

    async def _round(self) -> None:
        running = self._running = asyncio.get_running_loop().create_future()
        wanted, self._wanted = self._wanted, []
        try:
            await self._work(wanted)
        finally:
            if self._running is running:
                self._running = None
            running.set_result(None)

    async def end(self) -> None:
        """Wait until nobody is at it."""
        while (task := self._next) is not None or self._running is not None:
            waited_for = task or self._running
            assert waited_for is not None
            await asyncio.wait((waited_for,))
