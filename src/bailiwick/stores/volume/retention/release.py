"""Letting go of content that no node refers to: its list, its chunks, its blobs."""

from __future__ import annotations

from typing import Final

from bailiwick.stores.volume.content.chunks import ZEROS
from bailiwick.stores.volume.rows.database import RowSession, Transaction

_IN_USE: Final = """
SELECT 1 FROM inode WHERE volume = $1 AND content = $2 AND content IS NOT NULL
UNION ALL SELECT 1 FROM content WHERE volume = $1 AND base = $2 AND base IS NOT NULL
LIMIT 1
"""
_UPLOAD: Final = "SELECT 1 FROM upload WHERE volume = $1 AND content = $2 AND expires_ms > $3"
_BASE: Final = "SELECT base FROM content WHERE volume = $1 AND id = $2"
_CHUNKS: Final = "SELECT DISTINCT chunk FROM manifest WHERE volume = $1 AND content = $2"
_DROP_MANIFEST: Final = "DELETE FROM manifest WHERE volume = $1 AND content = $2"
_DROP_CONTENT: Final = "DELETE FROM content WHERE volume = $1 AND id = $2"
_DROP_UPLOAD: Final = "DELETE FROM upload WHERE volume = $1 AND content = $2"
_CHUNK_IN_USE: Final = "SELECT 1 FROM manifest WHERE volume = $1 AND chunk = $2 LIMIT 1"
_DROP_CHUNK: Final = "DELETE FROM chunk WHERE volume = $1 AND id = $2 RETURNING blob"
_DOOM: Final = """
INSERT INTO doomed (volume, blob) VALUES ($1, $2) ON CONFLICT (volume, blob) DO NOTHING
"""
_DOOMED: Final = "SELECT blob FROM doomed WHERE volume = $1"
_FORGET: Final = "DELETE FROM doomed WHERE volume = $1 AND blob = $2"
_NAMED: Final = "SELECT 1 FROM chunk WHERE volume = $1 AND blob = $2 LIMIT 1"
_EXPIRED: Final = "SELECT content FROM upload WHERE volume = $1 AND expires_ms <= $2 LIMIT 64"


class Releasing:
    """Counts what goes."""

    def __init__(self, volume: int) -> None:
        self._volume = volume
        self.contents = 0
        self.chunks = 0

    async def release(self, turn: Transaction, content: int | None) -> None:
        """Let go of a content, if nothing refers to it, and of those it began like."""
        session, volume = turn.session, self._volume
        while content is not None:
            if await session.row(_IN_USE, volume, content) is not None:
                return
            row = await session.row(_BASE, volume, content)
            chunks = await session.rows(_CHUNKS, volume, content)
            await session.run(_DROP_MANIFEST, volume, content)
            await session.run(_DROP_CONTENT, volume, content)
            await session.run(_DROP_UPLOAD, volume, content)
            self.contents += 1
            for (chunk,) in chunks:
                await self._release_chunk(turn, chunk)
            content = None if row is None else row[0]

    async def _release_chunk(self, turn: Transaction, chunk: int) -> None:
        session, volume = turn.session, self._volume
        if chunk == ZEROS or await session.row(_CHUNK_IN_USE, volume, chunk) is not None:
            return
        row = await session.row(_DROP_CHUNK, volume, chunk)
        self.chunks += 1
        if row is not None and row[0] is not None:
            # The blob goes once this is committed, and is named here until it has gone.
            await session.run(_DOOM, volume, row[0])

    async def release_expired(self, turn: Transaction, now_ms: int) -> bool:
        """Let go of some contents that nothing came to refer to. Returns whether more may be."""
        rows = await turn.session.rows(_EXPIRED, self._volume, now_ms)
        for (content,) in rows:
            await turn.session.run(_DROP_UPLOAD, self._volume, content)
            await self.release(turn, content)
        return bool(rows)

    async def doomed(self, session: RowSession) -> list[str]:
        return [row[0] for row in await session.rows(_DOOMED, self._volume)]

    async def forget_doomed(self, turn: Transaction, keys: list[str]) -> None:
        for key in keys:
            await turn.session.run(_FORGET, self._volume, key)

    async def is_named(self, session: RowSession, key: str) -> bool:
        return await session.row(_NAMED, self._volume, key) is not None
