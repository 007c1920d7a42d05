"""What a command printed: in order, bounded, to be read from any point and by several at a time.

The newest pieces are in memory; older ones move to a file without a name as they become more than
memory is meant to hold, so that the whole is a prefix in the file and the rest in memory. Beyond
the most that is kept, output is counted and thrown away.

One that is not to be read again holds what its one reader has not read yet, and no more.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from typing import IO

from bailiwick.errors import Closed
from bailiwick.sandbox import CommandLimits, Piece, Stream

_PIECE_BYTES_MIN = 64
"""What a piece counts for at least: to know where it is takes about as much."""


class Spool:
    """The output of one command. Used by the thread of its event loop only."""

    def __init__(self, limits: CommandLimits, *, replayable: bool = True) -> None:
        self._replayable = replayable
        self._memory_max = limits.output_memory_bytes_max
        self._most = limits.output_bytes_max
        self._recent: deque[Piece] = deque()
        self._recent_bytes = 0
        self._file: IO[bytes] | None = None
        self._file_bytes = 0
        # Of each piece in the file: where it ends, and its stream.
        self._ends: list[int] = []
        self._streams: list[Stream] = []
        self._next_seq = 0
        self._forgotten = 0
        self._kept_bytes = 0
        self.dropped_bytes = 0
        self._ended = False
        self._closed = False
        self._news = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether more would be thrown away."""
        return self._replayable and self._kept_bytes >= self._most

    @property
    def behind(self) -> bool:
        """Whether its one reader has to read first, before more is to come."""
        return not (self._replayable or self._closed) and self._recent_bytes >= self._memory_max

    def add(self, stream: Stream, data: bytes) -> None:
        kept = data[: max(self._most - self._kept_bytes, 0)] if self._replayable else data
        self.dropped_bytes += len(data) - len(kept)
        if not kept or self._closed:
            return
        self._kept_bytes += max(len(kept), _PIECE_BYTES_MIN)
        self._recent.append(Piece(self._next_seq, stream, kept))
        self._recent_bytes += len(kept)
        self._next_seq += 1
        while self._replayable and self._recent_bytes > self._memory_max:
            self._move_oldest()
        self._tell()

    def _move_oldest(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed in `close`)
        piece = self._recent.popleft()
        self._recent_bytes -= len(piece.data)
        self._file.seek(self._file_bytes)
        self._file.write(piece.data)
        self._file_bytes += len(piece.data)
        self._ends.append(self._file_bytes)
        self._streams.append(piece.stream)

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._tell()

    def close(self) -> None:
        """Give up what was kept. Whoever still reads gets `Closed`."""
        self._closed = self._ended = True
        self._recent.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
        self._tell()

    def _tell(self) -> None:
        told, self._news = self._news, asyncio.Event()
        told.set()

    async def pieces(self, since: int) -> AsyncIterator[Piece]:
        seq = max(since, 0)
        while True:
            if self._closed:
                raise Closed("the output was given up")
            if seq < self._next_seq:
                piece = self._piece(seq)
                seq += 1
                if not self._replayable:
                    self._forget(seq)
                yield piece
            elif self._ended:
                return
            else:
                await self._news.wait()

    def _forget(self, before: int) -> None:
        while self._forgotten < before:
            self._recent_bytes -= len(self._recent.popleft().data)
            self._forgotten += 1

    def _piece(self, seq: int) -> Piece:
        earlier = len(self._ends) + self._forgotten
        if seq >= earlier:
            return self._recent[seq - earlier]
        if self._file is None:
            raise Closed("this output was not kept to be read again")
        start = self._ends[seq - 1] if seq else 0
        self._file.seek(start)
        return Piece(seq, self._streams[seq], self._file.read(self._ends[seq] - start))
