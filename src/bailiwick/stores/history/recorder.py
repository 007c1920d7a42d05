"""Making a change that can be taken back: what stood there is kept, the change is written down, it
is made, and what became of it is added.

Where the first two fail nothing is changed. Where the process dies in between, the entry is settled
by looking: what stands there is what was, or what was to be, or something that nobody can vouch
for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from bailiwick.errors import BailiwickError, Closed, InternalError, IoError
from bailiwick.finishing import CLOSED, cancel_at_next_await, look_at, to_the_end
from bailiwick.stores.history.capture import Allowance, Elsewhere, Looker
from bailiwick.stores.history.ledger import EntryOutcome, FreshEntry, HistoryLedger
from bailiwick.stores.history.states import SET, UNKNOWN, WENT, Effect, PlaceState, is_same
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
        for row in rows:
            if row.owner in dead:
                await self.settle(row.id)
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
            await self.settle(entry)

    async def settle(self, entry: int) -> None:
        """Find out what became of a change by looking at the places that it was to touch."""
        after: dict[int, PlaceState | None] = {}
        dropped: list[int] = []
        effects = self.ledger.numbered_effects(entry)
        moved = {each.path: each.before for _, each in effects if each.kind == WENT}
        for number, effect in effects:
            if effect.kind == SET:
                left = await self._left(effect)
            else:
                source = effect.path if effect.kind == WENT else effect.other
                left = await self._left_by_move(effect, moved.get(source))
            if left is None:
                dropped.append(number)
            else:
                after[number] = left[0]
        await self.ledger.settle(entry, EntryOutcome(after, dropped))

    async def _left(self, effect: Effect) -> tuple[PlaceState | None] | None:
        """What an effect left; None where it was not made."""
        known = effect.before if effect.after in (None, UNKNOWN) else effect.after
        try:
            now = await self.looker.now(effect.path, known)
        except Elsewhere:
            return (UNKNOWN,)
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
        except Elsewhere:
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
