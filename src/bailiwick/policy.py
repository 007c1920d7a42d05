"""The seam where a rule decides: `Policy.decide(context) → Allow | Deny | Ask | Hide`.

A policy is pure and synchronous: it sees the canonical path of what is really acted on, and does
no I/O. It can refuse what a grant allows, never allow what a grant does not hold.
"""

from __future__ import annotations

from typing import Literal, Protocol

from bailiwick.grant import Root, Subject
from bailiwick.model import Value
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath


class Context(Value, frozen=True, kw_only=True):
    """Everything a policy and a hook may know of an operation. Never any content."""

    subject: Subject
    root: Root
    operation: str
    access: frozenset[Access]
    path: ScopedPath
    destination: ScopedPath | None
    reason: str
    grant_id: str
    request_id: str
    front: str
    interactive: bool
    size: int | None
    sha256: str | None
    paths: int


class Allow(Value, frozen=True):
    """Go on. ``source`` names the rule that said so."""

    source: str


class Deny(Value, frozen=True):
    """Refuse."""

    source: str
    reason: str


class Ask(Value, frozen=True):
    """Put it to a person; ``default`` holds where nobody can be asked."""

    source: str
    prompt: str
    default: Literal["allow", "deny"] = "deny"


class Hide(Value, frozen=True):
    """For this subject the path does not exist."""

    source: str


Decision = Allow | Deny | Ask | Hide


def permits(decision: Decision) -> bool:
    """Whether an operation may go on. Nobody can be asked yet, so an `Ask` is its default."""
    return isinstance(decision, Allow) or (
        isinstance(decision, Ask) and decision.default == "allow"
    )


class Policy(Protocol):
    """Decides. Must not raise: a policy that does refuses the operation."""

    @property
    def always(self) -> Decision | None:
        """What it says to everything, if it says one thing: then it need not be asked."""
        ...

    def decide(self, context: Context) -> Decision: ...

    def may_refuse_below(self, directory: ScopedPath) -> bool:
        """Whether anything but `Allow` is possible for some path beneath ``directory``.

        A bulk operation asks this first, so that where no rule can match nothing is visited.
        """
        ...


class AllowAll:
    """The policy of a scope that someone opened for themselves: the grant alone decides."""

    always: Decision | None = Allow("allow-all")

    def decide(self, context: Context) -> Decision:
        return Allow("allow-all")

    def may_refuse_below(self, directory: ScopedPath) -> bool:
        return False
