"""Files that grow or shrink: their hash is gone on with, their chunks stay where they are."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from bailiwick.errors import Busy, IoError, PathNotFound
from bailiwick.finishing import in_thread
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan, Written
from bailiwick.stores.volume import changes
from bailiwick.stores.volume.content.chunks import (
    BLOB_BYTES,
    INLINE_BYTES_MAX,
    SPILL_BYTES_MIN,
    ChunkPiece,
    Stored,
    append_pieces,
    database_tail,
    named,
    pieces_of,
    read_in_database,
    resize,
)
from bailiwick.stores.volume.content.reader import ContentReader
from bailiwick.stores.volume.content.uploads import VolumeUpload, cut
from bailiwick.stores.volume.core import ChangeTurn, VolumeCore
from bailiwick.stores.volume.lookup.paths import Spot, VolumeHandle
from bailiwick.stores.volume.refusals import check_size
from bailiwick.stores.volume.rows.records import FILE, Inode
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.versions import Mark

_TRIES_MAX: Final = 128
"""Times a change is begun again because the file was another one meanwhile."""

_ZEROS: Final = bytes(1 * MiB)


_NOTHING_YET: Final = Inode(0, 0, FILE, 0, 0, 0, 0, None, None, b"")

Job = Callable[[ChangeTurn], Awaitable[Written]]


class _Changed(Exception):
    """The file is another one than when its content was moved."""


class _NeedsHash(Exception):
    """The file is too large to be hashed while others wait for their turn."""

    def __init__(self, inode: Inode) -> None:
        super().__init__()
        self.inode = inode


class Growing:
    """Appending and resizing, for all views of a volume."""

    def __init__(self, core: VolumeCore, reader: ContentReader) -> None:
        self._core = core
        self._reader = reader

    async def append(self, held: VolumeHandle, data: bytes, plan: WritePlan, mark: Mark) -> Written:
        spilled = await self._append_spilling(held, data, plan, mark)
        if spilled is not None:
            return spilled
        if len(data) < SPILL_BYTES_MIN:
            pieces = await cut(data, self._core.pack) if len(data) > INLINE_BYTES_MAX else []
            job = partial(self._append, held, data, pieces, plan, mark)
            return await self._until_hashed(job, held.path)
        upload, published = VolumeUpload(self._core, held.path), False
        try:
            await upload.add(data)
            pieces = (await upload.finish()).pieces
            job = partial(self._append, held, data, pieces, plan, mark)
            written = await self._until_hashed(job, held.path)
            published = True
            return written
        finally:
            await upload.end(published=published)

    async def _append_spilling(
        self, held: VolumeHandle, data: bytes, plan: WritePlan, mark: Mark
    ) -> Written | None:
        """Append, and move what a large file has gathered in the database to the blob store.

        None where there is not enough of it to be worth a blob, or somebody was faster.
        """
        core = self._core
        async with core.looking() as session:
            _, old = await changes.admit(await core.tree(session), held, plan)
            if old is None or old.size < SPILL_BYTES_MIN:
                return None
            keep = await database_tail(session, core.view.volume, old)
        if old.size - keep < BLOB_BYTES:
            return None
        core.hold(upload := VolumeUpload(core, held.path))
        published = False
        try:
            for at in range(keep, old.size, MiB):
                length = min(MiB, old.size - at)
                await upload.add(await self._reader.read(old, held.path, at, length))
            await upload.add(data)
            pieces = (await upload.finish()).pieces
            job = partial(self._append, held, data, pieces, plan, mark, moved=(old, keep))
            with suppress(_Changed):
                written = await self._until_hashed(job, held.path)
                published = True
                return written
            return None
        finally:
            core.let_go(upload)
            await upload.end(published=published)

    async def _until_hashed(self, job: Job, path: ScopedPath) -> Written:
        """Try until the hash of what stands there is known; it is taken between the tries."""
        for _ in range(_TRIES_MAX):
            try:
                return await self._core.change(job)
            except _NeedsHash as needed:
                await self._reader.hashed(needed.inode, path)
        raise Busy("the file kept changing", path=path)

    async def _append(
        self, held: VolumeHandle, data: bytes, pieces: list[ChunkPiece], plan: WritePlan,
        mark: Mark, turn: ChangeTurn, moved: tuple[Inode, int] | None = None,
    ) -> Written:  # fmt: skip
        spot, old = await changes.admit(turn.tree, held, plan)
        if moved is not None and (old is None or old.content != moved[0].content):
            raise _Changed
        size = len(data) + (0 if old is None else old.size)
        check_size(held.path, size, plan)
        digest = await self._digest(turn, old, held.path)
        digest.update(data)
        sha256 = self._core.hashes.remember(digest)
        store = partial(_grown, turn, old, data, pieces, size, None if moved is None else moved[1])
        fresh = changes.FreshContent(size, sha256, store)
        return await changes.publish(turn, held, spot, old, fresh, plan, mark, "append")

    async def _digest(self, turn: ChangeTurn, old: Inode | None, path: ScopedPath) -> hashlib._Hash:
        if old is None:
            return hashlib.sha256()
        known = self._core.hashes.resume(old.sha256 or b"")
        if known is not None:
            return known
        if old.size >= SPILL_BYTES_MIN:
            raise _NeedsHash(old)
        try:
            data = await read_in_database(turn.transaction.session, turn.tree.view.volume, old)
        except IoError as error:
            raise named(error, path) from error
        if data is None:
            raise _NeedsHash(old)
        return hashlib.sha256(data)

    # --- resizing ----------------------------------------------------------------------------

    async def resize(self, held: VolumeHandle, size: int, plan: WritePlan, mark: Mark) -> Written:
        core = self._core
        for _ in range(_TRIES_MAX):
            async with core.looking() as session:
                _, old = await _admitted(await core.tree(session), held, size, plan)
            sha256, head = await self._hash_at(old, held.path, size)
            job = partial(self._resize, held, old, size, sha256, head, plan, mark)
            written = await self._core.change(job)
            if written is not None:
                return written
        raise Busy("the file kept changing", path=held.path)

    async def _hash_at(self, old: Inode, path: ScopedPath, size: int) -> tuple[bytes, bytes | None]:
        """The hash that the file will have, and its content where that goes into its row."""
        if size <= INLINE_BYTES_MAX:
            head = await self._reader.read(old, path, 0, size)
            head = head.ljust(size, b"\0")
            return self._core.hashes.remember(hashlib.sha256(head)), head
        if size >= old.size:
            digest = await self._reader.hashed(old, path)
        else:
            digest, position = hashlib.sha256(), 0
            while position < size:
                length = min(4 * MiB, size - position)
                data = await self._reader.read(old, path, position, length)
                await in_thread(digest.update, data)
                position += length
        await in_thread(_add_zeros, digest, size - old.size)
        return self._core.hashes.remember(digest), None

    async def _resize(
        self, held: VolumeHandle, seen: Inode, size: int, sha256: bytes, head: bytes | None,
        plan: WritePlan, mark: Mark, turn: ChangeTurn,
    ) -> Written | None:  # fmt: skip
        spot, old = await _admitted(turn.tree, held, size, plan)
        if (old.id, old.sha256, old.size) != (seen.id, seen.sha256, seen.size):
            return None
        fresh = changes.FreshContent(size, sha256, partial(_resized, turn, old, size, head))
        return await changes.publish(turn, held, spot, old, fresh, plan, mark, "truncate")


async def _admitted(
    tree: RowTree, held: VolumeHandle, size: int, plan: WritePlan
) -> tuple[Spot, Inode]:
    spot, old = await changes.admit(tree, held, plan)
    if old is None:
        raise PathNotFound("no such file or directory", path=held.path)
    check_size(held.path, size, plan)
    return spot, old


async def _grown(
    turn: ChangeTurn,
    old: Inode | None,
    data: bytes,
    pieces: list[ChunkPiece],
    size: int,
    keep: int | None,
) -> Stored:
    volume = turn.tree.view.volume
    if old is None:
        old = _NOTHING_YET
    if size <= INLINE_BYTES_MAX and old.content is None:
        return Stored((old.data or b"") + data, None)
    if not data and keep is None:
        return Stored(old.data, old.content)
    is_large = any(piece.data is None for piece in pieces)
    content = await append_pieces(
        turn.transaction, volume, old, None if is_large else data,
        pieces or pieces_of(data), keep,
    )  # fmt: skip
    return Stored(None, content)


async def _resized(turn: ChangeTurn, old: Inode, size: int, head: bytes | None) -> Stored:
    if head is not None:
        return Stored(head, None)
    return Stored(None, await resize(turn.transaction, turn.tree.view.volume, old, size))


def _add_zeros(digest: hashlib._Hash, count: int) -> None:
    while count > 0:
        digest.update(_ZEROS[: min(count, len(_ZEROS))])
        count -= len(_ZEROS)
