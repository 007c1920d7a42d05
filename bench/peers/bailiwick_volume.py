"""Bailiwick on a volume, through `Scope`; the store alone where that is said."""

import asyncio
import contextlib
import hashlib
import itertools
import pathlib
from collections.abc import Iterator

import bailiwick
from bailiwick import Scope
from bailiwick.model import ANYTHING
from bailiwick.paths import parse
from bailiwick.store import WritePlan
from bailiwick.stores.volume import changes
from bailiwick.stores.volume.core import ChangeTurn
from bailiwick.stores.volume.store import VolumeStore
from bailiwick.versions import Mark
from bench.peers.bailiwick_disk import ours
from bench.peers.peer import Contenders, Peer
from bench.peers.sqlite_reference import WRITERS, written_paths
from bench.scratch import CHUNK, NEEDLE, SMALL, TICKET
from bench.timing import Contender

VOLUME_READ = "Bailiwick volume, read_bytes"
VOLUME_WRITE = "Bailiwick volume, write_bytes"
VOLUME_STORE_WRITE = "Bailiwick's volume store alone, write"
VOLUME_WRITERS = f"Bailiwick volume, {WRITERS} writers"
VOLUME_GREP = "Bailiwick volume, grep"
VOLUME_GREP_SKIPPED = "Bailiwick volume, grep with what it skipped"
VOLUME_IN = "Bailiwick volume, write_stream"
VOLUME_OUT = "Bailiwick volume, stream"
FORKS = 4
"""How deep the chain of forks is in which a file is looked at."""

CHANGES = 100
"""Files that differ between the two branches that are compared."""


def of(what: str, files: int) -> str:
    return f"{what}, {files:,} files"


def at_depth(depth: int) -> str:
    return f"Bailiwick volume, stat at depth {depth}"


def store_of(scope: Scope) -> VolumeStore:
    """The store of a volume alone, without what governs it."""
    store = scope._pipeline.store
    assert isinstance(store, VolumeStore)
    return store


class _TakenBack(Exception):
    """Undoes a change that was only to be timed."""


