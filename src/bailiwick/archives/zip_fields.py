"""The records of a zip, taken apart: where entries lie, and what is said of each."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from bailiwick.archives.entries import damaged
from bailiwick.errors import Unsupported

END: Final = struct.Struct("<4s4H2LH")
END64_LOCATOR: Final = struct.Struct("<4sLQL")
END64: Final = struct.Struct("<4sQ2H2L4Q")
CENTRAL: Final = struct.Struct("<4s4B4HL2L5H2L")
LOCAL: Final = struct.Struct("<4s2B4HL2L2H")

END_SIGNATURE: Final = b"PK\5\6"
END64_LOCATOR_SIGNATURE: Final = b"PK\6\7"
END64_SIGNATURE: Final = b"PK\6\6"
CENTRAL_SIGNATURE: Final = b"PK\1\2"
LOCAL_SIGNATURE: Final = b"PK\3\4"
DESCRIPTOR_SIGNATURE: Final = b"PK\7\x08"

COMMENT_BYTES_MAX: Final = 0xFFFF
TAIL_BYTES_MAX: Final = END.size + COMMENT_BYTES_MAX + END64_LOCATOR.size
"""How far from its end a zip says where its directory is."""

FULL16: Final = 0xFFFF
FULL32: Final = 0xFFFFFFFF
"""A field with this value says: look in the 64-bit record."""

ENCRYPTED: Final = 0x0001
DESCRIBED_AFTER: Final = 0x0008
UTF8: Final = 0x0800
_REFUSED_FLAGS: Final = {
    ENCRYPTED: "encrypted", 0x0020: "patched", 0x0040: "encrypted", 0x2000: "masked",
}  # fmt: skip

STORED: Final = 0
DEFLATED: Final = 8

_EXTRA_64: Final = 0x0001
_EXTRA_TIME: Final = 0x5455
_EXTRA_UNICODE_NAME: Final = 0x7075

UNIX: Final = 3


class ZipDirectory(NamedTuple):
    """Where the central directory lies and how many entries it has."""

    offset: int
    size: int
    entries: int


class Central(NamedTuple):
    """What the central directory says of one entry."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    system: int
    attributes: int
    mtime_s: int
    length: int
    """How long this record is."""


def find_end(tail: bytes, size: int) -> tuple[int, bytes]:
    """The last record, which must fit exactly to the end, and where it lies.

    A comment may hold something that looks like another such record: then programs differ on what
    the archive holds, and it is refused.
    """
    found: list[int] = []
    at = tail.rfind(END_SIGNATURE)
    while at >= 0:
        if at + END.size <= len(tail):
            comment = int.from_bytes(tail[at + 20 : at + 22], "little")
            if at + END.size + comment == len(tail):
                found.append(at)
        at = tail.rfind(END_SIGNATURE, 0, at + 3) if at else -1
    if len(found) != 1:
        raise damaged("its end is missing, or there is more than one")
    return size - len(tail) + found[0], tail[found[0] : found[0] + END.size]


def directory_of(record: bytes, end: int, locator: bytes) -> tuple[ZipDirectory, int | None]:
    """What the last record says, and where the 64-bit one lies if there is one."""
    _, disk, first, here, total, size, offset, _ = END.unpack(record)
    if disk or first or here != total:
        raise Unsupported("the archive is split over several files")
    if locator[:4] != END64_LOCATOR_SIGNATURE:
        if FULL16 in (here, total) or FULL32 in (size, offset):
            raise damaged("a record for large archives is missing")
        if offset + size != end:
            raise damaged("its directory does not end where it should")
        return ZipDirectory(offset, size, total), None
    _, disk, at, disks = END64_LOCATOR.unpack(locator)
    if disk or disks != 1:
        raise Unsupported("the archive is split over several files")
    if at + END64.size != end - END64_LOCATOR.size:
        raise damaged("its directory does not end where it should")
    return ZipDirectory(offset, size, total), at


def directory64_of(record: bytes, at: int, short: ZipDirectory) -> ZipDirectory:
    """Where the directory lies by the 64-bit record, which may not contradict the short one."""
    if len(record) != END64.size or record[:4] != END64_SIGNATURE:
        raise damaged("a record for large archives is missing")
    _, length, _, _, disk, first, here, total, size, offset = END64.unpack(record)
    if length != END64.size - 12 or disk or first or here != total or offset + size != at:
        raise damaged("the record for large archives is wrong")
    if (
        short.entries not in (FULL16, total)
        or short.size not in (FULL32, size)
        or short.offset not in (FULL32, offset)
    ):
        raise damaged("two records differ on where its directory is")
    return ZipDirectory(offset, size, total)


def central_lengths(fixed: bytes) -> tuple[int, int, int]:
    """How long the name, the extra fields and the comment after a central record are."""
    if len(fixed) != CENTRAL.size or fixed[:4] != CENTRAL_SIGNATURE:
        raise damaged("its directory is broken")
    lengths = CENTRAL.unpack(fixed)[12:15]
    return lengths[0], lengths[1], lengths[2]


