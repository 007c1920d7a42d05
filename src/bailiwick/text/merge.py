"""What two have made of one text, joined line by line; and single hunks of a difference.

All of it is over bytes, so that nothing is lost in decoding: lines end at a line feed, and what has
a NUL byte is no text. Nothing is guessed: lines that both have changed, or that touch each other,
are not joined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import NamedTuple

from bailiwick.text.diff import Block, hunks_between

_AS_IT_IS = "latin-1"
"""Every byte is a character of it, and the same one on the way back."""


def merged(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What both have made of ``base``; None where they have changed the same lines, or lines that
    touch, in different ways, and where one of the three is binary."""
    if any(0 in each for each in (base, ours, theirs)):
        return None
    old, one, other = (each.decode(_AS_IT_IS) for each in (base, ours, theirs))
    lines, our_lines, their_lines = map(_lines, (old, one, other))
    pieces: list[str] = []
    done = 0
    for place in _places(_changed(old, one), _changed(old, other)):
        pieces += lines[done : place.low]
        made = our_lines[place.our_low : place.our_high]
        made_by_them = their_lines[place.their_low : place.their_high]
        untouched = lines[place.low : place.high]
        if made != made_by_them and untouched not in (made, made_by_them):
            return None
        pieces += made_by_them if made == untouched else made
        done = place.high
    pieces += lines[done:]
    return "".join(pieces).encode(_AS_IT_IS)


def with_hunks(old: bytes, new: bytes, chosen: Collection[int], *, others: bool = False) -> bytes:
    """``old`` with some of the hunks that lead to ``new``: by number, from one on, as a unified
    diff shows them; or with all ``others``. Raises `IndexError`, with how many there are, for one
    that there is not."""
    a, b = old.decode(_AS_IT_IS), new.decode(_AS_IT_IS)
    hunks = hunks_between(a, b)
    if any(not 1 <= each <= len(hunks) for each in chosen):
        raise IndexError(len(hunks))
    a_lines, b_lines = _lines(a), _lines(b)
    pieces: list[str] = []
    done = 0
    taken = (each for number, each in enumerate(hunks, 1) if (number in chosen) != others)
    for block in chain.from_iterable(taken):
        pieces += (*a_lines[done : block.a_low], *b_lines[block.b_low : block.b_high])
        done = block.a_high
    pieces += a_lines[done:]
    return "".join(pieces).encode(_AS_IT_IS)


class _Place(NamedTuple):
    """Lines of the base that somebody changed, and where they are now for either side."""

    low: int
    high: int
    our_low: int
    our_high: int
    their_low: int
    their_high: int


def _lines(text: str) -> list[str]:
    """With their ends: a last line without one equals only another without."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _changed(old: str, new: str) -> list[Block]:
    return list(chain.from_iterable(hunks_between(old, new)))


def _places(ours: list[Block], theirs: list[Block]) -> Iterator[_Place]:
    """Blocks of both sides, those that touch or overlap taken together."""
    our_shift = their_shift = 0
    waiting = sorted(
        [(each.a_low, each.a_high, 0, each) for each in ours]
        + [(each.a_low, each.a_high, 1, each) for each in theirs],
        key=lambda each: each[:3],
        reverse=True,
    )
    while waiting:
        low, high = waiting[-1][:2]
        shifts = [0, 0]
        while waiting and waiting[-1][0] <= high:
            _, end, side, block = waiting.pop()
            high = max(high, end)
            shifts[side] += (block.b_high - block.b_low) - (block.a_high - block.a_low)
        yield _Place(
            low, high, low + our_shift, high + our_shift + shifts[0],
            low + their_shift, high + their_shift + shifts[1],
        )  # fmt: skip
        our_shift, their_shift = our_shift + shifts[0], their_shift + shifts[1]
