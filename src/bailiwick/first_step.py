"""Tasks that take their first step at once, where they are begun.

Most of what is asked of a scope ends in its first step: nothing keeps it waiting. A task that has
to be scheduled for that costs more than the work, and a thread that has to hand it over costs many
times more. So the step is taken in place; what ends there is over, and what waits goes on as any
task of its loop.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enums of it all: ten times slower
import asyncio
import contextvars
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_Step = tuple[contextvars.Context, Callable[..., object], tuple[Any, ...]]

_PATIENCE_S: Final = 0.005
"""How long a thread waits for a loop to rest before it hands its work over after all."""

_NEVER_PUT_OFF: Final = cast(asyncio.Handle, None)
"""For a task, which does not look at it."""

_CATCHABLE: Final = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class BeginsAtOnce:
    """A part of a class of event loops, before the one that schedules."""

    scheduled = False
    """Whether anything was scheduled since somebody last took this back."""

    _catching: list[_Step] | None = None
    """Where the first step of the task goes that is being begun."""

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """A task that has taken its first step. To be called where no task is being run. All that
        it raises, `SystemExit` too, is told to whoever awaits it."""
        caught: list[_Step] = []
        self._catching = caught
        try:
            task = asyncio.Task(work, loop=self, context=contextvars.copy_context())  # type: ignore[arg-type]
        finally:
            self._catching = None
        context, step, args = caught[0]
        try:  # noqa: SIM105 (to suppress it takes a fifth of all that it takes to begin)
            context.run(step, *args)
        except (KeyboardInterrupt, SystemExit):
            pass
        return task

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As every loop's, but that the first step of a task that is begun is not put off."""
        caught = self._catching
        if caught is not None:
            self._catching = None
            assert context is not None, "a task is stepped in its own context"
            caught.append((context, callback, args))
            return _NEVER_PUT_OFF
        self.scheduled = True
        return super().call_soon(callback, *args, context=context)  # type: ignore[misc, no-any-return]


class LentLoop(BeginsAtOnce, asyncio.SelectorEventLoop):
    """An event loop with a thread of its own, which other threads may borrow while it rests."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._turn.acquire()  # for the thread that will run it
        super().__init__(_Resting(self._turn))
        self._hooks: tuple[Any, Any] | None = None
        self._borrower = 0
        self._lends = True

    def run_forever(self) -> None:
        self.call_soon(self._look_at_hooks)
        super().run_forever()

    def _look_at_hooks(self) -> None:
        hooks = sys.get_asyncgen_hooks()
        self._hooks = hooks.firstiter, hooks.finalizer

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self.scheduled = True
        return super().call_at(when, callback, *args, context=context)

    @property
    def is_borrowed_here(self) -> bool:
        """Whether the calling thread is the one that borrows it now."""
        return self._borrower == threading.get_ident()

    def lend_no_more(self) -> None:
        self._lends = False

    def lend(self, use: Callable[[], object]) -> bool:
        """Call ``use`` as though on this loop, in the calling thread. False where that cannot be,
        or the loop does not come to rest soon. Nothing may be raised here by a signal."""
        hooks = self._hooks
        if (
            hooks is None
            or asyncio._get_running_loop() is not None
            or self.get_debug()  # which refuses every other thread
            or not self._turn.acquire(timeout=_PATIENCE_S)
        ):
            return False
        if not self._lends:
            self._turn.release()
            return False
        before = sys.get_asyncgen_hooks()
        self._borrower = threading.get_ident()
        self.scheduled = False
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(*hooks)
        try:
            use()
        finally:
            sys.set_asyncgen_hooks(*before)
            asyncio._set_running_loop(None)
            self._borrower = 0
            if self.scheduled:
                self.call_soon_threadsafe(_wake)
            self._turn.release()
        return True


def _wake() -> None:
    """What a loop that rests is called for, to look at what was scheduled meanwhile."""


class _Resting(selectors.DefaultSelector):
    """While it waits for something to happen, its loop may be borrowed."""

    def __init__(self, turn: threading.Lock) -> None:
        super().__init__()
        self._turn = turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turn.release()
        try:
            return super().select(timeout)
        finally:
            self._turn.acquire()


class HeldSignals:
    """Signals whose handlers are called later: one that raises would do so between any two
    instructions of the main thread, in the middle of what must be done as a whole."""

    __slots__ = ("_came", "_handlers")

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._came: list[tuple[int, Callable[[int, FrameType | None], object]]] = []

    @property
    def any(self) -> bool:
        """Whether some still have to be given back, or told."""
        return bool(self._handlers or self._came)

    def hold(self) -> None:
        """From now on; in the main thread alone are handlers called."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        for number in _CATCHABLE:
            handler = _signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                _signal.signal(number, self._note)

    def release(self) -> None:
        """Give the handlers back, and call those whose signals came. What one of them raises comes
        out of here: call this again until there are none."""
        handlers, came = self._handlers, self._came
        while handlers:
            number = next(iter(handlers))
            _signal.signal(number, handlers[number])
            del handlers[number]
        while came:
            number, handler = came.pop(0)
            handler(number, sys._getframe())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, self._handlers[number]))
