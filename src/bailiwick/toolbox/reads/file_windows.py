"""Windows of text files: what was read, as much of it as fits, and where to go on.

Every byte of a text is reachable: an answer that does not reach the end says where to go on, by
line where it ends with one, and by a cursor in any case.
"""

from __future__ import annotations

from typing import NamedTuple

from bailiwick.errors import FileTooLarge, ParseError
from bailiwick.model import TextRead
from bailiwick.text.cursor import LinePosition, Seen, decode_cursor, encode_cursor
from bailiwick.toolbox.arguments import ReadFile
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.hints import GO_ON_AT_LINE, GO_ON_BY_CURSOR
from bailiwick.toolbox.truncation import Cut, cut_text, utf8_length


class _Window(NamedTuple):
    """Lines of a file. ``offset`` is where they begin in it, in bytes as stored, and ``seen`` what
    is known of what lies before; ``partial`` says that the last line is not whole, ``follows`` that
    the file goes on behind them."""

    text: str
    line: int | None
    offset: int
    seen: Seen
    partial: bool
    follows: bool


class ReadPart(NamedTuple):
    """As much of one text as is shown: ``text`` as the file has it, ``shown`` as it is told."""

    read: TextRead
    text: str
    shown: str
    first_line: int | None
    truncated: bool
    omitted_bytes: int
    next_line: int | None
    next_cursor: str | None

    @property
    def is_whole(self) -> bool:
        return self.first_line == 1 and self.next_cursor is None

    @property
    def ref(self) -> str:
        return str(self.read.path)


class Loaded(NamedTuple):
    """What was read of one file, before it is known how much of it is shown."""

    read: TextRead
    window: _Window
    cut_by_scope: bool

    def bytes(self, *, numbered: bool) -> int:
        """What all of it takes, as it is shown."""
        window = self.window
        if not numbered or not window.text or window.line is None:
            return utf8_length(window.text)
        return utf8_length("\n".join(_numbered(window.text, window.line)))


async def load(bench: Bench, asked: ReadFile, path: str) -> Loaded:
    scope, encoding = bench.scope, asked.encoding
    try:
        whole = None if asked.cursor is not None else await scope.read_text(path, encoding=encoding)
    except FileTooLarge:
        whole = None
    if whole is not None:
        return Loaded(whole, _lines_of(bench, whole, asked.line or 1, asked.limit), False)
    seen = None
    if asked.cursor is not None:
        # It carries the encoding of the call that it goes on with, which may be named again.
        read = await scope.read_text(path, cursor=asked.cursor, limit=asked.limit)
        cursor = decode_cursor(asked.cursor)
        offset, seen = cursor.position.offset, cursor.seen
    else:
        read = await scope.read_text(
            path, line=asked.line or 1, limit=asked.limit, encoding=encoding
        )
        offset = _beginning(read)
    follows = read.next_cursor is not None
    window = _Window(
        read.text, read.first_line, offset, seen or Seen(offset), read.partial_line, follows
    )
    cut_by_scope = read.next_cursor is not None and (
        asked.limit is None or read.partial_line or _line_count(read.text) < asked.limit
    )
    return Loaded(read, window, cut_by_scope)


def _beginning(read: TextRead) -> int:
    """Where a window begins that was asked for by line. It ends where the next one begins, or
    before the newline that stands between them."""
    if read.first_line == 1:
        return _mark_bytes(read)
    if read.next_cursor is None:
        return read.size - read.returned_bytes
    end = decode_cursor(read.next_cursor).position.offset
    return end - read.returned_bytes - (0 if read.partial_line else len(_stored(read, "\n")))


