"""Lines around matches, as grep prints them: each is told once, however many matches it stands
beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from bailiwick.paths import ScopedPath
from bailiwick.search.results import GrepMatch


class MatchInContext(NamedTuple):
    """A match with what is left to tell around it, by the numbers of the lines. Where it does not
    ``follow`` what was told before there are lines in between, or it is in another file."""

    match: GrepMatch
    before: list[tuple[int, str]]
    after: list[tuple[int, str]]
    follows: bool


def in_context(matches: Sequence[GrepMatch]) -> Iterator[MatchInContext]:
    told: tuple[ScopedPath, int] | None = None
    for match, following in zip_longest(matches, matches[1:]):
        last = told[1] if told is not None and told[0] == match.path else 0
        before = match.before[max(last + 1 - match.line + len(match.before), 0) :]
        after = match.after
        if following is not None and following.path == match.path:
            after = after[: following.line - match.line - 1]
        first = match.line - len(before)
        follows = told is None or (last > 0 and first == last + 1)
        told = match.path, match.line + len(after)
        yield MatchInContext(
            match, list(enumerate(before, first)), list(enumerate(after, match.line + 1)), follows
        )
