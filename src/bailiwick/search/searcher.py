"""From the bytes of a file, whole or in chunks, to the lines that match, with their context.

Whole lines are searched a block at a time; what is held between chunks is the line that has not
ended yet and the lines of context. A line of more than 8 MiB, or less where the expression may be
slow, is searched in pieces that overlap by up to 64 KiB: a match longer than that across a border
is not seen, and each match in such a line is marked as cut.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

LINE_BYTES_MAX = 8 * 1024 * 1024
"""What one unfinished line may hold in memory before it is searched in pieces."""

OVERLAP_BYTES_MAX = 64 * 1024
"""What two pieces of a line have in common, and so the longest match that is seen for sure."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Undecodable bytes are decoded to these code points (`surrogateescape`), then made visible.
_VISIBLE = {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}


class LineMatch(NamedTuple):
    """One matching line.

    ``line`` and ``column`` count from 1, the column in characters of the whole line, a byte that
    is not valid UTF-8 being one. ``line_truncated`` says that the line, or a line of its context,
    is longer than what is shown of it; ``undecodable`` that one of them shows bytes as ``\\xNN``.
    """

    line: int
    column: int
    text: str
    before: list[str]
    after: list[str]
    line_truncated: bool
    undecodable: bool


class Find(Protocol):
    """Where the first match in ``block[start:end]`` begins, or -1; ``block`` is whole lines."""

    def __call__(self, block: bytes, start: int, end: int) -> int: ...


class _Shown(NamedTuple):
    """What a person is shown of a line."""

    text: str
    cut: bool
    undecodable: bool


class _Hit:
    """A matching line whose context is still being gathered."""

    __slots__ = ("after", "before", "column", "line", "shown")

    def __init__(self, line: int, column: int, shown: _Shown, before: list[_Shown]) -> None:
        self.line = line
        self.column = column
        self.shown = shown
        self.before = before
        self.after: list[_Shown] = []

    def as_match(self) -> LineMatch:
        everything = (self.shown, *self.before, *self.after)
        return LineMatch(
            line=self.line,
            column=self.column,
            text=self.shown.text,
            before=[shown.text for shown in self.before],
            after=[shown.text for shown in self.after],
            line_truncated=any(shown.cut for shown in everything),
            undecodable=any(shown.undecodable for shown in everything),
        )


