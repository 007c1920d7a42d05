"""What is on record: one `Record` for every operation and every refusal, never any content.

A ledger that keeps records durably is told of a change before it is published (`Ledger.intend`), so
that no change is ever without its record: if the process dies in between, what was intended is on
record as interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from bailiwick.events import Feed
from bailiwick.grant import Grant, Root, Subject
from bailiwick.model import Change, Value

Outcome = Literal["success", "denied", "failed"]


class Record(Value, frozen=True):
    """One operation and what became of it.

    ``path`` is canonical where the operation got that far, else what the caller typed, escaped.
    ``error_kind`` is ``cancelled`` for a call that its caller gave up. ``command`` are the words
    that were run, or would have been. ``title`` and ``step`` are what whoever acts calls the run
    that it is part of, and this step of it.
    """

    time_ns: int
    request_id: str
    grant: Grant
    operation: str
    verb: str
    path: str
    destination: str | None
    outcome: Outcome
    error_kind: str | None
    policy_source: str | None
    hooks: tuple[str, ...]
    bytes: int | None
    sha256_before: str | None
    sha256_after: str | None
    duration_ns: int
    front: str
    approval_id: str | None = None
    command: str | None = None
    title: str | None = None
    step: str | None = None

    @property
    def subject(self) -> Subject:
        return self.grant.subject

    @property
    def grant_id(self) -> str:
        return self.grant.id

    @property
    def root(self) -> Root:
        return self.grant.root

    @property
    def reason(self) -> str:
        return self.grant.reason


AuthorityAct = Literal[
    "grant", "delegate", "revoke", "approve", "trust", "root", "rule", "policy", "token", "ledger"
]


class AuthorityRecord(Value, frozen=True, kw_only=True):
    """What someone did to the authority itself: granted, delegated, revoked, answered, trusted.

    ``subject`` is who did it, as text; ``details`` say the rest in words.
    """

    time_ns: int
    request_id: str
    subject: str
    act: AuthorityAct
    root: str | None = None
    grant_id: str | None = None
    outcome: Outcome = "success"
    error_kind: str | None = None
    reason: str = ""
    front: str = "python"
    details: dict[str, str] = {}


class Intent(Value, frozen=True, kw_only=True):
    """A change that is about to be made: what is on record of it if nothing more is heard."""

    time_ns: int
    request_id: str
    grant: Grant
    operation: str
    verb: str
    path: str
    destination: str | None
    policy_source: str | None
    hooks: tuple[str, ...]
    front: str
    approval_id: str | None
    command: str | None = None
    title: str | None = None
    step: str | None = None


class Ledger(Protocol):
    """Where records go."""

    @property
    def takes_intents(self) -> bool:
        """Whether a change must be announced with `intend` before it is published."""
        ...

    async def intend(self, intent: Intent) -> int:
        """Keep an intent, durably when this returns; the answer names it for `settle`.

        Raises `IoError` where it cannot be kept: then the change must not be made.
        """
        ...

    def note(self, record: Record) -> None:
        """Keep the record of a call that changed nothing: read, refused, or failed before any
        intent. May be batched."""
        ...

    def settle(self, record: Record, intent: int | None, changes: Sequence[Change]) -> None:
        """Keep the record of a change, in place of its intent, and tell the feed what changed.

        Never waits: the intent is durable already.
        """
        ...


@runtime_checkable
class EnclosesNotes(Protocol):
    """A ledger whose intents may be kept with the change itself, by a store that takes notes."""

    def enclose(self, intent: Intent) -> tuple[int, bytes]:
        """What names the intent for `Ledger.settle`, and the note to be committed with the change:
        then nothing has to be kept beforehand. Raises `IoError` where nothing can be kept."""
        ...


@runtime_checkable
class Flushes(Protocol):
    """A ledger that keeps records a little later than it is told of them."""

    async def flush(self) -> None:
        """Wait until everything noted and settled so far is durable. Raises `IoError`."""
        ...


class AuditRing:
    """The newest records, in memory: a quick look back, gone with the process."""

    takes_intents = False

    def __init__(self, records_max: int, feed: Feed | None = None) -> None:
        self._records: deque[Record] = deque(maxlen=records_max)
        self._feed = feed
        self.note = self._records.append

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[Record]:
        """The records kept, oldest first."""
        return list(self._records)

    async def intend(self, intent: Intent) -> int:
        return 0

    def settle(self, record: Record, intent: int | None, changes: Sequence[Change]) -> None:
        self._records.append(record)
        if changes and self._feed is not None:
            self._feed.publish(changes)


class LedgerRecord(Value, frozen=True):
    """One record as a durable ledger keeps it and every wire shows it: flat, and all of it text
    and numbers.

    Records of operations and of acts on the authority are told apart by ``verb``, which is
    ``authority`` for the latter; their ``operation`` is the act. ``seq`` counts from 1 without a
    gap. ``path`` and ``destination`` may be keyed hashes (``hmac-sha256:…``), where the ledger was
    told not to keep names. New fields come at the end, with a default: that is how older records
    are read.
    """

    seq: int
    time_ns: int
    request_id: str
    subject: str
    grant_id: str | None
    root: str | None
    operation: str
    verb: str
    path: str | None
    destination: str | None
    outcome: Outcome
    error_kind: str | None
    policy_source: str | None
    hooks: tuple[str, ...]
    reason: str
    bytes: int | None
    sha256_before: str | None
    sha256_after: str | None
    duration_ns: int
    front: str
    approval_id: str | None
    details: dict[str, str] = {}


SHOWN_CHARACTERS_MAX = 1_000


def shown(given: object) -> str:
    """What was given for an argument as a record shows it, whatever it was."""
    if isinstance(given, (list, tuple, set, frozenset)):
        given = " ".join(sorted(map(str, given)))
    text = given if isinstance(given, str) else repr(given)
    return text[:SHOWN_CHARACTERS_MAX].encode("utf-8", "replace").decode()
