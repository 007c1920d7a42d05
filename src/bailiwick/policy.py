"""The seam where a rule decides: `Policy.decide(context) → Allow | Deny | Ask | Hide`.

A policy is pure and synchronous: it sees the canonical path of what is really acted on, and does
no I/O. It can refuse what a grant allows, never allow what a grant does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from bailiwick.grant import Grant, Root, Subject
from bailiwick.model import Value
from bailiwick.operations import Access, Command, Operation
from bailiwick.paths import ScopedPath


class Context(Value, frozen=True, kw_only=True):
    """Everything a policy and a hook may know of an operation. Never any content.

    ``access`` is what the operation uses at ``path``, where reading what is moved or copied away
    counts as reading, and ``replace`` stands beside ``write`` where a file stands there already;
    ``held`` is all the grant holds, and ``explicit`` whether someone named this
    subject and this root in it. ``command`` is what the operation ``exec`` would run; what such a
    command has changed has it too, and for everything else it is None.
    """

    subject: Subject
    root: Root
    operation: str
    access: frozenset[Access]
    path: ScopedPath
    destination: ScopedPath | None
    reason: str
    grant_id: str
    explicit: bool
    held: frozenset[Access]
    request_id: str
    front: str
    interactive: bool
    size: int | None
    sha256: str | None
    paths: int
    command: Command | None = None


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
    """Whether a bulk read may include a path. Nobody is asked about single entries of a listing
    or search, so an `Ask` is its default."""
    return isinstance(decision, Allow) or (
        isinstance(decision, Ask) and decision.default == "allow"
    )


_STRICTNESS: dict[type, int] = {Allow: 0, Ask: 1, Deny: 2, Hide: 3}


def strictness(decision: Decision) -> int:
    """How little a decision lets through: the larger, the less."""
    return _STRICTNESS[type(decision)]


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The one that lets through least; of equals the first."""
    return max(decisions, key=strictness)


def is_remembered(decision: Decision) -> bool:
    """Whether a person allowed this earlier, for longer than once."""
    return isinstance(decision, Allow) and decision.source.startswith("remembered")


class Policy(Protocol):
    """Decides. Must not raise: a policy that does refuses the operation."""

    @property
    def always(self) -> Decision | None:
        """What it says to everything, if it says one thing: then it need not be asked."""
        ...

    def decide(self, context: Context) -> Decision: ...

    def may_refuse_below(
        self, grant: Grant, access: frozenset[Access], directory: ScopedPath
    ) -> bool:
        """Whether anything but `Allow` is possible for some path beneath ``directory``.

        A bulk operation asks this first, so that where no rule can match nothing is visited.
        """
        ...


@runtime_checkable
class Glances(Protocol):
    """A power of a policy: to say at once what it says of a place, without the whole context.

    For policies that look at nothing but the grant, the operation, its access and the path.
    """

    def glance(
        self,
        grant: Grant,
        operation: Operation,
        access: frozenset[Access],
        path: ScopedPath,
        destination: str | None = None,
    ) -> Decision:
        """Decide as `Policy.decide` would."""
        ...


class SiftedPaths(NamedTuple):
    """What a policy says of most of many paths, and those of which it may say something else."""

    ordinary: Decision
    special: AbstractSet[ScopedPath]


@runtime_checkable
class Sifts(Protocol):
    """A power of a policy: to say at once what it says of most of many paths, so that only the
    others have to be judged. For accesses of which it goes by nothing but what `Glances` names,
    whatever is run: it is not asked about running."""

    def sift(
        self,
        grant: Grant,
        operation: Operation,
        access: frozenset[Access],
        paths: Sequence[ScopedPath],
    ) -> SiftedPaths:
        """``paths`` are canonical, and none of them is the root."""
        ...


@runtime_checkable
class Folds(Protocol):
    """A power of a policy: to say whether it hides anything of the same name but for case and
    accents, in a root where two such names are one."""

    def hides_twin(self, grant: Grant, path: ScopedPath) -> str | None:
        """What hides it; None where nothing does."""
        ...


class AllowAll:
    """The policy of a scope that someone opened for themselves: the grant alone decides."""

    always: Decision | None = Allow("allow-all")

    def decide(self, context: Context) -> Decision:
        return Allow("allow-all")

    def may_refuse_below(
        self, grant: Grant, access: frozenset[Access], directory: ScopedPath
    ) -> bool:
        return False
