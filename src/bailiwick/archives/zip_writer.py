"""Writing zip as a stream: what is known of a file only at its end stands after it."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from bailiwick.archives import zip_fields as fields
from bailiwick.archives.entries import ArchiveEntry
from bailiwick.archives.tar_writer import changed_meanwhile

_RAW_WINDOW: Final = -15
_LARGE: Final = 0xFFFF_0000
"""From this size on an entry has 64-bit sizes: what does not pack becomes a little larger."""

_VERSION: Final = 20
_VERSION_64: Final = 45
_FORMATS: Final = {"file": 0o100000, "directory": 0o040000, "symlink": 0o120000}
_DOS_DIRECTORY: Final = 0x10
_DOS_SECONDS_MIN: Final = 315_532_800  # 1980
_DOS_SECONDS_MAX: Final = 4_354_819_198  # 2107


class _Open:
    """The file that is being written."""

    def __init__(self, entry: ArchiveEntry, offset: int) -> None:
        self.entry = entry
        self.offset = offset
        self.packer = zlib.compressobj(wbits=_RAW_WINDOW)
        self.crc = self.size = self.packed = 0
        self.large = entry.size >= _LARGE

    def take(self, packed: bytes) -> bytes:
        self.packed += len(packed)
        return packed


class ZipWriter:
    """One zip being written. Keeps its directory until the end, about a hundred bytes an entry."""

    def __init__(self) -> None:
        self._offset = 0
        self._open: _Open | None = None
        self._directory: list[bytes] = []

    def entry(self, entry: ArchiveEntry) -> bytes:
        ended = self._end_file()
        if entry.kind == "file":
            self._open = opened = _Open(entry, self._offset)
            flags = fields.UTF8 | fields.DESCRIBED_AFTER
            header = _local(entry, flags, fields.DEFLATED, 0, 0, opened.large)
            return ended + self._count(header)
        text = entry.target.encode() if entry.kind == "symlink" else b""
        crc, offset = zlib.crc32(text), self._offset
        header = _local(entry, fields.UTF8, fields.STORED, crc, len(text), False)
        self._directory.append(
            _central(entry, fields.UTF8, fields.STORED, crc, (len(text), len(text), offset))
        )
        return ended + self._count(header + text)

    def content(self, data: bytes) -> bytes:
        opened = self._open
        assert opened is not None, "content follows the entry of a file"
        opened.crc = zlib.crc32(data, opened.crc)
        opened.size += len(data)
        if opened.size > opened.entry.size:
            raise changed_meanwhile()
        return self._count(opened.take(opened.packer.compress(data)))

    def finish(self) -> bytes:
        ended = self._end_file()
        directory = b"".join(self._directory)
        return ended + directory + _end(len(self._directory), len(directory), self._offset)

    def _end_file(self) -> bytes:
        opened, self._open = self._open, None
        if opened is None:
            return b""
        if opened.size != opened.entry.size:
            raise changed_meanwhile()
        rest = opened.take(opened.packer.flush())
        form = "<4sL2Q" if opened.large else "<4s3L"
        described = struct.pack(
            form, fields.DESCRIPTOR_SIGNATURE, opened.crc, opened.packed, opened.size
        )
        flags = fields.UTF8 | fields.DESCRIBED_AFTER
        numbers = opened.size, opened.packed, opened.offset
        central = _central(opened.entry, flags, fields.DEFLATED, opened.crc, numbers)
        self._directory.append(central)
        return self._count(rest + described)

    def _count(self, data: bytes) -> bytes:
        self._offset += len(data)
        return data


def _name(entry: ArchiveEntry) -> bytes:
    return (entry.path + "/" if entry.kind == "directory" else entry.path).encode()


def _local(entry: ArchiveEntry, flags: int, method: int, crc: int, size: int, large: bool) -> bytes:
    name = _name(entry)
    extra = _time_field(entry)
    sizes = (size, size)
    if large:
        extra = struct.pack("<2H2Q", 1, 16, 0, 0) + extra
        sizes = (fields.FULL32, fields.FULL32)
    time, date = _dos(entry)
    header = fields.LOCAL.pack(
        fields.LOCAL_SIGNATURE, _VERSION_64 if large else _VERSION, 0, flags, method, time, date,
        crc, *sizes, len(name), len(extra),
    )  # fmt: skip
    return header + name + extra


def _central(
    entry: ArchiveEntry, flags: int, method: int, crc: int, numbers: tuple[int, int, int]
) -> bytes:
    """``numbers`` are size, packed size and offset; those that are too large go to a field."""
    name = _name(entry)
    extra = _time_field(entry)
    full = [value for value in numbers if value >= fields.FULL32]
    if full:
        extra = struct.pack(f"<2H{len(full)}Q", 1, 8 * len(full), *full) + extra
    size, packed, offset = (min(value, fields.FULL32) for value in numbers)
    version = _VERSION_64 if full else _VERSION
    default = 0o700 if entry.kind == "directory" else 0o600
    mode = _FORMATS[entry.kind] | (default if entry.mode is None else entry.mode & 0o777)
    attributes = mode << 16 | (_DOS_DIRECTORY if entry.kind == "directory" else 0)
    time, date = _dos(entry)
    header = fields.CENTRAL.pack(
        fields.CENTRAL_SIGNATURE, version, fields.UNIX, version, 0, flags, method, time, date, crc,
        packed, size, len(name), len(extra), 0, 0, 0, attributes, offset,
    )  # fmt: skip
    return header + name + extra


def _time_field(entry: ArchiveEntry) -> bytes:
    """The time in seconds, where 32 bits hold it."""
    seconds = (entry.mtime_ns or 0) // 10**9
    if not -(2**31) <= seconds < 2**31:
        return b""
    return struct.pack("<2HBl", 0x5455, 5, 1, seconds)


def _dos(entry: ArchiveEntry) -> tuple[int, int]:
    """The time and date as DOS has them: in steps of two seconds, from 1980 to 2107."""
    seconds = min(max((entry.mtime_ns or 0) // 10**9, _DOS_SECONDS_MIN), _DOS_SECONDS_MAX)
    days, rest = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    time = rest // 3_600 << 11 | rest % 3_600 // 60 << 5 | rest % 60 // 2
    return time, year - 1980 << 9 | month << 5 | day


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970."""
    year = 1970
    while days >= (length := 366 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 365):
        days -= length
        year += 1
    february = length - 337
    for month, size in enumerate((31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), 1):
        if days < size:
            return year, month, days + 1
        days -= size
    raise AssertionError("a year has no more days")


def _end(entries: int, size: int, offset: int) -> bytes:
    large = entries >= fields.FULL16 or size >= fields.FULL32 or offset >= fields.FULL32
    record = b""
    if large:
        record = fields.END64.pack(
            fields.END64_SIGNATURE, fields.END64.size - 12, _VERSION_64, _VERSION_64, 0, 0,
            entries, entries, size, offset,
        ) + fields.END64_LOCATOR.pack(
            fields.END64_LOCATOR_SIGNATURE, 0, offset + size, 1
        )  # fmt: skip
    count = min(entries, fields.FULL16)
    return record + fields.END.pack(
        fields.END_SIGNATURE, 0, 0, count, count, min(size, fields.FULL32),
        min(offset, fields.FULL32), 0,
    )  # fmt: skip
