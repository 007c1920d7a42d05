"""The bytes of files of any size, in and out, as streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from bailiwick.errors import (
    FileAlreadyExists,
    HashMismatch,
    IsADirectory,
    RangeNotSatisfiable,
)
from bailiwick.fronts.http.messages import bodies, ranges
from bailiwick.fronts.http.messages.requests import Headers, Reply, Request
from bailiwick.fronts.http.settings import RAW_READ_BYTES, UPLOAD_BYTES_MAX
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import answering, from_query, route
from bailiwick.model import BytesRead
from bailiwick.paths import parse
from bailiwick.scope import Scope
from bailiwick.wire import values, verbs
from bailiwick.wire.arguments import APPROVAL, PARENTS, PATH

_NAMES_MAX = 1_000
"""How many numbered names an upload tries."""

_SANDBOX = (b"content-security-policy", b"default-src 'none'; sandbox")
"""Whatever a browser is shown of a file's bytes can run nothing and load nothing."""

_SHOWN = {
    "png": b"image/png",
    "jpg": b"image/jpeg",
    "jpeg": b"image/jpeg",
    "gif": b"image/gif",
    "webp": b"image/webp",
    "avif": b"image/avif",
    "bmp": b"image/bmp",
}
"""Pictures that hold no script. All else that is shown is shown as plain text."""


_asked = from_query("write_stream", verbs.WRITE_STREAM)
_written = answering(verbs.WRITE_STREAM)


async def download(request: Request) -> Reply:
    query = request.query
    path = query["path"]
    scope = await request.scoped(path)
    at = query.get("as_of")
    asked = ranges.parse_range(request.header(b"range"))
    if asked is not None and asked[0] is None:
        size = (await scope.read_bytes(path, 0, 0, as_of=at)).size
        asked = (max(0, size - (asked[1] or 0)), None) if asked[1] else (size, None)
    first = asked[0] or 0 if asked is not None else 0
    read = await _begin(scope, path, first, asked, at)
    version = read.version
    known = request.header(b"if-match")
    if known is not None and not ranges.names_strongly(known, version):
        raise HashMismatch("the file is not the one that If-Match names", status=412, path=path)
    headers = _headers(request, path, version)
    if ranges.names(request.header(b"if-none-match"), version):
        return Reply(status=304, headers=headers, request_id=read.request_id)
    if_range = request.header(b"if-range")
    if asked is not None and if_range is not None and not ranges.names_strongly(if_range, version):
        asked = None
        read = await _begin(scope, path, 0, None, at)
    return await _answer(request, scope, read, asked, headers, at)


async def _begin(
    scope: Scope,
    path: str,
    first: int,
    asked: tuple[int | None, int | None] | None,
    at: str | None,
) -> BytesRead:
    """The first bytes that are asked for, and what they are of. A small file ends with it."""
    length = RAW_READ_BYTES
    if asked is not None and asked[1] is not None:
        length = min(length, asked[1] - first + 1)
    return await scope.read_bytes(path, first, length, as_of=at)


async def _answer(
    request: Request,
    scope: Scope,
    read: BytesRead,
    asked: tuple[int | None, int | None] | None,
    headers: Headers,
    at: str | None,
) -> Reply:
    size, path, named = read.size, request.query["path"], read.request_id
    status = 200
    part = ranges.Range(0, size)
    if asked is not None:
        try:
            part = ranges.within(asked, size)
        except RangeNotSatisfiable as error:
            error.path = str(read.path)
            raise
        status = 206
        end = part.first + (part.length or 0) - 1
        headers.append((b"content-range", b"bytes %d-%d/%d" % (part.first, end, size)))
    length = part.length or 0
    if request.route.method == "HEAD":
        return Reply(status=status, headers=headers, body=b"", length=length, request_id=named)
    if len(read.data) >= length:
        return Reply(status=status, headers=headers, body=read.data[:length], request_id=named)
    chunks, first = await _opened(scope, path, part, read.version, at)
    stream = _all(first, chunks)
    return Reply(status=status, headers=headers, chunks=stream, length=length, request_id=named)


