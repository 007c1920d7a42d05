"""Bailiwick on a volume, through `Scope`; the store alone where that is said."""

import asyncio
import contextlib
import hashlib
import itertools
from typing import Any

from bailiwick.paths import parse
from bailiwick.store import WritePlan
from bailiwick.stores.volume import changes
from bailiwick.versions import Mark
from bench.peers.bailiwick_disk import ours
from bench.peers.peer import Contenders, Peer
from bench.peers.sqlite_reference import WRITERS
from bench.scratch import CHUNK, LARGE_CHUNKS, NEEDLE, SMALL, TICKET
from bench.timing import Contender

VOLUME_READ = "Bailiwick volume, read_bytes"
VOLUME_WRITE = "Bailiwick volume, write_bytes"
VOLUME_STORE_WRITE = "Bailiwick's volume store alone, write"
VOLUME_WRITERS = f"Bailiwick volume, {WRITERS} writers"
VOLUME_GREP = "Bailiwick volume, grep"
VOLUME_GREP_SKIPPED = "Bailiwick volume, grep with what it skipped"
VOLUME_IN = "Bailiwick volume, write_stream"
VOLUME_OUT = "Bailiwick volume, stream"
TREES = (1_000, 100_000)
"""Files of the trees that are forked, moved, removed and compared."""

FORKS = 4
"""How deep the chain of forks is in which a file is looked at."""

CHANGES = 100
"""Files that differ between the two branches that are compared."""


def of(what: str, files: int) -> str:
    return f"{what}, {files:,} files"


def at_depth(depth: int) -> str:
    return f"Bailiwick volume, stat at depth {depth}"


class _TakenBack(Exception):
    """Undoes a change that was only to be timed."""


