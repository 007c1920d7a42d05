"""A started command on the event loop: its output, its input, its end.

How it was started and how its tree of processes is ended is the business of whoever started it, who
hands both in (`StartedProcess`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from collections.abc import AsyncIterator, Callable

from bailiwick.errors import Closed, IoError
from bailiwick.sandbox import Ending, Invocation, Piece, Stream, WindowSize
from bailiwick.sandboxes.spool import Spool

_READ_BYTES = 64 * 1024
"""What a pipe holds: one turn of the loop takes so much of each stream, and then lets others."""

_DRAIN_PAUSE_S = 0.005
"""Between two readings of what is thrown away: a flood gets some megabytes a second, and the loop
is free for others."""


class StartedProcess:
    """A process, our ends of its streams, how all of its tree is brought to an ``end``, and what is
    to be done when it is ``gone``. Both may be called twice."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        end: Callable[[], None],
        gone: Callable[[], None],
        send: Callable[[int], None],
        outputs: dict[int, Stream],
        input_fd: int | None,
        terminal: bool,
    ) -> None:
        self.popen = popen
        self.end = end
        self.gone = gone
        self.send = send
        self.outputs = outputs
        self.input_fd = input_fd
        self.terminal = terminal

    def abandon(self) -> None:
        """End it at once and wait for that, without an event loop."""
        self.end()
        self.popen.wait()
        self.gone()
        fds = set(self.outputs) | ({self.input_fd} if self.input_fd is not None else set())
        for fd in fds:
            os.close(fd)


def set_window(fd: int, size: WindowSize) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _no_input(why: str) -> Closed:
    """It is not opened again: 409, which nobody on the way tries again of itself, as a 503."""
    return Closed(why, status=409, retryable=False)


