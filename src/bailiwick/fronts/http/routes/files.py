"""Reading and writing text and small content."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec

from bailiwick.errors import FileTooLarge, ParseError
from bailiwick.fronts.http.requests import Reply, Request
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
from bailiwick.fronts.http.verbs import doing
from bailiwick.fronts.http.wire import (
    Change,
    ConditionalChange,
    FileMode,
    Natural,
    PathField,
    Sha256Alias,
    as_of,
    expected,
    locked,
    mode_bits,
)
from bailiwick.model import LineEnding, WriteMode, WriteResult
from bailiwick.wire import Document, Form, values


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


async def read_file(request: Request) -> Document:
    query = request.query
    path = query["path"]
    scope = await request.scoped(path)
    if len(query) == 1:
        return values.FILE.write(await scope.read_text(path))
    most = query.get("max_bytes")
    if most is not None:
        scope = scope.with_text_max(most)
    window = {name: query[name] for name in ("line", "limit", "tail", "cursor") if name in query}
    more = as_of(query.get("as_of"))
    encoding = query.get("encoding")
    try:
        return values.FILE.write(await scope.read_text(path, **window, encoding=encoding, **more))
    except FileTooLarge:
        if most is None or window:
            raise
        return values.FILE.write(await scope.read_text(path, line=1, encoding=encoding, **more))


async def read_file_bytes(request: Request) -> Document:
    query = request.query
    scope = await request.scoped(query["path"])
    read = await scope.read_bytes(
        query["path"], query.get("offset", 0), query.get("max_bytes", BYTES_DEFAULT),
        **as_of(query.get("as_of")),
    )  # fmt: skip
    return values.FILE_BYTES.write(read)


def written(result: WriteResult, form: Form[WriteResult] = values.FILE_WRITE) -> Reply:
    """The answer to a write: 201 where the file is new."""
    return Reply(form.write(result), 201 if result.created else 200)


def _created(result: WriteResult) -> bool:
    return result.created


write_file = doing("write_text", values.FILE_WRITE, made=_created)
edit_file = doing("edit", values.FILE_EDIT)


async def append_file(request: Request) -> Reply:
    body: AppendBody = request.body
    scope = await request.scoped(body.path)
    result = await scope.append(
        body.path, _addition(body),
        expected_sha256=expected(body.expected_hash, body.expected_sha256),
        expected_version=body.expected_version, parents=body.parents,
        file_mode=mode_bits(body.file_mode), **locked(body.lock_token),
    )  # fmt: skip
    return written(result, values.FILE_APPEND)


def _addition(body: AppendBody) -> bytes | str:
    if (body.content is None) == (body.content_base64 is None):
        raise ParseError("give content, or contentBase64")
    if body.content is not None:
        return body.content
    try:
        return base64.b64decode(body.content_base64 or "", validate=True)
    except ValueError:
        raise ParseError("contentBase64 is not base64") from None


truncate_file = doing("truncate", values.FILE_TRUNCATE, made=_created)

_READ = access("read")
_WRITE = access("write")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/file", name="readFile", family="files", handler=read_file,
        about="Read the text of a file, or a window of its lines.", result=values.FILE.struct,
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
        handler=read_file_bytes, about="Read bytes of a file, as base64.",
        result=values.FILE_BYTES.struct,
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
        about="Write a whole text file, atomically.", body=WriteBody,
        result=values.FILE_WRITE.struct, statuses=(200, 201), needs=_WRITE, verb="write_text",
        changes=True, asks=True, raises=(422,),
        example='POST /file/write {"path": "a.txt", "content": "hello\\n"}',
    ),
    Route(
        method="POST", path="/file/edit", name="editFile", family="files", handler=edit_file,
        about="Replace text in a file; all edits land together or not at all.", body=EditBody,
        result=values.FILE_EDIT.struct, needs=access("read", "write"), verb="edit", changes=True,
        asks=True, raises=(422,),
        example='POST /file/edit {"path": "a.txt", "oldText": "hello", "newText": "good day"}',
    ),
    Route(
        method="POST", path="/file/append", name="appendFile", family="files",
        handler=append_file, about="Add to the end of a file, making it where it is missing.",
        body=AppendBody, result=values.FILE_APPEND.struct, statuses=(200, 201), needs=_WRITE,
        verb="append", changes=True, asks=True, raises=(422,),
        example='POST /file/append {"path": "log.txt", "content": "one more line\\n"}',
    ),
    Route(
        method="POST", path="/file/truncate", name="truncateFile", family="files",
        handler=truncate_file, about="Cut a file, or extend it with zeros.", body=TruncateBody,
        result=values.FILE_TRUNCATE.struct, needs=_WRITE, verb="truncate", changes=True, asks=True,
        example='POST /file/truncate {"path": "log.txt", "size": 0}',
    ),
)  # fmt: skip
