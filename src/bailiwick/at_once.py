"""The short way: a small read or write that nothing keeps waiting, in one go.

The stages of `bailiwick.pipeline.Pipeline.run` in their order (grant, resolve, policy, store,
audit), without a coroutine for each of them: that was a third of what a small read costs beyond its
store. It is taken only where every stage can answer on the spot. Whatever turns out to be
otherwise (a refusal, a link, a question to a person, a store that has to wait) is left to `run`,
which does it all again, and puts it on record: so only a call may come this way that changes
nothing, or that comes to the same when it is done twice, as overwriting a file does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, TypeVarTuple, Unpack

from bailiwick.audit import Record
from bailiwick.call import Call
from bailiwick.events import Feed
from bailiwick.grant import Grant
from bailiwick.hook import Hooks
from bailiwick.operations import Operation
from bailiwick.paths import parse_text
from bailiwick.policy import Allow, Glances, Policy
from bailiwick.standing import Standing
from bailiwick.store import Content, Handle, Prompt, WritePlan, Written

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

ReadsNow = Callable[[Handle, int, int], Content | None]
"""`bailiwick.store.Prompt.read_now`."""

WritesNow = Callable[[Handle, bytes, str, WritePlan], Written | None]
"""`bailiwick.store.WritesPromptly.write_now`."""


class Stages(Protocol):
    """What the short way takes from the pipeline it belongs to."""

    closed: bool
    standing: Standing
    hooks: Hooks
    changes: Feed

    def succeeded(self, call: Call) -> Record: ...
    def interrupted(self, call: Call) -> None: ...


class AtOnce:
    """The short way through the stages of one root."""

    __slots__ = (
        "_always", "_changes", "_glance", "_grant", "_hooks", "_operation", "_resolve", "_stages",
        "_standing", "read_now", "write_now",
    )  # fmt: skip

    def __init__(
        self, stages: Stages, store: Prompt, policy: Policy, write_now: WritesNow | None
    ) -> None:
        """``policy`` always allows, or decides at a glance. ``write_now`` is given where a change
        need not be announced or counted before it is made."""
        self._stages = stages
        self._standing = stages.standing
        self._hooks = stages.hooks
        self._changes = stages.changes
        self._resolve = store.resolve_now
        self.read_now: ReadsNow = store.read_now
        self.write_now = write_now
        self._always = policy.always
        self._glance = policy.glance if isinstance(policy, Glances) else None
        self._grant: Grant | None = None
        self._operation: Operation | None = None

    def run(
        self,
        call: Call,
        act: Callable[[Call, Handle, Unpack[Arguments]], Result | None],
        *arguments: *Arguments,
    ) -> Result | None:
        """What a call answers, done and on record; None where `Pipeline.run` has to do it."""
        grant, operation = call.grant, call.operation
        if grant is not self._grant or operation is not self._operation:
            if not _suits(grant, operation):
                return None
            self._grant, self._operation = grant, operation  # the next call is often by the same
        if self._stages.closed or self._hooks.registered:
            return None
        changes = operation.changes
        if changes and (self._changes.active or call.caller.rehearsal is not None):
            return None
        answer = None
        try:
            if changes or grant.expires_at is not None or not self._standing.constant:
                self._standing.check(grant, operation)
            call.hurried = True
            handle = self._found(call, grant, operation)
            if handle is not None:
                answer = act(call, handle, *arguments)
        except Exception:  # `run` meets it again, and tells it
            answer = None
        except BaseException:
            self._stages.interrupted(call)
            raise
        if answer is None:
            call.close()
            call.target.handle = call.policy_source = call.bytes = call.sha256_after = None
            return None
        self._stages.succeeded(call)
        return answer

    def _found(self, call: Call, grant: Grant, operation: Operation) -> Handle | None:
        """What stands at the call's place, if it was found by its own name and may be acted on."""
        root, target, decision = grant.root, call.target, self._always
        text = target.text
        if type(text) is not str:
            return None
        path, directory = parse_text(text, root.mount_point, root.names)
        target.directory = directory
        target.handle = handle = self._resolve(path, target.look, directory, False)
        if handle is None:
            return None
        if decision is None and self._glance is not None:
            if handle.path != path:
                return None  # by a link, whose way has to be looked at
            decision = self._glance(grant, operation, call.ruled_at(target), path)
        if type(decision) is not Allow:
            return None
        call.policy_source = decision.source
        return handle


def _suits(grant: Grant, operation: Operation) -> bool:
    """Whether a grant reaches everything, and nobody but its holder has to be judged."""
    return operation.needed <= grant.access and not grant.via and grant.whole and grant.base == "."
