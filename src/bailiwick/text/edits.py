"""Replacing text in a file and nothing else.

Guarantees: all edits apply to the original text and land together or not at all; every byte outside
the replaced spans stays as it was (mark, encoding, line endings); nothing is replaced unless the
caller's text says without doubt where. No error holds text of the file.

Line ends: a line feed in an old text matches LF or CRLF, and a line feed in a new text becomes what
the file has there: the line ends it replaces one by one, else the end of that line, else of
the file's last line. A text that holds a CRLF itself is taken as written, old or new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from bailiwick.errors import FileTooLarge, ParseError
from bailiwick.limits import Limits
from bailiwick.model import Edit, Value
from bailiwick.text.agreement import common_prefix
from bailiwick.text.codec import decode, encode
from bailiwick.text.occurrences import Haystack, Occurrences, find_all, is_literal, require_usable

EDITED_BYTES_MAX = Limits().text_write_bytes_max


class Edited(Value, frozen=True, kw_only=True):
    """What edits made of a file: its bytes, and its text before and after (without the mark).

    ``replacements`` counts the places, also those whose new text equals the old.
    ``first_changed_line`` is counted from 1 in the old text, None if nothing changed. So much of
    both texts is the same for certain: ``same_before`` characters at their beginning, and
    ``same_after`` at their end.
    """

    data: bytes
    text_before: str
    text_after: str
    encoding: str
    bom: bool
    replacements: int
    first_changed_line: int | None
    same_before: int = 0
    same_after: int = 0


def apply_edits(
    data: bytes,
    edits: Sequence[Edit],
    *,
    encoding: str | None = None,
    bytes_max: int = EDITED_BYTES_MAX,
) -> Edited:
    """Return the file with all edits applied.

    Raises ParseError (no edits, an empty old text, edits that overlap, a new text the file's
    encoding cannot hold), TextNotFound, AmbiguousTextMatch (``details``: edit, count, lines),
    BinaryFile (see `codec.decode`) and FileTooLarge when the result would exceed ``bytes_max``.
    """
    if not edits:
        raise ParseError("an edit needs at least one old and new text")
    decoded = decode(data, encoding)
    haystack = Haystack(decoded.text)
    found = [_find(haystack, edit, number) for number, edit in enumerate(edits, 1)]
    _require_room(decoded.text, edits, found, bytes_max)
    for number, edit in enumerate(edits, 1):
        if decoded.encoding != "utf-8" or not edit.new.isascii():
            _require_encodable(edit.new, decoded.encoding, number)
    text = _replace(haystack, edits, found)
    result = encode(text, decoded.encoding, decoded.bom)
    if len(result) > bytes_max:
        raise _too_large(bytes_max)
    same_before, same_after = _outside(haystack, found)
    first_changed_line = None
    if text != decoded.text:
        same_before = common_prefix(decoded.text, text, same_before)
        first_changed_line = decoded.text.count("\n", 0, same_before) + 1
    return Edited(
        data=result,
        text_before=decoded.text,
        text_after=text,
        encoding=decoded.encoding,
        bom=decoded.bom,
        replacements=sum(len(places.starts) for places in found),
        first_changed_line=first_changed_line,
        same_before=same_before,
        same_after=same_after,
    )


def _find(haystack: Haystack, edit: Edit, number: int) -> Occurrences:
    if not edit.old:
        raise ParseError(
            f"the old text of edit {number} is empty", hint="to fill a file, write it instead"
        )
    searched = haystack.unified() if haystack.needs_unified(edit.old) else haystack.text
    found = find_all(searched, haystack.adapted(edit.old), stop_at_overlap=edit.replace_all)
    require_usable(found, searched, number, replace_all=edit.replace_all)
    return found


def _require_encodable(new: str, encoding: str, number: int) -> None:
    try:
        encode(new, encoding)
    except ParseError as error:
        raise ParseError(
            f"edit {number}: {error.message}",
            hint=error.hint,
            details={**error.details, "edit": number},
        ) from None


def _require_room(
    text: str, edits: Sequence[Edit], found: Sequence[Occurrences], bytes_max: int
) -> None:
    """Refuse before building it a result that is too large even at one byte a character."""
    grown = len(text)
    for edit, places in zip(edits, found, strict=True):
        grown += len(places.starts) * (len(edit.new) - 2 * places.length)
    if grown > bytes_max:
        raise _too_large(bytes_max)


def _too_large(bytes_max: int) -> FileTooLarge:
    return FileTooLarge(
        "the edited file would be too large",
        hint="replace fewer places, or write the file as a stream",
        details={"limit": bytes_max},
    )


def _replace(haystack: Haystack, edits: Sequence[Edit], found: Sequence[Occurrences]) -> str:
    text = haystack.text
    if len(edits) == 1 and not haystack.may_split(edits[0].old):
        # One text for every place, none overlapping.
        edit, starts = edits[0], found[0].starts
        new = haystack.adapted(edit.new)
        if len(starts) == 1:
            return f"{text[: starts[0]]}{new}{text[starts[0] + found[0].length :]}"
        return text.replace(haystack.adapted(edit.old), new)
    ends = _LineEnds(text)
    pieces: list[str] = []
    copied_to = 0
    replaced_by = 0
    places = [
        _spans(haystack, edit, found_here, number)
        for number, (edit, found_here) in enumerate(zip(edits, found, strict=True), 1)
    ]
    for start, end, number in places[0] if len(places) == 1 else merge(*places):
        if start < copied_to:
            raise _overlapping(replaced_by, number)
        new = edits[number - 1].new
        if "\n" in new and not is_literal(new):
            new = ends.fitted(new, start, end)
        pieces += (text[copied_to:start], new)
        copied_to, replaced_by = end, number
    pieces.append(text[copied_to:])
    return "".join(pieces)


def _overlapping(*numbers: int) -> ParseError:
    first, second = sorted(numbers)
    return ParseError(
        f"edits {first} and {second} overlap",
        hint="make one edit of them: all edits apply to the original text",
        details={"edits": [first, second]},
    )


def _spans(
    haystack: Haystack, edit: Edit, found: Occurrences, number: int
) -> Iterator[tuple[int, int, int]]:
    """Yield start and end of each match in the file's own text, and the edit's number."""
    if haystack.needs_unified(edit.old):
        for start in found.starts:
            end = haystack.original_index(start + found.length)
            yield haystack.original_index(start), end, number
    else:
        for start in found.starts:
            yield start, start + found.length, number


class _LineEnds:
    """The line ends of a text, asked for at places in ascending order."""

    __slots__ = ("_feed", "_last_feed", "_searched_from", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_feed = text.rfind("\n")
        self._feed = -1
        self._searched_from = 0

    def fitted(self, new: str, start: int, end: int) -> str:
        """Return ``new`` with each line feed as the file has it in or near the span."""
        replaced = self._of_span(start, end)
        if len(set(replaced)) == 1:
            return new.replace("\n", replaced[0])
        lines = new.split("\n")
        last = len(replaced) - 1
        for index in range(len(lines) - 1):
            lines[index] += replaced[min(index, last)]
        return "".join(lines)

    def _of_span(self, start: int, end: int) -> list[str]:
        pieces = self._text[start:end].split("\n")
        pieces.pop()
        if not pieces:
            return [self._of_line(end)]
        return ["\r\n" if piece.endswith("\r") else "\n" for piece in pieces]

    def _of_line(self, index: int) -> str:
        """The end of the line that ``index`` is on, or of the last line that has one."""
        if index > self._last_feed:
            feed = self._last_feed
        else:
            # Many places on one long line ask for the same line feed: it is searched for once.
            if not self._searched_from <= index <= self._feed:
                self._searched_from, self._feed = index, self._text.find("\n", index)
            feed = self._feed
        return "\r\n" if feed > 0 and self._text[feed - 1] == "\r" else "\n"


def _outside(haystack: Haystack, found: Sequence[Occurrences]) -> tuple[int, int]:
    """How much of the text lies before the first match, and after the last."""
    if haystack.line_ending == "mixed":
        return 0, 0  # what was searched may be another text
    first = min(places.starts[0] for places in found)
    last = max(places.starts[-1] + places.length for places in found)
    return first, len(haystack.text) - last
