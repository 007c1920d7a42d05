"""Lines of versions beside each other: snapshots, forks, comparing and merging them.

A branch is of the whole root, whoever made it. So a grant that reaches a part of the root may fork
and sees its part there, and only one that reaches all of it may take a branch or snapshot away.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import msgspec

from bailiwick.call import Call
from bailiwick.errors import HashMismatch, MissingAccess
from bailiwick.operations import DELETE, METADATA
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import Hide
from bailiwick.proposal import Proposal, as_it_is
from bailiwick.store import Store
from bailiwick.verbs.bulk_changes import Work, look, propose, sorted_conflicts, touched_paths
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.version_acts import (
    Commit,
    DeleteFork,
    DeleteSnapshot,
    KeepSnapshot,
    MakeFork,
    Merge,
    OpenFork,
)
from bailiwick.versions import (
    Comparison,
    Difference,
    Done,
    Draft,
    Fork,
    Mark,
    MergeResult,
    Plan,
    Snapshot,
    lines,
)


async def snapshot(call: Call, name: str) -> Proposal[Snapshot]:
    lines(call.store)
    return Proposal(KeepSnapshot(call.handle, name), as_it_is)


async def snapshots(call: Call) -> list[Snapshot]:
    return await lines(call.store).snapshots()


async def delete_snapshot(call: Call, name: str) -> Proposal[None]:
    lines(call.store)
    _check_deletion(call)
    return Proposal(DeleteSnapshot(call.handle, name), as_it_is)


async def fork(call: Call, name: str, version: str | None) -> Proposal[Store]:
    lines(call.store)
    return Proposal(
        MakeFork(call.handle, name, version), as_it_is,
        # What is known of one that had the name before.
        afterwards=lambda: call.pipeline.let_go(call, name),
    )  # fmt: skip


async def forks(call: Call) -> list[Fork]:
    return await lines(call.store).forks()


async def open_fork(call: Call, name: str) -> Proposal[Store]:
    """Changes nothing; but what it opens can be changed, and is for a scope of its own."""
    lines(call.store)
    return Proposal(OpenFork(call.handle, name), as_it_is)


async def delete_fork(call: Call, name: str) -> Proposal[None]:
    lines(call.store)
    _check_deletion(call)
    return Proposal(
        DeleteFork(call.handle, name), as_it_is,
        afterwards=lambda: call.pipeline.let_go(call, name),
    )  # fmt: skip


def _check_deletion(call: Call) -> None:
    """What goes is all that only the branch or snapshot has: a deletion, wherever it lies."""
    if not call.grant.whole:
        raise MissingAccess("the grant does not reach all that would be deleted")
    call.require(ROOT, DELETE.access)


# --- comparing ------------------------------------------------------------------------------------


async def compare(call: Call, name: str) -> Comparison:
    found = await lines(call.store).compare(name)
    most = call.limits.comparison_max
    shown = [told for each in found if (told := _shown(call, each)) is not None]
    return Comparison(
        differences=shown[:most], truncated=len(shown) > most, request_id=call.request_id
    )


def _shown(call: Call, each: Difference) -> Difference | None:
    """A difference as the caller sees it: a move out of sight is a removal, one into sight is an
    addition, and of what they may not read they get no hash."""
    is_directory = each.type == "directory"
    here = _sees(call, each.path, is_directory)
    if each.origin is not None:
        came = _sees(call, each.origin, is_directory)
        if here and not came:
            each = msgspec.structs.replace(each, kind="created", origin=None, sha256_before=None)
        elif came and not here:
            each = msgspec.structs.replace(
                each, kind="deleted", path=each.origin, origin=None, sha256=None
            )
        elif not here:
            return None
    elif not here:
        return None
    before = each.origin or each.path
    return msgspec.structs.replace(
        each,
        sha256=each.sha256 if call.pipeline.reveals(call, each.path) else None,
        sha256_before=each.sha256_before if call.pipeline.reveals(call, before) else None,
    )


def _sees(call: Call, path: ScopedPath, is_directory: bool) -> bool:
    return not isinstance(call.decide(path, METADATA.access, is_directory), Hide)


# --- merging --------------------------------------------------------------------------------------


async def merge(
    call: Call,
    ignores: Ignores,
    name: str,
    preview: bool,
    *,
    is_own: bool,
    seen: Plan | None = None,
) -> Proposal[MergeResult]:
    """Take over what another branch changed: by a plan that was ``seen``, or as it is now. What
    comes from the root's own (``is_own``) is counted there."""
    theirs = lines(call.store)

    async def plan() -> Plan:
        return await theirs.plan_merge(name) if seen is None else seen

    def merged(done: Done) -> MergeResult:
        return MergeResult(
            version=done.version, changed=touched_paths(done.plan),
            conflicts=sorted_conflicts(done.plan), preview=preview, request_id=call.request_id,
        )  # fmt: skip

    if not call.grant.root.line:
        call.over = name
    work = Work(plan, lambda plan: Merge(call.handle, plan, name), counts=not is_own)
    return await (look if preview else propose)(call, ignores, work, merged)


async def commit(
    call: Call, ignores: Ignores, draft: Draft, approved: AbstractSet[ScopedPath], counted: str
) -> Proposal[None]:
    """Have all that a transaction changed appear at once. What it did was decided on when it was
    done, and people were asked about the ``approved`` places; by now a rule may refuse it, or ask
    about more, and others may have changed the same things. Inside it was ``counted`` apart."""
    call.over = counted
    mark = call.mark or Mark()

    async def plan() -> Plan:
        return await draft.plan(mark)

    def committed(done: Done) -> None:
        conflicts = sorted_conflicts(done.plan)
        if conflicts:  # and nothing was done
            raise HashMismatch(
                "others have changed the same things meanwhile", path=conflicts[0].path,
                details={"conflicts": [[call.shown(each.path), each.reason] for each in conflicts]},
                hint="begin the transaction again",
            )  # fmt: skip

    work = Work(plan, lambda plan: Commit(call.handle, plan, draft, mark), decided=approved)
    return await propose(call, ignores, work, committed)
