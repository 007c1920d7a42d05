"""What became of a call, on record and told: the last stages, audit and events."""

from __future__ import annotations

import logging

from bailiwick.audit import Ledger, Outcome, Record
from bailiwick.call import Call
from bailiwick.decisions import Judging
from bailiwick.errors import (
    ApprovalDenied,
    ApprovalTimeout,
    BailiwickError,
    HashMismatch,
    IoError,
    PolicyDenied,
    PolicyError,
)
from bailiwick.events import Feed
from bailiwick.finishing import to_the_end, typed
from bailiwick.hook import Hooks
from bailiwick.meter import NOTHING, Amount, Meter
from bailiwick.paths import ScopedPath

_log = logging.getLogger("bailiwick.pipeline")


class Recording(Judging):
    """Puts calls on record, shows them to hooks, and tells what they changed."""

    ledger: Ledger
    hooks: Hooks
    changes: Feed
    meter: Meter

    @property
    def tells_changes(self) -> bool:
        return self.changes.active

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

    def succeeded(self, call: Call) -> Record:
        """Audit → events, once the store has acted."""
        record = call.record("success", None)
        call.close()
        try:
            if call.operation.changes:
                told = () if call.changes is None else self.changes.prepared(call.changes)
                self.ledger.settle(record, call.intent, told)
            else:
                self.ledger.note(record)
        except Exception as error:
            # A durable ledger has the intent already; from any other, what is not on record is
            # not acknowledged.
            unrecorded = IoError("it was done, but the record could not be written")
            unrecorded.request_id = call.request_id
            raise unrecorded from error
        finally:
            if call.in_flight is not None:
                self._end(call)
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
        if call.charged is not None or call.added_so_far is not None:
            await to_the_end(self._settle_failed(call))
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

    async def _settle(self, call: Call, added: Amount, over: str | None = None) -> None:
        """Count what really came of a call. A failure here is the meter's alone."""
        try:
            await self.meter.settle(call.grant, call.charged or NOTHING, added, over=over)
        except Exception as error:
            _log.error("what was charged could not be settled", exc_info=error)

    async def _settle_failed(self, call: Call) -> None:
        """Take back what was charged, but for what has come of the call all the same."""
        added = NOTHING
        if call.added_so_far is not None:
            try:
                added = await call.added_so_far()
            except Exception as error:
                _log.error("what a failed call has changed could not be counted", exc_info=error)
        await self._settle(call, added)

    async def _uncount(self, call: Call, branch: str) -> None:
        """Have what a fork held count no more, which came or went: neither is that undone. Until
        the root is counted anew it counts."""
        try:
            await self.meter.let_go(call.grant.root, branch)
        except Exception as error:
            _log.error("what a fork held could not be taken off the count", exc_info=error)

    def _record_failure(self, call: Call, record: Record) -> None:
        """What went wrong first is what the caller is told, not what went wrong on recording it."""
        try:
            if call.intent is None:
                self.ledger.note(record)
            else:
                told = () if call.changes is None else self.changes.prepared(call.changes)
                self.ledger.settle(record, call.intent, told)
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
