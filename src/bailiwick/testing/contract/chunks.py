"""Sources of chunks that go well, that fail, and that stop to let something else happen."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from bailiwick.model import MiB

BIG = 8 * MiB


async def of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def failing(error: BaseException, *parts: bytes) -> AsyncIterator[bytes]:
    """Some chunks, then ``error``."""
    for part in parts:
        yield part
    raise error


class Gate:
    """A source that has given its first chunk and waits to be let through to its second."""

    def __init__(self, first: bytes = b"first,", second: bytes = b"second") -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.whole = first + second
        self._first = first
        self._second = second

    async def wait_for(self, writer: asyncio.Future[Any]) -> None:
        """Wait until the writer has taken the first chunk; if it fails before, so does this."""
        reached = asyncio.ensure_future(self.reached.wait())
        await asyncio.wait([reached, writer], return_when=asyncio.FIRST_COMPLETED)
        if not self.reached.is_set():
            reached.cancel()
            await writer
            raise AssertionError("the stream was written without being read")

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._first
        self.reached.set()
        await self.opened.wait()
        yield self._second


def pattern(size: int) -> bytes:
    """Bytes in which every block differs, so that a lost or swapped one shows."""
    return hashlib.shake_256(b"pattern").digest(size)


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
