"""The verbs that publish content."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, get_args, runtime_checkable

from bailiwick.errors import (
    BailiwickError,
    Closed,
    FileAlreadyExists,
    FileTooLarge,
    IsADirectory,
    NotADirectory,
    NotARegularFile,
    OperationalError,
    ParseError,
    PathNotFound,
    SymlinkEscape,
    escape_for_display,
)
from bailiwick.model import LineEnding, WriteMode, WriteResult
from bailiwick.pipeline import Call
from bailiwick.policy import Allow
from bailiwick.store import WritePlan, Written
from bailiwick.text.codec import Form, encode_as, form_for_write, form_of_prefix, line_ending_of
from bailiwick.verbs.hashing import INLINE_BYTES_MAX, sha256_inline, sha256_of
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.shaping import check_mode

_FORM_PROBE_BYTES = 64 * 1024
"""How much of the file that is replaced tells its encoding and line ending."""

_LINE_ENDINGS: tuple[LineEnding, ...] = get_args(LineEnding)

_is_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch


@runtime_checkable
class _BinaryFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


ByteSource = Iterable[bytes] | AsyncIterable[bytes] | _BinaryFile
"""What a stream may be written from."""


class FormAsked(NamedTuple):
    """How text is to be stored; None keeps what the replaced file has."""

    encoding: str | None
    bom: bool | None
    line_ending: LineEnding | None


How = tuple[WriteMode, str | None, str | None, bool, int | None]
"""How content is published, as a caller says it: what `plan` takes after the limits."""


@lru_cache(maxsize=64)
def plan(
    size_max: int,
    mode: WriteMode,
    expected_sha256: str | None,
    expected_version: str | None,
    parents: bool,
    file_mode: int | None,
) -> WritePlan:
    """Check the arguments that say how content is published. The few usual ways are kept."""
    if mode not in ("create", "overwrite", "replace"):
        raise ParseError("mode must be create, overwrite or replace")
    conditional = expected_sha256 is not None or expected_version is not None
    if mode == "replace" and not conditional:
        raise ParseError(
            "mode replace needs expected_sha256 or expected_version",
            hint="read the file first and pass its sha256",
        )
    if mode == "create" and conditional:
        raise ParseError("mode create takes no expected hash or version")
    if expected_sha256 is not None and not _is_sha256(expected_sha256):
        raise ParseError("expected_sha256 must be 64 lowercase hex digits")
    check_mode(file_mode)
    return WritePlan(
        mode=mode,
        expected_sha256=expected_sha256,
        expected_version=expected_version,
        file_mode=file_mode,
        parents=parents,
        size_max=size_max,
    )


async def write_bytes(
    call: Call, ignores: Ignores, data: bytes, plan: WritePlan, form: Form | None = None
) -> WriteResult:
    data, handle = _bytes_of(data), call.handle
    _check_size(len(data), call.limits.bytes_call_max, "one call", "use write_stream")
    if handle.type != "file" or plan.mode == "create":
        await refuse_unwritable(call, plan.mode)
    sha256 = sha256_inline(data) if len(data) <= INLINE_BYTES_MAX else await sha256_of(data)
    written = await call.store.write(handle, data, sha256, plan)
    return await _published(call, ignores, written, plan.mode, form)


async def write_text(
    call: Call, ignores: Ignores, text: str, asked: FormAsked, plan: WritePlan
) -> WriteResult:
    _require_text(text)
    if asked.line_ending is not None and asked.line_ending not in _LINE_ENDINGS:
        raise ParseError(f"line_ending must be one of {', '.join(_LINE_ENDINGS)}")
    await refuse_unwritable(call, plan.mode)
    form = form_for_write(
        await _form_of(call, asked), encoding=asked.encoding, bom=asked.bom,
        line_ending=asked.line_ending,
    )  # fmt: skip
    data = encode_as(text, form)
    limit = call.limits.text_write_bytes_max
    _check_size(len(data), limit, "one text write", "use write_stream for larger content")
    ending = line_ending_of(text) if form.line_ending in ("mixed", "none") else form.line_ending
    return await write_bytes(call, ignores, data, plan, Form(form.encoding, form.bom, ending))


async def write_json(call: Call, ignores: Ignores, value: Any, plan: WritePlan) -> WriteResult:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError):
        raise ParseError(
            "the value cannot be written as JSON",
            hint="dicts with text keys, lists, text, numbers, true, false and null can",
        ) from None
    return await write_text(call, ignores, text, FormAsked("utf-8", False, "lf"), plan)


async def write_stream(
    call: Call, ignores: Ignores, source: ByteSource, plan: WritePlan
) -> WriteResult:
    await refuse_unwritable(call, plan.mode)
    async with aclosing(_until_closed(call, source)) as chunks:
        written = await call.store.write_stream(call.handle, chunks, plan)
    return await _published(call, ignores, written, plan.mode, None)


async def append(call: Call, ignores: Ignores, data: bytes | str, plan: WritePlan) -> WriteResult:
    await refuse_unwritable(call)
    if isinstance(data, str):
        form = form_for_write(await _form_of(call, FormAsked(None, None, None)))
        starts_file = call.handle.type is None or call.handle.size == 0
        data = encode_as(data, Form(form.encoding, form.bom and starts_file, form.line_ending))
    else:
        data = _bytes_of(data)
    _check_size(len(data), call.limits.bytes_call_max, "one call", "append in several calls")
    written = await call.store.append(call.handle, data, plan)
    return await _published(call, ignores, written, plan.mode, None)


async def truncate(call: Call, ignores: Ignores, size: int, plan: WritePlan) -> WriteResult:
    if size < 0:
        raise ParseError("size must not be negative")
    if call.handle.type is None:
        raise PathNotFound("no such file or directory", path=call.handle.path)
    await refuse_unwritable(call)
    _check_size(size, plan.size_max, "one file", "")
    written = await call.store.truncate(call.handle, size, plan)
    return await _published(call, ignores, written, plan.mode, None)


async def refuse_unwritable(call: Call, mode: WriteMode = "overwrite") -> None:
    """Only a file, or nothing, may stand where content is to be written."""
    handle = call.handle
    if handle.type is None:
        if call.target.directory:
            raise NotADirectory("the trailing slash demands a directory", path=handle.path)
        return
    if mode == "create":
        raise FileAlreadyExists("already exists", path=handle.path)
    if handle.type == "directory":
        raise IsADirectory("is a directory", path=handle.path)
    if handle.type == "symlink":
        raise SymlinkEscape(
            "writing through a link is refused", path=handle.path, hint=await _instead_of(call)
        )
    if handle.type != "file":
        raise NotARegularFile("neither file, directory nor link", path=handle.path)


async def _instead_of(call: Call) -> str:
    """Where to write instead of through a link: told only if the caller may see that place."""
    try:
        target = await call.store.resolve(call.handle.path, "object")
    except BailiwickError:
        return "it leads to nothing that can be written: remove the link first"
    target.close()
    if not isinstance(call.decide(target.path), Allow):
        return "it leads to nothing that can be written: remove the link first"
    return f"address {escape_for_display(target.path)} instead"


def _bytes_of(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise ParseError(
        f"content must be bytes, not {type(data).__name__}", hint="use write_text for text"
    )


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        raise ParseError(
            f"text must be str, not {type(text).__name__}", hint="use write_bytes for bytes"
        )


def _check_size(size: int, limit: int, what: str, hint: str) -> None:
    if size > limit:
        raise FileTooLarge(
            f"{size} bytes are more than {what} may hold ({limit})",
            hint=hint or None, details={"limit": limit, "size": size},
        )  # fmt: skip


async def _form_of(call: Call, asked: FormAsked) -> Form | None:
    """How the file that is there stores its text; None where there is no text to go by."""
    if None not in asked or call.handle.type != "file" or call.handle.size == 0:
        return None
    try:
        content = await call.store.read(call.handle, 0, _FORM_PROBE_BYTES)
        return form_of_prefix(content.data)
    except OperationalError:
        return None


async def _chunks_of(source: ByteSource, size: int) -> AsyncGenerator[bytes, None]:
    if isinstance(source, (bytes, bytearray, memoryview, str)):
        raise ParseError("a stream is written from chunks", hint="use write_bytes for bytes")
    if isinstance(source, AsyncIterable):
        async for chunk in source:
            yield _bytes_of(chunk)
    elif isinstance(source, _BinaryFile):
        while chunk := await asyncio.to_thread(source.read, size):
            yield _bytes_of(chunk)
    elif isinstance(source, Iterable):
        for chunk in source:
            yield _bytes_of(chunk)
    else:
        raise ParseError(
            "a stream is written from an iterable of bytes or a binary file",
            hint=f"not from {type(source).__name__}",
        )


async def _until_closed(call: Call, source: ByteSource) -> AsyncGenerator[bytes, None]:
    """A scope that is closing does not wait for the rest of an upload: it may never come."""
    async with aclosing(_chunks_of(source, call.limits.stream_chunk_bytes)) as chunks:
        async for chunk in chunks:
            if call.pipeline.closed:
                raise Closed("this scope is closed")
            yield chunk


async def _published(
    call: Call, ignores: Ignores, written: Written, mode: WriteMode, form: Form | None
) -> WriteResult:
    path = call.handle.path
    ignores.forget(path)
    call.bytes = written.size
    call.sha256_after = written.sha256
    call.changed("created" if written.created else "updated", path, "file", version=written.version)
    return WriteResult(
        path=path, mode=mode, created=written.created, size=written.size, sha256=written.sha256,
        version=written.version, file_mode=written.file_mode, request_id=call.request_id,
        encoding=form.encoding if form else None, bom=form.bom if form else None,
        line_ending=form.line_ending if form else None,
        matched_ignore=await ignores.mark(call, path),
    )  # fmt: skip