async def _opened(
    scope: Scope, path: str, part: ranges.Range, version: str, at: str | None
) -> tuple[AsyncGenerator[bytes, None], bytes]:
    """A stream of the very version that the headers name, and its first chunk.

    The stream holds what it opened. If the name leads to the same version before and after, then
    that is what was opened.
    """
    chunks = scope.stream(path, part.first, part.length, as_of=at)
    try:
        first = await anext(chunks, b"")
        if (await scope.read_bytes(path, 0, 0, as_of=at)).version != version:
            raise HashMismatch(
                "the file was replaced while it was being opened", path=path, hint="ask again"
            )
    except BaseException:
        await chunks.aclose()
        raise
    return chunks, first


async def _all(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        yield first
        async for chunk in chunks:
            yield chunk
    finally:
        await chunks.aclose()


def _headers(request: Request, path: str, version: str) -> Headers:
    name = parse(path).path.name if "\0" not in path else "file"
    kind, how = b"application/octet-stream", b"attachment"
    if request.query.get("inline", False):
        kind = _SHOWN.get(name.rpartition(".")[2].lower(), b"text/plain; charset=utf-8")
        how = b"inline"
    tag = ranges.tag_of(version)
    filename = b"; filename*=UTF-8''" + quote(name, safe="").encode("ascii")
    return [
        (b"content-type", kind),
        (b"content-disposition", how + filename),
        (b"accept-ranges", b"bytes"),
        _SANDBOX,
        *([] if tag is None else [(b"etag", tag)]),
    ]


async def put(request: Request) -> Any:
    bodies.refuse_coded(request.headers)
    query = request.query
    scope = await request.scoped(query["path"])
    given = _asked(query)
    source = bodies.chunks_of(request.receive, request.headers, scope.limits.max_file_bytes)
    try:
        result = await scope.write_stream(source=source, **given)
    finally:
        await source.aclose()
    return _written(result)


async def upload(request: Request) -> Reply:
    """Write an upload under its name, or under the first numbered name that is free."""
    bodies.refuse_coded(request.headers)
    path = request.query["path"]
    scope = await request.scoped(path)
    limit = min(UPLOAD_BYTES_MAX, scope.limits.max_file_bytes)
    if (bodies.announced(request.headers) or 0) > limit:
        raise bodies.too_large(limit)
    begun = False

    async def source() -> AsyncGenerator[bytes, None]:
        nonlocal begun
        async for chunk in bodies.chunks_of(request.receive, request.headers, limit):
            begun = True
            yield chunk

    for name in _names(path):
        if "metadata" in scope.access and await scope.exists(name):
            continue
        chunks = source()
        try:
            result = await scope.write_stream(
                name, chunks, mode="create", parents=request.query.get("parents", False)
            )
        except FileAlreadyExists:
            if begun:  # someone was faster, and the bytes are gone
                raise
            continue
        finally:
            await chunks.aclose()
        return Reply(values.FILE_UPLOAD.write(result), 201)
    raise FileAlreadyExists("there is no free name like this one", path=path)


def _names(path: str) -> list[str]:
    """The name itself, then ``name (1).ext``, ``name (2).ext`` …"""
    if path.endswith("/"):
        raise IsADirectory("an upload is a file", path=path)
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    numbered = (f"{stem} ({n}){dot}{ending}" for n in range(1, _NAMES_MAX + 1))
    return [path, *(f"{folder}{slash}{each}" for each in numbered)]


ROUTES: tuple[Route, ...] = (
    route(verbs.STREAM, download, answers="bytes", result=None),
    route(
        verbs.STREAM, download, answers="bytes", result=None, method="HEAD", name="downloadHead",
        about="What GET /file/raw would answer, without the bytes.",
        example="HEAD /file/raw?path=video.mp4",
    ),
    route(verbs.WRITE_STREAM, put, raw_body=True),
    Route(
        method="POST", path="/file/upload", name="uploadFile", family="files", handler=upload,
        about="Write an upload, never over anything: a taken name is numbered.", raw_body=True,
        result=values.FILE_UPLOAD.struct, statuses=(201,), parameters=(PATH, PARENTS, APPROVAL),
        needs=access("write"), verb="write_stream", changes=True, asks=True,
        example="POST /file/upload?path=photo.jpg",
    ),
)  # fmt: skip
