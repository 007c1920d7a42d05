"""The queue of a root: every hunk of an agent that nobody has agreed to; and verdicts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from bailiwick.approvals import Preview
from bailiwick.call import Call
from bailiwick.errors import Busy, MissingAccess, ParseError, PathNotFound, Unsupported
from bailiwick.grant import subject_stands_above
from bailiwick.operations import READ
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import permits
from bailiwick.proposal import Proposal, Shown
from bailiwick.reviews import (
    HunkVerdict,
    NoteHolder,
    ReviewBook,
    ReviewFile,
    ReviewNote,
    ReviewQueue,
    ReviewResult,
    ReviewVerdicts,
    SettledVersion,
)
from bailiwick.runs import RunBook, RunRow, found_run
from bailiwick.verbs.review.names import PREFIX_MIN, HunkName, given_names
from bailiwick.verbs.review.path_reviews import (
    HunksAsked,
    LeftHunk,
    PathReview,
    RunOf,
    is_agents,
    path_review,
)
from bailiwick.verbs.runs.path_stories import Stories
from bailiwick.verbs.runs.taking_back import PlannedReturn, bring
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.path_pages import path_page
from bailiwick.versions import TellsBeneath, UndoResult, Version, counts_apart, past

Result = TypeVar("Result")

_PAGE: Final = 500


class ReviewPart(NamedTuple):
    """What is meant: hunks or runs by their ids (or beginnings of them), or a file of a run as
    ``RUN:PATH``; of that, only what is of a run, and what lies in some paths."""

    ids: tuple[str, ...] = ()
    run: str | None = None
    paths: tuple[ScopedPath, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not self.ids and self.run is None and not self.paths


class ReviewLook(NamedTuple):
    """What is left of each path, and of whom; up to which version was looked, and whether that is
    all that there is."""

    reviews: list[PathReview]
    rows: dict[str, RunRow]
    newest: SettledVersion | None
    truncated: bool
    partial: bool
    contents: Mapping[str, bytes]

    @property
    def left(self) -> int:
        return sum(len(each.hunks()) for each in self.reviews)


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


async def look(
    call: Call, runs: RunBook, book: ReviewBook, ids: Collection[str] = ()
) -> ReviewLook:
    """Look at everything that agents touched and that is not settled; with all that is needed to
    know what is meant by ``ids``."""
    asked = HunksAsked.by(given_names(ids)) if ids else HunksAsked()
    looking = past(call.store)
    if not isinstance(looking, TellsBeneath):
        raise Unsupported("this root does not tell what happened in it")
    root = str(call.grant.root)
    rows = {each.id: each for each in await runs.rows(root)}
    is_one = not counts_apart(looking)
    found_all = await _candidates(call, looking, book.settled_through(root) if is_one else None)
    candidates, newest, settled, truncated, partial = found_all
    newest = newest if is_one else None
    run_of = await _run_of(runs, rows.values()) if candidates else (lambda _: None)
    telling = Stories(call, is_agents)
    covered: set[tuple[str, ScopedPath]] = set()
    found: list[PathReview] = []
    carried = _Carried(telling, [each for several in candidates for each in several])
    for candidate in candidates:
        if all((each.version, each.path) in covered for each in candidate):
            continue
        place, versions = await carried.found(candidate)
        covered |= {(each.version, each.path) for each in versions}
        said = [
            verdict
            for path in dict.fromkeys(each.path for each in versions)
            for verdict in book.verdicts(root, str(path))
        ]
        review = await path_review(telling, versions, run_of, said, settled, place, asked)
        if review is not None and review.hunks():
            found.append(review)
        await asyncio.sleep(0)  # a look at thousands of paths leaves others their turn
    found.sort(key=lambda each: each.place.order)
    return ReviewLook(found, rows, newest, truncated, partial, telling.contents)


class _Carried:
    """Finds what was carried elsewhere with a directory above it, or went with one."""

    def __init__(self, telling: Stories, versions: Sequence[Version]) -> None:
        self._telling = telling
        self._moves = [
            each for each in versions if each.kind == "moved" and each.type == "directory"
        ]

    async def found(self, touched: Sequence[Version]) -> tuple[ScopedPath, list[Version]]:
        """Where something lies now, and all its versions, oldest first: told by some of them,
        newest first. What lies nowhere any more has those."""
        newest = touched[0]
        above = newest.path.parts
        for move in self._moves:
            if int(move.version) < int(newest.version):
                continue
            for depth in range(1, len(above)):
                place = ScopedPath("/".join((*move.path.parts, *above[depth:])))
                versions = await self._telling.versions(place)
                if any(_is(each, newest) for each in versions):
                    return place, versions
        here = await self._telling.versions(newest.path)
        if newest.path.is_root:  # what changed too much to be told by path is no version of its own
            every = {int(each.version): each for each in (*touched, *here)}
            return newest.path, [every[number] for number in sorted(every)]
        return newest.path, here or list(reversed(touched))


def _is(one: Version, other: Version) -> bool:
    return (one.version, one.path) == (other.version, other.path)


class _Candidates(NamedTuple):
    """The versions of each path that agents touched since, and of each that was moved, newest first
    from what is so; the newest of all; since which version; whether there are more; and whether the
    caller may not see some."""

    versions: list[list[Version]]
    newest: SettledVersion | None
    settled: int
    truncated: bool
    partial: bool


async def _candidates(
    call: Call, looking: TellsBeneath, settled: SettledVersion | None
) -> _Candidates:
    found: dict[ScopedPath, list[Version]] = {}
    newest: SettledVersion | None = None
    partial = False
    cursor: str | None = None
    while True:
        page = await looking.beneath(ROOT, cursor=cursor, limit=_PAGE)
        for each in page.versions:
            here = SettledVersion(int(each.version), each.time_ns)
            newest = newest or here
            if settled is not None and here.version <= settled.version:
                if here == settled:
                    return _Candidates(
                        list(found.values()), newest, settled.version, False, partial
                    )
                settled = None  # of another tree
            if each.path in found:
                found[each.path].append(each)
                continue
            if not (is_agents(each) or each.kind == "moved"):
                continue
            if not permits(call.decide(each.path, READ.ruled)):
                partial = True
                continue
            if len(found) >= call.limits.run_paths_max:
                return _Candidates(list(found.values()), newest, 0, True, partial)
            found[each.path] = [each]
        cursor = page.next_cursor
        if cursor is None:
            return _Candidates(list(found.values()), newest, 0, False, partial)


async def _run_of(runs: RunBook, rows: Collection[RunRow]) -> RunOf:
    known: dict[tuple[str, str], str] = {}
    for row in rows:
        if not subject_stands_above(row.subject):
            for request in await runs.requests(row):
                known[row.subject, request] = row.id

    def run_of(version: Version) -> str | None:
        return known.get((version.subject, version.request_id), "") if is_agents(version) else None

    return run_of


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


def chosen(looked: ReviewLook, part: ReviewPart, book: ReviewBook, root: str) -> Chosen:
    """What of the queue is meant. Raises `PathNotFound` for what is not in it, `ParseError` for the
    beginning of several ids."""
    run = None if part.run is None else found_run(list(looked.rows.values()), part.run).id
    given = given_names(part.ids)
    meant: dict[str, set[str]] = {}
    found: Chosen = []
    for review in looked.reviews:
        if part.paths and not any(_lies_in(review, each) for each in part.paths):
            continue
        some = []
        for hunk in review.hunks():
            if run is not None and run not in hunk.runs:
                continue
            names = [each for each in given if _means(each, review, hunk)]
            for name in names:
                meant.setdefault(name.text, set()).update(_whole_names(name, hunk))
            if names or not part.ids:
                some.append(hunk)
        if some:
            _refuse_unclear(review, some, given)
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
        raise PathNotFound(
            f"nothing that is left to review is called {min(unmet)[:80]!r}",
            hint="a hunk that was changed again has another id",
        )
    return found


def _refuse_unclear(
    review: PathReview, some: Sequence[LeftHunk], names: Sequence[HunkName]
) -> None:
    """An id says nothing of the place: where that is not clear it has to be said what was seen."""
    chosen = {each.id for each in some}
    for hunk in some:
        by_id = any(each.version is None and each.begins(hunk.id) for each in names)
        if by_id and review.is_unclear(hunk, chosen):
            raise ParseError(
                "this change was made in several places of the file", path=review.place,
                hint=f"say which one you saw: {hunk.id[:8]}…@VERSION, as the queue shows it",
            )  # fmt: skip


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


def _lies_in(review: PathReview, path: ScopedPath) -> bool:
    return review.place.lies_in(path)


# --- verbs -------------------------------------------------------------------------------------


async def queue(
    call: Call, runs: RunBook | None, part: ReviewPart, cursor: str | None, limit: int | None
) -> ReviewQueue:
    runs, book = required(runs)
    refuse_agents(call)
    looked = await look(call, runs, book, part.ids)
    some = chosen(looked, part, book, str(call.grant.root))
    files: list[ReviewFile] = []
    for review, hunks in some:
        file = review.shown(looked.rows)
        assert file is not None, "what is chosen is left"
        files.append(_only(file, {each.id for each in hunks}))
    return page_of(call, files, cursor, limit, looked.truncated)


def page_of(
    call: Call, files: Sequence[ReviewFile], cursor: str | None, limit: int | None, truncated: bool
) -> ReviewQueue:
    """Some of a queue, which is sorted by path."""
    page = path_page(cursor, call.limits.history_default if limit is None else limit)
    some, following = page.of(files, call.grant.base)
    return ReviewQueue(
        files=list(some), left=sum(len(each.hunks) for each in files), next_cursor=following,
        truncated=truncated, request_id=call.request_id,
    )  # fmt: skip


def _only(file: ReviewFile, ids: Collection[str]) -> ReviewFile:
    hunks = [each for each in file.hunks if each.id in ids]
    return msgspec.structs.replace(
        file, hunks=hunks,
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
    root, before = str(call.grant.root), looked.left
    verdicts: list[HunkVerdict] = []
    for review, hunks in chosen(looked, part, book, root):
        ids = [each.id for each in hunks]
        settles = len(ids) == len(review.hunks())
        verdicts += _verdicts(review, hunks, accepted=True, settles=settles)
        review.say(ids, accepted=True)
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
    some = chosen(looked, part, book, str(call.grant.root))
    if not preview and not insist:
        names = {run for _, hunks in some for hunk in hunks for run in hunk.runs}
        subjects = {row.subject for name in names if (row := looked.rows.get(name)) is not None}
        wait_s = call.limits.review_wait_seconds_max
        await refuse_at_work(runs, subjects, str(call.grant.root), wait_s)
    planned = PlannedReturn([], {}, [])
    for review, hunks in some:
        review.take_back(planned, {each.id for each in hunks}, looked.contents)
    planned.altered.sort(key=lambda each: each.path.order)
    verdicts = [each for review, hunks in some for each in _verdicts(review, hunks, accepted=False)]
    notes = _notes(call, looked, some, note)
    left = looked.left
    proposal = await bring(call, ignores, planned, preview)

    def spoken(done: UndoResult) -> ReviewSpoken:
        took = [] if done.conflicts else [each.hunk for each in verdicts]
        result = ReviewResult(
            rejected=took, undone=done.undone, conflicts=done.conflicts,
            left=left if preview else left - len(took), preview=preview,
            request_id=call.request_id,
        )  # fmt: skip
        said = ReviewVerdicts(
            root=str(call.grant.root), by=str(call.grant.subject), request_id=call.request_id,
            verdicts=verdicts, notes=notes, note=note,
        )  # fmt: skip
        return ReviewSpoken(result, None if preview or not took else said)

    result = proposal.result
    return then(proposal, lambda done: spoken(result(done)))


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


def then(proposal: Proposal[Any], result: Callable[[Any], Result]) -> Proposal[Result]:
    """A proposal that answers something else."""
    return Proposal(
        proposal.act, result, agreement=proposal.agreement,
        cost=proposal.cost, last_look=proposal.last_look, touches=proposal.touches,
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
