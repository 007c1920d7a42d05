"""Bytes to text and back, exactly or not at all.

Guarantees: no byte is ever replaced, guessed or dropped. What does not decode strictly is
`binary_file`; what does not encode strictly is `parse_error`. The byte order mark is never part of
the text; it is reported beside it and put back when asked.
"""

from __future__ import annotations

import codecs
import encodings
import encodings.aliases
import re
from functools import lru_cache

from bailiwick.errors import BinaryFile, ParseError, escape_for_display
from bailiwick.model import LineEnding, Value
from bailiwick.text.sniff import (
    BYTE_ORDER_MARKS,
    TEXT_PROBE_BYTES,
    byte_order_mark,
    has_binary_bytes,
    unmarked_utf_16,
)

# Python's own modules for encodings of text in which a line feed is always the same bytes and no
# state is carried from one character to the next, so that a file can be read from the middle.
# Left out on purpose: codecs that are not encodings of characters (rot13, base64, hex, zlib, idna,
# punycode, unicode_escape …), that depend on the machine (mbcs, oem), or that carry state (utf-7,
# hz, iso2022). Checked before Python's codec machinery sees the name, which may import modules.
_ALLOWED_MODULES = """
    ascii latin_1 iso8859_1 utf_8 utf_8_sig utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be
    big5 big5hkscs gb2312 gbk gb18030 euc_jp euc_jis_2004 euc_jisx0213 euc_kr johab
    shift_jis shift_jis_2004 shift_jisx0213 cp932 cp949 cp950
    cp037 cp273 cp424 cp437 cp500 cp720 cp737 cp775 cp850 cp852 cp855 cp856 cp857 cp858 cp860
    cp861 cp862 cp863 cp864 cp865 cp866 cp869 cp874 cp875 cp1006 cp1026 cp1125 cp1140 cp1250
    cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258
    iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9 iso8859_10
    iso8859_11 iso8859_13 iso8859_14 iso8859_15 iso8859_16
    hp_roman8 koi8_r koi8_t koi8_u kz1048 palmos ptcp154 tis_620
    mac_arabic mac_croatian mac_cyrillic mac_farsi mac_greek mac_iceland mac_latin2 mac_roman
    mac_romanian mac_turkish
"""
_ALLOWED = frozenset(_ALLOWED_MODULES.split())
_NAME_CHARACTERS_MAX = 64
# Python's own normalising would quietly drop whatever else stands in a name.
_is_name = re.compile(r"[A-Za-z0-9]+(?:[-_ .:][A-Za-z0-9]+)*").fullmatch
_OTHER_SPELLINGS = {"iso8859-1": "latin-1"}

_CARRIAGE_RETURN = ord("\r")
_LINE_FEED = ord("\n")

_NAME_THE_ENCODING = "name the encoding, for example encoding='latin-1', or read it as bytes"


class Decoded(Value, frozen=True):
    """A file's text without its byte order mark, and what is needed to write it back."""

    text: str
    encoding: str
    bom: bool


class TextForm(Value, frozen=True):
    """How a text file is stored. ``line_ending`` mixed or none: lines are stored as given."""

    encoding: str = "utf-8"
    bom: bool = False
    line_ending: LineEnding = "none"


@lru_cache(maxsize=256)
def canonical_encoding(name: str) -> str:
    """Return the one name of an encoding: "utf-8", "utf-16-le", "latin-1", "cp1252" …

    "utf-8-sig", "utf-16" and "utf-32" stay as they are: they say something of the byte order mark.
    Raises ParseError for a name that is not an encoding of text, or not one supported here.
    """
    if len(name) <= _NAME_CHARACTERS_MAX and _is_name(name):
        module = encodings.normalize_encoding(name).lower()
        module = encodings.aliases.aliases.get(module, module)
        if module in _ALLOWED:
            found = codecs.lookup(module).name
            return _OTHER_SPELLINGS.get(found, found)
    raise ParseError(
        f"unknown or unsupported text encoding: {escape_for_display(name[:_NAME_CHARACTERS_MAX])}",
        hint="use a name such as utf-8, utf-16, latin-1 or cp1252",
    )


def decode(data: bytes, encoding: str | None = None) -> Decoded:
    """Decode a whole file strictly.

    Without ``encoding``: by the byte order mark, else UTF-8. With it: only if encoding the text
    again gives the same bytes. Raises BinaryFile otherwise, also for what looks binary
    (see `detect`), and ParseError for an unknown encoding. Never substitutes a character.
    """
    if encoding is None and data.isascii():
        # No mark is ASCII, and ASCII is UTF-8: most files need nothing else.
        if has_binary_bytes(data[:TEXT_PROBE_BYTES]):
            raise _looks_binary(data)
        return Decoded(data.decode("ascii"), "utf-8", False)
    found, mark_bytes = detect(data[:TEXT_PROBE_BYTES], encoding)
    text = decode_exactly(data[mark_bytes:] if mark_bytes else data, found)
    return Decoded(text, found, mark_bytes > 0)


