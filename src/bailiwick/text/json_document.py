"""JSON documents out of bytes, and where one that is none goes wrong.

The place is the first character that cannot stand where it stands; of a string that does not end,
its beginning. Python's own answer depends on its version: since 3.13 a comma before a closing
bracket is pointed at, before that the bracket.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from bailiwick.errors import ParseError
from bailiwick.text.codec import decode

_string_or_constant = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL).finditer

NESTING_MAX: Final = 500
"""Levels of arrays and objects in a document. Python itself gives up at some depth that depends on
its version and on who calls; this is less than any, and far more than documents have."""

_BLANK = " \t\n\r"
_BEFORE_A_VALUE = ("[", "{", ",", ":")
_CLOSED = {"]": "array", "}": "object"}


def parse_json(data: bytes) -> Any:
    """The value of a document. Raises `ParseError` with line and column, and `BinaryFile`."""
    text = decode(data).text
    try:
        value = json.loads(text, parse_constant=lambda name: _refuse_constant(text, name))
    except json.JSONDecodeError as error:
        bracket = _after_a_comma(text, error)
        if bracket is None:
            raise _not_json(text, error.msg, error.pos) from None
        what = _CLOSED[text[bracket]]
        raise _not_json(text, f"a comma before the end of an {what}", bracket) from None
    except RecursionError:
        raise _too_deep() from None
    except ParseError:
        raise
    except ValueError:
        # The one other thing json refuses: a number with thousands of digits.
        raise ParseError("the JSON holds a number that is too long", status=422) from None
    if text.count("[") + text.count("{") > NESTING_MAX and _is_too_deep(value):
        raise _too_deep()
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(NESTING_MAX):
        level = [
            each
            for outer in level
            for each in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(each, (dict, list))
        ]
        if not level:
            return False
    return True


def _too_deep() -> ParseError:
    return ParseError("the JSON is nested too deeply", status=422)


def _after_a_comma(text: str, error: json.JSONDecodeError) -> int | None:
    """The closing bracket that stands where something was to follow a comma, if that is what is
    wrong: it, or the comma, is what Python points at."""
    at = error.pos
    if error.msg == "Extra data" or at >= len(text):
        return None
    before = text[:at].rstrip(_BLANK)
    if text[at] in _CLOSED:
        return at if before.endswith(",") else None
    if text[at] != "," or not before or before.endswith(_BEFORE_A_VALUE):
        return None
    bracket = len(text) - len(text[at + 1 :].lstrip(_BLANK))
    return bracket if text[bracket : bracket + 1] in _CLOSED else None


def _refuse_constant(text: str, name: str) -> NoReturn:
    """NaN and the infinities are no JSON, though Python would take them."""
    at = next(found.start() for found in _string_or_constant(text) if found[0][0] != '"')
    raise _not_json(text, f"{name} is no number", at)


def _not_json(text: str, why: str, at: int) -> ParseError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return ParseError(
        f"not valid JSON: {why} at line {line}, column {column}",
        status=422, details={"line": line, "column": column},
    )  # fmt: skip
