"""Work on texts that others need not wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from bailiwick.finishing import in_thread

Result = TypeVar("Result")

_BYTES_MAX: Final = 16 * 1024
"""To compare so much takes some milliseconds, and a thread of its own a fraction of one."""


async def worked_out(size: int, work: Callable[..., Result], *given: object) -> Result:
    """What comes of work on so many bytes of text: where those are many it is done in a thread, and
    the loop goes on answering others."""
    return work(*given) if size <= _BYTES_MAX else await in_thread(work, *given)
