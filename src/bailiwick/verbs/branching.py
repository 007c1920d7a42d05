"""Lines of versions beside each other: snapshots, forks, comparing and merging them.

A branch is of the whole root, whoever made it. So a grant that reaches a part of the root may fork
and sees its part there, and only one that reaches all of it may take a branch or snapshot away.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import msgspec

from bailiwick.call import Call
from bailiwick.errors import HashMismatch, MissingAccess
from bailiwick.finishing import to_the_end
from bailiwick.operations import DELETE, METADATA
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import Hide
from bailiwick.store import Store
from bailiwick.verbs.clearing import clear_words
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.touching import Work, carry_out, look, sorted_conflicts, touched_paths
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
    branches,
)


async def snapshot(call: Call, name: str) -> Snapshot:
    lines = branches(call.store)
    if call.must_clear:
        await clear_words(call, f"keep this version as the snapshot {name}")
    return await lines.snapshot(name)


async def snapshots(call: Call) -> list[Snapshot]:
    return await branches(call.store).snapshots()


async def delete_snapshot(call: Call, name: str) -> None:
    lines = branches(call.store)
    await _clear_deletion(call, f"delete the snapshot {name}")
    await lines.delete_snapshot(name)


async def fork(call: Call, name: str, version: str | None) -> Store:
    lines = branches(call.store)
    if call.must_clear:
        since = "" if version is None else f" from the version {version}"
        await clear_words(call, f"make the fork {name}{since}")
    made = await lines.fork(name, version=version)
    try:
        await call.pipeline.let_go(call, name)  # of one that had the name before
    except BaseException:
        await to_the_end(made.aclose())
        raise
    return made


async def forks(call: Call) -> list[Fork]:
    return await branches(call.store).forks()


async def open_fork(call: Call, name: str) -> Store:
    return await branches(call.store).open_fork(name)


async def delete_fork(call: Call, name: str) -> None:
    lines = branches(call.store)
    await _clear_deletion(call, f"delete the fork {name}")
    await lines.delete_fork(name)
    await call.pipeline.let_go(call, name)


async def _clear_deletion(call: Call, words: str) -> None:
    """What goes is all that only the branch or snapshot has: a deletion, wherever it lies."""
    if not call.grant.whole:
        raise MissingAccess("the grant does not reach all that would be deleted")
    call.require(ROOT, DELETE.access)
    if call.must_clear:
        await clear_words(call, words)


# --- comparing ------------------------------------------------------------------------------------


async def compare(call: Call, name: str) -> Comparison:
    found = await branches(call.store).compare(name)
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
    call: Call, ignores: Ignores, name: str, preview: bool, *, is_own: bool
) -> MergeResult:
    """Take over what another branch changed. What comes from the root's own (``is_own``) is counted
    there."""
    lines = branches(call.store)

    async def plan() -> Plan:
        return await lines.plan_merge(name)

    async def take_over(cleared: Plan) -> Done:
        return await lines.merge(name, cleared=cleared)

    if not call.grant.root.line:
        call.over = name
    work = Work(plan, take_over, counts=not is_own)
    if preview:
        done = Done(None, await look(call, work))
    else:
        done = await carry_out(call, ignores, work)
    return MergeResult(
        version=done.version, changed=touched_paths(done.plan),
        conflicts=sorted_conflicts(done.plan), preview=preview, request_id=call.request_id,
    )  # fmt: skip


async def commit(
    call: Call, ignores: Ignores, draft: Draft, approved: AbstractSet[ScopedPath], counted: str
) -> None:
    """Have all that a transaction changed appear at once. What it did was decided on when it was
    done, and people were asked about the ``approved`` places; by now a rule may refuse it, or ask
    about more, and others may have changed the same things. Inside it was ``counted`` apart."""
    call.over = counted
    mark = call.mark or Mark()

    async def plan() -> Plan:
        return await draft.plan(mark)

    async def appear(cleared: Plan) -> Done:
        return await draft.commit(mark, cleared=cleared)

    done = await carry_out(call, ignores, Work(plan, appear, decided=approved))
    conflicts = sorted_conflicts(done.plan)
    if conflicts:
        raise HashMismatch(
            "others have changed the same things meanwhile", path=conflicts[0].path,
            details={"conflicts": [[call.shown(each.path), each.reason] for each in conflicts]},
            hint="begin the transaction again",
        )  # fmt: skip
