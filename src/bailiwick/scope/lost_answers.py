"""What a change was answered with whose answer was lost, told from what the store kept of it.

A store that keeps the key of a change with it (`Recalls`) knows whether the change was made, which
whoever asks again under that key cannot. Of verbs that make one change and no more, the answer is
made again from that change and from what stood there before and after it. What cannot be told any
more, or not to this caller, is left out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bailiwick.change_log import Logs
from bailiwick.errors import BailiwickError
from bailiwick.model import Change, ChangeResult, Edit, EditResult, WriteResult
from bailiwick.scope.content import ContentVerbs
from bailiwick.scope.core import seen_from
from bailiwick.store import Written
from bailiwick.text.codec import line_ending_of
from bailiwick.text.diff import unified_diff
from bailiwick.text.edits import apply_edits
from bailiwick.verbs.checksum import sha256_of
from bailiwick.verbs.edit import collect
from bailiwick.versions import MadeChange, Recalls

_WRITES: Final = frozenset({"write_text", "write_stream", "append", "truncate"})
_KINDS: Final = {
    "make_dir": "created", "symlink": "created", "remove": "deleted", "move": "moved",
    "set_mode": "updated", "set_times": "updated",
}  # fmt: skip
"""Changes that have no content of their own, and what is told of each."""

_KEYED: Final = _WRITES | _KINDS.keys() | {"edit"}


def keeps_key(scope: ContentVerbs, verb: str) -> bool:
    """Whether a change by a verb, made under a key, can be known again by it."""
    return verb in _KEYED and scope._pipeline.marks is not None and _log(scope) is not None


async def lost_answer(
    scope: ContentVerbs, verb: str, key: bytes, given: dict[str, Any]
) -> WriteResult | EditResult | ChangeResult | None:
    """What the call of a verb, as it was ``given``, made under a key; None where it made nothing.
    Raises `BailiwickError` where that cannot be told."""
    log = _log(scope)
    assert log is not None, "asked only where keys are kept"
    made = await log.made_under(key)
    if made is None:
        return None
    request_id = scope._request_id or scope._pipeline.machine.new_request_id()
    if verb in _KINDS:
        result: Any = _changed(made, _KINDS[verb], request_id)
    else:
        change, written = next((each.change, each.written) for each in made if each.written)
        assert written is not None
        remade = _edited if verb == "edit" else _written
        result = await remade(scope, change, written, request_id, given)
        if verb in ("append", "truncate") and "read" not in scope.access:
            result = msgspec.structs.replace(result, sha256=None)
    return seen_from(result, scope.grant.base)  # type: ignore[no-any-return]


def _log(scope: ContentVerbs) -> Recalls | None:
    store = scope._pipeline.store
    log = store.log if "Logs" in store.powers and isinstance(store, Logs) else None
    return log if isinstance(log, Recalls) else None


def _changed(made: Sequence[MadeChange], kind: str, request_id: str) -> ChangeResult:
    """Of directories that were made on the way the last is meant."""
    change = max(
        (each.change for each in made if each.change.kind == kind), key=lambda each: len(each.path)
    )
    count = 1 + len(change.beneath) if kind == "deleted" else 1
    moved = change.origin is not None
    return ChangeResult(
        path=change.origin if change.origin is not None else change.path, changed=True,
        request_id=request_id, destination=change.path if moved else None, count=count,
    )  # fmt: skip


async def _written(
    scope: ContentVerbs, change: Change, written: Written, request_id: str, given: dict[str, Any]
) -> WriteResult:
    created, size, sha256, version, file_mode, _ = written
    result = WriteResult(
        path=change.path, mode=given.get("mode") or "overwrite", created=created, size=size,
        sha256=sha256, version=version, file_mode=file_mode, request_id=request_id,
    )  # fmt: skip
    if "text" not in given or "read" not in scope.access:
        return result
    try:
        read = await scope.read_text(given["path"], as_of=version)
    except BailiwickError:
        return result
    return msgspec.structs.replace(
        result, encoding=read.encoding, bom=read.bom, line_ending=read.line_ending,
        matched_ignore=read.matched_ignore,
    )  # fmt: skip


async def _edited(
    scope: ContentVerbs, change: Change, written: Written, request_id: str, given: dict[str, Any]
) -> EditResult:
    edits: list[Edit] = collect(
        given.get("edits"), given.get("old"), given.get("new"), given.get("replace_all", False)
    )
    limits, before = scope.limits, str(int(written.version) - 1)
    read = await scope.read_bytes(given["path"], as_of=before)
    edited = apply_edits(read.data, edits, bytes_max=limits.text_write_bytes_max)
    path = seen_from(change.path, scope.grant.base)
    diff = unified_diff(
        edited.text_before, edited.text_after, f"a/{path}", f"b/{path}",
        lines_max=limits.diff_lines_max, same=(edited.same_before, edited.same_after),
    )  # fmt: skip
    return EditResult(
        path=change.path, replacements=edited.replacements, diff=diff.text,
        diff_truncated=diff.truncated, first_changed_line=edited.first_changed_line,
        sha256_before=await sha256_of(read.data), sha256=written.sha256, size=written.size,
        version=written.version, dry_run=False, request_id=request_id, encoding=edited.encoding,
        bom=edited.bom, line_ending=line_ending_of(edited.text_after),
    )  # fmt: skip
