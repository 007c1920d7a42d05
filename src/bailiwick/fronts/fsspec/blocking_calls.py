"""Blocking calls of fsspec, which wait for what they have begun.

fsspec's own way leaves on Ctrl-C and lets the work go on: a write that was interrupted would land
later, over a newer one.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from fsspec.asyn import mirror_sync_methods
from fsspec.exceptions import FSTimeoutError

from bailiwick.handed_over import HandedOver

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def sync(
    loop: asyncio.AbstractEventLoop | None,
    call: Callable[..., Coroutine[Any, Any, Result]],
    *args: Any,
    timeout: float | None = None,
    **more: Any,
) -> Result:
    """As `fsspec.asyn.sync`. What is raised here meanwhile comes out when the work has ended."""
    if loop is None or loop.is_closed():
        raise RuntimeError("Loop is not running")
    here = None
    with suppress(RuntimeError):
        here = asyncio.get_running_loop()
    if here is loop:
        raise NotImplementedError("Calling sync() from within a running loop")
    return HandedOver(loop, _timed(call(*args, **more), timeout or None)).wait()


def blocking(
    call: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """The twin of a method for callers without an event loop."""

    @functools.wraps(call)
    def wait(self: Any, *args: Any, **more: Any) -> Result:
        return sync(self.loop, call, self, *args, **more)

    return cast(Callable[Concatenate[Any, Arguments], Result], wait)


async def _timed(work: Coroutine[Any, Any, Result], seconds: float | None) -> Result:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise FSTimeoutError from error


def wait_for_the_end(filesystem: Any) -> None:
    """Make the blocking methods of the asynchronous ones, as fsspec does, and give them this way
    of waiting."""
    mirror_sync_methods(filesystem)
    for name, method in list(vars(filesystem).items()):
        call = getattr(method, "__wrapped__", None)
        if inspect.iscoroutinefunction(call):
            setattr(filesystem, name, _waiting(filesystem, call))


def _waiting(
    filesystem: Any, call: Callable[..., Coroutine[Any, Any, Result]]
) -> Callable[..., Result]:
    @functools.wraps(call)
    def wait(*args: Any, **more: Any) -> Result:
        return sync(filesystem.loop, call, *args, **more)

    return wait
