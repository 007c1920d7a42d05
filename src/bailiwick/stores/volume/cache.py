"""What was looked up, remembered until a change names it.

Kept by key (a name in a directory, a node), not by path: one change drops what it touched and
nothing else, and a walk over remembered names costs a few dictionary lookups. What is dropped is
read from the `change` table, so it does not matter which process made the change.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from bailiwick.stores.volume.database import Session
from bailiwick.stores.volume.rows import Bound, Inode, Place, View

NAMES_MAX: Final = 65_536
"""About 10 MiB of names."""

INODES_MAX: Final = 8_192
"""With the largest content that is kept in a row, 32 MiB."""

CHANGES_MAX: Final = 4_096
"""With more changes since the last look forgetting everything is cheaper than reading them."""

Key = TypeVar("Key")

_KEPT: Final = "SELECT last, horizon FROM volume WHERE id = $1"
_SINCE: Final = """
SELECT version, parent, name, node, was FROM change
WHERE volume = $1 AND branch = $2 AND version > $3 ORDER BY version LIMIT $4
"""


class Cache:
    """Names, nodes and places of one branch, as they were at version ``seen``."""

    __slots__ = ("_noted", "inodes", "names", "places", "seen")

    def __init__(self) -> None:
        self.names: dict[tuple[int, str], Bound | None] = {}
        self.inodes: dict[int, Inode | None] = {}
        self.places: dict[int, Place | None] = {}
        self.seen = 0
        self._noted: dict[int, Inode] = {}

    def clear(self) -> None:
        self.names.clear()
        self.inodes.clear()
        self.places.clear()

    async def catch_up(self, session: Session, view: View) -> None:
        """Forget what was changed since the last time."""
        last, horizon = await session.row(_KEPT, view.volume) or (0, 0)
        if last == self.seen:
            return
        if self.seen < horizon or not (self.names or self.inodes or self.places):
            # The log may have been cut, or there is nothing to forget.
            self.clear()
        else:
            rows = await session.rows(_SINCE, view.volume, view.branch, self.seen, CHANGES_MAX)
            if len(rows) == CHANGES_MAX:
                self.clear()
            for version, parent, name, node, was in rows:
                self.forget(parent, name, node, was)
                if version in self._noted and not parent:
                    self.inodes[node] = self._noted.pop(version)
        self._noted.clear()
        self.seen = last

    def note(self, inode: Inode) -> None:
        """A change of our own made this of a node: known already when its log is read."""
        self._noted[inode.born] = inode

    def forget(self, parent: int, name: str, node: int, was: int) -> None:
        """Forget what one row of the change table touches."""
        self.inodes.pop(node, None)
        if parent:
            self.names.pop((parent, name), None)
            self.inodes.pop(parent, None)  # its time was kept up
            self.inodes.pop(was, None)
            self.places.pop(node, None)
            self.places.pop(was, None)

    def trim(self) -> None:
        """Forget the oldest half of what has become too much."""
        if len(self.names) > NAMES_MAX:
            _forget_half(self.names)
        if len(self.inodes) > INODES_MAX:
            _forget_half(self.inodes)
        if len(self.places) > NAMES_MAX:
            _forget_half(self.places)


def _forget_half(kept: dict[Key, Any]) -> None:
    for key in list(kept)[: len(kept) // 2]:
        del kept[key]
