"""Bytes of a file, from its row, from the database's chunks and from blobs.

A range touches the chunks it lies in and no others. Each is read whole, because only a whole chunk
can be checked; the last few are remembered for the next range.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from bailiwick.errors import IoError, Unsupported
from bailiwick.finishing import in_thread
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.content.chunks import (
    BLOB_BYTES,
    ZEROS,
    ChunkExtent,
    checked,
    chunk_of,
    extents,
    fetched,
    named,
)
from bailiwick.stores.volume.content.compression import Buffer
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.records import Inode

_KEPT_BYTES: Final = 8 * MiB
"""Chunks that are remembered: two of the largest."""

_REST_BYTES: Final = 1 * MiB
"""So often a stream lets others have their turn. Each turn costs a switch between threads while
chunks are read on others: after every 256 KiB it was more than half of the time."""

_AHEAD_CHUNKS: Final = 3
"""Chunks of a stream in memory or on their way: 12 MiB. The first is given out, two are read."""

_spare: deque[bytearray] = deque(maxlen=2 * _AHEAD_CHUNKS)
"""Buffers that streams have let go of, for the next: to have memory for every chunk anew from the
system costs as much as reading and hashing it."""


class ContentReader:
    """Reads the content of nodes for all views of a volume."""

    def __init__(self, core: VolumeCore) -> None:
        self._core = core
        self._kept: dict[int, Buffer] = {}
        self._kept_bytes = 0

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
        except (IoError, Unsupported) as error:
            raise named(error, path) from error
        data = b"".join(parts)
        if len(data) != end - offset:
            raise IoError("a part of the content is missing", path=path, hint="check the volume")
        return data

    async def stream(
        self, inode: Inode, path: ScopedPath, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        """A range of a file in pieces, one chunk in memory and the next one on its way."""
        end = inode.size if length is None else min(inode.size, offset + length)
        step = self._core.limits.stream_chunk_bytes
        if inode.content is None:
            data = (inode.data or b"")[offset : max(end, offset)]
            for at in range(0, len(data), step):
                yield data[at : at + step]
                await asyncio.sleep(0)
                self._core.check_open()
            return
        position = rested = offset
        try:
            found = await self._extents(inode, offset, end) if offset < end else []
            async with aclosing(self._parts(found, position, end, step)) as parts:
                async for part in parts:
                    yield part
                    self._core.check_open()
                    position += len(part)
                    if position - rested >= _REST_BYTES:
                        rested = position
                        await asyncio.sleep(0)
        except (IoError, Unsupported) as error:
            raise named(error, path) from error
        if position < end:
            raise IoError("a part of the content is missing", path=path, hint="check the volume")

    async def _parts(
        self, found: list[ChunkExtent], position: int, end: int, step: int
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of extents from a position to an end."""
        ahead = _Ahead(self, found)
        try:
            for extent in found:
                upto = min(end, extent.start + extent.size)
                if extent.start > position:
                    raise IoError("a part of the content is missing", hint="check the volume")
                if extent.chunk == ZEROS:
                    while position < upto:
                        yield bytes(min(step, upto - position))
                        position = min(position + step, upto)
                    continue
                async with ahead.next_chunk() as data:
                    while position < upto:
                        first = position - extent.start
                        last = min(first + step, upto - extent.start)
                        yield bytes(data[first:last])
                        position += last - first
        finally:
            await ahead.end()

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

    async def _extents(self, inode: Inode, start: int, end: int) -> list[ChunkExtent]:
        assert inode.content is not None
        async with self._core.looking() as session:
            return await extents(session, self._core.view.volume, inode.content, start, end)

    async def chunk(self, number: int) -> Buffer:
        """The bytes of a chunk, remembered or read."""
        data = self._kept.get(number)
        if data is None:
            data = await self.load(number)
            self._keep(number, data)
        return data

    async def _part(self, extent: ChunkExtent, start: int, end: int) -> Buffer:
        """What a range has of an extent."""
        first, last = max(start, extent.start), min(end, extent.start + extent.size)
        if extent.chunk == ZEROS:
            return bytes(last - first)
        data = await self.chunk(extent.chunk)
        return memoryview(data)[first - extent.start : last - extent.start]

    async def load(self, number: int, into: bytearray | None = None) -> Buffer:
        """The bytes of a chunk, checked; those of a blob in ``into`` where that is given."""
        data = self._kept.get(number)
        if data is not None:
            return data
        core = self._core
        async with core.looking() as session:
            chunk = await chunk_of(session, core.view.volume, number)
        if chunk.blob is None:
            return checked(chunk, chunk.data)
        return await in_thread(fetched, core.blobs, chunk, into, pool=core.blobs.threads)

    def _keep(self, number: int, data: Buffer) -> None:
        # Counted as they come and go: a search keeps many small ones for a moment each.
        self._kept_bytes += len(data) - len(self._kept.pop(number, b""))
        self._kept[number] = data
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))))


class _Ahead:
    """Chunks of a stream that are read while the ones before them are given out."""

    def __init__(self, reader: ContentReader, found: list[ChunkExtent]) -> None:
        self._reader = reader
        self._following = iter([extent.chunk for extent in found if extent.chunk != ZEROS])
        self._coming: deque[tuple[asyncio.Task[Buffer], bytearray]] = deque()

    @asynccontextmanager
    async def next_chunk(self) -> AsyncGenerator[Buffer, None]:
        """The next chunk, until its end is reached; those after it begin to be read."""
        while len(self._coming) < _AHEAD_CHUNKS:
            number = next(self._following, None)
            if number is None:
                break
            buffer = _spare.pop() if _spare else bytearray(BLOB_BYTES)
            loading = asyncio.ensure_future(self._reader.load(number, buffer))
            self._coming.append((loading, buffer))
        task, buffer = self._coming.popleft()
        yield await task
        _spare.append(buffer)

    async def end(self) -> None:
        """Whoever leaves early leaves nothing running."""
        coming, self._coming = [task for task, _ in self._coming], deque()
        if coming:
            for task in coming:
                task.cancel()
            await asyncio.wait(coming)
            for task in coming:
                if not task.cancelled():
                    task.exception()
