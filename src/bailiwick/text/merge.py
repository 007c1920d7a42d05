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


class JoinedPiece(NamedTuple):
    """Lines of what two have made of one text: ``text`` where that can be said; where they have
    changed the same lines in different ways None, and what either made of the ``base``."""

    text: bytes | None
    base: bytes = b""
    ours: bytes = b""
    theirs: bytes = b""


def merged(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What both have made of ``base``; None where they have changed the same lines, or lines that
    touch, in different ways, and where one of the three is binary."""
    if any(0 in each for each in (base, ours, theirs)):
        return None
    found: list[bytes] = []
    for piece in joined_pieces(base, ours, theirs):
        if piece.text is None:
            return None
        found.append(piece.text)
    return b"".join(found)


def joined_pieces(base: bytes, ours: bytes, theirs: bytes) -> Iterator[JoinedPiece]:
    """What both have made of ``base``, piece by piece, also what neither has touched."""
    old, one, other = (each.decode(_AS_IT_IS) for each in (base, ours, theirs))
    lines, our_lines, their_lines = map(_lines, (old, one, other))
    done = 0
    for place in _places(_changed(old, one), _changed(old, other)):
        if done < place.low:
            yield JoinedPiece(_bytes(lines[done : place.low]))
        made = our_lines[place.our_low : place.our_high]
        made_by_them = their_lines[place.their_low : place.their_high]
        untouched = lines[place.low : place.high]
        if made != made_by_them and untouched not in (made, made_by_them):
            yield JoinedPiece(None, _bytes(untouched), _bytes(made), _bytes(made_by_them))
        else:
            yield JoinedPiece(_bytes(made_by_them if made == untouched else made))
        done = place.high
    if done < len(lines):
        yield JoinedPiece(_bytes(lines[done:]))


def differing_pieces(ours: bytes, theirs: bytes) -> Iterator[JoinedPiece]:
    """Pieces of two texts of which nobody knows what they were before: what only one has is in
    doubt."""
    one, other = ours.decode(_AS_IT_IS), theirs.decode(_AS_IT_IS)
    our_lines, their_lines = _lines(one), _lines(other)
    done = 0
    for block in _changed(one, other):
        if done < block.a_low:
            yield JoinedPiece(_bytes(our_lines[done : block.a_low]))
        mine, their = our_lines[block.a_low : block.a_high], their_lines[block.b_low : block.b_high]
        yield JoinedPiece(None, b"", _bytes(mine), _bytes(their))
        done = block.a_high
    if done < len(our_lines):
        yield JoinedPiece(_bytes(our_lines[done:]))


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


def _bytes(lines: list[str]) -> bytes:
    return "".join(lines).encode(_AS_IT_IS)


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
