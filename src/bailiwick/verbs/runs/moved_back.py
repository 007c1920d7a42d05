"""Directories that go back to where they lay before an agent moved them, with all that lies in
them by now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, closing
from typing import Final, NamedTuple

from bailiwick.call import Call
from bailiwick.errors import NotADirectory, PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Conflict, Touch
from bailiwick.working_copy import Altered

WHOLE_RUN: Final = (
    "this can only be put back with all of the run, or request by request, the last first"
)
TAKEN: Final = (
    "something else stands where it lay: move that away first, or undo all of the run that put it"
    " there, or accept that this lies here"
)
HOMELESS: Final = (
    "the directory that it lay in is gone: make that again first, or undo all of the run that"
    " removed it, or accept that this lies here"
)

_PATHS_BETWEEN_PAUSES: Final = 256
"""After so many paths looked at, others get their turn."""


class MoveBack(NamedTuple):
    """Where a directory lies, and where it lay, with which mode."""

    origin: ScopedPath
    home: ScopedPath
    mode: int

    @property
    def ends(self) -> tuple[ScopedPath, ScopedPath]:
        return self.origin, self.home


class MovedBack(NamedTuple):
    """What moving directories back touches: ``early`` what is moved before anything else happens,
    ``late`` what is altered itself, or lies in what has to come first; and what stands
    ``against`` those that cannot go back, or of which that is not plain."""

    early: list[Touch]
    late: list[Touch]
    against: list[Conflict]


async def moved_back(
    call: Call, moves: Sequence[MoveBack], altered: Sequence[Altered]
) -> MovedBack:
    """Work out moves beside all that is to be ``altered``."""
    gone = {each.path for each in altered if each.type is None}
    made = {each.path for each in altered if each.type == "directory"}
    comes = _held(each.path for each in altered if each.type is not None)
    touched = _held(each.path for each in altered)
    apart = _Apart(moves)
    back = MovedBack([], [], [])
    for move in moves:
        reason: str | None = WHOLE_RUN
        if apart.is_so(move) and not move.home.lies_in(move.origin) and move.home not in comes:
            reason = await _against(call, move.home, made)
        if reason is not None:
            back.against.append(Conflict(move.origin, reason))
            continue
        is_late = move.home.parent in made or move.origin in touched
        touches = back.late if is_late else back.early
        async with aclosing(_beneath(call, move, gone)) as found:
            async for each in found:
                touches.append(each)
                if len(touches) > call.limits.run_paths_max:
                    return MovedBack([], [], [Conflict(each.origin, WHOLE_RUN) for each in moves])
    return back


class _Apart:
    """Tells moves that have nothing to do with each other: no end of another lies in an end of one,
    nor does its home lie in one of theirs."""

    def __init__(self, moves: Sequence[MoveBack]) -> None:
        ends = [end for move in moves for end in move.ends]
        self._ends = Counter(ends)
        self._held = _held(ends)

    def is_so(self, move: MoveBack) -> bool:
        own = Counter(move.ends)
        held = _held(move.ends)
        above = (move.home, *move.home.parents)
        return all(self._ends[place] == own[place] for place in above) and all(
            self._held[end] == held[end] for end in move.ends
        )


def _held(paths: Iterable[ScopedPath]) -> Counter[ScopedPath]:
    """How many of some paths lie in each place, themselves counted."""
    return Counter(place for path in paths for place in (path, *path.parents))


async def _against(call: Call, home: ScopedPath, made: set[ScopedPath]) -> str | None:
    """Why nothing can come to a place: something stands there, or no directory around it does or
    will."""
    try:
        with closing(await unfollowed(call.store, home, parents=home.parent in made)) as entry:
            return None if entry.type is None else TAKEN
    except (NotADirectory, PathNotFound):
        return HOMELESS


async def _beneath(
    call: Call, move: MoveBack, gone: set[ScopedPath]
) -> AsyncGenerator[Touch, None]:
    """The directory and all that lies in it, but for what goes before."""
    store, waiting = call.store, [move.origin]
    count = 0
    while waiting:
        path = waiting.pop()
        count += 1
        if count % _PATHS_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        with closing(await unfollowed(store, path)) as entry:
            if entry.type is None:
                continue
            stat = await store.stat(entry)
            home = path.relative_to(move.origin).beneath(move.home)
            mode = stat.mode & 0o777
            yield Touch(
                home, "moved", stat.type, path, size=stat.size, size_before=stat.size,
                mode=move.mode if path == move.origin else mode, mode_before=mode,
                target=stat.target,
            )  # fmt: skip
            if stat.type == "directory":
                names = [each.name for each in (await store.children(entry)).entries]
                beneath = [path.child(name) for name in reversed(names)]
                waiting += [each for each in beneath if each not in gone]
