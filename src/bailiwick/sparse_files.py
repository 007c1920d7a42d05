"""Writing files of which much may be nothing but zeros: programs leave files with holes in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

_BLOCK_BYTES: Final = 16 * 1024
_ZEROS: Final = bytes(_BLOCK_BYTES)


def write_all(file: int, data: bytes, write: Callable[[int, memoryview], int] = os.write) -> None:
    """Write all of ``data`` at the end of a file, however little of it one call takes; whole blocks
    of zeros take no room there."""
    for part in without_zeros(data):
        if isinstance(part, int):
            os.ftruncate(file, os.fstat(file).st_size + part)
            os.lseek(file, 0, os.SEEK_END)
            continue
        while part:
            part = part[write(file, part) :]


def without_zeros(data: bytes) -> Iterator[memoryview | int]:
    """What is to be written of it, and in between how many zeros are not: whole blocks of them,
    counted from its beginning."""
    view, written, at = memoryview(data), 0, 0
    while at + _BLOCK_BYTES <= len(data):
        start = at
        while data.startswith(_ZEROS, at):
            at += _BLOCK_BYTES
        if at == start:
            at += _BLOCK_BYTES
            continue
        if written < start:
            yield view[written:start]
        yield at - start
        written = at
    if written < len(data):
        yield view[written:]
