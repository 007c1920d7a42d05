"""Where a text stands in another, counted with overlaps, in bounded work.

In a file that mixes line endings, a search text with plain line feeds is looked for in a copy whose
CRLF are single line feeds; `Haystack` maps what is found back to the file's own indices.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate, count
from operator import add

from bailiwick.errors import AmbiguousTextMatch, TextNotFound
from bailiwick.model import Value
from bailiwick.text.codec import line_ending_of

LINES_LISTED_MAX = 20

# An ambiguous text needs no exact count beyond this: the answer is the same.
_COUNTED_MAX = 10_000

# Characters that may be compared again for overlapping matches: each costs up to its length.
_COMPARED_MAX = 64_000_000


def is_literal(text: str) -> bool:
    """Whether line ends in ``text`` are meant as written.

    So they are once it has a CRLF, or ends in a carriage return that may be half of one. Otherwise
    its line feeds stand for whatever ends a line in the file.
    """
    return "\r\n" in text or text.endswith("\r")


class Occurrences(Value, frozen=True):
    """Where a text was found: the start of each match and their common length, as searched."""

    starts: array[int]
    length: int
    complete: bool
    overlapping: bool


class Haystack:
    """A file's text, ready to be searched for texts whose line ends may differ from its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_ending = line_ending_of(text)
        self._unified: str | None = None
        self._pairs: array[int] | None = None

    def adapted(self, text: str) -> str:
        """Return ``text`` as it is searched for: in a CRLF file with its line feeds as CRLF."""
        if self.line_ending == "crlf" and not is_literal(text):
            return text.replace("\n", "\r\n")
        return text

    def needs_unified(self, text: str) -> bool:
        """Whether ``text`` may match different line ends at different places."""
        return self.line_ending == "mixed" and "\n" in text and not is_literal(text)

    def may_split(self, text: str) -> bool:
        """Whether matches of ``text`` differ in line ends, or may begin or end inside a CRLF."""
        return self.line_ending == "mixed" or (self.line_ending == "crlf" and is_literal(text))

    def unified(self) -> str:
        """The text with each CRLF as one line feed."""
        if self._unified is None:
            self._unified = self.text.replace("\r\n", "\n")
        return self._unified

    def original_index(self, index: int) -> int:
        """Map an index of the unified text to the text: one further for each CRLF before it."""
        if self._pairs is None:
            pieces = self.text.split("\r\n")
            pieces.pop()
            # The k-th CRLF stands, as a line feed, after k others and all pieces up to it.
            self._pairs = array("Q", map(add, accumulate(map(len, pieces)), count()))
        return index + bisect_left(self._pairs, index)


def find_all(haystack: str, needle: str, *, stop_at_overlap: bool) -> Occurrences:
    """Find every match, overlapping ones too ("aXa" stands twice in "aXaXa").

    Work is bounded: the search ends at the first overlap if that decides already, and is given up,
    ``complete`` False, after 10,000 matches or when overlapping ones are too long to compare.
    Without overlaps it is linear in the haystack.
    """
    starts = array("Q")
    length = len(needle)
    overlapping = False
    compared = 0
    at = haystack.find(needle)
    while at >= 0:
        if starts and at - starts[-1] < length:
            overlapping = True
        starts.append(at)
        if stop_at_overlap:
            if overlapping:
                return Occurrences(starts, length, False, True)
        else:
            compared += length
            if len(starts) >= _COUNTED_MAX or compared >= _COMPARED_MAX:
                return Occurrences(starts, length, False, overlapping)
        at = haystack.find(needle, at + 1)
    return Occurrences(starts, length, True, overlapping)


def require_usable(found: Occurrences, haystack: str, number: int, *, replace_all: bool) -> None:
    """Raise unless the matches say what to replace: one, or several that do not overlap.

    ``number`` counts the edits of a call from 1. No error holds text of the file.
    """
    if not found.starts:
        raise TextNotFound(
            f"the old text of edit {number} does not stand in the file",
            hint="read the file again; the text must match exactly, spaces included",
            details={"edit": number},
        )
    if len(found.starts) == 1 or (replace_all and not found.overlapping):
        return
    lines, all_listed = _lines_of(found, haystack)
    at_least = "" if found.complete else "at least "
    if replace_all:
        message = (
            f"the old text of edit {number} overlaps with itself in the file, so that replacing"
            " all is not defined"
        )
        hint = "give a longer old text for each place"
    else:
        message = (
            f"the old text of edit {number} stands {at_least}{len(found.starts)} times in the file"
        )
        hint = "add surrounding lines to make it unique, or set replace_all"
    raise AmbiguousTextMatch(
        message,
        hint=hint,
        details={
            "edit": number,
            "count": len(found.starts),
            "count_complete": found.complete,
            "lines": lines,
            "lines_complete": all_listed,
        },
    )


def _lines_of(found: Occurrences, haystack: str) -> tuple[list[int], bool]:
    """Return the first distinct lines on which matches begin, and whether they are all."""
    lines: list[int] = []
    line, counted_to = 1, 0
    for start in found.starts:
        line += haystack.count("\n", counted_to, start)
        counted_to = start
        if lines and lines[-1] == line:
            continue
        if len(lines) == LINES_LISTED_MAX:
            return lines, False
        lines.append(line)
    return lines, found.complete
