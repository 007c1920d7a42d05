"""Reading and writing text and small content."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec

from bailiwick.errors import FileTooLarge, ParseError
from bailiwick.fronts.http.requests import Reply, Request, hash_of
from bailiwick.fronts.http.settings import BYTES_DEFAULT, LINES_MAX, TEXT_BYTES_MAX
from bailiwick.fronts.http.table import (
    APPROVAL,
    AS_OF,
    CURSOR,
    NAME_CHARACTERS_MAX,
    PATH,
    Parameter,
    Route,
    access,
    limit,
)
from bailiwick.fronts.http.wire import (
    Change,
    ConditionalChange,
    FileMode,
    Natural,
    PathField,
    Result,
    Sha256Alias,
    as_of,
    expected,
    locked,
    mode_bits,
    octal,
)
from bailiwick.model import Edit, LineEnding, TextRead, WriteMode, WriteResult


class FileRead(Result, frozen=True, kw_only=True, tag="file"):
    """Text of a file, or a window of its lines."""

    tagged = True
    path: str
    content: str
    encoding: str
    bom: bool
    line_ending: str
    size_bytes: int
    returned_bytes: int
    truncated: bool
    hash: str | None
    version: str
    matched_ignore: str | None
    first_line: int | None
    original_line_count: int | None
    total_lines: int | None
    ends_with_newline: bool | None
    next_cursor: str | None
    has_more: bool
    partial_line: bool
    request_id: str


class FileBytes(Result, frozen=True, kw_only=True, tag="file_bytes"):
    """Bytes of a file, as base64."""

    tagged = True
    path: str
    content_base64: str
    offset: int
    size_bytes: int
    returned_bytes: int
    truncated: bool
    hash: str | None
    version: str
    request_id: str


class FileWrite(Result, frozen=True, kw_only=True, tag="file_write"):
    """A file that was written."""

    tagged = True
    path: str
    mode: str
    created: bool
    size_bytes: int
    hash: str | None
    version: str
    file_mode: str
    encoding: str | None
    bom: bool | None
    line_ending: str | None
    matched_ignore: str | None
    request_id: str


class FileAppend(FileWrite, frozen=True, kw_only=True, tag="file_append"):
    """A file that something was added to."""


class FileTruncate(FileWrite, frozen=True, kw_only=True, tag="file_truncate"):
    """A file that was cut or extended."""


class FileUpload(FileWrite, frozen=True, kw_only=True, tag="file_upload"):
    """A file that was uploaded, under the name it got."""


class FileEdit(Result, frozen=True, kw_only=True, tag="file_edit"):
    """What an edit changed, or would change."""

    tagged = True
    path: str
    replacements: int
    diff: str
    diff_truncated: bool
    first_changed_line: int | None
    hash_before: str
    hash: str
    size_bytes: int
    version: str
    dry_run: bool
    encoding: str | None
    bom: bool | None
    line_ending: str | None
    matched_ignore: str | None
    request_id: str


class WriteBody(Change, frozen=True, kw_only=True):
    path: PathField
    content: str
    mode: WriteMode = "overwrite"
    expected_hash: str | None = None
    expected_sha256: Sha256Alias = None
    expected_version: str | None = None
    encoding: str | None = None
    bom: bool | None = None
    line_ending: LineEnding | None = None
    parents: bool = False
    file_mode: FileMode | None = None


class WireEdit(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One replacement."""

    old_text: str
    new_text: str
    replace_all: bool = False


class EditBody(Change, frozen=True, kw_only=True):
    path: PathField
    old_text: str | None = None
    new_text: str | None = None
    replace_all: bool = False
    edits: Annotated[list[WireEdit], msgspec.Meta(max_length=1_000)] | None = None
    expected_hash: str | None = None
    expected_sha256: Sha256Alias = None
    expected_version: str | None = None
    dry_run: bool = False


class AppendBody(Change, frozen=True, kw_only=True):
    path: PathField
    content: str | None = None
    content_base64: str | None = None
    expected_hash: str | None = None
    expected_sha256: Sha256Alias = None
    expected_version: str | None = None
    parents: bool = False
    file_mode: FileMode | None = None


class TruncateBody(ConditionalChange, frozen=True, kw_only=True):
    path: PathField
    size: Natural = 0


