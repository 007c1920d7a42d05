"""What running commands in a root takes: a sandbox, and a place for what they change.

Whoever composes a root lends this to its scopes. A root without it runs no commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from bailiwick.model import EntryType, Value
from bailiwick.operations import Network
from bailiwick.sandbox import Sandbox, Tree
from bailiwick.working_copy import Withheld, WorkChange, WorkConflict, WorkingCopy


class NameSeen(NamedTuple):
    """One name in the lower tree, as the host has it."""

    path: str
    type: EntryType


class PlacedCopy(WorkingCopy, Protocol):
    """A working copy over a directory of this machine, in which commands are run."""

    async def survey(self) -> None:
        """Look at all that stands in the tree now: what a command that is started from here on
        changes is compared with that."""
        ...

    def seen(self) -> Iterable[NameSeen]:
        """What the survey has found."""
        ...

    def tree(self, place: str, masked: tuple[str, ...], *, writable: bool) -> Tree:
        """What a program sees at ``place``, without what is masked."""
        ...

    async def note_session(self, note: SessionNote) -> None:
        """Have it on record how the session goes on that works in this copy."""
        ...

    async def session_note(self) -> SessionNote | None:
        """What was noted last; None where no session has worked here."""
        ...

    def close(self) -> None:
        """Let go of it; what was changed stays, and can be opened again."""
        ...


class Workplace(Protocol):
    """Makes working copies of one root, and finds them again."""

    def new_id(self) -> str:
        """For one that is to be made."""
        ...

    async def make(
        self, *, subject: str, request_id: str, command: tuple[str, ...], id: str | None = None
    ) -> PlacedCopy: ...

    async def open(self, id: str) -> PlacedCopy:
        """Raises `PathNotFound`, and `Busy` where a command is run in it."""
        ...

    async def all(self) -> list[WorkInfo]:
        """Those that were left, oldest first."""
        ...


class WorkInfo(Value, frozen=True, kw_only=True):
    """A working copy that holds what is not in the tree."""

    id: str
    root: str
    subject: str
    began_ns: int
    request_id: str = ""
    command: tuple[str, ...] = ()


class SessionNote(Value, frozen=True, kw_only=True):
    """What of a session outlives its process: where its commands are run, with which variables,
    and the words of those that are under way."""

    cwd: str = "."
    env: dict[str, str] = {}
    running: tuple[str, ...] = ()


class HostShare(Value, frozen=True, kw_only=True):
    """What commands may have of this machine besides their tree and the programs of the system.

    Whoever opens a root says so; no scope can ask for more. ``networks`` are those that commands
    may ask for. ``readable`` are absolute paths that they see at the same place and cannot change.
    ``home`` is a directory that is their ``HOME``: what they change there is changed at once, and
    passes no boundary.
    """

    networks: frozenset[Network] = frozenset(("none",))
    readable: tuple[str, ...] = ()
    home: str | None = None


class Commands(NamedTuple):
    """How commands are run in one root."""

    sandbox: Sandbox
    workplace: Workplace
    share: HostShare = HostShare()


LendsCommands = Callable[[], Commands]
"""Puts it together when it is first needed: most scopes run no command."""


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
