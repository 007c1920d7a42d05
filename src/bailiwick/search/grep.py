"""Lines that match: what `grep` looks for in the bytes of a file.

A pattern is RE2's, over UTF-8, and a match lies within one line. Lines end at a newline, and a
carriage return before it is not part of the line; a byte order mark at the start of a file is not
part of the first. A line that is not valid UTF-8 is searched like any other: its stray bytes match
no character, not even ``.``, and are shown as ``\\xNN``; what stands around them is found. Classes
such as ``\\w`` and word boundaries are ASCII, as always in RE2.

A whole block of lines is searched at once, which is far quicker than line by line and gives the
same answer: nothing in the expression can match a newline, ``^`` and ``$`` hold at every line, and
the few things that would tell a line from a block (``\\A``, ``\\z``, ``\\C``, ``(?-m)``) are
searched line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from bailiwick.errors import ParseError
from bailiwick.search.linear import INSTRUCTION_NS_MAX, Regex, RegexRefused, compile_utf8
from bailiwick.search.searcher import (
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    OVERLAP_BYTES_MAX,
    LineMatch,
    Searcher,
)
from bailiwick.search.syntax import is_quotation, marks_switched_off, required_text, tokens

PATTERN_CHARACTERS_MAX = 16_384
"""Room for a long list of alternatives; what they compile to is bounded in `linear`."""

INSTRUCTIONS_MAX = 8_192
"""What a pattern may compile to: 1,400 words or ``.{0,900}``. At worst 10 KB of a line then take a
second, which is how long a search may overrun its deadline."""

_QUERIES_KEPT = 64

_STEP_BYTES_MIN, _STEP_BYTES_MAX = 2 * 1024, 64 * 1024
_STEP_NS_MAX = 250_000_000
"""A step is at most this long at worst, and as people search some tens of microseconds."""

_PIECE_NS_MAX = 800_000_000
"""The same for a piece of a line that is too long for a step: longer, as a match may be too."""

_MATCH_NS, _CONTEXT_LINE_NS, _LINE_NS = 6_000, 2_000, 2_000
"""What Python itself costs: for a match, a line around it, and a line searched by itself."""

_WORD_CHARACTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_SYNTAX_CHARACTERS = frozenset("\\.+*?()|[]{}^$")
_TELLS_LINE_FROM_BLOCK = frozenset(("\\A", "\\z", "\\C"))

_HINTS = (
    ("(?=", "RE2 has no lookaround: match more, or search for two patterns"),
    ("(?!", "RE2 has no lookaround: match more, or search for two patterns"),
    ("(?<", "RE2 has no lookaround: match more, or search for two patterns"),
    ("\\Z", "the end of a line is `$`"),
    (
        "invalid escape sequence",
        "RE2 has no backreferences; its escapes are \\d \\w \\s \\b \\x41 …",
    ),
    ("too large", "use smaller counts in {n,m}, or fewer alternatives"),
    ("invalid repetition size", "counts in {n,m} go up to 1000"),
)
_HINT_OTHERWISE = "the syntax is RE2's; to search for the text as it stands, ask for a literal"


class Query:
    """A compiled search: what to look for in a line. Immutable, and safe to share by threads."""

    __slots__ = (
        "_by_line", "_byte_ns_max", "_line_bytes_max", "_needle", "_regex",
        "expression", "ignore_case", "literal", "pattern", "required", "word",
    )  # fmt: skip

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool, word: bool) -> None:
        _check(pattern)
        self.pattern = pattern
        self.literal = literal
        self.ignore_case = ignore_case
        self.word = word
        if literal:
            self._by_line = False
            expression = _literal_expression(pattern, word)
        else:
            self._by_line = _check_expression(pattern)
            expression = _word_expression(pattern) if word else pattern
        self.expression = expression
        """What is searched for, as an RE2 expression; ``ignore_case`` applies to it."""
        self._regex = _compiled(f"(?{'i' if ignore_case else ''}m){expression}")
        self._needle = self._plain_text()
        self.required = self._required_text()
        """Bytes without which nothing matches; none where no such bytes are known."""
        instructions = self._regex.programsize
        self._byte_ns_max = 1 if self._needle is not None else INSTRUCTION_NS_MAX * instructions
        # A match without `*` and `+` has at most a byte for each instruction: it fits the overlap.
        self._line_bytes_max = min(
            LINE_BYTES_MAX, max(_PIECE_NS_MAX // self._byte_ns_max, instructions * 5 // 4)
        )

    def search(
        self, data: bytes, *, context: int, matches_left: int, line_characters_max: int
    ) -> list[LineMatch]:
        """The lines of ``data``, a whole file, that match: the first ``matches_left`` of them."""
        if self.required not in data:
            return []
        searcher = self.searcher(
            context=context, matches_left=matches_left, line_characters_max=line_characters_max
        )
        return searcher.feed(data) + searcher.finish()

    def may_match(self, data: bytes) -> bool:
        """Whether a line of ``data``, a whole file, matches; now and then yes where none does."""
        if self.required not in data:
            return False
        if self._needle is not None:
            return True
        if b"\r" in data or data.startswith(BYTE_ORDER_MARK):  # which are no part of a line
            return bool(self.search(data, context=0, matches_left=1, line_characters_max=1))
        return self._find(data, 0, len(data)) >= 0

    @property
    def is_plain(self) -> bool:
        """Whether what is looked for is some text as it stands."""
        return self._needle is not None

    def searcher(self, *, context: int, matches_left: int, line_characters_max: int) -> Searcher:
        """A search through one file that is fed chunks: see `steps`."""
        return Searcher(
            self._find,
            context=context,
            matches_left=matches_left,
            line_characters_max=line_characters_max,
            line_bytes_max=self._line_bytes_max,
            overlap_bytes=min(OVERLAP_BYTES_MAX, self._line_bytes_max * 4 // 5),
        )

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Cut what is to be searched, at the ends of lines, so that one step is quick to search.

        Between steps a search can look at the time, and whether it is still wanted.
        """
        step = max(_STEP_BYTES_MIN, min(_STEP_BYTES_MAX, _STEP_NS_MAX // self._byte_ns_max))
        start = 0
        while start < len(data):
            end = start + step
            if end < len(data):
                end = data.rfind(b"\n", start, end) + 1 or end
            yield data[start:end]
            start = end

    def ns_max(self, size: int, lines: int, matches: int, context: int) -> int:
        """How long searching so much may take at worst, in nanoseconds."""
        matched = min(lines, matches) * (_MATCH_NS + 2 * context * _CONTEXT_LINE_NS)
        return size * self._byte_ns_max + lines * (_LINE_NS if self._by_line else 0) + matched

    def _plain_text(self) -> bytes | None:
        """The bytes to look for, where the query is nothing more than that."""
        if self.ignore_case or self.word:
            return None
        if not self.literal and _SYNTAX_CHARACTERS.intersection(self.pattern):
            return None
        return self.pattern.encode()

    def _required_text(self) -> bytes:
        if self.ignore_case:
            return b""
        return (self.pattern if self.literal else required_text(self.pattern)).encode()

    def _find(self, block: bytes, start: int, end: int) -> int:
        if self._needle is not None:
            return block.find(self._needle, start, end)
        if self._by_line:
            return _find_by_line(self._regex, block, start, end)
        found = self._regex.search(block, start, end)
        return -1 if found is None else found.start()


def compile_query(
    pattern: str, *, literal: bool = False, ignore_case: bool = False, word: bool = False
) -> Query:
    """Compile what a caller wrote.

    ``word`` asks for a word boundary at both ends of the match; a literal that begins or ends with
    something else than a word character must there not touch a word.

    Raises `ParseError` with a hint for what RE2 does not take, and for what no line can match.
    """
    return _compile_query(pattern, literal, ignore_case, word)


@lru_cache(maxsize=_QUERIES_KEPT)
def _compile_query(pattern: str, literal: bool, ignore_case: bool, word: bool) -> Query:
    return Query(pattern, literal=literal, ignore_case=ignore_case, word=word)


def _find_by_line(regex: Regex, block: bytes, start: int, end: int) -> int:
    while start < end:
        line_end = block.find(b"\n", start, end)
        line_end = end if line_end < 0 else line_end
        found = regex.search(block[start:line_end])
        if found is not None:
            return start + found.start()
        start = line_end + 1
    return -1


def _check(pattern: str) -> None:
    if not pattern:
        raise ParseError("the pattern is empty", hint="`^` matches every line")
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ParseError(
            "the pattern is too long",
            hint=f"at most {PATTERN_CHARACTERS_MAX} characters",
            details={"limit": PATTERN_CHARACTERS_MAX},
        )
    if "\n" in pattern:
        raise _no_newlines()


def _no_newlines() -> ParseError:
    return ParseError(
        "the pattern holds a newline, which no line does",
        hint="search for one line of it and ask for context",
    )


def _check_expression(pattern: str) -> bool:
    """Refuse what RE2 refuses. Returns whether only a search line by line is right."""
    _compiled(pattern)
    by_line = False
    for token in tokens(pattern):
        if token in ("\\n", "\\x0a", "\\x0A"):
            raise _no_newlines()
        by_line |= token in _TELLS_LINE_FROM_BLOCK or "m" in marks_switched_off(token)
    return by_line


def _compiled(expression: str) -> Regex:
    try:
        regex = compile_utf8(expression, newline=False)
    except RegexRefused as refused:
        raise _refused(str(refused)) from None
    if regex.programsize > INSTRUCTIONS_MAX:
        raise _refused(f"pattern too large - {regex.programsize} steps, above {INSTRUCTIONS_MAX}")
    return regex


def _refused(reason: str) -> ParseError:
    hint = next((hint for sign, hint in _HINTS if sign in reason), _HINT_OTHERWISE)
    return ParseError(f"the pattern cannot be searched for: {reason}", hint=hint)


def _literal_expression(text: str, word: bool) -> str:
    quoted = "".join(
        character if character in _WORD_CHARACTERS or ord(character) >= 0x80
        else f"\\x{ord(character):02x}"
        for character in text
    )  # fmt: skip
    if not word:
        return quoted
    # `\b` beside a word character and `\B` beside another both say: no word goes on here.
    left = "\\b" if text[0] in _WORD_CHARACTERS else "\\B"
    right = "\\b" if text[-1] in _WORD_CHARACTERS else "\\B"
    return left + quoted + right


def _word_expression(pattern: str) -> str:
    last = list(tokens(pattern))[-1]
    closing = "\\E" if is_quotation(last) and not last.endswith("\\E") else ""
    return f"\\b(?:{pattern}{closing})\\b"
