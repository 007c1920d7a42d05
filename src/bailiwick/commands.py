"""What running commands in a root takes: a sandbox, and a place for what they change.

Whoever composes a root lends this to its scopes. A root without it runs no commands.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from bailiwick.errors import RateLimited
from bailiwick.grant import Core, Grant, User, parse_subject
from bailiwick.model import Value
from bailiwick.operations import Network
from bailiwick.paths import ROOT, ScopedPath, named
from bailiwick.sandbox import Sandbox, SandboxName, Tree
from bailiwick.store import Store
from bailiwick.working_copy import Withheld, WorkChange, WorkConflict, WorkingCopy


class DirectorySeen(NamedTuple):
    """A directory of the lower tree, and what lies in it but is none. What no path names is told as
    the host has it."""

    path: str
    """As the host has it; empty for the top."""
    place: ScopedPath | None
    files: Sequence[ScopedPath]
    unnamed: Sequence[str]


def directory_seen(path: str, names: Iterable[str]) -> DirectorySeen:
    files: list[ScopedPath] = []
    unnamed: list[str] = []
    prefix = f"{path}/" if path else ""
    for name in names:
        text = prefix + name
        found = named(text)
        if found is None:
            unnamed.append(text)
        else:
            files.append(found)
    return DirectorySeen(path, named(path) if path else ROOT, files, unnamed)


class Visible(Protocol):
    """What a program may be shown."""

    def seen(self) -> Iterable[DirectorySeen]:
        """What the survey has found, directories before what lies in them."""
        ...


class InSight(Visible, Protocol):
    """What is shown to programs for as long as they run, while others may change the tree."""

    async def by_now(self) -> Visible | None:
        """What of the tree shows by now: itself, unless others have made or moved something. None
        where that is something that no program is shown, such as a socket."""
        ...


class LookedAt(InSight, Protocol):
    """A root that commands look at, and do not change."""

    async def survey(self) -> None:
        """Look at all that stands in it now."""
        ...

    async def show(self, masked: tuple[str, ...]) -> None:
        """Have what the survey found ready for programs, without what is masked."""
        ...

    def tree(self, place: str, masked: tuple[str, ...]) -> Tree:
        """What a program sees at ``place``, as it was shown, without what is masked."""
        ...

    def close(self) -> None: ...


class PlacedCopy(WorkingCopy, InSight, Protocol):
    """A working copy in a directory of this machine, in which commands are run."""

    @property
    def is_overlay(self) -> bool:
        """Whether it is that of an overlay: many work in it by verbs, and it is nobody's."""
        ...

    async def survey(self) -> None:
        """Look at all that stands in the tree now: what a command that is started from here on
        changes is compared with that."""
        ...

    async def keep_bases(self) -> None:
        """Keep what lies below the files that were changed by now, as long as it is what it was."""
        ...

    async def show(self, masked: tuple[str, ...]) -> None:
        """Have what the survey found ready for programs, without what is masked."""
        ...

    def tree(self, place: str, masked: tuple[str, ...], *, writable: bool, lasting: bool) -> Tree:
        """What a program sees at ``place``, as it was shown, without what is masked. What it
        changes there is ``lasting`` as the program asks for that, or else from when it is left, or
        begun to be brought back."""
        ...

    async def note_session(self, note: SessionNote) -> None:
        """Have it on record how the session goes on that works in this copy."""
        ...

    async def session_note(self) -> SessionNote | None:
        """What was noted last; None where no session has worked here."""
        ...

    async def leave(self) -> None:
        """It is left for later: have what is known of it outlive the machine."""
        ...

    def close(self) -> None:
        """Let go of it; what was changed stays, and can be opened again."""
        ...


class Workplace(Protocol):
    """Makes working copies of one root, and finds them again."""

    def look(self) -> LookedAt:
        """For who wants no working copy."""
        ...

    def new_id(self) -> str:
        """For one that is to be made."""
        ...

    async def make(
        self,
        *,
        subject: str,
        request_id: str,
        command: tuple[str, ...],
        via: tuple[str, ...] = (),
        id: str | None = None,
    ) -> PlacedCopy: ...

    async def open(self, id: str) -> PlacedCopy:
        """Raises `PathNotFound`, and `Busy` where a command is run in it."""
        ...

    async def all(self) -> list[WorkInfo]:
        """Those that were left, oldest first."""
        ...

    async def was_done(self, key: bytes) -> bool:
        """Whether what somebody decided about one of them under a key was done."""
        ...


class WorkInfo(Value, frozen=True, kw_only=True):
    """A working copy that holds what is not in the tree."""

    id: str
    root: str
    subject: str
    began_ns: int
    request_id: str = ""
    command: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    """Through whose hands the grant had come: a name that somebody chose for another is not that of
    whoever is called so."""


