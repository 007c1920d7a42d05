"""Patterns of ignore files as expressions over bytes, exactly as git's ``wildmatch`` reads them.

Git compares bytes: ``?`` is one byte, not one character. Its corner cases are kept on purpose, as
each is visible to someone: a malformed bracket or a backslash at the end matches nothing, and what
stands before the first wildcard of a path pattern is compared and cut off first, so that
``foo**/bar`` also means ``foobar``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

_SPECIAL = frozenset(b"*?[\\")
_STAR, _QUESTION, _BRACKET, _BACKSLASH, _SLASH, _DASH, _COLON = b"*?[\\/-:"

_ANYTHING = "(?s:.*)"
_WITHIN_NAME = "[^/]*"


def name_expression(pattern: bytes) -> str | None:
    """What a rule without a slash means for a name; None where it can match nothing."""
    return _wild(pattern, is_path=False) if pattern else None


def path_expression(pattern: bytes) -> str | None:
    """What a rule with a slash means for a path from its directory; None as above."""
    pattern = pattern.removeprefix(b"/")
    plain = 0
    while plain < len(pattern) and pattern[plain] not in _SPECIAL:
        plain += 1
    rest = _wild(pattern[plain:], is_path=True)
    return None if rest is None or not pattern else _quoted(pattern[:plain]) + rest


def _wild(pattern: bytes, *, is_path: bool) -> str | None:
    pieces: list[str] = []
    position = 0
    while position < len(pattern):
        byte = pattern[position]
        if byte == _STAR:
            piece, position = _stars(pattern, position, is_path)
        elif byte == _QUESTION:
            piece, position = "[^/]", position + 1
        elif byte == _BRACKET:
            bracket = _bracket(pattern, position + 1)
            if bracket is None:
                return None
            piece, position = bracket
        else:
            position += byte == _BACKSLASH
            if position == len(pattern):
                return None
            piece, position = _quoted(pattern[position : position + 1]), position + 1
        pieces.append(piece)
    return "".join(pieces)


def _stars(pattern: bytes, start: int, is_path: bool) -> tuple[str, int]:
    """Stars at ``start``: what they match, and where the pattern goes on."""
    end = start
    while end < len(pattern) and pattern[end] == _STAR:
        end += 1
    alone = (start == 0 or pattern[start - 1] == _SLASH) and (
        end == len(pattern) or pattern[end] == _SLASH or pattern[end : end + 2] == b"\\/"
    )
    if not (is_path and end - start > 1 and alone):
        return _WITHIN_NAME, end
    if end < len(pattern) and pattern[end] == _SLASH:
        return f"(?:{_ANYTHING}/)?", end + 1
    return _ANYTHING, end


class _Item(NamedTuple):
    """One item of a bracket: its bytes, where it ends, and the byte a range could start with."""

    members: Iterable[int]
    end: int
    range_start: int


def _bracket(pattern: bytes, position: int) -> tuple[str, int] | None:
    """The bracket whose inside begins at ``position``; None where it is malformed."""
    negated = pattern[position : position + 1] in (b"!", b"^")
    position += negated
    members: set[int] = set()
    item: _Item | None = None
    while item is None or pattern[position : position + 1] != b"]":
        item = _bracket_item(pattern, position, item.range_start if item else 0)
        if item is None:
            return None
        members.update(item.members)
        position = item.end
    if negated:
        members = set(range(256)) - members
    members.discard(_SLASH)
    if not members:
        return None
    return "[" + "".join(f"\\x{byte:02x}" for byte in sorted(members)) + "]", position + 1


def _bracket_item(pattern: bytes, position: int, range_start: int) -> _Item | None:
    if position >= len(pattern):
        return None
    byte, following = pattern[position], pattern[position + 1 : position + 2]
    if byte == _BACKSLASH:
        return _Item(following, position + 2, following[0]) if following else None
    if byte == _DASH and range_start and following not in (b"", b"]"):
        end = position + 1 + (following == b"\\")
        if end >= len(pattern):
            return None
        return _Item(range(range_start, pattern[end] + 1), end + 1, 0)
    if byte == _BRACKET and following == b":":
        end = pattern.find(b"]", position + 2)
        if end < 0:
            return None
        # In `[:]` the bracket stands right behind the colon: then it is a plain set.
        if end > position + 2 and pattern[end - 1] == _COLON:
            named = _NAMED_CLASSES.get(pattern[position + 2 : end - 1])
            return None if named is None else _Item(filter(named, range(128)), end + 1, 0)
    return _Item((byte,), position + 1, byte)


_NAMED_CLASSES: dict[bytes, Callable[[int], bool]] = {
    b"alnum": lambda byte: chr(byte).isalnum(),
    b"alpha": lambda byte: chr(byte).isalpha(),
    b"blank": lambda byte: byte in b" \t",
    b"cntrl": lambda byte: byte < 0x20 or byte == 0x7F,
    b"digit": lambda byte: byte in b"0123456789",
    b"graph": lambda byte: 0x20 < byte < 0x7F,
    b"lower": lambda byte: chr(byte).islower(),
    b"print": lambda byte: 0x20 <= byte < 0x7F,
    b"punct": lambda byte: 0x20 < byte < 0x7F and not chr(byte).isalnum(),
    b"space": lambda byte: byte in b" \t\n\r",
    b"upper": lambda byte: chr(byte).isupper(),
    b"xdigit": lambda byte: byte in b"0123456789abcdefABCDEF",
}
"""Git's own notion of these, which is ASCII and has no vertical tab or form feed among spaces."""


def _quoted(literal: bytes) -> str:
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}" for byte in literal
    )
