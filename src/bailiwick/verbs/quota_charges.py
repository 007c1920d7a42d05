"""What a change adds to a root or takes away from it, where there are quotas.

Whoever changes what is counted first waits for their turn at the place. From then on no other call
of this process changes what stands there, so that it can be looked at and charged for. What another
process does in that instant is found out by what the store says it has replaced.
"""

from __future__ import annotations

from contextlib import closing, suppress

from bailiwick.call import Call
from bailiwick.errors import NotADirectory, PathNotFound
from bailiwick.meter import NOTHING, Amount
from bailiwick.model import Stat
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Written
from bailiwick.verbs.walks.tree_size import measure_in


async def reserve(call: Call, entry: Handle, size: int, *, onto: bool = False) -> None:
    """Take the turn and charge a file of ``size`` bytes in place of what stands there; ``onto``
    that, it is added to it instead."""
    await call.take_turn(entry.path)
    standing = await _standing_size(call, entry)
    if standing is None:
        await call.account(size, 1)
    else:
        await call.account(size if onto else size - standing, 0)


class StreamCost:
    """Counts a stream while it comes: nobody knows its size before, and none may pass the bound.

    What it replaces makes room for as much: as far as that still stands there at its end.
    """

    def __init__(self, call: Call, entry: Handle) -> None:
        self._call = call
        self._entry = entry
        self._standing: int | None = None
        self._size = 0

    async def begin(self) -> None:
        self._standing = await _standing_size(self._call, self._entry)
        await self._call.account(0, self._standing is None)

    async def add(self, size: int) -> None:
        self._size += size
        await self._call.account(self._more, 0)

    async def end(self) -> None:
        call, entry = self._call, self._entry
        await call.take_turn(entry.path)
        self._standing = await _standing_size(call, entry)
        await call.account(self._more, (self._standing is None) - _charged(call).files)

    @property
    def _more(self) -> int:
        """What has come beyond what is charged for."""
        return self._size - (self._standing or 0) - _charged(self._call).size


def settle_written(call: Call, entry: Handle, written: Written) -> None:
    """Note what a write has really added."""
    before = written.size_before
    if before is None:
        before = 0 if written.created else entry.size
    call.added = Amount(written.size - before, int(written.created))


async def reserve_copy(call: Call, source: Handle, destination: Handle) -> None:
    """Take the turn at both ends and charge a copy of what stands at ``source``."""
    await call.take_turn(source.path, destination.path)
    size, files = await _content_of(call, source)
    replaced = await _standing_size(call, destination)
    await call.account(*(size, files) if replaced is None else (size - replaced, 0))


async def count_removal(call: Call, entry: Handle) -> None:
    """Take the turn, and note what will be gone. The removal of a tree may end halfway: what is
    gone then is found out by what still stands."""
    await call.take_turn(entry.path)
    before = await _content_of(call, entry)
    call.added = Amount(-before.size, -before.files)

    async def gone() -> Amount:
        left = NOTHING
        with suppress(PathNotFound):  # all of it is gone, and what failed came after that
            left = await _content_of_directory(call, entry.path)
        # Others may have put something there meanwhile, which is not added by this.
        return Amount(min(left.size - before.size, 0), min(left.files - before.files, 0))

    if entry.type == "directory":
        call.added_so_far = gone


async def count_move(call: Call, source: Handle, destination: Handle) -> None:
    """Take the turn at both ends, and note what will be replaced."""
    await call.take_turn(source.path, destination.path)
    replaced = await _standing_size(call, destination)
    if replaced is not None:
        call.added = Amount(-replaced, -1)


async def _standing_size(call: Call, entry: Handle) -> int | None:
    """How much the file holds that stands there now; None for anything else, and for nothing."""
    stat = await _standing(call, entry)
    return stat.size if stat is not None and stat.type == "file" else None


async def _content_of(call: Call, handle: Handle) -> Amount:
    """How much there is now at a handle and beneath it."""
    stat = await _standing(call, handle)
    if stat is not None and stat.type == "file":
        return Amount(stat.size, 1)
    if stat is None or stat.type != "directory":
        return NOTHING
    return await _content_of_directory(call, handle.path)


async def _content_of_directory(call: Call, path: ScopedPath) -> Amount:
    with closing(await call.store.resolve(path, "object")) as top:
        if top.path != path or top.type != "directory":
            return NOTHING  # it is another one by now, which is not what will be changed
        return Amount(*await measure_in(call.store, top))


async def _standing(call: Call, handle: Handle) -> Stat | None:
    try:
        return await call.store.stat(handle)
    except (PathNotFound, NotADirectory):
        return None


def _charged(call: Call) -> Amount:
    return call.charged or NOTHING
