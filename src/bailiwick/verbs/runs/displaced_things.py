"""What stood where something was moved to, and went."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from bailiwick.paths import ScopedPath
from bailiwick.verbs.runs.former_things import before_what_left
from bailiwick.verbs.runs.story_contents import StoryContent, differs
from bailiwick.versions import Past, TellsBeneath, Version

_PAGE: Final = 500

IsOurs = Callable[[Version], bool]


class Displaced(NamedTuple):
    """Something of others that stood at a ``path`` to which a ``version`` has moved a thing;
    ``stood`` is None where what they had there cannot be told apart from what the run had. Of a
    directory, ``inside`` is what lay in it and is told nowhere else, since what came has something
    of the same name."""

    path: ScopedPath
    stood: StoryContent | None
    version: int
    inside: tuple[Displaced, ...] = ()


class _WhatStood(Protocol):
    """What is needed of who tells the stories of paths."""

    async def stood(self, version: Version) -> StoryContent | None: ...
    async def stood_before(self, version: Version) -> StoryContent | None: ...
    async def versions(self, path: ScopedPath) -> list[Version]: ...
    async def stands(self, path: ScopedPath) -> bool: ...


class DisplacedThings:
    """Finds what moves of a run, or of agents, have displaced. Not more than ``most`` versions are
    looked through for what lay in a directory."""

    def __init__(self, telling: _WhatStood, looking: Past, is_ours: IsOurs, most: int) -> None:
        self._telling = telling
        self._looking = looking
        self._is_ours = is_ours
        self._most = most

    async def by(self, move: Version, place: ScopedPath) -> Displaced | None:
        """What of others stood where a thing was moved to, which lies at a ``place`` by now, and
        went: by the move itself, or because the same had removed it before, to make room."""
        found = await self._at(move, place)
        if found is None or found.stood is None or move.type != "directory":
            return found
        if found.stood.type != "directory":
            return found
        paths = await self._touched_in(move, place)
        if paths is None:
            return found._replace(stood=None)
        inside = []
        for path in paths:
            lies = path.relative_to(move.path).beneath(place)
            each = await self._at(msgspec.structs.replace(move, path=path), lies)
            if each is not None and not await self._is_told(path, move, lies):
                inside.append(each)
        return found._replace(inside=tuple(inside))

    async def _touched_in(self, move: Version, place: ScopedPath) -> list[ScopedPath] | None:
        """Where the same have removed something in what stood there; None where too much has
        happened to tell."""
        if not isinstance(self._looking, TellsBeneath):
            return None
        found: set[ScopedPath] = set()
        for top in dict.fromkeys((move.path, place)):
            cursor, seen = None, 0
            while True:
                page = await self._looking.beneath(top, cursor=cursor, limit=_PAGE)
                found |= {
                    each.path
                    for each in page.versions
                    if each.kind == "deleted" and self._is_ours(each)
                    and int(each.version) < int(move.version)
                    and each.path != move.path and each.path.lies_in(move.path)
                }  # fmt: skip
                cursor, seen = page.next_cursor, seen + len(page.versions)
                if cursor is None:
                    break
                if seen > self._most:
                    return None
        return sorted(found, key=lambda path: path.order)

    async def _is_told(self, path: ScopedPath, move: Version, lies: ScopedPath) -> bool:
        """Whether what went from a path is told as what stood there last, and does no longer."""
        if await self._telling.stands(lies):
            return False  # by others, before there was a history: it has no versions
        told = await self._telling.versions(lies)
        return any(each.path == path and int(each.version) < int(move.version) for each in told)

    async def _at(self, move: Version, place: ScopedPath) -> Displaced | None:
        is_ours, number = self._is_ours, int(move.version)
        here, more = await self._here_before(move, place)
        stood = await self._telling.stood_before(move)
        if stood is None and here and here[0].kind == "moved":
            here = before_what_left(move.path, here)
        if stood is None and not (here and here[0].kind == "deleted" and is_ours(here[0])):
            return None
        ours = list(itertools.takewhile(is_ours, here))
        if len(ours) == len(here) and ours and not more and ours[-1].kind == "created":
            return None
        is_mixed = any(map(is_ours, here[len(ours) :]))
        if ours:
            first = await self._telling.stood_before(ours[-1])
            if first is None:
                return None
            if not differs(first, stood) and await self._is_later(stood, ours[0]):
                return Displaced(place, stood, number)
            # What was moved there in between has gone, too: its own place is elsewhere.
            is_mixed |= any(each.kind == "moved" for each in ours)
            stood = first
        return Displaced(place, None if is_mixed else stood, number)

    async def _here_before(self, move: Version, place: ScopedPath) -> tuple[list[Version], bool]:
        """What happened before a move where it led to, newest first, and whether there is more. A
        volume tells it where the directory lies by now."""
        for path in dict.fromkeys((move.path, place)):
            page = await self._looking.history(path, before=move.version, limit=_PAGE)
            here = [each for each in page.versions if each.path == move.path]
            if here or page.more:
                return here, page.more
        return [], False

    async def _is_later(self, stood: StoryContent | None, version: Version) -> bool:
        """Whether others have put something where a version left something else."""
        left = await self._telling.stood(version)
        return stood is not None and (left is None or stood.version != left.version)
