"""How deep things lie before a change of many names, and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bailiwick.paths import DEPTH_MAX, tree_too_deep
from bailiwick.stores.volume.rows.database import INFINITY
from bailiwick.stores.volume.rows.records import DIRECTORY, BoundName, RowPlace
from bailiwick.stores.volume.rows.tree import RowTree


class Depths:
    """Refuses a change after which something lies deeper than a path can name.

    What has lain so deep before may be put elsewhere, as long as that is not deeper still: a tree
    from before there was a limit can be taken apart.
    """

    def __init__(self, tree: RowTree, made_after: int = INFINITY) -> None:
        """What lies in directories with numbers greater than ``made_after`` is given its name by
        the same change."""
        self._tree = tree
        self._made_after = made_after
        self._before: dict[int, int] = {}

    async def note(self, nodes: Iterable[BoundName | None]) -> None:
        """Look at what is about to get another name."""
        for bound in nodes:
            way = None if bound is None else await self._tree.way_up(bound.node)
            if bound is not None and way is not None:
                self._before[bound.node] = len(way) - 1

    async def check(self, names: Mapping[RowPlace, BoundName | None]) -> None:
        """Raise `ParseError` where a name was given too deep, or to what holds too much beneath.
        Without its path: nobody has decided yet whether that may be told."""
        given = {bound.node for bound in names.values() if bound is not None}
        # So deep at most is what is given names: nothing else lies in new directories.
        levels_max = len(given) if all(map(self._is_new, names.values())) else INFINITY
        for place, bound in names.items():
            if bound is None or place.parent in given:  # it is looked at from there
                continue
            way = await self._tree.way_up(bound.node)
            if way is None or len(way) - 1 <= self._before.get(bound.node, 0):
                continue
            left = DEPTH_MAX - (len(way) - 1)
            if left < levels_max and await self._tree.is_deeper(bound, left):
                raise tree_too_deep()

    def _is_new(self, bound: BoundName | None) -> bool:
        return bound is None or bound.kind != DIRECTORY or bound.node > self._made_after
