"""What every verb of a scope stands on: its grant, its caller, and the one way to make a call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, Self, TypeVar

import msgspec

from bailiwick.approvals import Asker
from bailiwick.call import Call, Caller, Life, Missing, PastView, Target
from bailiwick.commands import PlacedCopy
from bailiwick.errors import BailiwickError, Closed, MissingAccess, ParseError, Unsupported
from bailiwick.finishing import closes_anywhere, to_the_end
from bailiwick.grant import AgentRun, Automation, Core, Extension, Grant, Root, Subject, User
from bailiwick.limits import Limits
from bailiwick.operations import Access, Command, Operation
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Pipeline
from bailiwick.proposal import Prepare, Proposal
from bailiwick.runs import check_run_name
from bailiwick.scope.powers import Powers
from bailiwick.verbs.arguments import check_request_id, checking, locking
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.versions import Mark

Result = TypeVar("Result")


class Delegates(Protocol):
    """Makes narrower grants. Lent to a scope by whoever composed it."""

    async def delegate(self, parent: Grant, asked: Delegation, front: str) -> Lent: ...

    async def create_temp(self, parent: Grant, seconds: float | None, front: str) -> Lent: ...

    async def beside(self, grant: Grant, root: str, front: str) -> Lent:
        """Another root that the holder of a grant may read. Raises `MissingAccess`,
        `RootNotFound`, `ParseError`."""
        ...


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """What a narrower grant is to hold; None keeps what the parent has."""

    subject: Subject
    access: frozenset[Access] | None
    path: str
    rebase: bool
    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    expires_in: float | None
    reason: str

    def refuse_wider(self, parent: Grant) -> None:
        """Refuse a subject for whom rules are more lenient than for the holder: whoever names a
        person, the host or the owner of a storage as their heir would act under that name."""
        holder, heir = parent.subject, self.subject
        if type(heir) not in _RANK:
            raise ParseError("a subject is Core, User, AgentRun, Extension or Automation")
        if holder == heir:
            return
        owns = str(heir) in (f"extension:{parent.root.id}", parent.root.owner)
        if _RANK[type(heir)] > _RANK[type(holder)] or (
            owns and not isinstance(holder, (Core, User))
        ):
            raise MissingAccess(
                f"{holder} cannot pass on its grant to {heir}", hint="a grant only narrows"
            )


_RANK: dict[type, int] = {Core: 3, User: 2, AgentRun: 1, Extension: 0, Automation: 0}
"""Whom shipped rules and the defaults of kinds let do more."""


class Lent(msgspec.Struct, frozen=True, kw_only=True):
    """What a scope is made of: the pipeline of its root, its grant, and what both need.

    ``closing`` is what closing the scope does; with ``owns_root`` it closes the root as well, whose
    pipeline then refuses and records what comes later. ``own_branch`` is the name of the root's own
    branch, for a scope on another.
    """

    pipeline: Pipeline
    grant: Grant
    ignores: Ignores
    caller: Caller = Caller()
    delegates: Delegates | None = None
    copy_in: tuple[ScopeCore, ...] = ()
    closing: Callable[[], Awaitable[None]] | None = None
    owns_root: bool = False
    own_branch: str = ""


class ScopeCore:
    """The tree one grant sees."""

    def __init__(self, lent: Lent, request_id: str | None = None, life: Life | None = None) -> None:
        self._lent = lent
        self._pipeline = lent.pipeline
        self._ignores = lent.ignores
        self._caller = lent.caller
        self._request_id = request_id
        self._life = life or Life()
        self.grant = lent.grant
        # A rebased scope names places from another top: what comes back is turned round.
        self._start: Callable[..., Coroutine[Any, Any, Any]] = (
            self._pipeline.run if self.grant.base == "." else self._start_rebased
        )

    @property
    def root(self) -> Root:
        return self.grant.root

    @property
    def subject(self) -> Subject:
        return self.grant.subject

    @property
    def access(self) -> frozenset[Access]:
        return self.grant.access

    @property
    def limits(self) -> Limits:
        return self.grant.limits

    @property
    def powers(self) -> frozenset[str]:
        """What the store beneath can do beyond the common verbs: ``history``, ``forks``, ``locks``,
        ``foreign_changes`` …"""
        return Powers.of(self._pipeline.store.powers)

    @property
    def description(self) -> dict[str, str]:
        """How the store works here: kind, containment, durability …"""
        return self._pipeline.store.description

    def __repr__(self) -> str:
        return f"<Scope {self.root} for {self.subject}>"

    def with_request(self, request_id: str) -> Self:
        """This scope with an id: its results, errors and records carry ``request_id``.

        An id is 1 to 128 printable characters.
        """
        check_request_id(request_id)
        return type(self)(self._lent, request_id, self._life)

    def with_approval(self, approval_id: str) -> Self:
        """This scope for a call that a person has approved: exactly the call they saw."""
        return self._as_called(approval=approval_id)

    def with_caller(
        self, front: str, *, asker: Asker | None = None, wait_s: float | None = None
    ) -> Self:
        """This scope as a front uses it: its name on record, and how its person is asked."""
        return self._as_called(front=front, asker=asker, wait_s=wait_s)

    def with_run(self, *, title: str | None = None, step: str | None = None) -> Self:
        """This scope for a run that people are to know by a ``title``, and for a ``step`` of it:
        each is one line of at most 200 characters. What is not given stays as it was."""
        caller = self._caller
        return self._as_called(
            title=caller.title if title is None else check_run_name("title", title),
            step=caller.step if step is None else check_run_name("step", step),
        )

    def with_text_max(self, text_bytes: int) -> Self:
        """This scope with text reads that return at most ``text_bytes``: a front may want less
        than the limit. More than the limit is no more."""
        limits = self.grant.limits
        if text_bytes >= limits.text_read_bytes_max:
            return self
        limits = msgspec.structs.replace(limits, text_read_bytes_max=text_bytes)
        grant = msgspec.structs.replace(self.grant, limits=limits)
        lent = msgspec.structs.replace(self._lent, grant=grant)
        return type(self)(lent, self._request_id, self._life)

    def _as_called(self, **changes: Any) -> Self:
        """For `front_access`, as is what follows it."""
        caller = msgspec.structs.replace(self._caller, **changes)
        lent = msgspec.structs.replace(self._lent, caller=caller)
        return type(self)(lent, self._request_id, self._life)

    def _with_file_max(self, file_bytes: int) -> Self:
        limits = self.grant.limits
        if file_bytes >= limits.max_file_bytes:
            return self
        limits = msgspec.structs.replace(limits, max_file_bytes=file_bytes)
        grant = msgspec.structs.replace(self.grant, limits=limits)
        lent = msgspec.structs.replace(self._lent, grant=grant)
        return type(self)(lent, self._request_id, self._life)

    def _runs_commands(self) -> bool:
        lends = self._pipeline.commands
        return lends is not None and not any(lack.fatal for lack in lends().sandbox.missing())

    @closes_anywhere
    async def aclose(self) -> None:
        """Wait for work under way and let go. Verbs called afterwards raise `Closed`."""
        if not self._lent.owns_root:
            self._life.closed = True
            self._pipeline.changes.wake()
            await self._life.close()
        if self._lent.closing is not None:
            await self._lent.closing()

    async def _read_by(self, subject: Subject) -> Self:
        """This tree to be read and nothing else, as another subject may read it."""
        assert self._lent.delegates is not None, "whoever composes a scope lets it delegate"
        asked = Delegation(
            subject=subject, access=frozenset({"read"}), path=".", rebase=False, allowed=(),
            denied=(), expires_in=None, reason="",
        )  # fmt: skip
        front = self._caller.front
        return type(self)(await self._lent.delegates.delegate(self.grant, asked, front))

    def _refuse_closed(self) -> None:
        if self._life.closed:
            raise Closed("this scope is closed")

    def _call(
        self,
        operation: Operation,
        verb: str,
        target: Target,
        destination: Target | None = None,
        size: int | None = None,
        content: bytes | None = None,
        lock_token: int | None = None,
    ) -> Call:
        if self._life.closed:
            self._refuse_closed()
        pipeline, grant = self._pipeline, self.grant
        machine = pipeline.machine
        request_id = self._request_id or machine.new_request_id()
        mark = None
        if operation.changes and pipeline.marks is not None:
            mark = Mark(str(grant.subject), request_id, None, lock_token, self._caller.key)
        return Call(
            pipeline, pipeline.reader, grant, grant.limits, self._caller, request_id, operation,
            verb, machine.monotonic_ns(), target, self._life, destination, size, content, mark=mark,
        )  # fmt: skip

    def _beneath(self) -> tuple[Self, PlacedCopy]:
        """A scope on what this overlay lies over, and what was changed on top. Raises
        `Unsupported` where it is none."""
        beneath = self._pipeline.beneath
        if beneath is None:
            hint = 'bailiwick.open("overlay:./project")'
            raise Unsupported("this root is no overlay", hint=hint)
        ignores = self._ignores.anew()
        lent = msgspec.structs.replace(self._lent, pipeline=beneath.pipeline, ignores=ignores)
        return type(self)(lent, self._request_id, self._life), beneath.copy

    @property
    def _top(self) -> Target:
        """All that the grant reaches, for what is about no place in particular."""
        top = self.grant.path.relative_to(self.grant.base)
        return Target(top, "entry", parents=True)

    def _run(
        self,
        operation: Operation,
        verb: str,
        place: Target,
        prepare: Prepare[Result],
        destination: Target | None = None,
        written: int | None = None,
        content: bytes | None = None,
        /,
        *,
        lock_token: int | None = None,
        as_of: str | None = None,
        missing: Missing[Result] | None = None,
        command: Command | None = None,
        **given: object,
    ) -> Coroutine[Any, Any, Result]:
        """One call. What was ``given`` is checked inside it, so that a refusal is on record."""
        call = self._call(operation, verb, place, destination, written, content, lock_token)
        call.command = command
        if lock_token is not None:
            prepare = locking(lock_token, prepare)
        if given:
            call.given = given
            prepare = checking(given, prepare)
        return self._carry_out(call, prepare, as_of, missing)

    def _foretelling(self, verb: str, proposal: Proposal[Result]) -> Proposal[Result]:
        """A proposal whose answer is kept before it is done, where somebody asks under a key."""
        foretell, foretold, look = self._caller.foretell, proposal.foretold, proposal.last_look
        if foretell is None or foretold is None:
            return proposal

        async def last_look() -> None:
            if look is not None:
                await look()
            await foretell(verb, foretold())

        return msgspec.structs.replace(proposal, last_look=last_look)

    def _carry_out(
        self,
        call: Call,
        prepare: Prepare[Result],
        as_of: str | None,
        missing: Missing[Result] | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """A call as it is, or by what was at an earlier version."""
        if as_of is None:
            return self._start(call, prepare, missing)
        call.past = PastView(as_of)
        return self._closing_past(call, self._start(call, prepare, missing))

    @closes_anywhere
    async def _closing_past(self, call: Call, work: Awaitable[Result]) -> Result:
        """Wait for what looks at earlier versions, and let go of those."""
        try:
            return await work
        finally:
            for past in (call.past, call.past_there):
                if past is not None:
                    await to_the_end(past.aclose())

    def _ignores_at(self, as_of: str | None) -> Ignores:
        """The ignore rules as they were: what is remembered is of now."""
        return self._ignores if as_of is None else self._ignores.anew()

    async def _start_rebased(
        self,
        call: Call,
        prepare: Prepare[Result],
        missing: Missing[Result] | None = None,
    ) -> Result:
        return await self._rebased(self._pipeline.run(call, prepare, missing))

    async def _rebased(self, work: Awaitable[Result]) -> Result:
        try:
            result: Result = seen_from(await work, self.grant.base)
        except BailiwickError as error:
            rebase_error(error, self.grant.base)
            raise
        return result

    async def _rebased_all(
        self, values: AsyncGenerator[Result, None]
    ) -> AsyncGenerator[Result, None]:
        try:
            async for value in values:
                yield seen_from(value, self.grant.base)
        except BailiwickError as error:
            rebase_error(error, self.grant.base)
            raise
        finally:
            await values.aclose()


def seen_from(value: Any, base: ScopedPath) -> Any:
    """A result with every path in it as seen from ``base``."""
    if base == ".":
        return value
    if isinstance(value, ScopedPath):
        return value.relative_to(base) if value.lies_in(base) else value
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            seen = seen_from(field, base)
            if seen is not field:
                changed[name] = seen
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, list):
        return [seen_from(each, base) for each in value]
    return value


def rebase_error(error: BailiwickError, base: ScopedPath) -> None:
    """Show the path of an error from ``base``, or not at all where it lies outside."""
    if error.path is not None and base != ".":
        path = ScopedPath(error.path)
        error.path = path.relative_to(base) if path.lies_in(base) else None
        if isinstance(error, OSError):
            error.filename = error.path
