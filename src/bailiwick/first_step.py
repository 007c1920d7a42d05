"""Tasks that take their first step at once, where they are begun.

Most of what is asked of a scope ends in its first step: nothing keeps it waiting. A task that has
to be scheduled for that costs more than the work, and a thread that has to hand it over costs many
times more. So the step is taken in place; what ends there is over, and what waits goes on as any
task of its loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_PATIENCE_S: Final = 0.005
"""How long a thread waits for a loop to rest before it hands its work over after all."""

_NEVER_PUT_OFF: Final = cast(asyncio.Handle, None)
"""For a task, which does not look at it."""


class BeginsAtOnce:
    """A part of a class of event loops, before the one that schedules."""

    scheduled = False
    """Whether anything was scheduled since somebody last took this back."""

    _beginning: contextvars.Context | None = None
    _caught: tuple[Any, ...] | None = None
    """The first step of the task that is being begun."""

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """A task that has taken its first step. To be called where no task is being run. All that
        it raises, `SystemExit` too, is told to whoever awaits it."""
        self._beginning = context = contextvars.copy_context()
        try:
            task = asyncio.Task(work, loop=self, context=context)  # type: ignore[arg-type]
            step, self._caught = self._caught, None  # which holds the task, and all it returns
        finally:
            self._beginning = None
        assert step is not None, "a task asks for its first step when it is made"
        try:  # noqa: SIM105 (to suppress it takes a fifth of all that it takes to begin)
            context.run(*step)
        except (KeyboardInterrupt, SystemExit):
            pass
        try:
            return task
        finally:
            del step, task  # an error of the task holds this frame, which would hold the task

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As every loop's, but that the first step of a task that is begun is not put off."""
        if context is not None and context is self._beginning:
            # By its context, which nobody else has yet: what the collector ends just now may
            # schedule something too.
            self._beginning = None
            self._caught = (callback, *args)
            return _NEVER_PUT_OFF
        self.scheduled = True
        return super().call_soon(callback, *args, context=context)  # type: ignore[misc, no-any-return]


class SelectorLoop(BeginsAtOnce, asyncio.SelectorEventLoop):
    """asyncio's own."""


class LentLoop(BeginsAtOnce, asyncio.SelectorEventLoop):
    """An event loop with a thread of its own, which other threads may borrow while it rests."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._turn.acquire()  # for the thread that will run it
        super().__init__(_Resting(self._turn))
        self._hooks: tuple[Any, Any] | None = None
        self._users: set[int] = set()
        self._lends = True

    def run_forever(self) -> None:
        self.call_soon(self._look_at_hooks)
        me = threading.get_ident()
        self._users.add(me)
        try:
            super().run_forever()
        finally:
            self._users.discard(me)

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
    def is_here(self) -> bool:
        """Whether the calling thread runs it, borrows it, or is about to: what is called in
        between, by the collector, must not wait for this loop, which would wait for its turn."""
        return threading.get_ident() in self._users

    def lend_no_more(self) -> None:
        self._lends = False

    def begin_here(
        self, work: Coroutine[Any, Any, Result], goes_on: Callable[[asyncio.Task[Result]], object]
    ) -> asyncio.Task[Result] | None:
        """`begin` in the calling thread, as though on this loop. A task that waits is shown to
        ``goes_on`` before anybody else runs the loop. None, and nothing is begun, where that thread
        runs a loop itself, or this one does not come to rest soon. Nothing may be raised here by a
        signal."""
        hooks = self._hooks
        if (
            hooks is None
            or asyncio._get_running_loop() is not None
            or self.get_debug()  # which refuses every other thread
        ):
            return None
        me, turn = threading.get_ident(), self._turn
        self._users.add(me)
        try:
            if not (turn.acquire(False) or turn.acquire(timeout=_PATIENCE_S)):
                return None
            try:
                if not self._lends:  # any more
                    return None
                before = sys.get_asyncgen_hooks()
                self.scheduled = False
                asyncio._set_running_loop(self)
                sys.set_asyncgen_hooks(*hooks)
                try:
                    task = self.begin(work)
                    if not task.done():
                        goes_on(task)
                    try:
                        return task
                    finally:
                        del task  # as in `begin`
                finally:
                    sys.set_asyncgen_hooks(*before)
                    asyncio._set_running_loop(None)
                    if self.scheduled:
                        self.call_soon_threadsafe(_wake)
            finally:
                turn.release()
        finally:
            self._users.remove(me)


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
