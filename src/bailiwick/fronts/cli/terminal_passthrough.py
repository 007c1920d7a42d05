"""Handing a terminal through to a program: what is typed, what is shown, and how large it is.

While it is handed through every key is the program's, Ctrl-C as well.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from bailiwick.errors import Closed
from bailiwick.sandbox import WindowSize

if TYPE_CHECKING:
    from bailiwick.scope.execution import Execution

_IN: Final = 0
_OUT: Final = 1
_INPUT_BYTES: Final = 64 * 1024


def has_terminal() -> bool:
    """Whether a person sits before both what is read and what is shown."""
    return os.isatty(_IN) and os.isatty(_OUT)


def window() -> WindowSize:
    """How large it is now; a terminal that does not know is of the common size."""
    with suppress(OSError):
        columns, rows = os.get_terminal_size(_OUT)
        return WindowSize(max(rows, 1), max(columns, 1)) if rows and columns else WindowSize()
    return WindowSize()


async def hand_through(execution: Execution) -> None:
    """Until the program has ended. The terminal is as before then, however that came about."""
    loop = asyncio.get_running_loop()
    typing = _Typing(execution)
    sizes: set[asyncio.Task[None]] = set()

    def resized() -> None:
        size = window()
        task = loop.create_task(execution.resize(size.rows, size.columns))
        sizes.add(task)
        task.add_done_callback(sizes.discard)

    with _raw():
        loop.add_signal_handler(signal.SIGWINCH, resized)
        resized()  # it may have been changed since the program was started
        typing.begin()
        try:
            await pass_on(execution)
        finally:
            typing.end()
            loop.remove_signal_handler(signal.SIGWINCH)


async def pass_on(execution: Execution) -> None:
    """What a program prints, as it comes, until it has ended or was ended."""
    with suppress(Closed):
        async for piece in execution:
            stream = sys.stderr if piece.stream == "stderr" else sys.stdout
            stream.buffer.write(piece.data)
            stream.buffer.flush()


@contextmanager
def _raw() -> Iterator[None]:
    """Keys as they come: none is echoed, kept until the line ends, or turned into a signal."""
    before = termios.tcgetattr(_IN)
    tty.setraw(_IN, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(_IN, termios.TCSADRAIN, before)


class _Typing:
    """What is typed goes to the program. By the event loop and no thread: one that waits for a key
    would take the next one from whoever reads after us."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._loop = asyncio.get_running_loop()
        self._handing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._loop.add_reader(_IN, self._read)

    def end(self) -> None:
        self._loop.remove_reader(_IN)
        if self._handing is not None:
            self._handing.cancel()

    def _read(self) -> None:
        """No more is read before the program has taken this."""
        self._loop.remove_reader(_IN)
        try:
            data = os.read(_IN, _INPUT_BYTES)
        except OSError:
            data = b""  # the terminal is gone: a hangup says so
        if data:
            self._handing = self._loop.create_task(self._hand_on(data))

    async def _hand_on(self, data: bytes) -> None:
        with suppress(Closed):
            await self._execution.write(data)
            self.begin()
