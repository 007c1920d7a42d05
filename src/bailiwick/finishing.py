"""How work ends: finished although it was cancelled, or with an error of ours, whatever it was."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from bailiwick.errors import BailiwickError, InternalError, from_os_error

Result = TypeVar("Result")
Given = ParamSpec("Given")

_ATTEMPTS_MAX: Final = 100
"""How often one who is left tries to wait, before it is left to the collector. No cleaning up has
so many steps."""


class Left(BaseException):
    """Thrown in where a coroutine waits that was closed.

    In place of `GeneratorExit`, which does not get through an asynchronous generator: Python 3.11
    forgets one whose reader is closed, as it stands, and no one can end it any more."""


CLOSED: Final = (GeneratorExit, Left)
"""What is raised where a coroutine waits that nobody awaits any more. It must not await: it waits
in place for what uses what it holds."""


async def closable(work: Coroutine[Any, Any, Result]) -> Result:
    """Await work that may be closed wherever it waits, in asynchronous generators as well.

    It is unwound from the innermost. What it still has to wait for in order to clean up is waited
    for by a task of the same loop; where that has gone, it is not waited for."""
    try:
        waited_for = work.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    return await _stepped(work, waited_for)


def closes_anywhere(
    function: Callable[Given, Coroutine[Any, Any, Result]],
) -> Callable[Given, Coroutine[Any, Any, Result]]:
    """Have a coroutine function give coroutines that are `closable`."""

    @functools.wraps(function)
    def begun(*given: Given.args, **named: Given.kwargs) -> Coroutine[Any, Any, Result]:
        return closable(function(*given, **named))

    return begun


@types.coroutine
def _stepped(work: Coroutine[Any, Any, Result], waited_for: Any) -> Generator[Any, Any, Result]:
    thrown: BaseException | None = None
    try:
        while True:
            given = thrown = None
            try:
                given = yield waited_for
            except GeneratorExit:
                _leave(work)
                raise
            except BaseException as error:
                thrown = error
            waited_for = work.send(given) if thrown is None else work.throw(thrown)
    except StopIteration as ended:
        return cast(Result, ended.value)
    finally:
        thrown = None  # it holds this frame


def _leave(work: Coroutine[Any, Any, Any]) -> None:
    loop = running_loop()
    try:
        waited_for = work.throw(Left())
        if loop is not None and (waited_for is None or waited_for.get_loop() is loop):
            task = loop.create_task(_ending(work, waited_for))
            _endings.add(task)
            task.add_done_callback(_endings.discard)
            return
        for _ in range(_ATTEMPTS_MAX):
            work.throw(Left())
    except (Left, StopIteration):
        return
    except Exception:
        if loop is not None:
            raise
        # Whoever would have waited fails somehow, having nothing to wait on.


_endings: Final[set[asyncio.Task[None]]] = set()
"""Kept at hand: a loop itself does not hold its tasks."""


async def _ending(work: Coroutine[Any, Any, Any], waited_for: Any) -> None:
    """Go on with what was left, while it cleans up."""
    with contextlib.suppress(Left):
        await _stepped(work, waited_for)


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def to_the_end(
    work: Coroutine[Any, Any, Result], stoppable: Callable[[], bool] | None = None
) -> Result:
    """Await work that must be finished. A cancellation that comes meanwhile is delivered at the
    next await of the task, as one that comes too late for a store to obey.

    While the work is ``stoppable`` it is cancelled, and its end waited for; where one who waits is
    closed, it is closed as well. So is all work whose loop has gone."""
    closing = closable(work)
    task, late, left = asyncio.ensure_future(closing), False, False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            late = True
            if stoppable is not None and stoppable():
                task.cancel()
        except CLOSED as error:
            if stoppable is None and isinstance(error, Left) and task.get_loop() is running_loop():
                left = True
                continue
            if inspect.getcoroutinestate(closing) == inspect.CORO_CREATED:
                work.close()  # not even begun
            closing.close()
            task.add_done_callback(look_at)  # it finds nothing left to do, and says so
            raise
    if left:
        look_at(task)
        raise Left
    if late and not task.cancelled():
        cancel_at_next_await()
    return task.result()


async def ended(task: asyncio.Future[None]) -> None:
    """Wait for what comes to its end by itself, whoever waits for it; in its own loop only."""
    if task.get_loop() is running_loop():
        await asyncio.shield(task)


def ends_where_it_is_left() -> bool:
    """For `to_the_end`: a change that whoever is cancelled waits for, and that does not come to
    pass later for one who was closed. What it has given to a thread is waited for in place."""
    return False


def cancel_at_next_await() -> None:
    """Deliver again a cancellation that came too late to be obeyed, counting it once."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
        task.cancel()


async def wait_through_cancellation(
    waiting: asyncio.Future[Any], errand: Errand[Any] | None = None
) -> None:
    """Wait for something that can no longer be stopped, whoever asks. One who is closed waits for
    the end of the ``errand`` in place."""
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
        except CLOSED:
            if errand is not None:
                errand.end()
            waiting.add_done_callback(look_at)
            raise
    look_at(waiting)


def look_at(ended: asyncio.Future[Any]) -> None:
    """Take notice of how something ended, for which nobody waits: asyncio would complain."""
    if not ended.cancelled():
        ended.exception()


class Errand(Generic[Result]):
    """Work for a thread, which can be waited for without an event loop.

    A coroutine that is closed (`coroutine.close`, or collected when its loop has gone) must let go
    of what it holds there and then. What a thread still uses of it would be another's next.
    """

    def __init__(self, work: Callable[..., Result], *arguments: object) -> None:
        self._work = work
        self._arguments = arguments
        self._begun = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()
        self._thread: threading.Thread | None = None

    def __call__(self) -> Result | None:
        self._thread = threading.current_thread()
        if not self._begun.acquire(blocking=False):
            return None  # nobody waits for it
        try:
            return self._work(*self._arguments)
        finally:
            self._ended.release()

    def end(self) -> None:
        """See to it that it is never begun, else wait for its end. Blocks. A forked child, in
        which the thread is no more alive, goes on."""
        if self._begun.acquire(blocking=False):
            return
        if self._thread is not None and self._thread.is_alive():
            self._ended.acquire()


async def in_thread(
    work: Callable[..., Result],
    *arguments: object,
    pool: concurrent.futures.Executor | None = None,
    let_go: Callable[[Result], Coroutine[Any, Any, object]] | None = None,
) -> Result:
    """Run ``work`` on a thread of ``pool``, by default of the event loop's.

    Cancelled, this waits for its end before it gives way, so that whoever cleans up afterwards
    knows that nothing is still at work. What the work has made by then is given to ``let_go``.
    Closed, it waits as well, and everything else on this thread with it."""
    errand = Errand(work, *arguments)
    running = asyncio.get_running_loop().run_in_executor(pool, errand)
    ended = asyncio.shield(running)
    try:
        return cast(Result, await ended)
    except CLOSED:
        errand.end()
        ended.add_done_callback(look_at)
        raise
    except asyncio.CancelledError:
        await wait_through_cancellation(running, errand)
        made = not running.cancelled() and running.exception() is None
        if let_go is not None and made:
            await to_the_end(let_go(cast(Result, running.result())))
        raise


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
