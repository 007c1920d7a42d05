"""`edit`: replace text in a file, as a compare-and-swap on what was read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from bailiwick.acts import Write
from bailiwick.approvals import Preview
from bailiwick.call import Call
from bailiwick.errors import BailiwickError, FileTooLarge, HashMismatch, ParseError
from bailiwick.meter import Amount
from bailiwick.model import Edit, EditResult
from bailiwick.proposal import Proposal, Shown, refusal
from bailiwick.store import WritePlan, Written
from bailiwick.text.codec import line_ending_of
from bailiwick.text.diff import UnifiedDiff, unified_diff
from bailiwick.text.edits import Edited, apply_edits
from bailiwick.verbs.arguments import check_sha256
from bailiwick.verbs.checksum import sha256_of
from bailiwick.verbs.entries import existing
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.writes import refuse_unwritable

_INLINE_BYTES_MAX = 64 * 1024
"""Editing and comparing this much takes about a millisecond; more is done off the loop."""


def collect(
    edits: Sequence[Edit] | None, old: str | None, new: str | None, replace_all: bool
) -> list[Edit]:
    """The edits of a call: a list of them, or one given by its parts."""
    if edits is None:
        if old is None or new is None:
            raise ParseError("give edits, or old and new")
        return [Edit(old, new, replace_all)]
    if old is not None or new is not None or replace_all:
        raise ParseError("give edits, or old and new, not both")
    wanted = list(edits)
    if not wanted:
        raise ParseError("there is no edit to make")
    if not all(isinstance(edit, Edit) for edit in wanted):
        raise ParseError("edits must be bailiwick.Edit values")
    return wanted


class _Prepared(NamedTuple):
    """An edit that is worked out and not yet made."""

    before: str
    content: bytes
    version: str
    edited: Edited
    diff: UnifiedDiff
    after: str


async def edit(
    call: Call,
    ignores: Ignores,
    edits: list[Edit],
    expected: tuple[str | None, str | None],
    dry_run: bool,
) -> Proposal[EditResult]:
    """``expected`` is the hash and the version that the file must have."""
    handle = call.handle
    try:
        before, content, version, edited, diff, after = await _prepare(call, edits, *expected)
    except BailiwickError as error:
        if call.questions is None:
            raise
        return refusal(error)
    mark = await ignores.mark(call, handle.path)

    def result(version: str) -> EditResult:
        return EditResult(
            path=handle.path, replacements=edited.replacements, diff=diff.text,
            diff_truncated=diff.truncated, first_changed_line=edited.first_changed_line,
            sha256_before=before, sha256=after, size=len(edited.data), version=version,
            dry_run=dry_run, request_id=call.request_id, encoding=edited.encoding,
            bom=edited.bom, line_ending=line_ending_of(edited.text_after), matched_ignore=mark,
        )  # fmt: skip

    def left(_: None) -> EditResult:
        call.sha256_after = before
        return result(version)

    def made(written: Written) -> EditResult:
        call.bytes, call.sha256_after = written.size, written.sha256
        ignores.forget(handle.path)
        call.changed("updated", handle.path, "file", version=written.version)
        return result(written.version)

    async def charge() -> None:
        added = len(edited.data) - len(content)
        await call.take_turn(handle.path)
        await call.account(added, 0)
        call.added = Amount(added, 0)

    shown = Preview(
        sha256=after, sha256_before=before, size=len(edited.data), diff=diff.text,
        diff_truncated=diff.truncated,
    )  # fmt: skip
    if dry_run or after == before:
        return Proposal(None, left, agreement=Shown(shown))
    plan = WritePlan(
        mode="replace", expected_sha256=before, size_max=call.limits.max_file_bytes,
        expected_content=content,
    )  # fmt: skip
    write = Write(handle, edited.data, after, plan)
    return Proposal(write, made, agreement=Shown(shown), cost=charge)


async def _prepare(
    call: Call, edits: list[Edit], expected_sha256: str | None, expected_version: str | None
) -> _Prepared:
    handle = call.handle
    check_sha256(expected_sha256)
    existing(handle)
    await refuse_unwritable(call)
    if len(edits) > call.limits.edits_max:
        raise ParseError(
            f"one call takes at most {call.limits.edits_max} edits", hint="use several calls"
        )
    limit = call.limits.text_write_bytes_max
    content = await call.store.read(handle, 0, limit + 1)
    if len(content.data) > limit:
        raise FileTooLarge(
            f"files over {limit} bytes cannot be edited", path=handle.path, details={"limit": limit}
        )
    call.sha256_before = before = await sha256_of(content.data)
    if expected_sha256 not in (None, before) or expected_version not in (None, content.version):
        raise HashMismatch(
            "the file is not what was expected", path=handle.path,
            hint="read it again and repeat the edit",
            details={"current_sha256": before, "current_version": content.version},
        )  # fmt: skip
    if len(content.data) <= _INLINE_BYTES_MAX:
        edited, diff = _edit_and_compare(call, content.data, edits)
    else:
        edited, diff = await asyncio.to_thread(_edit_and_compare, call, content.data, edits)
    after = await sha256_of(edited.data)
    return _Prepared(before, content.data, content.version, edited, diff, after)


def _edit_and_compare(call: Call, data: bytes, edits: list[Edit]) -> tuple[Edited, UnifiedDiff]:
    edited = apply_edits(data, edits, bytes_max=call.limits.text_write_bytes_max)
    path = call.shown(call.handle.path)
    diff = unified_diff(
        edited.text_before, edited.text_after, f"a/{path}", f"b/{path}",
        lines_max=call.limits.diff_lines_max, same=(edited.same_before, edited.same_after),
    )  # fmt: skip
    return edited, diff
