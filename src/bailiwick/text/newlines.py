"""Counting and finding line feeds in the bytes of one encoding, at the speed of ``bytes.count``.

Works on pieces of a file, so a piece may begin or end inside a character, but never inside a code
unit: UTF-16 and UTF-32 pieces are aligned, and a match is never found across two units.
"""

from __future__ import annotations

from functools import lru_cache
from typing import AnyStr

from bailiwick.text.codec import code_unit_bytes, not_text_in

# Up to so many line feeds are split off one by one: sooner than counting what lies beyond them.
_SPLIT_MAX = 1_000

# Below this many characters a plain search is quicker than halving once more.
_HALVING_MIN = 256


@lru_cache(maxsize=64)
def newlines_of(encoding: str) -> Newlines:
    """The line feeds of an encoding, worked out once."""
    return Newlines(encoding)


class Newlines:
    """Line feeds in pieces of a file of one encoding. All offsets are in bytes."""

    __slots__ = ("_mark", "encoding", "unit")

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.unit = code_unit_bytes(encoding)
        # Not always 0A: the EBCDIC code pages have their own.
        self._mark = "\n".encode(encoding)

    def count(self, piece: bytes) -> int:
        """Return how many line feeds ``piece`` holds."""
        if self.unit == 1:
            return piece.count(self._mark)
        return self._wide(piece).count("\n")

    def nth(self, piece: bytes, ordinal: int) -> tuple[int, int]:
        """Return where the ``ordinal``-th line feed begins, counted from 1, and ``ordinal``; or -1,
        and how many there are."""
        if self.unit == 1:
            return _nth(piece, self._mark, ordinal)
        text = self._wide(piece)
        index, passed = _nth(text, "\n", ordinal)
        return index if index < 0 else self._bytes_before(text, index), passed

    def last(self, piece: bytes) -> int:
        """Return where the last line feed begins, or -1."""
        if self.unit == 1:
            return piece.rfind(self._mark)
        text = self._wide(piece)
        index = text.rfind("\n")
        return index if index < 0 else self._bytes_before(text, index)

    def ends(self, piece: bytes) -> bool:
        """Return whether a line feed is the last of ``piece``."""
        return piece.endswith(self._mark) and len(piece) % self.unit == 0

    def _wide(self, piece: bytes) -> str:
        # A pair of surrogates may be cut by the border of a piece; only whole windows are decoded
        # strictly.
        try:
            return piece.decode(self.encoding, "surrogatepass")
        except UnicodeDecodeError as error:
            raise not_text_in(self.encoding, error.start) from None

    def _bytes_before(self, text: str, index: int) -> int:
        return len(text[:index].encode(self.encoding, "surrogatepass"))


def _nth(haystack: AnyStr, newline: AnyStr, ordinal: int) -> tuple[int, int]:
    if ordinal <= _SPLIT_MAX:
        pieces = haystack.split(newline, ordinal)
        passed = len(pieces) - 1
        if passed < ordinal:
            return -1, passed
        return len(haystack) - len(pieces[-1]) - len(newline), passed
    passed = haystack.count(newline)
    return (-1, passed) if passed < ordinal else (_halved(haystack, newline, ordinal), ordinal)


def _halved(haystack: AnyStr, newline: AnyStr, ordinal: int) -> int:
    """Halve by counting until few are left: linear in the haystack, not in the line feeds."""
    low, high = 0, len(haystack)
    while high - low > _HALVING_MIN:
        middle = (low + high) // 2
        before = haystack.count(newline, low, middle)
        if before >= ordinal:
            high = middle
        else:
            ordinal -= before
            low = middle
    index = haystack.find(newline, low)
    for _ in range(ordinal - 1):
        index = haystack.find(newline, index + 1)
    return index
