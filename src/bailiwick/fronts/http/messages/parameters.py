"""The query of a request: from bytes nobody trusts to checked values, strictly.

An integer is digits, a boolean is ``true``, ``false``, ``1`` or ``0``; what is repeated or unknown
is refused, and so is text that is not UTF-8 once it is decoded.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from bailiwick.errors import ParseError
from bailiwick.wire.arguments import OCTAL, Argument

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})").search
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_DIGITS_MAX = 19
_OCTAL = re.compile(OCTAL).search
_MODE_MAX = 0o7777

QUERY_BYTES_MAX = 28 * 1024
"""Two paths of the greatest length with every byte of them escaped, and what else a route takes."""


def decoded(part: bytes) -> str:
    """The text that a part of an address stands for. Raises `ParseError` for what is none."""
    if b"%" in part:
        if _BROKEN_ESCAPE(part):
            raise ParseError("the address holds a broken percent escape")
        part = unquote_to_bytes(part)
    try:
        return part.decode("utf-8")
    except UnicodeDecodeError:
        raise ParseError("the address is not UTF-8 once its escapes are decoded") from None


def parse_query(query: bytes, known: Mapping[str, Argument]) -> dict[str, Any]:
    """The parameters in a query, by what handlers know them by. Raises `ParseError`."""
    given: dict[str, Any] = {}
    if query:
        if len(query) > QUERY_BYTES_MAX:
            raise ParseError(f"a query has at most {QUERY_BYTES_MAX} bytes")
        for pair in query.split(b"&"):
            name_bytes, equals, value_bytes = pair.partition(b"=")
            name = decoded(name_bytes)
            parameter = known.get(name)
            if parameter is None:
                raise _unknown(name, known)
            if not equals:
                raise ParseError(f"the parameter {name!r} has no value")
            key = parameter.name
            if key in given:
                also = "" if name == parameter.shown else f" (another name of {parameter.shown!r})"
                raise ParseError(f"the parameter {name!r}{also} is given twice")
            text = decoded(value_bytes.replace(b"+", b" "))
            given[key] = (
                text
                if parameter.kind == "text"
                and not parameter.choices
                and len(text) <= parameter.characters_max
                else _value(parameter, text)
            )
    return given


def require(given: Mapping[str, Any], required: tuple[Argument, ...]) -> None:
    """Refuse a request without what it must have; an empty text counts as missing."""
    for parameter in required:
        if given.get(parameter.name) in (None, ""):
            raise ParseError(f"the parameter {parameter.shown!r} is missing")


def _value(parameter: Argument, text: str) -> Any:
    name = parameter.shown
    if parameter.kind == "integer":
        if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
            raise ParseError(f"{name!r} is a whole number, written in digits")
        number = int(text)
        if not parameter.least <= number <= parameter.most:
            raise ParseError(
                f"{name!r} is from {parameter.least} to {parameter.most}",
                details={"limit": parameter.most},
            )
        return number
    if parameter.kind == "mode":
        return _mode(name, text)
    if parameter.kind == "boolean":
        if text not in _FLAGS:
            raise ParseError(f"{name!r} is true, false, 1 or 0")
        return _FLAGS[text]
    if parameter.choices and text not in parameter.choices:
        raise ParseError(f"{name!r} is one of {', '.join(parameter.choices)}")
    if len(text) > parameter.characters_max:
        raise ParseError(
            f"{name!r} has at most {parameter.characters_max} characters",
            details={"limit": parameter.characters_max},
        )
    return text


def _mode(name: str, text: str) -> int:
    octal = _OCTAL(text) is not None
    if not octal and not (text.isascii() and text.isdigit() and str(int(text)) == text):
        raise ParseError(f"{name!r} is permission bits in octal (0644), or a number without zeros")
    bits = int(text, 8 if octal else 10)
    if bits > _MODE_MAX:
        raise ParseError(f"{name!r} is at most 0{_MODE_MAX:o}", details={"limit": _MODE_MAX})
    return bits


def _unknown(name: str, known: Mapping[str, Argument]) -> ParseError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else None
    return ParseError(f"there is no parameter {name[:80]!r} here", hint=hint)
