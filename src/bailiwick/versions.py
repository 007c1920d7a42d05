"""What was, and what is tried apart: the values of histories, forks and leases, and the powers of
stores that keep them.

A store that remembers says so in `Store.powers` and has what the protocols here list under its
attribute ``versions``. Nobody has to have all of it: a real directory has a past and no branches.

What changes many paths at once comes in two steps. A *plan* says which paths it would touch and
what would become of each; whoever decides about paths looks at that. It is then carried out with
the plan that was cleared, and where it would touch anything else by now it is `Stale`, and nothing
is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, cast, runtime_checkable

import msgspec

from bailiwick.change_log import Logs
from bailiwick.errors import ParseError, Unsupported
from bailiwick.model import ANYTHING, Change, EntryType, Expected, Value
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Reader, Store, Written

ChangeKind = Literal["created", "updated", "deleted", "moved"]


# --- what callers are told --------------------------------------------------------------------


class Version(Value, frozen=True, kw_only=True):
    """One version of what stands, or stood, at a place.

    ``path`` is where it stood then. ``mode`` is None where nothing stood, and, as ``sha256`` is, of
    what came with its directory. ``time_ns`` and ``verb`` are None where that is no longer known;
    ``subject`` and ``request_id`` are empty where nobody was named.
    """

    version: str
    kind: ChangeKind
    path: ScopedPath
    type: EntryType
    size: int
    sha256: str | None = None
    time_ns: int | None = None
    verb: str | None = None
    subject: str = ""
    request_id: str = ""
    mode: int | None = None


class History(Value, frozen=True, kw_only=True):
    """Versions of a place, newest first; ``next_cursor`` goes on to older ones."""

    path: ScopedPath
    versions: list[Version]
    next_cursor: str | None
    truncated: bool
    request_id: str = ""


class RestoreResult(Value, frozen=True, kw_only=True):
    """What a restore changed. ``version`` is None where all was as it should be already."""

    path: ScopedPath
    version: str | None
    changed: int
    request_id: str


class Conflict(Value, frozen=True):
    """A place that was left as it is, and why."""

    path: ScopedPath
    reason: str


class UndoResult(Value, frozen=True, kw_only=True):
    """What an undo put back, and what it left because it was changed since."""

    version: str | None
    undone: list[ScopedPath]
    conflicts: list[Conflict]
    preview: bool
    request_id: str


class Snapshot(Value, frozen=True, kw_only=True):
    """A version with a name, which is kept for as long as it has it."""

    name: str
    branch: str
    version: str
    created_ns: int


class Fork(Value, frozen=True, kw_only=True):
    """A branch, and the version of its parent that it began with; the first one has no parent."""

    name: str
    parent: str
    version: str
    created_ns: int


class Difference(Value, frozen=True, kw_only=True):
    """One thing that is not the same in two branches. A directory that was moved or removed is one
    thing, whatever lies in it."""

    kind: ChangeKind
    path: ScopedPath
    type: EntryType
    origin: ScopedPath | None = None
    sha256_before: str | None = None
    sha256: str | None = None


class Comparison(Value, frozen=True, kw_only=True):
    """What another branch has that this one has not, and the other way round, sorted by path."""

    differences: list[Difference]
    truncated: bool
    request_id: str = ""


class MergeResult(Value, frozen=True, kw_only=True):
    """What a merge took over, or the conflicts for which it took over nothing."""

    version: str | None
    changed: list[ScopedPath]
    conflicts: list[Conflict]
    preview: bool
    request_id: str


class Leased(Value, frozen=True, kw_only=True):
    """A lock that was given, until it expires. ``token`` grows with every lease of the store."""

    path: ScopedPath
    token: int
    expires_ns: int


# --- what is said with a change -----------------------------------------------------------------


class Mark(msgspec.Struct, eq=False, gc=False):
    """What a change is stamped with, opaque to the store. Read at the instant of the change, so
    that whoever gave it may still add to it until then.

    ``note`` is kept with the change for whoever wrote it there; ``lock_token`` is of a lease that
    the caller holds. Under a ``key`` one change is made and no other, whoever tries again: see
    `Recalls`.
    """

    subject: str = ""
    request_id: str = ""
    note: bytes | None = None
    lock_token: int | None = None
    key: bytes | None = None


@runtime_checkable
class Marks(Protocol):
    """A power: to keep with every change on whose behalf it was made."""

    def marked(self, mark: Mark) -> Store:
        """This store with all its changes carrying the mark: cheap, made for every change, not to
        be closed. Handles of one are good for the other."""
        ...


class MadeChange(NamedTuple):
    """One thing that was changed, and what has stood there since: None for what went, and for what
    has no content. ``version`` is that of all that was changed with it."""

    change: Change
    written: Written | None
    version: str


@runtime_checkable
class Recalls(Protocol):
    """A power of a log: to know a change again by the key that it was made under."""

    async def made_under(self, key: bytes) -> list[MadeChange] | None:
        """What was changed under a key, on whichever branch; None where nothing was, and an empty
        list where it is too much to be told. Raises `BailiwickError` where it cannot be read."""
        ...


# --- what would be touched ----------------------------------------------------------------------


class Touch(NamedTuple):
    """One thing that would be, or was, changed.

    A file that takes the place of another one is ``updated``. ``beneath`` is True for what only
    comes, goes or moves because the directory does that it lies in. Hashes and sizes are those of
    files, ``target`` is the text of a link. Mode and target are those of what stands there
    afterwards, or else of what goes. ``version`` is that of what stands there afterwards.
    """

    path: ScopedPath
    kind: ChangeKind
    type: EntryType
    origin: ScopedPath | None = None
    size: int = 0
    size_before: int = 0
    sha256: str | None = None
    sha256_before: str | None = None
    beneath: bool = False
    mode: int | None = None
    mode_before: int | None = None
    target: str | None = None
    version: str | None = None

    @property
    def sets_mode(self) -> bool:
        """Whether what was there before has another mode afterwards."""
        return None not in (self.mode, self.mode_before) and self.mode != self.mode_before

    @property
    def effect(self) -> tuple[object, ...]:
        """All of it but the version, which is another one each time it is carried out."""
        return self[:-1]


class Plan(NamedTuple):
    """All that something would touch, in order, what goes before what comes; and what stands
    against it. For an undo, ``subjects`` is whose changes it takes back."""

    touches: Sequence[Touch] = ()
    conflicts: Sequence[Conflict] = ()
    subjects: frozenset[str] = frozenset()

    def covers(self, other: Plan) -> bool:
        """Whether ``other`` does exactly the same, and leaves the same for the same reasons."""
        return [each.effect for each in self.touches] == [
            each.effect for each in other.touches
        ] and set(self.conflicts) == set(other.conflicts)


class Done(NamedTuple):
    """What was carried out; ``version`` is None where there was nothing to do."""

    version: str | None
    plan: Plan

    @property
    def conflicts(self) -> list[Conflict]:
        """What stood against it."""
        return list(self.plan.conflicts)


class Stale(Exception):
    """What was to be carried out is not what was cleared any more. Nothing was done."""


# --- powers -------------------------------------------------------------------------------------


class Undoing(NamedTuple):
    """What to undo: a request, several ``requests``, or the versions from ``first`` to ``last``;
    with a ``subject`` only what that one did, and of that what was done from ``since_ns`` on."""

    request_id: str | None = None
    subject: str | None = None
    first: str | None = None
    last: str | None = None
    since_ns: int | None = None
    requests: tuple[str, ...] = ()


class Versions(NamedTuple):
    """Some versions, newest first; ``more`` says that there are older ones."""

    versions: list[Version]
    more: bool


class BeneathPage(NamedTuple):
    """Versions of what lies beneath a directory, newest first, and where older ones go on."""

    versions: list[Version]
    next_cursor: str | None


@runtime_checkable
class TellsBeneath(Protocol):
    """What a past may have besides: what happened to anything beneath a directory."""

    async def beneath(self, path: ScopedPath, *, cursor: str | None, limit: int) -> BeneathPage:
        """What happened to a directory and all that lay in it, newest first; about ``limit`` of it,
        fewer where much else has to be looked through. Raises `ParseError` for a cursor that is
        none."""
        ...


@runtime_checkable
class CountsApart(Protocol):
    """What a past may say besides: whether it is that of several stores, each of which has versions
    of its own, so that their numbers say nothing of each other."""

    @property
    def counts_apart(self) -> bool: ...


def counts_apart(looking: object) -> bool:
    return isinstance(looking, CountsApart) and looking.counts_apart


def beneath_cursor(version: int, told: int) -> str:
    """A cursor after the first ``told`` changes of a version."""
    return f"{version}.{told}"


def parse_beneath_cursor(cursor: str | None, newest: int) -> tuple[int, int]:
    """The version to go on in, and how many of its changes were told."""
    if cursor is None:
        return newest, 0
    version, dot, told = cursor.partition(".")
    if not dot or not all(
        each.isascii() and each.isdigit() and len(each) < 19 for each in (version, told)
    ):
        raise ParseError("this is no cursor of a history")
    return int(version), int(told)


class Past(Protocol):
    """Versions of what was, to be looked at. What lies below the retention is `PathNotFound`, and
    so is a version that never was."""

    async def history(
        self, path: ScopedPath, *, before: str | None = None, limit: int = 100, own: bool = False
    ) -> Versions:
        """The versions of what stands at a canonical path, and of what stood there, newest first;
        those older than the version ``before``. What was moved here brings its versions along; with
        ``own`` nothing is told of what stood here before that came.
        Raises `PathNotFound` where nothing ever was."""
        ...

    async def origin(self, path: ScopedPath, version: str) -> ScopedPath | None:
        """Where something lay that a version has moved to a canonical path; None where it moved
        nothing there."""
        ...

    async def as_of(self, version: str) -> Store:
        """The tree as it was at a version or a snapshot: a store that only reads, to be closed."""
        ...

    async def plan_restore(self, path: ScopedPath, version: str) -> Plan: ...

    async def plan_undo(self, what: Undoing) -> Plan: ...


class Remembers(Past, Protocol):
    """A power: looking back, and going back."""

    async def restore(
        self,
        path: ScopedPath,
        version: str,
        *,
        cleared: Plan | None = None,
        expected: Expected = ANYTHING,
    ) -> Done:
        """Make a place what it was, with all that lies beneath it. Raises `Stale`, and
        `HashMismatch` where something else than ``expected`` stands there now."""
        ...

    async def undo(self, what: Undoing, *, cleared: Plan | None = None) -> Done:
        """Put back what was changed and not changed again by others since; the rest is reported as
        conflicts. Raises `Stale`, and `PathNotFound` where there is nothing to undo."""
        ...


class BranchBeside(NamedTuple):
    """Another branch as it is, and the newest state that both hold, from which each has gone its
    own way since: stores that only read, both to be closed. ``past`` is that of the branch, and
    ``version`` another one whenever something was changed there."""

    store: Store
    origin: Store
    past: Past
    version: str


class Draft(Protocol):
    """A transaction: changes that nobody sees yet."""

    @property
    def store(self) -> Store:
        """The tree as it was when the draft began, and with what was changed in it since."""
        ...

    async def plan(self, mark: Mark) -> Plan: ...

    async def commit(self, mark: Mark, *, cleared: Plan | None = None) -> Done:
        """Have all of it appear at once. Where others changed the same things meanwhile nothing
        does, and the conflicts are told. Raises `Stale`."""
        ...

    async def discard(self) -> None:
        """Let go of it, committed or not. To be called at the end; twice does nothing."""
        ...


class Lines(Protocol):
    """Lines of versions beside each other, to be looked at."""

    async def branch(self) -> str:
        """The name of this one."""
        ...

    async def snapshots(self) -> list[Snapshot]: ...

    async def forks(self) -> list[Fork]: ...

    async def compare(self, name: str) -> list[Difference]:
        """How the branch ``name`` differs from this one."""
        ...

    async def plan_merge(self, name: str) -> Plan: ...

    async def beside(self, name: str) -> BranchBeside:
        """The branch ``name``, to be looked at. Raises `PathNotFound`, and `Unsupported` where it
        and this one have not come from one state."""
        ...


class Branches(Lines, Protocol):
    """A power: making, joining and leaving lines of versions."""

    async def snapshot(self, name: str) -> Snapshot:
        """Keep the newest version under a name. Raises `FileAlreadyExists`, `ParseError`."""
        ...

    async def delete_snapshot(self, name: str) -> None: ...

    async def fork(self, name: str, *, version: str | None = None) -> Store:
        """A branch from the newest version, or an earlier one; to be closed by itself. Raises
        `FileAlreadyExists`, `ParseError`, `PathNotFound`."""
        ...

    async def open_fork(self, name: str) -> Store:
        """Another branch, to be closed by itself. Raises `PathNotFound`."""
        ...

    async def delete_fork(self, name: str) -> None:
        """Raises `PathNotFound`, `ParseError` for the first branch and for this one."""
        ...

    async def merge(self, name: str, *, cleared: Plan | None = None) -> Done:
        """Take over what the branch ``name`` changed; with conflicts, nothing. Raises `Stale`."""
        ...

    async def begin(self) -> Draft: ...


class Leases(Protocol):
    """A power: locks that end by themselves, binding for all who change the store."""

    async def lock(self, entry: Handle, ttl_s: float) -> Leased:
        """A lease on a place and all beneath it, for the subject of the mark. Changes without its
        token are `LockHeld` until it is released or expires. Raises `LockHeld`."""
        ...

    async def renew(self, lease: Leased, ttl_s: float) -> Leased:
        """Keep it longer. Raises `LockHeld` where it has expired."""
        ...

    async def release(self, lease: Leased) -> bool:
        """Give it back. Returns whether it was still there."""
        ...


POWER_NAMES: Final = {
    "Branches": "forks",
    "KnowsMissing": "quick_absence",
    "Leases": "locks",
    "Logs": "change_log",
    "Marks": "attribution",
    "Narrows": "narrowing",
    "Nominates": "indexed_search",
    "Remembers": "history",
    "Stages": "staging",
    "Watches": "foreign_changes",
}
"""What callers know a power by, by the protocol that a store has. ``forks`` are snapshots, merges
and transactions too. What is not listed is a power of somebody's own store, and keeps its name."""


