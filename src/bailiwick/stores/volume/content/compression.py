"""Chunks made smaller with zstd, where that pays.

A chunk is found and checked by the hash of its plain bytes, however it is kept. How it is kept
stands in its row, so a volume can be read whatever the setting is now; what needs the package says
so when it is met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bailiwick.errors import IoError, ParseError, Unsupported
from bailiwick.model import KiB, MiB

Buffer = bytes | bytearray | memoryview

Pack = Callable[[Sequence[Buffer]], bytes | None]
"""From the plain bytes, in parts, to the packed ones; None where it does not pay."""

COMPRESSIONS: Final = ("off", "zstd")

PACKED_BYTES_MIN: Final = 4 * KiB
"""Less would be saved than the call costs: 4 KiB take 10 to 30 µs, more than writing them."""

_KEPT_PERCENT_MAX: Final = 90
"""Packed bytes are kept when they are at least a tenth fewer: reading them costs unpacking."""

_LEVEL: Final = 1
"""Source text comes to 23 % at 220 MB/s; level 3 to 21 % at 130 MB/s."""

_WINDOW_BYTES_MAX: Final = 8 * MiB
"""What a frame may make the decompressor remember: more than any of ours."""

_INSTALL: Final = "pip install 'bailiwick[zstd]'"


def packing(compression: str) -> Pack | None:
    """How chunks are packed on their way in. Raises `ParseError`, and `Unsupported` without the
    package."""
    if compression not in COMPRESSIONS:
        raise ParseError("compression is off or zstd", hint=f"not {compression!r}")
    if compression == "off":
        return None
    try:
        import zstandard  # noqa: F401
    except ImportError:
        raise Unsupported("compression needs one more package", hint=_INSTALL) from None
    return _pack


def _pack(parts: Sequence[Buffer]) -> bytes | None:
    import zstandard

    size = sum(map(len, parts))
    if size < PACKED_BYTES_MIN:
        return None
    most = size * _KEPT_PERCENT_MAX // 100
    # Part by part: the packed bytes of all at once would be given as much memory as the plain ones.
    stream = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)
    packed = bytearray()
    for part in parts:
        packed += stream.compress(part)
        if len(packed) > most:
            return None
    packed += stream.flush()
    return bytes(packed) if len(packed) <= most else None


def unpacked(data: Buffer, size: int, into: bytearray | None = None) -> Buffer:
    """The plain bytes, ``size`` of them, in ``into`` where that is given and large enough.

    Raises `IoError` for what is damaged. No more memory is taken, whatever a damaged frame says.
    """
    try:
        import zstandard
    except ImportError:
        raise Unsupported("the content is compressed with zstd", hint=_INSTALL) from None
    if into is None or len(into) < size:
        into = bytearray(size)
    plain, done = memoryview(into)[:size], 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    try:
        with decompressor.stream_reader(data) as reader:
            while done < size and (read := reader.readinto(plain[done:])):
                done += read
            if done == size and not reader.read(1):
                return plain
    except zstandard.ZstdError:
        pass
    raise IoError("a part of the content is damaged", hint="check the volume")
