"""The seam for a log of every change of a tree, which a store may keep with the tree itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from bailiwick.model import Change


class Logged(NamedTuple):
    """Changes of a log, each with its place in it; all up to the version ``through`` was read."""

    changes: list[tuple[int, Change]]
    through: int


class Note(NamedTuple):
    """What whoever made a change had kept with it, and the version that the change made."""

    version: int
    note: bytes


class ChangeLog(Protocol):
    """Every change of a tree, by whoever made it, in the order of their commits.

    A place in it is a whole number that grows with every change. It names subject, request and time
    where whoever made the change said so.
    """

    @property
    def id(self) -> str:
        """The name of this log, the same for everyone who opens it."""
        ...

    @property
    def poll_s(self) -> float:
        """How often whoever follows is to look for what others changed: what they are not told of
        by `on_commit`."""
        ...

    def known(self) -> int:
        """A version that is known here without a look: whatever is changed here from now on is
        newer, and it is no older than what this process was told of or made."""
        ...

    async def end(self) -> int:
        """The newest version there is."""
        ...

    async def start(self) -> int:
        """The version after which nothing is missing. Grows."""
        ...

    def place_of(self, version: int) -> int:
        """The last place of a version."""
        ...

    async def read(self, after: int, limit: int) -> Logged:
        """The changes after a place, about ``limit`` of them. A version that changed too much to be
        told path by path is one ``rescan``. Raises `BailiwickError` where it cannot be read."""
        ...

    def on_commit(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have ``told`` called after each change made here, and after those of others that are
        heard of; the answer ends it."""
        ...

    @property
    def notes_id(self) -> str:
        """The name of what the notes are kept in, the same for all branches."""
        ...

    async def notes(self, after: int, limit: int) -> list[Note]:
        """Notes of the versions after one, oldest first, of all branches; none of what was
        only staged."""
        ...

    async def drained_through(self) -> int:
        """The version up to which no note is needed any more."""
        ...

    async def drained(self, version: int) -> None:
        """The notes up to ``version`` were taken over: they need not be kept any more."""
        ...


@runtime_checkable
class Logs(Protocol):
    """A power: keeping a log of all changes, and with each a note of whoever made it."""

    @property
    def log(self) -> ChangeLog: ...
