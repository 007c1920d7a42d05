"""Looking back and going back: `history`, `restore`, `undo`.

What a place was is told by the name it had then: the history of a file that once had a protected
name shows nothing of that time to who may not read there.
"""

from __future__ import annotations

from typing import Final

from bailiwick.call import Call
from bailiwick.errors import MissingAccess, ParseError, PathNotFound
from bailiwick.grant import Core, User, parse_subject
from bailiwick.model import Expected
from bailiwick.policy import permits
from bailiwick.proposal import Proposal
from bailiwick.verbs.arguments import a_text
from bailiwick.verbs.bulk_changes import Work, look, propose, sorted_conflicts, touched_paths
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.version_acts import Restore, Undo
from bailiwick.versions import (
    Done,
    History,
    Plan,
    RestoreResult,
    TellsBeneath,
    Undoing,
    UndoResult,
    Version,
    past,
)

_PAGES_MAX: Final = 100
"""Pages looked through for versions that may be shown; the cursor goes on from there."""


async def history(call: Call, limit: int | None, cursor: str | None) -> History:
    looking, path = past(call.store), call.handle.path
    wanted = page_size(
        call.limits.history_default if limit is None else limit, call.limits.history_max
    )
    if call.handle.type == "directory" and isinstance(looking, TellsBeneath):
        return await _beneath(call, looking, wanted, cursor)
    shown: list[Version] = []
    before, more = cursor, True
    for _ in range(_PAGES_MAX):
        page = await looking.history(path, before=before, limit=wanted - len(shown))
        shown += [each for each in page.versions if _may_show(call, each)]
        more = page.more
        if page.versions:
            before = page.versions[-1].version
        if not more or len(shown) >= wanted:
            break
    if not shown and not more and cursor is None and call.handle.type is None:
        raise PathNotFound("no such file or directory", path=path)
    return History(
        path=path, versions=shown, next_cursor=before if more else None, truncated=more,
        request_id=call.request_id,
    )  # fmt: skip


async def _beneath(call: Call, looking: TellsBeneath, wanted: int, cursor: str | None) -> History:
    """What happened to a directory and all that lay in it, by the names of then."""
    shown: list[Version] = []
    for _ in range(_PAGES_MAX):
        page = await looking.beneath(call.handle.path, cursor=cursor, limit=wanted - len(shown))
        shown += [each for each in page.versions if _may_show(call, each)]
        cursor = page.next_cursor
        if cursor is None or len(shown) >= wanted:
            break
    return History(
        path=call.handle.path, versions=shown, next_cursor=cursor, truncated=cursor is not None,
        request_id=call.request_id,
    )  # fmt: skip


def _may_show(call: Call, version: Version) -> bool:
    if version.path == call.handle.path:
        return True
    return permits(call.decide(version.path, is_directory=version.type == "directory"))


async def restore(
    call: Call, ignores: Ignores, version: str, expected: Expected
) -> Proposal[RestoreResult]:
    a_text("version", version)
    looking, path = past(call.store), call.handle.path

    async def plan() -> Plan:
        return await looking.plan_restore(path, version)

    def restored(done: Done) -> RestoreResult:
        return RestoreResult(
            path=path, version=done.version, changed=len(done.plan.touches),
            request_id=call.request_id,
        )  # fmt: skip

    work = Work(
        plan, lambda plan: Restore(call.handle, plan, version, expected), reads=True,
        conditional=expected.conditional,
    )  # fmt: skip
    return await propose(call, ignores, work, restored)


async def undo(call: Call, ignores: Ignores, asked: Undoing, preview: bool) -> Proposal[UndoResult]:
    looking, what = past(call.store), _whose(call, asked)

    async def plan() -> Plan:
        planned = await looking.plan_undo(what)
        _refuse_others(call, asked, planned.subjects)
        return planned

    def undone(done: Done) -> UndoResult:
        return UndoResult(
            version=done.version, undone=touched_paths(done.plan),
            conflicts=sorted_conflicts(done.plan), preview=preview, request_id=call.request_id,
        )  # fmt: skip

    work = Work(plan, lambda plan: Undo(call.handle, plan, what))
    return await (look if preview else propose)(call, ignores, work, undone)


def _whose(call: Call, asked: Undoing) -> Undoing:
    """What is to be undone, and whose. Ids of requests are unique for each subject, so an id alone
    means the caller's own; who stands above the subjects may mean anybody's."""
    request_id, subject, first, last, since_ns, _ = asked
    if since_ns is not None and (subject is None or request_id is not None or first is not None):
        raise ParseError("a time goes with whose changes are undone, and with nothing else")
    if request_id is not None and first is not None:
        raise ParseError("what to undo is a request or a version, not both")
    if request_id is None and first is None and (subject is None or last is not None):
        raise ParseError("say what to undo: a request, a version, or whose changes")
    own = str(call.grant.subject)
    if subject is not None:
        parse_subject(subject)
        if subject != own:
            _refuse_meddling(call)
    elif request_id is not None and not _stands_above(call):
        subject = own
    if first is not None and last is None:
        last = first
    return Undoing(request_id, subject, first, last, since_ns)


def _refuse_others(call: Call, asked: Undoing, subjects: frozenset[str]) -> None:
    if subjects - {str(call.grant.subject)}:
        _refuse_meddling(call)
    if asked.request_id is not None and len(subjects) > 1:
        raise ParseError(
            "more than one subject has used this request id", hint="say whose: give subject"
        )


def _stands_above(call: Call) -> bool:
    return isinstance(call.grant.subject, (User, Core))


def _refuse_meddling(call: Call) -> None:
    if not _stands_above(call):
        raise MissingAccess(
            "only a person or the host undoes what another subject did",
            hint="give subject to take back only your own changes",
        )
