"""What was looked up, remembered until a change names it.

Kept by key (a name in a directory, a node), not by path: one change drops what it touched and
nothing else, and a walk over remembered names costs a few dictionary lookups. What is dropped is
read from the `change` table, so it does not matter which process made the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

from bailiwick.errors import Closed
from bailiwick.model import MiB
from bailiwick.stores.volume.rows.database import Row, RowSession
from bailiwick.stores.volume.rows.records import BoundName, BranchView, Inode, RowKey, RowPlace

NAMES_MAX: Final = 65_536
"""About 10 MiB of names."""

INODES_MAX: Final = 16_384
"""About 10 MiB of nodes, besides their content."""

CONTENT_BYTES_MAX: Final = 32 * MiB
"""Of the content that is kept in the rows of nodes: 4,096 of the largest, or most of a tree of
source text."""

CHANGES_MAX: Final = 4_096
"""With more changes since the last look forgetting everything is cheaper than reading them."""

NOTED_MAX: Final = 1_024
"""Changes of our own that are kept for whoever looks next."""

LEVELS_MAX: Final = 10_000
"""No tree is so deep (a path has 4,096 bytes): a directory lies in itself."""

Kept = TypeVar("Kept")

# One row at least, since most often nothing was changed.
SINCE: Final = """
SELECT v.last, v.horizon, c.version, c.parent, c.name, c.node, c.was FROM volume v
    LEFT JOIN (SELECT version, parent, name, node, was FROM change
        WHERE volume = $1 AND branch = $2 AND version > $3 ORDER BY version LIMIT $4) c ON 1 = 1
WHERE v.id = $1
"""


class Own(NamedTuple):
    """A change of our own: the numbers it took, after ``first`` up to ``last``, and the keys that
    each of its versions touched. A file that was ``written`` is known as it is now; one that is new
    also by its ``place``, with the directory ``above`` it."""

    first: int
    last: int
    keys: Sequence[list[RowKey]]
    written: Inode | None
    place: RowPlace | None = None
    above: Inode | None = None


class KnownNodes(dict[int, Inode | None]):
    """Nodes by their numbers, with a sum of the content that they hold."""

    __slots__ = ("content_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.content_bytes = 0
        """At least what is held: what is replaced or forgotten counts until it is weighed."""

    def __setitem__(self, node: int, inode: Inode | None) -> None:
        if inode is not None and inode.data is not None:
            self.content_bytes += len(inode.data)
        super().__setitem__(node, inode)

    def weigh(self) -> None:
        held = (inode.data for inode in self.values() if inode is not None)
        self.content_bytes = sum(len(data) for data in held if data is not None)


class Cache:
    """Names, nodes and places of one branch, as they were at version ``seen``."""

    __slots__ = ("_known", "_known_at", "_noted", "inodes", "names", "own", "places", "seen")

    def __init__(self) -> None:
        self.names: dict[tuple[int, str], BoundName | None] = {}
        self.own: dict[tuple[int, str], Row | None] = {}
        """What the branch itself says of a name, where a turn has looked ahead: for that turn."""
        self.inodes = KnownNodes()
        self.places: dict[int, RowPlace | None] = {}
        self.seen = 0
        self._noted: dict[int, Own] = {}
        self._known: Cache | None = None
        self._known_at = 0

    def lean_on(self, known: Cache | None, seen: int) -> None:
        """Have another one asked for what is not remembered here, while that has come to ``seen``
        and no further."""
        self._known, self._known_at = known, seen

    @property
    def known(self) -> Cache | None:
        """The other one that may be asked."""
        known = self._known
        return known if known is not None and known.seen == self._known_at else None

    def clear(self) -> None:
        self.names.clear()
        self.own.clear()
        self.inodes.clear()
        self.places.clear()

    def leads_up(self, directory: int, root: int) -> bool:
        """Whether it is remembered that a directory stands, and so do all that it lies in: what
        was removed has no name."""
        places = self.places
        for _ in range(LEVELS_MAX):
            if directory == root:
                return True
            place = places.get(directory)
            if place is None:
                return False
            directory = place.parent
        return False

    def to_forget(self) -> tuple[int, int]:
        """Since when, and how many changes at most, are read to be forgotten."""
        return self.seen, CHANGES_MAX if self.names or self.inodes or self.places else 0

    async def catch_up(self, session: RowSession, view: BranchView) -> None:
        """Forget what was changed since the last time. Raises `Closed` where there is no volume."""
        since, most = self.to_forget()
        self.forget_changed(
            await session.rows(SINCE, view.volume, view.branch, since, most), since, most
        )

    def forget_changed(self, rows: list[Row], since: int, most: int) -> None:
        """Forget what `SINCE` has told."""
        if not rows:
            raise Closed("the volume was deleted")
        last, horizon = rows[0][:2]
        if last <= self.seen or self.take_own(last):  # others may have come further meanwhile
            return
        if since < horizon or len(rows) >= most:
            # The log may have been cut, there is nothing to forget, or too much.
            self.clear()
        for _, _, version, *row in rows:
            if version is not None:
                self.forget(version, *row)
        self._noted.clear()
        self.seen = last

    # --- changes of our own: their log need not be read ----------------------------------------

    def note(self, own: Own) -> None:
        """A change of our own is committed. Called on the writer's thread."""
        if len(self._noted) >= NOTED_MAX or sum(map(len, own.keys)) >= CHANGES_MAX:
            self._noted.clear()  # there will be a gap, and the log is read after all
        elif own.first != own.last:
            self._noted[own.first] = own

    def take_own(self, last: int) -> bool:
        """Come to version ``last`` by what was noted; False where others have changed something."""
        taken, at = [], self.seen
        while at != last:
            own = self._noted.pop(at, None)
            if own is None:
                return False
            taken.append(own)
            at = own.last
        for own in taken:
            self._apply(own)
        return True

    def take(self, own: Own) -> None:
        """A change of our own was committed on the thread of those who look here."""
        if self.seen == own.first:  # else somebody has changed something before it
            self._apply(own)

    def _apply(self, own: Own) -> None:
        for keys in own.keys:
            for key in keys:
                self.forget(*key)
        if own.written is not None:
            self.inodes[own.written.id] = own.written
            if own.place is not None and own.above is not None:
                self.know(own.place, own.written, own.above)
        self.seen = own.last

    def know(self, place: RowPlace, inode: Inode, above: Inode) -> None:
        """Remember a node that was made, and the directory in which it was."""
        node = inode.id
        self.inodes[node], self.inodes[above.id] = inode, above
        self.names[place], self.places[node] = BoundName(node, inode.kind), place

    def forget(self, version: int, parent: int, name: str, node: int, was: int) -> None:
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
        inodes = self.inodes
        if len(inodes) > INODES_MAX or inodes.content_bytes > CONTENT_BYTES_MAX:
            inodes.weigh()
            # From half on, so that there is time until they are weighed again.
            if len(inodes) > INODES_MAX or inodes.content_bytes > CONTENT_BYTES_MAX // 2:
                _forget_half(inodes)
                inodes.weigh()
        if len(self.places) > NAMES_MAX:
            _forget_half(self.places)


def _forget_half(kept: dict[Kept, Any]) -> None:
    for key in list(kept)[: len(kept) // 2]:
        del kept[key]
