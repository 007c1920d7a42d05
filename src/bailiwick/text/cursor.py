"""The opaque text that continues a window of lines.

A cursor is a convenience, not a credential: it says where to go on in a file that the caller may
read anyway. It is checked for shape here; that the file is still the same version is the caller's
comparison.
"""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec

from bailiwick.errors import InternalError, ParseError
from bailiwick.model import Value
from bailiwick.text.codec import canonical_encoding, code_unit_bytes

# What clients of the HTTP file routes accept.
CURSOR_CHARACTERS_MAX = 1024

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Line = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Position(Value, frozen=True, array_like=True):
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


class Cursor(Value, frozen=True, array_like=True, tag="lines"):
    """A position and the version of the file it belongs to."""

    version: str
    position: Position


_decoder = msgspec.json.Decoder(Cursor)


def encode_cursor(version: str, position: Position) -> str:
    """Return the cursor for a position: at most 1024 characters, safe in a URL."""
    packed = msgspec.json.encode(Cursor(version, position))
    text = base64.urlsafe_b64encode(packed).rstrip(b"=").decode("ascii")
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise InternalError("the version of the file is too long for a cursor")
    return text


def decode_cursor(text: str) -> Cursor:
    """Return what a cursor says. ParseError for anything `encode_cursor` cannot have made.

    The caller compares ``version`` with the file's: another one is `hash_mismatch`.
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
    return cursor


def _malformed() -> ParseError:
    return ParseError(
        "the cursor is malformed", hint="pass next_cursor of the page before, unchanged"
    )
