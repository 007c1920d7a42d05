"""The file that stands under a name: opened, locked by its inode, hashed, compared.

The lock is flock(2) on the file itself: it holds against every process that comes through here,
leaves nothing behind, and goes with the descriptor.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import Final

from bailiwick.errors import BailiwickError, Busy, HashMismatch, PathNotFound
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import (
    Held,
    check_readable,
    lstat_at,
    same_object,
    version_of,
)
from bailiwick.stores.disk.settings import INLINE_BYTES_MAX
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.publisher import Publisher, too_large

_OPEN_FLAGS: Final = syscalls.READ_FLAGS | syscalls.O_NOFOLLOW

PIECE_BYTES: Final = 1 * MiB
"""Bytes hashed or copied between two looks at a cancellation: a few milliseconds."""

EMPTY_SHA256: Final = hashlib.sha256().hexdigest()

LOCK_POLL_SECONDS: Final = 0.002
"""Between two tries for another process's lock: about the time one durable write takes."""


class CurrentFile:
    """The file under a name, open and locked.

    ``seal`` notes what it holds, as far as that matters, and `is_unchanged` looks again.
    """

    __slots__ = ("content", "fd", "hashed", "sha256", "status")

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self.fd = fd
        self.status = status
        self.sha256 = EMPTY_SHA256
        self.hashed = 0
        self.content: bytes | None = None

    def seal(self, sha256: str, hashed: int, content: bytes | None = None) -> None:
        """Its first ``hashed`` bytes have this hash: what comes after them does not matter. They
        are the ``content``, where that is small enough to be kept: to compare is quicker."""
        self.sha256 = sha256
        self.hashed = hashed
        self.content = content

    def is_unchanged(self, stop: Stop) -> bool:
        """Whether it still holds what was sealed, and has not been written to since."""
        now = os.fstat(self.fd)
        if now.st_size != self.status.st_size or now.st_mtime_ns != self.status.st_mtime_ns:
            return False
        if self.content is not None:
            return _first(self.fd, self.hashed) == self.content
        return hash_of(self.fd, self.hashed, stop) == self.sha256

    def close(self) -> None:
        """Let go of the file and of its lock, which a child forked meanwhile would hold on to."""
        syscalls.unlock(self.fd)
        os.close(self.fd)


def open_current(
    publisher: Publisher, held: Held, plan: WritePlan, stop: Stop
) -> CurrentFile | None:
    """Open and lock what stands under the name; None for nothing."""
    limits = publisher.settings.limits
    deadline = time.monotonic() + limits.lock_wait_seconds_max
    for _ in range(limits.busy_retries_max):
        if publisher.check_target(held, plan) is None:
            return None
        try:
            fd = os.open(held.name, _OPEN_FLAGS, dir_fd=held.parent)
        except FileNotFoundError:
            continue
        try:
            _lock(fd, deadline, held.path, stop)
            # What was locked must be what has the name now, and be a file: it may have come since.
            now = lstat_at(held.parent, held.name)
            status = os.fstat(fd)
            if now is not None and same_object(now, status):
                check_readable(status, held.path, publisher.settings.hardlinks)
                return CurrentFile(fd, status)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # replaced while we waited for the lock of the old one
    raise Busy("others keep replacing this file", path=held.path)


def _open_same(held: Held, found: os.stat_result) -> int | None:
    """Open what was found to be a regular file; None where something else is there now."""
    try:
        fd = os.open(held.name, _OPEN_FLAGS, dir_fd=held.parent)
    except FileNotFoundError:
        return None
    if same_object(os.fstat(fd), found):
        return fd
    os.close(fd)
    return None


def _lock(fd: int, deadline: float, path: ScopedPath, stop: Stop) -> None:
    """Wait for the lock of the file. Where there are no locks, the exchange still tells."""
    while True:
        try:
            if syscalls.try_lock(fd):
                return
        except OSError as error:
            if error.errno in syscalls.NO_LOCKS:
                return
            raise
        if time.monotonic() > deadline:
            raise Busy("another process holds the lock of this file", path=path)
        stop.pause(LOCK_POLL_SECONDS)


