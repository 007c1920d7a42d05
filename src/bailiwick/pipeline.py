"""The one chokepoint: grant → resolve → policy → hooks → store → audit → events.

Every verb of every scope is one `Call` that passes through `Pipeline.run`, or in the same order by
a shorter way (`bailiwick.at_once`). Nothing else turns a path into a handle, so nothing reaches a
store unchecked or unrecorded. A verb's action acts on the handles of its call only; what it visits
beyond them (a walk, a search) it must show to `Call.decide` first, and what it changes it must have
cleared (`Call.clear`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec import structs

from bailiwick.approvals import Approvals, NobodyToAsk, Preview
from bailiwick.asking import ask, refuse
from bailiwick.at_once import AtOnce
from bailiwick.audit import EnclosesNotes, Intent, Ledger, Outcome, Record
from bailiwick.call import NOTHING_TO_SHOW, Asked, Call, Machine, Missing, Target
from bailiwick.errors import (
    ApprovalDenied,
    ApprovalTimeout,
    BailiwickError,
    Closed,
    HashMismatch,
    IoError,
    MissingAccess,
    PathNotFound,
    PolicyDenied,
    PolicyError,
)
from bailiwick.events import Feed
from bailiwick.finishing import cause_of, closes_anywhere, to_the_end, typed
from bailiwick.grant import Grant, parse_subject
from bailiwick.hook import Hooks
from bailiwick.metering import NOTHING, Amount, Meter, Unmetered
from bailiwick.model import Change
from bailiwick.operations import READ, Access
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import (
    Allow,
    Ask,
    Context,
    Decision,
    Deny,
    Folds,
    Glances,
    Hide,
    Policy,
    is_remembered,
    strictest,
    strictness,
)
from bailiwick.resolving import check_new_names, found_at_once, named, resolve
from bailiwick.standing import Standing
from bailiwick.store import Prompt, Store, WritesPromptly
from bailiwick.versions import Marks

_log = logging.getLogger("bailiwick.pipeline")

Result = TypeVar("Result")

_ELDERS_KEPT = 1_024
"""Grants whose earlier holders are kept at hand."""


class Pipeline:
    """The stages that every operation on one root passes."""

    def __init__(
        self,
        *,
        store: Store,
        standing: Standing,
        policy: Policy,
        hooks: Hooks,
        ledger: Ledger,
        changes: Feed,
        machine: Machine,
        approvals: Approvals | None = None,
        meter: Meter | None = None,
        feed_for: Callable[[Store], Feed] | None = None,
        approved: set[ScopedPath] | None = None,
    ) -> None:
        """``approved`` is for a draft: it gathers the places that people let be changed."""
        self.store = store
        self.marks = store if "Marks" in store.powers and isinstance(store, Marks) else None
        prompt = store if isinstance(store, Prompt) else None
        self.resolve_now = None if prompt is None else prompt.resolve_now
        self.is_missing_now = None if prompt is None else prompt.is_missing_now
        self.standing = standing
        self.policy = policy
        self.hooks = hooks
        self.ledger = ledger
        self.changes = changes
        self.machine = machine
        self.approvals = approvals or NobodyToAsk()
        self.meter = meter or Unmetered()
        self.feed_for = feed_for
        self._approved = approved
        self.dependents: dict[int, Callable[[], Awaitable[None]]] = {}
        # Looked at by every call: attributes, because an attribute is cheaper than a property.
        self._always = policy.always
        self.discreet = policy.always is None
        self._glance = policy.glance if isinstance(policy, Glances) else None
        self.intends = ledger.takes_intents
        self._enclose = ledger.enclose if isinstance(ledger, EnclosesNotes) else None
        self.meters = meter is not None
        self.at_once = None
        if prompt is not None and (type(policy.always) is Allow or self._glance is not None):
            writes = "WritesPromptly" in store.powers and not (self.intends or self.meters)
            write_now = store.write_now if writes and isinstance(store, WritesPromptly) else None
            self.at_once = AtOnce(self, prompt, policy, write_now)
        self._elders_known: dict[str, tuple[Grant, ...]] = {}
        self.closed = False
        self._closing = asyncio.Event()
        self._under_way = 0
        self._idle: asyncio.Event | None = None
        self._streams: dict[int, Call] = {}  # by identity: a call is a value, without a hash

    @closes_anywhere
    async def run(
        self,
        call: Call,
        act: Callable[[Call], Awaitable[Result]],
        missing: Missing[Result] | None = None,
    ) -> Result:
        """Admit the call, act, and put it on record: the whole product on one page."""
        self._under_way += 1
        changes = call.operation.changes
        if changes and call.life is not None:
            call.life.begin()
        try:
            try:
                await self.admit(call)
                if changes and self.changes.active:
                    self._begin(call)
                result = await act(call)
            except BaseException as error:
                if missing is None or not isinstance(error, missing.errors):
                    raise await self.failed(call, error) from cause_of(error)
                result = missing.answer(call)
            if changes and (call.added is not None or call.charged is not None):
                added = call.added or call.charged or NOTHING
                await to_the_end(self._settle(call, added, over=call.over))
            # From here to the return nothing can be cancelled: what was done is done, and told.
            record = self.succeeded(call)
            if self.hooks.registered:
                await self.observed(call, record)
            return result
        finally:
            self._under_way -= 1
            if self._idle is not None:
                self._rest()
            if changes:
                self._let_go(call)

    def _let_go(self, call: Call) -> None:
        if call.life is not None:
            call.life.end()
        if call.turn is not None:
            self.meter.turns.give_back(call.turn)

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

    async def drain(self) -> None:
        """Refuse new calls and wait for those under way, but for those that wait for a person; end
        the streams whose readers do not come back."""
        self.closed = True
        self._closing.set()
        for close in list(self.dependents.values()):
            await close()
        if self._under_way:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()
        for call in list(self._streams.values()):
            if self.stream_ended(call):
                await self.failed(call, Closed("this scope is closed"))

    def stream_begun(self, call: Call) -> None:
        """A stream whose reader never comes back is on record nevertheless, by `drain`."""
        self._streams[id(call)] = call

    def stream_ended(self, call: Call) -> bool:
        """Whether the end of a stream is still to be put on record: it is told once."""
        return self._streams.pop(id(call), None) is not None

    async def aclose(self) -> None:
        """Drain, and close the store, which ends streams."""
        await self.drain()
        await self.store.aclose()

    def refuse_closed(self) -> None:
        """For what goes on after it was admitted, and need not be waited for: streams."""
        if self.closed:
            raise Closed("this scope is closed")

    def holds(self, call: Call) -> None:
        """For what goes on after it was admitted: raise when its scope was closed or its grant
        does not hold any more. Counts nothing."""
        self.refuse_closed()
        if call.life is not None and call.life.closed:
            raise Closed("this scope is closed")
        self.standing.holds(call.grant, call.operation)

    async def admit(self, call: Call) -> None:
        """Grant → resolve → policy → hooks: afterwards the call's handles may be acted on."""
        if self.closed:
            self.refuse_closed()
        grant, operation, target, destination = (
            call.grant, call.operation, call.target, call.destination,
        )  # fmt: skip
        if not operation.needed <= grant.access:
            self.check_access(grant, operation.needed)
        standing = self.standing
        if not call.hurried and (
            operation.changes or grant.expires_at is not None or not standing.constant
        ):
            standing.check(grant, operation)
        if call.past is not None or call.past_there is not None:
            await self._look_back(call)
        handle = None if call.hurried else found_at_once(call, target)
        target.handle = handle = await resolve(call, target) if handle is None else handle
        if destination is not None:
            destination.handle = await resolve(call, destination)
        if type(self._always) is Allow and not self.hooks.registered:
            call.policy_source = self._always.source
        elif self._glance is not None and destination is None and not self.hooks.registered:
            # Most calls of an agent: one place, one look.
            ruled = call.ruled_at(target)
            decision = (
                self.judge(call, handle.path, ruled)
                if grant.via or call.elsewhere is not None or call.past is not None
                else self._glance(grant, operation, ruled, handle.path)
            )
            if type(decision) is Allow:
                call.policy_source = decision.source
            else:
                self.obey(call, decision, target)
        else:
            await self._judge_all(call, handle.path)
        made = target if destination is None else destination
        if made.creates and made.handle is not None and made.handle.type is None:
            await check_new_names(call, made, made.handle)
        if call.questions is not None and not operation.changes and call.elsewhere is None:
            await self._ask(call, NOTHING_TO_SHOW)

    async def _look_back(self, call: Call) -> None:
        """Go to the versions that a call looks at. Its grant was asked already; policy judges what
        is found there by the name that it has there."""
        if call.past_there is not None:
            call.store_there = await call.past_there.open(call.store)
        elif call.destination is not None:
            call.store_there = call.store
        if call.past is not None:
            call.store = await call.past.open(call.store)

    async def _judge_all(self, call: Call, path: ScopedPath) -> None:
        """Policy on each place the call names, then the hooks on the whole of it."""
        destination = call.destination
        there = None if destination is None else call.destination_handle.path
        ruled = call.ruled_at(call.target)
        self.obey(call, self.judge(call, path, ruled, there), call.target)
        if destination is not None and there is not None:
            arriving = call.ruled_at(destination)
            self.obey(call, self.judge(call, there, arriving, there), destination)
        if self.hooks.registered:
            if call.context is None:
                call.context = self._context_of(call, path, ruled)
            interferences, call.hooks = await self.hooks.before(call.context)
            for interference in interferences:
                if isinstance(interference, Ask) and is_remembered(
                    self.judge(call, path, ruled, there)
                ):
                    continue  # answered before, for longer
                self.obey(call, interference, call.target)

    def judge(
        self,
        call: Call,
        path: ScopedPath,
        access: frozenset[Access],
        destination: ScopedPath | None = None,
    ) -> Decision:
        """What the policy says of one path. A policy that raises has refused."""
        if self._always is not None:
            return self._always
        try:
            if self._glance is not None:
                there = destination or call.elsewhere
                decision = self._glance(call.grant, call.operation, access, path, there)
                if not call.grant.via and call.past is None and call.past_there is None:
                    return decision
                elders = [
                    self._glance(elder, call.operation, access, path, there)
                    for elder in self._elders(call.grant)
                ]
            else:
                context = self._context_of(call, path, access)
                if call.context is None:
                    call.context = context
                decision = self.policy.decide(context)
                elders = [
                    self.policy.decide(structs.replace(context, subject=parse_subject(each)))
                    for each in call.grant.via
                ]
        except Exception as error:
            return Deny("policy", f"the policy failed: {type(error).__name__}")
        if is_remembered(decision):  # a person knows whom they answered
            if call.past is not None or call.past_there is not None:
                decision = Ask(decision.source, "the answer given before is about what is now")
            elders = [each for each in elders if not isinstance(each, Ask)]
        return strictest((decision, *elders))

    def _elders(self, grant: Grant) -> tuple[Grant, ...]:
        """The grant as those would hold it who passed it on."""
        known = self._elders_known.get(grant.id)
        if known is None:
            if len(self._elders_known) >= _ELDERS_KEPT:
                self._elders_known.clear()
            known = tuple(
                structs.replace(grant, subject=parse_subject(each), via=()) for each in grant.via
            )
            self._elders_known[grant.id] = known
        return known

    def decide(
        self, call: Call, path: ScopedPath, access: frozenset[Access], is_directory: bool
    ) -> Decision:
        """What grant and policy say of one more path. What a grant does not reach is not there."""
        grant = call.grant
        if not grant.whole and not grant.reaches(path, is_directory):
            return Hide("grant")
        destination = call.destination
        if destination is not None and destination.handle is not None:
            return self.judge(call, path, access, destination.handle.path)
        decision = self.judge(call, path, access)
        asked = call.approved and isinstance(decision, Ask) and not call.operation.changes
        if asked and any(path.lies_in(place) for place in call.approved):
            # A person who lets a directory be searched lets what lies in it be searched.
            return Allow(decision.source)
        return decision

    def reveals(self, call: Call, path: ScopedPath) -> bool:
        """Whether the caller may read what stands at ``path``, with nobody to be asked: only then
        may the hash of it be told, which is enough to find out what it is, bit by bit."""
        grant = call.grant
        if not READ.access <= grant.access:
            return False
        if self._always is not None:
            return type(self._always) is Allow
        reading = structs.replace(call, operation=READ, destination=None, elsewhere=None)
        return isinstance(self.judge(reading, path, READ.ruled), Allow)

    def hides_twin(self, grant: Grant, path: ScopedPath) -> str | None:
        """What hides a path that is the same as ``path`` but for case and accents, if anything."""
        return self.policy.hides_twin(grant, path) if isinstance(self.policy, Folds) else None

    def _context_of(self, call: Call, path: ScopedPath, access: frozenset[Access]) -> Context:
        caller = call.caller
        interactive = caller.asker is not None or self.approvals.interactive(caller.front)
        return call.context_at(path, access, interactive)

    def _keep_hash(self, call: Call, error: HashMismatch) -> None:
        """Leave out of an error the hash of what the caller may not read."""
        for target in (call.target, call.destination):
            place = None if target is None else target.handle
            if place is not None and not self.reveals(call, place.path):
                error.details.pop("current_sha256", None)

    def may_refuse_below(
        self, grant: Grant, access: frozenset[Access], directory: ScopedPath
    ) -> bool:
        return self._always is None and any(
            self.policy.may_refuse_below(each, access, directory)
            for each in (grant, *self._elders(grant))
        )

    def obey(
        self, call: Call, decision: Decision, target: Target, path: ScopedPath | None = None
    ) -> None:
        """Go on or raise, as was decided about ``path`` or what the target was resolved to. What is
        to be asked is kept until all questions of the call are known."""
        strict = strictness(decision)
        if call.policy_source is None or strict > call.strictness:
            call.policy_source, call.strictness = decision.source, strict
        if isinstance(decision, Allow):
            return
        if isinstance(decision, Hide):
            # By the name the caller gave: the canonical one would tell where their link leads.
            path = path or named(call, target)
            if target.creates:
                raise PolicyDenied("a rule keeps this name", path=path, decided_by=decision.source)
            raise PathNotFound("no such file or directory", path=path)
        if path is None:
            path = target.handle.path if target.handle is not None else ROOT
        if isinstance(decision, Ask):
            if call.questions is None:
                call.questions = []
            call.questions.append(Asked(decision, path))
            return
        raise PolicyDenied(decision.reason, path=path, decided_by=decision.source)

    async def clear(self, call: Call, preview: Preview) -> None:
        """What stands between a change and its being published: a person, and the ledger."""
        if call.questions is not None or call.caller.rehearsal is not None:
            await self._ask(call, preview)
        if self.intends and call.operation.changes and call.intent is None:
            destination = call.destination
            intent = Intent(
                time_ns=self.machine.time_ns(), request_id=call.request_id, grant=call.grant,
                operation=call.operation.name, verb=call.verb,
                path=call.target.recorded,
                destination=None if destination is None else destination.recorded,
                policy_source=call.policy_source, hooks=call.hooks, front=call.caller.front,
                approval_id=call.approval_id,
            )  # fmt: skip
            if self._enclose is not None and call.mark is not None:
                call.intent, call.mark.note = self._enclose(intent)
            else:
                call.intent = await self.ledger.intend(intent)
        # An upload may have taken its time too.
        self.standing.holds(call.grant, call.operation)

    async def _ask(self, call: Call, preview: Preview) -> None:
        asked, call.questions = call.questions or [], None
        verdict = await ask(call, asked, preview, self.approvals, self._closing)
        call.approval_id = verdict.approval_id
        if not verdict.allowed:
            refuse(call, asked, verdict)
        call.approved = tuple(each.path for each in asked)
        if self._approved is not None and call.operation.changes:
            self._approved.update(call.approved)
        # A person takes their time: what was granted when they were asked may be gone, and what
        # was asked may be refused by now.
        self.holds(call)
        there = None if call.destination is None else call.destination_handle.path
        for target in (call.target, call.destination):
            if target is not None and target.handle is not None:
                access = call.ruled_at(target)
                decision = self.judge(call, target.handle.path, access, there)
                if isinstance(decision, (Deny, Hide)):
                    self.obey(call, decision, target)

    def counts(self, grant: Grant) -> bool:
        return self.meter.counts(grant)

    async def charge(self, call: Call, size: int, files: int) -> None:
        if call.turn is None:
            await self.meter.prepare(call.grant)
        # To the end: a charge that was made and is not known of could not be taken back.
        await to_the_end(self.meter.charge(call.grant, size, files, over=call.over))
        before = call.charged or NOTHING
        call.charged = Amount(before.size + size, before.files + files)

    async def take_turn(self, call: Call, paths: tuple[ScopedPath, ...]) -> None:
        assert call.turn is None, "two calls with two turns each could wait for each other"
        await self.meter.prepare(call.grant)
        call.turn = await self.meter.turns.take(str(call.grant.root), *paths)

    @property
    def tells_changes(self) -> bool:
        return self.changes.active

    def check_access(self, grant: Grant, needed: frozenset[Access]) -> None:
        if not needed <= grant.access:
            missing = ", ".join(sorted(needed - grant.access))
            raise MissingAccess(
                f"the grant does not hold: {missing}", hint="ask for it when requesting the root"
            )

    def _begin(self, call: Call) -> None:
        call.in_flight = []
        for target in (call.target, call.destination):
            if target is not None and target.handle is not None:
                self.touching(call, target.handle.path, parents=target.parents)

    def touching(self, call: Call, path: ScopedPath, *, parents: bool = False) -> None:
        """What is noticed there from now on is our own doing, and told by the call."""
        if call.in_flight is not None:
            self.changes.in_flight.begin(path, parents=parents)
            call.in_flight.append((path, parents))

    def _end(self, call: Call) -> None:
        for path, parents in call.in_flight or ():
            self.changes.in_flight.end(path, parents=parents)
        call.in_flight = None

    def _told(self, call: Call) -> Sequence[Change]:
        return () if call.changes is None else self.changes.prepared(call.changes)

    def succeeded(self, call: Call) -> Record:
        """Audit → events, once the store has acted."""
        record = call.record("success", None)
        call.close()
        try:
            if call.operation.changes:
                self._settle_record(call, record)
            else:
                self.ledger.note(record)
        except Exception as error:
            # A durable ledger has the intent already; from any other, what is not on record is
            # not acknowledged.
            unrecorded = IoError("it was done, but the record could not be written")
            unrecorded.request_id = call.request_id
            raise unrecorded from error
        return record

    def _settle_record(self, call: Call, record: Record) -> None:
        try:
            self.ledger.settle(record, call.intent, self._told(call))
        finally:
            if call.in_flight is not None:
                self._end(call)

    async def observed(self, call: Call, record: Record) -> None:
        """Show the outcome to the hooks, where the call got as far as a policy.

        Not to be cancelled: it would make an outcome that is on record look like another one.
        """
        if call.context is not None and self.hooks.registered:
            await to_the_end(self.hooks.after(call.context, record))

    async def failed(self, call: Call, error: BaseException) -> BaseException:
        """Put a refusal, failure or cancellation on record; returns what to raise."""
        call.close()
        if call.charged is not None:
            await to_the_end(self._settle(call, NOTHING))
        if not isinstance(error, Exception):
            self.interrupted(call)
            return error
        error = typed(error)
        error.request_id = call.request_id
        if isinstance(error, HashMismatch):
            self._keep_hash(call, error)
        call.policy_source = _decider(call, error)
        outcome: Outcome = "denied" if isinstance(error, PolicyError) else "failed"
        record = call.record(outcome, error.kind)
        self._record_failure(call, record)
        await self.observed(call, record)
        return error

    def interrupted(self, call: Call) -> None:
        """Put on record a call that its caller, or whoever ends the process, gave up."""
        call.close()
        self._record_failure(call, call.record("failed", "cancelled"))

    async def let_go(self, call: Call, branch: str) -> None:
        if self.meters:
            await to_the_end(self.meter.let_go(call.grant.root, branch))

    async def _settle(self, call: Call, added: Amount, over: str | None = None) -> None:
        """Count what really came of a call. A failure here is the meter's alone."""
        try:
            await self.meter.settle(call.grant, call.charged or NOTHING, added, over=over)
        except Exception as error:
            _log.error("what was charged could not be settled", exc_info=error)

    def _record_failure(self, call: Call, record: Record) -> None:
        """What went wrong first is what the caller is told, not what went wrong on recording it."""
        try:
            if call.intent is None:
                self.ledger.note(record)
            else:
                self.ledger.settle(record, call.intent, self._told(call))
        except Exception as error:
            extra = {"request_id": record.request_id, "error_kind": record.error_kind}
            _log.error("the record could not be written", extra=extra, exc_info=error)
        finally:
            if call.in_flight is not None:
                self._end(call)


def _decider(call: Call, error: BailiwickError) -> str | None:
    """The rule or hook that decided a call which failed: none where a limit or the grant did, even
    if a rule had let the call through before."""
    if error.decided_by is not None:
        return error.decided_by
    by_rule = isinstance(error, (PolicyDenied, ApprovalDenied, ApprovalTimeout))
    if "limit" in error.details or (isinstance(error, PolicyError) and not by_rule):
        return None
    return call.policy_source