class SessionNote(Value, frozen=True, kw_only=True):
    """What of a session outlives its process: where its commands are run, with which variables,
    the words of those that are under way, and the other roots that they see."""

    cwd: str = "."
    env: dict[str, str] = {}
    running: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


class HostShare(Value, frozen=True, kw_only=True):
    """What commands may have of this machine besides their tree and the programs of the system.

    Whoever opens a root says so; no scope can ask for more. ``networks`` are those that commands
    may ask for. ``readable`` are absolute paths that they see at the same place and cannot change.
    ``home`` is a directory that is their ``HOME``: what they change there is changed at once, and
    passes no boundary. ``sandbox`` is what they are run in: a weaker one than bubblewrap only where
    it is named here.
    """

    networks: frozenset[Network] = frozenset(("none",))
    readable: tuple[str, ...] = ()
    home: str | None = None
    sandbox: SandboxName = "bubblewrap"


class CommandSlots:
    """How many commands are under way in one process, and of whom: one agent does not crowd out the
    others, nor all of them the people who would end that. A room that a session keeps counts as
    one, whatever is run in it."""

    def __init__(self) -> None:
        self._taken = Counter[str]()
        # Looking and counting are one step, whichever threads come through here.
        self._turn = threading.Lock()

    def refuse_full(self, grant: Grant) -> None:
        """Raises `RateLimited` where no more may be begun under a grant."""
        with self._turn:
            self._refuse_full(grant)

    def _refuse_full(self, grant: Grant) -> None:
        limits, most = grant.limits, grant.limits.exec_at_once_max
        subject = accountable(grant)
        if not _is_person(subject):
            most = max(1, most - most // 4)
            if self._taken[subject] >= limits.exec_per_subject_max:
                raise RateLimited(
                    "as many commands of this subject are under way as may be",
                    hint="wait for one to end, or close a session",
                    details={"limit": limits.exec_per_subject_max},
                )
        if self._taken.total() >= most:
            raise RateLimited(
                "as many commands are under way here as may be", hint="try again later",
                details={"limit": most},
            )  # fmt: skip

    def take(self, grant: Grant) -> Callable[[], None]:
        """Have one more, and what gives it back, which may be called twice. Raises
        `RateLimited`."""
        subject = accountable(grant)
        with self._turn:
            self._refuse_full(grant)
            self._taken[subject] += 1
        held = [subject]

        def give_back() -> None:
            with self._turn:
                while held:
                    self._taken.subtract(held)
                    self._taken += Counter()  # forgets who has none
                    held.clear()

        return give_back


def accountable(grant: Grant) -> str:
    """For whom a command counts: the first through whose hands the grant came that is no person,
    so that nobody has more of it by passing it on."""
    hands = (*grant.via, str(grant.subject))
    return next((each for each in hands if not _is_person(each)), hands[-1])


def _is_person(subject: str) -> bool:
    return isinstance(parse_subject(subject), (Core, User))


SLOTS: Final = CommandSlots()
"""Those of this process: what commands use up is the machine's, whichever roots they are run in."""


class Commands(NamedTuple):
    """How commands are run in one root."""

    sandbox: Sandbox
    workplace: Workplace
    share: HostShare = HostShare()
    slots: CommandSlots = SLOTS


class LendsCommands(Protocol):
    """Puts it together when it is first needed: most scopes run no command."""

    def __call__(self) -> Commands: ...

    def on(self, branch: Store) -> LendsCommands:
        """How commands are run in another branch of the root."""
        ...


class Interpreter(NamedTuple):
    """What running code takes: a sandbox, and a Python in it that has no way to the tree. A run
    counts as a command."""

    sandbox: Sandbox
    slots: CommandSlots
    argv: tuple[str, ...]
    """Starts Python with the program that reads code from its input and runs it."""
    readable: tuple[str, ...] = ()
    """What it needs of the machine besides the directories of the system."""


LendsInterpreter = Callable[[], Interpreter]
"""Puts it together when it is first needed. Raises `Unsupported` where there can be none."""


class ExecResult(Value, frozen=True, kw_only=True):
    """What became of a command, and of what it changed.

    ``exit_code`` is None where a ``signal`` ended it. What was withheld, or is in conflict with
    what others have changed meanwhile, is kept in the working copy ``work_id``; None where nothing
    is left.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_ms: float
    request_id: str
    sandbox: str
    changes: list[WorkChange]
    withheld: list[Withheld]
    conflicts: list[WorkConflict]
    truncated: bool
    work_id: str | None = None
