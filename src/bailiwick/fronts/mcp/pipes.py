"""Lines in, lines out, over two descriptors: bounded, and never in the way of the event loop.

A descriptor may be a pipe, a socket, a terminal or a file, and others may hold it too. So it is not
made non-blocking, which would be so for them all: it is read when there is something, and written
in pieces that fit whenever it takes them.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_READ_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = select.PIPE_BUF
"""A pipe or socket that is ready takes this much without blocking."""

_EDGE_BYTES: Final = 512
"""What is kept of either end of a line that is too long: enough to see which request it was."""


class LongLine:
    """The ends of a line that was thrown away."""

    def __init__(self, head: bytes, tail: bytes, size: int) -> None:
        self.head, self.tail, self.size = head, tail, size


class Inlet:
    """Hands over each line that comes, as bytes without its end, or as a `LongLine`.

    At the end of the input ``closed`` is called. `pause` and `resume` hold the input back.
    """

    def __init__(
        self,
        fd: int,
        bytes_max: int,
        line: Callable[[bytes | LongLine], None],
        closed: Callable[[], None],
    ) -> None:
        self._fd = fd
        self._bytes_max = bytes_max
        self._line = line
        self._closed = closed
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._loop = asyncio.get_running_loop()
        self._by_thread: asyncio.Task[None] | None = None
        self._open = asyncio.Event()

    def start(self) -> None:
        self._open.set()
        try:
            self._loop.add_reader(self._fd, self._readable)
        except PermissionError:  # a regular file is always readable, and cannot be waited for
            self._by_thread = asyncio.ensure_future(self._read_by_thread())

    def pause(self) -> None:
        if self._open.is_set():
            self._open.clear()
            if self._by_thread is None:
                self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not self._open.is_set():
            self._open.set()
            if self._by_thread is None:
                self._loop.add_reader(self._fd, self._readable)

    async def aclose(self) -> None:
        if self._by_thread is None:
            self._loop.remove_reader(self._fd)
            return
        self._by_thread.cancel()
        with suppress(asyncio.CancelledError):
            await self._by_thread

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
        self._take(data)

    async def _read_by_thread(self) -> None:
        data = b"\n"
        while data:
            await self._open.wait()
            data = await asyncio.to_thread(os.read, self._fd, _READ_BYTES)
            self._take(data)

    def _take(self, data: bytes) -> None:
        if not data:
            if self._size:
                self._end(b"")
            self._closed()
            return
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._end(data[start:end])
            start = end + 1
        if start < len(data):
            self._keep(data[start:])

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._bytes_max:
            self._parts.append(part)
            return
        # Too long already: only its ends are of use.
        self._tail = (self._tail + part)[-_EDGE_BYTES:]
        del self._parts[1:]
        if self._parts:
            self._parts[0] = self._parts[0][:_EDGE_BYTES]
        else:
            self._parts.append(part[:_EDGE_BYTES])

    def _end(self, last: bytes) -> None:
        if not self._size and len(last) <= self._bytes_max:
            self._line(last)
            return
        self._keep(last)
        parts, size, tail = self._parts, self._size, self._tail
        self._parts, self._size, self._tail = [], 0, b""
        if size <= self._bytes_max:
            self._line(b"".join(parts))
        else:
            self._line(LongLine(parts[0], tail, size))


class Outlet:
    """Writes lines in the order they are given. `full` while more is waiting than is sensible;
    ``drained`` is called when it is not any more, ``broken`` once nobody reads."""

    def __init__(
        self, fd: int, bytes_max: int, drained: Callable[[], None], broken: Callable[[], None]
    ) -> None:
        self._fd = fd
        self._bytes_max = bytes_max
        self._drained = drained
        self._broken = broken
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._dead = False
        self._ready = select.poll()
        self._ready.register(fd, select.POLLOUT)
        self._loop = asyncio.get_running_loop()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def full(self) -> bool:
        return self._size > self._bytes_max

    def write(self, line: bytes) -> None:
        if self._dead:
            return
        if not self._waiting and len(line) <= _PIECE_BYTES and self._ready.poll(0):
            try:
                os.write(self._fd, line)
            except OSError:
                self._die()
            return
        self._waiting.append(memoryview(line))
        self._size += len(line)
        if self._empty.is_set():
            self._empty.clear()
            self._push()
            if self._waiting and not self._dead:
                self._loop.add_writer(self._fd, self._push)

    async def flushed(self) -> None:
        """Wait until all is written, or nobody reads any more."""
        await self._empty.wait()

    def close(self) -> None:
        """Write nothing more."""
        self._dead = True
        self._loop.remove_writer(self._fd)

    def _push(self) -> None:
        was_full = self.full
        try:
            while self._waiting and self._ready.poll(0):
                first = self._waiting[0]
                sent = os.write(self._fd, first[:_PIECE_BYTES])
                self._size -= sent
                if sent == len(first):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = first[sent:]
        except OSError:
            self._die()
            return
        if not self._waiting:
            self._empty.set()
            self._loop.remove_writer(self._fd)
        if was_full and not self.full:
            self._drained()

    def _die(self) -> None:
        self._dead = True
        self._waiting.clear()
        self._size = 0
        self._empty.set()
        self._loop.remove_writer(self._fd)
        self._broken()
