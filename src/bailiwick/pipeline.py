"""The one chokepoint: grant → resolve → policy → hooks → store → audit → events.

Every verb of every scope is one `Call` that passes through `Pipeline.run`. Nothing else turns a
path into a handle, so nothing reaches a store unchecked or unrecorded. A verb's action acts on the
handles of its call only; what it visits beyond them (a walk, a search) it must show to
`Call.decide` first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Generic, Literal, TypeVar

import msgspec

from bailiwick.audit import Ledger, Outcome, Record
from bailiwick.errors import (
    ApprovalDenied,
    BailiwickError,
    Closed,
    FileAlreadyExists,
    GrantExpired,
    InternalError,
    IoError,
    MissingAccess,
    PathNotFound,
    PolicyDenied,
    PolicyError,
    UntrustedWorkspace,
    escape_for_display,
    from_os_error,
)
from bailiwick.events import Changes
from bailiwick.grant import Grant
from bailiwick.hook import Hooks
from bailiwick.model import Change, EntryType, Limits
from bailiwick.operations import MOVE, Access, Operation
from bailiwick.paths import ROOT, PathText, ScopedPath, check_new_name, folded, parse
from bailiwick.policy import Allow, Context, Decision, Deny, Hide, Policy, permits
from bailiwick.store import Handle, Look, Store

_log = logging.getLogger("bailiwick.pipeline")

Result = TypeVar("Result")

_ASKED_CHARACTERS_MAX = 512
"""How much of a refused path is kept on record: enough to see what was tried."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The power the pipeline is lent: clocks and fresh names. The core has none of its own."""

    time_ns: Callable[[], int]
    monotonic_ns: Callable[[], int]
    new_request_id: Callable[[], str]


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


class Call(msgspec.Struct, gc=False):
    """One operation under way: what it is for, what it holds, what it will have changed.

    A struct, like `Target`, because every verb makes one: it costs a third of a plain class.
    """

    pipeline: Pipeline
    store: Store
    grant: Grant
    limits: Limits
    front: str
    request_id: str
    operation: Operation
    verb: str
    started_ns: int
    target: Target
    destination: Target | None = None
    size: int | None = None
    context: Context | None = None
    policy_source: str | None = None
    hooks: tuple[str, ...] = ()
    bytes: int | None = None
    sha256_before: str | None = None
    sha256_after: str | None = None
    changes: list[Change] | None = None

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
    def access_there(self) -> frozenset[Access]:
        """What the call needs at its destination: a comparison reads both of its sides."""
        return self.operation.destination_access or self.operation.access

    def must_decide_below(self, directory: ScopedPath) -> bool:
        """Whether a bulk verb has to show what lies beneath ``directory`` to `decide`."""
        return not directory.lies_in(self.grant.path) or self.pipeline.policy.may_refuse_below(
            directory
        )

    def decide(self, path: ScopedPath, access: frozenset[Access] | None = None) -> Decision:
        """What policy says of one more path that this call would touch."""
        if not path.lies_in(self.grant.path):
            return Hide("grant")
        return self.pipeline.decide(self, path, None, access or self.operation.access)

    def require(self, path: ScopedPath, access: frozenset[Access]) -> None:
        """Refuse unless grant and policy allow more than the operation's own access there."""
        self.pipeline.check_access(self.grant, access)
        self.pipeline.obey(self, self.decide(path, access), self.target, path)

    def changed(
        self,
        kind: Literal["created", "updated", "deleted", "moved"],
        path: ScopedPath,
        type: EntryType,
        *,
        version: str | None = None,
        origin: ScopedPath | None = None,
        subtree: bool = False,
    ) -> None:
        """Note a change, to be told once the call has succeeded."""
        if self.pipeline.changes:
            change = Change(
                kind=kind, path=path, type=type, subject=str(self.grant.subject),
                request_id=self.request_id, version=version, origin=origin, subtree=subtree,
            )  # fmt: skip
            self.changes = [*(self.changes or ()), change]

    def close(self) -> None:
        if self.target.handle is not None:
            self.target.handle.close()
        if self.destination is not None and self.destination.handle is not None:
            self.destination.handle.close()


class Missing(msgspec.Struct, Generic[Result], frozen=True):
    """For a verb to which it is an answer, not a failure, that nothing is there."""

    errors: tuple[type[BailiwickError], ...]
    answer: Callable[[Call], Result]


