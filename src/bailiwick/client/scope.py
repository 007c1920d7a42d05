"""`RemoteScope`: all verbs over HTTP, and the transaction that has those which change something."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bailiwick.client.commands import RemoteCommands
from bailiwick.client.content import RemoteContent
from bailiwick.client.delegation import RemoteGoverning
from bailiwick.client.events import RemoteFollowing
from bailiwick.client.review import RemoteReviewing
from bailiwick.client.transaction import Buffering
from bailiwick.client.tree_changes import RemoteShaping
from bailiwick.client.tree_reads import RemoteLooking
from bailiwick.errors import Unsupported


class RemoteScope(
    RemoteContent, RemoteLooking, RemoteShaping, RemoteReviewing, RemoteFollowing, RemoteGoverning,
    RemoteCommands,
):  # fmt: skip
    """The tree that one grant on a server sees, and everything that can be done in it.

    Has the verbs of a `Scope`; what HTTP does not serve is `Unsupported`.
    """

    def transaction(
        self, *, lock_token: int | None = None
    ) -> AbstractAsyncContextManager[RemoteTransaction]:
        """Many changes that appear at once when the block ends, or not at all.

        They are kept here and sent as one request at the end, so that nothing can be read inside
        (`Unsupported`), and what a change results in is known only after the block.
        """
        return self._transaction(lock_token)

    @asynccontextmanager
    async def _transaction(self, lock_token: int | None) -> AsyncGenerator[RemoteTransaction, None]:
        self._refuse_closed()
        if "forks" not in self.powers:
            raise Unsupported("this root has no branches", details={"power": "forks"})
        inside = RemoteTransaction(self._session, self._life)
        try:
            yield inside
        finally:
            inside.end()
        if inside.operations:
            body = {"operations": inside.operations, "lockToken": lock_token}
            inside.settle(await self._ask("batch", "POST", "/batch", body=body))


class RemoteTransaction(Buffering, RemoteScope):
    """A remote scope inside a transaction: changes only, sent at its end."""

    def transaction(
        self, *, lock_token: int | None = None
    ) -> AbstractAsyncContextManager[RemoteTransaction]:
        """`Unsupported`: a transaction holds no other."""
        raise Unsupported("a transaction holds no other")
