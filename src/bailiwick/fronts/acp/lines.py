"""Lines from a stream, in bounded memory: whole where they fit, else piece by piece."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple

_CHUNK_BYTES = 64 * 1024

Part = Literal["line", "beginning", "middle", "end"]


class LinePiece(NamedTuple):
    """A whole line with its line feed (the last one may lack it), or a part of one that is longer
    than what is held."""

    part: Part
    data: bytes


class LineReader:
    """Reads lines of at most ``line_bytes_max``; longer ones come in pieces as they arrive."""

    def __init__(self, stream: asyncio.StreamReader, line_bytes_max: int) -> None:
        self._stream = stream
        self._line_bytes_max = line_bytes_max
        self._held = bytearray()
        self._searched = 0
        self._inside = False
        self._ended = False

    async def next(self) -> LinePiece | None:
        """The next piece; None at the end."""
        while True:
            at = self._held.find(b"\n", self._searched)
            if at >= 0:
                return self._taken("end" if self._inside else "line", at + 1)
            self._searched = len(self._held)
            if self._inside and self._held:
                return self._taken("middle", len(self._held))
            if len(self._held) > self._line_bytes_max:
                self._inside = True
                return self._taken("beginning", len(self._held))
            if self._ended:
                return self._last()
            chunk = await self._stream.read(_CHUNK_BYTES)
            self._held += chunk
            self._ended = not chunk

    def _last(self) -> LinePiece | None:
        if self._inside:
            self._inside = False
            return LinePiece("end", b"")
        return self._taken("line", len(self._held)) if self._held else None

    def _taken(self, part: Part, size: int) -> LinePiece:
        data = bytes(self._held[:size])
        del self._held[:size]
        self._searched = 0
        if part in ("line", "end"):
            self._inside = False
        return LinePiece(part, data)
