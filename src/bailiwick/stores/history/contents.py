"""Content that is kept, by its hash: small pieces in the rows of the history, large ones in a
volume, whose chunks are shared between versions that are mostly alike."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from typing import Final

from bailiwick.errors import FileAlreadyExists, IoError, PathNotFound
from bailiwick.model import KiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Store, WritePlan
from bailiwick.stores.history.ledger import HistoryLedger

SMALL_BYTES_MAX: Final = 32 * KiB
"""What is written with its entry, in one commit. Larger content takes one of its own before."""

INCOMING: Final = ScopedPath("incoming")
"""Where content lies in the volume until its hash is known."""

_KEPT: Final = "SELECT data IS NULL FROM content WHERE sha256 = ?"
_DATA: Final = "SELECT data FROM content WHERE sha256 = ?"


class PassingContent:
    """Content on its way to a file, held in memory for as long as it is small."""

    def __init__(self) -> None:
        self._data: bytearray | None = bytearray()

    def add(self, chunk: bytes) -> None:
        if self._data is None:
            return
        if len(self._data) + len(chunk) > SMALL_BYTES_MAX:
            self._data = None
        else:
            self._data += chunk

    @property
    def small(self) -> bytes | None:
        """All that came by; None where it is not small."""
        return None if self._data is None else bytes(self._data)


class Contents:
    """What is kept of the files of one directory."""

    def __init__(self, ledger: HistoryLedger, keeper: Store) -> None:
        self._ledger = ledger
        self._keeper = keeper

    def has(self, sha256: str) -> bool:
        return bool(self._ledger.rows(_KEPT, bytes.fromhex(sha256)))

    async def keep_stream(self, chunks: AsyncIterator[bytes], size_max: int) -> tuple[str, int]:
        """Keep content whose hash is not known yet; returns its hash and size. Raises
        `FileTooLarge`, what ``chunks`` raises, and `IoError` where it cannot be kept."""
        keeper = self._keeper
        incoming = INCOMING.child(secrets.token_hex(12))
        plan = WritePlan(mode="create", parents=True, size_max=size_max)
        with closing(await keeper.resolve(incoming, "entry", parents=True)) as entry:
            written = await keeper.write_stream(entry, chunks, plan)
        await self._settle(incoming, written.sha256)
        await self._ledger.note_kept(bytes.fromhex(written.sha256), written.size)
        return written.sha256, written.size

    async def _settle(self, incoming: ScopedPath, sha256: str) -> None:
        """Give what came in the name that it is found by, unless it is there already."""
        keeper, place = self._keeper, place_of(sha256)
        with closing(await keeper.resolve(place.parent, "entry", parents=True)) as directory:
            await keeper.make_dir(directory, file_mode=None, parents=True)
        with (
            closing(await keeper.resolve(incoming, "entry")) as source,
            closing(await keeper.resolve(place, "entry")) as destination,
        ):
            try:
                await keeper.move(source, destination, replace=False)
            except FileAlreadyExists:
                await keeper.remove(source, recursive=False)

    async def stream(self, sha256: str) -> AsyncGenerator[bytes, None]:
        """The content with a hash. Raises `PathNotFound` where it is not kept (any more)."""
        rows = self._ledger.rows(_DATA, bytes.fromhex(sha256))
        if not rows:
            raise PathNotFound("the content of that version is not kept")
        if rows[0][0] is not None:
            data: bytes = rows[0][0]
            if hashlib.sha256(data).hexdigest() != sha256:
                raise IoError("content that was kept is damaged")
            yield data
            return
        keeper = self._keeper
        with closing(await keeper.resolve(place_of(sha256), "object")) as held:
            async with aclosing(keeper.stream(held, 0, None)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def read(self, sha256: str, size: int) -> bytes:
        """The whole of it, in memory."""
        async with aclosing(self.stream(sha256)) as chunks:
            data = b"".join([chunk async for chunk in chunks])
        if len(data) != size:
            raise IoError("content that was kept is damaged")
        return data


def place_of(sha256: str) -> ScopedPath:
    return ScopedPath(f"kept/{sha256[:2]}/{sha256}")