class RunningProcess:
    """The `Process` of the seam over what was `StartedProcess`. Lives on one event loop."""

    def __init__(
        self, started: StartedProcess, command: Invocation, sandbox: str,
        after: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """``after`` it has ended is done in a thread, before anybody is told."""
        self._loop = asyncio.get_running_loop()
        self._after = after
        self._afterwards: asyncio.Future[None] | None = None
        self._started = started
        self._sandbox = sandbox
        self._spool = Spool(command.limits, replayable=command.replayable)
        self._began = time.monotonic()
        self._timed_out = False
        self._ending: asyncio.Future[Ending] = self._loop.create_future()
        self._exit_code: int | None = None
        self._reading = dict(started.outputs)
        self._timers: list[asyncio.TimerHandle] = []
        self._input_lock = asyncio.Lock()
        self._input_given: asyncio.Task[None] | None = None
        self._pidfd = os.pidfd_open(started.popen.pid)
        for fd in {*self._reading, *filter(None, [started.input_fd])}:
            os.set_blocking(fd, False)
        for fd in self._reading:
            self._loop.add_reader(fd, self._read, fd)
        self._loop.add_reader(self._pidfd, self._exited)
        if command.limits.seconds_max:
            self._later(command.limits.seconds_max, self._out_of_time)
        if isinstance(command.stdin, bytes) and not started.terminal:
            self._input_given = self._loop.create_task(self._give(command.stdin))

    def begun(self) -> None:
        """All that came before was the sandbox."""
        self._began = time.monotonic()

    # --- output ------------------------------------------------------------------------------

    def _later(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        self._timers.append(self._loop.call_later(seconds, call, *arguments))

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:  # how a terminal says that nobody has it open
                raise
            data = b""
        if not data:
            self._stop_reading(fd)
            return
        self._spool.add(self._reading[fd], data)
        if self._spool.full or self._spool.behind:
            self._loop.remove_reader(fd)
            self._later(_DRAIN_PAUSE_S, self._go_on_reading, fd)

    def _go_on_reading(self, fd: int) -> None:
        if fd not in self._reading:
            return
        self._timers = [timer for timer in self._timers if timer.when() > self._loop.time()]
        if self._spool.behind:
            self._later(_DRAIN_PAUSE_S, self._go_on_reading, fd)
        else:
            self._loop.add_reader(fd, self._read, fd)

    def _stop_reading(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        del self._reading[fd]
        if fd != self._started.input_fd:
            os.close(fd)
        self._perhaps_over()

    def pieces(self, since: int = 0) -> AsyncIterator[Piece]:
        return self._spool.pieces(since)

    # --- input -------------------------------------------------------------------------------

    async def _give(self, data: bytes) -> None:
        with contextlib.suppress(Closed):
            await self.write(data)
        await self.close_input()

    async def write(self, data: bytes) -> None:
        async with self._input_lock:
            view = memoryview(data)
            while view:
                fd = self._started.input_fd
                if fd is None or self._exit_code is not None:
                    raise _no_input("the command reads no input")
                try:
                    view = view[os.write(fd, view) :]
                except BlockingIOError:
                    await self._writable(fd)
                except (BrokenPipeError, OSError) as error:
                    if error.errno not in (errno.EPIPE, errno.EIO):
                        raise IoError("the input could not be handed over") from error
                    raise _no_input("the command reads no more input") from None

    async def _writable(self, fd: int) -> None:
        """Until there is room, or nobody reads any more."""
        free: asyncio.Future[None] = self._loop.create_future()

        def tell() -> None:
            if not free.done():
                free.set_result(None)

        self._loop.add_writer(fd, tell)
        self._ending.add_done_callback(lambda _: tell())
        try:
            await free
        finally:
            if self._started.input_fd is not None:
                self._loop.remove_writer(fd)

    async def close_input(self) -> None:
        if self._started.terminal:
            with contextlib.suppress(Closed):
                await self.write(b"\x04")
            return
        async with self._input_lock:
            self._drop_input()

    def _drop_input(self) -> None:
        fd, self._started.input_fd = self._started.input_fd, None
        if fd is not None:
            self._loop.remove_writer(fd)
            os.close(fd)

    def resize(self, rows: int, columns: int) -> None:
        if self._started.terminal and self._started.input_fd is not None:
            set_window(self._started.input_fd, WindowSize(rows, columns))

    # --- ending ------------------------------------------------------------------------------

    def send_signal(self, signal: int) -> None:
        if self._exit_code is None:
            self._started.send(signal)

    def _out_of_time(self) -> None:
        if self._exit_code is None:
            self._timed_out = True
            self._started.end()

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._exit_code = self._started.popen.wait()
        self._duration = time.monotonic() - self._began
        self._started.gone()
        for timer in self._timers:
            timer.cancel()
        for fd in list(self._reading):
            self._drain(fd)
        self._perhaps_over()

    def _drain(self, fd: int) -> None:
        """Nobody is left to write: what is in the pipe is all there is."""
        self._loop.remove_reader(fd)
        with contextlib.suppress(OSError):
            while data := os.read(fd, _READ_BYTES):
                self._spool.add(self._reading[fd], data)
        self._stop_reading(fd)

    def _perhaps_over(self) -> None:
        if self._exit_code is None or self._reading or self._ending.done():
            return
        self._drop_input()
        self._spool.end()
        code = self._exit_code
        number = -code if code < 0 else code - 128
        by_signal = 0 < number < signal.NSIG
        self._ending.set_result(
            Ending(
                exit_code=None if by_signal else code,
                signal=number if by_signal else None,
                timed_out=self._timed_out,
                duration_seconds=self._duration,
                output_dropped_bytes=self._spool.dropped_bytes,
                sandbox=self._sandbox,
            )
        )

    @property
    def ended(self) -> bool:
        return self._ending.done()

    async def wait(self) -> Ending:
        ending = await asyncio.shield(self._ending)
        if self._input_given is not None:
            await asyncio.wait([self._input_given])
        if self._after is not None:
            if self._afterwards is None:
                self._afterwards = asyncio.ensure_future(asyncio.to_thread(self._after))
            await asyncio.shield(self._afterwards)
        return ending

    async def kill(self) -> Ending:
        if self._exit_code is None:
            self._started.end()
        return await self.wait()

    def forget_output(self) -> None:
        self._spool.close()

    async def close(self) -> None:
        try:
            await self.kill()
        finally:
            self._spool.close()
