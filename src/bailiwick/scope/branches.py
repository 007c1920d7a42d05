"""A scope on another branch of its root: the same grant, rules, hooks, ledger and people to ask,
over a store and a feed of its own.

What is delegated from such a scope is for the same branch, and ends with it. Closing it closes the
branch as it was opened here, not the branch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bailiwick.audit import EnclosesNotes, Flushes, Intent, Ledger, Record
from bailiwick.events import Feed, MemoryFeed
from bailiwick.grant import Grant, Root
from bailiwick.limits import Limits
from bailiwick.meter import Amount, Meter, Turns
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Pipeline
from bailiwick.scope.core import Delegates, Delegation, Lent
from bailiwick.store import Narrows, Store
from bailiwick.verbs.walks.ignore_files import Ignores


class Branch:
    """A branch that was opened, and everything that goes through it."""

    def __init__(
        self, store: Store, name: str, whose: Lent, *, own: str = "", draft: Drafted | None = None
    ) -> None:
        """``own`` is the name of the root's own branch; ``draft`` is for a transaction, which may
        come to nothing."""
        self._store = store
        self._own = own
        self._name = name
        self._draft = draft
        self._origin = whose.pipeline
        self._feed = _feed_for(store, whose.pipeline, whose.grant.limits)
        self._ignores: Ignores = whose.ignores.anew()
        self._pipelines: dict[tuple[Pipeline, str | None, str | None], Pipeline] = {}
        self._closed = False
        whose.pipeline.dependents[id(self)] = self.aclose

    def lent(self, whose: Lent) -> Lent:
        """What a scope of the same holder on this branch is made of."""
        lent = self.rebound(whose)
        return msgspec.structs.replace(lent, closing=self.aclose, owns_root=True)

    def rebound(self, whose: Lent) -> Lent:
        """What was lent for the branch that this one was opened from, on this branch."""
        name, line = self._name, whose.grant.root.line
        if self._draft is not None and line:
            name = f"{line}/{name}"
        root = msgspec.structs.replace(whose.grant.root, branch=name)
        grant = msgspec.structs.replace(whose.grant, root=root)
        delegates: Delegates | None = None
        if whose.delegates is not None:
            delegates = _Heirs(whose.delegates, self, whose.grant.root.branch)
        return msgspec.structs.replace(
            whose, pipeline=self._pipeline_over(whose), grant=grant, ignores=self._ignores,
            delegates=delegates, own_branch=self._own,
        )  # fmt: skip

    def _pipeline_over(self, whose: Lent) -> Pipeline:
        """One for each pipeline that leads to the root, since each has rules of its own, and for
        each way in which grants see links."""
        over, grant = whose.pipeline, whose.grant
        key = over, grant.symlinks, grant.hardlinks
        pipeline = self._pipelines.get(key)
        if pipeline is None:
            store = self._store
            if (grant.symlinks or grant.hardlinks) and isinstance(store, Narrows):
                store = store.narrowed(symlinks=grant.symlinks, hardlinks=grant.hardlinks)
            pipeline = self._pipelines[key] = Pipeline(
                store=store, standing=over.standing, policy=over.policy, hooks=over.hooks,
                ledger=self._ledger_over(over.ledger), changes=self._feed,
                machine=over.machine, approvals=over.approvals,
                meter=(self._draft or over.meter) if over.meters else None,
                feed_for=over.feed_for, interpreter=over.interpreter, runs=over.runs,
                approved=None if self._draft is None else self._draft.approved,
                commands=None if self._draft or not over.commands else over.commands.on(store),
            )  # fmt: skip
        return pipeline

    def _ledger_over(self, ledger: Ledger) -> Ledger:
        # A note is drained from branches that can be opened; a draft is none.
        if self._draft is None and isinstance(ledger, EnclosesNotes):
            return _NotingBranchLedger(ledger, self._feed, ledger)
        return _ApartLedger(ledger, self._feed)

    async def aclose(self) -> None:
        """Wait for what is under way and let go. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._origin.dependents.pop(id(self), None)
        self._feed.close()
        try:
            for pipeline in self._pipelines.values():
                await pipeline.drain()
        finally:
            await self._store.aclose()


def _feed_for(store: Store, pipeline: Pipeline, limits: Limits) -> Feed:
    if pipeline.feed_for is not None:
        return pipeline.feed_for(store)
    machine = pipeline.machine
    return MemoryFeed(limits=limits, time_ns=machine.time_ns, new_id=machine.new_request_id)


class _Heirs:
    """Passes on grants on a branch: made by whoever makes those on the root, and bound to it."""

    def __init__(self, delegates: Delegates, branch: Branch, origin: str) -> None:
        self._delegates = delegates
        self._branch = branch
        self._origin = origin

    async def delegate(self, parent: Grant, asked: Delegation, front: str) -> Lent:
        lent = await self._delegates.delegate(self._on_origin(parent), asked, front)
        return self._branch.rebound(lent)

    async def create_temp(self, parent: Grant, seconds: float | None, front: str) -> Lent:
        """A root of its own, which has nothing to do with the branch."""
        return await self._delegates.create_temp(self._on_origin(parent), seconds, front)

    async def beside(self, grant: Grant, root: str, front: str) -> Lent:
        return await self._delegates.beside(self._on_origin(grant), root, front)

    def _on_origin(self, grant: Grant) -> Grant:
        root = msgspec.structs.replace(grant.root, branch=self._origin)
        return msgspec.structs.replace(grant, root=root)


class _ApartLedger:
    """The ledger of the root, for a branch whose changes are told in a feed of its own."""

    def __init__(self, ledger: Ledger, feed: Feed) -> None:
        self._ledger = ledger
        self._feed = feed
        self.takes_intents = ledger.takes_intents
        self.note = ledger.note

    async def intend(self, intent: Intent) -> int:
        return await self._ledger.intend(intent)

    async def flush(self) -> None:
        if isinstance(self._ledger, Flushes):
            await self._ledger.flush()

    def settle(self, record: Record, intent: int | None, changes: Sequence[Change]) -> None:
        self._ledger.settle(record, intent, ())
        if changes:
            self._feed.publish(changes)


class _NotingBranchLedger(_ApartLedger):
    """The ledger of the root, for a branch whose intents are kept with the change itself."""

    def __init__(self, ledger: Ledger, feed: Feed, encloses: EnclosesNotes) -> None:
        super().__init__(ledger, feed)
        self.enclose = encloses.enclose


class Drafted:
    """What is kept of a transaction besides its changes: the places that people let it change, and
    how much it has grown by, counted apart from the branch that it was begun in until it is over.
    A meter for the calls inside."""

    def __init__(self, meter: Meter, name: str) -> None:
        self._meter = meter
        self.name = f"transaction:{name}"
        self.approved: set[ScopedPath] = set()

    @property
    def turns(self) -> Turns:
        return self._meter.turns

    def counts(self, grant: Grant) -> bool:
        return self._meter.counts(grant)

    async def prepare(self, grant: Grant) -> None:
        await self._meter.prepare(grant)

    async def charge(
        self,
        grant: Grant,
        size: int,
        files: int,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        await self._meter.charge(grant, size, files, apart=self.name)

    async def settle(
        self,
        grant: Grant,
        charged: Amount,
        added: Amount,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        await self._meter.settle(grant, charged, added, apart=self.name)

    async def let_go(self, root: Root, branch: str) -> None:
        await self._meter.let_go(root, branch)
