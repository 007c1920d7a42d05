"""Runs: what one subject did in one session over one front, told from what is on record of it.

Nothing is kept of a run but what it is called: calls belong to it by who made them, where, through
which front, and when. A run ends when nothing is heard of it for a while. A call that has a title
belongs to the run of that title; one without belongs to the newest, unless a person made it: what
people do themselves is no part of what they have given a title.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

import msgspec

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.grant import subject_stands_above
from bailiwick.model import EntryType, Value
from bailiwick.paths import ScopedPath
from bailiwick.reviews import NoteHolder, ReviewBook
from bailiwick.versions import ChangeKind

RUN_IDLE_S: Final = 1_800.0
"""After half an hour of silence a run is over, and what the subject does next is another one: a
model thinks for minutes, and people come back after lunch."""

_NAME_CHARACTERS_MAX: Final = 200
_STEPS_MAX: Final = 200
"""Steps of one run that are told apart; what comes after them is told with the last."""

_ASKED_MAX: Final = 200
"""Questions of one run that are known again when the call comes back with the answer."""

_ID_DIGITS: Final = 12

_TIME: Final = "([0-9]{1,18}|[1-8][0-9]{18})"
_is_cursor = re.compile(rf"{_TIME}\.{_TIME}\.([0-9a-f]{{{_ID_DIGITS}}})").fullmatch
"""Times of at most 64 bits, as databases count, and an id."""


def check_run_name(name: str, text: str) -> str:
    """What a run or a step may be called. Raises `ParseError`."""
    if not isinstance(text, str) or not text.strip():
        raise ParseError(f"{name} must be text")
    if len(text) > _NAME_CHARACTERS_MAX or not text.isprintable():
        raise ParseError(
            f"{name} is one line of at most {_NAME_CHARACTERS_MAX} printable characters"
        )
    return text.strip()


# --- what callers are told ---------------------------------------------------------------------


class RunStep(Value, frozen=True, kw_only=True):
    """A step of a run, by the name that the subject gave it."""

    name: str
    begun_ns: int
    calls: int = 0


class RunPlace(NamedTuple):
    """Where a run stands in lists: what was seen last is first. A run that is seen again stands
    somewhere else, before all that was listed."""

    seen_ns: int
    begun_ns: int
    id: str

    @property
    def cursor(self) -> str:
        """What goes on after it, in every root."""
        return f"{self.seen_ns}.{self.begun_ns}.{self.id}"


class RunInfo(Value, frozen=True, kw_only=True):
    """One run: who, through which front, from when to when, and what came of it.

    ``created``, ``changed``, ``moved`` and ``removed`` count files by what became of them in all,
    ``added`` and ``removed_lines`` lines; ``hunks`` how many pieces there are to look at, and
    ``reviewed`` how many of them a person has accepted or rejected; who says ``ID@VERSION`` in a
    verdict means what the run came to at that ``version``. All are None where the root keeps no
    versions, and in a brief list.
    """

    id: str
    title: str | None
    subject: str
    front: str
    root: str
    begun_ns: int
    seen_ns: int
    active: bool
    calls: int
    commands: int
    refusals: int
    questions: int
    approved: int
    steps: list[RunStep] = []
    created: int | None = None
    changed: int | None = None
    moved: int | None = None
    removed: int | None = None
    added: int | None = None
    removed_lines: int | None = None
    hunks: int | None = None
    reviewed: int | None = None
    version: str | None = None

    @property
    def place(self) -> RunPlace:
        """Where it stands in a list; over HTTP times are told in milliseconds, so that this is
        no place to go on from."""
        return RunPlace(self.seen_ns, self.begun_ns, self.id)


class Hunk(Value, frozen=True, kw_only=True):
    """Some lines that were changed at one place. The ``id`` stays while the text does, wherever
    others move it. ``lines`` begin with a blank, ``-``, ``+`` or a backslash, as in a unified
    difference.

    ``state`` says whether it still ``stands``, is ``undone``, or was ``changed`` by others since.
    ``reviewed`` is what a person said of it, None while nobody has. A file that holds no text is
    one hunk without lines, and so is a mode that was set.
    """

    id: str
    header: str
    lines: list[str]
    added: int
    removed: int
    state: str = "stands"
    reviewed: str | None = None


def mode_header(before: int, after: int) -> str:
    """The header of a hunk that is a mode."""
    return f"mode {before:o} to {after:o}"


class OthersHunk(Value, frozen=True, kw_only=True):
    """Lines that somebody else changed while the run went on. ``subject`` is empty for programs
    that did not go through Bailiwick."""

    subject: str
    header: str
    lines: list[str]


class RunChange(Value, frozen=True, kw_only=True):
    """What became of one path by a run, from before its first touch to after its last. What was
    moved, also if it was removed then, lay at ``origin``; it ``replaces`` something else that stood
    where it was moved to, and is gone. ``version`` is that of the path when this was told.

    ``hunk_count`` is how many hunks there are, ``reviewed_count`` of how many of them a person has
    said something: also where the hunks themselves were not asked for."""

    path: ScopedPath
    kind: ChangeKind
    type: EntryType
    version: str = ""
    origin: ScopedPath | None = None
    added: int = 0
    removed: int = 0
    hunks: list[Hunk] = []
    others: list[OthersHunk] = []
    hunk_count: int = 0
    reviewed_count: int = 0
    replaces: bool = False


class RunChanges(Value, frozen=True, kw_only=True):
    """What a run changed, by path; ``next_cursor`` goes on to further paths. ``truncated`` says
    that it changed more than is told of any run."""

    run: str
    changes: list[RunChange]
    truncated: bool = False
    next_cursor: str | None = None
    request_id: str = ""


# --- what is on record -------------------------------------------------------------------------


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One call on record, as far as it matters for runs."""

    time_ns: int
    request_id: str
    subject: str
    root: str
    front: str
    grant_id: str | None
    verb: str
    outcome: str
    changes: bool
    approval_id: str | None
    title: str | None = None
    step: str | None = None
    via: tuple[str, ...] = ()


