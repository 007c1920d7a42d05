"""The verbs of a remote scope that read and write what files hold."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from bailiwick.client.core import RemoteCore, bound, remote
from bailiwick.client.failures import cut_off, no_answer
from bailiwick.client.transport import HttpAnswer
from bailiwick.client.values import asked, rebuilt
from bailiwick.errors import FileTooLarge, IoError, ParseError, RangeNotSatisfiable
from bailiwick.model import (
    BytesRead,
    JsonRead,
    TextRead,
    WriteResult,
)
from bailiwick.paths import PathText
from bailiwick.scope import Scope
from bailiwick.text.json_document import parse_json
from bailiwick.verbs.arguments import check_all, check_known
from bailiwick.verbs.writes import AS_JSON, ByteSource, chunks_of, json_text
from bailiwick.wire import verbs
from bailiwick.wire.arguments import LINES_MAX, TEXT_BYTES_MAX
from bailiwick.wire.names import base64_of

_content_range = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})").fullmatch


class _ContentPart(NamedTuple):
    """What a download will bring: so many bytes, of a version with this tag."""

    length: int
    tag: str


def _check_text(scope: RemoteCore, said: dict[str, Any]) -> None:
    """Refuse what is no text, and what is too long in any encoding, before it is sent."""
    text, limit = said["text"], scope.limits.text_write_bytes_max
    if not isinstance(text, str):
        raise ParseError(f"text must be str, not {type(text).__name__}")
    if len(text) > limit:
        raise FileTooLarge(
            f"one text write takes at most {limit} bytes",
            hint="use write_stream for larger content", details={"limit": limit},
        )  # fmt: skip


def _check_edits(scope: object, said: dict[str, Any]) -> None:
    check_all({"edits": said.get("edits")})


def _addition(scope: RemoteCore, said: dict[str, Any]) -> None:
    """What an append adds, by the names of the wire. It must fit into a request."""
    data, limit = said["data"], scope._session.body_bytes_max
    if isinstance(data, str):
        name, text = "content", data
    elif isinstance(data, (bytes, bytearray, memoryview)):
        name, text = "content_base64", base64_of(data)
    else:
        raise ParseError(f"data must be bytes or str, not {type(data).__name__}")
    if len(text) > limit:
        raise FileTooLarge(
            f"one request takes at most {limit} bytes", hint="append in several calls",
            details={"limit": limit},
        )  # fmt: skip
    said[name] = text


async def _write_bytes(scope: RemoteContent, said: dict[str, Any]) -> WriteResult:
    query, data, limit = asked(verbs.WRITE_STREAM, said), said["data"], scope.limits.bytes_call_max
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ParseError(f"data must be bytes, not {type(data).__name__}")
    content = bytes(data)
    if len(content) > limit:
        raise FileTooLarge(
            f"one call writes at most {limit} bytes", hint="use write_stream",
            details={"limit": limit},
        )  # fmt: skip
    return await scope._put(content, query)


async def _write_json(scope: RemoteContent, said: dict[str, Any]) -> WriteResult:
    text = await json_text(said["value"], scope.limits.text_write_bytes_max)
    return await scope._done(verbs.WRITE_TEXT, {**said, "text": text, **AS_JSON._asdict()})


async def _write_stream(scope: RemoteContent, said: dict[str, Any]) -> WriteResult:
    """Where a person must be asked it is `ApprovalTimeout`: the source cannot be sent a second
    time."""
    query = asked(verbs.WRITE_STREAM, said)
    async with aclosing(scope._until_closed(said["source"])) as chunks:
        return await scope._put(chunks, query)


class RemoteContent(RemoteCore):
    """Reading and writing."""

    async def read_bytes(
        self,
        path: PathText,
        offset: int = 0,
        length: int | None = None,
        *,
        as_of: str | None = None,
    ) -> BytesRead:
        """The bytes of a file, or of a range of it; at most 100 MiB a call."""
        given = dict(locals())
        check_known(given)
        limit = self.limits.bytes_call_max
        if length is not None and length > limit:
            raise ParseError(f"length must be at most {limit}", details={"limit": limit})
        wanted = TEXT_BYTES_MAX if length is None else min(length, TEXT_BYTES_MAX)
        document = await self._told(verbs.READ_BYTES, given, {"maxBytes": wanted})
        read = _bytes_read(document, offset, wanted)
        end = read.size if length is None else min(read.size, offset + length)
        if end <= offset + len(read.data):
            return read
        if end - offset > limit:
            raise FileTooLarge(
                f"one call returns at most {limit} bytes", path=read.path,
                hint="give offset and length, or use stream",
                details={"limit": limit, "size": read.size},
            )  # fmt: skip
        begun = offset + len(read.data)
        pieces = [read.data]
        more = self._downloaded(path, begun, end - begun, as_of, f'"{read.version}"')
        async with aclosing(more) as chunks:
            pieces += [chunk async for chunk in chunks]
        return msgspec.structs.replace(read, data=b"".join(pieces), truncated=end < read.size)

    async def read_text(
        self,
        path: PathText,
        *,
        line: int | None = None,
        limit: int | None = None,
        tail: int | None = None,
        cursor: str | None = None,
        encoding: str | None = None,
        as_of: str | None = None,
    ) -> TextRead:
        """The text of a file, or a window of its lines; at most 2,000 lines of them at once."""
        given, most = dict(locals()), self.limits.text_read_bytes_max
        check_known(given)
        if limit is not None:
            given["limit"] = min(limit, LINES_MAX)
        cut = {"maxBytes": most if most < TEXT_BYTES_MAX else None}
        read = await self._done(verbs.READ_TEXT, given, cut)
        if read.truncated and all(each is None for each in (line, limit, tail, cursor)):
            raise FileTooLarge(
                f"the file is larger than one text read returns ({most} bytes)", path=read.path,
                hint="ask for a window: line and limit, tail, or the cursor of the page before",
                details={"limit": most, "size": read.size},
            )  # fmt: skip
        return read

    async def read_json(self, path: PathText, *, as_of: str | None = None) -> JsonRead:
        """A JSON document. Invalid JSON is `ParseError` with line and column."""
        read = await self.read_bytes(path, as_of=as_of)
        value = await asyncio.to_thread(parse_json, read.data)
        return JsonRead(
            path=read.path, value=value, sha256=hashlib.sha256(read.data).hexdigest(),
            version=read.version, request_id=read.request_id,
        )  # fmt: skip

    async def stream(
        self,
        path: PathText,
        offset: int = 0,
        length: int | None = None,
        *,
        as_of: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a file of any size, chunk by chunk, one chunk in memory.

        A connection that breaks is taken up where it broke, as long as the file is the same. What
        cannot be had to its end is an error, never a shorter file.
        """
        check_all({"offset": offset, "length": length})
        if length == 0:
            await self.read_bytes(path, offset, 0, as_of=as_of)
            return
        async with aclosing(self._downloaded(path, offset, length, as_of)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _downloaded(
        self,
        path: PathText,
        offset: int,
        length: int | None,
        as_of: str | None,
        tag: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """A part of a file, of one version. Where that is known (``tag``), the part is known to
        lie within it."""
        given = asked(verbs.STREAM, locals())
        end = None if length is None else offset + length
        first, transport = offset, self._session.transport
        retries = transport.retries_of_a_stream()
        while True:
            try:
                async with self._download(given, first, end, tag) as (answer, part):
                    if tag is not None and first + part.length != end:
                        raise no_answer("it is the same file, and ends elsewhere")
                    tag, end = part.tag, first + part.length
                    async with aclosing(answer.chunks()) as chunks:
                        async for chunk in chunks:
                            self._refuse_closed()
                            first += len(chunk)
                            if first > end:
                                raise no_answer("it sends more than it said")
                            retries = transport.retries_of_a_stream()
                            yield chunk
                if first == end:
                    return
                raise cut_off("the file did not come to its end")
            except RangeNotSatisfiable:
                if first == offset:
                    return  # nothing stands there, which is no error
                raise
            except IoError as error:
                self._refuse_closed()
                if tag is None:
                    raise
                await retries.failed(error, harmless=True)

    @asynccontextmanager
    async def _download(
        self, given: dict[str, str | None], first: int, end: int | None, tag: str | None
    ) -> AsyncIterator[tuple[HttpAnswer, _ContentPart]]:
        """A download that begins: the answer, and what it will bring."""
        headers = {}
        if first or end is not None:
            headers["range"] = f"bytes={first}-" + ("" if end is None else str(end - 1))
        if tag is not None:
            headers["if-match"] = tag
        async with AsyncExitStack() as stack:

            async def once(approval: str | None) -> HttpAnswer:
                request = self._asked(
                    verbs.STREAM.method, verbs.STREAM.path, given, approval=approval,
                    headers=headers,
                )  # fmt: skip
                return await stack.enter_async_context(self._session.transport.opened(request))

            self._refuse_closed()
            answer = await self._patiently(once)
            yield answer, _part(answer, first, end, "range" in headers)

    write_bytes = bound(Scope.write_bytes, _write_bytes)
    write_text = remote(Scope.write_text, verbs.WRITE_TEXT, first=_check_text)
    write_json = bound(Scope.write_json, _write_json)
    write_stream = bound(Scope.write_stream, _write_stream)

    async def _until_closed(self, source: ByteSource) -> AsyncGenerator[bytes, None]:
        """A scope that is closing does not wait for the rest of an upload: it may never come."""
        async with aclosing(chunks_of(source, self.limits.stream_chunk_bytes)) as chunks:
            async for chunk in chunks:
                self._refuse_closed()
                if chunk:  # an empty one would end the body
                    yield chunk

    async def _put(
        self, content: bytes | AsyncGenerator[bytes, None], query: dict[str, Any]
    ) -> WriteResult:
        put = verbs.WRITE_STREAM
        document = await self._ask(put.kind, put.method, put.path, query=query, content=content)
        return rebuilt(WriteResult, document)

    append = remote(Scope.append, verbs.APPEND, first=_addition)
    truncate = remote(Scope.truncate, verbs.TRUNCATE)
    edit = remote(Scope.edit, verbs.EDIT, first=_check_edits)


def _part(answer: HttpAnswer, first: int, end: int | None, ranged: bool) -> _ContentPart:
    """What comes is what was asked for, and it is known where it ends."""
    length, tag = answer.number("content-length"), answer.header("etag")
    if length is None or not tag or len(tag) > 1_024:
        raise no_answer("it does not say how much of which file it is")
    if not ranged:
        if answer.status != 200:
            raise no_answer("it is a part of a file, and the whole was asked for")
        return _ContentPart(length, tag)
    part = _content_range(answer.header("content-range") or "")
    if answer.status != 206 or part is None:
        raise no_answer("it is not the part of the file that was asked for")
    begins, last, size = (int(digits) for digits in part.groups())
    ends = size if end is None else min(end, size)
    if (begins, last + 1, length) != (first, ends, ends - first):
        raise no_answer("it is another part of the file than was asked for")
    return _ContentPart(length, tag)


def _bytes_read(document: dict[str, Any], offset: int, wanted: int) -> BytesRead:
    read = rebuilt(BytesRead, document)
    end = offset + len(read.data)
    if read.offset != offset or end > offset + wanted:
        raise no_answer("its bytes are not those that were asked for")
    return msgspec.structs.replace(read, truncated=end < read.size)
