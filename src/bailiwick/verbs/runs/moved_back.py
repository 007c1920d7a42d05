"""Directories that go back to where they lay before an agent moved them, with all that lies in
them by now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, closing
from typing import Final, NamedTuple

from bailiwick.call import Call
from bailiwick.errors import NotADirectory, PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Touch
from bailiwick.working_copy import Altered

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
    ``late`` what is altered itself, or lies in what has to come first; and those ``blocked``, of
    which it is not plain that they can go back."""

    early: list[Touch]
    late: list[Touch]
    blocked: list[ScopedPath]


async def moved_back(
    call: Call, moves: Sequence[MoveBack], altered: Sequence[Altered]
) -> MovedBack:
    """Work out moves beside all that is to be ``altered``."""
    gone = {each.path for each in altered if each.type is None}
    made = {each.path for each in altered if each.type == "directory"}
    back = MovedBack([], [], [])
    for move in moves:
        ends = [end for other in moves if other is not move for end in other.ends]
        comes = [each.path for each in altered if each.type is not None]
        is_apart = not any(map(move.home.lies_in, ends)) and not any(
            each.lies_in(move.home) or each.lies_in(move.origin) for each in ends
        )
        if (
            not is_apart
            or move.home.lies_in(move.origin)
            or any(each.lies_in(move.home) for each in comes)
            or not await _is_free(call, move.home, made)
        ):
            back.blocked.append(move.origin)
            continue
        is_late = move.home.parent in made or any(
            each.path.lies_in(move.origin) for each in altered
        )
        touches = back.late if is_late else back.early
        async with aclosing(_beneath(call, move, gone)) as found:
            async for each in found:
                touches.append(each)
                if len(touches) > call.limits.run_paths_max:
                    return MovedBack([], [], [each.origin for each in moves])
    return back


async def _is_free(call: Call, home: ScopedPath, made: set[ScopedPath]) -> bool:
    """Whether nothing stands there, in a directory that does or will."""
    try:
        with closing(await unfollowed(call.store, home, parents=home.parent in made)) as entry:
            return entry.type is None
    except (NotADirectory, PathNotFound):
        return False


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
