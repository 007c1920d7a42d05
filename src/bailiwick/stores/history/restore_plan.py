"""What would have to be done to make a place what it was at a version."""

from __future__ import annotations

from contextlib import closing, suppress

import msgspec

from bailiwick.errors import NotADirectory, PathNotFound, PermissionDenied
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.stores.history.capture import Elsewhere, Looker
from bailiwick.stores.history.lineage import Lineage
from bailiwick.stores.history.own_directories import (
    Around,
    HiddenPlaces,
    OwnDirectories,
    heeds_modes,
    places_around,
)
from bailiwick.stores.history.states import UNKNOWN, PlaceState, is_same
from bailiwick.stores.history.steps import Planned, Step
from bailiwick.versions import Conflict

_NEW_DIRECTORY_MODE = 0o700
"""Of a directory that is made because it is missing above what is restored."""


async def plan_restore(
    lineage: Lineage, looker: Looker, path: ScopedPath, number: int, limits: Limits
) -> Planned:
    """What is known of the place, and of places beneath it, becomes what it was. What never was
    changed through this history is left. Raises `PathNotFound` where nothing is known."""
    targets = _targets(lineage, path, number, limits)
    own = OwnDirectories(lineage.ledger, lineage.since(path, number))
    hidden = HiddenPlaces(looker, own)
    conflicts = await _add_carried(lineage, looker, path, number, targets)
    goes: list[Step] = []
    comes: list[Step] = []
    makes_way = set[ScopedPath]()
    for place, then in targets.items():
        try:
            now = await looker.now(place, then)
        except Elsewhere:
            if makes_way.isdisjoint(place.parents):
                conflicts.append(Conflict(place, "a link stands in the way to it now"))
                continue
            now = None
        except PermissionDenied:
            if refused := await hidden.why_not(_around(looker, place, None, None)):
                conflicts.append(Conflict(place, refused))
                continue
            now = lineage.newest(place)  # it is looked at when the directories around it are open
        if then is not None and then.type == "directory" and now and now.type != "directory":
            makes_way.add(place)
        if is_same(now, then):
            continue
        refused = _refusal(looker, now, then)
        if refused:
            if place == path:
                raise PathNotFound(f"what stood there is not kept: {refused}", path=path)
            conflicts.append(Conflict(place, refused))
            continue
        found_at = None if now is None else place
        around = _around(looker, place, now, then)
        (goes if then is None else comes).append(Step(place, now, then, found_at, around=around))
    if not goes and not comes and not conflicts and targets == {path: None}:
        raise PathNotFound("it did not exist then, nor does it now", path=path)
    goes.sort(key=lambda step: step.path.order, reverse=True)
    comes.sort(key=lambda step: step.path.order)
    above = await _missing_above(looker, path) if comes else []
    return Planned([*goes, *above, *comes], conflicts, own=own)


def _around(
    looker: Looker, place: ScopedPath, now: PlaceState | None, then: PlaceState | None
) -> tuple[Around, ...]:
    if not heeds_modes(looker.inner):
        return ()
    return tuple(Around(each, each, needed) for each, needed in places_around(place, now, then))


def _targets(
    lineage: Lineage, path: ScopedPath, number: int, limits: Limits
) -> dict[ScopedPath, PlaceState | None]:
    known, top = lineage.at(path, number)
    inside = lineage.known_beneath(path, limits.history_entries_max)
    if not known and not inside:
        raise PathNotFound(
            "nothing is kept of it: it was never changed through Bailiwick", path=path
        )
    targets: dict[ScopedPath, PlaceState | None] = {path: top} if known else {}
    holds = not known or (top is not None and top.type == "directory")
    for place in inside:
        is_known, state = lineage.at(place, number)
        if is_known:
            targets[place] = state if holds else None
    for place, then in targets.items():
        if then is not None and then.sha256 is None:
            targets[place] = msgspec.structs.replace(then, sha256=lineage.content(place, then))
    return targets


async def _add_carried(
    lineage: Lineage,
    looker: Looker,
    path: ScopedPath,
    number: int,
    targets: dict[ScopedPath, PlaceState | None],
) -> list[Conflict]:
    """What lies beneath a place since a directory was moved there goes, too: no entry names it.
    What another program put there since is left, which stands against it."""
    conflicts: list[Conflict] = []
    waiting = lineage.came_since(path, number)
    while waiting and len(targets) <= looker.limits.history_entries_max:
        directory, since_ns = waiting.pop()
        with suppress(Elsewhere, NotADirectory, PermissionDenied):
            handle = await looker.place(directory)
            if handle is None:
                continue
            with closing(handle):
                children = await looker.inner.children(handle)
            for child in children.entries:
                place = directory.child(child.name)
                if child.type == "directory":
                    waiting.append((place, since_ns))
                if place in targets:
                    continue
                if child.type != "directory" and child.mtime_ns > since_ns:
                    conflicts.append(Conflict(place, "another program has put it there since"))
                else:
                    targets[place] = None
    return conflicts


def _refusal(looker: Looker, now: PlaceState | None, then: PlaceState | None) -> str:
    """Why a place cannot become what it was; empty where it can."""
    if then is None:
        return ""
    if then is UNKNOWN or then.lost:
        return then.lost
    if then.type != "file" or (now is not None and now.sha256 == then.sha256 is not None):
        return ""
    if then.sha256 is None or not looker.contents.has(then.sha256):
        return "its content was changed by another program before it was kept"
    return ""


async def _missing_above(looker: Looker, path: ScopedPath) -> list[Step]:
    missing: list[Step] = []
    above = path.parent
    while not above.is_root:
        try:
            if await looker.now(above) is not None:
                break
        except (Elsewhere, PermissionDenied):
            break
        made = PlaceState("directory", _NEW_DIRECTORY_MODE, 0, 0)
        around = _around(looker, above, None, made)
        missing.insert(0, Step(above, None, made, around=around))
        above = above.parent
    return missing
