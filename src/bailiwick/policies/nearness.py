"""What a person may have meant who wrote a word that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from bailiwick.errors import escape_for_display

_SHOWN_CHARACTERS_MAX = 80


def hint_for(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of the known words, else all of them."""
    words = list(known)
    near = difflib.get_close_matches(word[:_SHOWN_CHARACTERS_MAX], words, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"one of {', '.join(words)}"


def quoted(word: str) -> str:
    """A word of someone else's, short and harmless enough for a message."""
    cut = word if len(word) <= _SHOWN_CHARACTERS_MAX else word[:_SHOWN_CHARACTERS_MAX] + "…"
    return f"'{escape_for_display(cut)}'"