def past(store: Reader) -> Past:
    """The past of a store. Raises `Unsupported` where it has none."""
    hint = 'a volume keeps one, and a directory that has history = "on" where it is configured'
    return cast(Past, _power(store, "Remembers", "keeps no history", hint))


def remembers(store: Store) -> Remembers:
    return cast(Remembers, past(store))


def lines(store: Reader) -> Lines:
    return cast(Lines, _power(store, "Branches", "has no branches"))


def branches(store: Store) -> Branches:
    return cast(Branches, lines(store))


def recalls(store: Store) -> Recalls | None:
    """What knows the changes of a store again by the keys they were made under, where it does."""
    log: object = store.log if "Logs" in store.powers and isinstance(store, Logs) else None
    return log if isinstance(log, Recalls) else None


def check_leases(store: Reader) -> None:
    """Raises `Unsupported` where there are none."""
    _power(store, "Leases", "has no locks")


def leases(store: Store) -> Leases:
    return cast(Leases, _power(store, "Leases", "has no locks"))


def _power(store: Reader, name: str, without: str, hint: str | None = None) -> object:
    if name not in store.powers:
        details = {"power": POWER_NAMES[name]}
        raise Unsupported(f"this root {without}", hint=hint, details=details)
    return store.versions  # type: ignore[attr-defined]
