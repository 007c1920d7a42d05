"""The verbs of a remote scope about what was, about branches and locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from bailiwick.client.core import RemoteCore, branch_of
from bailiwick.client.failures import no_answer
from bailiwick.client.transport import segment
from bailiwick.client.values import rebuilt, rebuilt_all
from bailiwick.errors import PathNotFound
from bailiwick.paths import PathText
from bailiwick.scope.versioning import Locking
from bailiwick.verbs.arguments import check_all
from bailiwick.versions import (
    Comparison,
    Fork,
    History,
    Leased,
    MergeResult,
    RestoreResult,
    Snapshot,
    UndoResult,
)
from bailiwick.wire import verbs

if TYPE_CHECKING:
    from bailiwick.scope.versioning import VersionVerbs


class _Lent(Leased, frozen=True, kw_only=True):
    """A lock that a server keeps, and what it calls it."""

    id: str


class RemoteVersions(RemoteCore):
    """Looking back, going back, and lines of versions beside each other."""

    async def history(
        self, path: PathText = ".", *, limit: int | None = None, cursor: str | None = None
    ) -> History:
        """The versions of what stands at ``path``, or stood there, newest first."""
        return await self._done(verbs.HISTORY, locals())

    async def restore(
        self,
        path: PathText,
        version: str,
        *,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> RestoreResult:
        """Make a file, a link or a whole directory what it was at a version or snapshot."""
        return await self._done(verbs.RESTORE, locals())

    async def undo(
        self,
        request_id: str | None = None,
        *,
        subject: str | None = None,
        version: str | None = None,
        through: str | None = None,
        preview: bool = False,
        lock_token: int | None = None,
    ) -> UndoResult:
        """Take back what a request changed, or the versions from ``version`` to ``through``, or all
        that a ``subject`` did."""
        return await self._done(verbs.UNDO, locals())

    # --- branches ------------------------------------------------------------------------------

    async def snapshot(self, name: str) -> Snapshot:
        """Keep this version under a name, for ``as_of``, `restore` and `fork`."""
        document = await self._told(verbs.SNAPSHOT, locals())
        return rebuilt(Snapshot, document.get("snapshot"))

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots of the root, by name."""
        document = await self._told(verbs.SNAPSHOTS, {})
        return rebuilt_all(Snapshot, document.get("snapshots"))

    async def delete_snapshot(self, name: str) -> None:
        """Let go of a snapshot. What it kept may be collected."""
        check_all({"name": name})
        await self._told(verbs.DELETE_SNAPSHOT, locals())

    async def fork(self, name: str, *, version: str | None = None) -> Self:
        """A branch of its own, as the tree is now or was at a version or snapshot."""
        await self._told(verbs.FORK, locals())
        return self._on(name)

    async def forks(self) -> list[Fork]:
        """All branches of the root, the first one among them."""
        document = await self._told(verbs.FORKS, {})
        return rebuilt_all(Fork, document.get("forks"))

    async def open_fork(self, name: str) -> Self:
        """Another branch of the root."""
        check_all({"name": name})
        scope = self._on(name)
        await scope._ask("capabilities", "GET", "/capabilities", asks=False)
        return scope

    async def delete_fork(self, name: str) -> None:
        """Let go of a branch and all that only it has."""
        check_all({"name": name})
        await self._told(verbs.DELETE_FORK, locals())

    async def compare(self, name: str) -> Comparison:
        """How the branch ``name`` differs from this one; costs what differs."""
        return await self._done(verbs.COMPARE, locals())

    async def merge(
        self, name: str, *, preview: bool = False, lock_token: int | None = None
    ) -> MergeResult:
        """Take over what the branch ``name`` changed, file by file against what both began with."""
        return await self._done(verbs.MERGE, locals())

    def _on(self, name: str) -> Self:
        """The same on another branch: the connection is that of this scope."""
        root = msgspec.structs.replace(self.root, branch=branch_of(name))
        return self._apart(fork=name, grant=msgspec.structs.replace(self.grant, root=root))

    # --- locks ---------------------------------------------------------------------------------

    def lock(self, path: PathText, *, ttl: float = 60.0) -> Locking:
        """A lease on a place and all that lies in it: others who change it get `LockHeld` until it
        is released or ``ttl`` seconds are over, at most ten minutes."""
        # A lease asks its scope for the three methods below, and for nothing else.
        return Locking(cast("VersionVerbs", self), path, ttl)

    async def _leased(self, path: PathText, ttl: float) -> Leased:
        check_all({"ttl": ttl})
        return rebuilt(_Lent, await self._told(verbs.LOCK, locals()))

    async def _renewed(self, path: PathText, lease: Leased, ttl: float) -> Leased:
        check_all({"ttl": ttl})
        return rebuilt(_Lent, await self._of_lock("lock", lease, "renew", {"ttl": ttl}))

    async def _released(self, path: PathText, lease: Leased) -> bool:
        try:
            document = await self._of_lock("lock_released", lease, "release", None)
        except PathNotFound:
            return False
        held = document.get("held")
        if not isinstance(held, bool):
            raise no_answer("it does not say whether the lock was held")
        return held

    async def _of_lock(
        self, kind: str, lease: Leased, what: str, body: dict[str, object] | None
    ) -> dict[str, Any]:
        assert isinstance(lease, _Lent)
        return await self._ask(
            kind, "POST", f"/lock/{segment(lease.id)}/{what}", body=body, asks=False, rooted=False
        )
