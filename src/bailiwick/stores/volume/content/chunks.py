"""Content as rows: small in the node's own row, larger as a list of pieces, each a chunk.

A chunk is found by its hash, is stored once, and is checked whenever it is read: what is missing or
wrong is an error that names the file, never other bytes. A content is never changed once a node
refers to it; what is appended makes a new one that begins like the old.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Final, NamedTuple

from blake3 import blake3

from bailiwick.errors import IoError, Unsupported
from bailiwick.model import KiB, MiB
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.content.blobs import Blobs
from bailiwick.stores.volume.content.compression import Buffer, Pack, unpacked
from bailiwick.stores.volume.rows.database import RowSession, Transaction
from bailiwick.stores.volume.rows.records import Inode

INLINE_BYTES_MAX: Final = 8 * KiB
"""Content up to this is kept in the row of its node: a chunk has five B-trees of its own, and takes
three times as long. Most files of source text are smaller."""

CHUNK_BYTES: Final = 512 * KiB
"""Chunks in the database. Their size hardly matters there (64 KiB to 4 MiB: 4.6 to 6.1 of raw)."""

SHARED_BYTES_MIN: Final = 4 * KiB
"""Smaller chunks are not worth the index that finds equal ones."""

SPILL_BYTES_MIN: Final = 1_500_000
"""From this size on content goes to the blob store: a large row is copied through the log."""

BLOB_BYTES: Final = 4 * MiB
"""Chunks in the blob store: each costs a sync (512 KiB: 1.5 times raw writing, 4 MiB: 1.16)."""

CHUNK_BYTES_MAX: Final = 64 * MiB
"""No chunk was ever larger: a row that says so is damaged."""

TAIL_BYTES_MAX: Final = 64 * KiB
"""A last chunk up to this is written again when something is appended, instead of one more."""

CHAIN_MAX: Final = 32
"""So many appends are a list of bases; then the pieces are listed in one place again."""

ZEROS: Final = 0
"""The chunk that is stored nowhere."""

_EXTENTS: Final = """
SELECT start, size, chunk FROM manifest
WHERE volume = $1 AND content = $2 AND start < $4 AND start >= coalesce((
    SELECT max(start) FROM manifest WHERE volume = $1 AND content = $2 AND start <= $3), 0)
