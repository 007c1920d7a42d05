"""What hunks are called by whoever says something of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from bailiwick.errors import PathNotFound

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


def given_names(texts: Iterable[str]) -> list[HunkName]:
    return [given_name(each) for each in dict.fromkeys(texts)]