def local_lengths(record: bytes) -> tuple[int, int]:
    """How long the name and the extra fields after a local record are."""
    lengths = LOCAL.unpack(record)[-2:]
    return lengths[0], lengths[1]


def central_of(fixed: bytes, name: bytes, extra: bytes, length: int) -> Central:
    (
        _, _, system, _, _, flags, method, time, date, crc, packed, size, _, _, _, disk, _,
        attributes, offset,
    ) = CENTRAL.unpack(fixed)  # fmt: skip
    fields = _extra_fields(extra)
    if disk == FULL16 or disk:
        raise Unsupported("the archive is split over several files")
    size, packed, offset = _large(fields.get(_EXTRA_64, b""), (size, packed, offset))
    check_flags(flags, method)
    _check_other_name(fields.get(_EXTRA_UNICODE_NAME), name)
    mtime_s = _extra_time(fields.get(_EXTRA_TIME))
    if mtime_s is None:
        mtime_s = dos_time(date, time)
    return Central(
        name, flags, method, crc, packed, size, offset, system, attributes, mtime_s, length
    )


def check_flags(flags: int, method: int) -> None:
    for flag, what in _REFUSED_FLAGS.items():
        if flags & flag:
            raise Unsupported(f"the archive holds {what} entries")
    if method not in (STORED, DEFLATED):
        raise Unsupported(f"the archive holds entries packed in another way ({method})")


def check_local(record: bytes, name: bytes, extra: bytes, central: Central) -> None:
    """What stands before the content must say the same as the directory."""
    if len(record) != LOCAL.size or record[:4] != LOCAL_SIGNATURE:
        raise damaged("an entry is not where the directory says")
    _, _, _, flags, method, _, _, crc, packed, size, _, _ = LOCAL.unpack(record)
    if (name, flags, method) != (central.name, central.flags, central.method):
        raise damaged("an entry and the directory differ")
    fields = _extra_fields(extra)
    _check_other_name(fields.get(_EXTRA_UNICODE_NAME), name)
    size, packed, _ = _large(fields.get(_EXTRA_64, b""), (size, packed, 0), both=True)
    said, known = (crc, packed, size), (central.crc, central.packed, central.size)
    if said != known and not (flags & DESCRIBED_AFTER and said == (0, 0, 0)):
        raise damaged("an entry and the directory differ")


def descriptor_fits(record: bytes, central: Central) -> bool:
    """Whether what stands after the content is what the directory says, in one of four forms."""
    record = record.removeprefix(DESCRIPTOR_SIGNATURE) if len(record) in (16, 24) else record
    form = {12: "<3L", 20: "<L2Q"}.get(len(record))
    return form is not None and struct.unpack(form, record) == (
        central.crc, central.packed, central.size,
    )  # fmt: skip


def dos_time(date: int, time: int) -> int:
    """Seconds since 1970 of a DOS date and time, which has no zone: taken as UTC."""
    year, month, day = 1980 + (date >> 9), date >> 5 & 15, date & 31
    hour, minute, second = time >> 11, time >> 5 & 63, (time & 31) * 2
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        return 315_532_800  # 1980 began: what writers without a clock leave there is no date
    return _days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970, counted from March so that a leap day comes last."""
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return (
        365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469
    )


def _extra_fields(extra: bytes) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if at + 4 + length > len(extra):
            raise damaged("an extra field is broken")
        if kind in fields and kind in (_EXTRA_64, _EXTRA_UNICODE_NAME):
            raise damaged("an extra field is there twice")
        fields[kind] = extra[at + 4 : at + 4 + length]
        at += 4 + length
    if extra[at:].strip(b"\0"):
        raise damaged("an extra field is broken")
    return fields


def _large(field: bytes, values: tuple[int, int, int], both: bool = False) -> tuple[int, int, int]:
    """Size, packed size and offset; those that are full stand in the 64-bit field, in this order.

    ``both``: in a local header the field holds both sizes or is not there.
    """
    found: list[int] = []
    at = 0
    for value in values:
        if value == FULL32:
            if at + 8 > len(field):
                raise damaged("a size of a large entry is missing")
            found.append(int.from_bytes(field[at : at + 8], "little"))
            at += 8
        else:
            found.append(value)
            # Writers that do not know yet how large it becomes write zeros, here and there.
            at += 8 if both and len(field) == 16 and value == 0 else 0
    return found[0], found[1], found[2]


def _check_other_name(field: bytes | None, name: bytes) -> None:
    """Some programs go by a second name in an extra field: it must be the same."""
    if field is not None and field[5:] != name:
        raise damaged("an entry has two names")


def _extra_time(field: bytes | None) -> int | None:
    if field is None or len(field) < 5 or not field[0] & 1:
        return None
    return int.from_bytes(field[1:5], "little", signed=True)
