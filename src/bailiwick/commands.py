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

    def close(self) -> None:
        """Let go of it; what was changed stays, and can be opened again."""
        ...


class Workplace(Protocol):
    """Makes working copies of one root, and finds them again."""

    async def make(
        self, *, subject: str, request_id: str, command: tuple[str, ...]
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


class Commands(NamedTuple):
    """How commands are run in one root. ``networks`` are those that may be asked for."""

    sandbox: Sandbox
    workplace: Workplace
    networks: frozenset[Network] = frozenset(("none",))


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
