"""The seam where what is kept is counted against quotas: bytes and files.

A change is counted in three steps: it waits for its turn at its place (`Turns`), is charged what it
will add, and is settled to what it really added once that is done. Who has the turn can look how
much stands there and rely on it: without one, two who replace the same file would both give back
what it held.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from bailiwick.grant import Grant, Root
from bailiwick.paths import ScopedPath


class Amount(NamedTuple):
    """So many bytes and files; negative for what is taken away."""

    size: int
    files: int


NOTHING = Amount(0, 0)


class Turn:
    """A change at some places of one root that has its turn, or waits for it."""

    __slots__ = ("paths", "ready", "root")

    def __init__(self, root: str, paths: tuple[ScopedPath, ...]) -> None:
        self.root = root
        self.paths = paths
        self.ready: asyncio.Future[None] | None = None

    def meets(self, other: Turn) -> bool:
        """Whether both are about the same place, or one is about a place in that of the other."""
        return self.root == other.root and any(
            here.lies_in(there) or there.lies_in(here)
            for here in self.paths
            for there in other.paths
        )


class Turns:
    """Lets changes that meet go one after the other, in the order in which they came."""

    def __init__(self) -> None:
        self._in_order: list[Turn] = []

    async def take(self, root: str, *paths: ScopedPath) -> Turn:
        """Wait until nobody who came before is still about any of these places."""
        turn = Turn(root, paths)
        waits = any(turn.meets(other) for other in self._in_order)
        self._in_order.append(turn)
        if waits:
            turn.ready = asyncio.get_running_loop().create_future()
            try:
                await turn.ready
            except BaseException:
                self.give_back(turn)
                raise
        return turn

    def give_back(self, turn: Turn) -> None:
        """Let those go who waited for this one alone. Giving back twice does nothing."""
        if turn not in self._in_order:
            return
        self._in_order.remove(turn)
        for place, waiting in enumerate(self._in_order):
            if waiting.ready is None or waiting.ready.done() or not waiting.meets(turn):
                continue
            if not any(waiting.meets(earlier) for earlier in self._in_order[:place]):
                waiting.ready.set_result(None)


class Meter(Protocol):
    """Counts what grants and roots hold.

    A charge is made before anything is published and taken back when that fails, so that parallel
    writers cannot go past a bound together.

    A root's own branch is counted as it is. Another branch, a fork or a transaction, counts by what
    its tree has grown by since it began, and by nothing where it has shrunk: what it removes is
    still there in the root's own branch. ``apart`` names a transaction; a fork is known from the
    grant. What is taken ``over`` from a branch is counted instead of that one's growth.
    """

    @property
    def turns(self) -> Turns:
        """Whose turn it is, for all who change the same roots."""
        ...

    def counts(self, grant: Grant) -> bool:
        """Whether the grant or its root has a bound on bytes or files at all."""
        ...

    async def prepare(self, grant: Grant) -> None:
        """Know how much the root holds before anything is changed in it. Not to be called by who
        has a turn."""
        ...

    async def charge(
        self,
        grant: Grant,
        size: int,
        files: int,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        """Add ``size`` bytes and ``files`` files to what the grant and its root hold.

        Raises `QuotaExceeded` where a bound would be passed by what is added, the growth of the
        branch ``over`` not counted; then nothing is counted. What is taken away (a negative amount)
        is never refused.
        """
        ...

    async def settle(
        self,
        grant: Grant,
        charged: Amount,
        added: Amount,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        """Count what a change really added, or took away, in place of what was charged for it, and
        let go of the branch that it was taken ``over`` from. Never refused: it is done."""
        ...

    async def let_go(self, root: Root, branch: str) -> None:
        """A fork or transaction is over: it counts for nothing from now on."""
        ...


class Unmetered:
    """Where nothing is counted."""

    def __init__(self) -> None:
        self.turns = Turns()

    def counts(self, grant: Grant) -> bool:
        return False

    async def prepare(self, grant: Grant) -> None:
        return None

    async def charge(
        self,
        grant: Grant,
        size: int,
        files: int,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        return None

    async def settle(
        self,
        grant: Grant,
        charged: Amount,
        added: Amount,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        return None

    async def let_go(self, root: Root, branch: str) -> None:
        return None
