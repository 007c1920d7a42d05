"""What hunks are called by whoever says something of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

PREFIX_MIN: Final = 4
"""Of an id so much has to be given."""

_SEEN_AT: Final = re.compile(r"([0-9a-f]{4,64})@([0-9A-Za-z._-]{1,80})")


class HunkName(NamedTuple):
    """The id of a hunk, or the beginning of it, and the version of its path at which somebody saw
    it, where they said so: ``ID@VERSION``. Whatever is no id is a ``text``."""

    text: str
    id: str
    version: str | None = None

    def begins(self, id: str) -> bool:
        return len(self.id) >= PREFIX_MIN and id.startswith(self.id)


def given_name(text: str) -> HunkName:
    found = _SEEN_AT.fullmatch(text)
    return HunkName(text, text) if found is None else HunkName(text, found[1], found[2])


def given_names(texts: Iterable[str]) -> list[HunkName]:
    return [given_name(each) for each in dict.fromkeys(texts)]
