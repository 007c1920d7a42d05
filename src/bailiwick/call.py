"""One operation under way: the value that a verb and the pipeline hand to and fro.

A `Call` says what is asked (operation, verb, places), who asks (grant, caller), and gathers what
came of it (what was decided, what is asked of a person, what changed). What a verb may need of the
pipeline while it acts stands here as `PipelineStages`, so that verbs never see the pipeline itself.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from bailiwick.approvals import Asker, Preview, Question
from bailiwick.audit import Outcome, Record
from bailiwick.errors import BailiwickError, ParseError, escape_for_display
from bailiwick.grant import Grant
from bailiwick.limits import Limits
from bailiwick.meter import Amount, Turn
from bailiwick.model import Change, EntryType
from bailiwick.operations import Access, Command, Operation
from bailiwick.paths import PathText, ScopedPath
from bailiwick.policy import Allow, Ask, Context, Decision
from bailiwick.reader import reader_of
from bailiwick.store import Handle, Look, Reader, Store, made_for
from bailiwick.versions import Mark, past

Result = TypeVar("Result")

NOTHING_TO_SHOW = Preview()

_ASKED_CHARACTERS_MAX = 512
"""How much of a refused path is kept on record: enough to see what was tried."""


class Life:
    """Whether a scope is closed, and the changes it has under way: one for the scope and all that
    are the same scope in another form. Closing waits for those changes, and for nothing that waits
    for somebody else: a person, a reader, the next change."""

    __slots__ = ("_idle", "_under_way", "closed", "closing")

    def __init__(self) -> None:
        self.closed = False
        self.closing = asyncio.Event()
        self._under_way = 0
        self._idle: asyncio.Event | None = None

    def begin(self) -> None:
        self._under_way += 1

    def end(self) -> None:
        self._under_way -= 1
        if self._idle is not None and not self._under_way:
            self._idle.set()

    async def close(self) -> None:
        self.closed = True
        self.closing.set()
        if self._under_way:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The power the pipeline is lent: clocks and fresh names. The core has none of its own."""

    time_ns: Callable[[], int]
    monotonic_ns: Callable[[], int]
    new_request_id: Callable[[], str]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """How a scope is used: through which front, and how its person can be asked.

    ``asker`` puts a question to them where the front can; ``wait_s`` bounds how long a call waits
    for the answer; ``approval`` names an answer given earlier, for exactly the same call.
    ``rehearsal`` is for a front that must know beforehand whether a person will be asked: it is
    told the question, or None where there is none, and a change then ends as `ApprovalDenied`
    before anything is done. ``title`` and ``step`` name the run and the step that calls are part
    of, for people. ``key`` is for one change, and kept with it where the store keeps keys. A verb
    that decides about what lies apart has what it will answer kept by ``foretell``, under its name,
    right before it does anything.
    """

    front: str = "python"
    asker: Asker | None = None
    wait_s: float | None = None
    approval: str | None = None
    rehearsal: Callable[[Question | None], None] | None = None
    title: str | None = None
    step: str | None = None
    key: bytes | None = None
    foretell: Callable[[str, Any], Awaitable[None]] | None = None


class Target(msgspec.Struct, gc=False):
    """A place a call names, by the caller's text, and how it is to be looked up.

    ``directory`` is whether the text demands one; ``handle`` is what it was resolved to.
    """

    text: PathText
    look: Look
    parents: bool = False
    creates: bool = False
    directory: bool = False
    handle: Handle | None = None

    @property
    def recorded(self) -> str:
        """What stands on record for the place: its canonical name, else what was asked for,
        escaped."""
        if self.handle is not None:
            return self.handle.path
        try:
            asked = self.text if isinstance(self.text, str) else str(self.text)
        except Exception:  # whatever a caller passes for a path, its refusal is on record
            asked = f"<{type(self.text).__name__}>"
        return escape_for_display(asked[:_ASKED_CHARACTERS_MAX])


class PastView:
    """An earlier version that a call looks at, by version or the name of a snapshot. Opened once
    the call may look at anything; to be closed."""

    __slots__ = ("_argument", "_store", "version")

    def __init__(self, version: str, argument: str = "as_of") -> None:
        self.version = version
        self._argument = argument
        self._store: Store | None = None

    async def open(self, store: Reader) -> Reader:
        if not isinstance(self.version, str) or not self.version:
            raise ParseError(f"{self._argument} must be a version, or the name of a snapshot")
        self._store = await past(store).as_of(self.version)
        return reader_of(self._store)

    async def aclose(self) -> None:
        if self._store is not None:
            await self._store.aclose()


