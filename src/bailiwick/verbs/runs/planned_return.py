"""What is to come of places when something is taken back there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from bailiwick.paths import ScopedPath
from bailiwick.verbs.runs.displaced_things import Displaced
from bailiwick.verbs.runs.moved_back import WHOLE_RUN, MoveBack
from bailiwick.verbs.runs.story_contents import StoryContent
from bailiwick.versions import Conflict
from bailiwick.working_copy import Altered, Base

_PLACES_IN_TURN_MAX: Final = 100
"""Moves to where others lay that are taken back one after the other."""


class PlannedReturn:
    """What is to come of places, with the bytes of files; directories that go back to where they
    lay, with all that lies in them; what comes ``afterwards``, where one of those has left; and
    what stands against it."""

    def __init__(self) -> None:
        self.altered: list[Altered] = []
        self.contents: dict[ScopedPath, bytes] = {}
        self.moves: list[MoveBack] = []
        self.conflicts: list[Conflict] = []
        self.after: dict[ScopedPath, int] = {}
        """How many others have to be in their places before one comes where another stands."""
        self.afterwards: list[Altered] = []
        self._again: dict[ScopedPath, Altered] = {}
        self._homes: dict[ScopedPath, ScopedPath] = {}
        self._left: dict[ScopedPath, int] = {}
        self._span = (0, 0)
        self._spans: dict[ScopedPath, tuple[int, int]] = {}

    def tell_of(self, first: str, last: str) -> None:
        """What follows is about something that was touched by some versions."""
        self._span = int(first or 0), int(last or 0)

    def alter(self, altered: Altered) -> None:
        self.altered.append(altered)
        self._spans[altered.path] = self._span

    def goes_home(self, now: StoryContent, home: ScopedPath | None) -> None:
        """Have something leave where it stands: it comes to its ``home``, if it has one."""
        self.alter(Altered(now.path, None, base_of(now)))
        if home is not None:
            self._homes[now.path] = home

    def come_again(self, replaced: Displaced | None, contents: Mapping[str, bytes]) -> None:
        """Have that stand again which went where something was moved to, which now leaves."""
        if replaced is None:
            return
        self._left[replaced.path] = replaced.version
        for each in (replaced, *replaced.inside):
            self._come_again(each.path, each.stood, contents)

    def _come_again(
        self, path: ScopedPath, stood: StoryContent | None, contents: Mapping[str, bytes]
    ) -> None:
        data = None if stood is None or stood.sha256 is None else contents.get(stood.sha256)
        if stood is None or (stood.type == "file" and data is None):
            self.conflicts.append(Conflict(path, WHOLE_RUN))
            return
        self._again[path] = _coming(path, stood, data)
        if data is not None:
            self.contents.setdefault(path, data)

    def settle(self) -> None:
        """Put it in order: of a place at which something goes and something comes one thing is
        told."""
        self._set_apart()
        settled: dict[ScopedPath, Altered] = {}
        for each in (*self.altered, *self._again.values()):
            other = settled.setdefault(each.path, each)
            if other is each:
                continue
            comes, goes = (each, other) if other.type is None else (other, each)
            if comes.type is None or goes.type is not None or comes.base is not None:
                self.conflicts.append(Conflict(each.path, WHOLE_RUN))
            settled[each.path] = comes._replace(base=goes.base)
            self.after[each.path] = 0
        for path in self.after:
            self.after[path] = self._awaited(path)
        ends = {end for move in self.moves for end in move.ends}
        self.conflicts += [Conflict(path, WHOLE_RUN) for path in self._again.keys() & ends]
        self.altered = sorted(settled.values(), key=lambda each: each.path.order)
        twice = {each.path for each in self.altered if each.type is not None}
        twice &= {each.path for each in self.afterwards}
        self.conflicts += [Conflict(path, WHOLE_RUN) for path in twice]

    def _set_apart(self) -> None:
        """What lay where a directory was moved to lies there again when that has left: also what is
        told by itself, if all of its story was before the move."""
        ends = {move.origin for move in self.moves}
        left = {path: version for path, version in self._left.items() if path in ends}
        afterwards: dict[ScopedPath, Altered] = {}
        for each in [*self.altered, *self._again.values()] if left else []:
            above = (each.path, *each.path.parents)
            moved = next((left[place] for place in above if place in left), None)
            if moved is None or each.type is None or each.base is not None:
                continue
            is_again = self._again.get(each.path) is each
            first, last = (0, 0) if is_again else self._spans[each.path]
            if first > moved:
                continue  # it lies in what leaves
            if last >= moved or each.path in afterwards:
                self.conflicts.append(Conflict(each.path, WHOLE_RUN))
            afterwards[each.path] = each
            (self._again.pop(each.path) if is_again else self.altered.remove(each))
        self.afterwards = sorted(afterwards.values(), key=lambda each: each.path.order)

    def _awaited(self, path: ScopedPath) -> int:
        """How many places have to be changed first, one after the other, so that what leaves one is
        always somewhere. Where that goes round nothing can be first."""
        home, count = self._homes.get(path), 0
        while home in self.after:
            home, count = self._homes.get(home), count + 1
            if home == path or count > _PLACES_IN_TURN_MAX:
                self.conflicts.append(Conflict(path, WHOLE_RUN))
                break
        return count

    @property
    def anew(self) -> dict[ScopedPath, None]:
        """What comes where nothing stands: also where its directory has gone."""
        comes = (each for each in self.altered if each.base is None and each.type is not None)
        return {each.path: None for each in comes}


def return_text(
    planned: PlannedReturn,
    home: ScopedPath,
    before: StoryContent | None,
    now: StoryContent | None,
    data: bytes | None,
    mode: int | None = None,
) -> None:
    """Have a text stand at ``home``, where ``before`` stood: None is none of its lines, which is no
    file where there was none. It has the ``mode`` that is given, or the one that it has now."""
    gone, data = before is None and data is None, data or b""
    if now is None:
        if before is not None:
            come(planned, home, before.mode, data)
    elif gone:
        planned.goes_home(now, None)
    elif home != now.path:
        planned.goes_home(now, home)
        come(planned, home, now.mode if mode is None else mode, data)
    elif data != now.data or mode not in (None, now.mode):
        come(planned, now.path, now.mode if mode is None else mode, data, base_of(now))


def return_whole(
    planned: PlannedReturn,
    path: ScopedPath,
    before: StoryContent | None,
    now: StoryContent | None,
    contents: Mapping[str, bytes],
) -> None:
    """Have what stood there before stand there again."""
    data = None if before is None or before.sha256 is None else contents.get(before.sha256)
    unfit = before is not None and before.type == "file" and data is None
    moved = before is not None and now is not None and before.path != now.path
    if unfit:
        planned.conflicts.append(Conflict(path, WHOLE_RUN))
        return
    if before is not None and now is not None and moved and before.type == "directory":
        planned.moves.append(MoveBack(now.path, before.path, before.mode))
        return
    base = None if now is None else base_of(now)
    if now is not None and (before is None or moved):
        planned.goes_home(now, None if before is None else before.path)
        base = None
    if before is None:
        return
    if data is not None:
        come(planned, before.path, before.mode, data, base)
    else:
        planned.alter(Altered(before.path, before.type, base, before.mode, target=before.target))


def come(
    planned: PlannedReturn, path: ScopedPath, mode: int, data: bytes, base: Base | None = None
) -> None:
    digest = hashlib.sha256(data).hexdigest()
    planned.contents[path] = data
    planned.alter(Altered(path, "file", base, mode, len(data), digest))


def _coming(path: ScopedPath, stood: StoryContent, data: bytes | None) -> Altered:
    """What stood somewhere, as something that comes there."""
    size = 0 if data is None else len(data)
    return Altered(path, stood.type, None, stood.mode, size, stood.sha256, stood.target)


def base_of(now: StoryContent) -> Base:
    return Base(now.type, now.version, now.size, now.mode)
