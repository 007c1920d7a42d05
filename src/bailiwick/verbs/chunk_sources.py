"""What a caller's own iterable gives, pulled off the loop.

The code of a plain iterable may block, and may wait for the very loop that asked for its next
chunk: the stream of a blocking scope does. So it runs in a thread, never on the loop. The thread is
its own: in a pool that others share, iterables that wait for others could take every thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from bailiwick.text.pieces import Pieces

GATHER_SECONDS_MAX = 0.05
"""After so long what has come is handed over: whoever closes or cancels is then heard."""


async def pulled(
    source: Iterable[object], as_bytes: Callable[[object], bytes], size: int
) -> AsyncGenerator[bytes, None]:
    """The bytes of ``source``; chunks smaller than ``size`` are joined, and several are pulled at a
    time, as each turn costs a hop.

    A generator that was not read to its end is closed, in a thread as well. A cancelled reader
    does not wait for a chunk that may never come: the generator is then closed when it has.
    """
    pull = _Pull(source, as_bytes, size)
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    thread = ThreadPoolExecutor(1, thread_name_prefix="bailiwick-pull")
    try:
        while not pull.ended:
            pull.hand_over = False
            timer = loop.call_later(GATHER_SECONDS_MAX, pull.hurry)
            try:
                chunks = await loop.run_in_executor(thread, context.run, pull.more)
            finally:
                timer.cancel()
            for chunk in chunks:
                yield chunk
    finally:
        waits = pull.abandon()
        try:
            if waits:
                await loop.run_in_executor(thread, context.run, pull.close)
        finally:
            thread.shutdown(wait=False)


class _Pull:
    """One iterator under way. One thread at a time runs it."""

    def __init__(
        self, source: Iterable[object], as_bytes: Callable[[object], bytes], size: int
    ) -> None:
        self._source = source
        self._as_bytes = as_bytes
        self._size = size
        self._iterator: Iterator[object] | None = None
        self._lock = threading.Lock()
        self._running = False
        self._abandoned = False
        self.hand_over = False
        self.ended = False

    def hurry(self) -> None:
        self.hand_over = True

    def more(self) -> list[bytes]:
        """Chunks until there are enough of them, or the iterator ends."""
        if not self._begin():
            return []
        try:
            return self._gathered()
        except StopIteration as stop:  # out of `iter`, where it means nothing
            raise RuntimeError("the iterable raised StopIteration") from stop
        finally:
            if self._was_abandoned():
                self.close()

    def _begin(self) -> bool:
        with self._lock:
            self._running = not self._abandoned
            return self._running

    def _was_abandoned(self) -> bool:
        with self._lock:
            self._running = False
            return self._abandoned

    def abandon(self) -> bool:
        """Ask for nothing more. Returns whether to `close`: else it ended, or its thread does."""
        with self._lock:
            self._abandoned = self.hand_over = True
            return not self._running and not self.ended and self._iterator is not None

    def _gathered(self) -> list[bytes]:
        if self._iterator is None:
            self._iterator = iter(self._source)
        pieces = Pieces(self._size)
        for given in self._iterator:
            if pieces.add(self._as_bytes(given)) or self.hand_over:
                break
        else:
            self.ended = True
        return pieces.take()

    def close(self) -> None:
        if isinstance(self._iterator, Generator):
            self._iterator.close()


def read_in_chunks(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """What a binary file gives until it gives nothing."""
    while chunk := read(size):
        yield chunk