class RunRow(msgspec.Struct, kw_only=True):
    """A run as far as records tell of it. ``via`` names those through whose hands the name of the
    subject came: who was named by another agent is not whoever is called so otherwise."""

    id: str
    root: str
    subject: str
    front: str
    title: str | None
    begun_ns: int
    seen_ns: int
    grant_id: str | None = None
    calls: int = 0
    changes: int = 0
    commands: int = 0
    refusals: int = 0
    questions: int = 0
    approved: int = 0
    asked: list[str] = []
    steps: list[RunStep] = []
    via: tuple[str, ...] = ()

    @property
    def place(self) -> RunPlace:
        """Where it stands in a list."""
        return RunPlace(self.seen_ns, self.begun_ns, self.id)

    @property
    def is_agents(self) -> bool:
        """Whether it is what people look at as a run: an agent's, or whatever has a title."""
        return self.title is not None or not subject_stands_above(self.subject)

    def take(self, event: RunEvent) -> None:
        """Add one more call."""
        self.seen_ns = max(self.seen_ns, event.time_ns)
        self.title = self.title or event.title
        self.grant_id = event.grant_id or self.grant_id
        self.calls += 1
        self.changes += event.changes and event.outcome == "success"
        self.commands += event.verb in ("exec", "run", "code")
        self.refusals += event.outcome == "denied"
        if event.approval_id is not None:
            if event.approval_id not in self.asked:
                self.questions += 1
                self.asked = [*self.asked, event.approval_id][-_ASKED_MAX:]
            self.approved += event.outcome != "denied"
        if event.step is not None:
            self._take_step(event.step, event.time_ns)

    def _take_step(self, name: str, time_ns: int) -> None:
        known = [each.name for each in self.steps]
        place = known.index(name) if name in known else len(known)
        if place == len(known) < _STEPS_MAX:
            self.steps = [*self.steps, RunStep(name=name, begun_ns=time_ns)]
        place = min(place, len(self.steps) - 1)
        step = self.steps[place]
        self.steps = [*self.steps]
        self.steps[place] = msgspec.structs.replace(step, calls=step.calls + 1)


