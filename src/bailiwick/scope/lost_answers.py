"""What a change was answered with whose answer was lost, told from what the store kept of it.

A store that keeps the key of a change with it (`Recalls`) knows whether the change was made, which
whoever asks again under that key cannot. Of verbs whose changes are one version, the answer is made
again from that version and from what stood there before and after it. What cannot be told any more,
or not to this caller, is left out of it; where that is all of it, it is said that it was done.

What a transaction would be answered is known before it is committed, and cannot be made again: it
is kept by whoever asks for it (`Caller.foretell`). So is what somebody decides about what agents
did, in the tree or apart from it. Whether that came to pass is known to the store, and of working
copies where they lie. What touches nothing of the tree (snapshots, forks, locks) the store itself
does once under a key: it is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from bailiwick.errors import BailiwickError, InternalError, PathOutsideWorkspace
from bailiwick.model import Change, ChangeResult, Edit, EditResult, WriteResult
from bailiwick.paths import ScopedPath, parse
from bailiwick.reviews import ReviewResult
from bailiwick.scope.core import seen_from
from bailiwick.store import Written
from bailiwick.text.codec import line_ending_of
from bailiwick.text.diff import unified_diff
from bailiwick.text.edits import apply_edits
from bailiwick.verbs.checksum import sha256_of
from bailiwick.verbs.edit import collect
from bailiwick.verbs.review.queue import ReviewSpoken
from bailiwick.versions import MadeChange, MergeResult, Recalls, RestoreResult, UndoResult, recalls

if TYPE_CHECKING:
    from bailiwick.scope import Scope

Told = TypeVar("Told")

_WRITES: Final = frozenset({"write_text", "write_stream", "append", "truncate"})
_KINDS: Final = {
    "make_dir": "created", "symlink": "created", "remove": "deleted", "move": "moved",
    "set_mode": "updated", "set_times": "updated",
}  # fmt: skip
"""Changes that have no content of their own, and what is told of each."""

_ARCHIVES: Final = frozenset({"extract_archive", "create_archive"})
"""Of these the answer tells what was found in an archive, which nobody has kept."""

_BULK: Final = frozenset({"copy", "restore", "undo", "merge"})

_ASKED_AGAIN: Final = frozenset({"snapshot", "delete_snapshot", "fork", "delete_fork", "lock"})
"""Whoever comes again under a key is told by the store what it has told the first."""

_KEYED: Final = _WRITES | _KINDS.keys() | _ARCHIVES | _BULK | _ASKED_AGAIN | {"edit"}


def keeps_key(scope: Scope, verb: str) -> bool:
    """Whether a change by a verb, made under a key, can be known again by it."""
    return verb in _KEYED and knows_keys(scope)


def knows_keys(scope: Scope) -> bool:
    """Whether the store keeps with a change the key that it was made under."""
    return scope._pipeline.marks is not None and _log(scope) is not None


def is_asked_again(verb: str) -> bool:
    """Whether the answer that was lost is had by asking again under the same key."""
    return verb in _ASKED_AGAIN


async def was_made(scope: Scope, key: bytes) -> bool:
    """Whether anything was changed under a key. Raises `BailiwickError` where that cannot be
    told."""
    log = _log(scope)
    assert log is not None, "asked only where keys are kept"
    return await log.made_under(key) is not None


async def lost_answer(
    scope: Scope, verb: str, key: bytes, given: dict[str, Any]
) -> msgspec.Struct | None:
    """What the call of a verb, as it was ``given``, made under a key; None where it made nothing.
    Raises `BailiwickError` where that cannot be told."""
    log = _log(scope)
    assert log is not None, "asked only where keys are kept"
    made = await log.made_under(key)
    if made is None:
        return None
    if not made or verb in _ARCHIVES:
        raise _done()
    request_id = scope._request_id or scope._pipeline.machine.new_request_id()
    if verb in _KINDS:
        result: msgspec.Struct = _changed(made, _KINDS[verb], request_id)
    elif verb in _BULK:
        result = await _TOLD[verb](scope, made, request_id, given)
    else:
        change, written = next((each.change, each.written) for each in made if each.written)
        assert written is not None
        remade = _edited if verb == "edit" else _written
        result = await remade(scope, change, written, request_id, given)
        if verb in ("append", "truncate") and "read" not in scope.access:
            result = msgspec.structs.replace(result, sha256=None)
    return _seen(scope, result)


async def lost_verdict(
    scope: Scope,
    key: bytes,
    kept: dict[str, Any] | None,
    foretold: Sequence[Any] | None,
    *,
    work: str | None = None,
) -> ReviewResult | None:
    """What came of a verdict on what is in the tree, in a fork, or in a working copy (``work``):
    ``kept`` is what the state kept of it. None where nobody has said it yet. What was ``foretold``
    of one that changes something may have come to pass and not been kept, which is made up for.
    Raises `BailiwickError` where that cannot be told."""
    if kept is not None:
        told = msgspec.convert(kept, ReviewResult, dec_hook=_as_kind)
    elif foretold is None or not await _came_to_pass(scope, key, work):
        return None
    else:
        spoken = _told(foretold, ReviewSpoken)
        await scope._keep_verdict(spoken)
        told = spoken.result
    if work is not None:
        await scope._let_go_if_empty(work)
    return _seen(scope, told)


async def lost_decision(
    scope: Scope,
    key: bytes,
    foretold: Sequence[Any] | None,
    kind: type[Told],
    *,
    work: str | None = None,
) -> Told | None:
    """What came of applying or giving up a working copy (``work``), or an overlay, as it was
    ``foretold``; None where nobody has done it. Raises `InternalError` where it was done and cannot
    be told."""
    if foretold is None or not await scope._was_decided(key):
        return None
    if work is not None:
        await scope._let_go_if_empty(work)
    return _seen(scope, _told(foretold, kind))


def _told(foretold: Sequence[Any], kind: type[Told]) -> Told:
    if not foretold:  # it was too large to be kept
        raise _done()
    return msgspec.convert(foretold[0], kind, dec_hook=_as_kind)


def _as_kind(kind: type, plain: Any) -> Any:
    return kind(plain)


def _seen(scope: Scope, told: Told) -> Told:
    return seen_from(told, scope.grant.base)  # type: ignore[no-any-return]


async def _came_to_pass(scope: Scope, key: bytes, work: str | None) -> bool:
    """Raises `InternalError` where the root cannot tell."""
    if work is not None:
        return await scope._was_decided(key)
    if not knows_keys(scope):
        raise interrupted()
    return await was_made(scope, key)


def interrupted() -> InternalError:
    """What whoever asks again is told where nobody knows what became of it."""
    return InternalError(
        "the server ended while it did this, and whether it was done is not known",
        hint="look at what it would have changed; to do it again, use another key",
        details={"interrupted": True},
    )


def _done() -> InternalError:
    return InternalError(
        "this was done; its answer was lost, and cannot be told again",
        hint="look at what it changed", details={"done": True},
    )  # fmt: skip


def _log(scope: Scope) -> Recalls | None:
    return recalls(scope._pipeline.store)


def _changed(made: Sequence[MadeChange], kind: str, request_id: str) -> ChangeResult:
    """Of directories that were made on the way the last is meant."""
    change = max(
        (each.change for each in made if each.change.kind == kind), key=lambda each: len(each.path)
    )
    count, more = 1, False
    if kind == "deleted":
        more = change.beneath_truncated
        count = len(change.beneath) if more else 1 + len(change.beneath)
    moved = change.origin is not None
    return ChangeResult(
        path=change.origin if change.origin is not None else change.path, changed=True,
        request_id=request_id, destination=change.path if moved else None, count=count,
        count_truncated=more,
    )  # fmt: skip


async def _written(
    scope: Scope, change: Change, written: Written, request_id: str, given: dict[str, Any]
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
    scope: Scope, change: Change, written: Written, request_id: str, given: dict[str, Any]
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


# --- many things in one version -----------------------------------------------------------------


async def _copied(
    scope: Scope, made: Sequence[MadeChange], request_id: str, given: dict[str, Any]
) -> ChangeResult:
    """What came from another root may have brought directories above it."""
    top = min((each.change for each in made), key=lambda each: each.path.levels)
    root, base = scope.grant.root, scope.grant.base
    try:
        source, to = (
            parse(given[each], root.mount_point, root.names).path.beneath(base)
            for each in ("path", "to")
        )
    except PathOutsideWorkspace:  # as the other root says it
        raise _done() from None
    came = [top.path, *(ScopedPath(name.rstrip("/")).beneath(top.path) for name in top.beneath)]
    beneath = [each for each in came if each.lies_in(to)] or came
    return ChangeResult(
        path=source, changed=True, request_id=request_id, destination=beneath[0],
        count=len(beneath), count_truncated=top.beneath_truncated,
    )  # fmt: skip


async def _restored(
    scope: Scope, made: Sequence[MadeChange], request_id: str, given: dict[str, Any]
) -> RestoreResult:
    top = min((each.change.path for each in made), key=lambda each: each.levels)
    count = sum(1 + len(each.change.beneath) for each in made)
    return RestoreResult(path=top, version=made[0].version, changed=count, request_id=request_id)


async def _undone(
    scope: Scope, made: Sequence[MadeChange], request_id: str, given: dict[str, Any]
) -> UndoResult:
    """What was undone is in its own way by now, and is told as such: what else is was left."""
    undone = _places(made)
    look = await scope.undo(**{**given, "preview": True, "lock_token": None})
    shown = {seen_from(each, scope.grant.base) for each in undone}
    return UndoResult(
        version=made[0].version, undone=undone, preview=False, request_id=request_id,
        conflicts=[each for each in look.conflicts if each.path not in shown],
    )  # fmt: skip


async def _merged(
    scope: Scope, made: Sequence[MadeChange], request_id: str, given: dict[str, Any]
) -> MergeResult:
    """With conflicts nothing would have been taken over."""
    return MergeResult(
        version=made[0].version, changed=_places(made), conflicts=[], preview=False,
        request_id=request_id,
    )  # fmt: skip


def _places(made: Sequence[MadeChange]) -> list[ScopedPath]:
    found = {each.change.path for each in made}
    found |= {each.change.origin for each in made if each.change.origin is not None}
    return sorted(found, key=lambda path: path.order)


_TOLD: Final = {"copy": _copied, "restore": _restored, "undo": _undone, "merge": _merged}