class Searcher:
    """One search through one file. Feed it every chunk in order, then `finish`.

    Both return the matches that are complete by then, in order. Not to be used by two threads.
    """

    def __init__(
        self,
        find: Find,
        *,
        context: int,
        matches_left: int,
        line_characters_max: int,
        line_bytes_max: int = LINE_BYTES_MAX,
        overlap_bytes: int = OVERLAP_BYTES_MAX,
    ) -> None:
        self._find = find
        self._line_bytes_max = line_bytes_max
        self._overlap_bytes = overlap_bytes
        self._context = context
        self._matches_left = matches_left
        self._characters_max = line_characters_max
        self._hits: deque[_Hit] = deque()
        self._tail: list[_Shown] = []
        self._line = 1
        self._carry: list[bytes] = []
        self._carry_bytes = 0
        self._at_start = True
        # Of a line that is searched in pieces: characters before the carry, and whether it matched.
        self._in_pieces = False
        self._characters_before = 0
        self._line_has_matched = False

    @property
    def done(self) -> bool:
        """Whether nothing that is fed from now on can change the answer."""
        return self._matches_left <= 0 and not self._hits

    def feed(self, chunk: bytes) -> list[LineMatch]:
        """Search the lines that ``chunk`` completes."""
        if self.done:
            return []
        end = chunk.rfind(b"\n") + 1
        if end:
            self._carry.append(chunk[:end])
            self._search_block(self._take_carry())
        if end < len(chunk):
            self._carry.append(chunk[end:])
            self._carry_bytes += len(chunk) - end
        if self._carry_bytes > self._line_bytes_max:
            self._search_piece()
        return self._completed(self._context)

    def finish(self) -> list[LineMatch]:
        """Search the last line, which no newline ends, and give what is left."""
        rest = self._take_carry()
        if rest and not self.done:
            self._search_block(rest + b"\n")
        return self._completed(0)

    def stop(self) -> list[LineMatch]:
        """Give what was found so far, though lines are missing that nobody will search."""
        return self._completed(0)

    def _take_carry(self) -> bytes:
        data = self._carry[0] if len(self._carry) == 1 else b"".join(self._carry)
        self._carry, self._carry_bytes = [], 0
        if self._at_start:
            self._at_start = False
            data = data.removeprefix(BYTE_ORDER_MARK)
        return data

    def _completed(self, after_lines: int) -> list[LineMatch]:
        matches: list[LineMatch] = []
        while self._hits and len(self._hits[0].after) >= after_lines:
            matches.append(self._hits.popleft().as_match())
        return matches

    # --- whole lines ---------------------------------------------------------------------------

    def _search_block(self, block: bytes) -> None:
        """Search whole lines, each with its newline."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        self._serve_waiting(block)
        position, number = self._skip_pieces(block)
        end = len(block)
        while self._matches_left > 0 and position < end:
            start = self._find(block, position, end)
            # Behind the last newline there is no line, though an empty match is found there.
            if start < 0 or start == end:
                break
            line_start = block.rfind(b"\n", 0, start) + 1
            line_end = block.index(b"\n", start)
            # `position` may stand inside a first line that is the end of one searched in pieces.
            number += block.count(b"\n", position, line_start)
            self._hit(block, number, line_start, start, line_end)
            position, number = line_end + 1, number + 1
        self._line = number + block.count(b"\n", position)
        self._keep_tail(block)
        self._in_pieces = self._line_has_matched = False
        self._characters_before = 0

    def _hit(self, block: bytes, number: int, line_start: int, start: int, line_end: int) -> None:
        self._matches_left -= 1
        shown, characters = _around(
            block[line_start:line_end], start - line_start, self._characters_max
        )
        if line_start == 0 and self._in_pieces:
            characters += self._characters_before
            shown = shown._replace(cut=True)
        hit = _Hit(number, characters + 1, shown, self._lines_before(block, line_start))
        self._hits.append(hit)
        self._add_after(hit, block, line_end + 1)

    def _add_after(self, hit: _Hit, block: bytes, position: int) -> None:
        while len(hit.after) < self._context and position < len(block):
            end = block.index(b"\n", position)
            hit.after.append(self._context_line(block, position, end))
            position = end + 1

    def _serve_waiting(self, block: bytes) -> None:
        """Give hits of earlier blocks the lines that follow them."""
        for hit in self._hits:
            # The line at the front of the block may be the hit's own, searched in pieces.
            is_own = hit.line == self._line
            self._add_after(hit, block, block.index(b"\n") + 1 if is_own else 0)

    def _lines_before(self, block: bytes, line_start: int) -> list[_Shown]:
        lines: list[_Shown] = []
        while len(lines) < self._context and line_start > 0:
            end = line_start - 1
            line_start = block.rfind(b"\n", 0, end) + 1
            lines.append(self._context_line(block, line_start, end))
        missing = self._context - len(lines)
        return (self._tail[-missing:] if missing else []) + lines[::-1]

    def _keep_tail(self, block: bytes) -> None:
        if self._context:
            self._tail = self._lines_before(block, len(block))

    def _context_line(self, block: bytes, start: int, end: int) -> _Shown:
        shown = _shown(block[start:end], self._characters_max)
        # Of a line searched in pieces a block holds only the end.
        return shown._replace(cut=True) if start == 0 and self._in_pieces else shown

    # --- a line in pieces ----------------------------------------------------------------------

    def _skip_pieces(self, block: bytes) -> tuple[int, int]:
        """Where to go on in a block that may begin with the end of a line searched in pieces."""
        if not self._in_pieces:
            return 0, self._line
        if self._line_has_matched:
            return block.index(b"\n") + 1, self._line + 1
        return 1, self._line

    def _search_piece(self) -> None:
        piece = self._take_carry()
        # The last byte is left to the next piece and the first was in the one before, so that
        # anchors and word boundaries see what really stands beside.
        start = -1
        if not self._line_has_matched and self._matches_left > 0:
            start = self._find(piece, 1 if self._in_pieces else 0, len(piece) - 1)
        if start >= 0:
            self._matches_left -= 1
            self._line_has_matched = True
            shown, characters = _around(piece, start, self._characters_max)
            self._hits.append(
                _Hit(
                    self._line,
                    self._characters_before + characters + 1,
                    shown._replace(cut=True),
                    self._lines_before(b"", 0),
                )
            )
        overlap = _character_start(piece, len(piece) - self._overlap_bytes)
        self._characters_before += len(_characters(piece[:overlap]))
        self._carry, self._carry_bytes = [piece[overlap:]], len(piece) - overlap
        self._in_pieces = True


def _characters(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _character_start(raw: bytes, offset: int) -> int:
    """Where the character begins in which ``offset`` lies; itself where no character is cut."""
    if offset < len(raw) and raw[offset] & 0xC0 == 0x80:
        for start in range(offset - 1, max(offset - 4, -1), -1):
            for end in range(offset + 1, start + 5):
                try:
                    if len(raw[start:end].decode()) == 1:
                        return start
                except UnicodeDecodeError:
                    continue
    return offset


def _visible(characters: str, cut: bool) -> _Shown:
    text = characters
    if not characters.isascii():
        text = characters.translate(_VISIBLE)
    return _Shown(text, cut, len(text) != len(characters))


def _shown(line: bytes, characters_max: int) -> _Shown:
    """The line from its start."""
    # No character has more than four bytes, so that this much holds one character too many.
    characters = _characters(line[: 4 * characters_max + 4])
    return _visible(characters[:characters_max], len(characters) > characters_max)


def _around(line: bytes, offset: int, characters_max: int) -> tuple[_Shown, int]:
    """The line, or if it is too long the part around ``offset``; and the characters before it."""
    offset = _character_start(line, offset)
    left = _characters(line[:offset])
    right = _characters(line[offset : offset + 4 * characters_max + 4])
    before = len(left)
    cut = before + len(right) > characters_max
    if cut:
        right = right[: characters_max - min(before, characters_max // 4)]
        left = left[before - min(before, characters_max - len(right)) :]
    return _visible(left + right, cut), before
