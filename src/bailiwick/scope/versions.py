"""The verbs of a scope about what was, and about branches, transactions and locks.

They stand on powers that not every store has; without the power they are `Unsupported`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from bailiwick import operations
from bailiwick.audit import Flushes
from bailiwick.call import Call, Target
from bailiwick.errors import BailiwickError
from bailiwick.finishing import cause_of, to_the_end
from bailiwick.late_module import LateModule
from bailiwick.operations import Operation
from bailiwick.paths import PathText, ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.scope.branches import Branch, Drafted
from bailiwick.scope.core import ScopeCore
from bailiwick.store import Store
from bailiwick.verbs.arguments import check_lock_token, expected
from bailiwick.versions import (
    Comparison,
    Draft,
    Fork,
    History,
    Leased,
    MergeResult,
    RestoreResult,
    Snapshot,
    Undoing,
    UndoResult,
    branches,
    lines,
)

if TYPE_CHECKING:
    from bailiwick.verbs import branches as branch_verbs
    from bailiwick.verbs import history, leases
else:
    branch_verbs = LateModule("bailiwick.verbs.branches")
    history = LateModule("bailiwick.verbs.history")
    leases = LateModule("bailiwick.verbs.leases")


class VersionVerbs(ScopeCore):
    """Looking back, going back, and lines of versions beside each other."""

    # --- looking back and going back -----------------------------------------------------------

    async def history(
        self, path: PathText = ".", *, limit: int | None = None, cursor: str | None = None
    ) -> History:
        """The versions of what stands at ``path``, or stood there, newest first; 100 unless told.

        A thing that was moved here brings its versions along, each with the path it had then. Of a
        directory it is all that happened to it and to what lay in it.
        """
        return await self._run(
            operations.READ, "history", Target(path, "entry", parents=True),
            lambda call: history.history(call, limit, cursor), limit=limit, cursor=cursor,
        )  # fmt: skip

    async def restore(
        self,
        path: PathText,
        version: str,
        *,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> RestoreResult:
        """Make a file, a link or a whole directory what it was at a version or snapshot; what was
        not there then is removed. That makes a new version, and nothing is lost.

        ``expected_version`` and, for a file, ``expected_sha256`` say what must stand there at that
        instant: else it is `HashMismatch`, and nothing is changed.
        """
        return await self._run(
            operations.EDIT, "restore", Target(path, "entry", parents=True, creates=True),
            lambda call: history.restore(
                call, self._ignores, version, expected(expected_version, expected_sha256)
            ),
            lock_token=lock_token,
            version=version,
        )  # fmt: skip

    async def undo(
        self,
        request_id: str | None = None,
        *,
        subject: str | None = None,
        version: str | None = None,
        through: str | None = None,
        since_ns: int | None = None,
        preview: bool = False,
        lock_token: int | None = None,
    ) -> UndoResult:
        """Take back what a request changed, or the versions from ``version`` to ``through``, or all
        that a ``subject`` did, ever or since a time (nanoseconds since 1970).

        Only what was not changed again since: the rest is reported as conflicts, and left. What
        another subject did, only a person or the host undoes. An undo can be undone.
        """
        asked = Undoing(request_id, subject, version, through, since_ns)
        return await self._run(
            operations.VERSION, "undo", self._top,
            lambda call: history.undo(call, self._ignores, asked, preview),
            request_id=request_id, subject=subject, version=version, through=through,
            since_ns=since_ns, preview=preview, lock_token=lock_token,
        )  # fmt: skip

    # --- branches ------------------------------------------------------------------------------

    async def snapshot(self, name: str) -> Snapshot:
        """Keep this version under a name, for ``as_of``, `restore` and `fork`. Of no cost, however
        large the tree. A name that is taken is `FileAlreadyExists`."""
        return await self._run(
            operations.VERSION, "snapshot", self._top,
            lambda call: branch_verbs.snapshot(call, name), name=name,
        )  # fmt: skip

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots of the root, by name."""
        return await self._run(operations.READ, "snapshots", self._top, branch_verbs.snapshots)

    async def delete_snapshot(self, name: str) -> None:
        """Let go of a snapshot. What it kept may be collected."""
        return await self._run(
            operations.VERSION, "delete_snapshot", self._top,
            lambda call: branch_verbs.delete_snapshot(call, name), name=name,
        )  # fmt: skip

    async def fork(self, name: str, *, version: str | None = None) -> Self:
        """A branch of its own, as the tree is now or was at a version or snapshot; to be closed.

        It shares everything until it differs, and is held to the same grant and rules.
        """
        return await self._opened(
            operations.VERSION, "fork", name,
            lambda call: branch_verbs.fork(call, name, version), version=version,
        )  # fmt: skip

    async def forks(self) -> list[Fork]:
        """All branches of the root, the first one among them."""
        return await self._run(operations.READ, "forks", self._top, branch_verbs.forks)

    async def open_fork(self, name: str) -> Self:
        """Another branch of the root, to be closed."""
        return await self._opened(
            operations.READ, "open_fork", name, lambda call: branch_verbs.open_fork(call, name)
        )

    async def delete_fork(self, name: str) -> None:
        """Let go of a branch and all that only it has."""
        return await self._run(
            operations.VERSION, "delete_fork", self._top,
            lambda call: branch_verbs.delete_fork(call, name), name=name,
        )  # fmt: skip

    async def compare(self, name: str) -> Comparison:
        """How the branch ``name`` differs from this one; costs what differs."""
        return await self._run(
            operations.READ, "compare", self._top, lambda call: branch_verbs.compare(call, name),
            name=name,
        )  # fmt: skip

    async def merge(
        self, name: str, *, preview: bool = False, lock_token: int | None = None
    ) -> MergeResult:
        """Take over what the branch ``name`` changed, file by file against what both began with.

        Where both sides changed the same it is a conflict, and nothing is taken over.
        """
        return await self._run(
            operations.VERSION, "merge", self._top,
            lambda call: branch_verbs.merge(
                call, self._ignores, name, preview, is_own=name == self._lent.own_branch
            ),
            name=name, preview=preview, lock_token=lock_token,
        )  # fmt: skip

    async def _opened(
        self,
        operation: Operation,
        verb: str,
        name: str,
        act: Callable[[Call], Awaitable[Proposal[Store]]],
        version: str | None = None,
    ) -> Self:
        opened: list[Store] = []
        own = self._lent.own_branch

        def keep(store: Store) -> Store:
            opened.append(store)
            return store

        async def prepare(call: Call) -> Proposal[Store]:
            nonlocal own
            opening = await act(call)
            own = own or await lines(call.store).branch()
            return Proposal(opening.act, keep, afterwards=opening.afterwards)

        try:
            store: Store = await self._run(
                operation, verb, self._top, prepare, name=name, version=version
            )
        except BaseException:
            for made in opened:  # and could not be put on record
                await to_the_end(made.aclose())
            raise
        branch = Branch(store, "" if name == own else name, self._lent, own=own)
        return type(self)(branch.lent(self._lent), self._request_id)

    # --- transactions --------------------------------------------------------------------------

    def transaction(self, *, lock_token: int | None = None) -> AbstractAsyncContextManager[Self]:
        """Many changes that appear at once when the block ends, or not at all.

        ``async with fs.transaction() as inside:`` gives a scope that shows the tree as it was when
        it began. Each operation in it is decided on and recorded by itself, under one request id;
        others see nothing of it until the end. Where they have changed the same things meanwhile
        that is `HashMismatch`; what was only read is not compared. An exception leaves nothing.
        """
        return self._transaction(lock_token)

    @asynccontextmanager
    async def _transaction(self, lock_token: int | None) -> AsyncGenerator[Self, None]:
        call, draft = await self._rebased(self._begin(lock_token))
        pipeline = self._pipeline
        drafted = Drafted(pipeline.meter, pipeline.machine.new_request_id())
        branch = Branch(draft.store, f"transaction:{call.request_id}", self._lent, draft=drafted)
        ended = False
        try:
            # What is made under a key is all of it, when it is committed.
            yield type(self)(branch.lent(self._lent), call.request_id)._as_called(key=None)
            await branch.aclose()
            if isinstance(pipeline.ledger, Flushes):
                # What was done inside is on record as done before all of it comes to pass.
                await pipeline.ledger.flush()
            ended = True
            await self._commit(call.request_id, draft, drafted, lock_token)
        finally:
            if not ended:
                await to_the_end(self._abandon(call.request_id))
            await to_the_end(_let_go(branch, draft))
            await to_the_end(pipeline.let_go(call, drafted.name))

    async def _begin(self, lock_token: int | None) -> tuple[Call, Draft]:
        """Begin, if that is allowed. A refusal is on record, as what is done inside will be, and
        how it ends."""
        pipeline = self._pipeline
        call = self._call(operations.VERSION, "transaction", self._top, lock_token=lock_token)
        try:
            with pipeline.working():
                check_lock_token(call, lock_token)
                await pipeline.admit(call)
                call.questions = None  # asked when it is committed
                draft = await branches(pipeline.written_by(call)).begin()
        except BaseException as error:
            with pipeline.working():
                raise await pipeline.failed(call, error) from cause_of(error)
        call.close()
        return call, draft

    async def _commit(
        self, request_id: str, draft: Draft, drafted: Drafted, lock_token: int | None
    ) -> None:
        scope = self.with_request(request_id)
        return await scope._run(
            operations.VERSION, "transaction", self._top,
            lambda call: branch_verbs.commit(
                call, self._ignores, draft, drafted.approved, drafted.name
            ),
            lock_token=lock_token,
        )  # fmt: skip

    async def _abandon(self, request_id: str) -> None:
        """Put on record that what was done inside came to nothing."""
        with suppress(BailiwickError):
            call = self.with_request(request_id)._call(operations.VERSION, "transaction", self._top)
            await self._pipeline.failed(call, asyncio.CancelledError())

    # --- locks ---------------------------------------------------------------------------------

    def lock(self, path: PathText, *, ttl: float = 60.0) -> Locking:
        """A lease on a place and all that lies in it: others who change it get `LockHeld` until it
        is released or ``ttl`` seconds are over, at most ten minutes.

        ``async with fs.lock("a") as lease:`` or ``lease = await fs.lock("a")``; pass
        ``lock_token=lease.token`` to what you change meanwhile.
        """
        return Locking(self, path, ttl)

    async def _leased(self, path: PathText, ttl: float) -> Leased:
        return await self._run(
            operations.LEASE, "lock", Target(path, "entry", creates=True),
            lambda call: leases.lock(call, ttl), ttl=ttl,
        )  # fmt: skip

    async def _renewed(self, path: PathText, lease: Leased, ttl: float) -> Leased:
        return await self._run(
            operations.LEASE, "lock", Target(path, "entry", parents=True),
            lambda call: leases.renew(call, lease, ttl), ttl=ttl,
        )  # fmt: skip

    async def _released(self, path: PathText, lease: Leased) -> bool:
        return await self._run(
            operations.LEASE, "lock", Target(path, "entry", parents=True),
            lambda call: leases.release(call, lease),
        )  # fmt: skip


