"""Runs: which there are, what each changed, and taking that back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from bailiwick.call import Call
from bailiwick.errors import MissingAccess, ParseError, PathNotFound, Unsupported
from bailiwick.grant import subject_stands_above
from bailiwick.paths import ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.reviews import ReviewBook
from bailiwick.runs import (
    Hunk,
    RunBook,
    RunChange,
    RunChanges,
    RunInfo,
    RunRow,
    found_run,
)
from bailiwick.verbs.bulk_changes import Work, look, propose, sorted_conflicts, touched_paths
from bailiwick.verbs.runs.path_stories import PathStory, Stories, change_of, ours_by, touched
from bailiwick.verbs.runs.taking_back import bring, plan_return
from bailiwick.verbs.walks.ignore_files import Ignores
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

    def covers(self, story: PathStory) -> bool:
        places = [story.path, *(each.path for each in (story.before, story.after) if each)]
        return not self.paths or any(place.lies_in(each) for place in places for each in self.paths)


ALL = RunPart()


class RunTold(NamedTuple):
    """The places that a run changed, what it made of each, and whether that is all of it."""

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


async def listed(
    call: Call, book: RunBook, since_ns: int | None, limit: int | None
) -> list[RunInfo]:
    rows = [
        each for each in await rows_for(call, book) if since_ns is None or each.seen_ns >= since_ns
    ]
    most = call.limits.history_default if limit is None else limit
    return [await told(call, book, each) for each in rows[:most]]


async def told(call: Call, book: RunBook, row: RunRow) -> RunInfo:
    """A run with what came of it."""
    info = RunInfo(
        id=row.id, title=row.title, subject=row.subject, front=row.front, root=row.root,
        begun_ns=row.begun_ns, seen_ns=row.seen_ns, active=book.is_active(row), calls=row.calls,
        commands=row.commands, refusals=row.refusals, questions=row.questions,
        approved=row.approved, steps=row.steps,
    )  # fmt: skip
    if "Remembers" not in call.store.powers:
        return info
    changes = (await told_by(call, book, row)).changes
    hunks = [hunk for each in changes for hunk in each.hunks]
    files = [each.kind for each in changes if each.type != "directory"]
    return msgspec.structs.replace(
        info, created=files.count("created"), changed=files.count("updated"),
        moved=files.count("moved"), removed=files.count("deleted"),
        added=sum(each.added for each in changes),
        removed_lines=sum(each.removed for each in changes), hunks=len(hunks),
        reviewed=sum(each.reviewed is not None for each in hunks),
    )  # fmt: skip


async def told_by(call: Call, book: RunBook, row: RunRow, step: str | None = None) -> RunTold:
    """What a run, or one step of it, changed."""
    requests = await book.requests(row)
    if step is not None and step not in requests.values():
        raise PathNotFound(f"the run has no step {step[:80]!r} that changed anything")
    is_ours = ours_by(requests, row.subject, step)
    most = call.limits.run_paths_max
    versions = await touched(call, is_ours, row.begun_ns, most)
    telling = Stories(call, is_ours)
    covered: set[tuple[str, ScopedPath]] = set()
    stories: list[PathStory] = []
    for version in versions[:most]:
        if (version.version, version.path) in covered:
            continue
        story, more = await telling.of(version.path)
        covered |= more
        if story is not None:
            stories.append(story)
    stories.sort(key=lambda each: each.path.order)
    changes = [change for each in stories if (change := change_of(row.id, each)) is not None]
    if book.reviews is not None:
        changes = _with_verdicts(changes, book.reviews, row.root)
    return RunTold(stories, changes, len(versions) > most, telling.contents)


def _with_verdicts(changes: Sequence[RunChange], book: ReviewBook, root: str) -> list[RunChange]:
    """What people said of each hunk. What was rejected and stands again was done again since."""
    said = book.said(root, [hunk.id for each in changes for hunk in each.hunks])

    def seen(hunk: Hunk) -> Hunk:
        reviewed = said.get(hunk.id)
        if reviewed is None or (reviewed == "rejected" and hunk.state == "stands"):
            return hunk
        return msgspec.structs.replace(hunk, reviewed=reviewed)

    if not said:
        return list(changes)
    return [
        msgspec.structs.replace(each, hunks=[seen(hunk) for hunk in each.hunks]) for each in changes
    ]


async def changes(call: Call, book: RunBook, name: str, part: RunPart = ALL) -> RunChanges:
    row = found_run(await rows_for(call, book), name)
    found = await told_by(call, book, row, part.step)
    wanted = {each.path for each in found.stories if part.covers(each)}
    return RunChanges(
        run=row.id, changes=[each for each in found.changes if each.path in wanted],
        truncated=found.truncated, request_id=call.request_id,
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
    found = await told_by(call, book, row, part.step)
    stories = [each for each in found.stories if part.covers(each)]
    if found.truncated:
        raise Unsupported("this run is too large to be taken back in part", hint="undo it by paths")
    _refuse_unknown(found, part)
    planned = plan_return(row.id, stories, found.contents, part.hunks)
    return await bring(call, ignores, planned, preview)


def _refuse_unknown(found: RunTold, part: RunPart) -> None:
    known = {hunk.id for each in found.changes for hunk in each.hunks}
    unknown = (part.hunks or frozenset()) - known
    if unknown:
        raise PathNotFound(
            f"there is no hunk {min(unknown)!r} in this run",
            hint="a hunk that was changed again has another id",
        )
    for path in part.paths:
        if not any(RunPart((path,)).covers(each) for each in found.stories):
            raise PathNotFound("the run did not change this", path=path)


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