def _lines_of(bench: Bench, read: TextRead, line: int, limit: int | None) -> _Window:
    """A window of a text that is all there."""
    checked_max = bench.scope.limits.cursor_check_bytes_max
    mark = _stored(read, "\ufeff") if read.bom else b""
    if line == 1 and limit is None:
        return _Window(read.text, 1, len(mark), Seen(0).then(mark, checked_max), False, False)
    lines = [f"{each}\n" for each in read.text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")  # nothing, where a newline ends the text
    if not lines[-1]:
        lines.pop()
    end = len(lines) if limit is None else line - 1 + limit
    before, chosen = "".join(lines[: line - 1]), "".join(lines[line - 1 : end])
    follows = end < len(lines)
    stored = mark + _stored(read, before)
    seen = Seen(0).then(stored, checked_max)
    text = chosen.removesuffix("\n") if follows else chosen
    return _Window(text, line, len(stored), seen, False, follows)


def part_of(bench: Bench, asked: ReadFile, loaded: Loaded, bytes_max: int) -> ReadPart:
    """As much of what was read as fits, and where to go on."""
    read, window, cut_by_scope = loaded
    text, shown, omitted_bytes = _fitting(window, asked.line_numbers, bytes_max)
    is_cut = omitted_bytes > 0
    partial = window.partial
    if is_cut:
        partial = window.text[len(text)] != "\n"
    follows = is_cut or window.follows
    given = _stored(read, text if partial or not follows else f"{text}\n")
    end = window.offset + len(given)
    lines = _line_count(text)
    next_line = None if window.line is None else window.line + lines - (1 if partial else 0)
    next_cursor = read.next_cursor
    if follows and (is_cut or next_cursor is None):
        position = LinePosition(end, next_line, partial, read.encoding, read.bom)
        seen = window.seen.then(given, bench.scope.limits.cursor_check_bytes_max)
        next_cursor = encode_cursor(read.version, position, seen)
    return ReadPart(
        read, text, shown, window.line, is_cut or cut_by_scope, max(read.size - end, 0),
        next_line if follows and not partial else None, next_cursor,
    )  # fmt: skip


def _fitting(window: _Window, numbered: bool, bytes_max: int) -> tuple[str, str, int]:
    """The front of a window that fits: as it is, as it is shown, and the bytes that are left."""
    if not numbered or not window.text:
        cut = cut_text(window.text, bytes_max)
        return cut.text, cut.text, cut.omitted_bytes
    if window.line is None:
        raise ParseError("the lines behind this cursor cannot be numbered")
    rows = _numbered(window.text, window.line)
    shown = "\n".join(rows)
    cut = cut_text(shown, bytes_max)
    if not cut.omitted_bytes:
        return window.text, shown, 0
    lines = window.text.split("\n")
    count = cut.text.count("\n") + 1
    text = "\n".join(lines[:count])
    if count == 1:  # a line that does not fit as a whole
        text = text[: max(len(cut.text) - len(rows[0]) + len(lines[0]), 1)]
        cut = Cut(f"{window.line}\t{text}", 0)
    return text, cut.text, utf8_length(window.text) - utf8_length(text)


def _numbered(text: str, first: int) -> list[str]:
    """Lines with their numbers; behind a newline that ends the text there is no line."""
    lines = text.split("\n")
    rows = [f"{number}\t{line}" for number, line in enumerate(lines, first)]
    if len(lines) > 1 and not lines[-1]:
        rows[-1] = ""
    return rows


def notes_of(bench: Bench, part: ReadPart, of: str = "") -> list[str]:
    """What stands beneath a text: which lines these are, how to go on, and the hash."""
    said: list[str] = []
    read = part.read
    if part.first_line is not None and not part.is_whole:
        total = "" if read.total_lines is None else f" of {read.total_lines}"
        last = part.first_line + _line_count(part.text.removesuffix("\n")) - 1
        said.append(f"lines {part.first_line}-{last}{total}" if part.text else f"no line{total}")
    if part.truncated:
        said.append(f"... truncated, {part.omitted_bytes} bytes omitted")
    if part.next_line is not None:
        said.append(bench.advise(GO_ON_AT_LINE, next_line=part.next_line))
    elif part.next_cursor is not None:
        said.append(bench.advise(GO_ON_BY_CURSOR, cursor=part.next_cursor))
    if read.sha256 is not None:
        said.append(f"sha256 {read.sha256}")
    return [f"[{of}{'; '.join(said)}]"] if said else []


def _line_count(text: str) -> int:
    return text.count("\n") + 1


def _mark_bytes(read: TextRead) -> int:
    return len("\ufeff".encode(read.encoding)) if read.bom else 0


def _stored(read: TextRead, text: str) -> bytes:
    """A text as it stands in the file."""
    return text.encode(read.encoding)