def detect(prefix: bytes, encoding: str | None) -> tuple[str, int]:
    """Return the encoding of the file that begins with ``prefix`` and the length of its mark.

    ``prefix`` is the first 4096 bytes, or the whole file. A named encoding is taken at its word,
    its own mark recognised and other marks read as characters. What looks binary is BinaryFile
    unless a mark or a named UTF-16 or UTF-32, where NUL is half of a letter, says otherwise.
    """
    if encoding is None:
        # In the first four bytes of every mark there is one that is not ASCII.
        marked = None if prefix[:4].isascii() else byte_order_mark(prefix)
        if marked is not None:
            return marked
        if has_binary_bytes(prefix):
            raise _looks_binary(prefix)
        return "utf-8", 0
    found = canonical_encoding(encoding)
    if found in ("utf-16", "utf-32"):
        return _by_required_mark(prefix, found)
    if found == "utf-8-sig":
        found = "utf-8"
    mark = BYTE_ORDER_MARKS.get(found)
    mark_bytes = len(mark) if mark is not None and prefix.startswith(mark) else 0
    if not mark_bytes and code_unit_bytes(found) == 1 and has_binary_bytes(prefix):
        raise _looks_binary(prefix)
    return found, mark_bytes


def _by_required_mark(prefix: bytes, family: str) -> tuple[str, int]:
    for encoding in (f"{family}-le", f"{family}-be"):
        mark = BYTE_ORDER_MARKS[encoding]
        if prefix.startswith(mark):
            return encoding, len(mark)
    raise BinaryFile(
        f"the file has no {family} byte order mark", hint=f"name {family}-le or {family}-be"
    )


def code_unit_bytes(encoding: str) -> int:
    """Return how many bytes a line feed takes, and every character a multiple of."""
    if encoding.startswith("utf-16"):
        return 2
    return 4 if encoding.startswith("utf-32") else 1


def decode_exactly(data: bytes, encoding: str) -> str:
    """Decode bytes without a mark. BinaryFile unless encoding the text gives ``data`` again."""
    try:
        text = data.decode(encoding)
    except UnicodeError as error:
        raise not_text_in(encoding, getattr(error, "start", None)) from None
    require_same_bytes(text, data, encoding)
    return text


def decode_beginning(data: bytes, encoding: str) -> tuple[str, int]:
    """Decode all whole characters of ``data``; return them and how many bytes they take.

    BinaryFile for what is not text, or not encoded again to the same bytes.
    """
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        text = decoder.decode(data)
    except UnicodeDecodeError as error:
        raise not_text_in(encoding, error.start) from None
    taken = len(data) - len(decoder.getstate()[0])
    require_same_bytes(text, data[:taken], encoding)
    return text, taken


def require_same_bytes(text: str, data: bytes, encoding: str) -> None:
    """Raise BinaryFile unless ``text`` encodes to ``data``: some legacy tables are not one to one.

    Python's strict UTF codecs accept exactly one spelling of each text, so they are not tried.
    """
    if encoding.startswith("utf-"):
        return
    try:
        same = text.encode(encoding) == data
    except UnicodeError:
        same = False
    if not same:
        raise not_text_in(encoding, None)


def not_text_in(encoding: str, position: int | None) -> BinaryFile:
    """The error for bytes that are not text in ``encoding``; ``position`` counts bytes."""
    where = "" if position is None else f" (byte {position} of what was decoded)"
    return BinaryFile(
        f"the content is not {encoding} text{where}",
        hint=_NAME_THE_ENCODING,
        details={"encoding": encoding},
    )


def _looks_binary(prefix: bytes) -> BinaryFile:
    likely = unmarked_utf_16(prefix)
    if likely is None:
        return BinaryFile("the file is binary", hint="read it as bytes")
    return BinaryFile(
        f"the file is binary, or {likely} text without a byte order mark",
        hint=f'if it is text, name its encoding: encoding="{likely}"',
        details={"likely_encoding": likely},
    )