class Asked(NamedTuple):
    """A rule or hook wants a person to be asked about one place that a call would touch."""

    ask: Ask
    path: ScopedPath


class PipelineStages(Protocol):
    """What a verb may need of the pipeline, whose methods say what each does."""

    async def admit(self, call: Call) -> None: ...
    def succeeded(self, call: Call) -> Record: ...
    async def observed(self, call: Call, record: Record) -> None: ...
    async def failed(self, call: Call, error: BaseException) -> BaseException: ...
    def working(self) -> AbstractContextManager[None]: ...
    def reading(self, call: Call) -> AbstractAsyncContextManager[None]: ...
    def stream_begun(self, call: Call) -> None: ...
    def stream_ended(self, call: Call) -> bool: ...

    @property
    def discreet(self) -> bool:
        """Whether anything can be hidden from one caller and not from another."""
        ...

    @property
    def intends(self) -> bool:
        """Whether the ledger wants to know of a change before it is published."""
        ...

    @property
    def meters(self) -> bool:
        """Whether there may be quotas at all."""
        ...

    @property
    def tells_changes(self) -> bool: ...
    @property
    def machine(self) -> Machine: ...

    def counts(self, grant: Grant) -> bool: ...
    def refuse_closed(self) -> None: ...
    def holds(self, call: Call) -> None: ...
    def decide(
        self, call: Call, path: ScopedPath, access: frozenset[Access], is_directory: bool
    ) -> Decision: ...
    def left_out(
        self, call: Call, paths: Sequence[ScopedPath], access: frozenset[Access], is_directory: bool
    ) -> set[ScopedPath]: ...
    def judge(
        self,
        call: Call,
        path: ScopedPath,
        access: frozenset[Access],
        destination: ScopedPath | None = None,
    ) -> Decision: ...
    def may_refuse_below(
        self, grant: Grant, access: frozenset[Access], directory: ScopedPath
    ) -> bool: ...
    def check_access(self, grant: Grant, needed: frozenset[Access]) -> None: ...
    def obey(
        self, call: Call, decision: Decision, target: Target, path: ScopedPath | None = None
    ) -> None: ...
    async def ask(self, call: Call, preview: Preview) -> None: ...
    async def charge(self, call: Call, size: int, files: int) -> None: ...
    async def let_go(self, call: Call, branch: str) -> None: ...
    async def take_turn(self, call: Call, paths: tuple[ScopedPath, ...]) -> None: ...
    def touching(self, call: Call, path: ScopedPath, *, parents: bool = False) -> None: ...
    def reveals(self, call: Call, path: ScopedPath) -> bool: ...
    def hides_twin(self, grant: Grant, path: ScopedPath) -> str | None: ...


