"""Bytes of a file, from its row, from the database's chunks and from blobs.

A range touches the chunks it lies in and no others. Each is read whole, because only a whole chunk
can be checked; the last few are remembered for the next range.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from typing import Final

from bailiwick.errors import IoError
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.content import ZEROS, Extent, checked, chunk_of, extents, named
from bailiwick.stores.volume.core import Core
from bailiwick.stores.volume.rows import Inode
from bailiwick.stores.volume.threads import in_thread

_KEPT_BYTES: Final = 8 * MiB
"""Chunks that are remembered: two of the largest."""


class ContentReader:
    """Reads the content of nodes for all views of a volume."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kept: dict[int, bytes] = {}

    async def read(self, inode: Inode, path: ScopedPath, offset: int, length: int) -> bytes:
        """At most ``length`` bytes from ``offset``."""
        end = min(inode.size, offset + length)
        if offset >= end:
            return b""
        if inode.content is None:
            return (inode.data or b"")[offset:end]
        try:
            parts = [
                await self._part(extent, offset, end)
                for extent in await self._extents(inode, offset, end)
            ]
        except IoError as error:
            raise named(error, path) from error
        data = b"".join(parts)
        if len(data) != end - offset:
            raise IoError("a part of the content is missing", path=path, hint="check the volume")
        return data

    async def stream(
        self, inode: Inode, path: ScopedPath, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        """The same in pieces, one chunk in memory and the next one on its way."""
        end = inode.size if length is None else min(inode.size, offset + length)
        step = self._core.limits.stream_chunk_bytes
        if inode.content is None:
            data = (inode.data or b"")[offset : max(end, offset)]
            for at in range(0, len(data), step):
                yield data[at : at + step]
                await asyncio.sleep(0)
                self._core.check_open()
            return
        try:
            parts = await self._extents(inode, offset, end) if offset < end else []
        except IoError as error:
            raise named(error, path) from error
        position, ahead = offset, _Ahead(self)
        try:
            for number, extent in enumerate(parts):
                following = parts[number + 1] if number + 1 < len(parts) else None
                data = await ahead.take(extent, following)
                upto = min(end, extent.start + extent.size)
                while position < upto:
                    last = min(position + step, upto)
                    start = position - extent.start
                    yield data[start : last - extent.start] if data else bytes(last - position)
                    await asyncio.sleep(0)
                    self._core.check_open()
                    position = last
        except IoError as error:
            raise named(error, path) from error
        finally:
            await ahead.end()
        if position < end:
            raise IoError("a part of the content is missing", path=path, hint="check the volume")

    async def hashed(self, inode: Inode, path: ScopedPath) -> hashlib._Hash:
        """A hash of the whole content, to be gone on with."""
        known = self._core.hashes.resume(inode.sha256 or b"")
        if known is not None:
            return known
        digest, position = hashlib.sha256(), 0
        while position < inode.size:
            data = await self.read(inode, path, position, 4 * MiB)
            await in_thread(digest.update, data)
            position += len(data)
        if digest.digest() != inode.sha256:
            raise IoError("the content is damaged", path=path, hint="check the volume")
        self._core.hashes.remember(digest)
        return digest

    async def _extents(self, inode: Inode, start: int, end: int) -> list[Extent]:
        assert inode.content is not None
        async with self._core.looking() as session:
            return await extents(session, self._core.view.volume, inode.content, start, end)

    async def chunk(self, number: int) -> bytes:
        """The bytes of a chunk, remembered or read."""
        data = self._kept.get(number)
        if data is None:
            data = await self._load(number)
            self._keep(number, data)
        return data

    async def _part(self, extent: Extent, start: int, end: int) -> bytes:
        """What a range has of an extent."""
        first, last = max(start, extent.start), min(end, extent.start + extent.size)
        if extent.chunk == ZEROS:
            return bytes(last - first)
        data = await self.chunk(extent.chunk)
        return data[first - extent.start : last - extent.start]

    async def _load(self, number: int) -> bytes:
        core = self._core
        async with core.looking() as session:
            chunk = await chunk_of(session, core.view.volume, number)
        if chunk.blob is None:
            return checked(chunk, chunk.data)
        key = chunk.blob
        return await in_thread(lambda: checked(chunk, core.blobs.get(key)))

    def _keep(self, number: int, data: bytes) -> None:
        self._kept[number] = data
        while sum(map(len, self._kept.values())) > _KEPT_BYTES and len(self._kept) > 1:
            del self._kept[next(iter(self._kept))]


class _Ahead:
    """One chunk of a stream that is read while the one before it is given out."""

    def __init__(self, reader: ContentReader) -> None:
        self._reader = reader
        self._coming: asyncio.Task[bytes] | None = None

    async def take(self, extent: Extent, following: Extent | None) -> bytes:
        """The chunk of an extent (nothing for zeros); the following one begins to be read."""
        if extent.chunk == ZEROS:
            data = b""
        elif self._coming is not None:
            coming, self._coming = self._coming, None
            data = await coming
        else:
            data = await self._reader.chunk(extent.chunk)
        if following is not None and following.chunk != ZEROS:
            self._coming = asyncio.ensure_future(self._reader.chunk(following.chunk))
        return data

    async def end(self) -> None:
        """Whoever leaves early leaves nothing running."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
            if not coming.cancelled():
                coming.exception()
