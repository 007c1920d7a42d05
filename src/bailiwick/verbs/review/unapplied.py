"""Reviewing what is not in the tree yet: what a working copy or a fork would do to it. To accept
some of it is to apply or merge that, to reject it is to give it up where it was done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

from bailiwick.call import Call
from bailiwick.commands import PlacedCopy
from bailiwick.errors import BailiwickError, HashMismatch
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.grant import subject_stands_above
from bailiwick.operations import READ
from bailiwick.paths import ScopedPath
from bailiwick.policy import permits
from bailiwick.proposal import Proposal
from bailiwick.reviews import (
    NoteHolder,
    QueuePage,
    ReviewNote,
    ReviewQueue,
    ReviewResult,
    ReviewVerdicts,
)
from bailiwick.runs import RunBook
from bailiwick.store import Reader, Store
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.branches import merge
from bailiwick.verbs.modes import mode_in
from bailiwick.verbs.review.apart import (
    ApartChange,
    ApartChanges,
    ApartChoice,
    ApartHunk,
    ApartPath,
    is_alike,
    places_of,
)
from bailiwick.verbs.review.moved_directories import folded, torn
from bailiwick.verbs.review.queue import ReviewPart, ReviewSpoken, page_in, refuse_agents, then
from bailiwick.verbs.runs.planned_return import PlannedReturn, base_of, come, return_whole
from bailiwick.verbs.runs.story_contents import StoryContent, look_at
from bailiwick.verbs.runs.taking_back import bring
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.working_copies.bring_back import bring_back
from bailiwick.verbs.working_copies.content import content_in
from bailiwick.version_acts import DiscardWork
from bailiwick.versions import (
    BranchBeside,
    Conflict,
    Difference,
    MergeResult,
    Plan,
    UndoResult,
    lines,
)
from bailiwick.working_copy import (
    Alterations,
    Altered,
    ChosenText,
    Published,
    Wanted,
    WorkingCopy,
)

_MODE_ALONE = "its mode can only be given up with all that was changed of it"
_ENTANGLED = "others have changed lines that touch these"


async def shown(
    call: Call, changes: ApartChanges, part: ReviewPart, page: QueuePage
) -> ReviewQueue:
    """What would become of the tree, in pages."""
    refuse_agents(call)
    return await in_thread(_shown, call, changes, part, page)


def _shown(call: Call, changes: ApartChanges, part: ReviewPart, page: QueuePage) -> ReviewQueue:
    hunks = {change.path: some for change, some in changes.chosen(part.ids, part.paths)}
    meant = [each for each in changes.changes if each.path in hunks]
    some, following = page_in(call, page).of(meant, call.grant.base)
    files = [
        each.brief(hunks[each.path])
        if page.brief
        else each.shown(hunks[each.path], sides=each.path in part.paths)
        for each in some
    ]
    return ReviewQueue(
        files=files, left=sum(map(len, hunks.values())), version=changes.version,
        next_cursor=following, truncated=changes.truncated, request_id=call.request_id,
    )  # fmt: skip


# --- working copies ----------------------------------------------------------------------------


class SeenCopy(NamedTuple):
    """What a working copy would do to the tree, and what of the copy that was told from: whatever
    is done about it is done to that, also while others go on changing the copy."""

    changes: ApartChanges
    seen: Alterations


async def of_copy(
    call: Call, copy: PlacedCopy, whose: NoteHolder, runs: RunBook | None
) -> SeenCopy:
    """What a working copy would do to the tree, as far as whoever calls may see of it. In an
    overlay, which is nobody's, whoever changed a path last is who did it."""
    contents: dict[str, bytes] = {}
    seen = await copy.alterations()
    altered = [each for each in seen.altered if permits(call.decide(each.path, READ.ruled))]
    most = call.limits.run_paths_max
    hands: Mapping[ScopedPath, NoteHolder] = {}
    if runs is not None and copy.is_overlay:
        paths = [each.path for each in altered[:most]]
        known = await runs.last_hands(str(call.grant.root), paths)
        hands = {p: hand for p, hand in known.items() if not subject_stands_above(hand.subject)}
    found = [
        await _in_copy(call, copy, each, hands.get(each.path, whose), contents)
        for each in altered[:most]
    ]
    changes = partial(
        ApartChanges, contents=contents, truncated=len(altered) > most, moved=seen.moved
    )
    return SeenCopy(await in_thread(lambda: changes(copy.id, folded(found, seen))), seen)


