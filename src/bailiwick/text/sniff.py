"""Text or binary, and byte order marks: what the first bytes of a file say.

The probes are fixed parts of the rules, so that every front and store gives the same answer.
"""

from __future__ import annotations

TEXT_PROBE_BYTES = 4_096
SEARCH_PROBE_BYTES = 8_192

BYTE_ORDER_MARKS: dict[str, bytes] = {
    # UTF-32 stands before UTF-16: FF FE 00 00 begins with UTF-16's own mark.
    "utf-8": b"\xef\xbb\xbf",
    "utf-32-le": b"\xff\xfe\x00\x00",
    "utf-32-be": b"\x00\x00\xfe\xff",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
}

# Tab, line feed, carriage return, form feed, backspace and escape occur in honest text
# (man pages, terminal logs); the rest of C0 and DEL do not.
_CONTROL_BYTES = bytes(byte for byte in range(0x20) if byte not in b"\t\n\r\f\b\x1b") + b"\x7f"
_WITHOUT_CONTROLS = bytes.maketrans(_CONTROL_BYTES, b" " * len(_CONTROL_BYTES))

# 30 % as a fraction of integers, so that the border is exact.
_CONTROL_SHARE_MAX = (3, 10)


def byte_order_mark(prefix: bytes) -> tuple[str, int] | None:
    """Return the encoding that the byte order mark names and the mark's length, or None."""
    for encoding, mark in BYTE_ORDER_MARKS.items():
        if prefix.startswith(mark):
            return encoding, len(mark)
    return None


def is_binary_text(prefix: bytes) -> bool:
    """Tell whether a text call refuses the file that begins with ``prefix``.

    A byte order mark means text. Otherwise a NUL in the first 4096 bytes, or more than 30 % control
    bytes among them, means binary. Bytes after the first 4096 are not looked at.
    """
    probe = prefix[:TEXT_PROBE_BYTES]
    if not probe.isascii() and byte_order_mark(probe) is not None:
        return False
    return has_binary_bytes(probe)


def has_binary_bytes(probe: bytes) -> bool:
    """Tell whether ``probe`` (cut by the caller) holds a NUL or more than 30 % control bytes."""
    if 0 in probe:
        return True
    part, whole = _CONTROL_SHARE_MAX
    # What lies after this beginning is too little to exceed the share: most text ends here.
    beginning = probe[: len(probe) - len(probe) * part // whole]
    if beginning.translate(_WITHOUT_CONTROLS) == beginning:
        return False
    controls = len(probe) - len(probe.translate(None, _CONTROL_BYTES))
    return controls * whole > len(probe) * part


def unmarked_utf_16(prefix: bytes) -> str | None:
    """The UTF-16 that what looks binary may be text in, without the mark that would say so.

    In most letters of most texts one byte of two is NUL, always the same one, and the other never
    is. That is a guess, good for advice and nothing else.
    """
    probe = prefix[:TEXT_PROBE_BYTES]
    if len(probe) % 2:
        return None
    for encoding, nulls, letters in (
        ("utf-16-le", probe[1::2], probe[::2]), ("utf-16-be", probe[::2], probe[1::2]),
    ):  # fmt: skip
        if 2 * nulls.count(0) > len(nulls) and not has_binary_bytes(letters):
            return encoding
    return None


def is_binary_search(prefix: bytes) -> bool:
    """Tell whether a search skips the file: a NUL in the first 8192 bytes."""
    return 0 in prefix[:SEARCH_PROBE_BYTES]
