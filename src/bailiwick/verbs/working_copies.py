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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

from bailiwick.call import Call
from bailiwick.errors import (
    BailiwickError,
    NotADirectory,
    PathNotFound,
    PolicyDenied,
    SymlinkEscape,
)
from bailiwick.model import EntryType
from bailiwick.operations import METADATA, READ, Operation
from bailiwick.paths import ScopedPath, check_stays_inside
from bailiwick.policy import Deny, Hide, permits
from bailiwick.proposal import Proposal
from bailiwick.store import Handle
from bailiwick.text.codec import decode
from bailiwick.text.diff import UnifiedDiff, unified_diff
from bailiwick.verbs.bulk_changes import Use, Work, decide_use, propose, uses_of
from bailiwick.verbs.checksum import content_hash
from bailiwick.verbs.modes import mode_in
from bailiwick.verbs.moves import Moves
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.work_content import content_at, content_in, joined, with_some_hunks
from bailiwick.version_acts import BringBack, DiscardWork
from bailiwick.versions import Done, Mark, Plan, Touch
from bailiwick.working_copy import (
    Alterations,
    Altered,
    ChosenText,
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

_PERMISSIONS: Final = 0o777
_DIRECTORY_MODE: Final = 0o755
_NO_WAY: Final = (NotADirectory, PathNotFound, SymlinkEscape)

_PATHS_BETWEEN_PAUSES: Final = 256
"""After so many paths looked at, others get their turn."""


class Drawn(NamedTuple):
    """What a working copy would do to the tree as it stands: ``over`` are the versions that it does
    it to. What is ``settled`` is in the tree already, whoever brought it there. ``merged`` is what
    files become that are brought as they stand neither here nor there; of those that are
    ``partly`` brought something is left, and so it is of those that are ``kept``, which others have
    changed as well: what they are compared with stays what it was."""

    touches: list[Touch]
    over: dict[ScopedPath, str]
    conflicts: list[WorkConflict]
    settled: set[ScopedPath]
    merged: dict[ScopedPath, bytes]
    partly: frozenset[ScopedPath]
    kept: frozenset[ScopedPath]


async def bring_back(
    call: Call, ignores: Ignores, copy: WorkingCopy, wanted: Wanted
) -> Proposal[Published]:
    """Publish what was changed in ``copy``."""
    found = await copy.alterations()
    drawn = await draw(call, copy, found, wanted)
    sifted = _sift(call, drawn, found, wanted)
    held_back = wanted.publish == "atomic" and bool(sifted.withheld or sifted.conflicts)
    plan = Plan([] if held_back else sifted.touches)

    async def planned() -> Plan:
        return plan

    def published(done: Done) -> Published:
        return Published(
            changes=list(_changes(call, done.plan.touches)), conflicts=sifted.conflicts,
            withheld=[*sifted.withheld, *sifted.dropped], version=done.version,
            request_id=call.request_id,
        )  # fmt: skip

    def act(plan: Plan) -> BringBack:
        mark = call.mark or Mark(str(call.grant.subject), call.request_id)
        what = Publishing(
            plan, drawn.over, mark, call.limits.max_file_bytes, drawn.merged, drawn.partly,
            kept=drawn.kept,
        )  # fmt: skip
        return BringBack(call.handle, plan, copy, what, frozenset(drawn.settled))

    differences = partial(_differences, call, copy, found, drawn.merged)
    work = Work(planned, act, conditional=bool(drawn.settled), difference=differences)
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
        seen = [each for each in found.altered if _may(call, each.path, METADATA)]
        found = found._replace(altered=seen)
    wanted = Wanted("partial")
    drawn = await draw(call, copy, found, wanted)
    sifted = _sift(call, drawn, found, wanted)
    conflicts = {each.path for each in drawn.conflicts} - {each.path for each in sifted.conflicts}
    unseen = [
        Touch(each.path, "created", each.type)
        for each in found.altered
        if each.path in conflicts and each.type is not None
    ]
    return WorkChanges(
        changes=list(_changes(call, with_their_directories([*drawn.touches, *unseen]))),
        withheld=[*sifted.withheld, *sifted.dropped], conflicts=sifted.conflicts,
    )  # fmt: skip


async def difference(call: Call, copy: WorkingCopy, path: ScopedPath) -> UnifiedDiff:
    """From what stands in the tree to what stands in the copy, of one file that holds text."""
    found = {each.path: each for each in (await copy.alterations()).altered}
    altered = found.get(path)
    if altered is None or not _may(call, path, METADATA):
        raise PathNotFound("was not changed in this working copy", path=path)
    if not _may(call, path, READ):
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
    given_up = [each.path for each in found.altered if wanted.covers(each.path)]
    rewritten = {
        each.path: await with_some_hunks(call, copy, each, chosen, others=True)
        for each in found.altered
        if (chosen := wanted.hunks.get(each.path)) is not None
    }
    whole = [path for path in given_up if path not in rewritten]
    everything = wanted.only is None or (len(whole) == len(found.altered) and not found.unfit)
    act = DiscardWork(call.handle, copy, None if everything else tuple(whole), rewritten)
    return Proposal(act, lambda _: given_up)


def _changes(call: Call, touches: Sequence[Touch]) -> Iterator[WorkChange]:
    """What there is to look at: what lies in a directory that moved is as it was. Where something
    is hidden from whoever calls, nothing else stands as far as they can tell."""
    for each in touches:
        if each.beneath and each.kind == "moved":
            continue
        kind, origin = each.kind, each.origin
        if kind != "created" and not _may(call, each.path, METADATA):
            if kind == "deleted":
                continue
            kind, origin = "created", None
        yield WorkChange(path=each.path, kind=kind, type=each.type, origin=origin)


# --- what it would do -------------------------------------------------------------------------


class _Now(NamedTuple):
    """What stands in the tree at a place of the working copy."""

    type: EntryType
    version: str
    mode: int
    size: int
    target: str | None


async def draw(call: Call, copy: WorkingCopy, found: Alterations, wanted: Wanted) -> Drawn:
    """Compare what was altered with what stands in the tree by now."""
    altered = [each for each in found.altered if wanted.covers(each.path)]
    drawing = _Drawing(call, copy, altered, wanted)
    for count, each in enumerate(altered, 1):
        if count % _PATHS_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        await drawing.add(each)
    return await drawing.finished()


class _Drawing:
    """A plan in the making."""

    def __init__(
        self, call: Call, copy: WorkingCopy, altered: list[Altered], wanted: Wanted
    ) -> None:
        self._call = call
        self._copy = copy
        self._wanted = wanted
        self._store = call.store
        self._gone = {each.path for each in altered if each.type is None}
        self._made = {
            each.path
            for each in altered
            if each.type == "directory" and (each.base is None or each.base.type != "directory")
        }
        self._goes: list[Touch] = []
        self._comes: list[Touch] = []
        self._over: dict[ScopedPath, str] = {}
        self._conflicts: list[WorkConflict] = []
        self._settled: set[ScopedPath] = set()
        self._merged: dict[ScopedPath, bytes] = {}
        self._partly: set[ScopedPath] = set()
        self._kept: set[ScopedPath] = set()

    async def finished(self) -> Drawn:
        goes = sorted(self._goes, key=lambda each: each.path.order, reverse=True)
        touches = await Moves(self._call, goes, self._comes).found()
        return Drawn(
            touches, self._over, self._conflicts, self._settled, self._merged,
            frozenset(self._partly), frozenset(self._kept),
        )  # fmt: skip

    async def add(self, each: Altered) -> None:
        path, base = each.path, each.base
        try:
            entry = await self._store.resolve(path, "entry", parents=True)
        except _NO_WAY:
            if each.type is None:
                self._settled.add(path)  # gone with what it lay in
            elif base is None and path.parent in self._made:
                self._comes.append(self._created(each))
            else:
                self._conflicts.append(WorkConflict(path=path))
            return
        with closing(entry):
            now = await self._now(entry)
            if now is None and self._wanted.over.get(path, "") is None:
                await self._make_way(path)
            text = self._wanted.texts.get(path)
            if text is not None:
                await self._add_text(each, text, entry, now)
            elif (
                now is not None
                and each.type == now.type
                and _may(self._call, path, READ)  # else it would tell what is kept from them
                and await self._is_ours(each, entry, now)
            ) or (each.type is None and now is None):
                self._settled.add(path)
            elif not (self._goes_over(path, now) or await self._is_as_it_was(each, entry, now)):
                await self._add_changed_by_both(each, entry, now)
            elif path in self._wanted.hunks:
                await self._add_some_hunks(each, entry, now)
            elif now is None:
                self._comes.append(self._created(each))
            elif each.type is None:
                self._goes.append(self._deleted(path, now))
            elif each.type == now.type != "symlink":
                self._over[path] = now.version
                self._comes.append(await self._updated(each, entry, now))
            else:
                self._goes.append(self._deleted(path, now))
                self._comes.append(self._created(each))

    async def _add_changed_by_both(self, each: Altered, entry: Handle, now: _Now | None) -> None:
        """It is joined where that was asked for and is possible, else it is a conflict."""
        path, base = each.path, each.base
        data: bytes | None = None
        reason = WorkConflict(path=path).reason
        if self._wanted.merge and path not in self._wanted.hunks and now is not None:
            if each.type == now.type == "file" and base is not None and base.type == "file":
                data = await joined(self._call, self._copy, each, entry)
            reason = f"{reason}, and it cannot be joined with that"
        if data is None or now is None or base is None:
            self._conflicts.append(WorkConflict(path=path, reason=reason))
            return
        same_mode = each.mode & _PERMISSIONS == base.mode & _PERMISSIONS
        if same_mode and hashlib.sha256(data).hexdigest() == await content_hash(self._store, entry):
            self._settled.add(path)  # others have brought all of it already
            return
        mode = now.mode if each.mode & _PERMISSIONS == base.mode & _PERMISSIONS else each.mode
        await self._comes_as(each._replace(mode=mode), data, entry, now)

    async def _add_text(
        self, each: Altered, text: ChosenText, entry: Handle, now: _Now | None
    ) -> None:
        stands = None if now is None else now.version
        if stands != text.over or (now is not None and now.type != "file"):
            self._conflicts.append(WorkConflict(path=each.path))
            return
        if text.partly:
            as_it_was = await self._is_as_it_was(each, entry, now)
            (self._partly if as_it_was else self._kept).add(each.path)
        await self._comes_as(each._replace(type="file", mode=text.mode), text.data, entry, now)

    async def _add_some_hunks(self, each: Altered, entry: Handle, now: _Now | None) -> None:
        chosen = self._wanted.hunks[each.path]
        data = await with_some_hunks(self._call, self._copy, each, chosen, others=False)
        if hashlib.sha256(data).hexdigest() != each.sha256:
            self._partly.add(each.path)
        await self._comes_as(each, data, entry, now)

    async def _comes_as(self, each: Altered, data: bytes, entry: Handle, now: _Now | None) -> None:
        path = each.path
        becomes = each._replace(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        self._merged[path] = data
        if now is None:
            self._comes.append(self._created(becomes))
        else:
            self._over[path] = now.version
            self._comes.append(await self._updated(becomes, entry, now))

    async def _now(self, entry: Handle) -> _Now | None:
        if entry.type is None:
            return None
        stat = await self._store.stat(entry)
        return _Now(stat.type, stat.version, stat.mode & _PERMISSIONS, stat.size, stat.target)

    def _goes_over(self, path: ScopedPath, now: _Now | None) -> bool:
        """Whether somebody has seen what stands there, and has it replaced. What lies in a
        directory they have not seen."""
        if path not in self._wanted.over or (now is not None and now.type == "directory"):
            return False
        return self._wanted.over[path] == (None if now is None else now.version)

    async def _is_ours(self, each: Altered, entry: Handle, now: _Now) -> bool:
        """Whether what stands there is what would be brought."""
        if each.type == "symlink":
            return each.target == now.target
        if self._mode(each) != now.mode:
            return False
        return each.type == "directory" or (
            each.size == now.size and await content_hash(self._store, entry) == each.sha256
        )

    async def _is_as_it_was(self, each: Altered, entry: Handle, now: _Now | None) -> bool:
        """Whether nobody else has changed what stands there, or what it stands in."""
        base = each.base
        if now is None:
            return base is None and await self._has_parent(each.path)
        if base is None or now.type != base.type:
            return False
        if now.type != "directory":
            return now.version == base.version
        if each.type == "directory":
            return True
        children = await self._store.children(entry)
        return all(each.path.child(child.name) in self._gone for child in children.entries)

    async def _make_way(self, path: ScopedPath) -> None:
        """Have the directories made that others removed around something that is to stand there
        all the same."""
        missing: list[ScopedPath] = []
        while not await self._has_parent(path):
            path = path.parent
            missing.append(path)
        for each in reversed(missing):
            mode = mode_in(self._call.grant.root, _DIRECTORY_MODE, "directory")
            self._comes.append(Touch(each, "created", "directory", mode=mode))
            self._made.add(each)

    async def _has_parent(self, path: ScopedPath) -> bool:
        if path.parent in self._made:
            return True
        try:
            found = await self._store.resolve(path.parent, "object", directory=True)
        except _NO_WAY:
            return False
        with closing(found):
            return found.path == path.parent

    def _mode(self, each: Altered) -> int:
        assert each.type is not None
        return mode_in(self._call.grant.root, each.mode & _PERMISSIONS, each.type)

    def _created(self, each: Altered) -> Touch:
        assert each.type is not None
        mode = None if each.type == "symlink" else self._mode(each)
        return Touch(
            each.path, "created", each.type, size=each.size, sha256=each.sha256,
            mode=mode, target=each.target,
        )  # fmt: skip

    async def _updated(self, each: Altered, entry: Handle, now: _Now) -> Touch:
        before = await content_hash(self._store, entry)
        return Touch(
            each.path, "updated", now.type, size=each.size, size_before=now.size,
            sha256=each.sha256, sha256_before=before, mode=self._mode(each), mode_before=now.mode,
        )  # fmt: skip

    def _deleted(self, path: ScopedPath, now: _Now) -> Touch:
        self._over[path] = now.version
        return Touch(
            path, "deleted", now.type, size_before=now.size, mode_before=now.mode,
            target=now.target,
        )  # fmt: skip


# --- what may be ------------------------------------------------------------------------------


def _sift(call: Call, drawn: Drawn, found: Alterations, wanted: Wanted) -> _Sifted:
    """Leave out what is refused, and what cannot come or go without it."""
    refused: dict[ScopedPath, Withheld] = {}
    for touch in drawn.touches:
        refusal = wanted.refused.get(touch.path) or _refusal(call, touch)
        if refusal is not None:
            refused[touch.path] = refusal
    conflicts: list[WorkConflict] = []
    for conflict in drawn.conflicts:
        kept = _kept_from(call, conflict.path)
        if kept is None:
            conflicts.append(conflict)
        else:
            refused[conflict.path] = kept
    stays = {*refused, *(each.path for each in conflicts)}
    left = [each for each in drawn.touches if each.path not in stays]
    origins = {each.path: each.origin for each in found.altered if each.origin is not None}
    while True:
        # What lies nowhere but in its old place does not go from there.
        stays |= {origins[path] for path in stays if path in origins}
        around = _directories_around(stays)
        dependent = [each for each in left if _depends(each, stays, around)]
        if not dependent:
            break
        for each in dependent:
            stays.add(each.path)
            refused[each.path] = Withheld(
                path=each.path, error_kind="unsupported",
                reason="it cannot come or go without what was left out",
            )  # fmt: skip
        left = [each for each in left if each.path not in stays]
    unfit = [_unsupported(each) for each in found.unfit]
    return _Sifted(
        with_their_directories(left),
        [*refused.values(), *unfit],
        [_unsupported(each) for each in found.dropped],
        conflicts,
    )


def _kept_from(call: Call, path: ScopedPath) -> Withheld | None:
    """What is refused where whoever calls may not know what stands there: the same as if nothing
    did, so that a conflict does not tell them."""
    if _may(call, path, METADATA):
        return None
    return _refusal(call, Touch(path, "created", "file"))


def with_their_directories(touches: list[Touch]) -> list[Touch]:
    """Mark what only comes, goes or moves because the directory does that it lies in."""
    kinds = {each.path: each.kind for each in touches if each.type == "directory"}
    return [
        each._replace(beneath=kinds.get(each.path.parent) == each.kind != "updated")
        for each in touches
    ]


def _unsupported(each: Dropped) -> Withheld:
    return Withheld(path=each.path, error_kind="unsupported", reason=each.reason)


class _Sifted(NamedTuple):
    """What is left of a plan; ``dropped`` keeps nothing else back."""

    touches: list[Touch]
    withheld: list[Withheld]
    dropped: list[Withheld]
    conflicts: list[WorkConflict]


def _depends(touch: Touch, stays: set[ScopedPath], around: set[ScopedPath]) -> bool:
    """Whether it comes into a directory that does not come, or is a directory of which something
    does not go. ``around`` are the directories that what ``stays`` lies in."""
    if touch.kind == "deleted":
        return touch.path in stays or (touch.type == "directory" and touch.path in around)
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


def _refusal(call: Call, touch: Touch) -> Withheld | None:
    try:
        if touch.kind == "created" and touch.type == "symlink":
            _check_link(call, touch)
        for use in uses_of(touch):
            _check_use(call, use)
    except BailiwickError as error:
        return withheld_for(error, _named(call, touch))
    return None


def _named(call: Call, touch: Touch) -> ScopedPath:
    """The place to tell of: what a program has taken away with the directory around it, and never
    saw, is not named."""
    path = touch.path
    while touch.kind == "deleted" and not path.is_root and not _may(call, path, METADATA):
        path = path.parent
    return path


def _may(call: Call, path: ScopedPath, operation: Operation) -> bool:
    return permits(call.decide(path, operation.ruled))


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
