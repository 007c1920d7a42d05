"""Globs: which names a pattern means.

``*`` and ``?`` stay within one name, ``**`` as a whole component stands for any number of
directories, none included, ``[a-z]`` ``[!a-z]`` ``[^a-z]`` for one character, ``{a,b}`` for either;
a backslash takes the next character as it is. Patterns are relative to a base, names that begin
with a dot are like any other, case counts, and a trailing slash asks for directories only.
``src/**`` is everything beneath ``src``, not ``src`` itself.

A pattern becomes one RE2 expression, so that matching is linear in the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from bailiwick.errors import ParseError
from bailiwick.search.linear import Regex, RegexRefused, compile_utf8

PATTERN_CHARACTERS_MAX = 4_096
"""A pattern is at most about as long as the longest path."""

ALTERNATIVES_MAX = 1_024
"""What the braces of one pattern may expand to: nested braces grow exponentially."""

_EXPANDING_CHARACTERS_MAX = 256 * 1_024
"""Characters looked at while braces are expanded: some tens of milliseconds."""

_COMPILED_KEPT = 256

_ANY_CHARACTER = "[^/]"
_ANY_NAME = "[^/]*"
_NOTHING = r"[^\s\S]"


class _Alternative(NamedTuple):
    """One pattern without braces: its components, and whether it asks for a directory."""

    components: tuple[str, ...]
    directory_only: bool


class Glob:
    """A compiled pattern, matched against paths relative to its base."""

    __slots__ = ("_beneath", "_match", "pattern")

    def __init__(self, pattern: str, alternatives: list[_Alternative]) -> None:
        self.pattern = pattern
        self._match = _compiled("|".join(map(_path_expression, alternatives)))
        self._beneath = _compiled("|".join(map(_beneath_expression, alternatives)))

    def matches(self, relative: str, is_directory: bool) -> bool:
        """Whether the object at ``relative`` (as seen from the base) is meant."""
        return relative != "." and _full(self._match, relative, is_directory)

    def may_match_below(self, relative: str) -> bool:
        """Whether anything beneath the directory ``relative`` can match: else do not enter it."""
        return relative == "." or _full(self._beneath, relative, False)


class Filter:
    """Patterns any of which may match; one without a slash matches a name at any depth."""

    __slots__ = ("_beneath", "_covered", "_covered_lines", "_covering", "_match", "patterns")

    def __init__(self, patterns: tuple[str, ...], alternatives: list[_Alternative]) -> None:
        self.patterns = patterns
        whole = "|".join(map(_path_expression, alternatives))
        above = [each._replace(directory_only=True) for each in alternatives]
        self._match = _compiled(whole)
        # The expression of a directory ends in its slash: what follows lies beneath it.
        self._covering = f"(?:{'|'.join(map(_path_expression, above))})(?s:.+)|{whole}"
        self._covered = _compiled(self._covering)
        self._covered_lines: Regex | None = None
        self._beneath = _compiled("|".join(map(_beneath_expression, alternatives)))

    def matches(self, relative: str, is_directory: bool) -> bool:
        """Whether the object itself is meant."""
        return relative != "." and _full(self._match, relative, is_directory)

    def covers(self, relative: str, is_directory: bool) -> bool:
        """Whether the object or a directory above it is meant: what an exclusion takes away."""
        if relative == ".":
            return False
        # As `_full`, which every call that rules judge would have to pass.
        text = relative.encode("utf-8", "replace")
        return self._covered.fullmatch(text + b"/" if is_directory else text) is not None

    def covered(self, paths: Sequence[str]) -> set[str]:
        """Those of many paths of which `covers` is true where they are directories, found in one
        pass: each of them by itself would take a hundred times as long."""
        text = "/\n".join([*paths, ""])
        if text.count("\n") != len(paths):  # what holds a newline is no line
            odd = {each for each in paths if "\n" in each and self.covers(each, True)}
            return odd | self.covered([each for each in paths if "\n" not in each])
        if self._covered_lines is None:
            # Nothing in it matches a newline, so that no match is of more than one path.
            expression = f"(?m)^(?:{self._covering})$"
            self._covered_lines = _compiled(expression, newline=False)
        found = self._covered_lines.findall(text.encode("utf-8", "replace"))
        return {each[:-1].decode() for each in found} - {"."}

    def may_match_below(self, relative: str) -> bool:
        """Whether anything beneath the directory ``relative`` can match."""
        return relative == "." or _full(self._beneath, relative, False)


@lru_cache(maxsize=_COMPILED_KEPT)
def compile_glob(pattern: str) -> Glob:
    """Compile ``pattern``. Without a slash it means this level only.

    Raises `ParseError` for what is no pattern relative to a base.
    """
    return Glob(pattern, _parse(pattern))


def compile_filter(patterns: Iterable[str]) -> Filter:
    """Compile the patterns of an include or exclude list, of which there must be at least one.

    Raises `ParseError` as `compile_glob`.
    """
    return _compile_filter(tuple(patterns))


@lru_cache(maxsize=_COMPILED_KEPT)
def _compile_filter(patterns: tuple[str, ...]) -> Filter:
    if not patterns:
        raise ParseError("a filter needs at least one pattern")
    alternatives = [
        each._replace(components=("**", *each.components)) if len(each.components) == 1 else each
        for pattern in patterns
        for each in _parse(pattern)
    ]
    return Filter(patterns, alternatives)


def _full(regex: Regex, relative: str, is_directory: bool) -> bool:
    # A name that is not valid text cannot be spelled in a pattern: `*` and `?` still match it.
    text = relative.encode("utf-8", "replace")
    return regex.fullmatch(text + b"/" if is_directory else text) is not None


def _compiled(expression: str, *, newline: bool = True) -> Regex:
    try:
        return compile_utf8(f"(?:{expression})", newline=newline)
    except RegexRefused:
        raise ParseError("the pattern is too large", hint="use fewer alternatives or `*`") from None


# --- from text to alternatives ---------------------------------------------------------------


def _parse(pattern: str) -> list[_Alternative]:
    _check(pattern)
    return [_alternative(text) for text in _expand(pattern)]


def _check(pattern: str) -> None:
    if not pattern:
        raise ParseError("the pattern is empty", hint="`**` means everything beneath")
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ParseError(
            "the pattern is too long",
            hint=f"at most {PATTERN_CHARACTERS_MAX} characters",
            details={"limit": PATTERN_CHARACTERS_MAX},
        )
    if "\0" in pattern:
        raise ParseError("the pattern holds a NUL character")
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise ParseError("the pattern holds a lone surrogate, so it is not valid text") from None


def _expand(pattern: str) -> list[str]:
    """Replace braces by all they stand for, innermost last. Escapes and brackets stay as text."""
    done: list[str] = []
    waiting = [pattern]
    work = 0
    while waiting:
        text = waiting.pop()
        span = _first_braces(text)
        if span is None:
            done.append(text)
        else:
            start, end, choices = span
            waiting.extend(text[:start] + choice + text[end:] for choice in reversed(choices))
        work += len(text)
        if len(done) + len(waiting) > ALTERNATIVES_MAX or work > _EXPANDING_CHARACTERS_MAX:
            raise ParseError(
                "the braces of the pattern stand for too many alternatives",
                hint=f"at most {ALTERNATIVES_MAX}",
                details={"limit": ALTERNATIVES_MAX},
            )
    return done


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first outermost ``{…}``: where it stands and what its commas separate."""
    start, depth, piece = -1, 0, 0
    choices: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if character == "[":
            position = _bracket_end(text, position)
            continue
        if character == "{":
            depth += 1
            if depth == 1:
                start, piece = position, position + 1
        elif character == "}":
            if depth == 0:
                raise _unbalanced("}")
            depth -= 1
            if depth == 0:
                choices.append(text[piece:position])
                return start, position + 1, choices
        elif character == "," and depth == 1:
            choices.append(text[piece:position])
            piece = position + 1
        position += 1
    if depth:
        raise _unbalanced("{")
    return None


