"""The one chokepoint: grant ▸ resolve ▸ policy ▸ hooks ▸ prepare ▸ ask ▸ intend ▸ charge ▸ publish
▸ record ▸ tell.

Every verb of every scope is one `Call` that passes through `Pipeline.run`. Nothing else turns a
path into a handle, so nothing reaches a store unchecked or unrecorded. A verb prepares: it looks at
the handles of its call, and what it visits beyond them (a walk, a search) it must show to
`Call.decide` first. What it would change it proposes (`bailiwick.proposal`), and only the pipeline
has what changes a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, contextmanager
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from bailiwick.act_table import DONE_BY
from bailiwick.acts import Act, WriteStream
from bailiwick.approvals import Approvals, NobodyToAsk, Preview
from bailiwick.audit import EnclosesNotes, Intent, Ledger
from bailiwick.call import NOTHING_TO_SHOW, Call, Machine, Missing
from bailiwick.commands import LendsCommands, LendsInterpreter, PlacedCopy
from bailiwick.errors import (
    ApprovalTimeout,
    Busy,
    Closed,
    PolicyDenied,
)
from bailiwick.events import Feed
from bailiwick.finishing import cause_of, closes_anywhere, ended, look_at, to_the_end
from bailiwick.grant import Grant
from bailiwick.grant_status import Standing
from bailiwick.hook import Hooks
from bailiwick.meter import NOTHING, Amount, Meter, Unmetered
from bailiwick.operations import EXEC
from bailiwick.paths import ScopedPath
from bailiwick.policy import (
    Allow,
    Ask,
    Deny,
    Hide,
    Policy,
    is_remembered,
)
from bailiwick.proposal import Came, InWords, Prepare, Proposal
from bailiwick.questions import ask, refuse
from bailiwick.reader import reader_of
from bailiwick.recorder import Recording
from bailiwick.resolution import check_new_names, resolve
from bailiwick.runs import RunBook
from bailiwick.store import Handle, Store
from bailiwick.unchanged import changed_meanwhile
from bailiwick.versions import Marks, Stale

Result = TypeVar("Result")

_TRIES_MAX = 5
"""Times that a change is prepared anew because others changed what it would touch."""


class LowerTree(NamedTuple):
    """What an overlay lies over, and the working copy in which it keeps what was changed."""

    copy: PlacedCopy
    pipeline: Pipeline


class Pipeline(Recording):
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
        commands: LendsCommands | None = None,
        interpreter: LendsInterpreter | None = None,
        beneath: LowerTree | None = None,
        runs: RunBook | None = None,
    ) -> None:
        """``approved`` is for a draft: it gathers the places that people let be changed."""
        self.store = store
        self.reader = reader_of(store)
        self.marks = store if "Marks" in store.powers and isinstance(store, Marks) else None
        self.standing = standing
        super().__init__(policy, approvals or NobodyToAsk())
        self.hooks = hooks
        self.ledger = ledger
        self.changes = changes
        self.machine = machine
        self.meter = meter or Unmetered()
        self.feed_for = feed_for
        self.commands = commands
        self.interpreter = interpreter
        self.beneath = beneath
        self.runs = runs
        self._approved = approved
        self.dependents: dict[int, Callable[[], Awaitable[None]]] = {}
        self.intends = ledger.takes_intents
        self._enclose = ledger.enclose if isinstance(ledger, EnclosesNotes) else None
        self.meters = meter is not None
        self.closed = False
        self._closing = asyncio.Event()
        self._under_way = 0
        self._idle: asyncio.Event | None = None
        self._store_closing: asyncio.Future[None] | None = None
        self._streams: dict[int, Call] = {}  # by identity: a call is a value, without a hash

    @closes_anywhere
    async def run(
        self,
        call: Call,
        prepare: Prepare[Result],
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
                destination = call.destination
                there = None if destination is None else destination.handle
                admitted = call.target.handle, there, call.questions is not None
                prepared = await prepare(call)
                result = (
                    await self._carry_out(call, prepare, prepared, admitted)
                    if isinstance(prepared, Proposal)
                    else prepared
                )
                if call.held is not None:
                    await call.held.aclose()
            except BaseException as error:
                if call.held is not None:
                    error = await self._let_go_of(call.held, error)
                if missing is None or not isinstance(error, missing.errors):
                    raise await self.failed(call, error) from cause_of(error)
                result = missing.answer(call)
            added = call.added or call.charged
            if added is not None:
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
            if changes and call.life is not None:
                call.life.end()
            if call.turn is not None:
                self.meter.turns.give_back(call.turn)

    async def _let_go_of(self, held: AsyncExitStack, error: BaseException) -> BaseException:
        # In place, without a task: where the loop has gone there is nothing to run one.
        try:
            await held.__aexit__(type(error), error, error.__traceback__)
        except BaseException as raised:
            return raised
        return error

    @asynccontextmanager
    async def reading(self, call: Call) -> AsyncGenerator[None, None]:
        """The other half of a call that two grants have to allow: admitted here, and on record when
        it is over."""
        with self.working():
            try:
                await self.admit(call)
                yield
            except BaseException as error:
                raise await self.failed(call, error) from cause_of(error)
            await self.observed(call, self.succeeded(call))

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
        if self._store_closing is None:
            self._store_closing = asyncio.ensure_future(self.store.aclose())
            self._store_closing.add_done_callback(look_at)
        await to_the_end(ended(self._store_closing))

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
        if operation.changes or grant.expires_at is not None or not standing.constant:
            standing.check(grant, operation)
        if call.past is not None or call.past_there is not None:
            await self._look_back(call)
        target.handle = handle = await resolve(call, target)
        if destination is not None:
            destination.handle = await resolve(call, destination)
        if type(self._always) is Allow and not self.hooks.registered:
            call.policy_source = self._always.source
        elif self._glance is not None and destination is None and not self.hooks.registered:
            # Most calls of an agent: one place, one look.
            ruled = call.ruled_at(target)
            decision = (
                self.judge(call, handle.path, ruled)
                if grant.via
                or call.elsewhere is not None
                or call.past is not None
                or operation is EXEC
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
            await self.ask(call, NOTHING_TO_SHOW)

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
        if self.hooks.registered:  # they see what became of it also where policy refuses
            call.context = self._context_of(call, path, ruled)
        self.obey(call, self.judge(call, path, ruled, there), call.target)
        if destination is not None:
            arriving, place = call.ruled_at(destination), call.destination_handle.path
            self.obey(call, self.judge(call, place, arriving, place), destination)
        if call.context is not None:
            interferences, call.hooks = await self.hooks.before(call.context)
            for interference in interferences:
                if isinstance(interference, Ask) and is_remembered(
                    self.judge(call, path, ruled, there)
                ):
                    continue  # answered before, for longer
                self.obey(call, interference, call.target)

    async def _carry_out(
        self,
        call: Call,
        prepare: Prepare[Result],
        proposal: Proposal[Result],
        admitted: _Admitted,
    ) -> Result:
        """Ask ▸ intend ▸ charge ▸ publish, for what was prepared. What turns out to be something
        else by then is prepared anew."""
        for _ in range(_TRIES_MAX):
            asked = call.questions is not None
            act = proposal.act
            if act is not None:
                _refuse_undecided(call, act, admitted)
            try:
                if isinstance(act, WriteStream):
                    return await self._publish(call, proposal, self._staged(call, proposal))
                if call.questions is not None or call.caller.rehearsal is not None:
                    act = await self._agreed(call, proposal)
                if act is None:
                    return proposal.result(None)
                if self.intends:
                    await self._intend(call)
                if self.meters and proposal.cost is not None and self.meter.counts(call.grant):
                    await proposal.cost()
                return await self._publish(call, proposal, act)
            except Stale:
                if asked:
                    raise changed_meanwhile(call.handle.path) from None
            again = await prepare(call)
            assert isinstance(again, Proposal), "a verb either answers or proposes"
            proposal = again
        raise Busy("others kept changing what this would touch", hint="try again")

    async def _agreed(
        self, call: Call, proposal: Proposal[Any], came: Came | None = None
    ) -> Act[Any] | None:
        """What may be done, once a person has agreed where one is to be asked. ``came`` is a stream
        that is staged."""
        act = proposal.act
        if call.questions is None:
            if act is not None and call.operation.changes and call.caller.rehearsal is not None:
                await self.ask(call, NOTHING_TO_SHOW)
            return act
        agreement = proposal.agreement or InWords(call, "" if act is None else act.words)
        with closing(agreement):
            preview = await agreement.show()
            if came is not None:
                preview = structs.replace(preview, sha256=came.hexdigest, size=came.size)
            elif act is not None and await act.fingerprint() not in (None, preview.sha256):
                raise PolicyDenied("this is not what would be shown")
            if not call.questions:
                raise PolicyDenied("this is not what was decided on")
            await self.ask(call, preview)
            agreed = None if act is None else await agreement.agreed(act)
        if act is not None and agreed is not None and not agreed.is_at_most(act):
            raise PolicyDenied("this is not what was shown")
        return agreed

    def _staged(self, call: Call, proposal: Proposal[Any]) -> WriteStream:
        """A stream that is asked about, on record and charged for when all of it is staged: only
        then is it known what it is."""
        act = proposal.act
        assert isinstance(act, WriteStream)
        came = None if proposal.agreement is None else Came()
        counting = proposal.counting if call.metered else None

        async def cleared() -> AsyncGenerator[bytes, None]:
            async with aclosing(act.chunks) as chunks:
                if counting is not None:
                    await counting.begin()
                async for chunk in chunks:
                    if came is not None:
                        chunk = bytes(chunk)  # nobody changes it while it is staged
                        came.add(chunk)
                    if counting is not None:
                        await counting.add(len(chunk))
                    yield chunk
            await self._agreed(call, proposal, came)
            await self._intend(call)
            self.standing.holds(call.grant, call.operation)  # an upload may have taken its time
            if counting is not None:
                await counting.end()

        return structs.replace(act, chunks=cleared())

    async def _publish(self, call: Call, proposal: Proposal[Result], act: Act[Any]) -> Result:
        for path in proposal.touches:
            self.touching(call, path)
        if proposal.last_look is not None:
            await proposal.last_look()
        result = proposal.result(await act.on(self.written_by(call)))
        if proposal.afterwards is not None:
            await proposal.afterwards()
        return result

    def written_by(self, call: Call) -> Store:
        """The store, which stamps what is changed with who did it where it keeps that."""
        if call.mark is None:
            return self.store
        assert self.marks is not None, "a call has a mark where the store keeps it"
        return self.marks.marked(call.mark)

    async def _intend(self, call: Call) -> None:
        """Have the intent on record, where the ledger wants to know of a change before it is
        made."""
        if self.intends and call.operation.changes and call.intent is None:
            destination = call.destination
            intent = Intent(
                time_ns=self.machine.time_ns(), request_id=call.request_id, grant=call.grant,
                operation=call.operation.name, verb=call.verb,
                path=call.target.recorded,
                destination=None if destination is None else destination.recorded,
                policy_source=call.policy_source, hooks=call.hooks, front=call.caller.front,
                approval_id=call.approval_id,
                command=None if call.command is None else call.command.words,
                title=call.caller.title, step=call.caller.step,
            )  # fmt: skip
            if self._enclose is not None and call.mark is not None:
                call.intent, call.mark.note = self._enclose(intent)
            else:
                call.intent = await self.ledger.intend(intent)
            # That may have taken its time.
            self.standing.holds(call.grant, call.operation)

    async def ask(self, call: Call, preview: Preview) -> None:
        """Put all questions of a call to a person. Raises unless they agree."""
        asked, call.questions = call.questions or [], None
        try:
            verdict = await ask(call, asked, preview, self.approvals, self._closing)
        except ApprovalTimeout as error:  # the question stands: the record says which it is
            call.approval_id = error.details.get("approval_id")
            raise
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
        await to_the_end(self._charge(call, size, files))

    async def _charge(self, call: Call, size: int, files: int) -> None:
        await self.meter.charge(call.grant, size, files, over=call.over)
        before = call.charged or NOTHING
        call.charged = Amount(before.size + size, before.files + files)

    async def take_turn(self, call: Call, paths: tuple[ScopedPath, ...]) -> None:
        assert call.turn is None, "two calls with two turns each could wait for each other"
        await self.meter.prepare(call.grant)
        call.turn = await self.meter.turns.take(str(call.grant.root), *paths)

    async def let_go(self, call: Call, branch: str) -> None:
        if self.meters:
            await to_the_end(self._uncount(call, branch))


_Admitted = tuple[Handle | None, Handle | None, bool]
"""What was decided on when a call was admitted: its places, and whether a person is asked."""


def _refuse_undecided(call: Call, act: Act[Any], admitted: _Admitted) -> None:
    """What is done must be part of the operation that was judged, be done to the places that were
    and to what was looked through beneath them, and be asked about where that was decided."""
    here, there, asks = admitted
    decided = call.operation in DONE_BY.get(type(act), ())
    for place in act.places:
        if place is not here and place is not there:
            decided = False
    whole = act.whole
    if whole is not None and whole is not call.judged:
        decided = False
    if not decided or (asks and act.asks and not call.questions):
        raise PolicyDenied("this is not what was decided on")
