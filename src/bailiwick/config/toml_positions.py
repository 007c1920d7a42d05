"""Where each key and value of a TOML document stands: the parser itself does not say.

`scan` reads a document that the parser has already accepted, so it need not find mistakes, only the
places. A path into the document is what one would write to look it up: ``("rule", 2, "effect")``.
"""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

KeyPath = tuple[str | int, ...]


class TomlPosition(NamedTuple):
    """A place in a text, counted from 1; columns are characters."""

    line: int
    column: int


class Positions(NamedTuple):
    """Where the keys and the values of a document stand. The elements of an array, which have no
    keys, have values only; a table has the place of its header."""

    keys: dict[KeyPath, TomlPosition]
    values: dict[KeyPath, TomlPosition]

    def of(self, path: KeyPath) -> TomlPosition:
        """Where the value at ``path`` stands, or the nearest thing around it that is written."""
        while path:
            found = self.values.get(path) or self.keys.get(path)
            if found is not None:
                return found
            path = path[:-1]
        return TomlPosition(1, 1)

    def of_key(self, path: KeyPath) -> TomlPosition:
        """Where the key at the end of ``path`` stands."""
        return self.keys.get(path) or self.of(path)


_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_INDENT = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{1,2})?', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?:'{1,2})?", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def scan(text: str) -> Positions:
    """The positions in a valid document. The line ending may be LF or CRLF."""
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    """Goes through the text once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0
        self._tables: dict[KeyPath, int] = {}
        self._found = Positions({}, {})

    def scan(self) -> Positions:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._found

    def _header(self) -> KeyPath:
        """``[a.b]`` or ``[[a.b]]``: the path of the table that it opens."""
        position = self._position()
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        parts = [name for name, _ in self._key()]
        self._at += 2 if many else 1
        path: KeyPath = ()
        for part in parts[:-1]:
            path = self._last_of((*path, part))
            self._found.keys.setdefault(path, position)
        path = (*path, parts[-1])
        if many:
            self._found.keys.setdefault(path, position)
            number = self._tables.get(path, 0)
            self._tables[path] = number + 1
            path = (*path, number)
        # A table that was made by a longer header before gets its own place now.
        self._found.keys[path] = position
        return path

    def _last_of(self, path: KeyPath) -> KeyPath:
        """The last table of an array of them: what a header that goes on from it is about."""
        number = self._tables.get(path)
        return path if number is None else (*path, number - 1)

    def _pair(self, table: KeyPath) -> None:
        path = table
        for name, position in self._key():
            path = (*path, name)
            self._found.keys.setdefault(path, position)
        self._at += 1  # the equals sign
        self._skip(_INDENT)
        self._value(path)

    def _key(self) -> list[tuple[str, TomlPosition]]:
        """A key, dotted or not; afterwards the scanner stands at what follows it."""
        parts: list[tuple[str, TomlPosition]] = []
        while True:
            self._skip(_INDENT)
            position = self._position()
            parts.append((self._name(), position))
            self._skip(_INDENT)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _name(self) -> str:
        first = self._text[self._at]
        if first == "'":
            return self._take(_LITERAL)[1:-1]
        if first == '"':
            name = tomllib.loads(f"name = {self._take(_BASIC)}")["name"]
            assert isinstance(name, str)
            return name
        return self._take(_BARE_KEY)

    def _value(self, path: KeyPath) -> None:
        self._found.values[path] = self._position()
        first = self._text[self._at]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        elif first == '"':
            self._take(_LONG_BASIC if self._text.startswith('"""', self._at) else _BASIC)
        elif first == "'":
            self._take(_LONG_LITERAL if self._text.startswith("'''", self._at) else _LITERAL)
        else:
            self._take(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self._text[self._at] == "]":
                self._at += 1
                return
            self._value((*path, number))
            number += 1
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while True:
            self._skip(_BLANK)
            if self._text[self._at] == "}":
                self._at += 1
                return
            self._pair(path)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1

    def _skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _take(self, what: re.Pattern[str]) -> str:
        found = what.match(self._text, self._at)
        assert found is not None, "the parser has accepted this text"
        self._at = found.end()
        return found.group()

    def _position(self) -> TomlPosition:
        newlines = self._text.count("\n", self._counted, self._at)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rfind("\n", 0, self._at) + 1
        self._counted = self._at
        return TomlPosition(self._line, self._at - self._line_start + 1)
