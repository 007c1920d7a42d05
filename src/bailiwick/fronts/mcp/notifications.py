"""Telling a client what changed: the resources it named, and what lies at the top.

What another program changes is told like what was changed here. A notification says that something
is not what it was; what it is now is to be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress

from bailiwick.errors import BailiwickError, RateLimited
from bailiwick.fronts.mcp.addresses import Address
from bailiwick.model import Change
from bailiwick.paths import ScopedPath, parse
from bailiwick.scope import Scope
from bailiwick.toolbox import Toolbox

_log = logging.getLogger("bailiwick.mcp")

_UNSURE = ("rescan", "reset")
_LISTED = ("created", "deleted", "moved")


class Interest:
    """What a client wants to hear of, by root; may change while it is followed."""

    def __init__(self) -> None:
        self.lists = False
        self._places: dict[str, dict[str, ScopedPath]] = {}

    def add(self, uri: str, address: Address, *, limit: int) -> None:
        """Raises `ParseError` for what is no path, `RateLimited` where there are too many."""
        place = parse(address.path).path
        if sum(map(len, self._places.values())) >= limit:
            raise RateLimited("too many subscriptions", hint="end some first")
        self._places.setdefault(address.root, {})[uri] = place

    def remove(self, uri: str) -> None:
        for places in self._places.values():
            places.pop(uri, None)

    def touched(self, root: str, change: Change) -> list[str]:
        """The addresses that a change concerns."""
        return [
            uri for uri, place in self._places.get(root, {}).items() if _concerns(change, place)
        ]


def _concerns(change: Change, place: ScopedPath) -> bool:
    ends = [change.path] if change.origin is None else [change.path, change.origin]
    whole = change.subtree or change.kind in _UNSURE
    return any(
        place == end or end.parent == place or (whole and place.lies_in(end)) for end in ends
    )


def concerns_top(change: Change) -> bool:
    """Whether a change makes the list at the top another one."""
    if change.kind in _UNSURE:
        return True
    ends = [change.path] if change.origin is None else [change.path, change.origin]
    return change.kind in _LISTED and any(end.parent == "." for end in ends)


Heard = Callable[[str, Change], None]


@asynccontextmanager
async def following(boxes: Iterable[tuple[str, Toolbox]], heard: Heard) -> AsyncIterator[None]:
    """Hear of every change in these roots, from now on until this is left.

    Raises what a root answers that cannot be watched, or may not be.
    """
    tasks: list[asyncio.Task[None]] = []
    try:
        for root, box in boxes:
            cursor = await box.actor.run(lambda scope: scope.change_cursor())
            tasks.append(asyncio.create_task(_follow(root, box, cursor, heard)))
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _follow(root: str, box: Toolbox, since: str, heard: Heard) -> None:
    async def work(scope: Scope) -> None:
        async with aclosing(scope.watch(since=since)) as changes:
            async for change in changes:
                heard(root, change)

    try:
        await box.actor.run(work)
    except BailiwickError as error:
        _log.warning("changes are not told any more", extra={"kind": error.kind})
