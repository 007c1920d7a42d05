"""Forgetting by itself: now and then, for as long as a directory with a history is open."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from bailiwick.stores.history.store import HistoryStore

_log = logging.getLogger("bailiwick.history")

KEEP_DAYS: Final = 30.0
"""How long earlier versions are kept."""

_FIRST_S: Final = 60.0
"""A program that ends sooner has nothing to forget that the next one could not."""

_EVERY_S: Final = 3600.0
"""What is an hour too old costs little."""


class HistoryAutoCollection:
    """Forgets from `begin` until `aclose`."""

    def __init__(
        self,
        store: HistoryStore,
        keep_days: float | None = None,
        *,
        first_s: float = _FIRST_S,
        every_s: float = _EVERY_S,
    ) -> None:
        self._store = store
        self._keep_days = KEEP_DAYS if keep_days is None else keep_days
        self._first_s = first_s
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name="bailiwick-history-keeping")

    async def aclose(self) -> None:
        """Stop. To be called before the store is closed. Twice does nothing."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _run(self) -> None:
        await asyncio.sleep(self._first_s)
        while True:
            try:
                await self._store.versions.collect(keep_days=self._keep_days)
            except Exception as error:
                # Nobody waits for this, and the next try may do better.
                _log.warning("a history could not be cleared up", exc_info=error)
            await asyncio.sleep(self._every_s)
