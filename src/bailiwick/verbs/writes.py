"""The verbs that publish content."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import aclosing
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, Protocol, get_args, runtime_checkable

import msgspec

from bailiwick.acts import Append, Truncate, Write, WriteStream
from bailiwick.call import Call, Target
from bailiwick.errors import (
    BailiwickError,
    BinaryFile,
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
from bailiwick.grant import Grant
from bailiwick.model import Expected, LineEnding, MatchedIgnore, WriteMode, WriteResult
from bailiwick.policy import permits
from bailiwick.proposal import Proposal
from bailiwick.resolution import find
from bailiwick.store import WritePlan, Written
from bailiwick.text.codec import TextForm, encode_as, form_for_write, form_of_prefix, line_ending_of
from bailiwick.verbs.approval.agreements import (
    Appending,
    Cutting,
    Overwriting,
    Streaming,
    plan_for_stream,
)
from bailiwick.verbs.arguments import check_all, check_sha256
from bailiwick.verbs.checksum import INLINE_BYTES_MAX, sha256_of
from bailiwick.verbs.chunk_sources import pulled, read_in_chunks
from bailiwick.verbs.modes import check_mode_in
from bailiwick.verbs.quota_charges import StreamCost, reserve, settle_written
from bailiwick.verbs.walks.ignore_files import Ignores

_FORM_PROBE_BYTES = 64 * 1024
"""How much of the file that is replaced tells its encoding and line ending."""

_JSON_PIECES_INLINE = 2_000
"""Pieces of a document that take about a millisecond to write out; more is done off the loop."""

_LINE_ENDINGS: tuple[LineEnding, ...] = get_args(LineEnding)


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


AS_JSON = FormAsked("utf-8", False, "lf")
AS_IT_WAS = FormAsked(None, None, None)

How = tuple[WriteMode, str | None, str | None, bool, int | None]
"""How content is published, as a caller says it: what `_plan` takes after the limits."""

_USUAL_MODE: WriteMode = "overwrite"


def plan(
    grant: Grant, how: How = (_USUAL_MODE, None, None, False, None), form: FormAsked = AS_IT_WAS
) -> WritePlan:
    """How to publish. The usual way is not looked at: every small write comes by here."""
    mode, sha256, version, parents, file_mode = how
    if mode is not _USUAL_MODE or parents is not False or file_mode is not None:
        check_all({"mode": mode, "parents": parents, "file_mode": file_mode})
        check_mode_in(grant.root, file_mode)
    if sha256 is not None or version is not None:
        check_all({"expected_sha256": sha256, "expected_version": version})
    if form is not AS_IT_WAS:
        encoding, bom, line_ending = form
        if encoding is not None or bom is not None or line_ending is not None:
            check_all(form._asdict())
    return _plan(grant.limits.max_file_bytes, *how)


@lru_cache(maxsize=64)
def _plan(
    size_max: int,
    mode: WriteMode,
    expected_sha256: str | None,
    expected_version: str | None,
    parents: bool,
    file_mode: int | None,
) -> WritePlan:
    """What makes sense together. The few usual ways are kept."""
    conditional = expected_sha256 is not None or expected_version is not None
    if mode == "replace" and not conditional:
        raise ParseError(
            "mode replace needs expected_sha256 or expected_version",
            hint="read the file first and pass its sha256",
        )
    if mode == "create" and conditional:
        raise ParseError("mode create takes no expected hash or version")
    check_sha256(expected_sha256)
    return WritePlan(
        mode=mode,
        expected_sha256=expected_sha256,
        expected_version=expected_version,
        file_mode=file_mode,
        parents=parents,
        size_max=size_max,
    )


async def write_bytes(
    call: Call, ignores: Ignores, data: bytes, plan: WritePlan, form: TextForm | None = None
) -> Proposal[WriteResult]:
    if type(data) is not bytes:
        data = _bytes_of(data)
    size, handle = len(data), call.handle
    standing = handle.type
    if size > call.limits.bytes_call_max:
        _check_size(size, call.limits.bytes_call_max, "one call", "use write_stream")
    if standing != "file" or plan.mode == "create":
        await refuse_unwritable(call, plan.mode)
    digest = sha256(data).hexdigest() if size <= INLINE_BYTES_MAX else await sha256_of(data)
    known = ignores.known_mark(call, handle.path)
    mark = await ignores.mark(call, handle.path) if known is None else known[0]
    exactly = plan if standing is not None else only_as_judged(call, plan)
    write = Write(handle, data, digest, exactly)
    return Proposal(
        write, lambda written: _published(call, ignores, written, plan.mode, form, mark),
        agreement=await _overwriting(call, write, plan) if call.announced else None,
        cost=lambda: reserve(call, handle, size),
    )  # fmt: skip


async def _overwriting(call: Call, write: Write, asked: WritePlan) -> Overwriting | None:
    """For what somebody is told of before it is written: what it replaces is on record too, where
    that is small enough to hash and compare in passing."""
    handle, limit = call.handle, call.limits.text_write_bytes_max
    old: bytes | None = None
    if handle.type == "file" and handle.size <= limit:
        try:
            found = (await call.store.read(handle, 0, limit + 1)).data
            old = found if len(found) <= limit else None
        except BailiwickError:
            old = None  # whether it may be replaced is for the write itself to say
    if old is not None:
        inline = len(old) <= INLINE_BYTES_MAX
        call.sha256_before = sha256(old).hexdigest() if inline else await sha256_of(old)
    return None if call.questions is None else Overwriting(call, write, asked, old)


async def write_text(
    call: Call, ignores: Ignores, text: str, asked: FormAsked, plan: WritePlan
) -> Proposal[WriteResult]:
    _check_text(text, asked)
    if call.handle.type != "file" or plan.mode == "create":
        await refuse_unwritable(call, plan.mode)
    old = await _form_of(call) if None in asked else None
    data, form = _encoded(call, text, old, asked)
    return await write_bytes(call, ignores, data, plan, form)


def _check_text(text: object, asked: FormAsked) -> None:
    if not isinstance(text, str):
        raise ParseError(
            f"text must be str, not {type(text).__name__}", hint="use write_bytes for bytes"
        )
    if asked.line_ending is not None and asked.line_ending not in _LINE_ENDINGS:
        raise ParseError(f"line_ending must be one of {', '.join(_LINE_ENDINGS)}")


def _encoded(
    call: Call, text: str, old: TextForm | None, asked: FormAsked
) -> tuple[bytes, TextForm]:
    """Text as it is stored where ``old`` stood, and how that is."""
    form = form_for_write(
        old, encoding=asked.encoding, bom=asked.bom,
        line_ending=asked.line_ending,
    )  # fmt: skip
    data = encode_as(text, form)
    limit = call.limits.text_write_bytes_max
    _check_size(len(data), limit, "one text write", "use write_stream for larger content")
    ending = line_ending_of(text) if form.line_ending in ("mixed", "none") else form.line_ending
    return data, TextForm(form.encoding, form.bom, ending)


async def write_json(
    call: Call, ignores: Ignores, value: Any, plan: WritePlan
) -> Proposal[WriteResult]:
    text = await json_text(value, call.limits.text_write_bytes_max)
    return await write_text(call, ignores, text, AS_JSON, plan)


async def json_text(value: Any, limit: int) -> str:
    """A value as a document. Raises `ParseError`, and `FileTooLarge` beyond ``limit`` bytes."""
    pieces = _encode_json(value)
    try:
        taken = list(islice(pieces, _JSON_PIECES_INLINE))
        if len(taken) == _JSON_PIECES_INLINE:
            await asyncio.to_thread(_take_json, pieces, taken, limit)
    except (TypeError, ValueError, RecursionError, RuntimeError):
        # The last of them: someone changed the value while it was written out.
        raise ParseError(
            "the value cannot be written as JSON",
            hint="dicts with text keys, lists, text, numbers, true, false and null can",
        ) from None
    return "".join(taken) + "\n"


_encode_json = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False).iterencode


def _take_json(pieces: Iterator[str], taken: list[str], limit: int) -> None:
    """Add the pieces to those taken already, until they are more than one write may hold."""
    size = sum(map(len, taken))
    while batch := list(islice(pieces, _JSON_PIECES_INLINE)):
        size += sum(map(len, batch))
        if size > limit:
            raise FileTooLarge(
                f"the document is larger than one text write may hold ({limit} bytes)",
                hint="use write_stream for larger content", details={"limit": limit},
            )  # fmt: skip
        taken += batch


async def write_stream(
    call: Call, ignores: Ignores, source: ByteSource, plan: WritePlan
) -> Proposal[WriteResult]:
    handle = call.handle
    await refuse_unwritable(call, plan.mode)
    mark = await ignores.mark(call, handle.path)
    chunks, mode = _until_closed(call, source), plan.mode
    asking = None if call.questions is None else Streaming(call, handle, plan)
    if asking is not None:
        plan = await plan_for_stream(call, plan)
    return Proposal(
        WriteStream(handle, chunks, only_as_judged(call, plan)),
        lambda written: _published(call, ignores, written, mode, None, mark),
        agreement=asking, counting=StreamCost(call, handle),
    )  # fmt: skip


async def append(
    call: Call, ignores: Ignores, data: bytes | str, plan: WritePlan
) -> Proposal[WriteResult]:
    await refuse_unwritable(call)
    if isinstance(data, str):
        form = form_for_write(await _form_for_append(call))
        starts_file = call.handle.type is None or call.handle.size == 0
        data = encode_as(data, TextForm(form.encoding, form.bom and starts_file, form.line_ending))
    else:
        data = _bytes_of(data)
    _check_size(len(data), call.limits.bytes_call_max, "one call", "append in several calls")
    mark = await ignores.mark(call, call.handle.path)
    addition, size = Append(call.handle, data, only_as_judged(call, plan)), len(data)
    return Proposal(
        addition,
        lambda written: _published(call, ignores, written, plan.mode, None, mark, onto=True),
        agreement=Appending(call, addition, plan),
        cost=lambda: reserve(call, call.handle, size, onto=True),
    )  # fmt: skip


async def truncate(
    call: Call, ignores: Ignores, size: int, plan: WritePlan
) -> Proposal[WriteResult]:
    if size < 0:
        raise ParseError("size must not be negative")
    if call.handle.type is None:
        raise PathNotFound("no such file or directory", path=call.handle.path)
    await refuse_unwritable(call)
    _check_size(size, plan.size_max, "one file", "")
    mark = await ignores.mark(call, call.handle.path)
    cut = Truncate(call.handle, size, plan)
    return Proposal(
        cut, lambda written: _published(call, ignores, written, plan.mode, None, mark, onto=True),
        agreement=Cutting(call, cut), cost=lambda: reserve(call, call.handle, size),
    )  # fmt: skip


def only_as_judged(call: Call, plan: WritePlan) -> WritePlan:
    """The plan, or one that only creates, where a rule would not have let a file be replaced and
    none was there: one may come while a stream lasts, or in an instant."""
    if call.handle.type is not None or plan.mode == "create" or not call.must_be_new(call.target):
        return plan
    if plan.mode == "replace":
        raise PathNotFound("no such file or directory", path=call.handle.path)
    Expected(plan.expected_version, plan.expected_sha256).check(call.handle.path, None, None)
    return msgspec.structs.replace(plan, mode="create")


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
        target = await find(call, Target(call.target.text, "object"), call.handle.path)
    except BailiwickError:
        return "it leads to nothing that can be written: remove the link first"
    target.close()
    if not permits(call.decide(target.path)):
        return "it leads to nothing that can be written: remove the link first"
    return f"address {escape_for_display(call.shown(target.path))} instead"


def _bytes_of(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise ParseError(
        f"content must be bytes, not {type(data).__name__}", hint="use write_text for text"
    )


def _check_size(size: int, limit: int, what: str, hint: str) -> None:
    if size > limit:
        raise FileTooLarge(
            f"{size} bytes are more than {what} may hold ({limit})",
            hint=hint or None, details={"limit": limit, "size": size},
        )  # fmt: skip


async def _form_of(call: Call) -> TextForm | None:
    """How the file that is replaced stores its text; None where there is no text to go by."""
    try:
        return await _standing_form(call)
    except OperationalError:
        return None


async def _form_for_append(call: Call) -> TextForm | None:
    """How a file that is added to stores its text: what is known to be none gets none added."""
    try:
        return await _standing_form(call)
    except PathNotFound:
        return None  # gone meanwhile: a new file begins
    except BinaryFile as error:
        raise BinaryFile(
            error.message, path=call.handle.path, details=error.details,
            hint="append bytes, encoded as the file is",
        ) from None  # fmt: skip


async def _standing_form(call: Call) -> TextForm | None:
    if call.handle.type != "file" or call.handle.size == 0:
        return None
    content = await call.store.read(call.handle, 0, _FORM_PROBE_BYTES)
    return form_of_prefix(content.data)


async def chunks_of(source: ByteSource, size: int) -> AsyncGenerator[bytes, None]:
    if isinstance(source, (bytes, bytearray, memoryview, str)):
        raise ParseError("a stream is written from chunks", hint="use write_bytes for bytes")
    if isinstance(source, AsyncIterable):
        try:
            async for chunk in source:
                yield _bytes_of(chunk)
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()
    elif isinstance(source, (list, tuple)):
        for chunk in source:
            yield _bytes_of(chunk)
    elif isinstance(source, (_BinaryFile, Iterable)):
        given = read_in_chunks(source.read, size) if isinstance(source, _BinaryFile) else source
        async with aclosing(pulled(given, _bytes_of, size)) as chunks:
            async for chunk in chunks:
                yield chunk
    else:
        raise ParseError(
            "a stream is written from an iterable of bytes or a binary file",
            hint=f"not from {type(source).__name__}",
        )


async def _until_closed(call: Call, source: ByteSource) -> AsyncGenerator[bytes, None]:
    """A scope that is closing does not wait for the rest of an upload: it may never come."""
    async with aclosing(chunks_of(source, call.limits.stream_chunk_bytes)) as chunks:
        async for chunk in chunks:
            call.pipeline.refuse_closed()
            yield chunk


def _published(
    call: Call,
    ignores: Ignores,
    written: Written,
    mode: WriteMode,
    form: TextForm | None,
    mark: MatchedIgnore | None,
    *,
    onto: bool = False,
) -> WriteResult:
    """The result of a write that cannot be undone any more: nothing in here may wait or fail.

    ``onto``: what was written holds some of what stood there before, so that its hash is only for
    who may read it.
    """
    created, size, digest, version, file_mode, _ = written
    path = call.handle.path
    ignores.forget(path)
    call.bytes = size
    call.sha256_after = digest
    if call.turn is not None:
        settle_written(call, call.handle, written)
    shown = None if onto and not call.pipeline.reveals(call, path) else digest
    call.changed("created" if created else "updated", path, "file", version=version)
    if form is None:
        return WriteResult(
            path=path, mode=mode, created=created, size=size, sha256=shown, version=version,
            file_mode=file_mode, request_id=call.request_id, matched_ignore=mark,
        )  # fmt: skip
    return WriteResult(
        path=path, mode=mode, created=created, size=size, sha256=shown, version=version,
        file_mode=file_mode, request_id=call.request_id, encoding=form.encoding, bom=form.bom,
        line_ending=form.line_ending, matched_ignore=mark,
    )  # fmt: skip
