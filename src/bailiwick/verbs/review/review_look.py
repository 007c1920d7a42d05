"""A look at a queue: what is left of each path, without its lines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from bailiwick.call import Call
from bailiwick.errors import PathNotFound, Unsupported
from bailiwick.grant import subject_stands_above
from bailiwick.operations import READ
from bailiwick.paths import ScopedPath
from bailiwick.policy import permits
from bailiwick.reviews import (
    QueuedPath,
    QueueShelf,
    ReviewBook,
    ReviewVerdicts,
    SettledVersion,
)
from bailiwick.runs import RunBook, RunRow
from bailiwick.verbs.review.names import given_names
from bailiwick.verbs.review.path_reviews import (
    HunksAsked,
    PathReview,
    RunOf,
    is_agents,
    path_review,
)
from bailiwick.verbs.review.queued_paths import KeyMaker, queued_path, standing, stands_as
from bailiwick.verbs.runs.carried_things import CarriedThings
from bailiwick.verbs.runs.path_stories import Stories
from bailiwick.verbs.runs.scanned_versions import ScannedVersions, one_of
from bailiwick.verbs.runs.story_contents import StoryContent, is_left_by
from bailiwick.verbs.text_work import worked_out
from bailiwick.versions import TellsBeneath, Version, counts_apart, past

_AT_A_TIME: Final = 100
"""Paths that were worked out before, after which others have their turn: about a millisecond."""

_LOOKS_MAX: Final = 20
"""So often what stands somewhere may be another by the time its versions are known."""


class ReviewLook(NamedTuple):
    """What is left of each path, by place, and of whom; up to which version was looked, and whether
    that is all that there is."""

    queued: list[QueuedPath]
    rows: dict[str, RunRow]
    newest: SettledVersion | None
    truncated: bool
    partial: bool
    contents: Mapping[str, bytes]
    review: Callable[[QueuedPath], Awaitable[PathReview | None]]

    @property
    def left(self) -> int:
        return sum(len(each.hunks) for each in self.queued)


async def look(
    call: Call,
    runs: RunBook,
    book: ReviewBook,
    ids: Collection[str] = (),
    *,
    goes_on: bool = False,
) -> ReviewLook:
    """Look at everything that agents touched and that is not settled; with all that is needed to
    know what is meant by ``ids``. Who ``goes_on`` with the next page has what was worked out for
    the one before, where nothing was changed through Bailiwick since: it costs no look at each
    place, and what is on the page is told by what stands there."""
    looking = past(call.store)
    if not isinstance(looking, TellsBeneath):
        raise Unsupported("this root does not tell what happened in it")
    root = str(call.grant.root)
    rows = {each.id: each for each in await runs.rows(root)}
    is_one = not counts_apart(looking)
    # Where several trees count by the same numbers nothing is known again by them.
    shelf = QueueShelf()
    if is_one:
        shelf = book.queues.setdefault((root, call.grant.root.branch), shelf)
    # What is over by now is all in what is looked at from here on.
    announced = book.announced(root, call.grant.root.branch)
    candidates = await _candidates(
        call, looking, shelf, book.settled_through(root) if is_one else None
    )
    run_of = await _run_of(runs, rows.values()) if candidates.versions else (lambda _: None)
    work = _Looking(call, book, candidates, run_of, ids)
    found = await work.found(shelf, is_one, goes_on=goes_on)
    if not candidates.truncated and not candidates.partial:
        for said in announced:
            await book.make_up_for(_come_to_pass(said, found, candidates.scanned))
    return ReviewLook(
        found, rows, candidates.newest if is_one else None, candidates.truncated,
        candidates.partial, work.telling.contents, partial(work.told_again, shelf),
    )  # fmt: skip


class _Looking:
    """Works out what is left of each path, where nobody has yet."""

    def __init__(
        self,
        call: Call,
        book: ReviewBook,
        candidates: _Candidates,
        run_of: RunOf,
        ids: Collection[str],
    ) -> None:
        self._call = call
        self._book = book
        self._root = str(call.grant.root)
        self._candidates = candidates
        self._run_of = run_of
        self._asked = HunksAsked.by(given_names(ids)) if ids else HunksAsked()
        self._said = book.said_last(self._root)
        self.telling = Stories(call, is_agents)
        touched = candidates.versions
        self._carried = CarriedThings(
            self.telling, [each for several in touched for each in several]
        )
        self._scanned: ScannedVersions | None = None

    async def found(self, shelf: QueueShelf, is_one: bool, *, goes_on: bool) -> list[QueuedPath]:
        """All of which anything is left, by place."""
        covered: set[object] = set()
        found: list[QueuedPath] = []
        scanned = self._candidates.scanned
        keys = KeyMaker(scanned, self._candidates.settled, self._run_of, self._said)
        is_whole = is_one and not self._candidates.truncated and not self._candidates.partial
        for number, candidate in enumerate(self._candidates.versions, 1):
            if all(one_of(each) in covered for each in candidate):
                continue
            path, key = candidate[0].path, keys.key(candidate)
            queued = shelf.find(path, key)
            if queued is None or not (goes_on or queued.stands == await self._standing(path)):
                queued = await self._worked_out(candidate, is_whole)
                shelf.keep(path, key, queued)
                self.telling.contents.clear()  # who wants the lines is told them again
                await asyncio.sleep(0)  # a look at thousands of paths leaves others their turn
            covered.update(map(one_of, queued.versions))
            if queued.hunks:
                found.append(queued)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        found.sort(key=lambda each: each.path.order)
        return found

    async def _worked_out(self, candidate: Sequence[Version], is_whole: bool) -> QueuedPath:
        path = candidate[0].path
        if is_whole and self._all_scanned.is_plain(path):
            scanned = self._all_scanned.versions[path][::-1]
            now = await self.telling.now(path)
            if is_left_by(scanned[-1], now):
                review = await self._told(path, scanned, now)
                stands = "" if self.telling.knows_all else stands_as(now)
                return await _queued(review, path, scanned, stands)
        stands = await self._standing(path)
        known = self._all_scanned.versions[path]
        place, found = await self._carried.found(candidate, known)
        now, versions = await self._now(place, found)
        return await _queued(await self._told(place, versions, now), place, versions, stands)

    async def _now(
        self, place: ScopedPath, versions: Sequence[Version]
    ) -> tuple[StoryContent | None, Sequence[Version]]:
        """What stands at a place, and its versions with those that came since: what an agent has
        just written would be a person's, who leaves none. Of what is changed all the time it is
        told how it stood a moment ago."""
        for _ in range(_LOOKS_MAX):
            now = await self.telling.now(place)
            if place.is_root or not versions or is_left_by(versions[-1], now):
                return now, versions
            newest = await self.telling.versions(place)
            if not newest or int(newest[-1].version) <= int(versions[-1].version):
                return now, versions
            versions = newest
        return await self.telling.stood(versions[-1]), versions

    async def _standing(self, path: ScopedPath) -> str:
        """What stands at a place, where its versions do not say that."""
        return "" if self.telling.knows_all else await standing(self._call.store, path)

    @property
    def _all_scanned(self) -> ScannedVersions:
        if self._scanned is None:
            self._scanned = ScannedVersions(others=not self.telling.knows_all)
            for each in self._candidates.scanned:
                self._scanned.add(each)
        return self._scanned

    async def told_again(self, shelf: QueueShelf, queued: QueuedPath) -> PathReview | None:
        """What is left of a path, with its lines."""
        now, versions = await self._now(queued.path, queued.versions)
        try:
            return await self._told(queued.path, versions, now)
        except PathNotFound:  # old versions are not kept for ever
            shelf.forget()
            return await self._told(queued.path, await self.telling.versions(queued.path), now)

    async def _told(
        self, place: ScopedPath, versions: Sequence[Version], now: StoryContent | None
    ) -> PathReview | None:
        said = [
            verdict
            for path in dict.fromkeys(str(each.path) for each in versions)
            if path in self._said
            for verdict in self._book.verdicts(self._root, path)
        ]
        settled = self._candidates.settled
        return await path_review(
            self.telling, versions, self._run_of, said, settled, place, now, self._asked
        )


async def _queued(
    review: PathReview | None, place: ScopedPath, versions: Sequence[Version], stands: str
) -> QueuedPath:
    size = 0 if review is None else review.size
    return await worked_out(size, queued_path, review, place, versions, stands)


class _Candidates(NamedTuple):
    """The versions of each path that agents touched since, and of each that was moved, newest first
    from what is so, out of all that were ``scanned``; the newest of all; since which version;
    whether there are more; and whether the caller may not see some."""

    versions: list[list[Version]]
    scanned: Sequence[Version]
    newest: SettledVersion | None
    settled: int
    truncated: bool
    partial: bool


async def _candidates(
    call: Call, looking: TellsBeneath, shelf: QueueShelf, settled: SettledVersion | None
) -> _Candidates:
    def is_settled(version: Version) -> bool:
        return SettledVersion(int(version.version), version.time_ns) == settled

    ends = await shelf.catch_up(looking, is_settled, call.limits.run_paths_max)
    versions = shelf.versions
    since = settled.version if ends and settled is not None else 0
    found: dict[ScopedPath, list[Version]] = {}
    newest = SettledVersion(int(versions[0].version), versions[0].time_ns) if versions else None
    unseen = False
    for each in versions:
        if each.path in found:
            found[each.path].append(each)
        elif is_agents(each) or each.kind == "moved":
            if not permits(call.decide(each.path, READ.ruled)):
                unseen = True
            elif len(found) >= call.limits.run_paths_max:
                return _Candidates(list(found.values()), versions, newest, 0, True, unseen)
            else:
                found[each.path] = [each]
    return _Candidates(
        list(found.values()), versions, newest or settled, since, shelf.is_cut, unseen
    )


def _come_to_pass(
    said: ReviewVerdicts, queued: Sequence[QueuedPath], versions: Sequence[Version]
) -> ReviewVerdicts:
    """What was taken back of what somebody was about to: it is not left any more, and they have
    changed something."""
    mark = said.by, said.request_id
    left = {id: each.path for each in queued for id, _ in each.hunks}
    if not any((each.subject, each.request_id) == mark for each in versions):
        return msgspec.structs.replace(said, verdicts=[], notes=[])
    stands = {left[each.hunk] for each in said.verdicts if each.hunk in left}
    return msgspec.structs.replace(
        said,
        verdicts=[each for each in said.verdicts if each.hunk not in left],
        notes=[(whose, note) for whose, note in said.notes if note.path not in stands],
    )


async def _run_of(runs: RunBook, rows: Collection[RunRow]) -> RunOf:
    known: dict[tuple[str, str], str] = {}
    for row in rows:
        if not subject_stands_above(row.subject):
            for request in await runs.requests(row):
                known[row.subject, request] = row.id

    def run_of(version: Version) -> str | None:
        return known.get((version.subject, version.request_id), "") if is_agents(version) else None

    return run_of
