"""Directories that are open while something in them is taken back, which their modes would keep out
or in.

Which they are is written down before. Where that fails, or the process dies meanwhile, whoever
settles it shuts them again: those that were there as they were, so that the rest can still be taken
back, and those that came with the mode that they came with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import msgspec

from bailiwick.changes_made import ALL_OF_OWNER, OpenedAround, mode_but_for_others
from bailiwick.errors import PermissionDenied
from bailiwick.paths import ScopedPath
from bailiwick.stores.history.capture import Allowance, Elsewhere, Looker
from bailiwick.stores.history.ledger import EntryOutcome
from bailiwick.stores.history.moving_places import MovingPlaces
from bailiwick.stores.history.own_directories import (
    OwnDirectories,
    heeds_modes,
    told_shut,
)
from bailiwick.stores.history.recorder import ChangeRecorder
from bailiwick.stores.history.states import OPENED, OPENING, Effect, PlaceState, is_directory
from bailiwick.stores.history.steps import Planned, Step
from bailiwick.versions import Mark

_Move = tuple[int, ScopedPath, ScopedPath]


class _Way(NamedTuple):
    """What a directory must allow, and what it was called when it was changed."""

    needed: int
    names: frozenset[ScopedPath]


class Openings:
    """The directories that are open while steps are done."""

    def __init__(self, looker: Looker, recorder: ChangeRecorder, mark: Mark) -> None:
        self._looker = looker
        self._recorder = recorder
        self._mark = mark
        self._heeds = heeds_modes(looker.inner)
        self._around = OpenedAround(looker.inner)
        self._modes = MovingPlaces[int]()  # which each gets in the end, by where it is by now
        self._refused: dict[ScopedPath, int] = {}
        self.begun: Final[list[int]] = []
        """The entries that tell of them."""

    async def open(self, planned: Planned) -> None:
        """One that lies in another can only be looked at when that is open."""
        if not self._heeds:
            return
        steps = planned.steps
        moves = [(at, x.origin, x.path) for at, x in enumerate(steps) if x.origin is not None]
        ways = _ways(steps)
        coming = list(_left_shut(steps, moves))
        while True:
            shut, hidden = await self._shut(ways, planned.own)
            rows = [
                Effect(place, state, state, OPENED)
                for path, state in shut.items()
                for place in _places(path, moves)
            ]
            if rows or coming:
                keeping = Allowance(self._looker.limits)
                rows += coming
                self.begun.append(await self._recorder.begin(OPENING, self._mark, rows, keeping))
            if not shut:
                return
            modes = {path: state.mode for path, state in shut.items()}
            for path, mode in modes.items():
                self._modes[path] = mode
            await self._around.open(modes)
            ways = {path: ways[path] for path in hidden}
            coming = []

    async def _shut(
        self, ways: Mapping[ScopedPath, _Way], own: OwnDirectories | None
    ) -> tuple[dict[ScopedPath, PlaceState], list[ScopedPath]]:
        """Those that are in the way and may be opened, and those that cannot be looked at yet."""
        shut: dict[ScopedPath, PlaceState] = {}
        hidden: list[ScopedPath] = []
        for path in sorted(ways, key=lambda each: each.order):
            try:
                state = await self._now(path)
            except Elsewhere:
                continue
            except PermissionDenied:
                hidden.append(path)
                continue
            needed, names = ways[path]
            if state is None or not is_directory(state) or state.mode & needed == needed:
                continue
            if own is not None and state.mode in map(own.mode, names):
                shut[path] = state
            else:
                self._refused[path] = state.mode
        return shut, hidden

    async def _now(self, path: ScopedPath) -> PlaceState | None:
        """What stands there, with the mode that it gets again from others who have opened it."""
        state = await self._looker.now(path)
        if state is None or not is_directory(state):
            return state
        handle = await self._looker.place(path)
        if handle is None:
            return None
        with closing(handle):
            mode = await mode_but_for_others(self._looker.inner, handle)
        return msgspec.structs.replace(state, mode=mode)

    # --- while they are open -----------------------------------------------------------------

    def as_shut(self, path: ScopedPath, state: PlaceState | None) -> PlaceState | None:
        """What stands at a path, with the mode that it has but for us."""
        mode = self._modes.get(path)
        if state is None or mode is None or state.mode != mode | ALL_OF_OWNER:
            return state
        return msgspec.structs.replace(state, mode=mode) if is_directory(state) else state

    def opened(self, path: ScopedPath, state: PlaceState) -> int:
        """The mode that something gets which is to stand at a path: a directory that would keep
        others out is open until the end."""
        if not self._heeds or not is_directory(state):
            return state.mode
        if path not in self._modes and state.mode & ALL_OF_OWNER == ALL_OF_OWNER:
            return state.mode
        self._modes[path] = state.mode
        return state.mode | ALL_OF_OWNER

    def gone(self, path: ScopedPath) -> None:
        self._modes.pop(path, None)

    def moved(self, here: ScopedPath, there: ScopedPath) -> None:
        self._modes.move(here, there)

    def why(self, step: Step) -> str | None:
        """Why a step was refused, where that is for a directory which others have shut."""
        for each in step.around:
            if each.path in self._refused:
                return told_shut(each.path, self._refused[each.path])
        return None

    def let_go(self) -> None:
        """Whoever settles it shuts them, unless others have them open."""
        self._around.release()

    async def close(self, *, in_vain: bool) -> None:
        """``in_vain`` is where nothing was done meanwhile."""
        order = sorted(self._modes.items(), key=lambda each: each[0].order)
        await self._around.close(dict(order))
        for entry in self.begun:
            if in_vain:
                await self._recorder.ledger.withdraw(entry)
            else:
                await self._recorder.ledger.settle(entry, EntryOutcome())


def _ways(steps: Sequence[Step]) -> dict[ScopedPath, _Way]:
    found: dict[ScopedPath, _Way] = {}
    for step in steps:
        for path, named, needed in step.around:
            known = found.get(path, _Way(0, frozenset()))
            found[path] = _Way(needed | known.needed, known.names | {named})
    return found


def _left_shut(steps: Sequence[Step], moves: Sequence[_Move]) -> Iterator[Effect]:
    """Directories that steps leave with a mode which would keep later ones out. One that was there
    before the first of them is told with the mode that it had then."""
    found = MovingPlaces[PlaceState | None]()
    for at, step in enumerate(steps):
        path, now, then = step.path, step.now, step.then
        if step.origin is not None:
            found.move(step.origin, path)
        if path not in found:
            found[path] = now if is_directory(now) else None
        if then is not None and is_directory(then) and then.mode & ALL_OF_OWNER != ALL_OF_OWNER:
            for place in _places(path, [each for each in moves if each[0] > at]):
                yield Effect(place, found[path], then, OPENED)


def _places(path: ScopedPath, moves: Sequence[_Move]) -> list[ScopedPath]:
    """Where a directory is, and where moves lead it."""
    found = [path]
    for _, here, there in moves:
        if found[-1].lies_in(here):
            found.append(found[-1].relative_to(here).beneath(there))
    return found