class Pipeline:
    """The stages that every operation on one root passes."""

    def __init__(
        self,
        *,
        store: Store,
        policy: Policy,
        hooks: Hooks,
        ledger: Ledger,
        changes: Changes,
        machine: Machine,
    ) -> None:
        self.store = store
        self.policy = policy
        self._always = policy.always
        # Looked at by every read: whether anything can be hidden from one caller and not another.
        self.policy_varies = policy.always is None
        self.hooks = hooks
        self.ledger = ledger
        self.changes = changes
        self.machine = machine
        self.closed = False
        self._under_way = 0
        self._idle: asyncio.Event | None = None

    async def run(
        self,
        call: Call,
        act: Callable[[Call], Awaitable[Result]],
        missing: Missing[Result] | None = None,
    ) -> Result:
        """Admit the call, act, and put it on record: the whole product on one page."""
        self._under_way += 1
        try:
            try:
                await self.admit(call)
                result = await act(call)
            except BaseException as error:
                if missing is None or not isinstance(error, missing.errors):
                    raise await self.failed(call, error) from cause_of(error)
                result = missing.answer(call)
            # From here to the return nothing can be cancelled: what was done is done, and told.
            record = self.succeeded(call)
            if self.hooks.registered:
                await self.observed(call, record)
            return result
        finally:
            self._under_way -= 1
            if self._idle is not None:
                self._rest()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Closing waits for this part of a call that comes and goes: a stream between two chunks
        waits for its reader, who may never come back."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._rest()

    def _rest(self) -> None:
        if self._idle is not None and not self._under_way:
            self._idle.set()

    async def aclose(self) -> None:
        """Refuse new calls, wait for those under way, and close the store, which ends streams."""
        self.closed = True
        if self._under_way:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()
        await self.store.aclose()

    def refuse_closed(self) -> None:
        """For what goes on after it was admitted, and need not be waited for: streams."""
        if self.closed:
            raise Closed("this scope is closed")

    async def admit(self, call: Call) -> None:
        """Grant → resolve → policy → hooks: afterwards the call's handles may be acted on."""
        target, destination = call.target, call.destination
        if self.closed:
            self.refuse_closed()
        grant, operation = call.grant, call.operation
        if (
            operation.changes
            or grant.expires_at is not None
            or not operation.needed <= grant.access
        ):
            self._check_grant(grant, operation)
        target.handle = handle = await self._resolve(call, target)
        if destination is not None:
            destination.handle = await self._resolve(call, destination)
        if type(self._always) is Allow and not self.hooks.registered:
            call.policy_source = self._always.source
        else:
            await self._judge_all(call, handle.path)
        made = target if destination is None else destination
        if made.creates and made.handle is not None and made.handle.type is None:
            await self._check_new_names(call, made, made.handle)

    async def _judge_all(self, call: Call, path: ScopedPath) -> None:
        """Policy on each place the call names, then the hooks on the whole of it."""
        target, destination = call.target, call.destination
        there = None if destination is None else call.destination_handle.path
        self.obey(call, self.decide(call, path, there, call.operation.access), target)
        if destination is not None and there is not None:
            self.obey(call, self.decide(call, there, None, call.access_there), destination)
        if self.hooks.registered:
            await self._ask_hooks(call)

    def succeeded(self, call: Call) -> Record:
        """Audit → events, once the store has acted."""
        record = self._record(call, "success", None)
        call.close()
        try:
            self.ledger.append(record)
        except Exception as error:
            # AUDIT-4 wants a change refused before it is published when it cannot be recorded. A
            # ledger is only asked afterwards yet, since a record holds the outcome; until there is
            # a durable one that takes an intent first, what was not recorded is not acknowledged.
            unrecorded = IoError("it was done, but the record could not be written")
            unrecorded.request_id = call.request_id
            raise unrecorded from error
        if call.changes is not None:
            for change in call.changes:
                self.changes.publish(change)
        return record

    async def observed(self, call: Call, record: Record) -> None:
        """Show the outcome to the hooks, where the call got as far as a policy.

        Not to be cancelled: it would make an outcome that is on record look like another one.
        """
        if call.context is not None and self.hooks.registered:
            await to_the_end(self.hooks.after(call.context, record))

    async def failed(self, call: Call, error: BaseException) -> BaseException:
        """Put a refusal, failure or cancellation on record; returns what to raise."""
        call.close()
        if not isinstance(error, Exception):
            self._record_failure(self._record(call, "failed", "cancelled"))
            return error
        error = _typed(error)
        error.request_id = call.request_id
        if error.decided_by is not None:
            call.policy_source = error.decided_by
        outcome: Outcome = "denied" if isinstance(error, PolicyError) else "failed"
        record = self._record(call, outcome, error.kind)
        self._record_failure(record)
        await self.observed(call, record)
        return error

    def _record_failure(self, record: Record) -> None:
        """What went wrong first is what the caller is told, not what went wrong on recording it."""
        try:
            self.ledger.append(record)
        except Exception as error:
            extra = {"request_id": record.request_id, "error_kind": record.error_kind}
            _log.error("the record could not be written", extra=extra, exc_info=error)

    def decide(
        self,
        call: Call,
        path: ScopedPath,
        destination: ScopedPath | None,
        access: frozenset[Access],
    ) -> Decision:
        """Ask the policy about one path."""
        if self._always is not None and not self.hooks.registered:
            return self._always
        context = self._context_of(call, path, destination, access)
        if call.context is None:
            call.context = context
        return self._judge(context)

    def _judge(self, context: Context) -> Decision:
        """A policy that raises has refused."""
        try:
            return self.policy.decide(context)
        except Exception as error:
            return Deny("policy", f"the policy failed: {type(error).__name__}")

    def check_access(self, grant: Grant, needed: frozenset[Access]) -> None:
        if not needed <= grant.access:
            missing = ", ".join(sorted(needed - grant.access))
            raise MissingAccess(
                f"the grant does not hold: {missing}", hint="ask for it when requesting the root"
            )

    def _check_grant(self, grant: Grant, operation: Operation) -> None:
        if not operation.needed <= grant.access:
            self.check_access(grant, operation.needed)
        if grant.expires_at is not None and self.machine.time_ns() >= grant.expires_at * 1e9:
            raise GrantExpired("the grant's time is up", hint="request the root again")
        if operation.changes and not grant.root.trusted:
            raise UntrustedWorkspace(
                "this root is not trusted, so it can only be read", hint="trust it to change it"
            )

    def _resolve(self, call: Call, target: Target) -> Awaitable[Handle]:
        """What a target leads to. Where nothing can be hidden, the store's own answer will do."""
        grant = call.grant
        path, directory = parse(target.text, grant.root.mount_point, grant.root.names)
        target.directory = directory
        if self._always is None or grant.path != ".":
            return self._resolve_discreetly(call, target, path)
        return self.store.resolve(path, target.look, directory=directory, parents=target.parents)

    async def _resolve_discreetly(self, call: Call, target: Target, path: ScopedPath) -> Handle:
        """The same for a caller to whom some places must not show, not even by an error."""
        reach = call.grant.path
        if not path.lies_in(reach):
            raise _beyond_the_grant(path)
        try:
            handle = await self.store.resolve(
                path, target.look, directory=target.directory, parents=target.parents
            )
        except BailiwickError:
            await self._keep_secret(call, target, path)
            raise
        if not handle.path.lies_in(reach):
            handle.close()
            raise _beyond_the_grant(path)
        return handle

    async def _keep_secret(self, call: Call, target: Target, path: ScopedPath) -> None:
        """Why a lookup failed tells what stands on its way, which may be no business of the caller.

        So the way is gone again: where it comes by a hidden name, nothing was found, and where it
        leaves what the grant reaches, that is said, whatever stands there.
        """
        reach = call.grant.path
        access = call.access_there if target is call.destination else call.operation.access
        async with aclosing(self._way(path, target.look, call.limits.link_hops_max)) as way:
            async for place in way:
                if not place.lies_in(reach) and not reach.lies_in(place):
                    raise _beyond_the_grant(path)
                if self._always is None:
                    decision = self._judge(self._context_of(call, place, None, access))
                    if isinstance(decision, Hide):
                        self.obey(call, decision, target)

    async def _way(
        self, path: ScopedPath, look: Look, hops_max: int
    ) -> AsyncGenerator[ScopedPath, None]:
        """Every place a lookup comes by: links followed, and from what is missing on as spelled."""
        place, ahead, hops = ROOT, list(reversed(path.parts)), 0
        while ahead:
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if place.is_root:
                    return
                place = place.parent
                continue
            place = place.child(name)
            yield place
            if look == "entry" and not ahead:
                return
            text = await self._link_at(place)
            if text is None:
                continue
            hops += 1
            if hops > hops_max:
                return
            await asyncio.sleep(0)  # a long chain of long links is slow to follow
            ahead.extend(reversed(text.split("/")))
            place = ROOT if text.startswith("/") else place.parent

    async def _link_at(self, place: ScopedPath) -> str | None:
        """The text of the link at a place, if there is one that can be followed."""
        try:
            entry = await self.store.resolve(place, "entry")
        except BailiwickError:
            return None
        try:
            return await self.store.readlink(entry) if entry.type == "symlink" else None
        except BailiwickError:
            return None
        finally:
            entry.close()

    def obey(
        self, call: Call, decision: Decision, target: Target, path: ScopedPath | None = None
    ) -> None:
        """Go on or raise, as was decided about ``path`` or what the target was resolved to."""
        call.policy_source = decision.source
        if isinstance(decision, Allow) or permits(decision):
            return
        if isinstance(decision, Hide):
            # By the name the caller gave: the canonical one would tell where their link leads.
            path = path or named(call, target)
            if target.creates:
                raise PolicyDenied("a rule keeps this name", path=path, decided_by=decision.source)
            raise PathNotFound("no such file or directory", path=path)
        if path is None:
            path = target.handle.path if target.handle is not None else ROOT
        if isinstance(decision, Deny):
            raise PolicyDenied(decision.reason, path=path, decided_by=decision.source)
        # Nobody can be asked yet, so the rule's default held at once.
        raise ApprovalDenied(
            "this needs a person's approval and nobody can be asked",
            path=path, decided_by=decision.source,
        )  # fmt: skip

    async def _check_new_names(self, call: Call, target: Target, handle: Handle) -> None:
        """A name about to be made is held to more than one that exists already."""
        check_new_name(handle.path.name)
        if call.grant.root.names == "portable":
            await self._check_siblings(call, handle)
        if target.parents:
            await self._check_new_parents(call, target, handle.path.parent)

    async def _check_new_parents(self, call: Call, target: Target, above: ScopedPath) -> None:
        """Directories that would be made on the way are new names too, and policy sees them."""
        while not above.is_root:
            entry = await self.store.resolve(above, "entry", parents=True)
            try:
                if entry.type is not None:
                    return
                check_new_name(above.name)
                if call.grant.root.names == "portable":
                    await self._check_siblings(call, entry)
            finally:
                entry.close()
            self.obey(call, self.decide(call, above, None, call.access_there), target, above)
            above = above.parent

    async def _check_siblings(self, call: Call, entry: Handle) -> None:
        name = entry.path.name
        twin = folded(name)
        for other in await self.store.names_beside(entry):
            if other == name or folded(other) != twin:
                continue
            if call.operation is MOVE and call.handle.path == entry.path.parent.child(other):
                continue  # what is moved: only the case of its own name changes
            raise FileAlreadyExists(
                "a name that differs only in case or accents exists",
                path=entry.path, hint="this root keeps names portable",
            )  # fmt: skip

    async def _ask_hooks(self, call: Call) -> None:
        assert call.context is not None, "hooks are asked after the policy"
        interferences, call.hooks = await self.hooks.before(call.context)
        for interference in interferences:
            self.obey(call, interference, call.target)

    def _context_of(
        self,
        call: Call,
        path: ScopedPath,
        destination: ScopedPath | None,
        access: frozenset[Access],
    ) -> Context:
        grant = call.grant
        return Context(
            subject=grant.subject, root=grant.root, operation=call.operation.name, access=access,
            path=path, destination=destination, reason=grant.reason, grant_id=grant.id,
            request_id=call.request_id, front=call.front, interactive=False,
            size=call.size, sha256=call.sha256_after, paths=1,
        )  # fmt: skip

    def _record(self, call: Call, outcome: Outcome, error_kind: str | None) -> Record:
        machine, target, destination = self.machine, call.target, call.destination
        return Record(
            machine.time_ns(), call.request_id, call.grant, call.operation.name, call.verb,
            _recorded_path(target) if target.handle is None else target.handle.path,
            None if destination is None else _recorded_path(destination),
            outcome, error_kind, call.policy_source, call.hooks, call.bytes,
            call.sha256_before, call.sha256_after,
            machine.monotonic_ns() - call.started_ns, call.front,
        )  # fmt: skip


