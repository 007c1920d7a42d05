"""What something printed: how it began and how it ended, and how much lies between."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Printed(NamedTuple):
    """The beginning and the end of what came, and how many bytes lie between. Where nothing was
    left out, all of it is the beginning."""

    head: str
    tail: str
    omitted_bytes: int


class BothEnds:
    """Keeps as much as it may, whatever comes."""

    def __init__(self, bytes_max: int) -> None:
        self._half = bytes_max // 2
        self._head_max = bytes_max - self._half
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._gone = 0

    def add(self, data: bytes) -> None:
        room = self._head_max - len(self._head)
        self._head += data[:room]
        data = data[room:] if room > 0 else data
        if not data:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_bytes -= gone
            self._gone += gone

    @property
    def omitted_bytes(self) -> int:
        return self._gone + max(self._tail_bytes - self._half, 0)

    def printed(self) -> Printed:
        """As UTF-8; a byte that is none stands there as ``\\xNN``."""
        tail = b"".join(self._tail)
        if not self.omitted_bytes:
            return Printed((bytes(self._head) + tail).decode("utf-8", "backslashreplace"), "", 0)
        # Half a character on either side of what is left out is left out as well.
        head = bytes(self._head).decode("utf-8", "ignore")
        end = tail[-self._half :].decode("utf-8", "ignore") if self._half else ""
        return Printed(head, end, self.omitted_bytes)
