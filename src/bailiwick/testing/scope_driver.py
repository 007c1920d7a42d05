"""The contract's verbs on a scope: a boundary configured to nothing is invisible."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from bailiwick.model import Page, Stat, WriteResult
from bailiwick.scope import Scope
from bailiwick.store import Child, Written
from bailiwick.testing.driver import PAGES_MAX, WriteHow, ended


class ScopeDriver:
    """The contract's verbs on a scope. Ignore rules are switched off: a store knows none."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return (await self.scope.read_bytes(path, offset, length)).data

    async def stream(
        self, path: str, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        async with ended(self.scope.stream(path, offset, length)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def write(self, path: str, data: bytes, **how: Unpack[WriteHow]) -> Written:
        return _written(await self.scope.write_bytes(path, data, **how))

    async def write_stream(
        self, path: str, chunks: AsyncIterator[bytes], **how: Unpack[WriteHow]
    ) -> Written:
        return _written(await self.scope.write_stream(path, chunks, **how))

    async def append(self, path: str, data: bytes, *, parents: bool = False) -> Written:
        return _written(await self.scope.append(path, data, parents=parents))

    async def truncate(self, path: str, size: int) -> Written:
        return _written(await self.scope.truncate(path, size))

    async def make_dir(
        self, path: str, *, parents: bool = False, file_mode: int | None = None
    ) -> bool:
        return (await self.scope.make_dir(path, parents=parents, file_mode=file_mode)).changed

    async def remove(self, path: str, *, recursive: bool = False) -> int:
        return (await self.scope.remove(path, recursive=recursive)).count

    async def move(self, path: str, to: str, *, replace: bool = False) -> bool:
        return (await self.scope.move(path, to, replace=replace)).changed

    async def copy(self, path: str, to: str, *, recursive: bool = False) -> int:
        return (await self.scope.copy(path, to, recursive=recursive)).count

    async def symlink(self, path: str, target: str) -> None:
        await self.scope.symlink(path, target)

    async def readlink(self, path: str) -> str:
        return await self.scope.readlink(path)

    async def set_mode(self, path: str, file_mode: int) -> None:
        await self.scope.set_mode(path, file_mode)

    async def set_times(self, path: str, mtime_ns: int) -> None:
        await self.scope.set_times(path, mtime_ns)

    async def stat(self, path: str) -> Stat:
        return await self.scope.stat(path)

    async def lstat(self, path: str) -> Stat:
        return await self.scope.lstat(path)

    async def entries(self, path: str) -> list[Child]:
        return [
            Child(
                entry.name,
                entry.type,
                entry.size,
                entry.mtime_ns,
                entry.addressable,
                entry.read_only,
            )
            for page in await self._pages(path, None)
            for entry in page.entries
        ]

    async def pages(self, path: str, limit: int) -> list[list[str]]:
        return [[entry.name for entry in page.entries] for page in await self._pages(path, limit)]

    async def _pages(self, path: str, limit: int | None) -> list[Page]:
        pages = [await self.scope.list(path, limit=limit, include_ignored=True)]
        while (cursor := pages[-1].next_cursor) is not None:
            assert len(pages) < PAGES_MAX, "the listing does not come to an end"
            pages.append(
                await self.scope.list(path, cursor=cursor, limit=limit, include_ignored=True)
            )
        return pages

    async def aclose(self) -> None:
        await self.scope.aclose()


def _written(result: WriteResult) -> Written:
    sha256 = result.sha256 or ""  # whoever opened the scope may read all of it
    return Written(result.created, result.size, sha256, result.version, result.file_mode)