class Call(msgspec.Struct, gc=False):
    """One operation under way: what it is for, what it holds, what it will have changed.

    A struct, like `Target`, because every verb makes one: it costs a third of a plain class.
    """

    pipeline: PipelineStages
    store: Reader
    grant: Grant
    limits: Limits
    caller: Caller
    request_id: str
    operation: Operation
    verb: str
    started_ns: int
    target: Target
    life: Life | None = None
    destination: Target | None = None
    size: int | None = None
    content: bytes | None = None
    context: Context | None = None
    policy_source: str | None = None
    strictness: int = 0
    """How little the decision of ``policy_source`` lets through: what lets through less, and no
    other, is named in its place."""
    hooks: tuple[str, ...] = ()
    questions: list[Asked] | None = None
    approval_id: str | None = None
    intent: int | None = None
    turn: Turn | None = None
    charged: Amount | None = None
    added: Amount | None = None
    added_so_far: Callable[[], Awaitable[Amount]] | None = None
    """Tells what was really added where the call fails, of what may end halfway."""
    over: str | None = None
    """The branch whose growth this takes over, so that it is not counted twice: see `Meter`."""
    bytes: int | None = None
    sha256_before: str | None = None
    sha256_after: str | None = None
    changes: list[Change] | None = None
    in_flight: list[tuple[ScopedPath, bool]] | None = None
    new_parents: list[ScopedPath] | None = None
    approved: tuple[ScopedPath, ...] = ()
    given: Mapping[str, object] | None = None
    """The arguments of the verb by name, as far as it keeps them: for the person who is asked."""
    command: Command | None = None
    """What the operation ``exec`` would run, and for what it changed, what that was changed by."""
    elsewhere: str | None = None
    """Where the call's path is copied to, if that is in another root: see `place_in`."""
    mark: Mark | None = None
    """What the call's changes are stamped with, where the store keeps that."""
    past: PastView | None = None
    past_there: PastView | None = None
    """The earlier version that the call's path, or its destination, is looked up in."""
    store_there: Reader | None = None
    """Where the destination was found, if that is another version than ``store``."""
    judged: object = None
    """The tree or plan, all of which was last held to grant and policy: see `Act.whole`."""
    held: AsyncExitStack | None = None
    """What is let go of when the call is over: see `hold`."""

    @property
    def handle(self) -> Handle:
        """What the call's path was resolved to."""
        handle = self.target.handle
        assert handle is not None, "a verb acts only after its call was admitted"
        return handle

    @property
    def destination_handle(self) -> Handle:
        assert self.destination is not None
        handle = self.destination.handle
        assert handle is not None, "a verb acts only after its call was admitted"
        return handle

    @property
    def goes_to(self) -> str | None:
        """Where the call's path goes, as rules and people are told."""
        destination = self.destination
        if destination is None or destination.handle is None:
            return self.elsewhere
        return destination.handle.path

    def shown(self, path: ScopedPath) -> ScopedPath:
        """A path as the caller sees it, in what is text and no path any more."""
        return path.relative_to(self.grant.base) if path.lies_in(self.grant.base) else path

    @property
    def access_there(self) -> frozenset[Access]:
        """What the call needs at its destination: a comparison reads both of its sides."""
        return self.operation.destination_access or self.operation.access

    def ruled_at(self, target: Target) -> frozenset[Access]:
        """What rules see of the call at one of its places, by what stands there: to create is not
        to replace."""
        operation = self.operation
        kind = None if target.handle is None else target.handle.type
        if target is self.destination:
            over = kind is not None and kind != "directory" and operation.destination_access
            return operation.destination_over if over else self.access_there
        if kind is None:
            return operation.ruled_new
        return operation.ruled if kind == "directory" else operation.ruled_over

    def must_be_new(self, target: Target) -> bool:
        """Whether a call was let through at one of its places because nothing stood there: what
        comes there meanwhile is not to be replaced, since nobody was asked about that."""
        handle, operation = target.handle, self.operation
        if handle is None or handle.type is not None:
            return False
        here = target is not self.destination
        over = operation.ruled_over if here else operation.destination_over
        if over <= self.ruled_at(target):
            return False
        return not isinstance(self.decide(handle.path, over), Allow)

    @property
    def announced(self) -> bool:
        """Whether somebody is told of a change before it is made: a person, or the ledger."""
        return (
            self.questions is not None or self.pipeline.intends or self.caller.rehearsal is not None
        )

    @property
    def metered(self) -> bool:
        """Whether what the call adds or removes is counted against a quota."""
        return self.pipeline.meters and self.pipeline.counts(self.grant)

    def must_decide_below(
        self, directory: ScopedPath, access: frozenset[Access] | None = None
    ) -> bool:
        """Whether a bulk verb has to show what lies beneath ``directory`` to `decide`."""
        grant = self.grant
        return not (
            grant.whole
            or (directory.lies_in(grant.path) and not grant.allowed and not grant.denied)
        ) or self.pipeline.may_refuse_below(grant, access or self.operation.ruled, directory)

    def decide(
        self,
        path: ScopedPath,
        access: frozenset[Access] | None = None,
        is_directory: bool = False,
    ) -> Decision:
        """What grant and policy say of one more path that this call would touch."""
        return self.pipeline.decide(self, path, access or self.operation.ruled, is_directory)

    def left_out(
        self, paths: Sequence[ScopedPath], access: frozenset[Access], *, is_directory: bool
    ) -> set[ScopedPath]:
        """Those of many paths that a bulk read does not include; none of them is the root."""
        return self.pipeline.left_out(self, paths, access, is_directory)

    def require(self, path: ScopedPath, access: frozenset[Access]) -> None:
        """Refuse unless grant and policy allow more than the operation's own access there."""
        self.pipeline.check_access(self.grant, access)
        self.pipeline.obey(self, self.decide(path, access), self.target, path)

    def hold(self) -> AsyncExitStack:
        """What is entered there is left when the call is over, with what it failed of."""
        if self.held is None:
            self.held = AsyncExitStack()
        return self.held

    async def take_turn(self, *paths: ScopedPath) -> None:
        """Wait until nobody else changes what is counted at these places, until the call is over.
        What stands there can then be looked at and relied on. Once a call, and after a person was
        asked: meanwhile others go on."""
        await self.pipeline.take_turn(self, paths)

    async def account(self, size: int, files: int) -> None:
        """Charge quotas with what is about to be added; it is taken back if the call fails. Once it
        is done, ``added`` says what really was, where that is something else."""
        if size > 0 or files > 0:
            await self.pipeline.charge(self, max(size, 0), max(files, 0))

    def changed(
        self,
        kind: Literal["created", "updated", "deleted", "moved"],
        path: ScopedPath,
        type: EntryType,
        *,
        version: str | None = None,
        origin: ScopedPath | None = None,
        subtree: bool = False,
        beneath: tuple[str, ...] = (),
        beneath_truncated: bool = False,
    ) -> None:
        """Note a change, to be told once the call has succeeded."""
        if self.pipeline.tells_changes:
            if kind == "created" and self.new_parents is not None:
                self.made_parents()
            change = Change(
                kind=kind, path=path, type=type, subject=str(self.grant.subject),
                request_id=self.request_id, version=version, origin=origin, subtree=subtree,
                beneath=beneath, beneath_truncated=beneath_truncated,
            )  # fmt: skip
            if self.changes is None:
                self.changes = []
            self.changes.append(change)

    def made_parents(self) -> None:
        """Note the directories that were made on the way: not those that others have made since
        they were found missing."""
        there = self.target if self.destination is None else self.destination
        expected, self.new_parents = self.new_parents, None
        made = made_for(there.handle)
        for parent in (expected or ()) if made is None else made:
            if there.handle is None or parent != there.handle.path:
                self.changed("created", parent, "directory")

    def context_at(self, path: ScopedPath, access: frozenset[Access], interactive: bool) -> Context:
        """What a policy and a hook may know of the call, at one of its places."""
        grant, destination, content = self.grant, self.destination, self.content
        there = None if destination is None or destination.handle is None else destination.handle
        return Context(
            subject=grant.subject, root=grant.root, operation=self.operation.name, access=access,
            path=path, destination=None if there is None or there.path == path else there.path,
            reason=grant.reason, grant_id=grant.id, explicit=grant.explicit, held=grant.access,
            request_id=self.request_id, front=self.caller.front, interactive=interactive,
            size=self.size,
            sha256=None if content is None else hashlib.sha256(content).hexdigest(), paths=1,
            command=self.command,
        )  # fmt: skip

    def record(self, outcome: Outcome, error_kind: str | None) -> Record:
        """What stands on record of the call."""
        machine, target, destination = self.pipeline.machine, self.target, self.destination
        return Record(
            machine.time_ns(), self.request_id, self.grant, self.operation.name, self.verb,
            target.recorded if target.handle is None else target.handle.path,
            None if destination is None else destination.recorded,
            outcome, error_kind, self.policy_source, self.hooks, self.bytes,
            self.sha256_before, self.sha256_after,
            machine.monotonic_ns() - self.started_ns, self.caller.front, self.approval_id,
            None if self.command is None else self.command.recorded, self.caller.title,
            self.caller.step,
        )  # fmt: skip

    def close(self) -> None:
        handle, destination = self.target.handle, self.destination
        if handle is not None:
            handle.close()
        if destination is not None and destination.handle is not None:
            destination.handle.close()


def place_in(grant: Grant, path: ScopedPath) -> str:
    """A place with its root. No path within one root looks like it."""
    return f"{grant.root}://{path}"


class Missing(msgspec.Struct, Generic[Result], frozen=True):
    """For a verb to which it is an answer, not a failure, that nothing is there."""

    errors: tuple[type[BailiwickError], ...]
    answer: Callable[[Call], Result]
