"""Bytes out of held files. Never trusts a size, never follows a name, never blocks on a device."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from typing import Final

from bailiwick.errors import HashMismatch, ParseError, PathNotFound
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Content
from bailiwick.stores.disk.handles import VERSION, Held, check_readable, new_tuple, version_of
from bailiwick.stores.disk.settings import INLINE_BYTES_MAX, Settings
from bailiwick.stores.disk.workers import Stop, Workers

PIECE_BYTES: Final = 1 * MiB
"""Bytes moved between two looks at a cancellation: under a millisecond."""


def read_quickly(held: Held, offset: int, length: int, settings: Settings) -> Content | None:
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
    """At most ``length`` bytes, with a look at the file immediately before and after.

    `read_quickly` has checked what the file is.
    """
    if offset < 0 or length < 0:
        raise ParseError("offset and length cannot be negative", path=held.path)
    fd = held.open_for_reading_unchecked()
    try:
        before = os.fstat(fd)
        data = _read_pieces(fd, offset, length, stop)
        after = os.fstat(fd)
    finally:
        os.close(fd)
    check_unchanged(before, after, held.path)
    size = max(after.st_size, offset + len(data)) if data else after.st_size
    return Content(data, size, version_of(after))


def _read_pieces(fd: int, offset: int, length: int, stop: Stop) -> bytes:
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
    return b"".join(pieces)


def check_unchanged(before: os.stat_result, after: os.stat_result, path: ScopedPath) -> None:
    """Raise unless what was read between the two is of one version. Appending is fine.

    A file that was replaced loses a name, which moves its ctime and nothing else: then the old
    bytes are whole.
    """
    if after.st_size > before.st_size:
        return
    replaced = after.st_nlink != before.st_nlink
    if (
        after.st_size == before.st_size
        and after.st_mtime_ns == before.st_mtime_ns
        and (after.st_ctime_ns == before.st_ctime_ns or replaced)
    ):
        return
    raise HashMismatch(
        "the file was rewritten while it was read",
        path=path,
        hint="read it again",
        details={"current_sha256": None, "current_version": version_of(after)},
    )


async def stream(
    held: Held, offset: int, length: int | None, settings: Settings, workers: Workers
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
        while length is None or length > 0:
            want = chunk_bytes if length is None else min(length, chunk_bytes)
            chunk = await workers.run(_read_chunk, fd, offset, want)
            if not chunk:
                break
            offset += len(chunk)
            if length is not None:
                length -= len(chunk)
            yield chunk
        check_unchanged(before, os.fstat(fd), held.path)
    finally:
        os.close(fd)


def _read_chunk(fd: int, offset: int, length: int, _stop: Stop) -> bytes:
    return os.pread(fd, length, offset)
