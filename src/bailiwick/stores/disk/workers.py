"""Threads for what may take long, and turns for those who write one name.

A cancelled call waits until its thread is done, so that nothing it started outlives it. A job has
one instant, `Stop.commit`, before which cancelling undoes everything and after which it is too
late: the call then returns its result, and the cancellation is delivered at the next await. So
`CancelledError` out of a write means that nothing was changed. A coroutine that is closed, which
cannot await, waits for its thread in place.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar, cast
from weakref import WeakSet

from bailiwick.errors import FORKED, Busy, Closed
from bailiwick.finishing import (
    CLOSED,
    Errand,
    cancel_at_next_await,
    look_at,
    wait_through_cancellation,
)

T = TypeVar("T")

THREADS_MAX = 8
"""Enough to keep a disk's queue busy; more only wait for it."""


class Abandoned(BaseException):
    """A job noticed that nobody waits for it any more. Never leaves this package."""


class WouldWait(Exception):
    """Work done inline would have to wait, or to take long: nothing was done. Never leaves this
    package."""


class Stop:
    """Whether a job should go on. Asked by the caller, looked at by the job."""

    __slots__ = ("_asked", "_lock", "committed")

    def __init__(self) -> None:
        self._asked = False
        self._lock = threading.Lock()
        self.committed = False

    @property
    def asked(self) -> bool:
        """Whether the caller gave up, for jobs that end by themselves."""
        return self._asked

    def ask(self) -> None:
        with self._lock:
            self._asked = not self.committed

    def check(self) -> None:
        """A safe point: raise `Abandoned` if the caller gave up."""
        if self._asked:
            raise Abandoned

    def pause(self, seconds: float) -> None:
        """A safe point before anything is done, where others are waited for."""
        self.check()
        time.sleep(seconds)

    def commit(self) -> None:
        """The last safe point: from here the job is carried to its end."""
        with self._lock:
            if self._asked:
                raise Abandoned
            self.committed = True

    def take_back(self) -> None:
        """What was committed did not come to pass, nothing was changed: safe again."""
        self.committed = False


class Unstoppable(Stop):
    """For work done inline, which nobody can interrupt."""

    __slots__ = ()

    def check(self) -> None:
        pass

    def pause(self, seconds: float) -> None:
        """Nobody is waited for inline."""
        raise WouldWait

    def commit(self) -> None:
        pass

    def take_back(self) -> None:
        pass


UNSTOPPABLE = Unstoppable()


_open_here: WeakSet[Workers] = WeakSet()


def _abandon_after_fork() -> None:
    for workers in list(_open_here):
        workers.abandon()


os.register_at_fork(after_in_child=_abandon_after_fork)


class Workers:
    """Runs jobs in threads and counts them, so that closing can wait."""

    def __init__(self, given: Executor | None) -> None:
        self._given = given
        self._own: ThreadPoolExecutor | None = None
        self._running: set[Future[Any]] = set()
        self.closed = False
        self._forked = False
        _open_here.add(self)

    def abandon(self) -> None:
        """Be closed from now on, in a forked child that does not have the threads."""
        self._own = None
        self._running = set()
        self._forked = self.closed = True

    def refuse_closed(self) -> None:
        """Raises `Closed`."""
        if self.closed:
            raise Closed("the store is closed", hint=FORKED if self._forked else None)

    def _executor(self) -> Executor:
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="bailiwick-disk")
        return self._own

    async def run(self, job: Callable[..., T], *args: Any) -> T:
        """Run ``job(*args, stop)`` in a thread."""
        self.refuse_closed()
        stop = Stop()
        errand = Errand(job, *args, stop)
        future = self._executor().submit(errand)
        self._began(future)
        waiting = asyncio.wrap_future(future)
        ended = asyncio.shield(waiting)
        try:
            return cast(T, await ended)
        except CLOSED:
            stop.ask()
            future.cancel()
            errand.end()
            ended.add_done_callback(look_at)
            raise
        except asyncio.CancelledError:
            stop.ask()
            future.cancel()
            await wait_through_cancellation(waiting, errand)
            if stop.committed and not waiting.cancelled() and waiting.exception() is None:
                cancel_at_next_await()
                return cast(T, waiting.result())
            raise

    def _began(self, future: Future[Any]) -> None:
        self._running.add(future)
        future.add_done_callback(self._running.discard)

    async def aclose(self) -> None:
        self.closed = True
        while self._running:
            await asyncio.wait([asyncio.wrap_future(future) for future in list(self._running)])
        if self._own is not None:
            self._own.shutdown()
            self._own = None


class LentWorkers(Workers):
    """The threads of another, with an end of its own: the lender's end is its end too."""

    def __init__(self, lender: Workers) -> None:
        self._lender = lender
        super().__init__(None)

    @property
    def closed(self) -> bool:
        return self._closed or self._lender.closed

    @closed.setter
    def closed(self, value: bool) -> None:
        self._closed = value

    def _executor(self) -> Executor:
        return self._lender._executor()

    def _began(self, future: Future[Any]) -> None:
        super()._began(future)
        self._lender._began(future)  # whose closing waits for it as well


class NameTurns:
    """One at a time for each path, in the order of asking. For one event loop."""

    def __init__(self, wait_seconds_max: float) -> None:
        self._wait_seconds_max = wait_seconds_max
        self.taken: dict[str, deque[asyncio.Future[None]]] = {}
        """The paths whose turn someone has, and who waits for each."""

    async def take(self, key: str) -> None:
        """Wait for a turn; `Busy` when it does not come in time."""
        queue = self.taken.get(key)
        if queue is None:
            self.taken[key] = deque()
            return
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        queue.append(mine)
        timer = loop.call_later(self._wait_seconds_max, _expire, mine, key)
        try:
            await mine
        except (asyncio.CancelledError, *CLOSED):
            if not mine.done():
                mine.cancel()  # one who was closed: nobody is to give it the turn
            elif not mine.cancelled():
                self.give_back(key)  # the turn came at the same instant
            raise
        finally:
            timer.cancel()

    def give_back(self, key: str) -> None:
        queue = self.taken[key]
        while queue:
            next_in_line = queue.popleft()
            if not next_in_line.done():
                next_in_line.set_result(None)
                return
        del self.taken[key]


def _expire(waiting: asyncio.Future[None], key: str) -> None:
    if not waiting.done():
        waiting.set_exception(Busy("others keep writing this file", path=key))
