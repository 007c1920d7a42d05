"""Content that arrives in pieces: staged as it comes, published at its end."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from bailiwick.model import KiB
from bailiwick.sparse_files import write_all
from bailiwick.store import WritePlan, Written
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import Held
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.compare_and_swap import Swapper
from bailiwick.stores.disk.writes.publisher import Publisher, StagedFile, check_size
from bailiwick.text.pieces import Pieces

PIECE_BYTES = 256 * KiB
"""Small chunks are joined up to this: a call to hash or write them then outweighs the copy."""


async def gather(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Bytes gathered into pieces that are worth a thread's while."""
    pieces = Pieces(PIECE_BYTES)
    async for chunk in chunks:
        if pieces.add(chunk):
            yield pieces.take()
    if rest := pieces.take():
        yield rest


class DiskUpload:
    """One file on its way: its stage, and the hash of what has come so far."""

    def __init__(self, held: Held, plan: WritePlan, publisher: Publisher, swapper: Swapper) -> None:
        self._held = held
        self._plan = plan
        self._publisher = publisher
        self._swapper = swapper
        self._digest = hashlib.sha256()
        self._stage: StagedFile | None = None
        self._size = 0

    @property
    def _conditional(self) -> bool:
        return self._plan.conditional or self._plan.mode == "replace"

    def begin(self, stop: Stop) -> None:
        """Check what can be checked before the first byte, then stage."""
        held, plan = self._held, self._plan
        if self._conditional:
            self._swapper.check_blocking(held, plan, stop)
        else:
            self._publisher.check_target(held, plan)
        stop.check()
        self._stage = self._publisher.stage(held)

    def add(self, pieces: list[bytes], stop: Stop) -> None:
        stage = self._staged()
        for data in pieces:
            stop.check()
            self._size += len(data)
            check_size(self._size, self._plan, self._held.path)
            self._digest.update(data)
            write_all(stage.fd, data, syscalls.write)

    def publish(self, stop: Stop) -> Written:
        stage, sha256 = self._staged(), self._digest.hexdigest()
        if self._conditional:
            publish = self._swapper.publish_staged_blocking
        else:
            publish = self._publisher.publish
        written = publish(self._held, stage, sha256, self._plan, stop)
        self._stage = None
        return written

    def _staged(self) -> StagedFile:
        assert self._stage is not None
        return self._stage

    def discard(self) -> None:
        """Take the stage away, unless it was published."""
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.discard()
