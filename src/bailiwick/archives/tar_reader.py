"""Reading tar: POSIX ustar and pax, the long names of GNU, and the bare headers of V7.

Strict where programs differ: a size that is said twice in different ways, a directory with content,
a header with an override for everything that follows, a name that goes on after its NUL. What is
neither file, directory nor link is refused, and so are sparse files and parts of volumes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bailiwick.archives.bounds import OVERHEAD_BYTES, Bounds
from bailiwick.archives.catalogue import Catalogue
from bailiwick.archives.entries import ArchiveEntry, EntryKind, Steps, damaged, refused, too_much
from bailiwick.archives.names import decoded, entry_name
from bailiwick.archives.streams import Exactly, Stream
from bailiwick.errors import NotARegularFile, ParseError, Unsupported
from bailiwick.model import KiB

BLOCK: Final = 512

EXTENSION_BYTES_MAX: Final = 64 * KiB
"""A name and a link of 4 KiB each, and what programs note besides (extended attributes)."""

EXTENSIONS_AN_ENTRY: Final = 4
"""Headers that may stand before one entry: a long name, a long link, a pax header, a global one."""

_TIME_NS_MAX: Final = 2**63 - 1

_OCTAL = re.compile(rb"[ ]*([0-7]*)[ \0]*").fullmatch
_RECORD = re.compile(rb"([1-9][0-9]{0,5}) ").match
_DECIMAL_TIME = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{0,100}))?").fullmatch

_OTHER_KINDS: Final = {
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a FIFO",
    b"D": "a dump of a directory",
    b"M": "a part of another volume",
    b"V": "a volume's name",
}

_KINDS: Final[dict[bytes, EntryKind]] = {
    b"0": "file", b"\0": "file", b"1": "copy", b"2": "symlink", b"5": "directory", b"7": "file",
}  # fmt: skip
"""What is contiguous (7) is a file wherever there is no such thing, as POSIX has it (pax)."""

_SPARSE: Final = "the archive holds sparse files"

_DECIDING: Final = {"path", "linkpath", "size"}
"""Keys of a pax header that decide what an entry is: said once, and for one entry."""


def looks_like_header(block: bytes) -> bool:
    """Whether 512 bytes begin a tar: their checksum is right, and they are not all zero."""
    return len(block) == BLOCK and block != bytes(BLOCK) and _checksum_fits(block)


def _checksum_fits(block: bytes) -> bool:
    found = _OCTAL(block[148:156])
    if found is None or not found[1]:
        return False
    return int(found[1], 8) == sum(block[:148]) + 8 * 0x20 + sum(block[156:])


class _Header(NamedTuple):
    """One block, taken apart."""

    type: bytes
    name: bytes
    link: bytes
    size: int
    mode: int
    mtime_s: int


class _Extensions(NamedTuple):
    """What earlier blocks say of the next entry."""

    name: bytes | None = None
    link: bytes | None = None
    size: int | None = None
    mtime_ns: int | None = None


class TarReader:
    """One tar under way."""

    def __init__(self, stream: Stream, bounds: Bounds, catalogue: Catalogue) -> None:
        self._bytes = Exactly(stream)
        self._bounds = bounds
        self._catalogue = catalogue
        self._number = 0
        self._extensions = 0
        self.skipped: list[str] = []

    def entries(self) -> Steps[None]:
        """Every entry and its content, in the order in which they stand there."""
        extensions = _Extensions()
        while True:
            block = yield from self._bytes.block(BLOCK)
            if len(block) < BLOCK:
                raise damaged("its end is missing")
            if block == bytes(BLOCK):
                if extensions != _Extensions():
                    raise damaged("a header stands before nothing")
                yield from self._end()
                return
            if not _checksum_fits(block):
                raise damaged("a header has a wrong checksum")
            header = _parse(block)
            if header.type in b"xgLK":
                extensions = yield from self._extend(header, extensions)
                continue
            self._number += 1
            yield from self._entry(header, extensions)
            extensions = _Extensions()

    def _end(self) -> Steps[None]:
        """At least two blocks of zeros, and nothing else to the end."""
        second = yield from self._bytes.block(BLOCK)
        if second != bytes(BLOCK):
            raise damaged("its end is missing")
        padding = 0
        while rest := (yield from self._bytes.rest()):
            padding += len(rest)
            if rest.count(0) != len(rest) or padding > OVERHEAD_BYTES:
                raise damaged("something follows after its end")
            yield b""

    # --- headers before headers ---------------------------------------------------------------

    def _extend(self, header: _Header, before: _Extensions) -> Steps[_Extensions]:
        if not 0 < header.size <= EXTENSION_BYTES_MAX:
            raise damaged("a header for a long name is empty or too long")
        self._extensions += 1
        if self._extensions > EXTENSIONS_AN_ENTRY * self._bounds.entries_max:
            raise too_much("entries", self._bounds.entries_max)
        data = yield from self._bytes.block(_padded(header.size))
        if len(data) < header.size:
            raise damaged("it ends in the middle of a header")
        data = data[: header.size]
        if header.type == b"L":
            return _said_once(before, _Extensions(name=_before_nul(data)))
        if header.type == b"K":
            return _said_once(before, _Extensions(link=_before_nul(data)))
        records = _records(data)
        if header.type == b"g":
            if _DECIDING & records.keys():
                raise damaged("a header claims names or sizes for everything that follows")
            return before
        return _said_once(before, _extensions_of(records))

    # --- entries ------------------------------------------------------------------------------

    def _entry(self, header: _Header, extensions: _Extensions) -> Steps[None]:
        number = self._number
        raw = header.name if extensions.name is None else extensions.name
        text = decoded(raw, number)
        kind = _KINDS.get(header.type)
        if header.type == b"S":
            raise Unsupported(_SPARSE, details={"entry": number})
        if kind is None:
            what = _OTHER_KINDS.get(header.type, "of a kind that is not known")
            raise refused(NotARegularFile, number, text, f"is {what}")
        portable = self._bounds.names == "portable"
        name = entry_name(text, number, depth_max=self._bounds.depth_max, portable=portable)
        if name.is_directory and kind != "directory":
            if header.type != b"\0":
                raise refused(ParseError, number, text, "is called a directory and is none")
            kind = "directory"  # before POSIX there was no other way to say so
        size = _size_of(header, extensions, number, text)
        if kind != "file" and size:
            raise refused(ParseError, number, text, "is no file and has content all the same")
        if name.path == ".":
            if kind != "directory":
                raise refused(ParseError, number, text, "has no name of its own")
            self.skipped.append(text)
            return
        entry = ArchiveEntry(
            name.path, kind, size, header.mode & 0o777, _time_of(header, extensions),
            self._target(kind, header, extensions),
        )  # fmt: skip
        yield self._catalogue.add(entry, number)
        yield from self._bytes.content(size)
        padding = _padded(size) - size
        if padding and len((yield from self._bytes.block(padding))) < padding:
            raise damaged("it ends in the middle of an entry")

    def _target(self, kind: EntryKind, header: _Header, extensions: _Extensions) -> str:
        raw = header.link if extensions.link is None else extensions.link
        if kind == "symlink":
            return decoded(raw, self._number)
        if kind != "copy":
            return ""
        portable = self._bounds.names == "portable"
        text = decoded(raw, self._number)
        depth_max = self._bounds.depth_max
        return entry_name(text, self._number, depth_max=depth_max, portable=portable).path


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _parse(block: bytes) -> _Header:
    kind = block[156:157]
    name = _before_nul(block[:100])
    if block[257:263] == b"ustar\0":
        prefix = _before_nul(block[345:500])
        name = prefix + b"/" + name if prefix else name
    elif block[257:262] not in (b"ustar", bytes(5)):
        raise damaged("a header is of no known kind")
    mode = _number(block[100:108], "mode")
    return _Header(
        kind, name, _before_nul(block[157:257]), _number(block[124:136], "size"),
        mode, _number(block[136:148], "time", signed=True),
    )  # fmt: skip


def _before_nul(field: bytes) -> bytes:
    """A text that ends at its NUL. Something after it would be seen by some programs only."""
    text, _, rest = field.partition(b"\0")
    if rest.strip(b"\0"):
        raise damaged("a name goes on after its end")
    return text


def _number(field: bytes, what: str, signed: bool = False) -> int:
    """Octal digits, or as GNU has it for what is too large: a marked binary number."""
    if field[0] in (0x80, 0xFF):
        value = (
            int.from_bytes(field, signed=True) if field[0] == 0xFF else int.from_bytes(field[1:])
        )
        if value < 0 and not signed:
            raise damaged(f"a {what} is negative")
        return value
    found = _OCTAL(field)
    if found is None:
        raise damaged(f"a {what} is not a number")
    return int(found[1] or b"0", 8)


def _records(data: bytes) -> dict[str, bytes]:
    """The records of a pax header: each says its own length, a key and a value."""
    records: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        found = _RECORD(data, at)
        end = at + int(found[1]) if found else 0
        if found is None or end > len(data) or end <= found.end() or data[end - 1] != 0x0A:
            raise damaged("a pax header cannot be read")
        raw_key, equals, value = data[found.end() : end - 1].partition(b"=")
        try:
            key = raw_key.decode()
        except UnicodeDecodeError:
            raise damaged("a pax header cannot be read") from None
        if not equals or not key or (key in records and key in _DECIDING):
            raise damaged("a pax header says the same thing twice, or nothing")
        if key.startswith("GNU.sparse."):
            raise Unsupported(_SPARSE, details={"key": key[:40]})
        if key == "hdrcharset" and value != b"ISO-IR 10646 2000 UTF-8":
            raise Unsupported("the archive holds names that are not UTF-8")
        records[key] = value
        at = end
    return records


def _extensions_of(records: dict[str, bytes]) -> _Extensions:
    size = records.get("size")
    if size is not None and not (size.isdigit() and len(size) <= 19):
        raise damaged("a pax header holds a size that is none")
    names = {key: records.get(key) for key in ("path", "linkpath")}
    for value in names.values():
        if value is not None and b"\0" in value:
            raise damaged("a name holds a NUL")
    mtime = records.get("mtime")
    return _Extensions(
        names["path"], names["linkpath"], None if size is None else int(size),
        None if mtime is None else _decimal_time(mtime),
    )  # fmt: skip


def _said_once(before: _Extensions, more: _Extensions) -> _Extensions:
    """Join two headers for one entry, which may not both speak of the same thing."""
    if any(a is not None and b is not None for a, b in zip(before, more, strict=True)):
        raise damaged("two headers speak of one entry and differ")
    said = {key: value for key, value in more._asdict().items() if value is not None}
    return before._replace(**said)


def _decimal_time(value: bytes) -> int:
    found = _DECIMAL_TIME(value.decode(errors="replace"))
    if found is None:
        raise damaged("a time is not a number")
    fraction = (found[3] or "")[:9].ljust(9, "0")
    time_ns = int(found[2]) * 10**9 + int(fraction)
    return _checked_time(-time_ns if found[1] else time_ns)


def _checked_time(time_ns: int) -> int:
    if not -_TIME_NS_MAX <= time_ns <= _TIME_NS_MAX:
        raise damaged("a time is out of all bounds")
    return time_ns


def _time_of(header: _Header, extensions: _Extensions) -> int:
    if extensions.mtime_ns is not None:
        return extensions.mtime_ns
    return _checked_time(header.mtime_s * 10**9)


_OCTAL_SIZE_MAX: Final = 0o77777777777


def _size_of(header: _Header, extensions: _Extensions, number: int, name: str) -> int:
    """How long the content is. Only a size that no header can hold may be said elsewhere alone."""
    if extensions.size is None or extensions.size == header.size:
        return header.size
    if header.size == 0 and extensions.size > _OCTAL_SIZE_MAX:
        return extensions.size
    raise refused(ParseError, number, name, "has two sizes")
