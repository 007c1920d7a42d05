"""The verbs that return content: whole, by ranges, by windows of lines, by chunks."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import NamedTuple, NoReturn

from bailiwick.call import Call, PastView
from bailiwick.errors import (
    BailiwickError,
    BinaryFile,
    FileTooLarge,
    HashMismatch,
    IsADirectory,
    ParseError,
)
from bailiwick.finishing import cause_of, to_the_end
from bailiwick.model import BytesRead, JsonRead, MatchedIgnore, TextRead
from bailiwick.store import Content, Handle
from bailiwick.text.codec import Decoded, decode, line_ending_of
from bailiwick.text.cursor import LineCursor, Seen, check_bounded, decode_cursor, encode_cursor
from bailiwick.text.json_document import parse_json
from bailiwick.text.lines import Reads, WindowResult, resume, tail, window
from bailiwick.verbs.arguments import check_all
from bailiwick.verbs.checksum import INLINE_BYTES_MAX, sha256_inline, sha256_of
from bailiwick.verbs.walks.ignore_files import Ignores

_OFFSET_MAX = 2**63 - 1
"""The largest offset any filesystem has: they count in signed 64-bit numbers."""


_RANGES_BETWEEN_PAUSES = 4
"""After so many ranges, a mebibyte, other tasks get their turn: about a millisecond of work. Larger
ranges, which a thread would read, took a quarter longer."""


class TextAsked(NamedTuple):
    """Which text of a file: all of it, or a window."""

    line: int | None
    limit: int | None
    tail: int | None
    cursor: str | None
    encoding: str | None


async def read_bytes(call: Call, offset: int, length: int | None) -> BytesRead:
    handle, wanted = call.handle, _wanted(call, offset, length)
    return _bytes_read(call, handle, offset, await call.store.read(handle, offset, wanted))


def _wanted(call: Call, offset: int, length: int | None) -> int:
    limit = call.limits.bytes_call_max
    if type(offset) is not int or offset or length is not None:
        _check_range(offset, length)
    if length is not None and length > limit:
        raise ParseError(f"length must be at most {limit}", details={"limit": limit})
    return limit + 1 if length is None else length


def _bytes_read(call: Call, handle: Handle, offset: int, content: Content) -> BytesRead:
    data, size, version = content
    path, limit = handle.path, call.limits.bytes_call_max
    call.bytes = count = len(data)
    if count > limit:
        raise FileTooLarge(
            f"one call returns at most {limit} bytes", path=path,
            hint="give offset and length, or use stream", details={"limit": limit, "size": size},
        )  # fmt: skip
    # By position: names cost as much again, and this is the commonest of all results.
    return BytesRead(path, data, offset, size, offset + count < size, version, call.request_id)


async def read_text(call: Call, ignores: Ignores, asked: TextAsked) -> TextRead:
    if asked.line is None and asked.limit is None and asked.tail is None and asked.cursor is None:
        if asked.encoding is not None:
            check_all({"encoding": asked.encoding})
        return await _whole_text(call, ignores, asked.encoding)
    check_all(asked._asdict())
    refuse_directory(call.handle)
    _check_window(asked)
    source = _Ranges(call)
    bytes_max, checked_max = call.limits.text_read_bytes_max, call.limits.cursor_check_bytes_max
    if asked.cursor is not None:
        cursor = decode_cursor(asked.cursor)
        await source.check(cursor)
        reads = partial(resume, cursor.position, asked.limit, seen=cursor.seen)
    elif asked.tail is not None:
        size = (await source.read(0, 0)).size
        reads = partial(tail, size, asked.tail, encoding=asked.encoding)
    else:
        line = 1 if asked.line is None else asked.line
        reads = partial(window, line, asked.limit, encoding=asked.encoding)
    result = await source.drive(partial(reads, bytes_max=bytes_max, checked_max=checked_max))
    call.bytes = result.returned_bytes
    return await source.page(ignores, result)


async def _whole_text(call: Call, ignores: Ignores, encoding: str | None) -> TextRead:
    content = await call.store.read(call.handle, 0, call.limits.text_read_bytes_max + 1)
    data, path = content.data, call.handle.path
    decoded = _decoded(call, content, encoding)
    sha256 = sha256_inline(data) if len(data) <= INLINE_BYTES_MAX else await sha256_of(data)
    return _text_read(call, content, decoded, sha256, await ignores.mark(call, path))


def _decoded(call: Call, content: Content, encoding: str | None) -> Decoded:
    limit = call.limits.text_read_bytes_max
    if len(content.data) > limit:
        raise FileTooLarge(
            f"the file is larger than one text read returns ({limit} bytes)", path=call.handle.path,
            hint="ask for a window: line and limit, tail, or the cursor of the page before",
            details={"limit": limit, "size": content.size},
        )  # fmt: skip
    return decode(content.data, encoding)


def _text_read(
    call: Call, content: Content, decoded: Decoded, sha256: str, mark: MatchedIgnore | None
) -> TextRead:
    text = decoded.text
    ended = text.endswith("\n")
    lines = text.count("\n") + (not ended and text != "")
    call.bytes = count = len(content.data)
    return TextRead(
        path=call.handle.path, text=text, encoding=decoded.encoding, bom=decoded.bom,
        line_ending=line_ending_of(text), size=count, returned_bytes=count,
        sha256=sha256, version=content.version, truncated=False,
        request_id=call.request_id, total_lines=lines, matched_ignore=mark,
        ends_with_newline=ended,
    )  # fmt: skip


class _Ranges:
    """The ranges of one file that a window asks for, all of one version but for what is appended.

    Where the version moves meanwhile, what was read is compared with what the file holds then: that
    its size moved says little, since a file may be rewritten and grow, and that it did not says as
    little, since the time of an append is seen to move before its size.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._first: Content | None = None
        self._moved = False

    async def check(self, cursor: LineCursor) -> None:
        """Raise unless what lay before the cursor, as far as it was seen, still lies there."""
        seen = cursor.seen
        if seen is not None:
            check_bounded(seen, self._call.limits.cursor_check_bytes_max)
        if cursor.version == (await self.read(0, 0)).version:
            return
        if seen is None:
            self._changed()
        await self._check_seen(seen, cursor.position.offset)

    async def drive(self, reads: Callable[[], Reads]) -> WindowResult:
        try:
            result = await self._driven(reads())
        except BinaryFile:
            if not self._moved:
                raise
            # Ranges of two versions need not make a text together: once more, from the start.
            self._first, self._moved = None, False
            result = await self._driven(reads())
        if self._moved:
            await self._check_seen(result.seen, result.end)
        return result

    async def _driven(self, reads: Reads) -> WindowResult:
        ranges = 0
        try:
            wanted = next(reads)
            while True:
                wanted = reads.send((await self.read(*wanted)).data)
                ranges += 1
                if ranges % _RANGES_BETWEEN_PAUSES == 0:
                    await asyncio.sleep(0)
        except StopIteration as stop:
            result: WindowResult = stop.value
            return result

    async def read(self, offset: int, length: int) -> Content:
        content = await self._call.store.read(self._call.handle, offset, length)
        if self._first is None:
            self._first = content
        elif content.version != self._first.version:
            self._moved = True
        return content

    async def _check_seen(self, seen: Seen, end: int) -> None:
        first = await self._checksum(seen.start, seen.first_bytes)
        last = await self._checksum(end - seen.last_bytes, seen.last_bytes)
        if (first, last) != (seen.first_checksum, seen.last_checksum):
            self._changed()

    async def _checksum(self, offset: int, length: int) -> int:
        call, checksum, ranges = self._call, 0, 0
        end = offset + length
        while offset < end:
            wanted = min(end - offset, call.limits.stream_chunk_bytes)
            data = (await call.store.read(call.handle, offset, wanted)).data
            if len(data) < wanted:
                self._changed()
            checksum = zlib.crc32(data, checksum)
            offset += wanted
            ranges += 1
            if ranges % _RANGES_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
        return checksum

    def _changed(self) -> NoReturn:
        raise HashMismatch(
            "what was read of the file before has changed", path=self._call.handle.path,
            hint="read it again from the start",
            details={"current_sha256": None, "current_version": None},
        )  # fmt: skip

    async def page(self, ignores: Ignores, result: WindowResult) -> TextRead:
        call, first = self._call, self._first
        assert first is not None, "a window reads at least once"
        following = None
        if result.next is not None:
            following = encode_cursor(first.version, result.next, result.seen)
        return TextRead(
            path=call.handle.path, text=result.text, encoding=result.encoding, bom=result.bom,
            line_ending=result.line_ending, size=first.size,
            returned_bytes=result.returned_bytes, sha256=None, version=first.version,
            truncated=result.truncated, request_id=call.request_id,
            first_line=result.first_line, total_lines=result.total_lines, next_cursor=following,
            partial_line=result.partial_line,
            matched_ignore=await ignores.mark(call, call.handle.path),
            ends_with_newline=result.ends_with_newline,
        )  # fmt: skip


