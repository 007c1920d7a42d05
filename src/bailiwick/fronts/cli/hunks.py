"""A hunk at a terminal: its lines in colours, with the words that differ set off, and no wider than
the terminal is."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli.output import paint

Piece = tuple[str, bool]
"""Some of a line, and whether it differs."""

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
_WORDS_MAX: Final = 1_000
"""Of larger pieces words are not compared: the comparison takes the square of that."""

_LIKENESS_MIN: Final = 0.4
"""Lines that have less than this in common are others, and no words of them are told apart."""

_COLOURS: Final = {"-": ("red", "removed"), "+": ("green", "added"), " ": ("dim", "dim")}


def show_hunk(lines: Sequence[str], width: int | None = None) -> Iterator[str]:
    """Lines that begin with a blank, ``-``, ``+`` or a backslash, for a terminal; of a ``width``,
    in parts where they are wider."""
    for sign, pieces in _with_words(list(_with_blanks(lines))):
        plainly, strongly = _COLOURS.get(sign, _COLOURS[" "])
        mark = sign
        for part in _parts(pieces, None if width is None else width - 1):
            told = "".join(paint(text, strongly if each else plainly) for text, each in part)
            yield paint(mark, plainly) + told
            mark = " "


def terminal_width() -> int:
    """Columns, as the terminal has them, of which a hunk takes at least some."""
    return max(shutil.get_terminal_size().columns, 12)


def _with_blanks(lines: Sequence[str]) -> Iterator[str]:
    """Tabs are blanks to people; where lines that came and went would look alike by that, they are
    told apart."""
    blank = [each.replace("\t", "    ") for each in lines]
    looks = set(blank)
    for raw, each in zip(lines, blank, strict=True):
        other = {"-": "+", "+": "-"}.get(each[:1])
        yield raw if other is not None and other + each[1:] in looks else each


def _with_words(lines: Sequence[str]) -> Iterator[tuple[str, list[Piece]]]:
    """Each line by its sign, with what differs from the lines that it came instead of."""
    waiting: list[str] = []
    for sign, some in groupby(lines, key=lambda each: each[:1]):
        texts = [each[1:] for each in some]
        if sign == "-":
            waiting = texts
            continue
        olds, news = _compared(waiting, texts) if sign == "+" else (_alone(waiting), _alone(texts))
        yield from (("-", each) for each in olds)
        yield from ((sign, each) for each in news)
        waiting = []
    yield from (("-", each) for each in _alone(waiting))


def _alone(texts: Sequence[str]) -> list[list[Piece]]:
    return [[(escape_for_display(each), False)] for each in texts]


def _compared(
    old: Sequence[str], new: Sequence[str]
) -> tuple[list[list[Piece]], list[list[Piece]]]:
    before, after = (_WORD.findall("\n".join(each)) for each in (old, new))
    if not before or not after or max(len(before), len(after)) > _WORDS_MAX:
        return _alone(old), _alone(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LIKENESS_MIN:
        return _alone(old), _alone(new)
    same_old, same_new = set[int](), set[int]()
    for a, b, size in matcher.get_matching_blocks():
        same_old.update(range(a, a + size))
        same_new.update(range(b, b + size))
    return _lines(before, same_old), _lines(after, same_new)


def _lines(words: Sequence[str], same: set[int]) -> list[list[Piece]]:
    """Words as the lines that they came from."""
    found: list[list[Piece]] = [[]]
    for number, word in enumerate(words):
        first, *more = word.split("\n")
        for place, text in enumerate((first, *more)):
            if place:
                found.append([])
            if text:
                found[-1].append((escape_for_display(text), number not in same))
    return [_joined(each) for each in found]


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    return [
        ("".join(text for text, _ in some), differs)
        for differs, some in groupby(pieces, key=lambda each: each[1])
    ]


def _parts(pieces: Sequence[Piece], width: int | None) -> Iterator[list[Piece]]:
    """Pieces of a line, cut where the terminal ends."""
    part: list[Piece] = []
    used = 0
    for text, differs in pieces:
        begun = 0
        for place, character in enumerate(text):
            columns = _columns(character)
            if width is not None and used + columns > width:
                part.append((text[begun:place], differs))
                yield part
                part, used, begun = [], 0, place
            used += columns
        part.append((text[begun:], differs))
    yield part


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
