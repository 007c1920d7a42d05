"""Content on its way in: cut, hashed, and where it is large put into the blob store first.

The blobs of a content are durable before the row that names them is written. While one is being
put, the next is gathered and hashed. What is given up is taken away again; what a killed process
left is found by gc.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import Final, NamedTuple

from bailiwick.errors import BailiwickError
from bailiwick.stores.volume.blobs import new_key
from bailiwick.stores.volume.content import (
    BLOB_BYTES,
    INLINE_BYTES_MAX,
    SPILL_BYTES_MIN,
    Piece,
    Stored,
    digest_of,
    pieces_of,
    store_pieces,
)
from bailiwick.stores.volume.core import Core
from bailiwick.stores.volume.database import Transaction
from bailiwick.stores.volume.threads import in_thread

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
    pieces: list[Piece]

    async def store(self, turn: Transaction, volume: int) -> Stored:
        if self.data is not None:
            return Stored(self.data, None)
        return Stored(None, await store_pieces(turn, volume, self.size, self.pieces))


class Upload:
    """One content as it comes. Used by one caller; ended by `finish` or `give_up`."""

    def __init__(self, core: Core, digest: hashlib._Hash | None = None) -> None:
        """``digest`` goes on from content that stands before this."""
        self._core = core
        self._digest = digest or hashlib.sha256()
        self._gathered: list[bytes] = []
        self._waiting = 0
        self._spills = False
        self._pieces: list[Piece] = []
        self._putting: asyncio.Task[Piece] | None = None
        self._claimed: int | None = None
        self.size = 0

    async def add(self, data: bytes) -> None:
        self._gathered.append(data)
        self._waiting += len(data)
        self.size += len(data)
        while self._waiting >= BLOB_BYTES:
            whole = b"".join(self._gathered)
            self._gathered = [whole[BLOB_BYTES:]] if len(whole) > BLOB_BYTES else []
            self._waiting = len(whole) - min(len(whole), BLOB_BYTES)
            await self._spill(whole[:BLOB_BYTES])

    async def _spill(self, data: bytes) -> None:
        self._spills = True
        # Two hashes on two threads; the blob before this one is being put meanwhile.
        hashing = asyncio.ensure_future(in_thread(self._digest.update, data))
        try:
            digest = await in_thread(digest_of, data)
        finally:
            await hashing
        start = self.size - self._waiting - len(data)
        chunk = await self._claim(digest, start, len(data))
        await self._wait_for_put()
        if chunk is not None:
            self._pieces.append(Piece(digest, len(data), chunk=chunk))
            return
        self._putting = asyncio.ensure_future(self._put(digest, data))

    async def _put(self, digest: bytes, data: bytes) -> Piece:
        key = new_key(self._core.identity.uid, digest)
        piece = Piece(digest, len(data), blob=key)
        await in_thread(self._core.blobs.put, key, data)
        return piece

    async def _wait_for_put(self) -> None:
        putting = self._putting
        if putting is not None:
            piece = await asyncio.shield(putting)
            self._putting = None
            self._pieces.append(piece)

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
        rest = b"".join(self._gathered)
        self._gathered, self._waiting = [], 0
        if self._spills or self.size >= SPILL_BYTES_MIN:
            if rest:
                await self._spill(rest)
            await self._wait_for_put()
            pieces, data = self._pieces, None
        elif self.size <= INLINE_BYTES_MAX:
            self._digest.update(rest)
            pieces, data = [], rest
        else:
            pieces, data = await self._cut(rest), None
        sha256 = self._core.hashes.remember(self._digest)
        return Prepared(self.size, sha256, data, pieces)

    async def _cut(self, data: bytes) -> list[Piece]:
        if len(data) < _HASH_IN_THREAD_BYTES:
            self._digest.update(data)
            return pieces_of(data)
        await in_thread(self._digest.update, data)
        return await in_thread(pieces_of, data)

    async def end(self, *, published: bool) -> None:
        """Let go of what was claimed; with nothing published, take away what was put, too."""
        putting, self._putting = self._putting, None
        if putting is not None:
            with suppress(BailiwickError):
                self._pieces.append(await putting)
        if not published:
            for piece in self._pieces:
                if piece.blob is not None:
                    with suppress(BailiwickError):
                        await in_thread(self._core.blobs.delete, piece.blob)
        claimed, self._claimed = self._claimed, None
        if claimed is not None and not self._core.is_closed:
            await self._core.database.write(lambda turn: _expire(turn, self._core, claimed))


async def _expire(turn: Transaction, core: Core, content: int) -> None:
    sql = "UPDATE upload SET expires_ms = 0 WHERE volume = $1 AND content = $2"
    await turn.session.run(sql, core.view.volume, content)
