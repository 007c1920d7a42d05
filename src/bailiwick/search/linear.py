"""Regular expressions whose time is linear in the text: the one place that knows RE2.

Nothing a caller writes is ever given to a backtracking engine. RE2 is imported by the first
expression that is compiled, never by importing this module.
"""

from __future__ import annotations

from typing import Protocol

PROGRAM_BYTES_MAX = 8 * 1024 * 1024
"""Memory one compiled expression may use, its state cache included: RE2's own default."""


class RegexRefused(Exception):
    """RE2 does not take this expression. The text says why, in RE2's words."""


class Found(Protocol):
    """Where an expression matched, in bytes."""

    def start(self) -> int: ...
    def end(self) -> int: ...


class Regex(Protocol):
    """A compiled expression over bytes."""

    def search(self, text: bytes, pos: int = ..., endpos: int = ...) -> Found | None:
        """The leftmost match that lies in ``text[pos:endpos]``.

        Anchors and word boundaries look at the bytes outside that window too.
        """
        ...

    def fullmatch(self, text: bytes) -> Found | None: ...
    def findall(self, text: bytes) -> list[bytes]: ...


def compile_utf8(expression: str, *, newline: bool = True) -> Regex:
    """Compile an expression over UTF-8 text.

    A byte that is no part of valid UTF-8 is matched by nothing but ``\\C``; what stands around it
    is still found. Without ``newline`` nothing but ``\\C`` matches a newline, however it is
    written (``\\s``, ``[^a]``, ``(?s).``): a match then lies within one line.

    Raises `RegexRefused`.
    """
    try:
        return _compile(expression.encode(), latin1=False, newline=newline)
    except UnicodeEncodeError:
        raise RegexRefused("a lone surrogate, so it is not valid text") from None


def compile_bytes(expression: bytes) -> Regex:
    """Compile an ASCII expression over bytes: each byte counts as one character."""
    return _compile(expression, latin1=True, newline=True)


def _compile(expression: bytes, *, latin1: bool, newline: bool) -> Regex:
    import re2

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    options.never_nl = not newline
    if latin1:
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        regex: Regex = re2.compile(expression, options)
    except re2.error as error:
        raise RegexRefused(_text_of(error)) from None
    return regex


def _text_of(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "backslashreplace") if isinstance(reason, bytes) else str(reason)
