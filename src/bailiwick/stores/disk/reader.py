"""Bytes out of held files. Never trusts a size, never follows a name, never blocks on a device."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from bailiwick.errors import HashMismatch, ParseError, PathNotFound
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Content
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import (
    VERSION,
    Held,
    check_readable,
    new_tuple,
    version_of,
)
from bailiwick.stores.disk.settings import INLINE_BYTES_MAX, DiskSettings
from bailiwick.stores.disk.workers import UNSTOPPABLE, Stop, Workers

_CHUNKS_BETWEEN_PAUSES: Final = 4
"""Chunks of a stream, a mebibyte, that are read in place before others get their turn."""

PIECE_BYTES: Final = 1 * MiB
"""Bytes moved between two looks at a cancellation: under a millisecond."""


def read_quickly(held: Held, offset: int, length: int, settings: DiskSettings) -> Content | None:
    """A few bytes of one version of the file; None where that takes a closer look.

    The state seen at the lookup counts as the state before, which saves a call. If the file was
    changed since, that may have been before the first byte was read: a closer look tells.
    """
    status = held.status
    if status is None:
        raise PathNotFound("no such file or directory", path=held.path)
    if status.st_mode & 0o170000 != 0o100000 or status.st_nlink != 1:
        check_readable(status, held.path, settings.hardlinks)
    size = status.st_size
    # One byte more than there should be shows whether there is more.
    want = size - offset + 1
    if want > length:
        want = length
    if offset < 0 or not 0 < want <= INLINE_BYTES_MAX:
        return None
    fd = held.open_for_reading_unchecked()
    try:
        data = os.pread(fd, want, offset)
        after = os.fstat(fd)
    finally:
        os.close(fd)
    modified, changed = after.st_mtime_ns, after.st_ctime_ns
    if (
        changed == status.st_ctime_ns
        and modified == status.st_mtime_ns
        and after.st_size == size
        and len(data) == (want if want == length else want - 1)
    ):
        version = VERSION % (after.st_ino, size, modified, changed)
        return new_tuple(Content, (data, size, version))
    return None


def read_closely_blocking(held: Held, offset: int, length: int, stop: Stop) -> Content:
    """At most ``length`` bytes of one version, also while others append to the file.

    `read_quickly` has checked what the file is. Where its times move while it is read, the bytes
    tell what happened: they are read a second time, and must be the same. An append moves the time
    of a file before its size, so times and size alone cannot tell it from a rewrite.
    """
    if offset < 0 or length < 0:
        raise ParseError("offset and length cannot be negative", path=held.path)
    fd = held.open_for_reading_unchecked()
    try:
        pieces: list[bytes] = []
        end = offset
        before = os.fstat(fd)
        while True:
            more = _read_pieces(fd, end, offset + length - end, stop)
            pieces += more
            end += sum(map(len, more))
            now = os.fstat(fd)
            if not _is_unchanged(before, now):
                _check_same_bytes(fd, offset, pieces, held.path, stop)
                _check_appended(before, now, os.fstat(fd), held.path)
            # What was appended before the second look is part of that version. Where no bytes came
            # though the size promised some, there are none: sizes are not trusted.
            if not more or end >= min(offset + length, now.st_size):
                break
    finally:
        os.close(fd)
    size = max(now.st_size, end) if pieces else now.st_size
    return Content(b"".join(pieces), size, version_of(now))


def _read_pieces(fd: int, offset: int, length: int, stop: Stop) -> list[bytes]:
    """Read until ``length`` bytes or the end of the file, whatever its size is said to be."""
    pieces = []
    while length > 0:
        piece = os.pread(fd, min(length, PIECE_BYTES), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
        stop.check()
    return pieces


def _check_same_bytes(
    fd: int, offset: int, pieces: list[bytes], path: ScopedPath, stop: Stop
) -> None:
    """Raise unless the file still holds these bytes from ``offset`` on."""
    for piece in pieces:
        if b"".join(_read_pieces(fd, offset, len(piece), stop)) != piece:
            raise _rewritten(os.fstat(fd), path)
        offset += len(piece)


def _check_appended(
    before: os.stat_result, now: os.stat_result, after: os.stat_result, path: ScopedPath
) -> None:
    """Raise where what was read is under a rewriting that the bytes did not show.

    Between two appends the size has moved. What moves the times twice and never the size comes back
    to the same bytes by writing them again.
    """
    if after.st_size <= before.st_size and not _is_unchanged(now, after):
        raise _rewritten(after, path)


def _is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether what was read between the two is of one version.

    A file that was replaced loses a name, which moves its ctime and nothing else: then the old
    bytes are whole.
    """
    return (
        after.st_size == before.st_size
        and after.st_mtime_ns == before.st_mtime_ns
        and (after.st_ctime_ns == before.st_ctime_ns or after.st_nlink != before.st_nlink)
    )