ORDER BY start
"""
_CONTENT: Final = "SELECT size, base, keep, depth FROM content WHERE volume = $1 AND id = $2"
_PUT_CONTENT: Final = """
INSERT INTO content (volume, id, size, base, keep, depth) VALUES ($1, $2, $3, $4, $5, $6)
"""
_PUT_PIECE: Final = """
INSERT INTO manifest (volume, content, start, size, chunk) VALUES ($1, $2, $3, $4, $5)
"""
_SHARED: Final = "SELECT id, blob FROM chunk WHERE volume = $1 AND hash = $2 AND shared = 1"
_PUT_CHUNK: Final = """
INSERT INTO chunk (volume, id, hash, size, shared, data, blob, packed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_CHUNK: Final = "SELECT hash, size, data, blob, packed FROM chunk WHERE volume = $1 AND id = $2"
_IS_BLOB: Final = "SELECT blob IS NOT NULL FROM chunk WHERE volume = $1 AND id = $2"
_DOOM: Final = """
INSERT INTO doomed (volume, blob) VALUES ($1, $2) ON CONFLICT (volume, blob) DO NOTHING
"""


class ChunkPiece(NamedTuple):
    """Some bytes on their way in: themselves, or the key of the blob that has them already. With
    neither they are zeros; with a ``chunk`` they are that one, which was claimed before. ``packed``
    says into how many bytes they were compressed."""

    digest: bytes
    size: int
    data: bytes | None = None
    blob: str | None = None
    chunk: int | None = None
    packed: int | None = None


class ChunkExtent(NamedTuple):
    """A part of a file: so many bytes from the beginning of a chunk."""

    start: int
    size: int
    chunk: int


class Chunk(NamedTuple):
    """A chunk's row; the order is that of the statement."""

    digest: bytes
    size: int
    data: bytes | None
    blob: str | None
    packed: int | None


class Stored(NamedTuple):
    """Content as a node's row has it: the bytes, or the content that lists them."""

    data: bytes | None
    content: int | None


def digest_of(*parts: Buffer) -> bytes:
    """The hash by which a chunk is found and checked."""
    hashed = blake3()
    for part in parts:
        hashed.update(part)
    return hashed.digest()


def pieces_of(data: bytes, pack: Pack | None = None) -> list[ChunkPiece]:
    """Content cut into chunks for the database."""
    parts = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    return [_piece(part, pack) for part in parts]


def _piece(data: bytes, pack: Pack | None) -> ChunkPiece:
    packed = None if pack is None else pack([data])
    if packed is None:
        return ChunkPiece(digest_of(data), len(data), data)
    return ChunkPiece(digest_of(data), len(data), packed, packed=len(packed))


_HASHES_KEPT: Final = 256
"""Files that are being appended to at a time; each keeps some hundred bytes."""


class Hashes:
    """Hashes that can be gone on with, by what they came to: SHA-256 keeps no other way back.

    A file that is appended to again and again is hashed once. Used from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[bytes, hashlib._Hash] = {hashlib.sha256().digest(): hashlib.sha256()}

    def remember(self, hashed: hashlib._Hash) -> bytes:
        digest = hashed.digest()
        with self._lock:
            self._known.pop(digest, None)
            self._known[digest] = hashed.copy()
            while len(self._known) > _HASHES_KEPT:
                del self._known[next(iter(self._known))]
        return digest

    def resume(self, digest: bytes) -> hashlib._Hash | None:
        with self._lock:
            known = self._known.get(digest)
            return None if known is None else known.copy()


# --- reading ---------------------------------------------------------------------------------


async def extents(
    session: RowSession, volume: int, content: int, start: int, end: int
) -> list[ChunkExtent]:
    """The parts of a content that hold its bytes from ``start`` to ``end``, in order."""
    found: list[ChunkExtent] = []
    following: int | None = content
    while following is not None and start < end:
        row = await session.row(_CONTENT, volume, following)
        if row is None:
            raise IoError("a part of the content is missing")
        _, base, keep, _ = row
        rows = await session.rows(_EXTENTS, volume, following, start, end)
        own = [
            ChunkExtent(at, min(size, end - at), chunk)
            for at, size, chunk in rows
            if at + size > start
        ]
        found[:0] = own
        following, end = base, min(end, keep)
    return found


async def chunk_of(session: RowSession, volume: int, chunk: int) -> Chunk:
    row = await session.row(_CHUNK, volume, chunk)
    if row is None:
        raise IoError("a part of the content is missing")
    found = Chunk(*row)
    if not 0 <= found.size <= CHUNK_BYTES_MAX or not 0 <= (found.packed or 0) <= CHUNK_BYTES_MAX:
        raise _damaged()  # so much memory would be asked for
    return found


def _holds_bytes(data: object) -> bool:
    """One flipped bit makes text of the bytes in a row."""
    return not isinstance(data, (str, int, float))


def checked(chunk: Chunk, data: Buffer | None, into: bytearray | None = None) -> Buffer:
    """The plain bytes of a chunk, from those that are kept, if they are what they should be. What
    has to be unpacked is so in ``into``, where that is given."""
    if data is None:
        raise IoError("a part of the content is missing", hint="check the volume")
    if not _holds_bytes(data):
        raise _damaged()
    if chunk.packed is not None and len(data) == chunk.packed:
        data = unpacked(data, chunk.size, into)
    if len(data) != chunk.size or digest_of(data) != chunk.digest:
        raise _damaged()
    return data


def fetched(blobs: Blobs, chunk: Chunk, into: bytearray | None = None) -> Buffer:
    """The plain bytes of a chunk that is in a blob: checked, and no more than there should be.
    Blocks. They are in ``into`` where that is given and large enough."""
    assert chunk.blob is not None
    expected = chunk.size if chunk.packed is None else chunk.packed
    kept = into if chunk.packed is None else None
    if kept is None or len(kept) < expected:
        kept = bytearray(expected)
    data = memoryview(kept)[:expected]
    size = blobs.fetch(chunk.blob, data)
    if size == 0:
        raise IoError(
            "a part of the content is missing",
            hint=f"it is not in {blobs.description}: was the volume written with other blobs?",
        )
    if size != expected:
        raise _damaged()
    return checked(chunk, data, into)


def _damaged() -> IoError:
    return IoError("a part of the content is damaged", hint="check the volume")


def named(error: IoError | Unsupported, path: ScopedPath) -> IoError | Unsupported:
    """An error that names the file."""
    return type(error)(error.message, path=path, errno=error.errno, hint=error.hint)


# --- writing, inside a transaction -------------------------------------------------------------


async def store_pieces(turn: Transaction, volume: int, size: int, pieces: list[ChunkPiece]) -> int:
    """A new content of these pieces."""
    content = turn.numbers.next()
    await turn.session.run(_PUT_CONTENT, volume, content, size, None, 0, 0)
    await _add_pieces(turn, volume, content, 0, pieces)
    return content


async def _add_pieces(
    turn: Transaction, volume: int, content: int, start: int, pieces: list[ChunkPiece]
) -> None:
    for piece in pieces:
        chunk = await _store_piece(turn, volume, piece)
        await turn.session.run(_PUT_PIECE, volume, content, start, piece.size, chunk)
        start += piece.size


async def _store_piece(turn: Transaction, volume: int, piece: ChunkPiece) -> int:
    digest, size, data, blob, chunk, packed = piece
    if chunk is not None:
        return chunk
    if data is None and blob is None:
        return ZEROS
    shared = size >= SHARED_BYTES_MIN
    if shared:
        row = await turn.session.row(_SHARED, volume, digest)
        if row is not None:
            if blob not in (None, row[1]):  # somebody has stored the same bytes meanwhile
                await turn.session.run(_DOOM, volume, blob)
            return int(row[0])
    chunk = turn.numbers.next()
    await turn.session.run(_PUT_CHUNK, volume, chunk, digest, size, int(shared), data, blob, packed)
    return chunk


async def database_tail(session: RowSession, volume: int, inode: Inode) -> int:
    """From where on a file is kept in the database to its end. Asked only of a content that lists
    all its pieces itself, which is one in `CHAIN_MAX` appends; else the end of the file."""
    row = None if inode.content is None else await session.row(_CONTENT, volume, inode.content)
    if inode.content is None or row is None or row[3] > 0:
        return inode.size
    start = inode.size
    for at, _, chunk in reversed(await extents(session, volume, inode.content, 0, inode.size)):
        kept = await session.row(_IS_BLOB, volume, chunk)
        if kept is None or kept[0]:
            break
        start = at
    return start


async def append_pieces(
    turn: Transaction, volume: int, old: Inode, data: bytes | None, pieces: list[ChunkPiece],
    keep: int | None = None,
) -> int:  # fmt: skip
    """A new content: that of ``old`` (its first ``keep`` bytes), then ``data``, or ``pieces`` of it
    where it is large.

    Costs the same however much there is already: the new one begins like the old.
    """
    added = sum(piece.size for piece in pieces)
    size = (old.size if keep is None else keep) + added
    if old.content is None:
        if old.data:
            pieces = (
                pieces_of(old.data + data) if data is not None else [*pieces_of(old.data), *pieces]
            )
        return await store_pieces(turn, volume, size, pieces)
    row = await turn.session.row(_CONTENT, volume, old.content)
    if row is None:
        raise IoError("a part of the content is missing")
    depth, keep = row[3] + 1, old.size if keep is None else keep
    if data is not None:
        tail = await _tail(turn.session, volume, old, len(data))
        if tail is not None:
            keep, pieces = old.size - len(tail), pieces_of(tail + data)
    base: int | None = old.content
    content = turn.numbers.next()
    if depth > CHAIN_MAX:
        await _copy_extents(turn, volume, old.content, content, keep)
        base, depth = None, 0
    await turn.session.run(_PUT_CONTENT, volume, content, size, base, keep if base else 0, depth)
    await _add_pieces(turn, volume, content, keep, pieces)
    return content


async def _tail(session: RowSession, volume: int, old: Inode, adding: int) -> bytes | None:
    """The last piece, where it is small enough to be written again with what is added."""
    assert old.content is not None
    if adding > TAIL_BYTES_MAX:
        return None
    last = (await extents(session, volume, old.content, old.size - 1, old.size))[-1]
    if last.chunk == ZEROS or last.size + adding > TAIL_BYTES_MAX:
        return None
    chunk = await chunk_of(session, volume, last.chunk)
    return None if chunk.data is None else bytes(checked(chunk, chunk.data)[: last.size])


async def _copy_extents(
    turn: Transaction, volume: int, source: int, content: int, end: int
) -> None:
    for start, size, chunk in await extents(turn.session, volume, source, 0, end):
        await turn.session.run(_PUT_PIECE, volume, content, start, size, chunk)


async def resize(turn: Transaction, volume: int, old: Inode, size: int) -> int:
    """A new content: that of ``old`` cut to ``size``, or made longer with zeros."""
    keep = min(size, old.size)
    if old.content is None:
        assert old.data is not None
        pieces = pieces_of(old.data[:keep])
        if size > keep:
            pieces.append(ChunkPiece(b"", size - keep))
        return await store_pieces(turn, volume, size, pieces)
    content = turn.numbers.next()
    await turn.session.run(_PUT_CONTENT, volume, content, size, None, 0, 0)
    await _copy_extents(turn, volume, old.content, content, keep)
    if size > keep:
        await turn.session.run(_PUT_PIECE, volume, content, keep, size - keep, ZEROS)
    return content


async def read_in_database(session: RowSession, volume: int, inode: Inode) -> bytes | None:
    """The whole content where no blob has to be asked for, else None."""
    if inode.content is None:
        return inode.data or b""
    parts: list[Buffer] = []
    for _, size, chunk in await extents(session, volume, inode.content, 0, inode.size):
        if chunk == ZEROS:
            parts.append(bytes(size))
            continue
        found = await chunk_of(session, volume, chunk)
        if found.blob is not None:
            return None
        parts.append(checked(found, found.data)[:size])
    return b"".join(parts)
