"""Forgetting by itself: now and then, for as long as a directory with a history is open."""

from __future__ import annotations

from typing import Final

from bailiwick.periodic_task import PeriodicTask
from bailiwick.stores.history.store import HistoryStore

KEEP_DAYS: Final = 30.0
"""How long earlier versions are kept."""

_FIRST_S: Final = 60.0
"""A program that ends sooner has nothing to forget that the next one could not."""

_EVERY_S: Final = 3600.0
"""What is an hour too old costs little."""


class HistoryAutoCollection(PeriodicTask):
    """Forgets from `begin` until `aclose`."""

    def __init__(
        self,
        store: HistoryStore,
        keep_days: float | None = None,
        *,
        first_s: float = _FIRST_S,
        every_s: float = _EVERY_S,
    ) -> None:
        super().__init__(self._collect, name="history-keeping", first_s=first_s, every_s=every_s)
        self._versions = store.versions
        self._keep_days = KEEP_DAYS if keep_days is None else keep_days

    async def _collect(self) -> None:
        await self._versions.collect(keep_days=self._keep_days)
