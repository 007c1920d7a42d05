"""Joining the parts of a place that someone opened for themselves.

The grant alone decides what its owner may do. What they delegate to an agent is held to the shipped
rules, as it would be under an authority.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from bailiwick.approvals import (
    ALLOWING,
    Answer,
    Approval,
    Asker,
    Question,
    RememberedRule,
    Verdict,
)
from bailiwick.audit import AuditRing
from bailiwick.build.commands import RootCommands
from bailiwick.build.homes import Kept, default_state_dir
from bailiwick.build.interpreters import interpreter_for
from bailiwick.build.log_feed import StoreFeed
from bailiwick.build.options import Options
from bailiwick.build.own_runs import OwnRuns
from bailiwick.build.places import Background
from bailiwick.build.stores import remove_temp, temp_kept, temp_roots, temp_store
from bailiwick.call import Caller, Machine
from bailiwick.change_log import Logs
from bailiwick.errors import ApprovalDenied, ParseError, RootNotFound
from bailiwick.events import Feed, MemoryFeed
from bailiwick.finishing import in_thread
from bailiwick.grant import Core, Grant, Narrowing, Root, Subject, User, narrowed
from bailiwick.grant_status import OwnStanding
from bailiwick.hook import Hooks
from bailiwick.limits import Limits
from bailiwick.operations import FILE_ACCESS
from bailiwick.paths import parse
from bailiwick.pipeline import LowerTree, Pipeline
from bailiwick.policy import AllowAll, Policy
from bailiwick.scope import Delegation, Lent, Scope
from bailiwick.store import Store, Watches
from bailiwick.verbs.walks.ignore_files import Ignores

if TYPE_CHECKING:
    from bailiwick.build.overlay import OpenedOverlay, OverlayBeneath


def join(
    store: Store,
    options: Options,
    root_id: str,
    mount_point: str,
    copy_in: tuple[Scope, ...] = (),
    *,
    policy: Policy | None = None,
    keeping: Background | None = None,
    kept: Kept | None = None,
    over: OpenedOverlay | None = None,
    runs: bool = True,
) -> Scope:
    """A scope with a full grant on a store. ``keeping`` goes on until the scope is closed; with
    what is ``kept`` of a directory there are commands in it. ``over`` is the overlay of the store
    that is meant, where one is. ``runs`` says whether programs can be run there."""
    machine = own_machine()
    root = _root(options, root_id, mount_point)
    grant = _full_grant(options, root, machine)
    hooks = Hooks(seconds_max=options.limits.hook_seconds_max)
    interpreter = interpreter_for(store, options.state_dir) if runs else None

    def pipeline_on(
        store: Store, commands: RootCommands, beneath: LowerTree | None = None
    ) -> Pipeline:
        feed = own_feed(store, options.limits, machine)
        ring = AuditRing(options.limits.audit_ring_records, feed)
        return Pipeline(
            store=store,
            standing=OwnStanding(machine.time_ns),
            policy=policy or AllowAll(),
            hooks=hooks,
            ledger=ring,
            changes=feed,
            machine=machine,
            feed_for=lambda branch: own_feed(branch, options.limits, machine),
            commands=commands if runs else None,
            interpreter=interpreter,
            beneath=beneath,
            runs=OwnRuns.over(ring, store, machine),
        )

    below: OverlayBeneath | None = None
    if over is not None:
        lower = pipeline_on(store, _commands_on(store, root, options, over.kept))
        below = over.joined_to(lower)
        store, kept = over.store, over.kept_over
    commands = _commands_on(store, root, options, kept)
    pipeline = pipeline_on(store, commands, below and below.beneath)
    ignores = Ignores(names=options.ignore_files, monotonic_ns=machine.monotonic_ns)
    delegates = OwnDelegates(pipeline, ignores, options)

    async def close() -> None:
        pipeline.changes.close()
        if keeping is not None:
            await keeping.aclose()
        await delegates.drain()
        await pipeline.aclose()
        await commands.aclose()
        if below is not None:
            await below.aclose()
        for scope in copy_in:
            await scope.aclose()

    return Scope(
        Lent(
            pipeline=pipeline, grant=grant, ignores=ignores, delegates=delegates, copy_in=copy_in,
            closing=close, owns_root=True,
        )
    )  # fmt: skip


def _commands_on(store: Store, root: Root, options: Options, kept: Kept | None) -> RootCommands:
    return RootCommands(store, root, options.limits, options.state_dir, options.commands, kept)


async def join_overlay(
    lower: Store,
    options: Options,
    root_id: str,
    mount_point: str,
    copy_in: tuple[Scope, ...] = (),
    *,
    keeping: Background | None = None,
    kept: Kept | None = None,
) -> Scope:
    """A scope with a full grant on what lies over a tree."""
    from bailiwick.build.overlay import open_overlay

    root = _root(options, root_id, mount_point)
    over = await open_overlay(lower, root, User("local"), options, kept)
    return join(lower, options, root_id, mount_point, copy_in, keeping=keeping, over=over)


def _root(options: Options, root_id: str, mount_point: str) -> Root:
    return Root(
        kind="workspace",
        id=root_id,
        mount_point=options.mount_point or mount_point,
        trusted=options.trusted,
        names=options.names,
    )


def _full_grant(options: Options, root: Root, machine: Machine) -> Grant:
    return Grant(
        id=machine.new_request_id(),
        subject=User("local"),
        root=root,
        access=options.access if options.trusted else options.access & FILE_ACCESS,
        reason="opened by the local user",
        explicit=True,
        limits=options.limits,
    )


def own_feed(store: Store, limits: Limits, machine: Machine) -> Feed:
    """The feed of a place: its store's own log, or what is kept in memory."""
    if "Logs" in store.powers and isinstance(store, Logs):
        return StoreFeed(store.log)
    return MemoryFeed(
        limits=limits, time_ns=machine.time_ns, new_id=lambda: secrets.token_hex(8),
        source=store if isinstance(store, Watches) else None,
    )  # fmt: skip


