"""Bailiwick's memory store, through the same `Scope`."""

import contextlib

from bench.peers.bailiwick_disk import ours
from bench.peers.peer import Contenders, Peer
from bench.scratch import SMALL


class BailiwickMemory(Peer):
    name = "Bailiwick in memory"
    own = True
    remark = "recorded; the same answers as on a directory"

    async def open(self) -> None:
        import bailiwick

        self._closing = stack = contextlib.AsyncExitStack()
        self._scope = await stack.enter_async_context(bailiwick.open("memory:"))
        await self._scope.write_bytes("docs/small.txt", SMALL, parents=True)

    async def close(self) -> None:
        await self._closing.aclose()

    def memory_read(self) -> Contenders:
        scope, path = self._scope, "docs/small.txt"
        yield ours("Bailiwick read_bytes", lambda: scope.read_bytes(path), lambda r: len(r.data))

    def memory_write(self) -> Contenders:
        scope = self._scope
        yield ours("Bailiwick write_bytes", lambda: scope.write_bytes("docs/ours.bin", SMALL))
