"""What was noticed, from the look at it until it is told or looked at anew."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bailiwick.paths import ScopedPath
from bailiwick.store import Noticed


class News(msgspec.Struct, frozen=True, eq=False):
    """What was noticed by one look, to be told as a whole.

    ``known`` is the last row of the feed that the watcher had been told of then. Until ``until``, a
    time of the event loop, a change that was announced there is waited for.
    """

    noticed: tuple[Noticed, ...]
    known: int
    until: float

    @property
    def places(self) -> Iterator[ScopedPath]:
        for each in self.noticed:
            for path in (each.change.origin, each.change.path):
                if path is not None and not path.is_root:
                    yield path


class Told:
    """Rows of a feed, by their numbers and the places that they are about; added in order."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._beneath: dict[str, int] = {}

    def add(self, seq: int, *places: str | None) -> None:
        for place in places:
            if place is not None:
                self._at[place] = seq
                for above in _above(place):
                    self._beneath[above] = seq

    def concerns(self, news: News) -> bool:
        """Whether one that the watcher did not know is about a place of the news, something in it
        or a directory above it."""
        return any(
            seq > news.known
            for place in news.places
            for seq in (
                self._at.get(place, 0),
                self._beneath.get(place, 0),
                *(self._at.get(above, 0) for above in _above(place)),
            )
        )


def _above(place: str) -> Iterator[str]:
    """The directories above a place, but for the root, as plain text."""
    above, slash, _ = place.rpartition("/")
    while slash:
        yield above
        above, slash, _ = above.rpartition("/")