async def _let_go(branch: Branch, draft: Draft) -> None:
    try:
        await branch.aclose()
    finally:
        await draft.discard()


class Lease:
    """A lock that is held. ``token`` goes with every change of what it covers, and grows: who has a
    greater one came later. Released at the end of ``async with``, else by `release`."""

    def __init__(self, scope: VersionVerbs, path: PathText, lease: Leased) -> None:
        self._scope = scope
        self._text = path
        self._lease = lease

    def __repr__(self) -> str:
        return f"<Lease {self.token} on {self.path}>"

    @property
    def path(self) -> ScopedPath:
        return self._lease.path

    @property
    def token(self) -> int:
        return self._lease.token

    @property
    def expires_ns(self) -> int:
        """When it ends by itself, in nanoseconds since 1970."""
        return self._lease.expires_ns

    async def renew(self, ttl: float = 60.0) -> None:
        """Keep it for ``ttl`` seconds from now. One that has expired is `LockHeld`."""
        self._lease = await self._scope._renewed(self._text, self._lease, ttl)

    async def release(self) -> bool:
        """Give it back. Returns whether it was still held."""
        return await self._scope._released(self._text, self._lease)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        with suppress(BailiwickError):  # it ends by itself
            await self.release()


class Locking:
    """A lease about to be taken: to be awaited, or entered."""

    def __init__(self, scope: VersionVerbs, path: PathText, ttl: float) -> None:
        self._scope = scope
        self._path = path
        self._ttl = ttl
        self._lease: Lease | None = None

    async def _take(self) -> Lease:
        leased = await self._scope._leased(self._path, self._ttl)
        return Lease(self._scope, self._path, leased)

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._take().__await__()

    async def __aenter__(self) -> Lease:
        self._lease = await self._take()
        return self._lease

    async def __aexit__(self, *error: object) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(*error)