def check_expected(held: Held, current: CurrentFile | None, plan: WritePlan, stop: Stop) -> None:
    """Refuse unless what is there is what the caller expects."""
    if current is None:
        if plan.conditional or plan.mode == "replace":
            raise missing(held.path, plan)
        return
    if not plan.conditional:
        return
    version = version_of(current.status)
    size = current.status.st_size
    if size > INLINE_BYTES_MAX:
        stop.pause(0.0)  # it has grown since it was looked up: to hash it takes long
    if size > plan.size_max:
        # Larger than anything written here: reading it all to compare could take for ever.
        if plan.expected_sha256 is not None:
            raise too_large(plan, held.path)
    elif size <= INLINE_BYTES_MAX:
        content = plan.expected_content
        if content is None or len(content) != size or not _as_found(held, current.status):
            content = _first(current.fd, size)
        known = plan.expected_sha256 is not None and content == plan.expected_content
        sha256 = plan.expected_sha256 if known else None
        current.seal(sha256 or hashlib.sha256(content).hexdigest(), size, content)
    else:
        current.seal(hash_of(current.fd, size, stop), size)
    wrong_hash = plan.expected_sha256 not in (None, current.sha256)
    wrong_version = plan.expected_version not in (None, version)
    if wrong_hash or wrong_version:
        raise mismatch(held.path, current.sha256 if current.hashed == size else None, version)


def _as_found(held: Held, now: os.stat_result) -> bool:
    """Whether a file looks as it did when it was looked up, and so holds what was read of it since.
    That is enough to begin a swap: once it is out, what it holds is compared."""
    found = held.status
    return (
        found is not None
        and same_object(found, now)
        and found.st_size == now.st_size
        and found.st_mtime_ns == now.st_mtime_ns
        and found.st_ctime_ns == now.st_ctime_ns
    )


def _first(fd: int, length: int) -> bytes:
    """The first ``length`` bytes of a small file, or all it has."""
    content = os.pread(fd, length, 0)
    while len(content) < length and (more := os.pread(fd, length - len(content), len(content))):
        content += more
    return content


def hash_of(fd: int, length: int, stop: Stop) -> str:
    """The hash of the first ``length`` bytes of an open file."""
    digest = hashlib.sha256()
    offset = 0
    while offset < length:
        piece = os.pread(fd, min(PIECE_BYTES, length - offset), offset)
        if not piece:
            break
        digest.update(piece)
        offset += len(piece)
        stop.check()
    return digest.hexdigest()


def missing(path: ScopedPath, plan: WritePlan) -> BailiwickError:
    """The error where something is expected and nothing is there."""
    if plan.mode == "replace":
        return PathNotFound("no such file or directory", path=path)
    return mismatch(path, None, None)


def mismatch(path: ScopedPath, sha256: str | None, version: str | None) -> HashMismatch:
    return HashMismatch(
        "the content is not what was expected" if version else "there is no such file any more",
        path=path,
        hint="read it again and decide anew",
        details={"current_sha256": sha256, "current_version": version},
    )


def current_mismatch(
    publisher: Publisher, held: Held, plan: WritePlan, stop: Stop
) -> BailiwickError:
    """The error after a race lost, with what is there now. Takes no lock: we may hold it."""
    try:
        found = publisher.check_target(held, plan)
    except BailiwickError as error:
        return error
    fd = None if found is None else _open_same(held, found)
    if fd is None:
        return missing(held.path, plan)
    try:
        status = os.fstat(fd)
        size = min(status.st_size, plan.size_max)
        return mismatch(held.path, hash_of(fd, size, stop), version_of(status))
    finally:
        os.close(fd)
