"""The seam where a person is asked: a `Question` becomes a pending approval, and a `Verdict`.

A question is bound to what will be done: subject, root and branch, operation, what the call names,
its arguments, the paths that are asked about, and the hashes of what will be written and of what
that replaces. An approval of one question never answers another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from bailiwick.grant import AgentRun, Subject, matches_name
from bailiwick.model import Value

Answer = Literal["once", "grant", "always", "no", "never"]
"""What a person can say: this once; for this grant; always, which writes a rule; no; and no for
this grant."""

ALLOWING: frozenset[str] = frozenset(("once", "grant", "always"))

ApprovalState = Literal["pending", "granted", "denied", "expired", "used"]
"""``granted`` waits for the call to come (again); ``used`` has been acted on."""


class Preview(Value, frozen=True, kw_only=True):
    """What a change would do, as far as a person needs to see it.

    ``sha256`` is the hash of the bytes that would be written, ``sha256_before`` of those they
    replace; ``diff`` is a unified diff, cut where it is long (``diff_truncated``).
    """

    sha256: str | None = None
    sha256_before: str | None = None
    size: int | None = None
    diff: str | None = None
    diff_truncated: bool = False


class Question(Value, frozen=True, kw_only=True):
    """One thing a person is asked: may this subject do this to these paths?

    ``target`` is what the call names, which may be far more than what a rule asks about: a whole
    directory goes, and one file in it is why a person is asked. ``destination`` is where it goes;
    in another root it is given with that root. ``arguments`` are those that change what is done, as
    a person reads them. ``paths`` are what rules ask about, canonical, the first ones of
    ``paths_total``; ``sources`` are the rules or hooks that asked. ``default`` is what holds when
    nobody answers in time.
    """

    subject: Subject
    root: str
    operation: str
    verb: str
    access: tuple[str, ...]
    paths: tuple[str, ...]
    paths_total: int
    paths_sha256: str
    """The hash over all paths in order: what is asked is bound to each of them."""
    destination: str | None
    prompt: str
    sources: tuple[str, ...]
    default: Literal["allow", "deny"]
    reason: str
    grant_id: str
    request_id: str
    front: str
    preview: Preview
    target: str = ""
    arguments: str = ""
    branch: str = ""
    """The fork that it ends up in; empty for the root's own branch."""
    command: str | None = None
    """The command as it will be run; it stands in ``arguments`` too."""


class Approval(Value, frozen=True, kw_only=True):
    """A question that was put, and what became of it. Times are nanoseconds since 1970."""

    id: str
    question: Question
    state: ApprovalState
    asked_ns: int
    expires_ns: int
    answer: Answer | None = None
    answered_by: str | None = None
    answered_ns: int | None = None


def always_for(subject: Subject) -> str:
    """Whom an answer "always" is for: the next run of an agent is another subject, to which it
    would mean nothing, so it is for every run."""
    return "agent_run:*" if isinstance(subject, AgentRun) else str(subject)


class Verdict(Value, frozen=True, kw_only=True):
    """Whether to go on. ``by`` is who answered, or ``default`` where nobody did in time."""

    allowed: bool
    approval_id: str | None
    by: str


Asker = Callable[[Approval], Awaitable[Answer | None]]
"""How a front puts a question to its own person (a terminal, an editor, a client that can be
asked). None means that nobody answered here; the question stays open elsewhere."""


class Approvals(Protocol):
    """Puts questions to people and remembers what they said."""

    def interactive(self, front: str) -> bool:
        """Whether somebody can be asked where a front itself has no asker."""
        ...

    async def ask(
        self, question: Question, *, asker: Asker | None, wait_s: float | None
    ) -> Verdict:
        """Put the question and wait for the answer, at most ``wait_s`` or the limit of the rule.

        Raises `ApprovalTimeout` whose details hold ``approval_id``, ``expires_ns`` and
        ``pending`` when ``wait_s`` is over and the question is still open. When the question's own
        time is up, the verdict is its default.
        """
        ...

    async def redeem(self, approval_id: str, question: Question) -> Verdict:
        """Use an approval that was given earlier for exactly this question, once.

        Raises `ApprovalDenied` where it was refused, is for something else, or was used already,
        and `ApprovalTimeout` where it is still open or its time is up.
        """
        ...


class NobodyToAsk:
    """Where there is no person: the default of the question holds at once."""

    def interactive(self, front: str) -> bool:
        return False

    async def ask(
        self, question: Question, *, asker: Asker | None, wait_s: float | None
    ) -> Verdict:
        allowed = question.default == "allow"
        return Verdict(allowed=allowed, approval_id=None, by="default")

    async def redeem(self, approval_id: str, question: Question) -> Verdict:
        return await self.ask(question, asker=None, wait_s=None)


class RememberedRule(Value, frozen=True, kw_only=True):
    """What a person said for more than this once: a rule made of one question.

    It covers exactly what was asked: the operation, each of the paths that were shown, the
    destination, the command, and the branch. ``subject`` is a name, or a pattern that ends in
    ``*``; with ``grant_id`` the rule is for that grant alone.
    """

    id: str
    subject: str
    root: str
    grant_id: str | None
    operation: str
    access: tuple[str, ...]
    paths: tuple[str, ...]
    destination: str | None
    effect: Literal["allow", "deny"]
    reason: str
    approval_id: str
    by: str
    created_ns: int
    branch: str = ""
    command: str | None = None

    def is_for(self, subject: str, root: str, grant_id: str) -> bool:
        """Whether it speaks about what this subject does in this root under this grant."""
        return (
            (self.grant_id is None or self.grant_id == grant_id)
            and self.root == root
            and matches_name(self.subject, subject)
        )

    def covers(
        self, operation: str, path: str, destination: str | None, command: str | None = None
    ) -> bool:
        """Whether this very thing was asked about. A move or copy was asked about with its
        destination: from there the same source may not go elsewhere. So is a command with all its
        words."""
        return (
            self.operation == operation
            and self.destination == destination
            and self.command == command
            and (path in self.paths or (destination is not None and path == destination))
        )
