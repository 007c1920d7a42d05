"""Making a change that can be taken back: what stood there is kept, the change is written down, it
is made, and what became of it is added.

Where the first two fail nothing is changed. Where the process dies in between, the entry is settled
by looking: what stands there is what was, or what was to be, or something that nobody can vouch
for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from bailiwick.changes_made import ALL_OF_OWNER, GivenMode, give_modes
from bailiwick.errors import BailiwickError, Closed, InternalError, IoError, PermissionDenied
from bailiwick.finishing import CLOSED, cancel_at_next_await, look_at, to_the_end
from bailiwick.paths import ScopedPath
from bailiwick.stores.history.capture import Allowance, Elsewhere, Looker
from bailiwick.stores.history.ledger import EntryOutcome, FreshEntry, HistoryLedger
from bailiwick.stores.history.states import (
    OPENING,
    SET,
    UNKNOWN,
    WENT,
    Effect,
    PlaceState,
    is_directory,
    is_same,
)
from bailiwick.versions import Mark

Result = TypeVar("Result")

NOBODY: Final = Mark()

_MACHINE: Final = (IoError, Closed, InternalError)
"""Errors after which it is not known how far a change came."""


class ChangeRecorder:
    """Writes down the changes of one store."""

    def __init__(self, ledger: HistoryLedger, looker: Looker) -> None:
        self.ledger: Final = ledger
        self.looker: Final = looker
        self._later: set[asyncio.Task[None]] = set()

    async def record(
        self,
        verb: str,
        mark: Mark,
        effects: Sequence[Effect],
        keeping: Allowance,
        act: Callable[[], Awaitable[Result]],
        outcome: Callable[[Result], Awaitable[EntryOutcome | None]],
        *,
        in_parts: bool = False,
    ) -> Result:
        """Make a change by ``act``; ``outcome`` tells what it left, None that it changed nothing.

        Raises what ``act`` raises, after looking how far it got: one that is not made ``in_parts``
        has not begun when it is refused.
        """
        entry = await self.begin(verb, mark, effects, keeping)
        try:
            result = await act()
        except CLOSED:
            self.settle_later(entry)
            raise
        except BaseException as error:
            await to_the_end(self.give_up(entry, error, in_parts=in_parts))
            raise
        try:
            left = await outcome(result)
        except CLOSED:
            self.settle_later(entry)
            raise
        except BaseException as error:
            # The change is made, whatever becomes of its caller.
            await to_the_end(self.settle(entry))
            if not isinstance(error, asyncio.CancelledError):
                raise
            cancel_at_next_await()
            return result
        if left is None:
            await to_the_end(self.ledger.withdraw(entry))
        else:
            foretold = UNKNOWN not in [each.after for each in effects]
            self.ledger.finish(entry, left, foretold=foretold)
        return result

    async def begin(
        self, verb: str, mark: Mark, effects: Sequence[Effect], keeping: Allowance
    ) -> int:
        """Write down a change. The mark is read now: it may have been added to until here."""
        begun: list[int] = []
        fresh = FreshEntry(
            verb, mark.subject, mark.request_id, effects, keeping.small, keeping.missed
        )
        try:
            return await self.ledger.begin(fresh, begun.append)
        except CLOSED:
            for entry in begun:
                self.settle_later(entry)
            raise

    # --- what became of it -------------------------------------------------------------------

    def settle_later(self, entry: int) -> None:
        """For a coroutine that is closed, and cannot wait. Where its loop has gone as well, the
        next to open the history finds the entry of one who is dead."""
        try:
            task = asyncio.get_running_loop().create_task(self.settle(entry))
        except RuntimeError:
            return
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        task.add_done_callback(look_at)

    async def settled(self) -> None:
        """Wait for what is settled later."""
        while self._later:
            await asyncio.wait(self._later)

    async def settle_dead(self) -> bool:
        """Settle what those left open who are dead by now. Whether others, who live, have changes
        open."""
        owner = self.ledger.owner
        # Sorted here: asked for in order, SQLite goes through all changes that there ever were.
        rows = sorted(self.ledger.entries("WHERE owner <> '' AND owner <> ?", owner.name))
        dead = {name for name in {row.owner for row in rows} if not owner.is_alive(name)}
        gone = [row for row in rows if row.owner in dead]
        opened = [row.id for row in gone if row.verb == OPENING]
        await self.settle_opened(opened, [row.id for row in gone if row.verb != OPENING])
        for name in dead:
            owner.sweep(name)
        return any(row.owner not in dead for row in rows)

    async def give_up(self, entry: int, error: BaseException, *, in_parts: bool = False) -> None:
        """A change failed. A refusal means that nothing was done: looking would take for its work
        what others have done since."""
        refused = isinstance(error, BailiwickError) and not isinstance(error, _MACHINE)
        if refused and not in_parts:
            await self.ledger.withdraw(entry)
        else:
            await self.settle(entry, refused=refused)

    async def settle_opened(self, opened: Sequence[int], entries: Sequence[int]) -> None:
        """Settle entries, and shut the directories that others tell of as ``opened`` for them:
        until then what lies in them can be looked at."""
        shut: dict[ScopedPath, GivenMode] = {}
        for entry in opened:
            for effect in self.ledger.effects(entry):
                given = await self._to_be_shut(effect)
                if given is not None:
                    shut.setdefault(effect.path, given)
        for entry in entries:
            await self.settle(entry, shut)
        order = sorted(shut.values(), key=lambda each: each.path.order, reverse=True)
        await give_modes(self.looker.inner, order)
        for entry in opened:
            await self.ledger.settle(entry, EntryOutcome())

    async def _to_be_shut(self, effect: Effect) -> GivenMode | None:
        """A directory that is open still, with the mode that it gets again, or gets after all where
        it came only now."""
        path, before, after = effect.path, effect.before, effect.after
        try:
            now = await self.looker.now(path)
        except (Elsewhere, PermissionDenied):
            return None
        if now is None or not is_directory(now):
            return None
        for state in (before, after):
            if state is not None and now.mode == state.mode | ALL_OF_OWNER != state.mode:
                return GivenMode(path, now.mode, (before or state).mode)
        return None

    async def settle(
        self, entry: int, shut: Mapping[ScopedPath, GivenMode] = {}, *, refused: bool = False
    ) -> None:
        """Find out what became of a change by looking at the places that it was to touch. Those
        that will be ``shut`` again count as if they were; where it was ``refused``, what stands as
        it did before was not touched, also where it was to become the same."""
        after: dict[int, PlaceState | None] = {}
        dropped: list[int] = []
        effects = self.ledger.numbered_effects(entry)
        moved = {each.path: each.before for _, each in effects if each.kind == WENT}
        for number, effect in effects:
            if effect.kind == SET:
                left = await self._left(effect, shut.get(effect.path), refused=refused)
            else:
                source = effect.path if effect.kind == WENT else effect.other
                left = await self._left_by_move(effect, moved.get(source))
            if left is None:
                dropped.append(number)
            else:
                after[number] = left[0]
        await self.ledger.settle(entry, EntryOutcome(after, dropped))

    async def _left(
        self, effect: Effect, shut: GivenMode | None, *, refused: bool
    ) -> tuple[PlaceState | None] | None:
        """What an effect left; None where it was not made."""
        known = effect.before if effect.after in (None, UNKNOWN) else effect.after
        try:
            now = await self.looker.now(effect.path, known)
        except (Elsewhere, PermissionDenied):
            return (UNKNOWN,)
        if now is not None and shut is not None:
            now = msgspec.structs.replace(now, mode=shut.wanted)
        if refused and is_same(now, effect.before):
            return None
        if is_same(now, effect.after) or _is_new(now, effect):
            return (now,)
        if is_same(now, effect.before):
            return None
        # Nobody can tell whether this is its work, or was done by others since.
        return (UNKNOWN,)

    async def _left_by_move(
        self, effect: Effect, moved: PlaceState | None
    ) -> tuple[PlaceState | None] | None:
        """A move is one step: either the thing is still where it was, or it went. Something else
        may have been made where it was, by the same change or by others."""
        here, there = effect.path, effect.other
        source, destination = (here, there) if effect.kind == WENT else (there, here)
        try:
            stays = await self.looker.now(source, moved)
            came = await self.looker.now(destination)
        except (Elsewhere, PermissionDenied):
            return (UNKNOWN,)
        if stays is not None and moved is not None:
            if came is None or stays.version == moved.version:
                return None
            if not _is_moved(came, moved) or _is_moved(stays, moved):
                return (UNKNOWN,)
        if effect.kind == WENT:
            return (None,)
        return (UNKNOWN if came is None else came,)


def _is_new(now: PlaceState | None, effect: Effect) -> bool:
    """Whether what stands somewhere is the file that was to be made there. Which mode it would get
    was not known beforehand, unless it was asked for."""
    made = effect.after
    return (
        effect.before is None
        and now is not None
        and made is not None
        and now.type == made.type == "file"
        and made.mode == 0
        and made.sha256 is not None
        and made.sha256 == now.sha256
    )


def _is_moved(state: PlaceState, moved: PlaceState) -> bool:
    """Whether what stands somewhere may be what was moved."""
    return state.type == moved.type and state.sha256 == moved.sha256
