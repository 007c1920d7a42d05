"""The queue of a root: every hunk of an agent that nobody has agreed to; and verdicts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from bailiwick.approvals import Preview
from bailiwick.call import Call
from bailiwick.errors import (
    Busy,
    HashMismatch,
    MissingAccess,
    ParseError,
    Unsupported,
)
from bailiwick.grant import subject_stands_above
from bailiwick.paths import ScopedPath
from bailiwick.proposal import Proposal, Shown
from bailiwick.reviews import (
    HunkVerdict,
    NoteHolder,
    QueuedPath,
    QueuePage,
    ReviewBook,
    ReviewFile,
    ReviewNote,
    ReviewQueue,
    ReviewResult,
    ReviewVerdicts,
)
from bailiwick.runs import RunBook, found_run
from bailiwick.verbs.review.names import PREFIX_MIN, GivenNames, HunkName, given_names, not_left
from bailiwick.verbs.review.path_reviews import LeftHunk, PathReview
from bailiwick.verbs.review.review_look import ReviewLook, look
from bailiwick.verbs.runs.planned_return import PlannedReturn
from bailiwick.verbs.runs.run_digests import digest_of, version_of, visible
from bailiwick.verbs.runs.taking_back import bring
from bailiwick.verbs.text_work import worked_out
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.path_pages import PathPage, path_page
from bailiwick.versions import UndoResult

Result = TypeVar("Result")


class ReviewPart(NamedTuple):
    """What is meant: hunks or runs by their ids (or beginnings of them), or a file of a run as
    ``RUN:PATH``; of that, only what is of a run, and what lies in some paths."""

    ids: tuple[str, ...] = ()
    run: str | None = None
    paths: tuple[ScopedPath, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not self.ids and self.run is None and not self.paths


def required(runs: RunBook | None) -> tuple[RunBook, ReviewBook]:
    if runs is None or runs.reviews is None:
        raise Unsupported(
            "what people say of changes is not kept here",
            hint="an authority with a state in a directory keeps it: serve, mcp and the commands",
        )
    return runs, runs.reviews


def refuse_agents(call: Call) -> None:
    if not subject_stands_above(str(call.grant.subject)):
        raise MissingAccess("only a person or the host reviews what agents did")


# --- what is meant -----------------------------------------------------------------------------


def part_of(ids: Collection[str] | str, run: str | None, paths: Sequence[ScopedPath]) -> ReviewPart:
    """What a caller means. Raises `ParseError`."""
    given = (ids,) if isinstance(ids, str) else ids
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(
        isinstance(each, str) and each for each in given
    ):
        raise ParseError("what is accepted or rejected is named by ids of hunks or runs")
    if run is not None and not isinstance(run, str):
        raise ParseError("a run is named by its id")
    return ReviewPart(tuple(given), run, tuple(paths))


def refuse_nothing(part: ReviewPart) -> None:
    if part.is_nothing:
        raise ParseError("say what is accepted or rejected", hint="hunks, a run, or paths")


Chosen = list[tuple[PathReview, list[LeftHunk]]]


async def chosen(
    looked: ReviewLook,
    part: ReviewPart,
    book: ReviewBook,
    root: str,
    among: Sequence[QueuedPath] | None = None,
) -> Chosen:
    """What of the queue is meant, or of some of it. Raises `PathNotFound` for what is not in it,
    `ParseError` for the beginning of several ids."""
    run = _run_in(looked, part)
    given = given_names(part.ids)
    names_given = GivenNames(given)
    meant: dict[str, set[str]] = {}
    found: Chosen = []
    for queued in _may_be_meant(looked, part, given) if among is None else among:
        review = await looked.review(queued)
        await asyncio.sleep(0)  # there may be thousands: others have their turn
        if review is None:
            continue
        some = await worked_out(review.size, _meant_in, review, run, names_given, meant)
        if some:
            found.append((review, some))
    for text, several in meant.items():
        if len(several) > 1:
            raise ParseError(
                f"{len(several)} ids begin with {text[:80]!r}", hint="give more of the id"
            )
    unmet = {each.id for each in given if each.text not in meant}
    unmet -= set(book.said(root, unmet))
    unmet -= {each for each in unmet if each in looked.rows}
    if unmet:
        raise not_left(min(unmet))
    return found


def _meant_in(
    review: PathReview, run: str | None, given: GivenNames, meant: dict[str, set[str]]
) -> list[LeftHunk]:
    """Which hunks of a path are meant, all of them where none is named; and what of them each name
    means."""
    some = []
    for hunk in review.hunks():
        if run is not None and run not in hunk.runs:
            continue
        names = _names_of(given, review, hunk)
        for name in names:
            meant.setdefault(name.text, set()).update(_whole_names(name, hunk))
        if names or not given.all:
            some.append(hunk)
    _refuse_unclear(review, some, given.all)
    return some


async def _as_shown(call: Call, runs: RunBook, looked: ReviewLook, part: ReviewPart) -> ReviewPart:
    """What is meant, with runs by their ids that were named as ``RUN@VERSION``. Raises
    `HashMismatch` where one is not as it was shown: it went on, or others changed the same."""
    ids = []
    for name in given_names(part.ids):
        row = looked.rows.get(name.id) if name.version is not None else None
        if row is not None:
            found = [each for each in visible(call, await digest_of(call, runs, row)) if each.kind]
            if version_of(found) != name.version:
                raise HashMismatch("more was done since it was shown", hint="look at it again")
        ids.append(name.text if row is None else row.id)
    return part._replace(ids=tuple(ids))


def _run_in(looked: ReviewLook, part: ReviewPart) -> str | None:
    return None if part.run is None else found_run(list(looked.rows.values()), part.run).id


def _may_be_meant(
    looked: ReviewLook, part: ReviewPart, given: Sequence[HunkName]
) -> list[QueuedPath]:
    """All that can be meant, by what is known without the lines: an id that is left is of one
    path; one that is not may be that of a hunk as it was shown at a version."""
    run = _run_in(looked, part)
    left = {id for queued in looked.queued for id, _ in queued.hunks}
    whole = {each.id for each in given if each.version is not None and each.id in left}
    others = [each for each in given if each.version is None or each.id not in left]
    found = []
    for queued in looked.queued:
        if part.paths and not any(queued.path.lies_in(each) for each in part.paths):
            continue
        if run is not None and not any(run in runs for _, runs in queued.hunks):
            continue
        is_named = any(id in whole for id, _ in queued.hunks)
        if not part.ids or is_named or any(_may_mean(name, queued) for name in others):
            found.append(queued)
    return found


def _may_mean(name: HunkName, queued: QueuedPath) -> bool:
    if name.version is not None:
        version = name.version.partition(".")[0]
        return any(version == each.version for each in queued.versions) or any(
            name.begins(id) for id, _ in queued.hunks
        )
    begin, colon, path = name.text.partition(":")
    if colon and str(queued.path) != path:
        return False
    return any(
        each.startswith(begin) for id, runs in queued.hunks for each in (id, *runs)
    )  # fmt: skip


def _refuse_unclear(
    review: PathReview, some: Sequence[LeftHunk], names: Sequence[HunkName]
) -> None:
    """An id says nothing of the place: where that is not clear it has to be said what was seen."""
    chosen = {each.id for each in some}
    without = [each for each in names if each.version is None]
    for hunk in some:
        by_id = any(each.begins(hunk.id) for each in without)
        if by_id and review.is_unclear(hunk, chosen):
            raise ParseError(
                "this change was made in several places of the file", path=review.place,
                hint=f"say which one you saw: {hunk.id[:8]}…@VERSION, as the queue shows it",
            )  # fmt: skip


def _names_of(given: GivenNames, review: PathReview, hunk: LeftHunk) -> list[HunkName]:
    """Which of the names mean a hunk."""
    some, found = given.all, list[HunkName]()
    if hunk.lines is not None:
        some, found = given.others, given.of(review.shown_as(hunk))
    return found + [each for each in some if _means(each, review, hunk)]


def _means(name: HunkName, review: PathReview, hunk: LeftHunk) -> bool:
    if name.version is not None:
        return review.is_shown(name, hunk)
    run, colon, path = name.text.partition(":")
    if len(run) < PREFIX_MIN:
        return False
    if colon:
        return any(each.startswith(run) for each in hunk.runs) and str(review.place) == path
    return hunk.id.startswith(run) or any(each.startswith(run) for each in hunk.runs)


def _whole_names(name: HunkName, hunk: LeftHunk) -> set[str]:
    """What of a hunk has a name that begins so: who wrote it may have chosen lines that do."""
    if name.version is not None:
        return {hunk.id}
    begin, colon, _ = name.text.partition(":")
    names = hunk.runs if colon else (hunk.id, *hunk.runs)
    fits = {each for each in names if each.startswith(begin)}
    return {begin} if begin in fits else fits


# --- verbs -------------------------------------------------------------------------------------


async def queue(call: Call, runs: RunBook | None, part: ReviewPart, page: QueuePage) -> ReviewQueue:
    runs, book = required(runs)
    refuse_agents(call)
    looked = await look(call, runs, book, part.ids, goes_on=page.cursor is not None)
    meant = _may_be_meant(looked, part, ())
    some, following = page_in(call, page).of(meant, call.grant.base)
    files = []
    for review, hunks in await chosen(looked, part, book, str(call.grant.root), some):
        file = await worked_out(review.size, review.shown, looked.rows)
        if file is not None:
            files.append(_only(file, {each.id for each in hunks}, brief=page.brief))
    run = _run_in(looked, part)
    left = sum(run is None or run in runs for queued in meant for _, runs in queued.hunks)
    return ReviewQueue(
        files=files, left=left, next_cursor=following, truncated=looked.truncated,
        request_id=call.request_id,
    )  # fmt: skip


def page_in(call: Call, page: QueuePage) -> PathPage:
    return path_page(page.cursor, call.limits.history_default if page.limit is None else page.limit)


def _only(file: ReviewFile, ids: Collection[str], *, brief: bool) -> ReviewFile:
    hunks = [each for each in file.hunks if each.id in ids]
    return msgspec.structs.replace(
        file, hunks=[] if brief else hunks, hunk_count=len(hunks),
        added=sum(each.added for each in hunks), removed=sum(each.removed for each in hunks),
    )  # fmt: skip


class ReviewSpoken(NamedTuple):
    """What is to be answered, and what is to be kept of it."""

    result: ReviewResult
    said: ReviewVerdicts | None


async def accept(call: Call, runs: RunBook | None, part: ReviewPart) -> Proposal[ReviewSpoken]:
    """Agree to hunks as they are. Nothing of the tree changes."""
    runs, book = required(runs)
    refuse_agents(call)
    looked = await look(call, runs, book, part.ids)
    part = await _as_shown(call, runs, looked, part)
    root, before = str(call.grant.root), looked.left
    verdicts = _whole_runs(looked, part)
    if verdicts is None:
        verdicts = []
        for review, hunks in await chosen(looked, part, book, root):
            settles = len(hunks) == len(await worked_out(review.size, review.hunks))
            verdicts += _verdicts(review, hunks, accepted=True, settles=settles)
    left = before - len(verdicts)
    through = looked.newest if not left and not looked.truncated and not looked.partial else None
    said = ReviewVerdicts(
        root=root, by=str(call.grant.subject), request_id=call.request_id, verdicts=verdicts,
        through=through if call.grant.whole else None,
    )  # fmt: skip
    result = ReviewResult(
        accepted=[each.hunk for each in verdicts], left=left, request_id=call.request_id
    )
    spoken = ReviewSpoken(result, said)
    return Proposal(None, lambda _: spoken, agreement=Shown(Preview()))


def _whole_runs(looked: ReviewLook, part: ReviewPart) -> list[HunkVerdict] | None:
    """What to keep where all is agreed to of runs, or of paths: that is known without a line. None
    where anything else is named."""
    run, named = _run_in(looked, part), set(part.ids)
    if not named <= looked.rows.keys():
        return None
    verdicts: list[HunkVerdict] = []
    for queued in _may_be_meant(looked, part, given_names(named)):
        some = [
            (id, runs)
            for id, runs in queued.hunks
            if (run is None or run in runs) and (not named or not named.isdisjoint(runs))
        ]
        newest, settles = queued.versions[-1], len(some) == len(queued.hunks)
        verdicts += [
            HunkVerdict(
                path=str(newest.path), version=newest.version, hunk=id,
                run=runs[-1] if runs else "", accepted=True, settles=settles,
            )
            for id, runs in some
        ]  # fmt: skip
    return verdicts


def _verdicts(
    review: PathReview, hunks: Sequence[LeftHunk], *, accepted: bool, settles: bool = False
) -> list[HunkVerdict]:
    return [
        HunkVerdict(
            path=str(review.path), version=review.version, hunk=each.id, run=each.run,
            accepted=accepted, settles=settles,
        )
        for each in hunks
    ]  # fmt: skip


async def reject(
    call: Call,
    ignores: Ignores,
    runs: RunBook | None,
    part: ReviewPart,
    note: str,
    *,
    preview: bool,
    insist: bool,
) -> Proposal[ReviewSpoken]:
    """Take hunks back by what stands there now, and have the agents told; nothing where anything
    stands against it, nor while one of them is in the middle of something."""
    runs, book = required(runs)
    refuse_agents(call)
    looked = await look(call, runs, book, part.ids)
    part = await _as_shown(call, runs, looked, part)
    some = await chosen(looked, part, book, str(call.grant.root))
    if not preview and not insist:
        names = {run for _, hunks in some for hunk in hunks for run in hunk.runs}
        subjects = {row.subject for name in names if (row := looked.rows.get(name)) is not None}
        wait_s = call.limits.review_wait_seconds_max
        await refuse_at_work(runs, subjects, str(call.grant.root), wait_s)
    some = await _with_directories(looked, some)
    planned = PlannedReturn()
    for review, hunks in some:
        ids = {each.id for each in hunks}
        await worked_out(review.size, review.take_back, planned, ids, looked.contents)
    planned.settle()
    verdicts = [each for review, hunks in some for each in _verdicts(review, hunks, accepted=False)]
    notes = _notes(call, looked, some, note)
    left = looked.left
    proposal = await bring(call, ignores, planned, preview, planned.anew)

    def spoken(done: UndoResult) -> ReviewSpoken:
        took = [] if done.conflicts else [each.hunk for each in verdicts]
        result = ReviewResult(
            rejected=took, undone=done.undone, conflicts=done.conflicts,
            left=left if preview else left - len(took), preview=preview,
            request_id=call.request_id,
        )  # fmt: skip
        said = ReviewVerdicts(
            root=str(call.grant.root), by=str(call.grant.subject), request_id=call.request_id,
            verdicts=verdicts, notes=notes, note=note, branch=call.grant.root.branch,
        )  # fmt: skip
        return ReviewSpoken(result, None if preview or not took else said)

    return then(proposal, spoken)


async def _with_directories(looked: ReviewLook, some: Chosen) -> Chosen:
    """What is chosen, with the directories that went and that some of it is to lie in again."""
    homes = [home for review, _ in some if (home := review.home) is not None]
    needed = {above for home in homes for above in home.parents}
    needed -= {review.place for review, _ in some}
    around = []
    for queued in looked.queued:
        review = await looked.review(queued) if queued.path in needed else None
        if review is not None and review.is_lost_directory:
            around.append((review, review.hunks()))
    return [*some, *around]


async def refuse_at_work(
    runs: RunBook, subjects: Collection[str], root: str, wait_s: float
) -> None:
    """Raises `Busy` where one of some agents is in the middle of something, for so long."""
    busy = await runs.at_work(root, subjects, wait_s)
    if busy:
        raise Busy(
            f"{min(busy)} is in the middle of a call or a command",
            hint="reject it when that is over, or insist",
            details={"at_work": sorted(busy)},
        )


def then(proposal: Proposal[Any], answer: Callable[[Any], Result]) -> Proposal[Result]:
    """A proposal that answers something else, made from what it would have answered."""
    result, foretold = proposal.result, proposal.foretold
    return Proposal(
        proposal.act, lambda done: answer(result(done)), agreement=proposal.agreement,
        cost=proposal.cost, last_look=proposal.last_look, touches=proposal.touches,
        foretold=None if foretold is None else lambda: answer(foretold()),
    )  # fmt: skip


def _notes(
    call: Call, looked: ReviewLook, some: Chosen, note: str
) -> list[tuple[NoteHolder, ReviewNote]]:
    """What each agent is told of what it did: nothing of what others did."""
    notes = []
    for review, hunks in some:
        for hunk in hunks:
            for run in hunk.runs:
                row = looked.rows.get(run)
                if row is None:
                    continue
                lines = review.lines_of(hunk, run)[: call.limits.review_note_lines_max]
                told = ReviewNote(
                    path=review.place, lines=lines, note=note, run=run,
                    by=str(call.grant.subject), time_ns=0,
                )  # fmt: skip
                notes.append((NoteHolder(row.subject, row.via), told))
    return notes