class BailiwickVolume(Peer):
    name = "Bailiwick volume"
    own = True
    remark = "SQLite, every write a durable version; read, grep and streams through Scope"

    async def open(self) -> None:
        self._closing = stack = contextlib.AsyncExitStack()
        enter = stack.enter_async_context
        memory, disk = self.places.memory, self.places.disk
        self._fast = await enter(bailiwick.open(f"sqlite:{memory}/volume.db"))
        self._many = await enter(bailiwick.open(f"sqlite:{memory}/many.db"))
        self._disk = await enter(bailiwick.open(f"sqlite:{disk}/volume.db"))
        self._numbers = itertools.count()
        self._trees: dict[int, Scope] = {}
        self._searched: set[str] = set()
        self._changed: set[int] = set()
        self._chain: list[Scope] = []
        for scope in (self._fast, self._many, self._disk):
            await scope.write_bytes("docs/small.txt", SMALL, parents=True)

    async def close(self) -> None:
        await self._closing.aclose()

    def version(self) -> str:
        return bailiwick.__version__

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

    def _bare(self, scope: Scope) -> Contender:
        store, place = store_of(scope), parse("docs/small.txt").path
        plan, digest = WritePlan(), hashlib.sha256(SMALL).hexdigest()

        async def write() -> None:
            handle = await store.resolve(place, "entry")
            try:
                await store.write(handle, SMALL, digest, plan)
            finally:
                handle.close()

        return ours(VOLUME_STORE_WRITE, write)

    def volume_writers(self) -> Contenders:
        paths = written_paths(self.places.sizes)
        filled = False

        async def all_of_them() -> None:
            nonlocal filled
            if not filled:  # in the first call, which is not timed
                filled = True
                for path in itertools.islice(paths, self.places.sizes.touched):
                    await self._many.write_bytes(path, SMALL, parents=True)
            turn = itertools.islice(paths, WRITERS)
            await asyncio.gather(*(self._many.write_bytes(path, SMALL) for path in turn))

        yield ours(VOLUME_WRITERS, all_of_them)

    def stream_in(self) -> Contenders:
        yield ours(VOLUME_IN, self._write_large)

    async def _write_large(self) -> None:
        chunks = (CHUNK for _ in range(self.places.sizes.large_chunks))
        await self._fast.write_stream("large.bin", chunks)

    def stream_out(self) -> Contenders:
        async def read() -> int:
            if not await self._fast.exists("large.bin"):
                await self._write_large()
            size = 0
            async for chunk in self._fast.stream("large.bin"):
                size += len(chunk)
            return size

        yield ours(VOLUME_OUT, read, int)

    def grep_few(self) -> Contenders:
        yield from self._greps(self.places.few, NEEDLE, literal=True)

    def grep_literal(self) -> Contenders:
        yield from self._greps(self.places.tree, NEEDLE, literal=True)

    def grep_pattern(self) -> Contenders:
        yield from self._greps(self.places.tree, TICKET, literal=False)

    def _greps(self, tree: pathlib.Path, pattern: str, *, literal: bool) -> Contenders:
        for name, skipped in ((VOLUME_GREP, False), (VOLUME_GREP_SKIPPED, True)):

            async def grep(skipped: bool = skipped) -> int:
                if tree.name not in self._searched:  # in the first call, which is not timed
                    self._searched.add(tree.name)
                    await self._fill_searched(tree)
                found = await self._many.grep(
                    pattern, path=tree.name, literal=literal, report_skipped=skipped
                )
                return len(found.matches)

            yield ours(name, grep, int)

    async def _fill_searched(self, tree: pathlib.Path) -> None:
        for folder in sorted(tree.iterdir()):
            await asyncio.gather(
                *(
                    self._many.write_bytes(
                        f"{tree.name}/{folder.name}/{file.name}", file.read_bytes(), parents=True
                    )
                    for file in folder.iterdir()
                )
            )

    # --- whole trees ---------------------------------------------------------------------------

    async def _grown(self, files: int) -> Scope:
        if files not in self._trees:
            place = f"sqlite:{self.places.memory}/tree{files}.db"
            scope = self._trees[files] = await self._closing.enter_async_context(
                bailiwick.open(place)
            )
            for start in range(0, files, 500):
                names = [
                    f"tree/{n % 100:02}/{n}.txt" for n in range(start, min(start + 500, files))
                ]
                await asyncio.gather(
                    *(scope.write_bytes(name, b"x", parents=True) for name in names)
                )
        return self._trees[files]

    def volume_fork(self) -> Contenders:
        for files in self.places.sizes.trees:

            async def fork(files: int = files) -> None:
                scope = await self._grown(files)
                work = await scope.fork(f"work{next(self._numbers)}")
                await work.aclose()

            yield ours(of("fork", files), fork)

    def volume_move(self) -> Contenders:
        for files in self.places.sizes.trees:

            async def move(files: int = files) -> None:
                store = store_of(await self._grown(files))
                for here, there in (("tree", "moved"), ("moved", "tree")):
                    source = await store.resolve(parse(here).path, "entry")
                    target = await store.resolve(parse(there).path, "entry")
                    await store.move(source, target, replace=False)
                    source.close()
                    target.close()

            yield ours(of("move there and back", files), move)

    def volume_snapshot(self) -> Contenders:
        for files in self.places.sizes.trees:

            async def snapshot(files: int = files) -> None:
                scope = await self._grown(files)
                await scope.snapshot(f"kept{next(self._numbers)}")

            yield ours(of("snapshot", files), snapshot)

    def volume_remove(self) -> Contenders:
        """Taken back before it is committed: else there would be nothing left for the next call."""
        for files in self.places.sizes.trees:

            async def remove(files: int = files) -> None:
                store = store_of(await self._grown(files))
                handle = store.held(await store.resolve(parse("tree").path, "entry"))

                async def job(turn: ChangeTurn) -> None:
                    await changes.remove(turn, handle, Mark(), recursive=True, expected=ANYTHING)
                    raise _TakenBack

                try:
                    await store.core.change(job)
                except _TakenBack:
                    handle.close()

            yield ours(of("remove", files), remove)

    def volume_remove_in_fork(self) -> Contenders:
        """In a fork made for it: what went is shared with others, and is counted all the same."""
        for files in self.places.sizes.trees:

            async def remove(files: int = files) -> int:
                store = store_of(await self._grown(files))
                fork = await store.versions.fork(f"work{next(self._numbers)}")
                try:
                    return await self._remove_tree(fork)
                finally:
                    await fork.aclose()

            yield ours(of("fork and remove", files), remove)

    async def _remove_tree(self, store: VolumeStore) -> int:
        handle = await store.resolve(parse("tree").path, "entry")
        try:
            return await store.remove(handle, recursive=True)
        finally:
            handle.close()

    def volume_compare(self) -> Contenders:
        for files in self.places.sizes.trees:

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
            numbers = itertools.cycle(range(self.places.sizes.trees[1]))

            async def stat(depth: int = depth, numbers: Iterator[int] = numbers) -> None:
                scope = await self._deep(depth)
                number = next(numbers)
                await scope.stat(f"tree/{number % 100:02}/{number}.txt")

            yield ours(at_depth(depth), stat)

    async def _deep(self, depth: int) -> Scope:
        if not self._chain:
            self._chain.append(await self._grown(self.places.sizes.trees[1]))
            for number in range(1, FORKS + 1):
                fork = await self._chain[-1].fork(f"deep{number}")
                self._closing.push_async_callback(fork.aclose)
                self._chain.append(fork)
        return self._chain[depth]