async def read_file(request: Request) -> FileRead:
    query = request.query
    path = query["path"]
    scope = await request.scoped(path)
    if len(query) == 1:
        return _read(await scope.read_text(path))
    most = query.get("max_bytes")
    if most is not None:
        scope = scope.with_text_max(most)
    window = {name: query[name] for name in ("line", "limit", "tail", "cursor") if name in query}
    more = as_of(query.get("as_of"))
    encoding = query.get("encoding")
    try:
        return _read(await scope.read_text(path, **window, encoding=encoding, **more))
    except FileTooLarge:
        if most is None or window:
            raise
        return _read(await scope.read_text(path, line=1, encoding=encoding, **more))


def _read(read: TextRead) -> FileRead:
    line_feeds = read.line_feeds
    return FileRead(
        path=str(read.path), content=read.text, encoding=read.encoding, bom=read.bom,
        line_ending=read.line_ending, size_bytes=read.size, returned_bytes=read.returned_bytes,
        truncated=read.truncated, hash=hash_of(read.sha256), version=read.version,
        matched_ignore=read.matched_ignore, first_line=read.first_line,
        # What follows the last newline counts here, as it does for those who have always read it.
        original_line_count=None if line_feeds is None else line_feeds + 1,
        total_lines=read.total_lines, ends_with_newline=read.ends_with_newline,
        next_cursor=read.next_cursor,
        has_more=read.next_cursor is not None, partial_line=read.partial_line,
        request_id=read.request_id,
    )  # fmt: skip


async def read_file_bytes(request: Request) -> FileBytes:
    query = request.query
    scope = await request.scoped(query["path"])
    read = await scope.read_bytes(
        query["path"], query.get("offset", 0), query.get("max_bytes", BYTES_DEFAULT),
        **as_of(query.get("as_of")),
    )  # fmt: skip
    return FileBytes(
        path=str(read.path), content_base64=base64.b64encode(read.data).decode("ascii"),
        offset=read.offset, size_bytes=read.size, returned_bytes=len(read.data),
        truncated=read.truncated, hash=hash_of(read.sha256), version=read.version,
        request_id=read.request_id,
    )  # fmt: skip


def written(result: WriteResult, kind: type[FileWrite] = FileWrite) -> Reply:
    """The answer to a write: 201 where the file is new."""
    document = kind(
        path=str(result.path), mode=result.mode, created=result.created, size_bytes=result.size,
        hash=hash_of(result.sha256), version=result.version, file_mode=octal(result.file_mode),
        encoding=result.encoding, bom=result.bom, line_ending=result.line_ending,
        matched_ignore=result.matched_ignore, request_id=result.request_id,
    )  # fmt: skip
    return Reply(document, 201 if result.created else 200)


async def write_file(request: Request) -> Reply:
    body: WriteBody = request.body
    scope = await request.scoped(body.path)
    result = await scope.write_text(
        body.path, body.content, mode=body.mode,
        expected_sha256=expected(body.expected_hash, body.expected_sha256),
        expected_version=body.expected_version, encoding=body.encoding, bom=body.bom,
        line_ending=body.line_ending, parents=body.parents, file_mode=mode_bits(body.file_mode),
        **locked(body.lock_token),
    )  # fmt: skip
    return written(result)


async def edit_file(request: Request) -> FileEdit:
    body: EditBody = request.body
    scope = await request.scoped(body.path)
    edits = None
    if body.edits is not None:
        edits = [Edit(each.old_text, each.new_text, each.replace_all) for each in body.edits]
    result = await scope.edit(
        body.path, edits, old=body.old_text, new=body.new_text, replace_all=body.replace_all,
        expected_sha256=expected(body.expected_hash, body.expected_sha256),
        expected_version=body.expected_version, dry_run=body.dry_run,
        **locked(body.lock_token),
    )  # fmt: skip
    return FileEdit(
        path=str(result.path), replacements=result.replacements, diff=result.diff,
        diff_truncated=result.diff_truncated, first_changed_line=result.first_changed_line,
        hash_before=f"sha256:{result.sha256_before}", hash=f"sha256:{result.sha256}",
        size_bytes=result.size, version=result.version, dry_run=result.dry_run,
        encoding=result.encoding, bom=result.bom, line_ending=result.line_ending,
        matched_ignore=result.matched_ignore, request_id=result.request_id,
    )  # fmt: skip


