"""SHA-256 of content, off the event loop where it would take long."""

from __future__ import annotations

import asyncio
import hashlib

INLINE_BYTES_MAX = 256 * 1024
"""About 0.2 ms of hashing: longer would hold up every other call on the loop."""


def sha256_inline(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def sha256_of(data: bytes) -> str:
    if len(data) <= INLINE_BYTES_MAX:
        return hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(sha256_inline, data)
