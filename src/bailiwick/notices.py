"""What people and agents are told besides changes: questions, runs and verdicts of a review.

A notice says that something has come about and names it. It never holds content: whoever may see
more asks for it by the id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from bailiwick.approvals import Approval
from bailiwick.model import Value


class ApprovalNotice(Value, frozen=True, kw_only=True):
    """A question was put, answered, or its time is up. The ``approval`` is as it is now, without
    what would be changed."""

    kind: Literal["asked", "answered", "expired"]
    approval: Approval


class RunNotice(Value, frozen=True, kw_only=True):
    """A run has begun, was heard of again, or has ended. ``grant_id`` is the grant that it was last
    heard of under."""

    kind: Literal["begun", "seen", "ended"]
    id: str
    title: str | None
    subject: str
    front: str
    root: str
    begun_ns: int
    seen_ns: int
    calls: int
    grant_id: str | None = None


class ReviewNotice(Value, frozen=True, kw_only=True):
    """A person has accepted or rejected something that an agent did.

    ``subject`` is whose work it was, ``grant_id`` the grant that it was done under, ``by`` who said
    so; ``lines`` says which in words such as ``12-14``, ``note`` is for the agent.
    """

    kind: Literal["accepted", "rejected"]
    root: str
    subject: str
    by: str
    run: str | None = None
    path: str | None = None
    hunks: tuple[str, ...] = ()
    lines: str = ""
    note: str = ""
    grant_id: str | None = None


Notice = ApprovalNotice | RunNotice | ReviewNotice

Told = Callable[[Notice], None]
"""Who is told: called on the event loop, one notice after the other, and never waited for."""
