"""`read_file`: the whole of a small file with its hash, a window of any other.

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
from bailiwick.toolbox.results import FileRead
from bailiwick.toolbox.truncation import cut_text
from bailiwick.toolbox.untrusted_text import cut_note


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


async def read_file(bench: Bench, asked: ReadFile) -> FileRead:
    if asked.cursor is not None and asked.line is not None:
        raise ParseError("give line or cursor, not both")
    scope = bench.scope
    try:
        whole = None if asked.cursor is not None else await scope.read_text(asked.path)
    except FileTooLarge:
        whole = None
    if whole is not None:
        window = _lines_of(bench, whole, asked.line or 1, asked.limit)
        return _answer(bench, whole, window)
    seen = None
    if asked.cursor is not None:
        read = await scope.read_text(asked.path, cursor=asked.cursor, limit=asked.limit)
        cursor = decode_cursor(asked.cursor)
        offset, seen = cursor.position.offset, cursor.seen
    else:
        read = await scope.read_text(asked.path, line=asked.line or 1, limit=asked.limit)
        offset = _beginning(read)
    follows = read.next_cursor is not None
    window = _Window(
        read.text, read.first_line, offset, seen or Seen(offset), read.partial_line, follows
    )
    cut_by_scope = read.next_cursor is not None and (
        asked.limit is None or read.partial_line or _line_count(read.text) < asked.limit
    )
    return _answer(bench, read, window, cut_by_scope)


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


def _answer(bench: Bench, read: TextRead, window: _Window, cut_by_scope: bool = False) -> FileRead:
    cut = cut_text(window.text, bench.config.max_tool_result_bytes)
    is_cut = cut.omitted_bytes > 0
    partial = window.partial
    if is_cut:
        partial = window.text[len(cut.text)] != "\n"
    follows = is_cut or window.follows
    given = _stored(read, cut.text if partial or not follows else f"{cut.text}\n")
    end = window.offset + len(given)
    truncated = is_cut or cut_by_scope
    omitted = max(read.size - end, 0)
    lines = _line_count(cut.text)
    next_line = None if window.line is None else window.line + lines - (1 if partial else 0)
    next_cursor = read.next_cursor
    if follows and (is_cut or next_cursor is None):
        position = LinePosition(end, next_line, partial, read.encoding, read.bom)
        seen = window.seen.then(given, bench.scope.limits.cursor_check_bytes_max)
        next_cursor = encode_cursor(read.version, position, seen)
    bench.wrapper.begin(cut.text)
    text = bench.wrapper.wrap(cut.text, read.path)
    return FileRead(
        text=text + cut_note(omitted) if truncated else text,
        sha256=read.sha256,
        total_lines=read.total_lines,
        truncated=truncated,
        omitted_bytes=omitted if truncated else None,
        next_line=next_line if follows and not partial else None,
        next_cursor=next_cursor,
    )


def _line_count(text: str) -> int:
    return text.count("\n") + 1


def _mark_bytes(read: TextRead) -> int:
    return len("\ufeff".encode(read.encoding)) if read.bom else 0


def _stored(read: TextRead, text: str) -> bytes:
    """A text as it stands in the file."""
    return text.encode(read.encoding)
