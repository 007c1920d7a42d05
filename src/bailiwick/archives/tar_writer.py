"""Writing tar: ustar headers, and pax headers for what those cannot say."""

from __future__ import annotations

from typing import Final

from bailiwick.archives.compression import Packer
from bailiwick.archives.entries import ArchiveEntry
from bailiwick.archives.tar_reader import BLOCK
from bailiwick.errors import HashMismatch

_NAME_BYTES: Final = 100
_OCTAL_MAX: Final = 0o77777777777
_TYPES: Final = {"file": b"0", "copy": b"1", "symlink": b"2", "directory": b"5"}
_EXTENSION_NAME: Final = b"././@PaxHeader"
_MODES: Final = {"directory": 0o700, "symlink": 0o777}


class TarWriter:
    """One tar being written."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._missing = 0
        self._padding = 0

    def entry(self, entry: ArchiveEntry) -> bytes:
        return self._packer.pack(self._end_file() + _headers(entry)) + self._begin_file(entry)

    def _begin_file(self, entry: ArchiveEntry) -> bytes:
        self._missing = entry.size if entry.kind == "file" else 0
        self._padding = -self._missing % BLOCK
        return b""

    def content(self, data: bytes) -> bytes:
        self._missing -= len(data)
        if self._missing < 0:
            raise changed_meanwhile()
        return self._packer.pack(data)

    def finish(self) -> bytes:
        end = self._end_file() + bytes(2 * BLOCK)
        return self._packer.pack(end) + self._packer.finish()

    def _end_file(self) -> bytes:
        if self._missing:
            raise changed_meanwhile()
        padding, self._padding = self._padding, 0
        return bytes(padding)


def changed_meanwhile() -> HashMismatch:
    return HashMismatch("a file became longer or shorter while it was read", hint="try again")


def _headers(entry: ArchiveEntry) -> bytes:
    """The header of an entry, with what does not fit into it before it."""
    name = (entry.path + "/" if entry.kind == "directory" else entry.path).encode()
    link = entry.target.encode()
    size = entry.size if entry.kind == "file" else 0
    seconds, nanoseconds = divmod(entry.mtime_ns or 0, 10**9)
    records: dict[str, bytes] = {}
    if len(name) > _NAME_BYTES or not name.isascii():
        records["path"] = name
    if len(link) > _NAME_BYTES or not link.isascii():
        records["linkpath"] = link
    if size > _OCTAL_MAX:
        records["size"] = b"%d" % size
    if nanoseconds or not 0 <= seconds <= _OCTAL_MAX:
        records["mtime"] = _decimal(entry.mtime_ns or 0)
    mode = _MODES.get(entry.kind, 0o600) if entry.mode is None else entry.mode & 0o777
    header = _block(
        _TYPES[entry.kind], name[:_NAME_BYTES], link[:_NAME_BYTES],
        0 if size > _OCTAL_MAX else size, mode, min(max(seconds, 0), _OCTAL_MAX),
    )  # fmt: skip
    if not records:
        return header
    data = b"".join(_record(key.encode(), value) for key, value in records.items())
    extension = _block(b"x", _EXTENSION_NAME, b"", len(data), 0o600, 0)
    return extension + data + bytes(-len(data) % BLOCK) + header


def _block(kind: bytes, name: bytes, link: bytes, size: int, mode: int, mtime_s: int) -> bytes:
    parts = (
        name.ljust(100, b"\0"), b"%07o\0" % mode, b"%07o\0" % 0, b"%07o\0" % 0,
        b"%011o\0" % size, b"%011o\0" % mtime_s, b" " * 8, kind, link.ljust(100, b"\0"),
        b"ustar\x0000", bytes(64), b"%07o\0" % 0, b"%07o\0" % 0, bytes(155 + 12),
    )  # fmt: skip
    block = b"".join(parts)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _record(key: bytes, value: bytes) -> bytes:
    """A record begins with its own length, the digits of that included."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while len(b"%d" % length) + len(rest) != length:
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


def _decimal(time_ns: int) -> bytes:
    seconds, nanoseconds = divmod(abs(time_ns), 10**9)
    text = b"%d.%09d" % (seconds, nanoseconds)
    return b"-" + text if time_ns < 0 else text
