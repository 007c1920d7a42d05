"""Bringing back what was changed in a working copy: by a command, or anything else that wrote to a
copy instead of the tree.

Every path is compared with what stands in the tree by now, and held to grant and policy as the
operation that it stands for. What others have changed meanwhile is a conflict, and theirs stays;
what is refused is withheld. Both are told and kept in the copy. All the rest is one change: one
question, one charge, one request to undo.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from bailiwick.call import Call
from bailiwick.errors import (
    BailiwickError,
    HashMismatch,
    PathNotFound,
    PolicyDenied,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.operations import METADATA, READ
from bailiwick.paths import ScopedPath, check_stays_inside
from bailiwick.policy import Deny, Hide
from bailiwick.proposal import Proposal
from bailiwick.text.codec import decode
from bailiwick.text.diff import UnifiedDiff, unified_diff
from bailiwick.verbs.bulk_changes import Use, Work, decide_use, propose, uses_of
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.working_copies.content import (
    content_at,
    content_in,
    version_at,
    with_some_hunks,
)
from bailiwick.verbs.working_copies.known_places import KnownPlaces, may, may_with
from bailiwick.verbs.working_copies.last_copies import LastCopies
from bailiwick.verbs.working_copies.plan import Drawn, draw
from bailiwick.version_acts import BringBack, DiscardWork
from bailiwick.versions import Done, Mark, Plan, Touch
from bailiwick.working_copy import (
    Alterations,
    Altered,
    Dropped,
    Published,
    Publishing,
    Wanted,
    Withheld,
    WorkChange,
    WorkChanges,
    WorkConflict,
    WorkingCopy,
)

_VERSION_DIGITS: Final = 32
"""128 bits: nobody finds two states that are called alike."""

_PATHS_BETWEEN_PAUSES: Final = 256
"""After so many paths looked at, others get their turn."""


async def bring_back(
    call: Call,
    ignores: Ignores,
    copy: WorkingCopy,
    wanted: Wanted,
    seen: Alterations | None = None,
) -> Proposal[Published]:
    """Publish what was changed in ``copy``: as it was ``seen``, where a person has said something
    of that, or as it is now."""
    found = await copy.alterations() if seen is None else seen
    await _refuse_unseen(call, found, wanted)
    known = KnownPlaces(call, found)
    wanted = found.with_directories(found.with_moves(known.among(wanted)))
    drawn = await draw(call, copy, found, wanted)
    sifted = await _sift(call, drawn, found, wanted, known)
    held_back = wanted.publish == "atomic" and bool(sifted.withheld or sifted.conflicts)
    plan = Plan([] if held_back else sifted.touches)
    settled = frozenset(drawn.settled).difference(*(found.moves() if held_back else sifted.unmoved))

    async def planned() -> Plan:
        return plan

    def published(done: Done) -> Published:
        return Published(
            changes=list(_changes(known, done.plan.touches)), conflicts=sifted.conflicts,
            withheld=[*sifted.withheld, *sifted.dropped], version=done.version,
            request_id=call.request_id,
        )  # fmt: skip

    def act(plan: Plan) -> BringBack:
        mark = call.mark or Mark(str(call.grant.subject), call.request_id, key=call.caller.key)
        what = Publishing(
            plan, drawn.over, mark, call.limits.max_file_bytes, drawn.merged, drawn.partly,
            kept=drawn.kept, mounts=found.mounts,
        )  # fmt: skip
        return BringBack(call.handle, plan, copy, what, settled, found, named=known.nearest)

    differences = partial(_differences, call, copy, found, drawn.merged)
    work = Work(
        planned, act, came_from=found.origins(), conditional=bool(settled), difference=differences
    )
    return await propose(call, ignores, work, published)


async def _differences(
    call: Call,
    copy: WorkingCopy,
    found: Alterations,
    merged: Mapping[ScopedPath, bytes],
    plan: Plan,
    lines_max: int,
) -> tuple[str, bool]:
    """What becomes of the files that hold text, for the person who is asked."""
    shown: list[str] = []
    altered = {each.path: each for each in found.altered}
    for touch in plan.touches:
        if touch.type != "file" or touch.kind not in ("created", "updated"):
            continue
        if lines_max <= 0:
            return "".join(shown), True
        try:
            becomes = merged.get(touch.path)
            each = await _difference(call, copy, altered[touch.path], becomes)
        except BailiwickError:
            continue  # no text, or too large: its name and hash are shown
        shown.append(each.text)
        lines_max -= each.text.count("\n")
        if each.truncated:
            return "".join(shown), True
    return "".join(shown), False


async def changes(call: Call, copy: WorkingCopy, *, shared: bool = False) -> WorkChanges:
    """What bringing it back would do, of which nothing is done. Of a ``shared`` copy, in which
    others have changed things too, only what the caller may know of is told."""
    found = await copy.alterations()
    if shared:
        seen = [each for each in found.altered if may(call, each.path, METADATA)]
        found = found._replace(altered=seen)
    wanted, known = Wanted("partial"), KnownPlaces(call, found)
    drawn = await draw(call, copy, found, wanted)
    sifted = await _sift(call, drawn, found, wanted, known)
    conflicts = {each.path for each in drawn.conflicts} - {each.path for each in sifted.conflicts}
    unseen = [
        Touch(each.path, "created", each.type)
        for each in found.altered
        if each.path in conflicts and each.type is not None and known.made(each.path)
    ]
    return WorkChanges(
        changes=list(_changes(known, with_their_directories([*drawn.touches, *unseen]))),
        withheld=[*sifted.withheld, *sifted.dropped], conflicts=sifted.conflicts,
        version=await _version(call, found),
    )  # fmt: skip


async def _version(call: Call, found: Alterations) -> str:
    """Says what is in a copy, and what it is compared with, as far as the caller may know of it."""
    seen = hashlib.sha256()
    for count, each in enumerate(found.altered, 1):
        if not may_with(call, each, METADATA):
            continue
        if count % _PATHS_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        stands = await version_at(call, each.path)
        # The hash of what may not be read tells it to whoever guesses.
        sha256 = each.sha256 if may_with(call, each, READ) else None
        what = (each.path, each.type, each.mode, sha256, each.target, stands)
        seen.update(repr(tuple(map(str, what))).encode("utf-8", "surrogateescape"))
    return seen.hexdigest()[:_VERSION_DIGITS]


async def _refuse_unseen(call: Call, found: Alterations, wanted: Wanted) -> None:
    if wanted.seen is not None and wanted.seen != await _version(call, found):
        raise HashMismatch("it is not what was looked at any more", hint="look at it again")


async def is_settled(call: Call, copy: WorkingCopy, found: Alterations) -> bool:
    """Whether all that was changed stands in the tree as well, or is gone from it."""
    drawn = await draw(call, copy, found, Wanted("partial"))
    return not found.unfit and len(drawn.settled) == len(found.altered)


async def difference(
    call: Call,
    copy: WorkingCopy,
    path: ScopedPath,
    alterations: Callable[[], Awaitable[Alterations]] | None = None,
) -> UnifiedDiff:
    """From what stands in the tree to what stands in the copy, of one file that holds text.
    ``alterations`` tells what is in a copy that nobody changes meanwhile."""
    found = await (alterations or copy.alterations)()
    altered = next((each for each in found.altered if each.path == path), None)
    if altered is None or not may_with(call, altered, METADATA):
        raise PathNotFound(
            "was not changed in this working copy", path=path,
            hint="`changes` and `bailiwick work show` tell what was changed",
        )  # fmt: skip
    if not may_with(call, altered, READ):
        raise PolicyDenied("what stands there may not be read", path=path)
    return await _difference(call, copy, altered)


async def _difference(
    call: Call, copy: WorkingCopy, altered: Altered, becomes: bytes | None = None
) -> UnifiedDiff:
    path = altered.path
    old, new = decode(await content_at(call, path)).text, ""
    if becomes is None and altered.type == "file":
        becomes = await content_in(copy, altered, call.limits.diff_bytes_max)
    if becomes is not None:
        new = decode(becomes).text
    return unified_diff(old, new, f"a/{path}", f"b/{path}", lines_max=call.limits.diff_lines_max)


async def discard(call: Call, copy: WorkingCopy, wanted: Wanted) -> Proposal[list[ScopedPath]]:
    """Give up what was changed, all of it or some."""
    found = await copy.alterations()
    await _refuse_unseen(call, found, wanted)
    known = KnownPlaces(call, found)
    wanted = found.with_moves(known.among(wanted))
    given_up = [each.path for each in found.altered if wanted.covers(each.path)]
    rewritten = {
        each.path: await with_some_hunks(call, copy, each, chosen, others=True)
        for each in found.altered
        if (chosen := wanted.hunks.get(each.path)) is not None
    }
    whole = [path for path in given_up if path not in rewritten]
    all_given_up, all_whole = set(given_up), set(whole)
    for each in found.moves():
        if not each.isdisjoint(all_given_up) and not each.issubset(all_whole):
            raise Unsupported(
                "it came with a directory that was moved, which is given up as a whole",
                path=known.nearest(min(each.intersection(given_up))),
            )
    everything = wanted.only is None or (len(whole) == len(found.altered) and not found.unfit)
    paths, key = None if everything else tuple(whole), call.caller.key
    act = DiscardWork(call.handle, copy, found, paths, rewritten, key)
    told = list(filter(known.has, given_up))
    return Proposal(act, lambda _: told, foretold=lambda: told)


def _changes(known: KnownPlaces, touches: Sequence[Touch]) -> Iterator[WorkChange]:
    """What there is to look at: what lies in a directory that moved is as it was. Where something
    is hidden from whoever calls, nothing else stands as far as they can tell."""
    for each in touches:
        if each.beneath and each.kind == "moved":
            continue
        kind, origin = each.kind, each.origin
        if not known.has(each.path):
            continue
        if kind != "created" and not known.sees(each.path):
            if kind == "deleted":
                continue
            kind, origin = "created", None
        sets_mode = each.sets_mode and kind not in ("created", "deleted")
        yield WorkChange(
            path=each.path, kind=kind, type=each.type, origin=origin,
            mode_before=each.mode_before if sets_mode else None,
            mode=each.mode if sets_mode else None,
        )  # fmt: skip


# --- what may be ------------------------------------------------------------------------------


async def _sift(
    call: Call, drawn: Drawn, found: Alterations, wanted: Wanted, known: KnownPlaces
) -> _Sifted:
    """Leave out what is refused, and what cannot come or go without it."""
    refused = {path: withheld_for(error, path) for path, error in drawn.shut.items()}
    origins = found.origins()
    for touch in drawn.touches:
        refusal = wanted.refused.get(touch.path) or _refusal(call, touch, origins.get(touch.path))
        if refusal is not None:
            refused[touch.path] = refusal
    conflicts: list[WorkConflict] = []
    for conflict in drawn.conflicts:
        kept = _kept_from(call, conflict.path, known)
        if kept is None:
            conflicts.append(conflict)
        else:
            refused[conflict.path] = kept
    stays = {*refused, *(each.path for each in conflicts)}
    left = [each for each in drawn.touches if each.path not in stays]
    unwanted = {each.path for each in found.altered if not wanted.covers(each.path)}
    unwanted |= drawn.partly | drawn.kept
    moves, unmoved = found.moves(), list[set[ScopedPath]]()
    last_copies = LastCopies(call, found, wanted, drawn.settled)
    while True:
        out = stays | unwanted
        unmoved = [each for each in moves if not each.isdisjoint(out)]
        stays = stays.union(*unmoved)
        around = _directories_around(stays)
        dependent = [each for each in left if _depends(each, stays, around)]
        if not dependent:
            dependent = await last_copies.among(left, stays)
        if not dependent:
            break
        for each in dependent:
            stays.add(each.path)
            refused[each.path] = Withheld(
                path=each.path, error_kind="unsupported",
                reason="it cannot come or go without what was left out",
            )  # fmt: skip
        left = [each for each in left if each.path not in stays]
    unfit, dropped = (
        [_unsupported(each) for each in left if wanted.covers_name(each.path)]
        for left in (found.unfit, found.dropped)
    )
    return _Sifted(
        with_their_directories(left),
        [*_by_place(refused, known), *unfit],
        dropped,
        conflicts,
        unmoved,
    )


def _kept_from(call: Call, path: ScopedPath, known: KnownPlaces) -> Withheld | None:
    """What is refused where whoever calls may not know what stands there: the same as if nobody
    else had changed it, so that a conflict does not tell them."""
    if known.sees(path):
        return None
    return _refusal(call, Touch(path, "created" if known.made(path) else "deleted", "file"))


def with_their_directories(touches: list[Touch]) -> list[Touch]:
    """Mark what only comes, goes or moves because the directory does that it lies in."""
    kinds = {each.path: each.kind for each in touches if each.type == "directory"}
    return [
        each._replace(beneath=kinds.get(each.path.parent) == each.kind != "updated")
        for each in touches
    ]


def _by_place(refused: Mapping[ScopedPath, Withheld], known: KnownPlaces) -> list[Withheld]:
    """One of each place that may be named, sorted: how often a directory is told of must not say
    how much that is hidden lies in it, nor where."""
    found: dict[ScopedPath, Withheld] = {}
    for path, each in refused.items():
        place = known.nearest(path)
        found.setdefault(place, msgspec.structs.replace(each, path=place))
    return [found[path] for path in sorted(found)]


def _unsupported(each: Dropped) -> Withheld:
    return Withheld(path=each.path, error_kind="unsupported", reason=each.reason)


class _Sifted(NamedTuple):
    """What is left of a plan; ``dropped`` keeps nothing else back. What is ``unmoved`` stays where
    it is with the directory that was moved."""

    touches: list[Touch]
    withheld: list[Withheld]
    dropped: list[Withheld]
    conflicts: list[WorkConflict]
    unmoved: list[set[ScopedPath]]


def _depends(touch: Touch, stays: set[ScopedPath], around: set[ScopedPath]) -> bool:
    """Whether it stays itself, or comes into a directory that does not come, or is a directory of
    which something does not go. ``around`` are the directories that what ``stays`` lies in."""
    if touch.path in stays or touch.origin in stays:
        return True
    if touch.kind == "deleted":
        return touch.type == "directory" and touch.path in around
    if touch.kind == "moved" and touch.type == "directory" and touch.path in around:
        return True  # with all that lies in it, or not at all
    return not stays.isdisjoint(_directories_around((touch.path,)))


def _directories_around(paths: Iterable[ScopedPath]) -> set[ScopedPath]:
    found: set[ScopedPath] = set()
    for path in paths:
        above = path.parent
        while not above.is_root and above not in found:
            found.add(above)
            above = above.parent
    return found


def _refusal(call: Call, touch: Touch, origin: ScopedPath | None = None) -> Withheld | None:
    try:
        if touch.kind == "created" and touch.type == "symlink":
            _check_link(call, touch)
        for use in uses_of(touch, came_from=origin):
            _check_use(call, use)
    except BailiwickError as error:
        return withheld_for(error, touch.path)
    return None


def withheld_for(error: BailiwickError, path: ScopedPath) -> Withheld:
    """What was refused at a path, and by what."""
    return Withheld(
        path=path, error_kind=error.kind, reason=error.message, decided_by=error.decided_by
    )


def _check_use(call: Call, use: Use) -> None:
    call.pipeline.check_access(call.grant, use.needed)
    decision = decide_use(call, use)
    if isinstance(decision, Hide):
        raise PolicyDenied("a rule keeps this", decided_by=decision.source)
    if isinstance(decision, Deny):
        raise PolicyDenied(decision.reason, decided_by=decision.source)


def _check_link(call: Call, touch: Touch) -> None:
    if call.store.description.get("symlinks") == "reject":
        raise SymlinkEscape("links are not made in this root")
    check_stays_inside(touch.target or "", touch.path)