async def _in_copy(
    call: Call, copy: WorkingCopy, each: Altered, whose: NoteHolder, contents: dict[str, bytes]
) -> ApartPath:
    now = await look_at(call.store, each.path, call.limits.diff_bytes_max, contents)
    if now is None or each.base is None:
        as_it_was = now is None and each.base is None
    else:
        is_same = now.type == "directory" or now.version == each.base.version
        as_it_was = now.type == each.base.type and is_same
    base = now if as_it_was else None
    if not as_it_was and each.base is not None:
        image = await copy.base_image(each.path) if each.base.type == "file" else None
        base = StoryContent(each.base.type, each.path, each.base.mode & 0o777, image)
    theirs = await _apart(call, copy, each)
    return ApartPath(each.path, theirs, now, base, as_it_was, whose)


async def _apart(call: Call, copy: WorkingCopy, each: Altered) -> StoryContent | None:
    if each.type is None:
        return None
    data: bytes | None = None
    limit = call.limits.diff_bytes_max
    if each.type == "file" and each.size <= limit:
        with suppress(HashMismatch):  # it is being changed: of that no lines can be told
            data = await content_in(copy, each, limit)
    mode = mode_in(call.grant.root, each.mode & 0o777, each.type)
    return StoryContent(
        each.type, each.path, mode, None if data is None or 0 in data else data, each.sha256,
        each.target, size=each.size,
    )  # fmt: skip


async def accept_copy(
    call: Call,
    ignores: Ignores,
    copy: PlacedCopy,
    whose: NoteHolder,
    runs: RunBook | None,
    part: ReviewPart,
    settling: Settling | None,
) -> Proposal[ReviewSpoken]:
    """Apply what is chosen; where anything stands against it that nobody settles, nothing."""
    refuse_agents(call)
    changes, seen = await of_copy(call, copy, whose, runs)
    if settling is None:
        chosen = await in_thread(changes.chosen, part.ids, part.paths)
        against = _against(chosen)
        if against:
            return _refused(call, changes, against)
        texts = await in_thread(_texts, chosen)
        wanted = Wanted("atomic", merge=True, texts=texts)
    else:
        change = changes.settled(part.ids)
        chosen = [(change, change.hunks)]
        wanted = settling.wanted(change)
    paths = places_of(chosen)
    paths |= {each.path for each in changes.with_directories(paths, applied=True)}
    partly = [path for path, text in wanted.texts.items() if text.partly]
    against = torn(changes.name, seen, paths, partly)
    if against:
        return _refused(call, changes, against)
    wanted = wanted._replace(exactly=frozenset(paths))
    proposal = await bring_back(call, ignores, copy, wanted, seen)

    def spoken(done: Published) -> ReviewSpoken:
        conflicts = [Conflict(each.path, each.reason) for each in done.conflicts]
        conflicts += [Conflict(ScopedPath(each.path), each.reason) for each in done.withheld]
        applied = [each.path for each in done.changes]
        return _accepted(call, changes, chosen, applied, conflicts)

    return then(proposal, spoken)


class Settling(NamedTuple):
    """What becomes of a file that was changed both in the tree and apart: a ``text``, or with None
    what it is apart, whatever stands in the tree."""

    text: bytes | None

    def wanted(self, change: ApartChange) -> Wanted:
        now = None if change.now is None else change.now.version
        wanted = Wanted("atomic", over={change.path: now})
        if self.text is None:
            return wanted
        text = ChosenText(now, self.text, self.mode(change))
        return wanted._replace(texts={change.path: text})

    def mode(self, change: ApartChange) -> int:
        """Whoever writes a text changes no mode."""
        stood = change.now or change.each.theirs
        assert stood is not None, "it stands on one side"
        return stood.mode


def _texts(chosen: ApartChoice) -> dict[ScopedPath, ChosenText]:
    return {change.path: _text(change, some) for change, some in chosen if change.is_in_pieces}


def _text(change: ApartChange, some: Sequence[ApartHunk]) -> ChosenText:
    data, mode = change.with_only(some)
    assert change.now is not None
    return ChosenText(change.now.version, data, mode, len(some) < len(change.hunks))


