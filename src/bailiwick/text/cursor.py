"""The opaque text that continues a window of lines.

A cursor is a convenience, not a credential: it says where to go on in a file that the caller may
read anyway. It is checked for shape here. That the file is still the same version is the caller's
comparison; and if it is not, that what lies before the cursor is still the same, for which the
cursor has checksums. CRC-32, because it goes on from page to page without reading anything twice.
"""

from __future__ import annotations

import base64
import zlib
from typing import Annotated

import msgspec

from bailiwick.errors import InternalError, ParseError
from bailiwick.model import Value
from bailiwick.text.codec import canonical_encoding, code_unit_bytes

# What clients of the HTTP file routes accept.
CURSOR_CHARACTERS_MAX = 1024

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Line = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_Checksum = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class LinePosition(Value, frozen=True, array_like=True):
    """A place in a text file from which lines can be read.

    ``offset`` counts bytes from the start of the file, mark included. ``line`` is None where nobody
    has counted the lines before it (a tail of a large file). ``inside_line`` says that the page
    before ended inside this line, so that this one joins it without a newline.
    """

    offset: _Offset
    line: _Line | None
    inside_line: bool
    encoding: str
    bom: bool


class Seen(Value, frozen=True, array_like=True):
    """What lies before a position, as far as it was read, by checksum.

    Of the bytes from ``start`` on the first, and where those are not all that were read, the last
    ones before the position too.
    """

    start: _Offset
    first_bytes: _Offset = 0
    first_checksum: _Checksum = 0
    last_bytes: _Offset = 0
    last_checksum: _Checksum = 0

    def then(self, data: bytes, most: int, *, skipped: bool = False) -> Seen:
        """What was seen, and what was read next: ``most`` bytes of either kind. What is only
        skipped over is no page before a position."""
        if not data:
            return self
        room = 0 if self.last_bytes else max(most - self.first_bytes, 0)
        first, last = data[:room], b"" if skipped else data[room:][-most:]
        return Seen(
            self.start,
            self.first_bytes + len(first),
            zlib.crc32(first, self.first_checksum) if first else self.first_checksum,
            len(last) or self.last_bytes,
            zlib.crc32(last) if last else self.last_checksum,
        )


class LineCursor(Value, frozen=True, array_like=True, tag="lines"):
    """A position, the version of the file it belongs to, and what lay before it there."""

    version: str
    position: LinePosition
    seen: Seen | None = None


_decoder = msgspec.json.Decoder(LineCursor)


def encode_cursor(version: str, position: LinePosition, seen: Seen | None = None) -> str:
    """Return the cursor for a position: at most 1024 characters, safe in a URL.

    One that says nothing of what was ``seen`` belongs to this version of the file only.
    """
    packed = msgspec.json.encode(LineCursor(version, position, seen))
    text = base64.urlsafe_b64encode(packed).rstrip(b"=").decode("ascii")
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise InternalError("the version of the file is too long for a cursor")
    return text


def decode_cursor(text: str) -> LineCursor:
    """Return what a cursor says. ParseError for anything `encode_cursor` cannot have made.

    The caller compares ``version`` with the file's, and if that is another, what was ``seen``: if
    that has changed too, it is `hash_mismatch`.
    """
    if len(text) > CURSOR_CHARACTERS_MAX or not text.isascii():
        raise _malformed()
    try:
        padded = text + "=" * (-len(text) % 4)
        cursor = _decoder.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, msgspec.MsgspecError):
        raise _malformed() from None
    position = cursor.position
    if canonical_encoding(position.encoding) != position.encoding:
        raise _malformed()
    if position.encoding in ("utf-8-sig", "utf-16", "utf-32"):
        raise _malformed()
    if position.offset % code_unit_bytes(position.encoding):
        raise _malformed()
    if cursor.seen is not None and not _reaches(cursor.seen, position.offset):
        raise _malformed()
    return cursor


def _reaches(seen: Seen, offset: int) -> bool:
    end = seen.start + seen.first_bytes
    return end == offset if not seen.last_bytes else end + seen.last_bytes <= offset


def check_bounded(seen: Seen, most: int) -> None:
    """Raise ParseError for more than `Seen.then` can have taken, which would be long to compare."""
    if max(seen.first_bytes, seen.last_bytes) > most:
        raise _malformed()


def _malformed() -> ParseError:
    return ParseError(
        "the cursor is malformed", hint="pass next_cursor of the page before, unchanged"
    )
