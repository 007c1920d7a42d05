"""The files of a tree that a store surveyed as a whole, in the order and under the rules of a walk.

Where a store tells of all directories at once (`Surveys`), each file costs a walk of its own far
more than it costs here: names are compared with rules where there are any, and put in order.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import NamedTuple

from bailiwick.paths import ScopedPath
from bailiwick.search.ignore import IgnoreLevel
from bailiwick.store import Surveyed

_NAMES_BETWEEN_PAUSES = 2_048
"""After so many names other tasks get their turn: a millisecond where there are rules."""


class FilesInRow(NamedTuple):
    """Files of one directory between two of the directories in it."""

    directory: ScopedPath
    names: list[str]
    surveyed: Surveyed


class Rules(NamedTuple):
    """What is ignored: the names of ignore files, and what holds in a directory that has one."""

    names: Collection[str]
    level: Callable[[ScopedPath], Awaitable[IgnoreLevel]]


class _SurveyedLevel:
    """A directory that is gone through."""

    def __init__(self, path: ScopedPath, surveyed: Surveyed, rules: IgnoreLevel | None) -> None:
        files, directories = surveyed.files, surveyed.directories
        if rules is not None and rules.silent:
            files = [name for name in files if name != ".git"] if ".git" in files else files
            directories = [name for name in directories if name != ".git"]
        elif rules is not None:
            files = [name for name in files if not rules.is_ignored(name, False)]
            directories = [name for name in directories if not rules.is_ignored(name, True)]
        self.path = path
        self.surveyed = surveyed
        self.rules = rules
        self.directories = sorted(directories, reverse=True)  # the next one stands last
        self._files = sorted(files)
        self._given = 0

    def files_until(self, directory: str | None) -> FilesInRow:
        """Those that come next, up to a directory or to the end."""
        start = self._given
        end = len(self._files) if directory is None else bisect_left(self._files, directory, start)
        self._given = end
        return FilesInRow(self.path, self._files[start:end], self.surveyed)


async def files_in_order(
    surveyed: dict[ScopedPath, Surveyed], top: ScopedPath, rules: Rules | None
) -> AsyncGenerator[FilesInRow, None]:
    """All files that are not ignored; all of them without ``rules``."""
    level_at_top = None if rules is None else await rules.level(top)
    stack = [_SurveyedLevel(top, surveyed[top], level_at_top)]
    names = 0
    while stack:
        level = stack[-1]
        directory = level.directories.pop() if level.directories else None
        row = level.files_until(directory)
        if row.names:
            yield row
        names += len(row.names) + 1
        if names >= _NAMES_BETWEEN_PAUSES:
            names = 0
            await asyncio.sleep(0)
        if directory is None:
            stack.pop()
            continue
        below = level.path.child(directory)
        found = surveyed.get(below)
        if found is not None:
            stack.append(
                _SurveyedLevel(below, found, await _rules_in(below, found, level.rules, rules))
            )


async def _rules_in(
    directory: ScopedPath, surveyed: Surveyed, above: IgnoreLevel | None, rules: Rules | None
) -> IgnoreLevel | None:
    if above is None or rules is None:
        return None
    if any(name in surveyed.files for name in rules.names):
        return await rules.level(directory)
    return above.enter(directory.name)
