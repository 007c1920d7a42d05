"""Runs: which there are, what each changed, and taking that back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from bailiwick.call import Call
from bailiwick.errors import MissingAccess, ParseError, PathNotFound, Unsupported
from bailiwick.grant import subject_stands_above
from bailiwick.paths import ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.reviews import ReviewBook
from bailiwick.runs import (
    Hunk,
    PathDigest,
    RunBook,
    RunChange,
    RunChanges,
    RunInfo,
    RunRow,
    RunsWanted,
    found_run,
    place_in,
)
from bailiwick.verbs.arguments import an_int
from bailiwick.verbs.bulk_changes import Work, look, propose, sorted_conflicts, touched_paths
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.review.names import PREFIX_MIN
from bailiwick.verbs.runs.path_stories import (
    PathStory,
    Stories,
    change_of,
    ours_by,
)
from bailiwick.verbs.runs.run_digests import digest_of, version_of, visible
from bailiwick.verbs.runs.taking_back import bring, plan_return
from bailiwick.verbs.text_work import worked_out
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.path_pages import PathPage
from bailiwick.version_acts import Undo
from bailiwick.versions import Done, Plan, Undoing, UndoResult, past


class RunPart(NamedTuple):
    """What of a run is meant: some paths with what lies beneath them, some hunks, one step; all of
    it where nothing is said."""

    paths: tuple[ScopedPath, ...] = ()
    hunks: frozenset[str] | None = None
    step: str | None = None

    @property
    def is_all(self) -> bool:
        return not self.paths and self.hunks is None and self.step is None

    def covers(self, digest: PathDigest) -> bool:
        """Whether a path, with all that the thing was called on its way, is of that part."""
        return not self.paths or any(
            place.lies_in(each) for place in digest.places for each in self.paths
        )

    def means(self, digest: PathDigest) -> bool:
        """Whether any of its hunks is meant."""
        return self.hunks is None or not self.hunks.isdisjoint(digest.hunks)


_AT_A_TIME: Final = 25
"""Paths after which others have their turn: some milliseconds of work."""


class RunTold(NamedTuple):
    """Some places that a run changed, what it made of each, and whether that is all of it."""

    stories: list[PathStory]
    changes: list[RunChange]
    truncated: bool
    contents: dict[str, bytes]


def required(book: RunBook | None) -> RunBook:
    if book is None:
        raise Unsupported("this root keeps no runs")
    return book


async def rows_for(call: Call, book: RunBook) -> list[RunRow]:
    """The runs that the caller may know of: their own, and to a person or the host all."""
    own = str(call.grant.subject)
    rows = await book.rows(str(call.grant.root))
    above = subject_stands_above(own)
    return [each for each in rows if each.is_agents and (above or each.subject == own)]


class RunsAsked(NamedTuple):
    """Which runs a caller asks for, as they were given."""

    since_ns: int | None
    limit: int | None
    cursor: str | None

    def wanted(self, call: Call) -> RunsWanted:
        """Raises `ParseError`."""
        limits, own = call.limits, str(call.grant.subject)
        since_ns, limit, cursor = self
        for name, value in (("since_ns", since_ns), ("limit", limit)):
            if value is not None:
                an_int(name, value)
        return RunsWanted(
            limit=page_size(limits.history_default if limit is None else limit, limits.history_max),
            subject=None if subject_stands_above(own) else own, since_ns=since_ns,
            after=place_in(cursor),
        )  # fmt: skip


async def listed(
    call: Call, book: RunBook, asked: RunsAsked, *, brief: bool
) -> tuple[list[RunInfo], str | None]:
    """Some runs, and where to go on."""
    rows, next_cursor = await book.listed(str(call.grant.root), asked.wanted(call))
    infos = [_on_record(book, each) if brief else await told(call, book, each) for each in rows]
    return infos, next_cursor


def _on_record(book: RunBook, row: RunRow) -> RunInfo:
    """What is known of a run without a look at what it changed."""
    return RunInfo(
        id=row.id, title=row.title, subject=row.subject, front=row.front, root=row.root,
        begun_ns=row.begun_ns, seen_ns=row.seen_ns, active=book.is_active(row), calls=row.calls,
        commands=row.commands, refusals=row.refusals, questions=row.questions,
        approved=row.approved, steps=row.steps,
    )  # fmt: skip


async def told(call: Call, book: RunBook, row: RunRow) -> RunInfo:
    """A run with what came of it."""
    info = _on_record(book, row)
    if "Remembers" not in call.store.powers:
        return info
    found = [each for each in visible(call, await digest_of(call, book, row)) if each.kind]
    files = [each.kind for each in found if each.type != "directory"]
    said = await _counted(call, book, row, found)
    return msgspec.structs.replace(
        info, created=files.count("created"), changed=files.count("updated"),
        moved=files.count("moved"), removed=files.count("deleted"),
        added=sum(each.added for each in found),
        removed_lines=sum(each.removed for each in found),
        hunks=sum(len(each.hunks) for each in found), reviewed=sum(said.values()),
        version=version_of(found),
    )  # fmt: skip


async def _told(
    call: Call,
    book: RunBook,
    row: RunRow,
    step: str | None,
    found: Sequence[PathDigest],
    truncated: bool,
) -> RunTold:
    """Some of what a run changed, with its lines."""
    telling = Stories(call, ours_by(await book.requests(row), row.subject, step))
    stories: list[PathStory] = []
    changes: list[RunChange] = []
    for number, each in enumerate(found, 1):
        story, _ = await telling.of(each.path)
        if story is not None:
            stories.append(story)
            change = await worked_out(story.size, change_of, row.id, story)
            changes += [] if change is None else [change]
        if number % _AT_A_TIME == 0:
            await asyncio.sleep(0)
    if book.reviews is not None:
        changes = _with_verdicts(changes, book.reviews, row.root)
    return RunTold(stories, changes, truncated, telling.contents)


async def _counted(
    call: Call, book: RunBook, row: RunRow, found: Sequence[PathDigest], step: str | None = None
) -> dict[ScopedPath, int]:
    """How many hunks of each path people said something of."""
    if book.reviews is None:
        return {}
    said = book.reviews.said(row.root, [hunk for each in found for hunk in each.hunks])
    counted = {each.path: sum(hunk in said for hunk in each.hunks) for each in found}
    # What was rejected may stand again: that is known by a look.
    rejected = [each for each in found if any(said.get(id) == "rejected" for id in each.hunks)]
    looked = await _told(call, book, row, step, rejected, False)
    return counted | {each.path: each.reviewed_count for each in looked.changes}


def _with_verdicts(changes: Sequence[RunChange], book: ReviewBook, root: str) -> list[RunChange]:
    """What people said of each hunk. What was rejected and stands again was done again since."""
    said = book.said(root, [hunk.id for each in changes for hunk in each.hunks])

    def seen(hunk: Hunk) -> Hunk:
        reviewed = said.get(hunk.id)
        if reviewed is None or (reviewed == "rejected" and hunk.state == "stands"):
            return hunk
        return msgspec.structs.replace(hunk, reviewed=reviewed)

    def judged(change: RunChange) -> RunChange:
        hunks = [seen(hunk) for hunk in change.hunks]
        count = sum(each.reviewed is not None for each in hunks)
        return msgspec.structs.replace(change, hunks=hunks, reviewed_count=count)

    return [judged(each) for each in changes] if said else list(changes)


async def changes(
    call: Call, book: RunBook, name: str, part: RunPart, page: PathPage, *, brief: bool
) -> RunChanges:
    """What a run changed; ``brief`` without its lines."""
    row = found_run(await rows_for(call, book), name)
    digest = await digest_of(call, book, row, part.step)
    found = [each for each in visible(call, digest, part.covers) if each.kind]
    some, following = page.of(found, call.grant.base)
    if brief:
        said = await _counted(call, book, row, some, part.step)
        told = [_brief(each, said.get(each.path, 0)) for each in some]
    else:
        told = (await _told(call, book, row, part.step, some, digest.truncated)).changes
    return RunChanges(
        run=row.id, changes=told, truncated=digest.truncated, request_id=call.request_id,
        next_cursor=following,
    )  # fmt: skip


def _brief(digest: PathDigest, reviewed: int) -> RunChange:
    assert digest.kind is not None, "something is different"
    return RunChange(
        path=digest.path, kind=digest.kind, type=digest.type, origin=digest.origin,
        added=digest.added, removed=digest.removed, hunk_count=len(digest.hunks),
        reviewed_count=reviewed, replaces=digest.replaces,
    )  # fmt: skip


# --- taking it back ----------------------------------------------------------------------------


async def undo(
    call: Call, ignores: Ignores, book: RunBook, name: str, part: RunPart, preview: bool
) -> Proposal[UndoResult]:
    """Take a run back, or a part of it, by what stands there now; nothing where anything of it was
    changed by others since."""
    row = found_run(await rows_for(call, book), name)
    own = str(call.grant.subject)
    if row.subject != own and not subject_stands_above(own):
        raise MissingAccess("only a person or the host undoes what another subject did")
    if part.is_all:
        whole = await _whole(call, ignores, book, row, preview)
        if whole is not None:
            return whole
    digest = await digest_of(call, book, row, part.step)
    if digest.truncated:
        raise Unsupported("this run is too large to be taken back in part", hint="undo it by paths")
    found = visible(call, digest)
    part = _as_named(found, part)
    chosen = [each for each in found if part.covers(each) and part.means(each)]
    around = _lost_around(found, chosen)
    told = await _told(call, book, row, part.step, [*chosen, *around], digest.truncated)
    hunks = part.hunks
    if hunks is not None:
        hunks |= {hunk for each in around for hunk in each.hunks}
    size = sum(each.size for each in told.stories)
    planned = await worked_out(size, plan_return, row.id, told.stories, told.contents, hunks)
    return await bring(call, ignores, planned, preview, planned.anew)


def _lost_around(found: Sequence[PathDigest], chosen: Sequence[PathDigest]) -> list[PathDigest]:
    """Directories that the run removed, or put something in the place of, and that something lay in
    which is to lie there again: they come with it, as they were."""
    comes = [each for each in chosen if each.kind in ("deleted", "moved")]
    needed = {above for each in comes for above in each.home.parents}
    needed -= {each.home for each in chosen}
    return [each for each in found if each.home in needed and _is_lost(each)]


def _is_lost(directory: PathDigest) -> bool:
    if directory.type == "directory":
        return directory.kind == "deleted"
    return directory.kind in ("deleted", "updated")


def _as_named(found: Sequence[PathDigest], part: RunPart) -> RunPart:
    """The part with its hunks by their ids, of which the beginnings may be given. Raises
    `PathNotFound`, `ParseError`."""
    known = {hunk for each in found for hunk in each.hunks}
    for path in part.paths:
        if not any(RunPart((path,)).covers(each) for each in found):
            raise PathNotFound(
                "the run did not change this", path=path,
                hint="`changes` and `bailiwick runs show` tell what it changed",
            )  # fmt: skip
    if part.hunks is None:
        return part
    return part._replace(hunks=frozenset(_hunk_named(known, each) for each in part.hunks))


def _hunk_named(known: Collection[str], name: str) -> str:
    fits = [each for each in known if len(name) >= PREFIX_MIN and each.startswith(name)]
    if len(fits) > 1:
        raise ParseError(f"{len(fits)} ids begin with {name[:80]!r}", hint="give more of the id")
    for each in fits:
        return each
    hint = "a hunk that was changed again has another id"
    if len(name) < PREFIX_MIN:
        hint = f"of an id at least {PREFIX_MIN} characters are given"
    raise PathNotFound(f"there is no hunk {name[:80]!r} in this run", hint=hint)


async def _whole(
    call: Call, ignores: Ignores, book: RunBook, row: RunRow, preview: bool
) -> Proposal[UndoResult] | None:
    """All of a run at once, with directories, modes and links: as long as nobody else has changed
    any of it, which the store can tell. None where somebody has."""
    looking = past(call.store)
    requests: Collection[str] = await book.requests(row)
    if not requests:
        raise PathNotFound("this run changed nothing")
    what = Undoing(subject=row.subject, requests=tuple(requests))
    planned = await looking.plan_undo(what)
    if planned.conflicts:
        return None

    async def plan() -> Plan:
        return planned

    def undone(done: Done) -> UndoResult:
        return UndoResult(
            version=done.version, undone=touched_paths(done.plan),
            conflicts=sorted_conflicts(done.plan), preview=preview, request_id=call.request_id,
        )  # fmt: skip

    work = Work(plan, lambda plan: Undo(call.handle, plan, what))
    return await (look if preview else propose)(call, ignores, work, undone)


def part_of(
    paths: Sequence[ScopedPath], hunks: Collection[str] | None, step: str | None
) -> RunPart:
    """What of a run is meant by what a caller gave. Raises `ParseError`."""
    if hunks is not None and (
        isinstance(hunks, str) or not all(isinstance(each, str) for each in hunks)
    ):
        raise ParseError("hunks are given by a list of their ids")
    return RunPart(tuple(paths), frozenset(hunks) if hunks else None, step)
