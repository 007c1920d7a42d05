"""Work on an event loop of another thread, for one who waits for its end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from bailiwick.errors import FORKED, Closed
from bailiwick.finishing import cancel_at_next_await
from bailiwick.first_step import LentLoop
from bailiwick.held_signals import LAYERS, HeldSignals

_log = logging.getLogger("bailiwick")

Result = TypeVar("Result")

_FRAMES: Final = 40
"""Calls that must still be possible in a thread before it begins anything: what it takes to hand
work over, and to wait for its end, is under 30 deep."""


def _have_room() -> None:
    """Raise `RecursionError` unless so many calls are possible."""
    try:
        sys._getframe(sys.getrecursionlimit() // 4)
    except ValueError:
        return  # not so deep, and most threads never are: to try it out takes five times as long
    _call(_FRAMES)


def _call(frames: int) -> None:
    if frames:
        _call(frames - 1)


_LOOK_SECONDS: Final = 1.0
"""How often a waiting thread looks whether the loop it waits for was closed by its owner."""


class HandedOver(Generic[Result]):
    """A coroutine that is run on an event loop of another thread, for one who waits for its end.

    A signal may raise in a waiting thread between any two instructions. Whatever is raised there
    asks the work to stop, and gets out of `wait` only when the work has ended: what it changed, it
    has changed by then. The same for a task that waits and is cancelled.
    """

    _begun = False
    _ended = False
    _task: asyncio.Task[Result] | None = None
    _on_end: Callable[[], object] | None = None
    _telling: threading.Lock | None = None
    _process = -1
    _raised: BaseException | None = None
    _warned = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Result],
        *,
        submit: Callable[[Callable[[], None]], bool] | None = None,
        stoppable: bool = True,
    ) -> None:
        """``submit`` has something called on the loop, and says whether it will be. Work that is
        not ``stoppable`` is carried to its end whatever is raised."""
        self._loop = loop
        self._work = work
        self._given_submit = submit
        self._stoppable = stoppable
        self._signals = HeldSignals()

    def wait(self) -> Result:
        """What the work returns or raises, for a thread without an event loop. Of what is raised
        here meanwhile the first comes out, and `KeyboardInterrupt` or `SystemExit` before errors.
        """
        try:
            _have_room()
        except RecursionError:
            self._work.close()
            raise
        try:
            self._bear(LAYERS)
            if self._raised is not None:
                raise self._raised
            return self._outcome()
        except BaseException as error:
            if self._raised is None or self._raised is error:
                raise
            raise self._raised from error
        finally:
            if self._raised is not None:
                self._raised = None  # it holds this frame

    async def wait_here(self) -> Result:
        """Wait for the end on another event loop. A cancellation that came too late is delivered
        at the next await."""
        here = asyncio.get_running_loop()
        ended: asyncio.Future[None] = here.create_future()
        self._on_end = lambda: here.call_soon_threadsafe(ended.set_result, None)
        late = False
        self._hand_over()
        while not ended.done():
            try:
                await asyncio.wait((ended,))
            except asyncio.CancelledError:
                late = True
                self._submit(self._stop)
        if late:
            if self.result is None:
                raise asyncio.CancelledError
            cancel_at_next_await()
        return self._outcome()

    @property
    def result(self) -> Result | None:
        """What the work returned, also for one who was interrupted; None where it did not."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    def _submit(self, call: Callable[[], None]) -> bool:
        if self._given_submit is not None:
            return self._given_submit(call)
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            return False
        return True

    def _hand_over(self) -> None:
        self._will_be_told()
        if not self._submit(self._begin):
            self._ended = True
            self._work.close()
            raise Closed("this scope is closed")

    def _bear(self, layers: int) -> None:
        try:
            if layers:
                self._bear(layers - 1)
            else:
                self._go_through()
        except BaseException as error:
            self._outlast(error)
            raise

    def _go_through(self) -> None:
        """Begin, and wait for the end. Handlers of signals are not called in the middle of the
        first step, and what they raise afterwards asks the work to stop without leaving the wait:
        any number of them may come."""
        try:
            self._signals.hold()
            loop = self._loop
            if isinstance(loop, LentLoop):
                self._task = loop.begin_here(self._work, self._goes_on)
                if self._task is not None:
                    self._begun = True
                    if self._task.done():
                        self._ended = True
            if not self._begun:
                self._hand_over()
            if not self._ended:
                self._signals.take(self._interrupt)
                self._wait()
        finally:
            self._signals.release()

    def _outlast(self, error: BaseException | None) -> None:
        """Wait for the end, whatever is raised before signals are held, or when they no longer
        are."""
        while self._signals.any or not self._ended:
            try:
                if error is not None:
                    self._note(error)
                    error = None
                self._signals.hold()
                if not self._ended:
                    self._will_be_told()
                    self._submit(self._stop)
                    self._signals.take(self._interrupt)
                    self._wait()
                self._signals.release()
            except BaseException as more:
                error = more

    def _interrupt(self, error: BaseException) -> None:
        self._note(error)
        self._submit(self._stop)

    def _note(self, error: BaseException) -> None:
        first, self._raised = self._raised, self._raised or error
        if first is None or error is first:
            return
        if isinstance(first, Exception):
            self._raised = error
        if not self._warned:
            self._warned = True
            _log.warning(
                "interrupted again: what was begun is waited for, so that nothing of it happens "
                "later. SIGQUIT or SIGKILL ends the process at once"
            )

    def _will_be_told(self) -> None:
        """Most work ends in its first step, and nobody has to be told."""
        if self._telling is None:
            telling = threading.Lock()
            telling.acquire()
            self._process = os.getpid()
            self._telling = telling

    def _wait(self) -> None:
        while not self._ended:
            assert self._telling is not None, "it was made before the work could go on elsewhere"
            if self._telling.acquire(timeout=_LOOK_SECONDS):
                continue
            if os.getpid() != self._process:
                _parents.append(self._work)
                self._ended = True
                raise Closed("this scope is closed", hint=FORKED)
            if self._loop.is_closed():
                self._work.close()
                self._ended = True  # nothing runs there any more
                raise Closed("the event loop of this scope was closed")

    def _outcome(self) -> Result:
        task = self._task
        try:
            if task is None or task.cancelled():
                raise concurrent.futures.CancelledError
            return task.result()
        except BaseException:
            if self.result is None:
                self._task = None  # it holds the error, which holds the frames of this one
            raise
        finally:
            del task  # as well

    # --- on the loop ---------------------------------------------------------------------------

    def _goes_on(self, task: asyncio.Task[Result]) -> None:
        self._begun, self._task = True, task
        self._will_be_told()
        task.add_done_callback(self._tell)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._task = self._loop.create_task(self._work)
            self._task.add_done_callback(self._tell)

    def _stop(self) -> None:
        if not self._begun:
            self._begun = True
            self._work.close()
            self._tell(None)
        elif self._stoppable and self._task is not None:
            self._stoppable = False  # once: what it does to stop is not to be stopped
            self._task.cancel()

    def _tell(self, _: object) -> None:
        self._ended = True
        assert self._telling is not None
        self._telling.release()
        if self._on_end is not None:
            self._on_end()


_parents: Final[list[Coroutine[Any, Any, Any]]] = []
"""What a process was waiting for when it was forked, in the child. Never closed: to clean up after
it is for the parent, where it goes on."""
