"""Keeping answers within their caps, and saying so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")


class Cut(NamedTuple):
    """The front of a text that fits, in characters and in bytes; all of it where it fits."""

    text: str
    omitted_bytes: int


def utf8_length(text: str) -> int:
    """How long a text is for whoever gets it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def cut_text(text: str, bytes_max: int) -> Cut:
    """As much of a text as fits, by whole lines where at least one does."""
    size = utf8_length(text)
    if size <= bytes_max:
        return Cut(text, 0)
    kept = text.encode("utf-8", "surrogatepass")[:bytes_max].decode("utf-8", "ignore")
    at = kept.rfind("\n")
    kept = kept[:at] if at > 0 else kept or text[:1]
    return Cut(kept, size - utf8_length(kept))


def fitting(items: Sequence[Item], bytes_max: int, size_of: Callable[[Item], int]) -> list[Item]:
    """The first items that fit together; at least one, so that whoever asks gets on."""
    room = bytes_max
    kept: list[Item] = []
    for item in items:
        room -= size_of(item)
        if room < 0 and kept:
            break
        kept.append(item)
    return kept
