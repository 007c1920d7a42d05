"""Bytes on their way to another thread, in pieces that are worth the way."""

from __future__ import annotations

_PIECES_TOGETHER = 4
"""The bytes of so many pieces go at once, be it in one: the way there and back takes as long as to
hash and write half a mebibyte, and whoever waits for a turn on that thread waits a millisecond."""


class Pieces:
    """Chunks as they come: small ones are joined to pieces of ``size`` bytes, others are pieces as
    they are, and some pieces are handed over together."""

    __slots__ = ("_bytes", "_pieces", "_size", "_waiting", "_waiting_bytes")

    def __init__(self, size: int) -> None:
        self._size = size
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def add(self, chunk: bytes) -> bool:
        """Take one more; whether there are enough to be handed over."""
        self._waiting.append(chunk)
        self._bytes += len(chunk)
        self._waiting_bytes += len(chunk)
        if self._waiting_bytes >= self._size:
            self._join()
        return self._bytes >= _PIECES_TOGETHER * self._size

    def take(self) -> list[bytes]:
        """All that has come, in its order."""
        if self._waiting_bytes:
            self._join()
        pieces, self._pieces, self._bytes = self._pieces, [], 0
        return pieces

    def _join(self) -> None:
        waiting = self._waiting
        self._pieces.append(waiting[0] if len(waiting) == 1 else b"".join(waiting))
        self._waiting, self._waiting_bytes = [], 0
