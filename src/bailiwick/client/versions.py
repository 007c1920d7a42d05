"""The verbs of a remote scope about what was, about branches and locks."""

from __future__ import annotations

from typing import Any, Self, cast

import msgspec

from bailiwick.client.core import RemoteCore, branch_of, remote
from bailiwick.client.failures import no_answer
from bailiwick.client.transport import segment
from bailiwick.client.values import rebuilt, rebuilt_all
from bailiwick.errors import PathNotFound
from bailiwick.paths import PathText
from bailiwick.scope import Scope
from bailiwick.scope.versions import Locking, VersionVerbs
from bailiwick.verbs.arguments import check_all
from bailiwick.versions import (
    Fork,
    Leased,
    Snapshot,
)
from bailiwick.wire import verbs


class _Lent(Leased, frozen=True, kw_only=True):
    """A lock that a server keeps, and what it calls it."""

    id: str


def _check_name(scope: object, said: dict[str, Any]) -> None:
    check_all({"name": said["name"]})


def _nothing(document: object) -> None:
    """What is gone is answered with its name."""


class RemoteVersions(RemoteCore):
    """Looking back, going back, and lines of versions beside each other."""

    history = remote(Scope.history, verbs.HISTORY)
    restore = remote(Scope.restore, verbs.RESTORE)
    _undone = remote(VersionVerbs.undo, verbs.UNDO)

    # --- branches ------------------------------------------------------------------------------

    snapshot = remote(
        Scope.snapshot, verbs.SNAPSHOT, read=lambda told: rebuilt(Snapshot, told.get("snapshot"))
    )
    snapshots = remote(
        Scope.snapshots, verbs.SNAPSHOTS,
        read=lambda told: rebuilt_all(Snapshot, told.get("snapshots")),
    )  # fmt: skip
    delete_snapshot = remote(
        Scope.delete_snapshot, verbs.DELETE_SNAPSHOT, first=_check_name, read=_nothing
    )

    async def fork(self, name: str, *, version: str | None = None) -> Self:
        """A branch of its own, as the tree is now or was at a version or snapshot."""
        await self._told(verbs.FORK, locals())
        return self._on(name)

    forks = remote(Scope.forks, verbs.FORKS, read=lambda told: rebuilt_all(Fork, told.get("forks")))

    async def open_fork(self, name: str) -> Self:
        """Another branch of the root."""
        check_all({"name": name})
        scope = self._on(name)
        await scope._ask("capabilities", "GET", "/capabilities", asks=False)
        return scope

    delete_fork = remote(Scope.delete_fork, verbs.DELETE_FORK, first=_check_name, read=_nothing)
    compare = remote(Scope.compare, verbs.COMPARE)
    merge = remote(Scope.merge, verbs.MERGE)

    def _on(self, name: str) -> Self:
        """This scope on another branch: the connection is that of this scope."""
        root = msgspec.structs.replace(self.root, branch=branch_of(name))
        return self._apart(fork=name, grant=msgspec.structs.replace(self.grant, root=root))

    # --- locks ---------------------------------------------------------------------------------

    def lock(self, path: PathText, *, ttl: float = 60.0) -> Locking:
        """A lease on a place and all that lies in it: others who change it get `LockHeld` until it
        is released or ``ttl`` seconds are over, at most ten minutes."""
        # A lease asks its scope for the three methods below, and for nothing else.
        return Locking(cast(VersionVerbs, self), path, ttl)

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
