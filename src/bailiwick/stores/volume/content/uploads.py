"""Content on its way in: cut, hashed, and where it is large put into the blob store first.

The blobs of a content are durable before the row that names them is written. A few of them are on
their way at once, each hashed and put on threads, while the hash of the whole runs beside them on
one more: that hash alone takes longer than all the rest. What is given up is taken away again; what
a killed process left is found by gc.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from bailiwick.errors import BailiwickError, IoError
from bailiwick.finishing import in_thread, wait_through_cancellation
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.content.blobs import new_key
from bailiwick.stores.volume.content.chunks import (
    BLOB_BYTES,
    INLINE_BYTES_MAX,
    SHARED_BYTES_MIN,
    SPILL_BYTES_MIN,
    ChunkPiece,
    Stored,
    digest_of,
    named,
    pieces_of,
    store_pieces,
)
from bailiwick.stores.volume.content.compression import Buffer, Pack
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.database import Transaction

_UNDER_WAY_MAX: Final = 4
"""Chunks on their way while the next is gathered: 20 MiB together. Enough to keep two cores, or a
distant object store, busy."""

_GATHERED_BYTES_MIN: Final = 32 * 1024
"""Less than this is copied to what came before; more is kept as it came."""

_HASH_IN_THREAD_BYTES: Final = 128 * 1024
"""Hashing less takes less time than going to a thread."""

_CLAIM: Final = "SELECT id FROM chunk WHERE volume = $1 AND hash = $2 AND shared = 1"
_PIECE: Final = """
INSERT INTO manifest (volume, content, start, size, chunk) VALUES ($1, $2, $3, $4, $5)
"""
_CONTENT: Final = """
INSERT INTO content (volume, id, size, base, keep, depth) VALUES ($1, $2, 0, NULL, 0, 0)
"""
_UPLOAD: Final = "INSERT INTO upload (volume, content, expires_ms) VALUES ($1, $2, $3)"
_CLAIM_MS: Final = 24 * 3600 * 1000
"""How long an upload may take before gc takes what it has claimed for left over."""


class Prepared(NamedTuple):
    """Content that can be published: its hash, and its bytes or pieces."""

    size: int
    sha256: bytes
    data: bytes | None
    pieces: list[ChunkPiece]

    async def store(self, turn: Transaction, volume: int) -> Stored:
        if self.data is not None:
            return Stored(self.data, None)
        return Stored(None, await store_pieces(turn, volume, self.size, self.pieces))


class _PieceUnderWay(NamedTuple):
    """One chunk that is being hashed and put."""

    hashing: asyncio.Task[None]
    placing: asyncio.Task[ChunkPiece]


class VolumeUpload:
    """One content as it comes. Used by one caller; ended by `finish`, and in any case by `end`."""

    def __init__(self, core: VolumeCore, path: ScopedPath) -> None:
        """``path`` is the file that is named where a blob cannot be kept."""
        self._core = core
        self._path = path
        self._digest = hashlib.sha256()
        self._gathered: list[Buffer] = []
        self._waiting = 0
        self._spilled = 0
        self._under_way: deque[_PieceUnderWay] = deque()
        self._pieces: list[ChunkPiece] = []
        self._placed: dict[bytes, asyncio.Task[ChunkPiece]] = {}
        self._claimed: int | None = None
        self.size = 0

    async def add(self, data: bytes) -> None:
        self.size += len(data)
        rest: Buffer = bytes(data)  # what the caller may still change is copied
        while self._waiting + len(rest) >= BLOB_BYTES:
            missing = BLOB_BYTES - self._waiting
            if len(rest) > missing:
                view = memoryview(rest)
                self._gather(view[:missing])
                rest = view[missing:]
            else:
                self._gather(rest)
                rest = b""
            await self._spill()
        if rest:
            self._gather(rest)

    def _gather(self, data: Buffer) -> None:
        self._waiting += len(data)
        if len(data) >= _GATHERED_BYTES_MIN:
            self._gathered.append(data)
            return
        if not self._gathered or not isinstance(self._gathered[-1], bytearray):
            self._gathered.append(bytearray())
        self._gathered[-1] += data  # type: ignore[operator]

    async def _spill(self) -> None:
        """Send what was gathered on its way, once there is room for it."""
        parts, self._gathered = self._gathered, []
        size, self._waiting = self._waiting, 0
        start, self._spilled = self._spilled, self._spilled + size
        before = self._under_way[-1].hashing if self._under_way else None
        hashing = asyncio.ensure_future(self._hash(before, parts))
        placing = asyncio.ensure_future(self._place(parts, start, size))
        self._under_way.append(_PieceUnderWay(hashing, placing))
        while len(self._under_way) > _UNDER_WAY_MAX:
            await self._settle_oldest()

    async def _settle_oldest(self) -> None:
        hashing, placing = self._under_way[0]
        await asyncio.shield(hashing)
        try:
            piece = await asyncio.shield(placing)
        except IoError as error:
            raise named(error, self._path) from error
        self._under_way.popleft()
        self._pieces.append(piece)

    async def _hash(self, before: asyncio.Task[None] | None, parts: Sequence[Buffer]) -> None:
        """Go on with the hash of the whole, after what came before."""
        if before is not None:
            await before
        await in_thread(_update, self._digest, parts)

    async def _place(self, parts: Sequence[Buffer], start: int, size: int) -> ChunkPiece:
        """See to it that a chunk is kept: one of the same bytes, or a new blob."""
        digest = await in_thread(digest_of, *parts)
        if size >= SHARED_BYTES_MIN:
            first = self._placed.get(digest)
            if first is not None:
                return await asyncio.shield(first)
            this = asyncio.current_task()
            assert this is not None
            self._placed[digest] = this
        chunk = await self._claim(digest, start, size)
        if chunk is not None:
            return ChunkPiece(digest, size, chunk=chunk)
        key, blobs = new_key(self._core.identity.uid, digest), self._core.blobs
        packed = await in_thread(self._put, key, parts, pool=blobs.threads)
        return ChunkPiece(digest, size, blob=key, packed=packed)

    def _put(self, key: str, parts: Sequence[Buffer]) -> int | None:
        pack = self._core.pack
        packed = None if pack is None else pack(parts)
        self._core.blobs.put(key, parts if packed is None else [packed])
        return None if packed is None else len(packed)

    async def _claim(self, digest: bytes, start: int, size: int) -> int | None:
        """Use a chunk that has the same bytes already, and keep gc from taking it meanwhile."""
        core = self._core
        volume = core.view.volume
        async with core.looking() as session:
            if await session.row(_CLAIM, volume, digest) is None:
                return None
        expires_ms = core.clock_ns() // 1_000_000 + _CLAIM_MS

        async def claim(turn: Transaction) -> int | None:
            row = await turn.session.row(_CLAIM, volume, digest)
            if row is None:
                return None
            if self._claimed is None:
                self._claimed = turn.numbers.next()
                await turn.session.run(_CONTENT, volume, self._claimed)
                await turn.session.run(_UPLOAD, volume, self._claimed, expires_ms)
            await turn.session.run(_PIECE, volume, self._claimed, start, size, row[0])
            return int(row[0])

        return await core.database.write(claim)

    async def finish(self) -> Prepared:
        """What came, ready to be published: durable where it is in blobs."""
        data: bytes | None = None
        if self._spilled or self.size >= SPILL_BYTES_MIN:
            if self._waiting:
                await self._spill()
            while self._under_way:
                await self._settle_oldest()
            pieces = self._pieces
        else:
            rest = b"".join(self._gathered)
            self._gathered, self._waiting = [], 0
            if len(rest) <= INLINE_BYTES_MAX:
                self._digest.update(rest)
                pieces, data = [], rest
            else:
                pieces = await self._cut(rest)
        sha256 = self._core.hashes.remember(self._digest)
        return Prepared(self.size, sha256, data, pieces)

    async def _cut(self, data: bytes) -> list[ChunkPiece]:
        if len(data) < _HASH_IN_THREAD_BYTES:
            self._digest.update(data)
            return await cut(data, self._core.pack)
        await in_thread(self._digest.update, data)
        return await in_thread(pieces_of, data, self._core.pack)

    async def end(self, *, published: bool) -> None:
        """Let go of what was claimed; with nothing published, take away what was put, too."""
        try:
            await self._wait_for_all()
        finally:
            if not published:
                await self._take_away()
            claimed, self._claimed = self._claimed, None
            if claimed is not None and not self._core.is_closed:
                await self._core.database.write(lambda turn: _expire(turn, self._core, claimed))

    async def _wait_for_all(self) -> None:
        under_way, self._under_way = self._under_way, deque()
        self._placed.clear()
        tasks = [task for pair in under_way for task in pair]
        waiting = asyncio.gather(*tasks, return_exceptions=True)
        try:
            await asyncio.shield(waiting)
        finally:
            await wait_through_cancellation(waiting)
            placed = [pair.placing for pair in under_way]
            self._pieces += [
                task.result() for task in placed if not task.cancelled() and not task.exception()
            ]

    async def _take_away(self) -> None:
        blobs = self._core.blobs
        for key in {piece.blob for piece in self._pieces if piece.blob is not None}:
            try:
                await in_thread(blobs.delete, key, pool=blobs.threads)
            except BailiwickError:
                return  # a place that fails is not asked again and again: gc will find the rest


async def cut(data: bytes, pack: Pack | None) -> list[ChunkPiece]:
    """Content cut into chunks for the database; on a thread where they are compressed."""
    return pieces_of(data) if pack is None else await in_thread(pieces_of, data, pack)


def _update(digest: hashlib._Hash, parts: Sequence[Buffer]) -> None:
    for part in parts:
        digest.update(part)


async def _expire(turn: Transaction, core: VolumeCore, content: int) -> None:
    sql = "UPDATE upload SET expires_ms = 0 WHERE volume = $1 AND content = $2"
    await turn.session.run(sql, core.view.volume, content)
