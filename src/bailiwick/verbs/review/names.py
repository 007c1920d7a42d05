"""What hunks are called by whoever says something of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.reviews import ReviewFile, ReviewHunk

PREFIX_MIN: Final = 4
"""Of an id so much has to be given."""

ID_DIGITS: Final = 32
"""Of a whole one."""

_SEEN_AT: Final = re.compile(r"([0-9a-f]{4,64})@([0-9A-Za-z._-]{1,80})")


class HunkName(NamedTuple):
    """The id of a hunk, or the beginning of it, and the version of its path at which somebody saw
    it, where they said so: ``ID@VERSION``. Whatever is no id is a ``text``."""

    text: str
    id: str
    version: str | None = None

    def begins(self, id: str) -> bool:
        return len(self.id) >= PREFIX_MIN and id.startswith(self.id)


class GivenNames:
    """Several of them, found by what a hunk was shown as: there may be thousands of either."""

    def __init__(self, names: Iterable[HunkName]) -> None:
        self.all = list(names)
        self._as_shown: dict[tuple[str, str], list[HunkName]] = {}
        for each in self.all:
            if each.version is not None and len(each.id) == ID_DIGITS:
                self._as_shown.setdefault((each.version, each.id), []).append(each)
        self.others = [
            each for each in self.all if each.version is None or len(each.id) != ID_DIGITS
        ]
        """Those that have to be looked at one by one."""

    def of(self, shown: Iterable[tuple[str, str]]) -> list[HunkName]:
        return [name for each in shown for name in self._as_shown.get(each, ())]


class NamesByBeginning:
    """Several of them, found by an id that they are, or are the beginning of."""

    def __init__(self, names: Iterable[HunkName]) -> None:
        self._whole: dict[str, list[HunkName]] = {}
        self._others: list[HunkName] = []
        for each in names:
            if len(each.id) == ID_DIGITS:
                self._whole.setdefault(each.id, []).append(each)
            else:
                self._others.append(each)

    def of(self, id: str) -> list[HunkName]:
        return [*self._whole.get(id, ()), *(each for each in self._others if each.begins(id))]


def not_left(text: str) -> PathNotFound:
    """That nothing is called so."""
    hint = "a hunk that was changed again has another id"
    if len(text) < PREFIX_MIN:
        hint = f"of an id at least {PREFIX_MIN} characters are given"
    return PathNotFound(f"nothing that is left to review is called {text[:80]!r}", hint=hint)


def given_name(text: str) -> HunkName:
    found = _SEEN_AT.fullmatch(text)
    return HunkName(text, text) if found is None else HunkName(text, found[1], found[2])


class _Verdict:
    """The names that are accepted, or rejected, found by a hunk that they mean: by itself, or as
    part of a run, of a file of it, or of what is ``apart`` from the tree."""

    def __init__(self, texts: Iterable[str], apart: str | None) -> None:
        names = given_names(texts)
        self._apart = apart
        self._ids = NamesByBeginning(names)
        self._whole = next((each for each in names if each.text.partition("@")[0] == apart), None)
        self._files: dict[str, list[HunkName]] = {}
        for each in names:
            _, colon, path = each.text.partition(":")
            if colon:
                self._files.setdefault(path.partition("@")[0], []).append(each)

    def of(self, file: ReviewFile, hunk: ReviewHunk) -> HunkName | None:
        for id in (hunk.id, *hunk.runs):
            if found := self._ids.of(id):
                return found[0]
        for name in self._files.get(file.path, ()):
            begin = name.text.partition(":")[0]
            if begin == self._apart or any(given_name(begin).begins(each) for each in hunk.runs):
                return name
        return self._whole


def refuse_both(
    accept: Iterable[str], reject: Iterable[str], files: Iterable[ReviewFile], apart: str | None
) -> None:
    """Refuse verdicts that contradict each other, before anything comes of either: whichever was
    done first would take the hunk from the other. Raises `ParseError`."""
    accepted, rejected = _Verdict(accept, apart), _Verdict(reject, apart)
    for file in files:
        for hunk in file.hunks:
            one, other = accepted.of(file, hunk), rejected.of(file, hunk)
            if one is not None and other is not None:
                raise ParseError(
                    f"{one.text[:80]!r} is accepted and {other.text[:80]!r} rejected: both mean"
                    f" the hunk {hunk.id}",
                    hint="say first what is meant of the smaller, and then of what is left of the"
                    " larger",
                )


def given_names(texts: Iterable[str]) -> list[HunkName]:
    return [given_name(each) for each in dict.fromkeys(texts)]
