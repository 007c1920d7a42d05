"""Ignore files: what ``.gitignore`` and its kin say about a name, with git's semantics exactly.

An `IgnoreLevel` is one directory of a walk with all the rules in force there. It is immutable:
entering a child makes another. As in git the last rule that matches decides, a deeper file before
a higher one, and what lies in an ignored directory cannot be taken back in. Of two ignore files in
one directory the one given later decides. Anything called ``.git`` is always ignored.

Rules only mark; whether a mark matters is the caller's business. Pure: the texts are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from bailiwick.model import MatchedIgnore
from bailiwick.search.linear import Regex, RegexRefused, compile_bytes
from bailiwick.search.wildmatch import name_expression, path_expression

_FILES_KEPT = 512
"""Compiled ignore files kept by their content: more than most projects have."""

_WILDCARDS = frozenset("*?[\\")


class _Rule(NamedTuple):
    """One line: the pattern without its marks, and what the marks say."""

    pattern: str
    negated: bool
    directory_only: bool
    is_path: bool


class _Patterns(NamedTuple):
    """Patterns any of which may match.

    Most are a plain name, a plain path, ``*.ending`` or ``beginning*`` and cost no expression.
    """

    names: frozenset[str]
    paths: frozenset[str]
    endings: tuple[str, ...]
    beginnings: tuple[str, ...]
    name_expressions: tuple[Regex, ...]
    path_expressions: tuple[Regex, ...]

    def match(self, path: str, name: str) -> bool:
        if name in self.names or path in self.paths:
            return True
        if name.endswith(self.endings) or name.startswith(self.beginnings):
            return True
        return _any_match(self.name_expressions, name) or _any_match(self.path_expressions, path)


class _Segment(NamedTuple):
    """Consecutive rules with one verdict, among which the order therefore does not matter."""

    ignored: bool
    for_all: _Patterns
    for_directories: _Patterns


class _Layer(NamedTuple):
    """The rules of one file, the last first, and the way from its directory to the level."""

    segments: tuple[_Segment, ...]
    way: str


class IgnoreLevel:
    """One directory, and every ignore rule in force in it."""

    __slots__ = ("_layers", "ignored")

    def __init__(self, layers: tuple[_Layer, ...], ignored: bool) -> None:
        self._layers = layers
        self.ignored = ignored
        """Whether this directory itself is ignored, and with it all that it holds."""

    @classmethod
    def top(cls, texts: Mapping[str, str] | None = None) -> IgnoreLevel:
        """The root, with the texts of the ignore files in it by their names."""
        return cls(_layers_of(texts), False)

    def enter(self, directory_name: str, texts: Mapping[str, str] | None = None) -> IgnoreLevel:
        """The directory of that name in this one, with the texts of its ignore files."""
        ignored = self.is_ignored(directory_name, True)
        # At the border into an ignored directory the rules above are left behind: see `named`.
        above = () if ignored and not self.ignored else self._layers
        moved = tuple(_Layer(segments, f"{way}{directory_name}/") for segments, way in above)
        return IgnoreLevel(_layers_of(texts) + moved, ignored)

    def named(self) -> IgnoreLevel:
        """This level for a caller who named it: it is looked into even if it is ignored.

        Inside an ignored directory only the rules from that directory downwards count then: those
        above it, the likes of ``build/**``, would empty what was asked for.
        """
        return IgnoreLevel(self._layers, False) if self.ignored else self

    @property
    def silent(self) -> bool:
        """Whether nothing in this directory is ignored but ``.git``."""
        return not self._layers and not self.ignored

    def is_ignored(self, name: str, is_directory: bool) -> bool:
        """Whether the entry ``name`` of this directory is ignored."""
        if self.ignored or name == ".git":
            return True
        for segments, way in self._layers:
            path = way + name
            for ignored, for_all, for_directories in segments:
                if for_all.match(path, name) or (
                    is_directory and for_directories.match(path, name)
                ):
                    return ignored
        return False

    def classify(self, name: str, is_directory: bool = False) -> MatchedIgnore | None:
        """How the entry is marked: by a directory (above it, or itself), as a file, or not."""
        if not self.is_ignored(name, is_directory):
            return None
        return "directory" if self.ignored or is_directory else "file"


def _any_match(expressions: tuple[Regex, ...], text: str) -> bool:
    if not expressions:
        return False
    raw = text.encode("utf-8", "surrogateescape")
    return any(expression.fullmatch(raw) for expression in expressions)


def _layers_of(texts: Mapping[str, str] | None) -> tuple[_Layer, ...]:
    if not texts:
        return ()
    files = (_segments_of(text) for text in reversed(tuple(texts.values())))
    return tuple(_Layer(segments, "") for segments in files if segments)


@lru_cache(maxsize=_FILES_KEPT)
def _segments_of(text: str) -> tuple[_Segment, ...]:
    """Compile an ignore file: the last rules first, as they decide first."""
    rules = [rule for line in _lines(text) if (rule := _rule(line)) is not None]
    return tuple(
        _segment(negated, list(group))
        for negated, group in groupby(reversed(rules), key=lambda rule: rule.negated)
    )


def _lines(text: str) -> Iterable[str]:
    for line in text.removeprefix("\ufeff").split("\n"):
        if not line.startswith("#"):
            # Git keeps lines as C strings.
            yield _without_trailing_spaces(line.removesuffix("\r").partition("\0")[0])


def _without_trailing_spaces(line: str) -> str:
    """Drop the spaces at the end, but not one behind a backslash. Tabs stay."""
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 and kept != line else kept


def _rule(line: str) -> _Rule | None:
    negated = line.startswith("!")
    pattern = line[1:] if negated else line
    directory_only = pattern.endswith("/")
    pattern = pattern[:-1] if directory_only else pattern
    if not pattern:
        return None
    return _Rule(pattern, negated, directory_only, "/" in pattern)


def _segment(negated: bool, rules: list[_Rule]) -> _Segment:
    return _Segment(
        not negated,
        _patterns([rule for rule in rules if not rule.directory_only]),
        _patterns([rule for rule in rules if rule.directory_only]),
    )


def _patterns(rules: list[_Rule]) -> _Patterns:
    names: set[str] = set()
    paths: set[str] = set()
    endings: list[str] = []
    beginnings: list[str] = []
    name_expressions: list[str | None] = []
    path_expressions: list[str | None] = []
    for rule in rules:
        pattern = rule.pattern
        if not _WILDCARDS.intersection(pattern):
            if rule.is_path:
                paths.add(pattern.removeprefix("/"))
            else:
                names.add(pattern)
        elif rule.is_path:
            path_expressions.append(path_expression(pattern.encode("utf-8", "surrogateescape")))
        elif pattern[0] == "*" and _is_plain(pattern[1:]):
            endings.append(pattern[1:])
        elif pattern[-1] == "*" and _is_plain(pattern[:-1]):
            beginnings.append(pattern[:-1])
        else:
            name_expressions.append(name_expression(pattern.encode("utf-8", "surrogateescape")))
    return _Patterns(
        frozenset(names),
        frozenset(paths),
        tuple(endings),
        tuple(beginnings),
        tuple(_joined([each for each in name_expressions if each is not None])),
        tuple(_joined([each for each in path_expressions if each is not None])),
    )


def _is_plain(text: str) -> bool:
    """Whether text and bytes mean the same, also when they are the end or the start of a name."""
    return text.isascii() and not _WILDCARDS.intersection(text)


def _joined(expressions: list[str]) -> list[Regex]:
    """As few expressions as RE2 takes; a single one that is too large for it matches nothing."""
    if not expressions:
        return []
    try:
        return [compile_bytes("|".join(expressions).encode("ascii"))]
    except RegexRefused:
        if len(expressions) == 1:
            return []
        half = len(expressions) // 2
        return _joined(expressions[:half]) + _joined(expressions[half:])