async def append_file(request: Request) -> Reply:
    body: AppendBody = request.body
    scope = await request.scoped(body.path)
    result = await scope.append(
        body.path, _addition(body),
        expected_sha256=expected(body.expected_hash, body.expected_sha256),
        expected_version=body.expected_version, parents=body.parents,
        file_mode=mode_bits(body.file_mode), **locked(body.lock_token),
    )  # fmt: skip
    return written(result, FileAppend)


def _addition(body: AppendBody) -> bytes | str:
    if (body.content is None) == (body.content_base64 is None):
        raise ParseError("give content, or contentBase64")
    if body.content is not None:
        return body.content
    try:
        return base64.b64decode(body.content_base64 or "", validate=True)
    except ValueError:
        raise ParseError("contentBase64 is not base64") from None


async def truncate_file(request: Request) -> Reply:
    body: TruncateBody = request.body
    scope = await request.scoped(body.path)
    result = await scope.truncate(body.path, body.size, **body.condition, **locked(body.lock_token))
    return written(result, FileTruncate)


_READ = access("read")
_WRITE = access("write")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/file", name="readFile", family="files", handler=read_file,
        about="Read the text of a file, or a window of its lines.", result=FileRead,
        parameters=(
            PATH,
            Parameter(name="line", about="The first line, from 1.", type="integer", least=1),
            limit(LINES_MAX),
            Parameter(
                name="tail", about="The last so many lines instead.", type="integer", least=1,
                most=LINES_MAX,
            ),
            Parameter(
                name="maxBytes", about="How much at most; a longer file is cut, with a cursor.",
                type="integer", least=8, most=TEXT_BYTES_MAX,
            ),
            CURSOR,
            Parameter(
                name="encoding", about="The encoding, where it cannot be told.",
                characters_max=NAME_CHARACTERS_MAX,
            ),
            AS_OF, APPROVAL,
        ),
        needs=_READ, verb="read_text", asks=True, raises=(409, 413, 422),
        example="GET /file?path=README.md&line=1&limit=20",
    ),
    Route(
        method="GET", path="/file/bytes", name="readFileBytes", family="files",
        handler=read_file_bytes, about="Read bytes of a file, as base64.", result=FileBytes,
        parameters=(
            PATH,
            Parameter(name="offset", about="Where to begin.", type="integer"),
            Parameter(
                name="maxBytes", about=f"How much at most ({BYTES_DEFAULT} unless told).",
                type="integer", least=0, most=TEXT_BYTES_MAX,
            ),
            AS_OF, APPROVAL,
        ),
        needs=_READ, verb="read_bytes", asks=True, raises=(413,),
        example="GET /file/bytes?path=logo.png&offset=0&maxBytes=1024",
    ),
    Route(
        method="POST", path="/file/write", name="writeFile", family="files", handler=write_file,
        about="Write a whole text file, atomically.", body=WriteBody, result=FileWrite,
        statuses=(200, 201), needs=_WRITE, verb="write_text", changes=True, asks=True,
        raises=(422,), example='POST /file/write {"path": "a.txt", "content": "hello\\n"}',
    ),
    Route(
        method="POST", path="/file/edit", name="editFile", family="files", handler=edit_file,
        about="Replace text in a file; all edits land together or not at all.", body=EditBody,
        result=FileEdit, needs=access("read", "write"), verb="edit", changes=True, asks=True,
        raises=(422,),
        example='POST /file/edit {"path": "a.txt", "oldText": "hello", "newText": "good day"}',
    ),
    Route(
        method="POST", path="/file/append", name="appendFile", family="files",
        handler=append_file, about="Add to the end of a file, making it where it is missing.",
        body=AppendBody, result=FileAppend, statuses=(200, 201), needs=_WRITE, verb="append",
        changes=True, asks=True, raises=(422,),
        example='POST /file/append {"path": "log.txt", "content": "one more line\\n"}',
    ),
    Route(
        method="POST", path="/file/truncate", name="truncateFile", family="files",
        handler=truncate_file, about="Cut a file, or extend it with zeros.", body=TruncateBody,
        result=FileTruncate, needs=_WRITE, verb="truncate", changes=True, asks=True,
        example='POST /file/truncate {"path": "log.txt", "size": 0}',
    ),
)  # fmt: skip
