"""Reviews: what people said of what agents did, and what is left to look at.

Only what people said is kept. What is left is worked out from the versions of each path when
somebody asks: what differs from what people agreed to. A verdict is about the content that it was
given on, at one version of one path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from bailiwick.errors import ParseError
from bailiwick.grant import Grant
from bailiwick.model import EntryType, Value
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.versions import ChangeKind, Conflict, TellsBeneath, Version

_PAGE: Final = 500
_FIRST_PAGE: Final = 20
"""Mostly nothing was changed since, which the first few versions tell."""


def check_note(note: str | None, characters_max: int) -> str:
    """What may be said to an agent. Raises `ParseError`."""
    if note is None:
        return ""
    if not isinstance(note, str) or len(note) > characters_max:
        raise ParseError(f"a note is text of at most {characters_max} characters")
    if not all(each.isprintable() or each in "\n\t" for each in note):
        raise ParseError("a note holds printable characters only")
    return note.strip()


# --- what callers are told ---------------------------------------------------------------------


class ReviewHunk(Value, frozen=True, kw_only=True):
    """Some lines that nobody has agreed to yet. ``run`` is the run that touched them last,
    ``subject`` the agent; ``runs`` are all that had to do with them. The ``id`` is that which the
    hunk has in the run, unless others had to do with it, too."""

    id: str
    run: str
    subject: str
    header: str
    lines: list[str]
    added: int
    removed: int
    title: str | None = None
    runs: list[str] = []


class ReviewSides(Value, frozen=True, kw_only=True):
    """Some lines of a file that was changed both in the tree and apart: ``text`` where one side
    alone changed them, or none. Else that is None, and the lines are told as they are in the
    ``tree``, ``apart``, and as they were before both, where that is known."""

    text: str | None = None
    tree: str = ""
    apart: str = ""
    base: str | None = None


class ReviewFile(Value, frozen=True, kw_only=True):
    """What is left to look at of one path: what agents made of what people agreed to, or what would
    become of it. ``version`` is of what was looked at: a hunk that is named as ``ID@VERSION`` is
    the one that was shown then. ``against`` says why it cannot be accepted as it is; then
    ``sides`` are all lines of it, of a text that is asked for by its path. What was ``carried``
    came or went with the directory of that name, and is accepted or rejected with all of it. What
    was moved lay at ``origin``; it ``replaces`` something else that stood where it was moved to,
    and is gone. ``hunk_count`` is how many hunks there are, also where they were not asked for."""

    path: ScopedPath
    kind: ChangeKind
    type: EntryType
    version: str = ""
    against: str | None = None
    origin: ScopedPath | None = None
    carried: ScopedPath | None = None
    added: int = 0
    removed: int = 0
    hunks: list[ReviewHunk] = []
    sides: list[ReviewSides] = []
    hunk_count: int = 0
    replaces: bool = False


class ReviewQueue(Value, frozen=True, kw_only=True):
    """What agents did that nobody has agreed to, by path. ``left`` counts all hunks of it, also
    those that ``next_cursor`` goes on to; ``truncated`` says that there is more than was looked
    at. Of a working copy or a fork the ``version`` is of all of it: who says ``NAME@VERSION`` means
    what was shown then."""

    files: list[ReviewFile]
    left: int
    version: str | None = None
    next_cursor: str | None = None
    truncated: bool = False
    request_id: str = ""


class QueuePage(NamedTuple):
    """Which files of a queue somebody asks for: ``limit`` of them from a ``cursor`` on; ``brief``
    without their hunks."""

    cursor: str | None = None
    limit: int | None = None
    brief: bool = False


class ReviewResult(Value, frozen=True, kw_only=True):
    """What came of a verdict: the hunks that it was about, and how many are left. ``applied`` is
    what came into the tree, of what was not in it. With ``conflicts`` nothing was accepted or
    rejected, and nothing changed."""

    accepted: list[str] = []
    rejected: list[str] = []
    applied: list[ScopedPath] = []
    undone: list[ScopedPath] = []
    conflicts: list[Conflict] = []
    left: int = 0
    preview: bool = False
    request_id: str = ""


class ReviewNote(Value, frozen=True, kw_only=True):
    """What an agent is told of what a person took back: where, which of its lines, and why."""

    path: ScopedPath
    lines: list[str]
    note: str
    run: str
    by: str
    time_ns: int


# --- what is kept ------------------------------------------------------------------------------


class HunkVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said of one hunk, at one version of its path. ``settles`` is whether nothing
    else was left of the path then, so that what stood there is what was agreed to."""

    path: str
    version: str
    hunk: str
    run: str
    accepted: bool
    settles: bool = False


class SettledVersion(NamedTuple):
    """A version up to which nothing is left, and when it was made: a fork, and another tree of the
    same name, count their own changes by the same numbers."""

    version: int
    made_ns: int | None


class NoteHolder(NamedTuple):
    """Who is told: by name, and through whose hands the name came. One that an agent chose for
    another is not that of whoever is called so.

    ``sessions`` is how the names of a front's sessions begin, for whoever is one: a client that is
    started again has another name, and hears what nobody else is left to hear.
    """

    subject: str
    via: tuple[str, ...] = ()
    sessions: str | None = None

    @classmethod
    def of(cls, grant: Grant, front: str) -> NoteHolder:
        subject, sessions = str(grant.subject), f"agent_run:{front}/"
        return cls(subject, grant.via, sessions if subject.startswith(sessions) else None)


class ReviewVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What one person said at one time. ``notes`` are for agents; ``through`` is a
    version up to which nothing at all is left. What takes something back in a ``branch`` of the
    tree is announced before."""

    root: str
    by: str
    request_id: str
    verdicts: Sequence[HunkVerdict]
    notes: Sequence[tuple[NoteHolder, ReviewNote]] = ()
    note: str = ""
    through: SettledVersion | None = None
    branch: str | None = None


# --- what was worked out -----------------------------------------------------------------------


class QueuedPath(NamedTuple):
    """What is left of a place, without its lines: the ids of hunks, each with the runs that had to
    do with it; the versions that it is told by, oldest first; and what stands there, where others
    than they may say that."""

    path: ScopedPath
    hunks: tuple[tuple[str, tuple[str, ...]], ...]
    versions: tuple[Version, ...]
    stands: str


class QueueShelf:
    """Keeps in memory what was worked out of the queue of one root: whoever looks later takes up
    what came since. ``is_cut`` says that there are more versions than those."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.is_cut = False
        self._kept: dict[ScopedPath, tuple[object, QueuedPath]] = {}

    def find(self, path: ScopedPath, key: object) -> QueuedPath | None:
        """What is kept of a path, where the key says that it still holds."""
        kept = self._kept.get(path)
        return kept[1] if kept is not None and kept[0] == key else None

    def keep(self, path: ScopedPath, key: object, queued: QueuedPath) -> None:
        self._kept[path] = key, queued

    def forget(self) -> None:
        self.versions = []
        self.is_cut = False
        self._kept = {}

    async def catch_up(
        self, looking: TellsBeneath, is_enough: Callable[[Version], bool], paths_max: int
    ) -> bool:
        """Have all versions, newest first, back to one that is enough, or until those of so many
        paths are there; whether there was one that is enough."""
        newer: list[Version] = []
        older = self.versions
        known = older[0] if older else None
        cursor: str | None = None
        paths: set[ScopedPath] = set()
        while True:
            limit = _PAGE if cursor is not None or known is None else _FIRST_PAGE
            page = await looking.beneath(ROOT, cursor=cursor, limit=limit)
            for each in page.versions:
                if known is not None and _is(each, known):
                    return self._take([*newer, *older], is_enough)
                newer.append(each)
                paths.add(each.path)
            cursor = page.next_cursor
            if cursor is None or len(paths) > paths_max or any(map(is_enough, page.versions)):
                self.forget()  # the first look, or one at another tree
                found = self._take(newer, is_enough)
                self.is_cut = cursor is not None and not found
                return found
            await asyncio.sleep(0)

    def _take(self, versions: list[Version], is_enough: Callable[[Version], bool]) -> bool:
        # Others may look at the same time: each leaves what it has read itself.
        enough = next((place for place, each in enumerate(versions) if is_enough(each)), None)
        self.versions = versions[:enough]
        return enough is not None


def _is(one: Version, other: Version) -> bool:
    return (one.version, one.path, one.time_ns) == (other.version, other.path, other.time_ns)


class ReviewBook(Protocol):
    """Keeps what people said; and, in memory, what was worked out, by root and branch."""

    @property
    def queues(self) -> dict[tuple[str, str], QueueShelf]: ...

    def verdicts(self, root: str, path: str) -> list[HunkVerdict]:
        """What was said of a path, in order."""
        ...

    def said_last(self, root: str) -> dict[str, int]:
        """Of each path of which anything was said a number that is another when more is."""
        ...

    def said(self, root: str, hunks: Collection[str]) -> dict[str, str]:
        """``accepted`` or ``rejected``, of those hunks of which anything was said last."""
        ...

    def settled_through(self, root: str) -> SettledVersion | None:
        """The version up to which nothing is left, where it is one of the tree that is asked for:
        it spares looking, and what was said of each path says the same."""
        ...

    async def announce(self, said: ReviewVerdicts) -> None:
        """Have it durable what is to be kept once the tree was changed."""
        ...

    def over(self, request: str) -> None:
        """What was announced is done, or given up; whoever looks next finds out which, where it was
        not kept."""
        ...

    def announced(self, root: str, branch: str) -> list[ReviewVerdicts]:
        """What was announced and not kept, where nobody is at it any more."""
        ...

    async def make_up_for(self, said: ReviewVerdicts) -> None:
        """Keep what has come to pass of something that was announced."""
        ...

    async def keep(self, said: ReviewVerdicts, result: ReviewResult) -> None:
        """Durable when this returns. What is answered is kept too where it was asked for under a
        key. What was announced is kept once, whoever does."""
        ...

    def has_notes(self, root: str, holder: NoteHolder) -> bool:
        """Whether there is anything that the holder is to be told: cheap, asked with each answer,
        and mostly told by that nobody is."""
        ...

    async def waiting_notes(
        self, root: str, holder: NoteHolder, reaches: Callable[[ScopedPath], bool], limit: int
    ) -> list[ReviewNote]:
        """What `take_notes` would tell, which goes on waiting."""
        ...

    async def take_notes(
        self, root: str, holder: NoteHolder, reaches: Callable[[ScopedPath], bool], limit: int
    ) -> list[ReviewNote]:
        """What an agent is to be told of places within reach of who asks, which is told once: at
        most ``limit`` notes."""
        ...