def encode(text: str, encoding: str = "utf-8", bom: bool = False) -> bytes:
    """Encode strictly. ParseError, naming the place, for text that the encoding cannot hold.

    Guarantees that decoding the bytes as ``encoding`` gives ``text`` again; a legacy table that
    would quietly store another character refuses. "utf-8-sig", "utf-16" and "utf-32" imply a mark,
    the latter two little-endian. ``bom`` with an encoding that has no mark is ParseError.
    """
    if encoding == "utf-8" and not bom:
        return _encode_strictly(text, encoding)
    name, marked = _with_implied_mark(encoding)
    data = _encode_strictly(text, name)
    if not name.startswith("utf-") and data.decode(name) != text:
        raise _unencodable(text, _first_changed(text, data.decode(name)), name)
    if not (marked or bom):
        return data
    mark = BYTE_ORDER_MARKS.get(name)
    if mark is None:
        raise ParseError(f"the encoding {name} has no byte order mark", hint="leave bom out")
    if name == "utf-16-le" and text.startswith("\0"):
        raise ParseError("a UTF-16 text that begins with NUL would be read as UTF-32")
    return mark + data


def _with_implied_mark(encoding: str) -> tuple[str, bool]:
    name = canonical_encoding(encoding)
    if name == "utf-8-sig":
        return "utf-8", True
    if name in ("utf-16", "utf-32"):
        return f"{name}-le", True
    return name, False


def _encode_strictly(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise _unencodable(text, error.start, encoding) from None


def _first_changed(text: str, other: str) -> int:
    pairs = zip(text, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(text), len(other)))


def _unencodable(text: str, index: int, encoding: str) -> ParseError:
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    holds_all_characters = encoding.startswith("utf-")
    return ParseError(
        f"the text has a character at line {line}, column {column} that {encoding} cannot hold",
        hint="remove it" if holds_all_characters else "remove it, or name utf-8 as the encoding",
        details={"index": index, "line": line, "column": column, "encoding": encoding},
    )


def line_ending_of(text: str) -> LineEnding:
    """Return which line endings ``text`` has. A carriage return alone is text, not an ending."""
    if "\r" not in text:
        return "lf" if "\n" in text else "none"
    feeds = text.count("\n")
    if not feeds:
        return "none"
    pairs = text.count("\r\n")
    if not pairs:
        return "lf"
    return "crlf" if pairs == feeds else "mixed"


def with_line_ending(text: str, ending: LineEnding) -> str:
    """Return ``text`` with every line ending made ``ending``; as given for "mixed" and "none".

    Only line feeds and the carriage return directly before one change.
    """
    if ending == "crlf":
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
        return text.replace("\n", "\r\n")
    # One character is looked for first: that takes a twentieth of the time of looking for two.
    if ending == "lf" and "\r" in text:
        return text.replace("\r\n", "\n")
    return text


def form_of(decoded: Decoded) -> TextForm:
    """Return how an existing file is stored."""
    return TextForm(decoded.encoding, decoded.bom, line_ending_of(decoded.text))


def form_of_prefix(prefix: bytes) -> TextForm:
    """Return how a file is stored, judged by its beginning, which may end inside a character.

    Raises as `decode` for what is not text so far. Nothing is said of the bytes after ``prefix``.
    """
    # Bytes are looked for by their numbers, which is quicker than as texts of one byte.
    plain = prefix.isascii() and _CARRIAGE_RETURN not in prefix
    if plain and not has_binary_bytes(prefix[:TEXT_PROBE_BYTES]):
        # Most files: known without decoding them.
        return TextForm("utf-8", False, "lf" if _LINE_FEED in prefix else "none")
    found, mark_bytes = detect(prefix[:TEXT_PROBE_BYTES], None)
    text, _ = decode_beginning(prefix[mark_bytes:], found)
    return TextForm(found, mark_bytes > 0, line_ending_of(text))


def form_for_write(
    existing: TextForm | None,
    *,
    encoding: str | None = None,
    bom: bool | None = None,
    line_ending: LineEnding | None = None,
) -> TextForm:
    """Return the form a text is written in: the existing file's, except where the caller says.

    A new file is UTF-8 without a mark, lines as given. Naming another encoding than the file has
    drops its mark unless the name or ``bom`` asks for one. Raises ParseError for an unknown name.
    """
    old = existing or TextForm()
    if encoding is None:
        name, marked = old.encoding, old.bom
    elif existing is not None and _is_kind_of(existing.encoding, canonical_encoding(encoding)):
        # The file's own byte order and mark are kept where the name leaves them open.
        name, marked = existing.encoding, existing.bom or _with_implied_mark(encoding)[1]
    else:
        name, marked = _with_implied_mark(encoding)
    return TextForm(
        name,
        marked if bom is None else bom,
        old.line_ending if line_ending is None else line_ending,
    )


def _is_kind_of(encoding: str, wanted: str) -> bool:
    return encoding == wanted or (
        wanted in ("utf-16", "utf-32") and encoding in (f"{wanted}-le", f"{wanted}-be")
    )


def encode_as(text: str, form: TextForm) -> bytes:
    """Return the bytes of a file with this text in this form. Raises as `encode`."""
    return encode(with_line_ending(text, form.line_ending), form.encoding, form.bom)
