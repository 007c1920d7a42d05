"""Packing a stream of bytes as it comes."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any, Protocol

from bailiwick.archives.streams import GZIP_WINDOW, Packing, zstd_library


class Packer(Protocol):
    """One packed stream under way."""

    def pack(self, data: bytes) -> bytes:
        """What is ready so far; perhaps nothing."""
        ...

    def finish(self) -> bytes:
        """The rest, once."""
        ...


class _Plain:
    def pack(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


class _Compressor:
    """The libraries agree on how a stream is packed; only zlib and zstd are asked otherwise."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def pack(self, data: bytes) -> bytes:
        return bytes(self._inner.compress(data))

    def finish(self) -> bytes:
        return bytes(self._inner.flush())


def packer_of(packing: Packing | None) -> Packer:
    """What packs so. The levels are the libraries' own defaults; no time and no name is noted."""
    if packing is None:
        return _Plain()
    if packing == "gz":
        return _Compressor(zlib.compressobj(wbits=GZIP_WINDOW))
    if packing == "bz2":
        return _Compressor(bz2.BZ2Compressor())
    if packing == "xz":
        return _Compressor(lzma.LZMACompressor(lzma.FORMAT_XZ))
    return _Compressor(zstd_library().ZstdCompressor().compressobj())
