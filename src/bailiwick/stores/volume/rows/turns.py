"""What whoever writes remembers of one volume, between transactions and in them."""

from __future__ import annotations

from bailiwick.stores.volume.lookup.cache import Cache
from bailiwick.stores.volume.rows.records import Numbers


class TurnMemory:
    """The counter, how many leases there may be, and what is known of each branch."""

    def __init__(self, volume: int) -> None:
        self.volume = volume
        self.numbers = Numbers(-1)
        self.locks = 0
        self.flushed = -1
        """How far the counter is written down; -1 where that is to be looked up."""
        self.caches: dict[int, Cache] = {}

    @property
    def begun_at(self) -> int:
        return self.flushed

    def set_locks(self, count: int) -> None:
        self.locks = count

    def cache(self, branch: int, known: Cache | None = None) -> Cache:
        """What is remembered of a branch, true to the transaction."""
        cache = self.caches.get(branch)
        if cache is None:
            cache = self.caches[branch] = Cache()
            cache.seen = self.numbers.last
        return cache

    def written_down(self) -> None:
        """The counter was: what is remembered is true up to there."""
        self.flushed = self.numbers.last
        for cache in self.caches.values():
            cache.seen = self.numbers.last
            cache.own.clear()
            cache.trim()

    def forget(self) -> None:
        """Something was undone: what is remembered may never have been."""
        for cache in self.caches.values():
            cache.clear()
        self.locks = max(self.locks, 1)

    def undone(self) -> None:
        self.forget()
        self.flushed = -1
