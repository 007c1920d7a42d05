"""What is known by place, where directories move: without looking at all of it each time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

from bailiwick.paths import ROOT, ScopedPath

Known = TypeVar("Known")


class MovingPlaces(dict[ScopedPath, Known], Generic[Known]):
    """What is known of places; those that lie in one are found from there."""

    def __init__(self) -> None:
        super().__init__()
        self._within: dict[ScopedPath, set[ScopedPath]] = {}

    def __setitem__(self, path: ScopedPath, known: Known) -> None:
        if path not in self:
            self._reach(path)
        super().__setitem__(path, known)

    def _reach(self, path: ScopedPath) -> None:
        while not path.is_root:
            beside = self._within.setdefault(path.parent, set())
            if path in beside:
                return
            beside.add(path)
            path = path.parent

    def inside(self, directory: ScopedPath) -> Iterator[ScopedPath]:
        """Those that lie in it, but for itself."""
        waiting = [*self._within.get(directory, ())]
        while waiting:
            path = waiting.pop()
            waiting += self._within.get(path, ())
            if path in self:
                yield path

    def move(self, here: ScopedPath, home: ScopedPath) -> None:
        """What lies in ``here`` comes to lie in ``home``. What was known of that one is about what
        stood there before, and is gone."""
        moved = self._taken(here)
        self._taken(home)
        for path, known in moved:
            if not path.lies_in(home):
                self[path.relative_to(here).beneath(home)] = known

    def _taken(self, top: ScopedPath) -> list[tuple[ScopedPath, Known]]:
        found = []
        waiting = [top]
        while waiting:
            path = waiting.pop()
            waiting += self._within.pop(path, ())
            if path in self:
                found.append((path, self.pop(path)))
        self._within.get(top.parent, set()).discard(top)
        return found


class MovesMade:
    """Moves, one after the other, that are not made yet."""

    def __init__(self) -> None:
        self._moves: list[tuple[ScopedPath, ScopedPath]] = []
        self._about: dict[ScopedPath, list[int]] = {}
        """Which of them lead to a place or away from it."""

    def add(self, here: ScopedPath, home: ScopedPath) -> None:
        for place in (here, home):
            self._about.setdefault(place, []).append(len(self._moves))
        self._moves.append((here, home))

    def before(self, path: ScopedPath) -> ScopedPath | None:
        """Where that is which they bring to a place; None for what they take away from there."""
        number = len(self._moves)
        while (number := self._last_about(path, number)) >= 0:
            here, home = self._moves[number]
            if not path.lies_in(home):
                return None
            path = path.relative_to(home).beneath(here)
        return path

    def _last_about(self, path: ScopedPath, before: int) -> int:
        """The last of those before one that is about a place, or one that it lies in."""
        last = -1
        for place in (path, *path.parents, ROOT):
            numbers = self._about.get(place, ())
            if at := bisect_left(numbers, before):
                last = max(last, numbers[at - 1])
        return last
