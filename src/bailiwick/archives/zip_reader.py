"""Reading zip: by its directory, which must agree with what it leads to.

The entries must fill the archive up to the directory without a gap and without overlapping: the
bombs that unpack one piece of data a thousand times are made of entries that overlap, and what lies
in a gap is seen by programs that read from the beginning.
"""

from __future__ import annotations

import stat as stat_bits
import zlib
from typing import Final

from bailiwick.archives import zip_fields as fields
from bailiwick.archives.bounds import OVERHEAD_BYTES, OVERHEAD_ENTRY_BYTES, Bounds, Budget
from bailiwick.archives.catalogue import Catalogue
from bailiwick.archives.entries import (
    STEP_BYTES,
    ArchiveEntry,
    EntryKind,
    Need,
    Steps,
    damaged,
    refused,
    too_much,
)
from bailiwick.archives.names import decoded, entry_name
from bailiwick.archives.streams import FEED_BYTES
from bailiwick.errors import NotARegularFile, ParseError
from bailiwick.model import KiB

_RAW_WINDOW: Final = -15  # zlib's own word for: no header, the largest window

_ENTRY_BYTES_MAX: Final = fields.CENTRAL.size + 3 * 64 * KiB
_AHEAD_BYTES: Final = 256 * KiB
assert _AHEAD_BYTES > _ENTRY_BYTES_MAX

_ENTRIES_A_STEP: Final = 256
"""Entries of the directory taken apart in one step."""

_KINDS: Final[dict[int, EntryKind]] = {
    stat_bits.S_IFREG: "file", stat_bits.S_IFDIR: "directory", stat_bits.S_IFLNK: "symlink",
}  # fmt: skip


def _inflated(unpacker: zlib._Decompress, packed: bytes) -> bytes:
    """Some of what comes out, of what is left from before and what is new."""
    try:
        piece = unpacker.decompress(unpacker.unconsumed_tail + packed, STEP_BYTES)
    except zlib.error:
        raise damaged("its packed data is broken") from None
    if unpacker.unused_data or not (packed or piece or unpacker.eof):
        raise damaged("its packed data does not end where it should")
    return piece