class OwnDelegates:
    """What the owner of a place passes on: to agents under the shipped rules."""

    def __init__(self, pipeline: Pipeline, ignores: Ignores, options: Options) -> None:
        self._pipeline = pipeline
        self._ignores = ignores
        self._options = options
        self._ruled: Pipeline | None = None

    async def delegate(self, parent: Grant, asked: Delegation, front: str) -> Lent:
        self._pipeline.refuse_closed()
        asked.refuse_wider(parent)
        machine = self._pipeline.machine
        asked_path = parse(asked.path, parent.root.mount_point, parent.root.names).path
        # The top is as much of it as the parent has, which may be less.
        place = None if asked_path.is_root else asked_path.beneath(parent.base)
        ends = None if asked.expires_in is None else self._ends(asked.expires_in)
        grant = narrowed(
            parent, id=machine.new_request_id(), subject=asked.subject, access=asked.access,
            path=place, rebase=asked.rebase, expires_at=ends, reason=asked.reason,
            narrowing=Narrowing(allowed=asked.allowed, denied=asked.denied),
        )  # fmt: skip
        return Lent(
            pipeline=self._pipeline_for(asked.subject), grant=grant, ignores=self._ignores,
            caller=Caller(front=front), delegates=self,
        )  # fmt: skip

    async def beside(self, grant: Grant, root: str, front: str) -> Lent:
        raise RootNotFound("a place that was opened by itself has no other roots")

    async def create_temp(self, parent: Grant, seconds: float | None, front: str) -> Lent:
        self._pipeline.refuse_closed()
        state = self._options.state_dir or default_state_dir()
        limits = parent.limits
        seconds = limits.temp_seconds_max if seconds is None else seconds
        ends = self._ends(seconds)
        if parent.expires_at is not None:
            ends = min(ends, parent.expires_at)
        roots = temp_roots(state)
        await in_thread(roots.sweep)
        owner = parent.via[0] if parent.via else str(parent.subject)
        create = partial(roots.create, seconds, owner=owner, most=limits.temp_roots_max)
        place = await in_thread(create, let_go=remove_temp)
        scope = join(
            temp_store(place, state, limits), Options(limits=limits), place.name, "/",
            kept=temp_kept(place, state),
        )  # fmt: skip
        root = Root(kind="temp", id=place.name, trusted=True, owner=str(parent.subject))
        grant = Grant(
            id=scope.grant.id, subject=parent.subject, root=root, reason=parent.reason,
            explicit=True, parent=parent.id, expires_at=ends, limits=limits,
        )  # fmt: skip
        lent = scope._lent

        async def close() -> None:
            await scope.aclose()
            await remove_temp(place)

        return Lent(
            pipeline=lent.pipeline, grant=grant, ignores=lent.ignores, delegates=lent.delegates,
            caller=Caller(front=front), closing=close, owns_root=True,
        )  # fmt: skip

    def _ends(self, seconds: float) -> float:
        if not isinstance(seconds, (int, float)) or not seconds > 0:
            raise ParseError("a time is a number of seconds, more than none")
        return self._pipeline.machine.time_ns() / 1e9 + seconds

    def _pipeline_for(self, subject: Subject) -> Pipeline:
        if isinstance(subject, (Core, User)):
            return self._pipeline
        if self._ruled is None:
            from bailiwick.policies.rules import RulePolicy

            machine = self._pipeline.machine
            approvals = OwnApprovals(machine, self._options.limits.ask_seconds_max)
            policy = RulePolicy(remembered=approvals.rules)

            def ruled(own: Pipeline) -> Pipeline:
                below = own.beneath
                return Pipeline(
                    store=own.store, standing=own.standing, policy=policy, hooks=own.hooks,
                    ledger=own.ledger, changes=own.changes, machine=machine, approvals=approvals,
                    feed_for=own.feed_for, commands=own.commands, interpreter=own.interpreter,
                    beneath=below and below._replace(pipeline=ruled(below.pipeline)),
                    runs=own.runs,
                )  # fmt: skip

            self._ruled = ruled(self._pipeline)
        return self._ruled

    async def drain(self) -> None:
        """Refuse what agents ask for from now on, and wait for what is under way."""
        if self._ruled is not None:
            await self._ruled.drain()
            if self._ruled.beneath is not None:
                await self._ruled.beneath.pipeline.drain()


