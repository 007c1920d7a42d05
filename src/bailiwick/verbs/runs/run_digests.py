"""What a run came to, path by path and without its lines: enough to count it and to find in it.

It is worked out once and kept with the moment of the tree up to which it goes. Whoever looks later
takes up what was changed since, and works out anew only what that touched. What a caller may see of
it is asked each time: what is kept is the same for all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bailiwick.call import Call
from bailiwick.errors import PathNotFound, Unsupported
from bailiwick.operations import READ
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import permits
from bailiwick.runs import PathDigest, RunBook, RunDigest, RunRow, TreeMoment
from bailiwick.text.weave import lines_of
from bailiwick.verbs.runs.carried_things import CarriedThings
from bailiwick.verbs.runs.displaced_things import IsOurs
from bailiwick.verbs.runs.path_stories import (
    OURS,
    PathStory,
    Stories,
    change_of,
    hunk_id,
    is_unlisted,
    ours_by,
)
from bailiwick.verbs.runs.scanned_versions import ScannedVersions, one_of
from bailiwick.verbs.text_work import worked_out
from bailiwick.versions import TellsBeneath, Version, past

_PAGE: Final = 500
_FIRST_PAGE: Final = 20
"""Mostly nothing was changed since, which the first few versions tell."""

_SLACK_NS: Final = 60 * 1_000_000_000
"""A version is stamped before its record is: as long as a change may take, or nearly so."""

_VERSION_DIGITS: Final = 32
"""128 bits: nobody finds two states that are called alike."""

_AT_A_TIME: Final = 25
"""Paths after which others have their turn: some milliseconds of work."""


async def digest_of(call: Call, book: RunBook, row: RunRow, step: str | None = None) -> RunDigest:
    """What a run, or one step of it, came to."""
    requests = await book.requests(row)
    if step is not None and step not in requests.values():
        raise PathNotFound(
            f"the run has no step {step[:80]!r} that changed anything",
            hint="`bailiwick runs show` tells the steps of a run",
        )
    looking = past(call.store)
    if not isinstance(looking, TellsBeneath):
        raise Unsupported("this root does not tell what happened in it")
    if not requests:
        # Most of what agents do is to look: nothing in the tree can be of such a run.
        return RunDigest({}, None, frozenset(), row.seen_ns, truncated=False, tangled=False)
    work = _Digesting(call, looking, row, requests, step)
    if step is not None:
        return await work.whole()
    branch = call.grant.root.branch
    async with book.digests.turn(row.id, branch):
        kept = book.digests.find(row.id, branch)
        digest = None if kept is None else await work.caught_up(kept)
        digest = digest or await work.whole()
        if digest is not kept:
            book.digests.keep(row.id, branch, digest, call.limits.run_digests_max)
        return digest


def _every(_: PathDigest) -> bool:
    return True


def visible(
    call: Call, digest: RunDigest, is_meant: Callable[[PathDigest], bool] = _every
) -> list[PathDigest]:
    """What of it the caller may see, by path: of what is meant, and nothing is asked of what is
    not."""
    seen = [
        each
        for each in digest.paths.values()
        if is_meant(each) and all(permits(call.decide(place, READ.ruled)) for place in each.places)
    ]
    return sorted(seen, key=lambda each: each.path.order)


def version_of(found: Sequence[PathDigest]) -> str:
    """Says what a run came to, as far as somebody sees it: another one where anybody has changed
    any of its paths since."""
    seen = hashlib.sha256()
    for each in found:
        for part in (str(each.path), each.version, *each.hunks):
            seen.update(f"{len(part)} {part}".encode("utf-8", "surrogateescape"))
    return seen.hexdigest()[:_VERSION_DIGITS]


class _Digesting:
    def __init__(
        self,
        call: Call,
        looking: TellsBeneath,
        row: RunRow,
        requests: Mapping[str, str | None],
        step: str | None,
    ) -> None:
        self._call = call
        self._looking = looking
        self._row = row
        self._requests = frozenset(requests)
        self._is_ours: IsOurs = ours_by(requests, row.subject, step)
        self._telling = Stories(call, self._is_ours)
        self._told = 0

    async def whole(self) -> RunDigest:
        """All of it, from the versions since the run began."""
        scanned = await self._scanned(None, self._row.begun_ns - _SLACK_NS)
        assert scanned is not None, "nothing is looked for that may be missing"
        ours = self._ours(scanned)
        most = self._call.limits.run_paths_max
        paths = await self._worked_out(ours[:most], scanned, {})
        unlisted = any(
            is_unlisted(each) and self._is_ours(each) for each in scanned.versions.get(ROOT, ())
        )
        return self._digest(paths, scanned, unlisted or len(ours) > most, scanned.moved)

    def _ours(self, scanned: ScannedVersions) -> list[ScopedPath]:
        """The paths that the run touched, and those that files were moved to, by whomever, which
        may be its files; what was touched or moved last first."""
        last: dict[ScopedPath, int] = {}
        for path, several in scanned.versions.items():
            newest = next(
                (each for each in several if self._is_ours(each) or _is_file_moved(each)), None
            )
            if newest is not None:
                last[path] = int(newest.version)
        return sorted(last, key=last.__getitem__, reverse=True)

    async def caught_up(self, kept: RunDigest) -> RunDigest | None:
        """What was worked out, and what was changed since; None where that is not enough to go
        on from."""
        if kept.truncated:
            return None
        late = self._requests - kept.requests
        since_ns = kept.seen_ns - _SLACK_NS if late else None
        scanned = await self._scanned(kept, since_ns, late)
        if scanned is None or scanned.carried or scanned.moved or scanned.cleared:
            return None
        touched = [
            path
            for path, several in scanned.versions.items()
            if path in kept.paths or any(map(self._is_ours, several))
        ]
        if not touched and scanned.newest == kept.through and not late:
            return kept
        if kept.tangled and touched:
            return None
        left = {path: each for path, each in kept.paths.items() if path not in set(touched)}
        if len(left) + len(touched) > self._call.limits.run_paths_max:
            return None
        paths = await self._worked_out(touched, scanned, kept.paths)
        return self._digest({**left, **paths}, scanned, False, kept.tangled)

    def _digest(
        self,
        paths: dict[ScopedPath, PathDigest],
        scanned: ScannedVersions,
        truncated: bool,
        tangled: bool,
    ) -> RunDigest:
        return RunDigest(
            paths, scanned.newest, self._requests, self._row.seen_ns, truncated, tangled
        )

    async def _scanned(
        self,
        kept: RunDigest | None,
        since_ns: int | None,
        late: frozenset[str] = frozenset(),
    ) -> ScannedVersions | None:
        """Everything that happened since something was kept, and what ``late`` requests did since a
        time, which were not on record then; None where what was kept is of another tree."""
        scanned = ScannedVersions(others=not self._telling.knows_all)
        through = None if kept is None else kept.through
        met = through is None
        cursor: str | None = None
        while True:
            limit = _FIRST_PAGE if kept is not None and cursor is None else _PAGE
            page = await self._looking.beneath(ROOT, cursor=cursor, limit=limit)
            for each in page.versions:
                moment = TreeMoment(int(each.version), each.time_ns)
                scanned.newest = scanned.newest or moment
                if through is not None and not met and moment.version <= through.version:
                    met = moment == through
                    if not met:
                        return None
                is_old = since_ns is None or (each.time_ns is not None and each.time_ns < since_ns)
                if met and is_old:
                    return scanned
                if met and through is not None:
                    if each.request_id not in late:
                        continue
                    scanned.partial.add(each.path)
                scanned.add(each)
            cursor = page.next_cursor
            if cursor is None:
                return scanned if met else None
            await asyncio.sleep(0)

    async def _worked_out(
        self,
        paths: Sequence[ScopedPath],
        scanned: ScannedVersions,
        known: Mapping[ScopedPath, PathDigest],
    ) -> dict[ScopedPath, PathDigest]:
        """Those that cannot be told by what was scanned come first: what was moved brings versions
        of other paths along, and those are told with it."""
        former = {place for each in known.values() for place in each.places}
        every = (each for several in scanned.versions.values() for each in several)
        carried = CarriedThings(self._telling, every)
        plain = {path for path in paths if scanned.is_plain(path)}
        covered: set[object] = set()
        found: dict[ScopedPath, PathDigest] = {}
        for path in sorted(dict.fromkeys(paths), key=plain.__contains__):
            versions = scanned.versions[path]
            ours = [each for each in versions if self._is_ours(each)]
            is_covered = all(one_of(each) in covered for each in ours or versions)
            # Of what is told elsewhere by now, something else may have gone when it came here.
            has_left = path not in found and any(each.kind == "moved" for each in ours)
            if is_covered and not has_left:
                continue
            if path in plain and path not in former:
                story = await self._telling.by(path, versions[::-1])
            else:
                place, versions = await carried.at(versions[0])
                went = versions[-1] if versions and versions[-1].kind == "deleted" else None
                if is_covered and (went is None or one_of(went) in covered):
                    continue
                story = await self._telling.by(place, versions)
                covered.update(map(one_of, versions))
                former |= {each.path for each in versions}
            if story is not None:
                digest = await worked_out(story.size, _digested, self._row.id, story)
                found[story.path] = digest
            await self._give_turn()
        return found

    async def _give_turn(self) -> None:
        self._told += 1
        self._telling.contents.clear()  # of this path only: they are not looked at again
        if self._told % _AT_A_TIME == 0:
            await asyncio.sleep(0)


def _is_file_moved(version: Version) -> bool:
    return version.kind == "moved" and version.type != "directory"


def _digested(run: str, story: PathStory) -> PathDigest:
    after = story.after
    stood = (story.path, story.was_at, after and after.path)
    places = tuple(dict.fromkeys(place for place in stood if place is not None))
    if story.before is None and after is not None and after.data and _is_ours_alone(story):
        # A text that was made: as `change_of` tells it, without weaving it.
        text = after.data.decode("latin-1")
        id = hunk_id(run, story.path, "", text)
        added = len(lines_of(after.data))
        return PathDigest(
            story.path, story.type, "created", None, places, added, 0, (id,), story.version
        )
    change = change_of(run, story)
    if change is None:
        return PathDigest(story.path, story.type, None, None, places, 0, 0, (), story.version)
    hunks = tuple(each.id for each in change.hunks)
    return PathDigest(
        story.path, story.type, change.kind, change.origin, places, change.added, change.removed,
        hunks, story.version, change.replaces,
    )  # fmt: skip


def _is_ours_alone(story: PathStory) -> bool:
    return story.is_text and all(each.by == OURS for each in story.during)