class BailiwickVolume(Peer):
    name = "Bailiwick volume"
    remark = "SQLite, every write a durable version; read, grep and streams through Scope"

    async def open(self) -> None:
        import bailiwick

        self._bailiwick = bailiwick
        self._version = getattr(bailiwick, "__version__", "")
        self._closing = stack = contextlib.AsyncExitStack()
        enter = stack.enter_async_context
        memory, disk = self.places.memory, self.places.disk
        self._fast = await enter(bailiwick.open(f"sqlite:{memory}/volume.db"))
        self._many = await enter(bailiwick.open(f"sqlite:{memory}/many.db"))
        self._disk = await enter(bailiwick.open(f"sqlite:{disk}/volume.db"))
        self._numbers = itertools.count()
        self._trees: dict[int, Any] = {}
        self._searched = False
        self._changed: set[int] = set()
        self._chain: list[Any] = []
        for scope in (self._fast, self._many, self._disk):
            await scope.write_bytes("docs/small.txt", SMALL, parents=True)

    async def close(self) -> None:
        await self._closing.aclose()

    def version(self) -> str:
        return self._version

    def volume_read(self) -> Contenders:
        scope = self._fast
        yield ours(
            VOLUME_READ, lambda: scope.read_bytes("docs/small.txt"), lambda got: len(got.data)
        )

    def volume_write(self) -> Contenders:
        yield ours(VOLUME_WRITE, lambda: self._fast.write_bytes("docs/small.txt", SMALL))
        yield self._bare(self._fast)

    def volume_durable(self) -> Contenders:
        yield ours(VOLUME_WRITE, lambda: self._disk.write_bytes("docs/small.txt", SMALL))
        yield self._bare(self._disk)

    def _bare(self, scope: Any) -> Contender:
        store, place = scope._pipeline.store, parse("docs/small.txt").path
        plan, digest = WritePlan(), hashlib.sha256(SMALL).hexdigest()

        async def write() -> None:
            handle = await store.resolve(place, "entry")
            try:
                await store.write(handle, SMALL, digest, plan)
            finally:
                handle.close()

        return ours(VOLUME_STORE_WRITE, write)

    def volume_writers(self) -> Contenders:
        write = self._many.write_bytes

        async def all_of_them() -> None:
            await asyncio.gather(*(write(f"docs/{n}.txt", SMALL) for n in range(WRITERS)))

        yield ours(VOLUME_WRITERS, all_of_them)

    def stream_in(self) -> Contenders:
        yield ours(VOLUME_IN, self._write_large)

    async def _write_large(self) -> None:
        await self._fast.write_stream("large.bin", (CHUNK for _ in range(LARGE_CHUNKS)))

    def stream_out(self) -> Contenders:
        async def read() -> int:
            if not await self._fast.exists("large.bin"):
                await self._write_large()
            size = 0
            async for chunk in self._fast.stream("large.bin"):
                size += len(chunk)
            return size

        yield ours(VOLUME_OUT, read, int)

    def grep_literal(self) -> Contenders:
        yield from self._greps(NEEDLE, literal=True)

    def grep_pattern(self) -> Contenders:
        yield from self._greps(TICKET, literal=False)

    def _greps(self, pattern: str, *, literal: bool) -> Contenders:
        for name, skipped in ((VOLUME_GREP, False), (VOLUME_GREP_SKIPPED, True)):

            async def grep(skipped: bool = skipped) -> int:
                if not self._searched:  # in the first call, which is not timed
                    self._searched = True
                    await self._fill_searched()
                found = await self._many.grep(
                    pattern, path="tree", literal=literal, report_skipped=skipped
                )
                return len(found.matches)

            yield ours(name, grep, int)

    async def _fill_searched(self) -> None:
        for folder in sorted(self.places.tree.iterdir()):
            await asyncio.gather(
                *(
                    self._many.write_bytes(
                        f"tree/{folder.name}/{file.name}", file.read_bytes(), parents=True
                    )
                    for file in folder.iterdir()
                )
            )

    # --- whole trees ---------------------------------------------------------------------------

    async def _grown(self, files: int) -> Any:
        if files not in self._trees:
            place = f"sqlite:{self.places.memory}/tree{files}.db"
            scope = self._trees[files] = await self._closing.enter_async_context(
                self._bailiwick.open(place)
            )
            for start in range(0, files, 500):
                names = [f"tree/{n % 100:02}/{n}.txt" for n in range(start, start + 500)]
                await asyncio.gather(
                    *(scope.write_bytes(name, b"x", parents=True) for name in names)
                )
        return self._trees[files]

    def volume_fork(self) -> Contenders:
        for files in TREES:

            async def fork(files: int = files) -> None:
                scope = await self._grown(files)
                work = await scope.fork(f"work{next(self._numbers)}")
                await work.aclose()

            yield ours(of("fork", files), fork)

    def volume_move(self) -> Contenders:
        for files in TREES:

            async def move(files: int = files) -> None:
                store = (await self._grown(files))._pipeline.store
                for here, there in (("tree", "moved"), ("moved", "tree")):
                    source = await store.resolve(parse(here).path, "entry")
                    target = await store.resolve(parse(there).path, "entry")
                    await store.move(source, target, replace=False)
                    source.close()
                    target.close()

            yield ours(of("move there and back", files), move)

    def volume_snapshot(self) -> Contenders:
        for files in TREES:

            async def snapshot(files: int = files) -> None:
                scope = await self._grown(files)
                await scope.snapshot(f"kept{next(self._numbers)}")

            yield ours(of("snapshot", files), snapshot)

    def volume_remove(self) -> Contenders:
        """Taken back before it is committed: else there would be nothing left for the next call."""
        for files in TREES:

            async def remove(files: int = files) -> None:
                store = (await self._grown(files))._pipeline.store
                handle = await store.resolve(parse("tree").path, "entry")

                async def job(turn: Any) -> None:
                    await changes.remove(turn, handle, Mark(), recursive=True)
                    raise _TakenBack

                try:
                    await store.core.change(job)
                except _TakenBack:
                    handle.close()

            yield ours(of("remove", files), remove)

    def volume_remove_in_fork(self) -> Contenders:
        """In a fork made for it: what went is shared with others, and is counted all the same."""
        for files in TREES:

            async def remove(files: int = files) -> int:
                store = (await self._grown(files))._pipeline.store
                fork = await store.versions.fork(f"work{next(self._numbers)}")
                try:
                    return await self._remove_tree(fork)
                finally:
                    await fork.aclose()

            yield ours(of("fork and remove", files), remove)

    async def _remove_tree(self, store: Any) -> int:
        handle = await store.resolve(parse("tree").path, "entry")
        try:
            removed: int = await store.remove(handle, recursive=True)
            return removed
        finally:
            handle.close()

    def volume_compare(self) -> Contenders:
        for files in TREES:

            async def compare(files: int = files) -> None:
                scope = await self._grown(files)
                if files not in self._changed:
                    self._changed.add(files)
                    fork = await scope.fork("changed")
                    for number in range(CHANGES):
                        await fork.write_bytes(f"tree/{number:02}/{number}.txt", b"changed")
                    await fork.aclose()
                found = (await scope.compare("changed")).differences
                if len(found) != CHANGES:
                    raise ValueError(f"{len(found)} differences")

            yield ours(of("compare", files), compare)

    def volume_depth(self) -> Contenders:
        """Ever another file, so that hardly any of it is remembered."""
        for depth in (0, FORKS):
            numbers = itertools.cycle(range(TREES[1]))

            async def stat(depth: int = depth, numbers: Any = numbers) -> None:
                scope = await self._deep(depth)
                number = next(numbers)
                await scope.stat(f"tree/{number % 100:02}/{number}.txt")

            yield ours(at_depth(depth), stat)

    async def _deep(self, depth: int) -> Any:
        if not self._chain:
            self._chain.append(await self._grown(TREES[1]))
            for number in range(1, FORKS + 1):
                fork = await self._chain[-1].fork(f"deep{number}")
                self._closing.push_async_callback(fork.aclose)
                self._chain.append(fork)
        return self._chain[depth]
