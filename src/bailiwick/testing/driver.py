"""The verbs in which the contract speaks: paths in, plain values out.

The contract is one text for everything that looks like a tree. `StoreDriver` speaks to a store;
`bailiwick.testing.scope_driver` has the one that speaks to a scope.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypedDict, Unpack

from bailiwick.errors import NotADirectory
from bailiwick.model import MiB, Stat, Symlinks, WriteMode
from bailiwick.paths import parse
from bailiwick.store import Child, Handle, Look, Store, WritePlan, Written

READ_BYTES_MAX = 100 * MiB
"""What a read without a length asks for: more than any case writes."""


PAGES_MAX = 1_000
"""More pages than any case asks for: a listing that goes round in circles is stopped here."""


class WriteHow(TypedDict, total=False):
    """How something is written: as `WritePlan` has it, which says what holds unless told."""

    mode: WriteMode
    expected_sha256: str | None
    expected_version: str | None
    file_mode: int | None
    parents: bool


class Driver(Protocol):
    """A tree, by path. Raises the errors of `bailiwick.errors`."""

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...

    def stream(
        self, path: str, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]: ...

    async def write(self, path: str, data: bytes, **how: Unpack[WriteHow]) -> Written: ...

    async def write_stream(
        self, path: str, chunks: AsyncIterator[bytes], **how: Unpack[WriteHow]
    ) -> Written: ...

    async def append(self, path: str, data: bytes, *, parents: bool = False) -> Written: ...

    async def truncate(self, path: str, size: int) -> Written: ...

    async def make_dir(
        self, path: str, *, parents: bool = False, file_mode: int | None = None
    ) -> bool: ...

    async def remove(self, path: str, *, recursive: bool = False) -> int: ...

    async def move(self, path: str, to: str, *, replace: bool = False) -> bool: ...

    async def copy(self, path: str, to: str, *, recursive: bool = False) -> int: ...

    async def symlink(self, path: str, target: str) -> None: ...

    async def readlink(self, path: str) -> str: ...

    async def set_mode(self, path: str, file_mode: int) -> None: ...

    async def set_times(self, path: str, mtime_ns: int) -> None: ...

    async def stat(self, path: str) -> Stat: ...

    async def lstat(self, path: str) -> Stat: ...

    async def entries(self, path: str) -> list[Child]:
        """All entries of a directory."""
        ...

    async def pages(self, path: str, limit: int) -> list[list[str]]:
        """The names of a directory, page by page."""
        ...

    async def aclose(self) -> None: ...


Plant = Callable[[Driver], Awaitable[None]]
"""Fills a tree before it is handed to a case."""


class MakeDriver(Protocol):
    """Makes a fresh, empty tree, filled by ``plant`` while links are still allowed in it."""

    async def __call__(self, *, symlinks: Symlinks, plant: Plant | None) -> Driver: ...


@asynccontextmanager
async def ended(chunks: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """End a stream with the block, also one that was left early: not when garbage is collected."""
    try:
        yield chunks
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


class StoreDriver:
    """Resolve, act, close: the least a caller of a store does."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @asynccontextmanager
    async def _held(
        self, path: str, look: Look, *, parents: bool = False, file: bool = False
    ) -> AsyncIterator[Handle]:
        """Hold what ``path`` names; ``file`` says that something else than a directory is made."""
        place, directory = parse(path)
        handle = await self.store.resolve(place, look, directory=directory, parents=parents)
        try:
            if file and directory and handle.type is None:
                raise NotADirectory("the trailing slash demands a directory", path=place)
            yield handle
        finally:
            handle.close()

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        async with self._held(path, "object") as handle:
            asked = READ_BYTES_MAX if length is None else length
            return (await self.store.read(handle, offset, asked)).data

    async def stream(
        self, path: str, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        async with (
            self._held(path, "object") as handle,
            ended(self.store.stream(handle, offset, length)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def write(self, path: str, data: bytes, **how: Unpack[WriteHow]) -> Written:
        plan = WritePlan(**how)
        sha256 = hashlib.sha256(data).hexdigest()
        async with self._held(path, "entry", parents=plan.parents, file=True) as handle:
            return await self.store.write(handle, data, sha256, plan)

    async def write_stream(
        self, path: str, chunks: AsyncIterator[bytes], **how: Unpack[WriteHow]
    ) -> Written:
        plan = WritePlan(**how)
        async with self._held(path, "entry", parents=plan.parents, file=True) as handle:
            return await self.store.write_stream(handle, chunks, plan)

    async def append(self, path: str, data: bytes, *, parents: bool = False) -> Written:
        async with self._held(path, "entry", parents=parents, file=True) as handle:
            return await self.store.append(handle, data, WritePlan(parents=parents))

    async def truncate(self, path: str, size: int) -> Written:
        async with self._held(path, "entry") as handle:
            return await self.store.truncate(handle, size, WritePlan())

    async def make_dir(
        self, path: str, *, parents: bool = False, file_mode: int | None = None
    ) -> bool:
        async with self._held(path, "entry", parents=parents) as handle:
            return await self.store.make_dir(handle, file_mode=file_mode, parents=parents)

    async def remove(self, path: str, *, recursive: bool = False) -> int:
        async with self._held(path, "entry") as handle:
            return await self.store.remove(handle, recursive=recursive)

    async def move(self, path: str, to: str, *, replace: bool = False) -> bool:
        async with self._held(path, "entry") as source, self._held(to, "entry") as destination:
            return await self.store.move(source, destination, replace=replace)

    async def copy(self, path: str, to: str, *, recursive: bool = False) -> int:
        async with self._held(path, "entry") as source, self._held(to, "entry") as destination:
            return await self.store.copy(source, destination, recursive=recursive)

    async def symlink(self, path: str, target: str) -> None:
        async with self._held(path, "entry", file=True) as handle:
            await self.store.symlink(handle, target)

    async def readlink(self, path: str) -> str:
        async with self._held(path, "entry") as handle:
            return await self.store.readlink(handle)

    async def set_mode(self, path: str, file_mode: int) -> None:
        async with self._held(path, "entry") as handle:
            await self.store.set_mode(handle, file_mode)

    async def set_times(self, path: str, mtime_ns: int) -> None:
        async with self._held(path, "entry") as handle:
            await self.store.set_times(handle, mtime_ns, None)

    async def stat(self, path: str) -> Stat:
        async with self._held(path, "object") as handle:
            return await self.store.stat(handle)

    async def lstat(self, path: str) -> Stat:
        async with self._held(path, "entry") as handle:
            return await self.store.stat(handle)

    async def entries(self, path: str) -> list[Child]:
        async with self._held(path, "object") as handle:
            return (await self.store.children(handle)).entries

    async def pages(self, path: str, limit: int) -> list[list[str]]:
        pages: list[list[str]] = []
        after, more = None, True
        async with self._held(path, "object") as handle:
            while more:
                entries, more = await self.store.children(handle, after=after, limit=limit)
                assert len(pages) < PAGES_MAX, "the listing does not come to an end"
                pages.append([entry.name for entry in entries])
                after = entries[-1].name if entries else after
        return pages

    async def aclose(self) -> None:
        await self.store.aclose()
