"""How work ends: finished although it was cancelled, or with an error of ours, whatever it was."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from bailiwick.errors import BailiwickError, InternalError, from_os_error

Result = TypeVar("Result")


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Await work that must be finished. A cancellation that comes meanwhile is delivered at the
    next await of the task, as one that comes too late for a store to obey."""
    task, late = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            late = True
    caller = asyncio.current_task()
    if late and caller is not None:
        caller.uncancel()
        caller.cancel()
    return task.result()


def typed(error: Exception) -> BailiwickError:
    """The error as one of ours."""
    if isinstance(error, BailiwickError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    return InternalError(f"an unexpected fault: {type(error).__name__}")


def cause_of(error: BaseException) -> BaseException | None:
    """What `typed` is raised from: a fault that is none of ours is kept for whoever debugs it."""
    foreign = isinstance(error, Exception) and not isinstance(error, BailiwickError)
    return error if foreign else error.__cause__
