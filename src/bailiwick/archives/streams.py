"""The bytes of an archive one after the other, unpacked on the way, a little at a time."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from bailiwick.archives.bounds import Budget
from bailiwick.archives.entries import STEP_BYTES, Need, Steps, damaged
from bailiwick.errors import Unsupported
from bailiwick.model import KiB, MiB

Packing = Literal["gz", "bz2", "xz", "zst"]

LZMA_MEMORY_MAX: Final = 128 * MiB
"""Level 9 needs 65 MiB to unpack; what asks for more was not made for other people's machines."""

ZSTD_WINDOW_MAX: Final = 32 * MiB
"""Level 19 needs 8 MiB; RFC 8878 asks readers for at least that."""

ZSTD_SLICE_BYTES: Final = 512
"""What zstd is given at a time, as it cannot be told how much to make of it. One block takes at
least 4 bytes and holds at most 128 KiB, so that at most 16 MiB come out."""

FEED_BYTES: Final = 8 * KiB
"""What is unpacked at a time: the ratio is seen as exactly as this is small."""

GZIP_WINDOW: Final = 31  # zlib's own word for: a gzip header, the largest window


class Stream(Protocol):
    """Bytes in order."""

    def read(self, length: int) -> Steps[bytes]:
        """Some of the next bytes, at most ``length``; none only at the end."""
        ...


class PlainStream:
    """The bytes of the archive as they stand there, read ahead in large ranges."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._next = 0
        self._ahead = b""
        self._at = 0

    def read(self, length: int) -> Steps[bytes]:
        if self._at == len(self._ahead):
            wanted = min(STEP_BYTES, self._size - self._next)
            if wanted <= 0:
                return b""
            self._ahead, self._at = (yield Need(self._next, wanted)), 0
            if len(self._ahead) != wanted:
                raise damaged("it became shorter while it was read")
            self._next += wanted
        piece = self._ahead[self._at : self._at + length]
        self._at += len(piece)
        return piece


class Unpacks(Protocol):
    """One packed stream under way, as the libraries have it. More input is asked for when it
    ``needs_input``; after its end, ``unused`` is what it did not take."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused(self) -> bytes: ...
    def unpack(self, data: bytes, length_max: int) -> bytes: ...


class _Gzip:
    """zlib hands back what it has not taken yet."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(GZIP_WINDOW)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused(self) -> bytes:
        return self._inner.unused_data

    def unpack(self, data: bytes, length_max: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, length_max)


class _Bounded:
    """bz2 and lzma keep what they have not taken yet."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return self._inner.needs_input

    @property
    def unused(self) -> bytes:
        return self._inner.unused_data

    def unpack(self, data: bytes, length_max: int) -> bytes:
        return self._inner.decompress(data, length_max)


class _Zstd:
    """zstd takes all it is given, so it is given little."""

    def __init__(self, library: Any) -> None:
        unpacker = library.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
        self._inner = unpacker.decompressobj()
        self._left = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return not self._left

    @property
    def unused(self) -> bytes:
        return bytes(self._inner.unused_data) + self._left

    def unpack(self, data: bytes, length_max: int) -> bytes:
        left = memoryview(self._left + data)
        made: list[bytes] = []
        size = at = 0
        while at < len(left) and size < length_max and not self._inner.eof:
            piece = self._inner.decompress(left[at : at + ZSTD_SLICE_BYTES])
            at = min(at + ZSTD_SLICE_BYTES, len(left))
            made.append(piece)
            size += len(piece)
        self._left = bytes(left[at:])
        return b"".join(made)


def zstd_library() -> Any:
    """The one library that is not Python's own, loaded when first needed."""
    try:
        import zstandard
    except ImportError:
        raise Unsupported(
            "zstd archives need one more package", hint="pip install 'bailiwick[zstd]'"
        ) from None
    return zstandard


def unpacker_of(packing: Packing) -> tuple[Callable[[], Unpacks], tuple[type[Exception], ...]]:
    """What unpacks such a stream, and what it raises where that is damaged."""
    if packing == "gz":
        return _Gzip, (zlib.error,)
    if packing == "bz2":
        return lambda: _Bounded(bz2.BZ2Decompressor()), (OSError, ValueError)
    if packing == "xz":
        return _unpack_xz, (lzma.LZMAError,)
    library = zstd_library()
    return lambda: _Zstd(library), (library.ZstdError,)


def _unpack_xz() -> Unpacks:
    return _Bounded(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LZMA_MEMORY_MAX))


class UnpackedStream:
    """A packed stream, unpacked as far as it is read.

    Several streams after each other are one, as the programs that write these formats have it.
    Anything else after the end is refused.
    """

    def __init__(self, packed: Stream, packing: Packing, budget: Budget) -> None:
        self._packed = packed
        self._budget = budget
        self._new, self._errors = unpacker_of(packing)
        self._unpacker = self._new()
        self._pushed_back = b""
        self._ahead = b""
        self._at = 0

    def read(self, length: int) -> Steps[bytes]:
        while self._at == len(self._ahead):
            if not (yield from self._unpack_more()):
                return b""
        piece = self._ahead[self._at : self._at + length]
        self._at += len(piece)
        return piece

    def _unpack_more(self) -> Steps[bool]:
        """One step of unpacking; False at the end."""
        given, fresh, ended = b"", 0, False
        if self._unpacker.eof:
            given = self._pushed_back
            if not given:
                given = yield from self._packed.read(FEED_BYTES)
                fresh = len(given)
            if not given:
                return False
            self._unpacker, self._pushed_back = self._new(), b""
        elif self._unpacker.needs_input:
            given = yield from self._packed.read(FEED_BYTES)
            fresh, ended = len(given), not given
        try:
            self._ahead = self._unpacker.unpack(given, STEP_BYTES)
        except self._errors:
            raise damaged("its packed stream is broken") from None
        self._at = 0
        if self._unpacker.eof:
            self._pushed_back = self._unpacker.unused
        elif ended and not self._ahead:
            raise damaged("it ends in the middle of its packed stream")
        self._budget.unpacked(fresh, len(self._ahead))
        # Whoever drives this must get a turn, also where nothing comes out for long.
        yield b""
        return True


class Exactly:
    """Reads of known lengths from a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def block(self, length: int) -> Steps[bytes]:
        """All of ``length`` bytes, or none at the end of the stream."""
        piece = yield from self._stream.read(length)
        if len(piece) == length or not piece:
            return piece
        pieces, missing = [piece], length - len(piece)
        while missing:
            piece = yield from self._stream.read(missing)
            if not piece:
                raise damaged("it ends in the middle of an entry")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def content(self, length: int) -> Steps[None]:
        """Hand ``length`` bytes on as content."""
        while length:
            piece = yield from self._stream.read(min(length, STEP_BYTES))
            if not piece:
                raise damaged("it ends in the middle of a file")
            length -= len(piece)
            yield piece

    def rest(self) -> Steps[bytes]:
        """Some of what is left."""
        return (yield from self._stream.read(STEP_BYTES))
