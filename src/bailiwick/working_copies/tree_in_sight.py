"""A tree that programs only look at: no working copy is needed for that."""

from __future__ import annotations

from collections.abc import Iterator

from bailiwick.commands import DirectorySeen, Visible
from bailiwick.sandbox import Tree
from bailiwick.working_copies.lower import Lower, ShownTree, by_now, hidden
from bailiwick.working_copies.survey import Survey


class TreeInSight:
    """What stands in a root, as a program is to see it."""

    def __init__(self, lower: Lower) -> None:
        self._lower = lower
        self._survey = Survey({})
        self._shown: ShownTree | None = None

    async def survey(self) -> None:
        self._survey = await self._lower.survey()

    def seen(self) -> Iterator[DirectorySeen]:
        """Directories come before what lies in them."""
        return self._survey.seen()

    async def by_now(self) -> Visible | None:
        return await by_now(self._lower, self._survey, self)

    async def show(self, masked: tuple[str, ...]) -> None:
        self._shown = await self._lower.show(self._survey, masked)

    def tree(self, place: str, masked: tuple[str, ...]) -> Tree:
        assert self._shown is not None, "it was not shown"
        return Tree(
            place=place,
            lower=self._shown.directory,
            masked=hidden(self._lower, self._survey, masked),
            searched=self._survey.doors is not None,
        )

    def close(self) -> None:
        shown, self._shown = self._shown, None
        if shown is not None:
            shown.close()
