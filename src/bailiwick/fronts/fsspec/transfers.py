"""Taking a file out to the host, for a caller who names a place there."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing, suppress
from typing import IO, Any

from bailiwick.scope import Scope


async def take_out(scope: Scope, place: str, target: Any, callback: Any) -> None:
    """Write what a file holds to a host path, or to a file that is open. A path that could not be
    written to the end is removed."""
    if not isinstance(target, str):
        await _fill(scope, place, target, callback)
        return
    file = await asyncio.to_thread(open, target, "wb")
    try:
        with file:
            await _fill(scope, place, file, callback)
    except BaseException:
        with suppress(OSError):
            os.unlink(target)
        raise


async def _fill(scope: Scope, place: str, file: IO[bytes], callback: Any) -> None:
    async with aclosing(scope.stream(place)) as chunks:
        async for chunk in chunks:
            file.write(chunk)
            if callback is not None:
                callback.relative_update(len(chunk))