class ZipReader:
    """One zip under way."""

    def __init__(self, size: int, bounds: Bounds, budget: Budget, catalogue: Catalogue) -> None:
        self._size = size
        self._bounds = bounds
        self._budget = budget
        self._catalogue = catalogue
        self._ahead = b""
        self._ahead_at = 0
        self.skipped: list[str] = []

    def entries(self) -> Steps[None]:
        """Every entry and its content, in the order in which they lie there."""
        directory = yield from self._find_directory()
        entries_max = self._bounds.entries_max
        if directory.entries > entries_max:
            raise too_much("entries", entries_max)
        if directory.size > entries_max * OVERHEAD_ENTRY_BYTES + OVERHEAD_BYTES:
            raise too_much("bytes in its directory", entries_max * OVERHEAD_ENTRY_BYTES)
        found = yield from self._read_directory(directory)
        found.sort(key=lambda central: central.offset)
        # An entry ends where the next one begins; the first one begins the archive.
        borders = [*(central.offset for central in found), directory.offset]
        if borders[0] != 0:
            raise damaged("something stands before its first entry")
        for number, (central, end) in enumerate(zip(found, borders[1:], strict=True), 1):
            yield from self._entry(central, end, number)

    # --- the directory ------------------------------------------------------------------------

    def _find_directory(self) -> Steps[fields.ZipDirectory]:
        length = min(self._size, fields.TAIL_BYTES_MAX)
        tail = yield from self._read(self._size - length, length)
        end, record = fields.find_end(tail, self._size)
        at = end - fields.END64_LOCATOR.size
        locator = b""
        if at >= 0:
            locator = yield from self._read(at, fields.END64_LOCATOR.size)
        directory, at64 = fields.directory_of(record, end, locator)
        if at64 is not None:
            record = yield from self._read(at64, fields.END64.size)
            directory = fields.directory64_of(record, at64, directory)
        return directory

    def _read_directory(self, directory: fields.ZipDirectory) -> Steps[list[fields.Central]]:
        found: list[fields.Central] = []
        at, end = directory.offset, directory.offset + directory.size
        while at < end:
            fixed = yield from self._read(at, fields.CENTRAL.size)
            lengths = fields.central_lengths(fixed)
            length = fields.CENTRAL.size + sum(lengths)
            if at + length > end or len(found) >= directory.entries:
                raise damaged("its directory is broken")
            rest = yield from self._read(at + fields.CENTRAL.size, sum(lengths))
            name, extra = rest[: lengths[0]], rest[lengths[0] : lengths[0] + lengths[1]]
            found.append(fields.central_of(fixed, name, extra, length))
            at += length
            if len(found) % _ENTRIES_A_STEP == 0:
                yield b""
        if len(found) != directory.entries:
            raise damaged("its directory is broken")
        return found

    def _read(self, offset: int, length: int) -> Steps[bytes]:
        """A range, mostly out of what was read ahead."""
        start = offset - self._ahead_at
        if start < 0 or start + length > len(self._ahead):
            wanted = min(max(length, _AHEAD_BYTES), self._size - offset)
            if offset < 0 or wanted < length:
                raise damaged("it says that something lies after its end")
            self._ahead, self._ahead_at, start = (yield Need(offset, wanted)), offset, 0
            if len(self._ahead) != wanted:
                raise damaged("it became shorter while it was read")
        return self._ahead[start : start + length]

    # --- entries ------------------------------------------------------------------------------

    def _entry(self, central: fields.Central, end: int, number: int) -> Steps[None]:
        start = yield from self._content_start(central)
        after = start + central.packed
        described = bool(central.flags & fields.DESCRIBED_AFTER)
        if after > end or (after != end and not described):
            raise damaged("two entries overlap, or something lies between them")
        if after != end:
            if end - after > 24:
                raise damaged("something lies between two entries")
            descriptor = yield from self._read(after, end - after)
            if not fields.descriptor_fits(descriptor, central):
                raise damaged("an entry and the directory differ")
        entry = self._described(central, number)
        if entry is None:
            return
        if entry.kind == "symlink":
            text = yield from self._link_text(central, start)
            entry = entry._replace(size=0, target=decoded(text, number))
            yield self._catalogue.add(entry, number)
            return
        yield self._catalogue.add(entry, number)
        yield from self._content(central, start)

    def _content_start(self, central: fields.Central) -> Steps[int]:
        record = yield from self._read(central.offset, fields.LOCAL.size)
        name_length, extra_length = fields.local_lengths(record)
        at = central.offset + fields.LOCAL.size
        rest = yield from self._read(at, name_length + extra_length)
        fields.check_local(record, rest[:name_length], rest[name_length:], central)
        return at + name_length + extra_length

    def _described(self, central: fields.Central, number: int) -> ArchiveEntry | None:
        text = decoded(central.name, number)
        portable = self._bounds.names == "portable"
        name = entry_name(text, number, depth_max=self._bounds.depth_max, portable=portable)
        mode = central.attributes >> 16 if central.system == fields.UNIX else 0
        kind: EntryKind | None = "directory" if name.is_directory else "file"
        if stat_bits.S_IFMT(mode):
            kind = _KINDS.get(stat_bits.S_IFMT(mode))
            if kind is None:
                raise refused(NotARegularFile, number, text, "is a device, a FIFO or a socket")
        if (kind == "directory") != name.is_directory:
            raise refused(ParseError, number, text, "is called a directory and is none, or is one")
        if kind == "directory" and (central.size or central.packed):
            raise refused(ParseError, number, text, "is no file and has content all the same")
        if name.path == ".":
            self.skipped.append(text)
            return None
        assert kind is not None
        return ArchiveEntry(
            name.path, kind, central.size, mode & 0o777 if mode else None, central.mtime_s * 10**9
        )

    def _link_text(self, central: fields.Central, start: int) -> Steps[bytes]:
        limit = self._bounds.link_text_bytes_max
        if central.size > limit:
            raise damaged(f"the text of a link is longer than {limit} bytes")
        content = self._content(central, start)
        text, event = b"", next(content, None)
        while event is not None:
            try:
                if isinstance(event, bytes):
                    text += event
                    event = content.send(b"")
                else:
                    event = content.send((yield event))
            except StopIteration:
                break
        return text

    def _content(self, central: fields.Central, start: int) -> Steps[None]:
        """The content, counted and compared with what the directory says of it."""
        unpacker = zlib.decompressobj(_RAW_WINDOW) if central.method == fields.DEFLATED else None
        at, end, crc, size = start, start + central.packed, 0, 0
        if unpacker is None and central.packed != central.size:
            raise damaged("a file has two sizes")
        while at < end or (unpacker is not None and not unpacker.eof):
            packed = b""
            if unpacker is None or not unpacker.unconsumed_tail:
                packed = yield from self._read(at, min(FEED_BYTES, end - at))
                at += len(packed)
            piece = packed if unpacker is None else _inflated(unpacker, packed)
            size += len(piece)
            self._budget.unpacked(len(packed), len(piece))
            if size > central.size:
                break
            crc = zlib.crc32(piece, crc)
            yield piece
        if size != central.size or crc != central.crc:
            raise damaged("a file is not what the directory says")
