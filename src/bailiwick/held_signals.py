"""Signals that are told later, so that something is done as a whole.

A handler that raises does so between any two instructions of the main thread: in the middle of what
must not be left half done.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enums of it all: ten times slower
import _thread
import functools
import operator
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

LAYERS: Final = 4
"""Exceptions that may come just while the one before is being caught. Between them any number may
come: each such instant is a few machine instructions long."""

Handler = Callable[[int, FrameType | None], object]

_CATCHABLE: Final = sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


_Handled = list[tuple[int, Handler]]

_last_seen: tuple[list[object], _Handled] = ([], [])
"""What stood for each signal when all were last looked at, and those of it that are handlers. Every
blocking call looks, and mostly nobody has set one since the last."""


_main_thread = threading.main_thread().ident


def _know_main_thread() -> None:
    """In a forked child it is the one that forked."""
    global _main_thread
    _main_thread = _thread.get_ident()


os.register_at_fork(after_in_child=_know_main_thread)


class HeldSignals:
    """Signals whose handlers do not raise where the main thread is: they are called when they are
    released, or from when they are taken on as they come, and what they raise is told."""

    __slots__ = ("_came", "_handlers", "_held", "_tell")

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._held: list[int] = []
        self._came: list[Callable[[], object]] = []
        self._tell: Callable[[BaseException], object] | None = None

    @property
    def any(self) -> bool:
        """Whether some still have to be given back, or told."""
        return bool(self._held or self._came)

    def hold(self) -> None:
        """From now on; in the main thread alone are handlers called. What one of them raises before
        all are held comes out of here, and this may be called again."""
        global _last_seen
        if _thread.get_ident() != _main_thread:
            return
        standing = list(map(_signal.getsignal, _CATCHABLE))
        before, handled = _last_seen
        if standing != before:
            both = zip(_CATCHABLE, standing, strict=True)
            handled = [(number, each) for number, each in both if callable(each)]
            _last_seen = standing, handled
        ours = self._note
        for number, handler in handled:
            if handler != ours:
                self._handlers[number] = handler
                self._held.append(number)
                stood = _signal.signal(number, ours)
                if stood is not handler:  # another handler has just set it
                    self._handlers[number] = stood

    def take(self, tell: Callable[[BaseException], object]) -> None:
        """Call the handlers of those that came, and of all that come from now on; ``tell`` is given
        what they raise."""
        self._tell = tell
        while self._came:
            self._call(self._came.pop(0), tell)

    def _call(self, handler: Callable[[], object], tell: Callable[[BaseException], object]) -> None:
        try:
            handler()
        except BaseException as error:
            tell(error)

    def release(self) -> None:
        """Give the handlers back, and call those whose signals came. What one of them raises comes
        out of here: call this again until there are none. A handler that was set meanwhile stays.
        """
        held, came = self._held, self._came
        if not (held or came):
            return
        ours = self._note
        while held:
            number = held[-1]
            if _signal.getsignal(number) == ours:
                _signal.signal(number, self._handlers[number])
            held.pop()
        while came:
            # Taken and called with no instruction between: there another one could raise, and this
            # one would be lost.
            next(map(operator.call, iter(functools.partial(came.pop, 0), None)))
        self._tell = None  # it may hold what was waited for

    def _note(self, number: int, frame: FrameType | None) -> None:
        handler, tell = functools.partial(self._handlers[number], number, frame), self._tell
        if number not in self._held:
            handler()  # somebody looked for the handler while it was held, and has set this again
        elif tell is None:
            self._came.append(handler)
        else:
            self._call(handler, tell)


def unbroken(act: Callable[[], object]) -> None:
    """Do something as a whole. What handlers of signals raise meanwhile comes out when it is done,
    before what it raises itself."""
    _Unbroken(act).bear(LAYERS)


class _Unbroken:
    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._signals = HeldSignals()
        self._begun = False

    def bear(self, layers: int) -> None:
        try:
            if layers:
                self.bear(layers - 1)
            else:
                self._go_on()
        except BaseException:
            self._outlast()
            raise

    def _outlast(self) -> None:
        raised: BaseException | None = None
        while not self._begun or self._signals.any:
            try:
                self._go_on()
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def _go_on(self) -> None:
        try:
            if not self._begun:
                self._signals.hold()
                self._begun = True
                self._act()
        finally:
            self._signals.release()
