"""What is on record: one `Record` for every operation and every refusal, never any content."""

from __future__ import annotations

from collections import deque
from typing import Literal, Protocol

from bailiwick.grant import Grant, Root, Subject
from bailiwick.model import Value

Outcome = Literal["success", "denied", "failed"]


class Record(Value, frozen=True):
    """One operation and what became of it.

    ``path`` is canonical where the operation got that far, else what the caller typed, escaped.
    ``error_kind`` is ``cancelled`` for a call that its caller gave up.
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


class Ledger(Protocol):
    """Where records go. What a ledger cannot record is not acknowledged: the call that succeeded
    is an `IoError`. A refusal or failure stays what it is, and the ledger's is logged."""

    def append(self, record: Record) -> None: ...


class AuditRing:
    """The newest records, in memory: a quick look back, gone with the process."""

    def __init__(self, records_max: int) -> None:
        self._records: deque[Record] = deque(maxlen=records_max)
        self.append = self._records.append

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[Record]:
        """The records kept, oldest first."""
        return list(self._records)
