"""Where something lies that was carried elsewhere, or went, with a directory above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bailiwick.paths import ScopedPath
from bailiwick.verbs.runs.path_stories import Stories
from bailiwick.versions import Version


class CarriedThings:
    """Finds what was carried elsewhere with a directory above it, or went with one."""

    def __init__(self, telling: Stories, versions: Iterable[Version]) -> None:
        self._telling = telling
        self._moves = [
            each for each in versions if each.kind == "moved" and each.type == "directory"
        ]

    async def found(
        self, touched: Sequence[Version], known: Sequence[Version]
    ) -> tuple[ScopedPath, list[Version]]:
        """Where something lies now, and all its versions, oldest first: told by some of them,
        newest first. What lies nowhere any more has those that are ``known`` of its path."""
        newest = touched[0]
        place, versions = await self.at(newest)
        if place.is_root:  # what changed too much to be told by path is no version of its own
            every = {int(each.version): each for each in (*touched, *versions)}
            return place, [every[number] for number in sorted(every)]
        return place, versions or list(reversed(known))

    async def at(self, newest: Version) -> tuple[ScopedPath, list[Version]]:
        """Where something lies now, and all that is told of it there, by the last that is known of
        it."""
        above = newest.path.parts
        for move in self._moves:
            if int(move.version) < int(newest.version):
                continue
            for depth in range(1, len(above)):
                place = ScopedPath("/".join((*move.path.parts, *above[depth:])))
                versions = await self._telling.versions(place)
                if any(_is(each, newest) for each in versions):
                    return place, versions
        return newest.path, await self._telling.versions(newest.path)


def _is(one: Version, other: Version) -> bool:
    return (one.version, one.path) == (other.version, other.path)
