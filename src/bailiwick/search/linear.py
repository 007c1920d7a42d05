"""Regular expressions whose time is linear in the text: the one place that knows RE2.

Nothing a caller writes is ever given to a backtracking engine. RE2 is imported by the first
expression that is compiled, never by importing this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

PROGRAM_BYTES_MAX = 2 * 1024 * 1024
"""Memory one compiled expression may use, its state cache included. More lets hostile ones compile
for a tenth of a second and run no quicker."""


_PROBE = b"\0"


class RegexRefused(Exception):
    """RE2 does not take this expression. The text says why, in RE2's words."""


INSTRUCTION_NS_MAX = 12
"""What one instruction costs on one byte at worst, where RE2 falls back from its automaton: the
slowest of the hostile expressions measured. Expressions as people write them are a thousand times
quicker."""


class LinearMatch(Protocol):
    """Where an expression matched, in bytes."""

    def start(self) -> int: ...
    def end(self) -> int: ...


class Regex(Protocol):
    """A compiled expression over bytes."""

    @property
    def programsize(self) -> int:
        """How many instructions it has: time on hostile text grows with them."""
        ...

    def search(self, text: bytes, pos: int = ..., endpos: int = ...) -> LinearMatch | None:
        """The leftmost match that lies in ``text[pos:endpos]``.

        Anchors and word boundaries look at the bytes outside that window too.
        """
        ...

    def fullmatch(self, text: bytes) -> LinearMatch | None: ...
    def findall(self, text: bytes) -> list[bytes]: ...


def compile_utf8(expression: str, *, newline: bool = True) -> Regex:
    """Compile an expression over UTF-8 text.

    A byte that is no part of valid UTF-8 is matched by nothing but ``\\C``; what stands around it
    is still found. Without ``newline`` nothing but ``\\C`` matches a newline, however it is
    written (``\\s``, ``[^a]``, ``(?s).``): a match then lies within one line.

    Raises `RegexRefused`.
    """
    try:
        return _compile(expression.encode(), newline)
    except UnicodeEncodeError:
        raise RegexRefused("a lone surrogate, so it is not valid text") from None


class Expressions:
    """Numbered expressions that are matched in one pass."""

    __slots__ = ("_numbers", "_set")

    def __init__(self, numbered: Sequence[tuple[int, str]]) -> None:
        import re2

        self._set = re2.Set.FullMatchSet(_options(latin1=True, newline=True))
        self._numbers = [number for number, _ in numbered]
        try:
            for _, expression in numbered:
                self._set.Add(expression.encode("ascii"))
            # Out of memory it would match nothing, silently: what no file name holds must match.
            self._set.Add(_PROBE)
            self._set.Compile()
        except re2.error as error:
            raise RegexRefused(_text_of(error)) from None
        if len(numbered) not in (self._set.Match(_PROBE) or ()):
            raise RegexRefused("pattern too large")

    def last_match(self, text: bytes) -> int:
        """The highest number of an expression that matches all of ``text``, or -1."""
        matched = self._set.Match(text)
        return max([self._numbers[index] for index in matched]) if matched else -1


def compile_set(numbered: Sequence[tuple[int, str]]) -> tuple[Expressions, ...]:
    """As few sets of ASCII expressions over bytes as RE2 takes; what it does not take is left out.

    Numbers ascend. An expression that is too large by itself matches nothing.
    """
    if not numbered:
        return ()
    try:
        return (Expressions(numbered),)
    except RegexRefused:
        if len(numbered) == 1:
            return ()
        half = len(numbered) // 2
        return compile_set(numbered[:half]) + compile_set(numbered[half:])


def _compile(expression: bytes, newline: bool) -> Regex:
    import re2

    try:
        regex: Regex = re2.compile(expression, _options(latin1=False, newline=newline))
    except re2.error as error:
        raise RegexRefused(_text_of(error)) from None
    return regex


def _options(*, latin1: bool, newline: bool) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    options.never_nl = not newline
    if latin1:
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _text_of(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "backslashreplace") if isinstance(reason, bytes) else str(reason)