def _bracket_end(text: str, start: int) -> int:
    """The position after the ``]`` that closes the bracket at ``start``."""
    position = start + 1
    if text[position : position + 1] in ("!", "^"):
        position += 1
    first = position
    while position < len(text):
        if text[position] == "]" and position > first:
            return position + 1
        if text.startswith("[:", position):
            raise ParseError(
                "named character classes are not part of a pattern",
                hint="write the characters out, for example [a-z]",
            )
        position += 2 if text[position] == "\\" else 1
    raise _unbalanced("[")


def _unbalanced(character: str) -> ParseError:
    return ParseError(
        f"the pattern has a `{character}` without its counterpart",
        hint=f"write `\\{character}` for the character itself",
    )


def _alternative(text: str) -> _Alternative:
    if text.startswith("/"):
        raise ParseError("the pattern is absolute", hint="leave out the slash in front")
    components = [each for each in _split(text) if each not in ("", ".")]
    if ".." in components:
        raise ParseError("the pattern climbs out of its base", hint="leave out `..`")
    if not components:
        raise ParseError("the pattern names nothing", hint="`**` means everything beneath")
    return _Alternative(tuple(components), text.endswith("/"))


def _split(text: str) -> list[str]:
    """Cut at slashes; one inside a bracket stands for no name's character and is skipped."""
    components: list[str] = []
    position = piece = 0
    while position < len(text):
        character = text[position]
        if character == "[":
            position = _bracket_end(text, position)
            continue
        if character == "\\":
            if text[position + 1 : position + 2] in ("", "/"):
                raise ParseError(
                    "the pattern has a backslash with no character to take as it is",
                    hint="write `\\\\` for a backslash, `/` between names",
                )
            position += 2
            continue
        if character == "/":
            components.append(text[piece:position])
            piece = position + 1
        position += 1
    components.append(text[piece:])
    return components


