"""What a command prints, as JSON has it: text, piece by piece, in the order in which it came."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterable
from typing import NamedTuple

from bailiwick.sandbox import Piece, Stream


class TextPiece(NamedTuple):
    """Some output. ``data`` is UTF-8; a byte that is none stands there as ``\\xNN``."""

    seq: int
    stream: Stream
    data: str


async def as_text(pieces: AsyncIterable[Piece]) -> AsyncGenerator[TextPiece, None]:
    """The pieces, each under its own number. A character that two pieces of a stream share comes
    with the second; what is left of one at the end comes under the number after the last."""
    make = codecs.getincrementaldecoder("utf-8")
    streams: tuple[Stream, Stream] = ("stdout", "stderr")
    decoders = {stream: make("backslashreplace") for stream in streams}
    seq = -1
    async for piece in pieces:
        seq = piece.seq
        yield TextPiece(seq, piece.stream, decoders[piece.stream].decode(piece.data))
    for stream, decoder in decoders.items():
        if text := decoder.decode(b"", final=True):
            seq += 1
            yield TextPiece(seq, stream, text)
