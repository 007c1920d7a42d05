"""How long a request may take in all: each of its waits is bounded, and there may be many of them.

One look a second at what is under way, so that a request pays for no timer of its own. One that is
overdue is cancelled, which ends it where it waits; what a store has begun to change is finished
first. So nothing is changed after it was answered, and what was changed before may not be known.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeVar

from bailiwick.errors import BailiwickError, Busy, IoError
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.limits import Limits
from bailiwick.patience import WAITS_SECONDS_MAX, keeping

Result = TypeVar("Result")

LOOK_SECONDS: Final = 1.0
_USUAL: Final = Limits().request_seconds_max

_UNBOUND: Final = nullcontext()


class Deadlines:
    """The requests of one application that are under way."""

    def __init__(self) -> None:
        self._begun: dict[asyncio.Task[Any], tuple[float, Request]] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def hold(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """What comes of the work on a request. Raises `Busy` where it took too long and would have
        changed nothing, `IoError` where it may have. An upload takes as long as its source."""
        if request.route.raw_body:
            return await work
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._begun[task] = time.monotonic(), request
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        try:
            return await work
        except asyncio.CancelledError:
            if task not in self._overdue:
                raise
            self._overdue.discard(task)
            task.uncancel()
            raise overdue(request) from None
        finally:
            del self._begun[task]
            if task in self._overdue:
                await self._absorbed(task)

    async def _absorbed(self, task: asyncio.Task[Any]) -> None:
        """It ended after all. The cancellation that came too late is not for what comes next."""
        self._overdue.discard(task)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            task.uncancel()

    def _look(self) -> None:
        now, self._timer = time.monotonic(), None
        for task, (since, request) in self._begun.items():
            if now - since > seconds_of(request) and task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        if self._begun:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def patience_for(request: Request) -> AbstractContextManager[None]:
    """What a request is answered in. An upload waits as often as it has to, as its source does."""
    return _UNBOUND if request.route.raw_body else keeping(WAITS_SECONDS_MAX)


def seconds_of(request: Request) -> float:
    return _USUAL if request.scope is None else request.scope.limits.request_seconds_max


def overdue(request: Request) -> BailiwickError:
    """What a request is answered with that was ended."""
    seconds = seconds_of(request)
    what = f"this did not end within {seconds:g} seconds"
    if not request.route.changes:
        return Busy(what, hint="ask for less, or later", details={"limit": seconds})
    return IoError(
        what, errno=errno.ETIMEDOUT, details={"limit": seconds, "unanswered": True},
        hint="it may have been done: look, or ask again under the same Idempotency-Key",
    )  # fmt: skip
