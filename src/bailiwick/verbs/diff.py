"""`diff`: the difference of two files, or of a file and a given text."""

from __future__ import annotations

import asyncio

from bailiwick.call import Call
from bailiwick.errors import BinaryFile, FileTooLarge, ParseError
from bailiwick.model import DiffResult
from bailiwick.store import Handle, Reader
from bailiwick.text.codec import Decoded, decode
from bailiwick.text.diff import UnifiedDiff, unified_diff
from bailiwick.verbs.checksum import sha256_of

_INLINE_CHARACTERS_MAX = 64 * 1024
"""Comparing this much takes about a millisecond; more is done off the loop."""


async def diff(call: Call, text: str | None) -> DiffResult:
    """Compare as text; where a side is not text, by size and hash."""
    if (call.destination is None) == (text is None):
        raise ParseError("a diff needs another path, a text or a version to compare with")
    if text is not None and call.past_there is not None:
        raise ParseError("a given text has no earlier version")
    if text is not None and not isinstance(text, str):
        raise ParseError(f"text must be str, not {type(text).__name__}")
    a = await _content(call, call.store, call.handle)
    if text is None:
        there = call.destination_handle
        b, b_name = await _content(call, call.store_there or call.store, there), there.path
    else:
        b, b_name = text.encode("utf-8", "surrogatepass"), call.handle.path
    names = f"a/{call.shown(call.handle.path)}", f"b/{call.shown(b_name)}"
    try:
        a_form = decode(a)
        b_form = decode(b) if text is None else a_form
    except BinaryFile:
        return await _by_hash(call, a, b, names)
    a_text, b_text = a_form.text, b_form.text if text is None else text
    if a_text == b_text:
        # A given text is stored in no way at all; two files may store the same text in two ways.
        equal = text is not None or a == b
        words = "" if equal else f"same text, stored as {_stored(a_form)} / {_stored(b_form)}\n"
        return _result(call, names, UnifiedDiff(words, False, 0, 0), equal=equal)
    lines_max = call.limits.diff_lines_max
    if len(a_text) + len(b_text) <= _INLINE_CHARACTERS_MAX:
        shown = unified_diff(a_text, b_text, *names, lines_max=lines_max)
    else:
        shown = await asyncio.to_thread(unified_diff, a_text, b_text, *names, lines_max=lines_max)
    return _result(call, names, shown, equal=False)


def _stored(form: Decoded) -> str:
    return f"{form.encoding} with BOM" if form.bom else form.encoding


async def _content(call: Call, store: Reader, handle: Handle) -> bytes:
    limit = call.limits.diff_bytes_max
    content = await store.read(handle, 0, limit + 1)
    if len(content.data) > limit:
        raise FileTooLarge(
            f"files over {limit} bytes are not compared", path=handle.path,
            hint="compare their hashes, or windows of them", details={"limit": limit},
        )  # fmt: skip
    return content.data


async def _by_hash(call: Call, a: bytes, b: bytes, names: tuple[str, str]) -> DiffResult:
    if a == b:
        return _result(
            call,
            names,
            UnifiedDiff(text="", truncated=False, added=0, removed=0),
            equal=True,
            binary=True,
        )
    lines = [
        f"Binary files {names[0]} and {names[1]} differ",
        f"{names[0]}: {len(a)} bytes, sha256 {await sha256_of(a)}",
        f"{names[1]}: {len(b)} bytes, sha256 {await sha256_of(b)}",
    ]
    shown = UnifiedDiff(text="\n".join(lines) + "\n", truncated=False, added=0, removed=0)
    return _result(call, names, shown, equal=False, binary=True)


def _result(
    call: Call, names: tuple[str, str], shown: UnifiedDiff, *, equal: bool, binary: bool = False
) -> DiffResult:
    return DiffResult(
        a=names[0], b=names[1], equal=equal, text=shown.text, added_lines=shown.added,
        removed_lines=shown.removed, truncated=shown.truncated, binary=binary,
        request_id=call.request_id,
    )  # fmt: skip