# --- from alternatives to expressions --------------------------------------------------------


def _path_expression(alternative: _Alternative) -> str:
    """What a path's text must be; a directory's text ends in a slash."""
    *above, last = alternative.components
    expression = "".join(
        "(?:[^/]+/)*" if component == "**" else _name_expression(component) + "/"
        for component in above
    )
    expression += "[^/]+(?:/[^/]+)*" if last == "**" else _name_expression(last)
    return expression + ("/" if alternative.directory_only else "/?")


def _beneath_expression(alternative: _Alternative) -> str:
    """What a directory's path must be for a match beneath it: a beginning of the pattern.

    ``a/b/c`` gives ``a(?:/b)?``; behind ``**`` everything is possible; beneath a last name nothing.
    """
    *above, last = alternative.components
    names = list(takewhile(lambda component: component != "**", above))
    reaches_everything = len(names) < len(above) or last == "**"
    expression = "(?s:.+)" if reaches_everything else ""
    for name in reversed(names):
        further = f"(?:/{expression})?" if expression else ""
        expression = _name_expression(name) + further
    return expression or _NOTHING


def _name_expression(component: str) -> str:
    """One component as an expression that matches neither a slash nor the empty text."""
    if not component.strip("*"):
        return "[^/]+"
    pieces: list[str] = []
    position = 0
    while position < len(component):
        character = component[position]
        if character == "*":
            if pieces[-1:] != [_ANY_NAME]:
                pieces.append(_ANY_NAME)
        elif character == "?":
            pieces.append(_ANY_CHARACTER)
        elif character == "[":
            end = _bracket_end(component, position)
            pieces.append(_bracket_expression(component[position + 1 : end - 1]))
            position = end
            continue
        else:
            if character == "\\":
                position += 1
            pieces.append(_quoted(component[position]))
        position += 1
    return "".join(pieces)


def _bracket_expression(body: str) -> str:
    negated = body[0] in "!^"
    characters = _bracket_characters(body[1:] if negated else body)
    slash = ord("/")
    ranges = [
        part
        for low, high in characters
        for part in ((low, min(high, slash - 1)), (max(low, slash + 1), high))
        if part[0] <= part[1]
    ]
    inside = "".join(f"{_quoted(chr(low))}-{_quoted(chr(high))}" for low, high in ranges)
    if negated:
        return f"[^/{inside}]"
    return f"[{inside}]" if inside else _NOTHING


def _bracket_characters(body: str) -> list[tuple[int, int]]:
    """The ranges of code points in a bracket; a single character is a range of one."""
    characters: list[tuple[str, bool]] = []
    position = 0
    while position < len(body):
        escaped = body[position] == "\\"
        position += escaped
        characters.append((body[position], escaped))
        position += 1
    ranges: list[tuple[int, int]] = []
    index = 0
    while index < len(characters):
        low = characters[index][0]
        if characters[index + 1 : index + 2] == [("-", False)] and index + 2 < len(characters):
            high = characters[index + 2][0]
            if high < low:
                raise ParseError(
                    f"the range [{low}-{high}] of the pattern is empty", hint="turn it round"
                )
            ranges.append((ord(low), ord(high)))
            index += 3
        else:
            ranges.append((ord(low), ord(low)))
            index += 1
    return ranges


def _quoted(character: str) -> str:
    return character if character.isalnum() or character == "_" else f"\\x{{{ord(character):x}}}"
