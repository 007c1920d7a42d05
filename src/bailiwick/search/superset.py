"""A query in ripgrep's words, widened where the two engines differ.

`rust_superset` gives a pattern for Rust's regex engine, as ripgrep runs it on undecoded lines, that
matches every line in which the query matches, and perhaps others; or None where that cannot be
said for certain. So whatever ripgrep does not find, the query would not have found either.

Where the engines differ, and what is done about it:

- ``\\d \\w \\s`` and classes are ASCII in RE2: their ASCII members are asked of RE2 itself and
  written out.
- What may match beyond ASCII (``.``, ``[^a]``, ``[é]``) becomes any bytes from 0x80, up to four for
  each character: RE2's ``.`` also takes surrogates and overlong forms, which Rust refuses.
- Ignoring case is the same for ASCII letters in both (``k`` and ``s`` have a third form, in both);
  beyond ASCII the tables may be of different age: None.
- ``$`` and ``\\z`` hold before a carriage return too, as that is not part of our line; Rust's
  CRLF mode holds there and at every end of line. ``^`` and ``\\A`` hold after a newline only.
- The byte order mark at the start of a file is not part of our first line. Where the pattern has
  ``^``, a line that begins with the mark matches whenever the rest of the pattern does.
- Greed does not change whether there is a match. ``\\b`` and ``\\B`` are ASCII in both (``-u``).
- ``\\C``, ``\\p`` and octal escapes: None.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from bailiwick.search.grep import Query
from bailiwick.search.linear import compile_utf8
from bailiwick.search.syntax import (
    is_class,
    is_quotation,
    marks_switched_off,
    marks_switched_on,
    quoted_text,
    tokens,
)

CONTAINS_NUL = r"(?-u:\x00)"
"""Matches what a file must contain to count as binary."""

_ASSERTIONS = {
    "$": "(?Rm:$)",
    "\\z": "(?Rm:$)",
    "\\b": r"(?-u:\b)",
    "\\B": r"(?-u:\B)",
}
_LINE_STARTS = ("^", "\\A")
_LINE_START = "(?m:^)"
_MARKED_LINE = r"(?m:^)(?-u:\xEF\xBB\xBF[^\n]*)"

_CLASSES_MAX = 64
"""Different classes in one pattern: each is an expression to compile, some tenths of a ms."""

_CONTROL_ESCAPES = {"a": "\a", "f": "\f", "t": "\t", "r": "\r", "v": "\v"}
_ASCII_CLASSES = ("\\d", "\\w", "\\s")
_WIDE_CLASSES = ("\\D", "\\W", "\\S", ".")
_ASCII = bytes(range(128))
_NOT_IN_PLAIN_CLASSES = ("\\x", "\\p", "\\P", "\\D", "\\W", "\\S", "\\C", "\\Q", "\\E", "[:^")

_SURROGATES = frozenset(map(chr, range(0xD800, 0xE000)))
_LETTERS_WITH_A_FORM_BEYOND_ASCII = frozenset(b"kKsS")


class _Repetition(NamedTuple):
    least: int
    most: int | None


class _CannotSay(Exception):
    """The pattern holds something about which the two engines might not agree."""


def rust_superset(query: Query) -> str | None:
    """A pattern that matches every line that ``query`` matches, or None."""
    try:
        plain = _Translation(query.expression, query.ignore_case, keep_line_starts=True)
        if not plain.has_line_starts:
            return plain.text
        freed = _Translation(query.expression, query.ignore_case, keep_line_starts=False)
    except _CannotSay:
        return None
    return f"(?:{plain.text})|(?:{_MARKED_LINE}(?:{freed.text}))"


class _Translation:
    """One pass over the tokens of an expression."""

    def __init__(self, expression: str, ignore_case: bool, *, keep_line_starts: bool) -> None:
        self.has_line_starts = False
        self._keep_line_starts = keep_line_starts
        self._ignore_case = ignore_case
        self._enclosing: list[bool] = []
        self._classes: set[str] = set()
        pieces: list[str] = []
        todo = list(tokens(expression))
        position = 0
        while position < len(todo):
            token = todo[position]
            position += 1
            repetition = _repetition(todo[position]) if position < len(todo) else None
            position += repetition is not None
            pieces.append(self._piece(token, repetition))
        self.text = "".join(pieces)

    def _piece(self, token: str, repetition: _Repetition | None) -> str:
        if token == "|" or token[0] == "(":
            if repetition is not None:
                raise _CannotSay
            return self._opening(token)
        if token == ")":
            self._ignore_case = self._enclosing.pop()
            return ")" + _repeated(repetition)
        if token in _LINE_STARTS or token in _ASSERTIONS:
            return f"(?:{self._assertion(token)}){_repeated(repetition)}"
        if token in _ASCII_CLASSES or token in _WIDE_CLASSES or is_class(token):
            return self._class(token, repetition)
        if is_quotation(token):
            pieces = [self._literal(character) for character in quoted_text(token)]
            if repetition is not None and not pieces:
                raise _CannotSay
            # A repetition binds to the last character only.
            return "".join(pieces) + _repeated(repetition)
        return self._literal(_character(token)) + _repeated(repetition)

    def _opening(self, token: str) -> str:
        if token == "|":
            return token
        if not token.endswith(")"):
            self._enclosing.append(self._ignore_case)
        self._mark(token)
        return "(?:)" if token.endswith(")") else "(?:"

    def _mark(self, token: str) -> None:
        if "i" in marks_switched_off(token):
            self._ignore_case = False
        elif "i" in marks_switched_on(token):
            self._ignore_case = True

    def _assertion(self, token: str) -> str:
        if token not in _LINE_STARTS:
            return _ASSERTIONS[token]
        self.has_line_starts = True
        return _LINE_START if self._keep_line_starts else ""

    def _literal(self, character: str) -> str:
        if character == "\n":
            raise _CannotSay
        if not character.isascii():
            if self._ignore_case or character in _SURROGATES:
                raise _CannotSay
            return character
        quoted = character if character.isalnum() else f"\\x{ord(character):02x}"
        return f"(?i:{quoted})" if self._ignore_case and character.isalpha() else quoted

    def _class(self, token: str, repetition: _Repetition | None) -> str:
        self._classes.add(token)
        if len(self._classes) > _CLASSES_MAX:
            raise _CannotSay
        members = _ascii_members(token, self._ignore_case)
        inside = _ranges(members)
        if self._is_ascii_only(token, members):
            if not members:
                raise _CannotSay
            return f"(?-u:[{inside}]){_repeated(repetition)}"
        least, most = repetition or _Repetition(1, 1)
        bytes_most = None if most is None else 4 * most
        return f"(?-u:[{inside}\\x80-\\xff]){_repeated(_Repetition(least, bytes_most))}"

    def _is_ascii_only(self, token: str, members: bytes) -> bool:
        if self._ignore_case and not _LETTERS_WITH_A_FORM_BEYOND_ASCII.isdisjoint(members):
            return False
        if not is_class(token):
            return token in _ASCII_CLASSES
        return (
            token.isascii()
            and not token.startswith("[^")
            and not any(sign in token for sign in _NOT_IN_PLAIN_CLASSES)
        )


@lru_cache(maxsize=4 * _CLASSES_MAX)
def _ascii_members(token: str, ignore_case: bool) -> bytes:
    """The ASCII characters that a class matches, asked of RE2 itself."""
    mark = "(?i)" if ignore_case else ""
    return b"".join(compile_utf8(mark + token, newline=False).findall(_ASCII))


def _ranges(members: bytes) -> str:
    """Bytes in ascending order, as the inside of a class."""
    ranges: list[list[int]] = []
    for byte in members:
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    return "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in ranges)


def _character(token: str) -> str:
    """The one character that a token stands for."""
    if len(token) == 1:
        return token
    escaped = token[1:]
    if token[0] == "\\" and len(escaped) == 1:
        if escaped in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[escaped]
        if escaped.isascii() and not escaped.isalnum():
            return escaped
    elif token[0] == "\\" and escaped[0] == "x":
        return chr(int(escaped[1:].strip("{}"), 16))
    raise _CannotSay


def _repetition(token: str) -> _Repetition | None:
    if token[0] in "*+?":
        return {"*": _Repetition(0, None), "+": _Repetition(1, None), "?": _Repetition(0, 1)}[
            token[0]
        ]
    if token[0] == "{" and len(token) > 2:
        least, comma, most = token.removesuffix("?")[1:-1].partition(",")
        return _Repetition(int(least), int(most) if most else None if comma else int(least))
    return None


def _repeated(repetition: _Repetition | None) -> str:
    if repetition is None:
        return ""
    least, most = repetition
    return f"{{{least},}}" if most is None else f"{{{least},{most}}}"