def _check_window(asked: TextAsked) -> None:
    ways = [asked.cursor is not None, asked.tail is not None, asked.line is not None]
    if sum(ways) > 1 or (asked.tail is not None and asked.limit is not None):
        raise ParseError("a window is given by line and limit, by tail, or by cursor and limit")
    if asked.cursor is not None and asked.encoding is not None:
        raise ParseError("a cursor carries its encoding: do not give another")


async def read_json(call: Call) -> JsonRead:
    handle = call.handle
    limit = call.limits.bytes_call_max
    refuse_directory(handle)
    content = await call.store.read(handle, 0, limit + 1)
    if len(content.data) > limit:
        raise FileTooLarge(
            f"one call reads at most {limit} bytes", path=handle.path, details={"limit": limit}
        )
    if len(content.data) <= INLINE_BYTES_MAX:
        value = parse_json(content.data)
    else:
        value = await asyncio.to_thread(parse_json, content.data)
    call.bytes = len(content.data)
    return JsonRead(
        path=handle.path,
        value=value,
        sha256=await sha256_of(content.data),
        version=content.version,
        request_id=call.request_id,
    )


async def stream(call: Call, offset: int, length: int | None) -> AsyncGenerator[bytes, None]:
    """One call for as long as the stream lasts; a reader who stops early has read that much.

    Closing waits for a chunk that is being read, not for the reader: the next one is `Closed`. A
    grant that ends meanwhile ends the stream with it.
    """
    pipeline = call.pipeline
    pipeline.stream_begun(call)
    try:
        with pipeline.working():
            _check_range(offset, length)
            await pipeline.admit(call)
            refuse_directory(call.handle)
        call.bytes = 0
        chunks = call.store.stream(call.handle, offset, length)
        async with aclosing(chunks):
            while True:
                with pipeline.working():
                    pipeline.holds(call)
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                call.bytes += len(chunk)
                yield chunk
    except GeneratorExit:
        await _end_stream(call)
        raise
    except BaseException as error:
        if not pipeline.stream_ended(call):
            if isinstance(error, BailiwickError):
                error.request_id = call.request_id
            raise  # it is on record already, as ended by closing
        with pipeline.working():
            raise await pipeline.failed(call, error) from cause_of(error)
    await _end_stream(call)


async def closing_past(
    past: PastView, chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """A stream from an earlier version, which is let go of in the end."""
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    finally:
        await to_the_end(past.aclose())


async def _end_stream(call: Call) -> None:
    """Put what was read on record, unless closing has done so already."""
    pipeline = call.pipeline
    if pipeline.stream_ended(call):
        with pipeline.working():
            await pipeline.observed(call, pipeline.succeeded(call))


def _check_range(offset: int, length: int | None) -> None:
    check_all({"offset": offset, "length": length})
    if not 0 <= offset <= _OFFSET_MAX or (length is not None and not 0 <= length <= _OFFSET_MAX):
        raise ParseError(f"offset and length must be from 0 to {_OFFSET_MAX}")


def refuse_directory(handle: Handle) -> None:
    if handle.type == "directory":
        raise IsADirectory("is a directory", path=handle.path)
