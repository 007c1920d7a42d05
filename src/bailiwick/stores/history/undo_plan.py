"""What would have to be done to take some changes back.

The changes are gone through backwards, the newest first, on a picture of the tree: where a place
is what a change left there, it becomes what the change found. Where it is not, someone else has
changed it since; it is a conflict, and nothing that was planned for that place is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

from bailiwick.errors import PermissionDenied
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Child
from bailiwick.stores.history.capture import Elsewhere, Looker
from bailiwick.stores.history.ledger import HistoryEntry, HistoryLedger
from bailiwick.stores.history.moving_places import MovesMade, MovingPlaces
from bailiwick.stores.history.own_directories import (
    Around,
    HiddenPlaces,
    OwnDirectories,
    heeds_modes,
    places_around,
)
from bailiwick.stores.history.states import (
    CAME,
    SET,
    UNKNOWN,
    WENT,
    Effect,
    PlaceState,
    is_directory,
    is_same,
    with_content,
)
from bailiwick.stores.history.steps import Planned, Step
from bailiwick.versions import Conflict, Touch

_SOME_DIRECTORY: Final = PlaceState("directory", 0, 0, 0)


class _Conflicted(Exception):
    """A place cannot be put back, for the reason given."""


class UndoPlanner:
    """Plans the undoing of entries."""

    def __init__(
        self, ledger: HistoryLedger, looker: Looker, entries: Sequence[HistoryEntry]
    ) -> None:
        """``entries`` are given newest first."""
        self._ledger = ledger
        self._looker = looker
        self._entries = entries
        self._own = OwnDirectories(ledger, entries)
        self._hidden = HiddenPlaces(looker, self._own)
        self._heeds = heeds_modes(looker.inner)
        self._steps: list[Step | None] = []
        self._conflicts = MovingPlaces[str]()
        self._moved: list[Touch] = []
        # The picture: what places are by now; the steps planned for each; and moves taken back.
        self._picture = MovingPlaces[PlaceState | None]()
        self._planned = MovingPlaces[list[int]]()
        self._moves = MovesMade()
        self._moved_at = -1

    async def plan(self) -> Planned:
        for entry in self._entries:
            effects = self._ledger.effects(entry.id)
            if entry.missed and effects:
                self._conflicts[effects[-1].path] = (
                    f"{entry.missed} more places were changed than are kept of one change"
                )
            for effect in reversed(effects):
                if effect.path in self._conflicts or effect.kind not in (SET, CAME):
                    continue
                try:
                    if effect.kind == CAME:
                        await self._move_back(effect, _went(effects, effect))
                    else:
                        await self._set_back(effect, times=entry.verb == "set_times")
                except _Conflicted as conflict:
                    self._leave(effect.path, str(conflict))
                except PermissionDenied as error:
                    self._leave(effect.path, f"it could not be looked at: {error}")
        return Planned(
            [step for step in self._steps if step is not None],
            [Conflict(path, reason) for path, reason in self._conflicts.items()],
            frozenset(entry.subject for entry in self._entries),
            tuple(self._moved),
            self._own,
        )

    # --- one effect --------------------------------------------------------------------------

    async def _set_back(self, effect: Effect, *, times: bool) -> None:
        path, before = effect.path, effect.before
        now = await self._current(path, effect.after)
        if effect.after is UNKNOWN:
            raise _Conflicted("the change was interrupted: it is not known what it left there")
        if not is_same(now, effect.after):
            raise _Conflicted(_why(effect, now))
        if before is not None:
            if _is_unread(before) and _is_unread(effect.after):
                before = with_content(before, now)  # only its mode or time was set
            if before is UNKNOWN or before.lost:
                raise _Conflicted(f"what stood there was not kept: {before.lost}")
            if before.type == "file" and not self._is_kept(before, now):
                raise _Conflicted("what stood there is not kept")
            if now is None:
                await self._check_directory_above(path)
        elif now is not None and now.type == "directory":
            await self._check_empty(path)
        self._put(path, now, before, times=times)

    def _is_kept(self, before: PlaceState, now: PlaceState | None) -> bool:
        """Whether the content is kept, or need not be, since it is what stands there."""
        if before.sha256 is None:
            return now is not None and now.type == "file" and now.size == before.size
        return (now is not None and now.sha256 == before.sha256) or self._looker.contents.has(
            before.sha256
        )

    def _put(
        self, path: ScopedPath, now: PlaceState | None, before: PlaceState | None, *, times: bool
    ) -> None:
        """Plan that a place becomes what it was before. Several changes of one are one step."""
        earlier = self._planned.get(path, [])
        if earlier and earlier[-1] > self._moved_at:
            step = self._steps[earlier[-1]]
            assert step is not None
            around = self._around(places_around(path, step.now, before))
            merged = step._replace(then=before, times=step.times or times, around=around)
            if is_same(step.now, before) and not merged.times:
                self._steps[earlier.pop()] = None
            elif _type(step.then) == _type(before):
                self._steps[earlier[-1]] = merged
            else:
                # What lies in a directory that comes or goes has its steps in between.
                self._steps[earlier.pop()] = None
                earlier.append(len(self._steps))
                self._steps.append(merged)
        else:
            is_found = now is not None and not self._is_made(path)
            found_at = self._found_at(path) if is_found else None
            around = self._around(places_around(path, now, before))
            self._add(path, Step(path, now, before, found_at, times=times, around=around))
        self._picture[path] = before

    def _add(self, path: ScopedPath, step: Step) -> None:
        self._planned[path] = [*self._planned.get(path, ()), len(self._steps)]
        self._steps.append(step)

    def _is_made(self, path: ScopedPath) -> bool:
        """Whether what stands at a place on the picture is made by an earlier step."""
        steps = [self._steps[number] for number in self._planned.get(path, [])]
        return any(step is not None and step.origin is None for step in steps)

    def _is_new_directory(self, path: ScopedPath) -> bool:
        """Whether a directory on the picture is none in the tree: all that is in it is planned."""
        steps = [self._steps[number] for number in self._planned.get(path, [])]
        return any(
            step is not None and step.origin is None and not is_directory(step.now)
            for step in steps
        )

    async def _move_back(self, effect: Effect, went: PlaceState | None) -> None:
        """Plan that a thing is moved back, where it is then what it was when it ``went``."""
        here, home, left = effect.path, effect.other, effect.after
        now = await self._current(here, left)
        if left is None or left is UNKNOWN:
            raise _Conflicted("the change was interrupted: it is not known what it left there")
        if now is None or not is_same(now, left):
            raise _Conflicted(_why(effect, now))
        if home.lies_in(here):
            raise _Conflicted("where it belongs lies in it now")
        if await self._current(home, None) is not None:
            raise _Conflicted("something else stands where it was")
        await self._check_directory_above(home)
        found_at = None if self._is_made(here) else self._found_at(here)
        if now.type == "directory" and found_at is not None:
            await self._tell_moved(found_at, here, home)
        self._moved_at = len(self._steps)
        around = (
            *self._around(places_around(here, now, now, moved=True)),
            *self._around(places_around(home, None, now)),
        )
        self._add(here, Step(home, now, now, found_at, origin=here, around=around))
        self._moves.add(here, home)
        self._picture.move(here, home)
        self._planned.move(here, home)
        self._conflicts.move(here, home)
        self._picture[here] = None
        self._picture[home] = now if went is None else with_content(went, now)

    async def _tell_moved(self, found_at: ScopedPath, here: ScopedPath, home: ScopedPath) -> None:
        for path, state in (await self._looker.states_beneath(found_at))[1:]:
            inside = path.relative_to(found_at)
            self._moved.append(
                Touch(
                    inside.beneath(home), "moved", state.type, origin=inside.beneath(here),
                    size=state.size, size_before=state.size, beneath=True, mode=state.mode,
                    mode_before=state.mode, target=state.target,
                )
            )  # fmt: skip

    def _leave(self, path: ScopedPath, reason: str) -> None:
        """Leave a place as it is now: nothing that was planned for it is done."""
        self._conflicts[path] = reason
        for number in self._planned.pop(path, []):
            step = self._steps[number]
            # What lies in a directory counts on its being moved, so that is done all the same.
            if step is not None and not (step.origin is not None and is_directory(step.now)):
                self._steps[number] = None
        self._picture.pop(path, None)

    # --- the picture -------------------------------------------------------------------------

    async def _current(
        self, path: ScopedPath, known: PlaceState | None, hidden: PlaceState | None = None
    ) -> PlaceState | None:
        """What stands at a place on the picture. What cannot be looked at before the directories
        around it are open is taken to be what is ``known``, or what is ``hidden`` there: it is
        looked at then."""
        if path in self._picture:
            return self._picture[path]
        above = path.parent
        while not above.is_root:
            if above in self._picture and (
                not is_directory(self._picture[above]) or self._is_new_directory(above)
            ):
                return None
            above = above.parent
        found_at = self._found_at(path)
        if found_at is None:
            return None
        try:
            return await self._looker.now(found_at, known)
        except Elsewhere:
            raise _Conflicted("a link stands in the way to it now") from None
        except PermissionDenied:
            await self._check_opened(places_around(path, None, None))
            return hidden or known

    def _around(self, places: Iterable[tuple[ScopedPath, int]]) -> tuple[Around, ...]:
        if not self._heeds:
            return ()
        found = ((self._found_at(path), path, needed) for path, needed in places)
        return tuple(Around(each, path, needed) for each, path, needed in found if each is not None)

    async def _check_opened(self, places: Iterable[tuple[ScopedPath, int]]) -> None:
        """Directories will be open by then, or others have shut them."""
        if refused := await self._hidden.why_not(self._around(places)):
            raise _Conflicted(refused)

    def _found_at(self, path: ScopedPath) -> ScopedPath | None:
        """Where a place of the picture is in the tree as it stands: moves are not made yet."""
        return self._moves.before(path)

    async def _check_directory_above(self, path: ScopedPath) -> None:
        above = path.parent
        if above.is_root:
            return
        state = await self._current(above, None, hidden=_SOME_DIRECTORY)
        if state is None or state.type != "directory":
            raise _Conflicted("its directory is gone")

    async def _check_empty(self, path: ScopedPath) -> None:
        """A directory that is to go must hold nothing on the picture by then."""
        for place in self._picture.inside(path):
            if self._picture[place] is not None:
                raise _Conflicted("it holds something that was not there when it was made")
        found_at = None if self._is_made(path) else self._found_at(path)
        try:
            children = () if found_at is None else await self._children(found_at)
        except PermissionDenied:
            await self._check_opened(places_around(path, _SOME_DIRECTORY, None))
            return  # it does not go then if it holds anything
        for child in children:
            inside = path.child(child.name)
            if self._picture.get(inside, UNKNOWN) is not None:
                raise _Conflicted("it holds something that was not there when it was made")

    async def _children(self, directory: ScopedPath) -> Sequence[Child]:
        handle = await self._looker.place(directory)
        if handle is None:
            return ()
        with closing(handle):
            if handle.type != "directory":
                return ()
            return (await self._looker.inner.children(handle)).entries


def _type(state: PlaceState | None) -> EntryType | None:
    return None if state is None else state.type


def _is_unread(state: PlaceState | None) -> bool:
    return state is not None and state.type == "file" and state.sha256 is None


def _went(effects: Sequence[Effect], came: Effect) -> PlaceState | None:
    """What was moved, as it was where it came from."""
    for effect in effects:
        if effect.kind == WENT and (effect.path, effect.other) == (came.other, came.path):
            return effect.before
    return None


def _why(effect: Effect, now: PlaceState | None) -> str:
    if now is None:
        return "it is gone"
    if effect.after is None:
        return "something else stands there now"
    return "it was changed since"
