"""What is written to a file and not published yet: bytes on the side, shared by all who have the
file open.

Small content is kept in memory, more in a file without a name, which is gone with the process.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from bailiwick.model import MiB

_MEMORY_BYTES_MAX: Final = 1 * MiB
"""Kept in memory of one file: most that programs write is smaller."""

_CHUNK_BYTES: Final = 1 * MiB


class Times(NamedTuple):
    """Times to be set when it is published."""

    mtime_ns: int
    atime_ns: int | None


class StagedBytes:
    """The bytes of one file, or only those from ``base`` on, which will be added to it. To be used
    under the lock of its node."""

    def __init__(self, *, mode: int, is_new: bool, exclusive: bool = False, base: int = 0) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES_MAX)  # noqa: SIM115
        self.base = self.size = base
        self.mode = mode
        self.is_new = is_new
        """Whether it stands nowhere but here."""
        self.exclusive = exclusive
        """Whether nobody else may have made it meanwhile."""
        self.dirty = is_new
        self.told = False
        """Whether a program was told that it cannot be published."""
        self.mtime_ns = time.time_ns()
        self.times: Times | None = None
        self.version: str | None = None
        """What it is of, or was published as."""

    def read(self, offset: int, size: int) -> bytes:
        size = max(0, min(size, self.size - offset))
        self._file.seek(offset - self.base)
        data = self._file.read(size)
        return data + bytes(size - len(data))

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._file.seek(offset - self.base)
        self._file.write(data)
        self.size = max(self.size, offset + len(data))
        self._changed()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)  # of what it holds: the rest reads as zeros
        if size > self.size:
            self._file.seek(size - 1)
            self._file.write(b"\0")
        self.size = size
        self._changed()

    def _changed(self) -> None:
        self.dirty = True
        self.told = False
        self.times = None
        self.mtime_ns = time.time_ns()

    def fill(self, offset: int, data: bytes) -> None:
        """Bytes that stand there already."""
        self._file.seek(offset)
        self._file.write(data)
        self.size = offset + len(data)

    def chunks(self) -> Iterator[bytes]:
        for offset in range(0, self.size, _CHUNK_BYTES):
            yield self.read(offset, _CHUNK_BYTES)

    @property
    def added(self) -> bytes:
        """What comes after the base."""
        return self.read(self.base, self.size - self.base)

    def take_over(self, tail: StagedBytes) -> None:
        """Have at the end what was to be added."""
        if tail.dirty:
            self.write(self.size, tail.added)
        self.mode, self.times, self.mtime_ns = tail.mode, tail.times, tail.mtime_ns

    def appended(self, size: int, version: str) -> None:
        """What comes after the base stands there now."""
        self._file.seek(0)
        self._file.truncate()
        self.base = self.size = size
        self.published(version)

    def published(self, version: str) -> None:
        self.version = version
        self.is_new = self.dirty = self.exclusive = False

    def close(self) -> None:
        self._file.close()