def begun_by(event: RunEvent) -> RunRow:
    """The run that a call begins."""
    seed = "\0".join((event.root, event.subject, event.front, event.request_id, event.title or ""))
    digest = hashlib.sha256(f"{seed}\0{event.time_ns}".encode("utf-8", "replace")).hexdigest()
    row = RunRow(
        id=digest[:_ID_DIGITS], root=event.root, subject=event.subject, front=event.front,
        title=event.title, begun_ns=event.time_ns, seen_ns=event.time_ns, via=event.via,
    )  # fmt: skip
    row.take(event)
    return row


def run_of(event: RunEvent, known: Sequence[RunRow]) -> RunRow | None:
    """The run that a call belongs to, of those of its subject in its root through its front, the
    newest first; None where it begins another one."""
    recent = [
        each
        for each in known
        if event.time_ns - each.seen_ns <= RUN_IDLE_S * 1e9 and each.via == event.via
    ]
    newest = recent[0] if recent else None
    if event.title is None and not subject_stands_above(event.subject):
        return newest
    named = next((each for each in recent if each.title == event.title), None)
    if named is not None or subject_stands_above(event.subject):
        return named
    return newest if newest is not None and newest.title is None else None


class RunsWanted(NamedTuple):
    """Which runs are to be listed: those of one ``subject``, or of all; those that were seen since
    a time; those that stand ``after`` a place; and how many."""

    limit: int
    subject: str | None = None
    since_ns: int | None = None
    after: RunPlace | None = None

    def means(self, row: RunRow) -> bool:
        return (
            row.is_agents
            and (self.subject is None or row.subject == self.subject)
            and (self.since_ns is None or row.seen_ns >= self.since_ns)
            and (self.after is None or row.place < self.after)
        )


class RunRows(NamedTuple):
    """Some runs, and where to go on if there are more."""

    rows: list[RunRow]
    next_cursor: str | None

    @classmethod
    def of(cls, found: list[RunRow], limit: int) -> RunRows:
        """As many as are wanted of those that were found."""
        rows = found[:limit]
        return cls(rows, rows[-1].place.cursor if len(found) > limit else None)


def place_in(cursor: str | None) -> RunPlace | None:
    """The run that a cursor goes on after. Raises `ParseError`."""
    if cursor is None:
        return None
    found = _is_cursor(cursor) if isinstance(cursor, str) else None
    if found is None:
        raise ParseError("the cursor is none that was given for runs")
    return RunPlace(int(found[1]), int(found[2]), found[3])