def check_not_rewritten(fd: int, before: os.stat_result, path: ScopedPath) -> None:
    """Raise unless what was read since ``before`` is of one version. Appending is fine.

    For what is too large to be read twice. A file whose time has moved and not its size is being
    appended to, if its size has moved too as soon as the write under way is over.
    """
    if not _has_grown_or_is_unchanged(before, os.fstat(fd)):
        _check_grows(fd, before, path)


def _has_grown_or_is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    return after.st_size > before.st_size or _is_unchanged(before, after)


def _check_grows(
    fd: int, before: os.stat_result, path: ScopedPath, _stop: Stop = UNSTOPPABLE
) -> None:
    _wait_for_writes(fd)
    after = os.fstat(fd)
    if after.st_size <= before.st_size:
        raise _rewritten(after, path)


def _wait_for_writes(fd: int) -> None:
    """Return when no write to the file is under way that had begun before.

    Asking where data is takes the lock of the inode that a write holds, on ext4, btrfs and in
    memory; reading does on XFS. Elsewhere this does not wait.
    """
    with suppress(OSError):  # ENXIO: behind the last data; EINVAL: the filesystem cannot tell
        os.lseek(fd, 0, os.SEEK_DATA)
    os.pread(fd, 1, 0)


def _rewritten(status: os.stat_result, path: ScopedPath) -> HashMismatch:
    return HashMismatch(
        "the file was rewritten while it was read",
        path=path,
        hint="read it again",
        details={"current_sha256": None, "current_version": version_of(status)},
    )


async def stream(
    held: Held, offset: int, length: int | None, settings: DiskSettings, workers: Workers
) -> AsyncGenerator[bytes, None]:
    """The bytes in chunks. The file is opened at the first and closed whatever happens."""
    status = held.status
    if status is None:
        raise PathNotFound("no such file or directory", path=held.path)
    check_readable(status, held.path, settings.hardlinks)
    if offset < 0 or (length is not None and length < 0):
        raise ParseError("offset and length cannot be negative", path=held.path)
    chunk_bytes = settings.limits.stream_chunk_bytes
    fd = held.open_for_reading_unchecked()
    try:
        before = os.fstat(fd)
        in_place = _InPlace(fd, chunk_bytes)
        while length is None or length > 0:
            want = chunk_bytes if length is None else min(length, chunk_bytes)
            workers.refuse_closed()
            chunk = in_place.read(offset, want)
            if chunk is None:
                chunk = await workers.run(_read_chunk, fd, offset, want)
            elif in_place.has_read_enough:
                await asyncio.sleep(0)
            if not chunk:
                break
            offset += len(chunk)
            if length is not None:
                length -= len(chunk)
            yield chunk
        if not _has_grown_or_is_unchanged(before, os.fstat(fd)):
            await workers.run(_check_grows, fd, before, held.path)
    finally:
        os.close(fd)


class _InPlace:
    """Reads chunks of a stream that no disk has to be waited for, without a hop to a thread, which
    takes as long as two or three of them."""

    def __init__(self, fd: int, chunk_bytes: int) -> None:
        self._fd = fd
        self._ready = chunk_bytes <= INLINE_BYTES_MAX
        self._in_memory = self._ready and syscalls.filesystem_type(fd) == syscalls.TMPFS
        self._buffer = bytearray(chunk_bytes if self._ready and not self._in_memory else 0)
        self._chunks = 0

    @property
    def has_read_enough(self) -> bool:
        """Whether others are to get their turn."""
        return self._chunks % _CHUNKS_BETWEEN_PAUSES == 0

    def read(self, offset: int, length: int) -> bytes | None:
        """A chunk, empty at the end; None where it may have to be waited for."""
        if not self._ready:
            return None
        self._chunks += 1
        if self._in_memory:
            return os.pread(self._fd, length, offset)
        part = memoryview(self._buffer)[:length]
        try:
            count = syscalls.read_at_hand(self._fd, part, offset)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            self._ready = False
            return None
        return None if count is None else bytes(part[:count])


def _read_chunk(fd: int, offset: int, length: int, _stop: Stop) -> bytes:
    return os.pread(fd, length, offset)