def named(call: Call, target: Target) -> ScopedPath:
    """The place a target names, as the caller spells it."""
    root = call.grant.root
    return parse(target.text, root.mount_point, root.names).path


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that must be finished. A cancellation that comes meanwhile is delivered at the
    next await of the task, as one that comes too late for a store to obey."""
    task, late = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            late = True
    caller = asyncio.current_task()
    if late and caller is not None:
        caller.uncancel()
        caller.cancel()
    if not task.cancelled():
        task.result()


def _beyond_the_grant(path: ScopedPath) -> MissingAccess:
    return MissingAccess("the grant does not reach this path", path=path)


def _recorded_path(target: Target) -> str:
    handle = target.handle
    if handle is not None:
        return handle.path
    text = target.text
    try:
        asked = text if isinstance(text, str) else str(text)
    except Exception:  # whatever a caller passes for a path, its refusal is on record
        asked = f"<{type(text).__name__}>"
    return escape_for_display(asked[:_ASKED_CHARACTERS_MAX])


def _typed(error: Exception) -> BailiwickError:
    if isinstance(error, BailiwickError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    return InternalError(f"an unexpected fault: {type(error).__name__}")


def cause_of(error: BaseException) -> BaseException | None:
    """What the error that `Pipeline.failed` returns is raised from: a fault that is none of ours
    is kept for whoever debugs it."""
    foreign = isinstance(error, Exception) and not isinstance(error, BailiwickError)
    return error if foreign else error.__cause__
