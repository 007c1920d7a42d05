"""Windows of lines into text files of any size, in memory bounded by one window and one chunk.

A window is a generator: it yields the ranges it wants as ``(offset, length)`` and is sent the bytes
of each. An answer shorter than asked means that the file ends there. So the same code serves a
thread, an event loop and a test, and nothing here touches a file.

Lines are counted as a person does, from 1: a line feed ends a line, so "a\\n" is one line, and an
empty text none. A page after which others follow leaves out the line feed after its last line, and
only that: in a CRLF file each line keeps its carriage return, also the page's last. So pages joined
with "\\n" are exactly the text. (Where the line feed that ends the file is one more than fits into
a page, an empty page follows.) A line longer than a page is cut between two characters; such a page
says ``partial_line`` and joins the next without anything between. Bytes that are skipped over are
counted, not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from bailiwick.errors import HashMismatch, ParseError
from bailiwick.limits import Limits
from bailiwick.model import KiB, LineEnding, Value
from bailiwick.text.codec import decode_beginning, decode_exactly, detect, line_ending_of
from bailiwick.text.cursor import LinePosition, Seen
from bailiwick.text.newlines import Newlines, newlines_of
from bailiwick.text.sniff import TEXT_PROBE_BYTES

WINDOW_BYTES_MAX = Limits().text_read_bytes_max
CHUNK_BYTES = Limits().stream_chunk_bytes
CHECKED_BYTES_MAX = Limits().cursor_check_bytes_max

# The first range asked for: a screenful of lines without fetching a whole chunk for it.
_FIRST_BYTES = 16 * KiB

# A window must hold at least one character of any encoding, or pages would not advance.
_WINDOW_BYTES_MIN = 8


class WindowResult(Value, frozen=True, kw_only=True):
    """One page of lines.

    ``returned_bytes`` is the size of ``text`` as stored. ``line_ending`` counts the line feed that
    was left out. ``total_lines`` is known where the end was reached with all lines counted,
    ``ends_with_newline`` where it was reached, ``first_line`` unless this is the tail of a file too
    large to count. ``next`` is where the next page begins, None at the end of the file. ``seen`` is
    what lies before ``end``, which is where the next page begins or would begin.
    """

    text: str
    encoding: str
    bom: bool
    line_ending: LineEnding
    first_line: int | None
    returned_bytes: int
    total_lines: int | None
    ends_with_newline: bool | None
    partial_line: bool
    next: LinePosition | None
    end: int
    seen: Seen

    @property
    def truncated(self) -> bool:
        """Whether the file goes on after this page."""
        return self.next is not None


Reads = Generator[tuple[int, int], bytes, WindowResult]


def drive(reads: Reads, read_at: Callable[[int, int], bytes]) -> WindowResult:
    """Run a window to its result, answering each range with ``read_at(offset, length)``."""
    try:
        wanted = next(reads)
        while True:
            wanted = reads.send(read_at(*wanted))
    except StopIteration as stop:
        result: WindowResult = stop.value
        return result


def window(
    line: int = 1,
    limit: int | None = None,
    *,
    encoding: str | None = None,
    bytes_max: int = WINDOW_BYTES_MAX,
    chunk_bytes: int = CHUNK_BYTES,
    checked_max: int = CHECKED_BYTES_MAX,
) -> Reads:
    """Read ``limit`` lines from ``line`` on, or as many as fit into ``bytes_max`` stored bytes.

    Past the end is an empty page with ``total_lines``. Raises BinaryFile for what is not text (the
    file's beginning and the window are looked at), ParseError for arguments out of range.
    """
    _require(line >= 1, "line counts from 1")
    feed = _Feed(0, chunk_bytes, bytes_max)
    data = yield from feed.next_chunk(at_least=TEXT_PROBE_BYTES)
    found, mark_bytes = detect(data[:TEXT_PROBE_BYTES], encoding)
    position = LinePosition(mark_bytes, 1, False, found, mark_bytes > 0)
    seen = Seen(0).then(data[:mark_bytes], checked_max)
    data = data[mark_bytes:]
    if line > 1:
        newlines = newlines_of(found)
        skipped = yield from _skip(feed, newlines, data, line - 1, seen, checked_max)
        if skipped.lines < line - 1:
            return _past_the_end(position, line, skipped, feed.offset)
        data, seen = skipped.data, skipped.seen
        position = LinePosition(feed.offset - len(data), line, False, found, mark_bytes > 0)
    before = _Before(position, seen, checked_max)
    return (yield from _page(feed, before, data, limit, bytes_max))


def resume(
    position: LinePosition,
    limit: int | None = None,
    *,
    seen: Seen | None = None,
    bytes_max: int = WINDOW_BYTES_MAX,
    chunk_bytes: int = CHUNK_BYTES,
    checked_max: int = CHECKED_BYTES_MAX,
) -> Reads:
    """Read on from where a page ended, before which so much was ``seen``.

    Whether the file is still the same, the caller has checked. Raises BinaryFile for what is not
    text there, ParseError for arguments out of range.
    """
    feed = _Feed(position.offset, chunk_bytes, bytes_max)
    before = _Before(position, seen or Seen(position.offset), checked_max)
    return (yield from _page(feed, before, b"", limit, bytes_max))


def tail(
    size: int,
    count: int,
    *,
    encoding: str | None = None,
    bytes_max: int = WINDOW_BYTES_MAX,
    chunk_bytes: int = CHUNK_BYTES,
    checked_max: int = CHECKED_BYTES_MAX,
) -> Reads:
    """Read the last ``count`` lines of a file of ``size`` bytes, from the first of them on.

    The file is searched backwards from ``size``, never from its beginning; bytes appended meanwhile
    are left out. Lines that exceed ``bytes_max`` are cut and continued like any window. Raises
    HashMismatch when the file is shorter than ``size``, otherwise as `window`.
    """
    _require(count >= 1, "tail must be at least 1")
    held = _HeldBytes(size, bytes_max)
    head = yield from held.read(0, min(size, TEXT_PROBE_BYTES))
    found, mark_bytes = detect(head, encoding)
    newlines = newlines_of(found)
    start = yield from _start_of_last(held, newlines, mark_bytes, count, chunk_bytes)
    first_line = 1 if start == mark_bytes else None
    position = LinePosition(start, first_line, False, found, mark_bytes > 0)
    page = resume(
        position, count, bytes_max=bytes_max, chunk_bytes=chunk_bytes, checked_max=checked_max
    )
    wanted = next(page)
    while True:
        offset, length = wanted
        answer = yield from held.read(offset, min(length, size - offset))
        try:
            wanted = page.send(answer)
        except StopIteration as stop:
            result: WindowResult = stop.value
            return result


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ParseError(message)


class _Feed:
    """Asks for the bytes of a file in order, in chunks that grow."""

    __slots__ = ("_length", "_length_max", "ended", "offset")

    def __init__(self, offset: int, chunk_bytes: int, bytes_max: int) -> None:
        _require(
            bytes_max >= _WINDOW_BYTES_MIN, f"a window holds {_WINDOW_BYTES_MIN} bytes or more"
        )
        self.offset = offset
        self.ended = False
        # Whole units of any encoding, so that no chunk ends inside one.
        self._length_max = max(chunk_bytes - chunk_bytes % 4, 4)
        self._length = min(_FIRST_BYTES, self._length_max)

    def next_chunk(self, at_least: int = 0) -> Generator[tuple[int, int], bytes, bytes]:
        length = max(self._length, at_least)
        chunk = yield self.offset, length
        self.offset += len(chunk)
        self.ended = len(chunk) < length
        self._length = min(self._length * 2, self._length_max)
        return chunk


class _HeldBytes:
    """The end of a file as far as it was read backwards, so that small tails are read once."""

    __slots__ = ("_block", "_bytes_max", "size")

    def __init__(self, size: int, bytes_max: int) -> None:
        self.size = size
        self._bytes_max = bytes_max
        self._block = b""

    def read(self, offset: int, length: int) -> Generator[tuple[int, int], bytes, bytes]:
        """Return exactly this range, asking only for what is not held."""
        if length <= 0:
            return b""
        start = self.size - len(self._block)
        if offset >= start:
            return self._block[offset - start : offset - start + length]
        data = yield offset, length
        if len(data) < length:
            raise HashMismatch("the file became shorter while it was read", hint="read it again")
        if offset + length == start and len(self._block) + length <= self._bytes_max:
            self._block = data + self._block
        return data


def _start_of_last(
    held: _HeldBytes, newlines: Newlines, text_start: int, count: int, chunk_bytes: int
) -> Generator[tuple[int, int], bytes, int]:
    """Return the offset of the ``count``-th line from the end, or of the text if it has fewer."""
    end = held.size - held.size % newlines.unit
    length_max = max(chunk_bytes - chunk_bytes % 4, 4)
    length = min(_FIRST_BYTES, length_max)
    wanted = count
    last = True
    while end > text_start:
        start = max(end - length, text_start)
        chunk = yield from held.read(start, end - start)
        if last and newlines.ends(chunk):
            wanted += 1  # it ends the last line, and begins none
        last = False
        here = newlines.count(chunk)
        if here >= wanted:
            return start + newlines.nth(chunk, here - wanted + 1)[0] + newlines.unit
        wanted -= here
        end = start
        length = min(length * 2, length_max)
    return text_start


class _Skipped(NamedTuple):
    """So many line feeds were passed, and ``data`` was read after the last. At the end of the file
    ``unended`` says that its last line has none. ``seen`` is what lies before ``data``."""

    lines: int
    data: bytes
    unended: bool
    seen: Seen


def _skip(
    feed: _Feed, newlines: Newlines, data: bytes, count: int, seen: Seen, checked_max: int
) -> Generator[tuple[int, int], bytes, _Skipped]:
    """Pass ``count`` line feeds, or as many as there are."""
    passed, unended = 0, False
    while True:
        end, here = newlines.nth(data, count - passed)
        passed += here
        if end >= 0:
            end += newlines.unit
            seen = seen.then(data[:end], checked_max, skipped=True)
            return _Skipped(passed, data[end:], False, seen)
        seen = seen.then(data, checked_max, skipped=True)
        if data:
            unended = not newlines.ends(data)
        if feed.ended:
            return _Skipped(passed, b"", unended, seen)
        data = yield from feed.next_chunk()


class _Before(NamedTuple):
    """Where a page begins, and what was seen of what lies before it."""

    position: LinePosition
    seen: Seen
    checked_max: int


def _page(feed: _Feed, before: _Before, data: bytes, limit: int | None, bytes_max: int) -> Reads:
    """Make the page that begins there, of which ``data`` has been read already."""
    _require(limit is None or limit >= 1, "limit must be at least 1")
    newlines = newlines_of(before.position.encoding)
    unit = newlines.unit
    room = bytes_max - bytes_max % unit
    pieces: list[bytes] = []
    held, missing = 0, limit
    end = -1  # where the line feed begins that ends the last line that is asked for
    while True:
        if missing:
            found, passed = newlines.nth(data, missing)
            missing -= passed
            if found >= 0:
                end = held + found
        pieces.append(data)
        held += len(data)
        # One unit more than fits: the line feed after the last line is not part of the page. And
        # what follows the last line that is asked for, if only to see that something does.
        if feed.ended or held >= room + unit or 0 <= end < held - unit:
            break
        data = yield from feed.next_chunk()
    data = b"".join(pieces)
    if limit is not None and 0 <= end <= room and (end + unit < held or not feed.ended):
        return _whole_lines(before, data[: end + unit], limit, unit)
    if feed.ended and held <= room and (end < 0 or end + unit == held):
        return _last_lines(before, data, newlines)
    end = newlines.last(data[: room + unit])
    if end >= 0:
        data = data[: end + unit]
        return _whole_lines(before, data, newlines.count(data), unit)
    return _part_of_line(before, data[:room])


def _result(
    before: _Before,
    text: str,
    data: bytes,
    following: LinePosition | None,
    *,
    ended: bytes = b"",
    total_lines: int | None = None,
    ends_with_newline: bool | None = None,
    partial_line: bool = False,
) -> WindowResult:
    """``data`` is ``text`` as stored, ``ended`` the line feed after it that is left out."""
    position = before.position
    return WindowResult(
        text=text,
        encoding=position.encoding,
        bom=position.bom,
        line_ending=line_ending_of(text + "\n" if ended else text),
        first_line=position.line,
        returned_bytes=len(data),
        total_lines=total_lines,
        ends_with_newline=ends_with_newline,
        partial_line=partial_line,
        next=following,
        end=position.offset + len(data) + len(ended),
        seen=before.seen.then(data + ended, before.checked_max),
    )


def _whole_lines(before: _Before, data: bytes, count: int, unit: int) -> WindowResult:
    """The page of so many lines, the last ended by the line feed that ends ``data``, after which
    others follow."""
    position, line = before.position, before.position.line
    following = LinePosition(
        position.offset + len(data),
        None if line is None else line + count,
        False,
        position.encoding,
        position.bom,
    )
    data, ended = data[:-unit], data[-unit:]
    text = decode_exactly(data, position.encoding)
    return _result(before, text, data, following, ended=ended)


def _last_lines(before: _Before, data: bytes, newlines: Newlines) -> WindowResult:
    position = before.position
    line, empty = position.line, not data and not position.inside_line
    ended = newlines.ends(data) if data else empty and line != 1
    total = None if line is None else line + newlines.count(data) - (ended or empty)
    text = decode_exactly(data, position.encoding)
    return _result(before, text, data, None, total_lines=total, ends_with_newline=ended)


def _part_of_line(before: _Before, data: bytes) -> WindowResult:
    """The page that is cut inside a line, before the character that does not fit whole."""
    position = before.position
    text, taken = decode_beginning(data, position.encoding)
    data = data[:taken]
    following = LinePosition(
        position.offset + len(data), position.line, True, position.encoding, position.bom
    )
    return _result(before, text, data, following, partial_line=True)


def _past_the_end(position: LinePosition, line: int, skipped: _Skipped, end: int) -> WindowResult:
    return WindowResult(
        text="",
        encoding=position.encoding,
        bom=position.bom,
        line_ending="none",
        first_line=line,
        returned_bytes=0,
        total_lines=skipped.lines + skipped.unended,
        ends_with_newline=skipped.lines > 0 and not skipped.unended,
        partial_line=False,
        next=None,
        end=end,
        seen=skipped.seen,
    )