async def reject_copy(
    call: Call,
    copy: PlacedCopy,
    whose: NoteHolder,
    runs: RunBook | None,
    part: ReviewPart,
    note: str,
    *,
    preview: bool,
) -> Proposal[ReviewSpoken]:
    """Give up what is chosen: there it is what it is in the tree again."""
    refuse_agents(call)
    changes, seen = await of_copy(call, copy, whose, runs)
    chosen = await in_thread(changes.chosen, part.ids, part.paths)
    conflicts: list[Conflict] = []
    rewritten: dict[ScopedPath, bytes] = {}
    for change, some in chosen:
        if len(some) == len(change.hunks):
            continue
        theirs = await in_thread(change.theirs_without, some)
        if theirs is None or any(each.modes for each in some):
            reason = _ENTANGLED if theirs is None else _MODE_ALONE
            conflicts.append(Conflict(change.path, reason))
        else:
            rewritten[change.path] = theirs[0]
    if conflicts:
        return _refused(call, changes, conflicts)
    whole = places_of((change, some) for change, some in chosen if change.path not in rewritten)
    whole |= {each.path for each in changes.with_directories(whole, applied=False)}
    against = torn(changes.name, seen, whole | rewritten.keys(), rewritten)
    if against:
        return _refused(call, changes, against)
    spoken = _rejected(call, changes, chosen, sorted(whole | rewritten.keys()), note, preview)
    if preview:
        call.questions = None
        return Proposal(None, lambda _: spoken)
    everything = not seen.unfit and {each.path for each in seen.altered} <= whole
    paths = None if everything else tuple(sorted(whole))
    act = DiscardWork(call.handle, copy, seen, paths, rewritten, call.caller.key)
    return Proposal(act, lambda _: spoken, foretold=lambda: spoken)


# --- forks -------------------------------------------------------------------------------------


async def of_fork(call: Call, name: str, runs: RunBook | None) -> ApartChanges:
    """What a fork has changed since it and this branch were one."""
    hands = await hands_of(runs, str(call.grant.root))
    async with _beside(call, name) as beside:
        fork = _Fork(call, beside, hands)
        truncated = await fork.add_all(await lines(call.store).compare(name))
    changes = partial(ApartChanges, truncated=truncated, as_of=beside.version)
    return await in_thread(changes, name, fork.found, fork.contents)


@asynccontextmanager
async def _beside(call: Call, name: str) -> AsyncGenerator[BranchBeside, None]:
    beside = await lines(call.store).beside(name)
    try:
        yield beside
    finally:
        await to_the_end(beside.origin.aclose())
        await to_the_end(beside.store.aclose())


async def _plan_as_seen(call: Call, changes: ApartChanges) -> Plan | None:
    """How all of a fork is merged as it was looked at; None where others have changed it since, or
    it cannot be."""
    plan = await lines(call.store).plan_merge(changes.name)
    async with _beside(call, changes.name) as beside:
        is_same = beside.version == changes.as_of
    return plan if is_same and not plan.conflicts else None


