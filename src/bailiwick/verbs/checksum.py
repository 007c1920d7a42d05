"""SHA-256 of content, off the event loop where it would take long."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing

from bailiwick.errors import OperationalError
from bailiwick.store import Handle, Reader

INLINE_BYTES_MAX = 256 * 1024
"""About 0.2 ms of hashing: longer would hold up every other call on the loop."""


def sha256_inline(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def sha256_of(data: bytes) -> str:
    if len(data) <= INLINE_BYTES_MAX:
        return hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(sha256_inline, data)


async def content_hash(store: Reader, file: Handle) -> str | None:
    """What a file holds; None for what is none, or cannot be read."""
    return (await hashed(store, file, 0))[0]


async def hashed(store: Reader, file: Handle, kept_max: int) -> tuple[str | None, bytes | None]:
    """A file's hash, with the very bytes that were hashed where they are at most ``kept_max``."""
    if file.type != "file":
        return None, None
    digest = hashlib.sha256()
    try:
        if file.size <= kept_max:
            data = (await store.read(file, 0, kept_max + 1)).data
            if len(data) <= kept_max:
                return await sha256_of(data), data
        async with aclosing(store.stream(file, 0, None)) as chunks:
            async for chunk in chunks:
                digest.update(chunk)
    except OperationalError:
        return None, None  # whether it may be changed is for the change itself to say
    return digest.hexdigest(), None
