"""Rows as values, and the words in which the store's parts speak of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from bailiwick.model import EntryType
from bailiwick.versions import Mark

NOTHING: Final = 0
FILE: Final = 1
DIRECTORY: Final = 2
LINK: Final = 3

TYPES: Final[dict[int, EntryType]] = {FILE: "file", DIRECTORY: "directory", LINK: "symlink"}

PERMISSION_BITS: Final = 0o777
"""All that is kept of a mode: setuid, setgid and sticky mean nothing here and are stripped."""

LINK_MODE: Final = 0o777
"""A link has no permissions that count; every system shows them all set."""


class BoundName(NamedTuple):
    """The node that has a name."""

    node: int
    kind: int


class RowPlace(NamedTuple):
    """A name in a directory."""

    parent: int
    name: str


class RowKey(NamedTuple):
    """What a version touched: the row of a name, or that of a node where ``parent`` is 0."""

    version: int
    parent: int
    name: str
    node: int
    was: int


class Inode(NamedTuple):
    """What a node is. The order is that of `INODE_COLUMNS`."""

    id: int
    born: int
    kind: int
    mode: int
    size: int
    mtime_ns: int
    edition: int
    sha256: bytes | None
    content: int | None
    data: bytes | None
    created_ns: int | None = None

    @property
    def version(self) -> str:
        """What callers compare: changes with the content and with nothing else."""
        return str(self.edition)

    def touched(self, mtime_ns: int) -> Inode:
        """The node with another time: `_replace` takes twice as long, with every new name."""
        return Inode(*self[:5], mtime_ns, *self[6:])


NOBODY: Final = Mark()
"""On nobody's behalf."""


class BranchView(NamedTuple):
    """What is looked at: a branch, now or as it was at a version."""

    volume: int
    branch: int
    root: int
    at: int


class Numbers:
    """The volume's counter, as far as the transaction at hand has come with it."""

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last