class _Fork:
    """Looks at what a fork has changed."""

    def __init__(self, call: Call, beside: BranchBeside, hands: Hands) -> None:
        self._call = call
        self._hands = hands
        self._store, self._origin, self._past, _ = beside
        self.found: list[ApartPath] = []
        self.contents: dict[str, bytes] = {}

    async def add_all(self, differences: Sequence[Difference]) -> bool:
        """Look at what differs, and at what came or went with a directory; whether there are
        more."""
        others = {path for each in differences if each.kind != "updated" for path in _ends(each)}
        told = {path for each in differences for path in _ends(each)}
        waiting = sorted(told, key=lambda each: each.order, reverse=True)
        seen: set[ScopedPath] = set()
        while waiting:
            path = waiting.pop()
            if path in seen or not permits(self._call.decide(path, READ.ruled)):
                continue
            seen.add(path)
            if len(seen) > self._call.limits.run_paths_max:
                return True
            base = await self._look(self._origin, path)
            theirs = await self._look(self._store, path)
            if not is_alike(base, theirs):
                now = await self._look(self._call.store, path)
                as_it_was = is_alike(base, now)
                whose = await self._whose(path)
                self.found.append(ApartPath(path, theirs, now, base, as_it_was, whose))
            if path not in others:
                continue
            # Another directory may stand where one was, which is like it and holds other things.
            for stood, store in ((base, self._origin), (theirs, self._store)):
                if stood is not None and stood.type == "directory":
                    beneath = await self._beneath(store, path)
                    others.update(beneath)
                    waiting += beneath
        return False

    async def _look(self, store: Reader, path: ScopedPath) -> StoryContent | None:
        limit = self._call.limits.diff_bytes_max
        return await look_at(store, path, limit, self.contents)

    async def _beneath(self, store: Store, path: ScopedPath) -> list[ScopedPath]:
        entry = await unfollowed(store, path)
        try:
            return [path.child(each.name) for each in (await store.children(entry)).entries]
        finally:
            entry.close()

    async def _whose(self, path: ScopedPath) -> NoteHolder:
        with suppress(BailiwickError):
            found = (await self._past.history(path, limit=1)).versions
            if found and found[0].subject and not subject_stands_above(found[0].subject):
                subject = found[0].subject
                return NoteHolder(subject, self._hands.get((subject, found[0].request_id), ()))
        return NoteHolder("")


def _ends(difference: Difference) -> Iterable[ScopedPath]:
    """Where something is, and where it was."""
    yield difference.path
    if difference.origin is not None:
        yield difference.origin


Hands = Mapping[tuple[str, str], tuple[str, ...]]
"""Through whose hands the name of a subject came, by a request of it."""