class RunsInMemory:
    """Runs of calls that are given one after the other, and which call is of which run."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str, str], list[RunRow]] = {}
        self._requests: dict[str, dict[str, str | None]] = {}

    def add(self, event: RunEvent) -> None:
        known = self._runs.setdefault((event.root, event.subject, event.front), [])
        row = run_of(event, known)
        if row is None:
            row = begun_by(event)
            known.insert(0, row)
        else:
            row.take(event)
        if event.changes:
            self._requests.setdefault(row.id, {})[event.request_id] = event.step

    def rows(self) -> list[RunRow]:
        """All runs, what was seen last first."""
        rows = [each for of_one in self._runs.values() for each in of_one]
        return sorted(rows, key=lambda row: row.place, reverse=True)

    def requests(self, run: str) -> dict[str, str | None]:
        return self._requests.get(run, {})


# --- what was worked out -----------------------------------------------------------------------


class PathDigest(NamedTuple):
    """What became of one path by a run, without its lines: ``hunks`` are ids, ``places`` all paths
    that the thing had on its way, ``version`` the last that is known of it, whoever made it.
    ``kind`` is None where nothing is different in the end."""

    path: ScopedPath
    type: EntryType
    kind: ChangeKind | None
    origin: ScopedPath | None
    places: tuple[ScopedPath, ...]
    added: int
    removed: int
    hunks: tuple[str, ...]
    version: str
    replaces: bool = False

    @property
    def home(self) -> ScopedPath:
        """Where it lay before."""
        return self.origin or self.path


class TreeMoment(NamedTuple):
    """A version of a tree and when it was made: another tree, and a fork, count by the same
    numbers."""

    version: int
    made_ns: int | None


class RunDigest(NamedTuple):
    """What a run came to, path by path, as of one moment of the tree; and the requests and the time
    by which its versions were known then. ``tangled`` says that things were moved meanwhile, so
    that what happens to one path may be told of another."""

    paths: dict[ScopedPath, PathDigest]
    through: TreeMoment | None
    requests: frozenset[str]
    seen_ns: int
    truncated: bool
    tangled: bool


class DigestShelf:
    """Keeps digests in memory, those that were asked for last."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], RunDigest] = {}
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def turn(self, run: str, branch: str) -> asyncio.Lock:
        """Held by whoever works one out: others who look at the run meanwhile wait for that."""
        return self._turns.setdefault((run, branch), asyncio.Lock())

    def find(self, run: str, branch: str) -> RunDigest | None:
        return self._kept.get((run, branch))

    def keep(self, run: str, branch: str, digest: RunDigest, paths_max: int) -> None:
        self._kept.pop((run, branch), None)
        self._kept[run, branch] = digest
        total = sum(len(each.paths) + 1 for each in self._kept.values())
        for key in list(self._kept):
            if total <= paths_max:
                break
            total -= len(self._kept.pop(key).paths) + 1


# --- the seam ----------------------------------------------------------------------------------


class RunBook(Protocol):
    """Knows the runs of a root."""

    @property
    def reviews(self) -> ReviewBook | None:
        """What people said of them, where that is kept."""
        ...

    @property
    def digests(self) -> DigestShelf:
        """What was worked out of them."""
        ...

    async def rows(self, root: str) -> list[RunRow]:
        """The runs in a root, what was seen last first."""
        ...

    async def listed(self, root: str, wanted: RunsWanted) -> RunRows:
        """Some of the runs in a root."""
        ...

    async def requests(self, run: RunRow) -> Mapping[str, str | None]:
        """The requests of a run that changed something, each with its step."""
        ...

    def is_active(self, run: RunRow) -> bool:
        """Whether it may go on."""
        ...

    async def at_work(self, root: str, subjects: Collection[str], wait_s: float) -> set[str]:
        """Which of some subjects are in the middle of a call that changes something, or of a
        command, in any process, also after a wait."""
        ...

    async def last_hands(
        self, root: str, paths: Collection[ScopedPath]
    ) -> Mapping[ScopedPath, NoteHolder]:
        """Who changed each of some paths last by a call, as far as that is on record and looked
        through."""
        ...


def found_run(rows: Sequence[RunRow], name: str) -> RunRow:
    """The run that a text names: by its id, or the beginning of it that no other has. Raises
    `PathNotFound`, `ParseError`."""
    if not isinstance(name, str) or not name:
        raise ParseError("a run is named by its id")
    fits = [each for each in rows if each.id.startswith(name)]
    exact = [each for each in fits if each.id == name]
    if len(exact or fits) == 1:
        return (exact or fits)[0]
    if fits:
        raise ParseError(f"{len(fits)} runs begin with {name!r}", hint="give more of its id")
    raise PathNotFound(f"there is no run {name[:40]!r}", hint="`bailiwick runs` lists them")
