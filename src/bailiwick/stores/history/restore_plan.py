"""What would have to be done to make a place what it was at a version."""

from __future__ import annotations

import msgspec

from bailiwick.errors import PathNotFound
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.stores.history.capture import Elsewhere, Looker
from bailiwick.stores.history.lineage import Lineage
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
    conflicts: list[Conflict] = []
    goes: list[Step] = []
    comes: list[Step] = []
    for place, then in targets.items():
        try:
            now = await looker.now(place, then)
        except Elsewhere:
            conflicts.append(Conflict(place, "a link stands in the way to it now"))
            continue
        if is_same(now, then):
            continue
        refused = _refusal(looker, now, then)
        if refused:
            if place == path:
                raise PathNotFound(f"what stood there is not kept: {refused}", path=path)
            conflicts.append(Conflict(place, refused))
            continue
        found_at = None if now is None else place
        (goes if then is None else comes).append(Step(place, now, then, found_at))
    if not goes and not comes and not conflicts and targets == {path: None}:
        raise PathNotFound("it did not exist then, nor does it now", path=path)
    goes.sort(key=lambda step: step.path.order, reverse=True)
    comes.sort(key=lambda step: step.path.order)
    above = await _missing_above(looker, path) if comes else []
    return Planned([*goes, *above, *comes], conflicts)


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
        except Elsewhere:
            break
        made = PlaceState("directory", _NEW_DIRECTORY_MODE, 0, 0)
        missing.insert(0, Step(above, None, made))
        above = above.parent
    return missing