async def hands_of(runs: RunBook | None, root: str) -> Hands:
    """Of those that other agents have named."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    if runs is None:
        return found
    for row in await runs.rows(root):
        if row.via:
            found |= {(row.subject, each): row.via for each in await runs.requests(row)}
    return found


async def accept_fork(
    call: Call,
    ignores: Ignores,
    name: str,
    part: ReviewPart,
    runs: RunBook | None,
    *,
    is_own: bool,
) -> Proposal[ReviewSpoken]:
    """Merge what is chosen; where anything stands against it, nothing. All of it is merged as a
    branch is, where that can be done and nobody has changed the fork since it was looked at."""
    refuse_agents(call)
    changes = await of_fork(call, name, runs)
    chosen = await in_thread(changes.chosen, part.ids, part.paths)
    against = _against(chosen)
    if against:
        return _refused(call, changes, against)
    plan = await _plan_as_seen(call, changes) if changes.is_all(chosen) else None
    if plan is not None:
        merging = await merge(call, ignores, name, False, is_own=is_own, seen=plan)

        def all_of_it(done: MergeResult) -> ReviewSpoken:
            return _accepted(call, changes, chosen, done.changed, done.conflicts)

        return then(merging, all_of_it)
    planned = PlannedReturn()
    for change, some in chosen:
        if change.is_in_pieces:
            data, mode = await in_thread(change.with_only, some)
            assert change.now is not None
            come(planned, change.path, mode, data, base_of(change.now))
        else:
            return_whole(planned, change.path, change.becomes, change.now, changes.contents)
    for each in changes.with_directories(places_of(chosen), applied=True):
        return_whole(planned, each.path, each.becomes, each.now, changes.contents)
    return await _merged(call, ignores, changes, chosen, planned)


async def settle_fork(
    call: Call,
    ignores: Ignores,
    changes: ApartChanges,
    change: ApartChange,
    settling: Settling,
    stands: StoryContent | None,
) -> Proposal[ReviewSpoken]:
    """Have one file that both changed be what somebody settled, on the side where it ``stands``
    so."""
    refuse_agents(call)
    planned = PlannedReturn()
    if settling.text is None:
        return_whole(planned, change.path, change.each.theirs, stands, changes.contents)
    else:
        base = None if stands is None else base_of(stands)
        come(planned, change.path, settling.mode(change), settling.text, base)
    over = {change.path: None if stands is None else stands.version}
    return await _merged(call, ignores, changes, [(change, change.hunks)], planned, over)


async def _merged(
    call: Call,
    ignores: Ignores,
    changes: ApartChanges,
    chosen: ApartChoice,
    planned: PlannedReturn,
    over: Mapping[ScopedPath, str | None] = {},
) -> Proposal[ReviewSpoken]:
    planned.settle()
    bringing = await bring(call, ignores, planned, False, over)

    def some_of_it(done: UndoResult) -> ReviewSpoken:
        return _accepted(call, changes, chosen, done.undone, done.conflicts)

    return then(bringing, some_of_it)


async def reject_fork(
    call: Call,
    ignores: Ignores,
    changes: ApartChanges,
    part: ReviewPart,
    note: str,
    *,
    preview: bool,
) -> Proposal[ReviewSpoken]:
    """Take what is chosen out of a fork, on a call of the fork itself: what it was when both were
    one is there again."""
    refuse_agents(call)
    chosen = await in_thread(changes.chosen, part.ids, part.paths)
    planned = PlannedReturn()
    for change, some in chosen:
        each, contents = change.each, changes.contents
        # What was accepted of a file before stays in the fork as well.
        kept = await in_thread(change.theirs_without, some) if change.is_in_pieces else None
        if kept is not None and each.theirs is not None:
            data, mode = kept
            come(planned, change.path, mode, data, base_of(each.theirs))
        elif len(some) < len(change.hunks):
            planned.conflicts.append(Conflict(change.path, _ENTANGLED))
        elif change.gone is not None:
            return_whole(planned, change.path, change.gone.base, each.theirs, contents)
        else:
            return_whole(planned, change.path, each.base, each.theirs, contents)
    for around in changes.with_directories(places_of(chosen), applied=False):
        each = around.each
        return_whole(planned, around.path, each.base, each.theirs, changes.contents)
    planned.settle()
    bringing = await bring(call, ignores, planned, preview)

    def given_up(done: UndoResult) -> ReviewSpoken:
        if done.conflicts:
            return _conflicting(call, changes, done.conflicts, preview)
        return _rejected(call, changes, chosen, done.undone, note, preview)

    return then(bringing, given_up)


# --- what is answered --------------------------------------------------------------------------


def _against(chosen: ApartChoice) -> list[Conflict]:
    return [Conflict(each.path, each.against) for each, _ in chosen if each.against is not None]


def _refused(
    call: Call, changes: ApartChanges, conflicts: list[Conflict]
) -> Proposal[ReviewSpoken]:
    call.questions = None
    return Proposal(None, lambda _: _conflicting(call, changes, conflicts, False))


def _conflicting(
    call: Call, changes: ApartChanges, conflicts: list[Conflict], preview: bool
) -> ReviewSpoken:
    result = ReviewResult(
        conflicts=conflicts, left=changes.left, preview=preview, request_id=call.request_id
    )
    return ReviewSpoken(result, None)


def _accepted(
    call: Call,
    changes: ApartChanges,
    chosen: ApartChoice,
    applied: list[ScopedPath],
    conflicts: list[Conflict],
) -> ReviewSpoken:
    if conflicts:
        return _conflicting(call, changes, conflicts, False)
    ids = _ids(chosen)
    result = ReviewResult(
        accepted=ids, applied=applied, left=changes.left - len(ids), request_id=call.request_id
    )
    return ReviewSpoken(result, None)


def _rejected(
    call: Call,
    changes: ApartChanges,
    chosen: ApartChoice,
    undone: list[ScopedPath],
    note: str,
    preview: bool,
) -> ReviewSpoken:
    ids = _ids(chosen)
    left = changes.left if preview else changes.left - len(ids)
    result = ReviewResult(
        rejected=ids, undone=undone, left=left, preview=preview, request_id=call.request_id
    )
    by = str(call.grant.subject)
    notes = [
        (change.each.whose, ReviewNote(
            path=change.path, lines=change.said_lines(hunk)[: call.limits.review_note_lines_max],
            note=note, run="", by=by, time_ns=0,
        ))
        for change, some in chosen
        for hunk in some
        if change.each.whose.subject
    ]  # fmt: skip
    said = ReviewVerdicts(
        root=str(call.grant.root), by=by, request_id=call.request_id, verdicts=[], notes=notes,
        note=note,
    )  # fmt: skip
    return ReviewSpoken(result, None if preview or not notes else said)


def _ids(chosen: ApartChoice) -> list[str]:
    return [hunk.id for _, some in chosen for hunk in some]
