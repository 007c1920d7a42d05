"""Addresses of files: ``bailiwick:///ROOT/path/to/file?offset=0&length=65536``."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from bailiwick.errors import ParseError

_START = "bailiwick:///"
TEMPLATE = "bailiwick:///{root}/{+path}{?offset,length}"

_DIGITS_MAX = 18


class Address(NamedTuple):
    """What an address means. ``path`` is as untrusted as any: it goes through the boundary.

    ``offset`` and ``length`` are a range of a file's bytes; ``cursor`` goes on in a directory.
    """

    root: str
    path: str
    offset: int | None = None
    length: int | None = None
    cursor: str | None = None

    @property
    def is_range(self) -> bool:
        return self.offset is not None or self.length is not None

    def text(self) -> str:
        given = {"offset": self.offset, "length": self.length, "cursor": self.cursor}
        query = "&".join(
            f"{name}={quote(str(value), safe='')}"
            for name, value in given.items()
            if value is not None
        )
        path = "" if self.path == "." else quote(self.path, safe="/")
        return f"{_START}{quote(self.root, safe='')}/{path}" + (f"?{query}" if query else "")


def parse_address(text: str) -> Address:
    """Read an address, strictly. Raises `ParseError`."""
    if not text.startswith(_START):
        raise ParseError("this is no address of a file here", hint=f"as in {TEMPLATE}")
    place, _, query = text[len(_START) :].partition("?")
    root, _, path = place.partition("/")
    given: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        if name not in ("offset", "length", "cursor") or not equals or name in given:
            raise ParseError("an address takes offset, length and cursor, each once")
        given[name] = decoded(value)
    return Address(
        decoded(root), decoded(path).rstrip("/") or ".",
        _number(given, "offset"), _number(given, "length"), given.get("cursor"),
    )  # fmt: skip


def _number(given: dict[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise ParseError(f"{name} is a number of bytes")
    return int(text)


def decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ParseError("an address is UTF-8, percent-encoded") from None