class OwnApprovals:
    """Puts questions to whoever the front can ask, and remembers answers as long as the place is
    open. There is nowhere else to ask: without an asker the rule's default holds at once."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        self._machine = machine
        self._seconds = seconds
        self._rules: tuple[RememberedRule, ...] = ()

    def rules(self) -> Sequence[RememberedRule]:
        """What was answered for more than once."""
        return self._rules

    def interactive(self, front: str) -> bool:
        return False

    async def ask(
        self, question: Question, *, asker: Asker | None, wait_s: float | None
    ) -> Verdict:
        now = self._machine.time_ns()
        approval = Approval(
            id=self._machine.new_request_id(), question=question, state="pending", asked_ns=now,
            expires_ns=now + int(self._seconds * 1e9),
        )  # fmt: skip
        answer: Answer | None = None
        if asker is not None:
            try:
                async with asyncio.timeout(
                    self._seconds if wait_s is None else min(self._seconds, wait_s)
                ):
                    answer = await asker(approval)
            except TimeoutError:
                answer = None
        if answer is None:
            return Verdict(
                allowed=question.default == "allow", approval_id=approval.id, by="default"
            )
        from bailiwick.state.approvals.questions import rule_of

        rule = rule_of(approval, answer, f"user:{question.front}", self._machine.time_ns())
        if rule is not None:
            self._rules = (rule, *self._rules)
        return Verdict(
            allowed=answer in ALLOWING, approval_id=approval.id, by=f"user:{question.front}"
        )

    async def redeem(self, approval_id: str, question: Question) -> Verdict:
        raise ApprovalDenied("answers are not kept here", hint="ask again")


def own_machine() -> Machine:
    """Clocks and names of this process."""
    numbered = map((secrets.token_hex(6) + "-").__add__, map(str, itertools.count(1)))
    return Machine(
        time_ns=time.time_ns, monotonic_ns=time.monotonic_ns, new_request_id=numbered.__next__
    )
