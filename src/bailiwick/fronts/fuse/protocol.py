"""What the kernel says over ``/dev/fuse``, and how it is answered: bytes to values and back.

The layouts are those of ``linux/fuse.h``, which the kernel keeps for ever. This module knows
nothing of files and does nothing.
"""

from __future__ import annotations

import errno
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from bailiwick.model import KiB, MiB

MAJOR: Final = 7
MINOR: Final = 31
"""What is spoken here: Linux 5.4 and newer. A newer kernel goes by it."""

MINOR_MIN: Final = 28
"""Linux 4.20, which has requests of more than 128 KiB."""

WRITE_BYTES_MAX: Final = 1 * MiB
"""What one write of the kernel brings: the most it takes."""

REQUEST_BYTES_MAX: Final = WRITE_BYTES_MAX + 4 * KiB
"""A write and its head: the kernel refuses to be read into less."""

ROOT_ID: Final = 1


class Op(IntEnum):
    """What the kernel may ask, as far as it is answered here. All else is not there: ENOSYS."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45


class RequestHead(NamedTuple):
    """What stands before each request."""

    length: int
    op: int
    unique: int
    node: int
    uid: int
    gid: int
    pid: int


class FuseAttributes(NamedTuple):
    """What `stat` shows. ``mode`` holds the type too; the times are one."""

    ino: int
    size: int
    mode: int
    links: int
    mtime_ns: int


class SetAttributes(NamedTuple):
    """What a `SETATTR` wants; None is left alone. A time of -1 is now."""

    handle: int | None
    mode: int | None
    uid: int | None
    gid: int | None
    size: int | None
    atime_ns: int | None
    mtime_ns: int | None


_HEAD = struct.Struct("=IIQQIIII")
_ANSWER = struct.Struct("=IiQ")
_INIT = struct.Struct("=IIII")
_INIT_ANSWER = struct.Struct("=IIIIHHIIHH8I")
_ATTRIBUTES = struct.Struct("=6Q10I")
_ENTRY = struct.Struct("=QQQQII")
_ATTRIBUTES_FOR = struct.Struct("=QII")
_SET_ATTRIBUTES = struct.Struct("=II6QIIIIIIII")
_OPENED = struct.Struct("=QII")
_ENTRY_OF_DIRECTORY = struct.Struct("=QQII")
_FILESYSTEM = struct.Struct("=5Q4I6I")

HANDLE: Final = struct.Struct("=Q")
"""What `FLUSH`, `FSYNC` and `RELEASE` begin with, and the link of a `LINK`."""

OPEN: Final = struct.Struct("=II")
CREATE: Final = struct.Struct("=IIII")
MKNOD: Final = struct.Struct("=IIII")
MKDIR: Final = struct.Struct("=II")
RENAME: Final = struct.Struct("=Q")
RENAME2: Final = struct.Struct("=QII")
TRANSFER: Final = struct.Struct("=QQIIQII")
"""A `READ`, or a `WRITE` before its bytes: handle, offset, size, flags of the request …"""

FALLOCATE: Final = struct.Struct("=QQQII")
FORGET: Final = struct.Struct("=Q")
BATCH: Final = struct.Struct("=II")
FORGET_ONE: Final = struct.Struct("=QQ")
WRITTEN: Final = struct.Struct("=II")

WRITE_CACHE: Final = 1
"""Of a `WRITE`: pages that were changed in memory, at their place whatever the handle says."""

KEEP_CACHE: Final = 2
"""Of what was opened: the pages that the kernel has of the file are still right."""

_ASYNC_READ, _ATOMIC_O_TRUNC, _BIG_WRITES = 1 << 0, 1 << 3, 1 << 5
_AUTO_INVAL_DATA, _PARALLEL_DIROPS, _MAX_PAGES = 1 << 12, 1 << 18, 1 << 22
# Not asked for: locks, which the kernel keeps itself among the programs of one machine, and the
# cache that writes back later, which would hold back what others are to see.
_WANTED: Final = (
    _ASYNC_READ | _ATOMIC_O_TRUNC | _BIG_WRITES | _AUTO_INVAL_DATA | _PARALLEL_DIROPS | _MAX_PAGES
)
_BACKGROUND_MAX, _CONGESTED = 64, 48

_SET_MODE, _SET_UID, _SET_GID, _SET_SIZE = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_SET_ATIME, _SET_MTIME, _SET_HANDLE = 1 << 4, 1 << 5, 1 << 6
_SET_ATIME_NOW, _SET_MTIME_NOW = 1 << 7, 1 << 8
NOW: Final = -1

_SECOND_NS: Final = 1_000_000_000
_BLOCK_BYTES: Final = 4 * KiB
_UNBOUNDED_BLOCKS: Final = 2**28
"""A terabyte: what is left is known to quotas, which answer when they are used up."""


def head(request: bytes) -> RequestHead:
    return RequestHead(*_HEAD.unpack_from(request)[:7])


HEAD_BYTES: Final = 40


def answer(unique: int, body: bytes = b"") -> bytes:
    return _ANSWER.pack(_ANSWER.size + len(body), 0, unique) + body


def refusal(unique: int, number: int) -> bytes:
    return _ANSWER.pack(_ANSWER.size, -number, unique)


def init(body: memoryview) -> bytes:
    """Agree on what is spoken. Raises `OSError` where the kernel is too old."""
    major, minor, read_ahead, flags = _INIT.unpack_from(body)
    if (major, minor) < (MAJOR, MINOR_MIN):
        raise OSError(errno.EPROTO, "the kernel is too old")
    return _INIT_ANSWER.pack(
        MAJOR, MINOR, min(read_ahead, WRITE_BYTES_MAX), flags & _WANTED, _BACKGROUND_MAX,
        _CONGESTED, WRITE_BYTES_MAX, 1, WRITE_BYTES_MAX // _BLOCK_BYTES, 0, *[0] * 8,
    )  # fmt: skip


def names(body: memoryview, start: int = 0) -> list[str]:
    """The names that a request ends with. What is no text is kept as it is, and no path."""
    texts = bytes(body[start:]).split(b"\0")[:-1]
    return [text.decode("utf-8", "surrogateescape") for text in texts]


def set_attributes(body: memoryview) -> SetAttributes:
    (
        valid, _, handle, size, _, atime, mtime, _, atime_part, mtime_part, _, mode, _, uid, gid, _,
    ) = _SET_ATTRIBUTES.unpack_from(body)  # fmt: skip

    def time(bit: int, now: int, seconds: int, part: int) -> int | None:
        if valid & now:
            return NOW
        # Times before 1970 come as what they are as unsigned numbers.
        signed = seconds - 2**64 if seconds >= 2**63 else seconds
        return signed * _SECOND_NS + part if valid & bit else None

    return SetAttributes(
        handle=handle if valid & _SET_HANDLE else None,
        mode=mode if valid & _SET_MODE else None,
        uid=uid if valid & _SET_UID else None,
        gid=gid if valid & _SET_GID else None,
        size=size if valid & _SET_SIZE else None,
        atime_ns=time(_SET_ATIME, _SET_ATIME_NOW, atime, atime_part),
        mtime_ns=time(_SET_MTIME, _SET_MTIME_NOW, mtime, mtime_part),
    )


def entry(
    node: int, shown: FuseAttributes, owner: tuple[int, int], valid_ns: tuple[int, int]
) -> bytes:
    """A name, and what stands there. ``valid_ns`` is how long the kernel may go by the name, and
    by the attributes."""
    named, stood = valid_ns
    return _ENTRY.pack(
        node, 0, named // _SECOND_NS, stood // _SECOND_NS, named % _SECOND_NS, stood % _SECOND_NS
    ) + _packed(shown, owner)


def attributes(shown: FuseAttributes, owner: tuple[int, int], valid_ns: int) -> bytes:
    for_how_long = _ATTRIBUTES_FOR.pack(valid_ns // _SECOND_NS, valid_ns % _SECOND_NS, 0)
    return for_how_long + _packed(shown, owner)


def _packed(shown: FuseAttributes, owner: tuple[int, int]) -> bytes:
    seconds, part = divmod(shown.mtime_ns, _SECOND_NS)
    seconds %= 2**64
    return _ATTRIBUTES.pack(
        shown.ino, shown.size, -(-shown.size // 512), seconds, seconds, seconds, part, part, part,
        shown.mode, shown.links, *owner, 0, _BLOCK_BYTES, 0,
    )  # fmt: skip


def opened(handle: int, flags: int = 0) -> bytes:
    return _OPENED.pack(handle, flags, 0)


def directory_entry(ino: int, following: int, name: str, mode: int) -> bytes:
    """One row of a directory; ``following`` is where to go on after it."""
    text = name.encode("utf-8", "surrogateescape")
    row = _ENTRY_OF_DIRECTORY.pack(ino, following, len(text), mode >> 12) + text
    return row + bytes(-len(row) % 8)


def filesystem(name_bytes_max: int) -> bytes:
    """What `statfs` shows: as much room as nobody will use up."""
    free = _UNBOUNDED_BLOCKS
    sizes = _BLOCK_BYTES, name_bytes_max, _BLOCK_BYTES, 0
    return _FILESYSTEM.pack(free, free, free, free, free, *sizes, *[0] * 6)
