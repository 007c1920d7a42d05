"""Ignore files: what ``.gitignore`` and its kin say about a name, with git's semantics exactly.

An `IgnoreLevel` is one directory of a walk with all the rules in force there. It is immutable:
entering a child makes another. As in git the last rule that matches decides, a deeper file before
a higher one, and what lies in an ignored directory cannot be taken back in. Of two ignore files in
one directory the one given later decides. Anything called ``.git`` is always ignored.

Whatever a file says, a name is looked up in a few tables and matched by a few automata: the cost
does not grow with the number of rules. What a file may hold is bounded, as matching is done on the
event loop: what lies beyond the bounds is not looked at, and a warning says so.

Rules only mark; whether a mark matters is the caller's business. Pure: the texts are handed in.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from bailiwick.search.linear import Expressions, compile_set
from bailiwick.search.wildmatch import name_expression, path_expression

_log = logging.getLogger("bailiwick.search")

TEXT_CHARACTERS_MAX = 256 * 1024
"""Of one ignore file: the largest that people write are a tenth of it."""

RULES_MAX = 10_000
"""Of one ignore file: compiling so many takes some 30 ms."""

EXPRESSION_CHARACTERS_MAX = 16 * 1024
"""Of all rules in one file that are neither a name, a path, an ending nor a beginning: some 800
such rules. They are matched by one automaton."""

BLIND_SPOTS_MAX = 256
"""Of those rules, each ``?`` and bracket behind a ``*``: they make the automaton large, and on
hostile names each costs up to 12 ns for each byte of the name. Usual files have some tens."""

_ENDINGS_AT_ONCE = 32

LAYERS_MAX = 64
"""Ignore files in force at once, in the directories from the root to a name: each is asked."""

RULES_KEPT = 100_000
"""Rules of compiled files that are kept by their content: some 20 MB, and more than most have."""

_WILDCARDS = frozenset("*?[\\")
_NONE = -1


class _Rule(NamedTuple):
    """One line: the pattern without its marks, and what the marks say."""

    pattern: str
    negated: bool
    directory_only: bool
    is_path: bool


class _Patterns:
    """The patterns of rules by number. Of those that match, the highest number decides.

    Most are a plain name, a plain path, ``*.ending`` or ``beginning*`` and cost no expression.
    """

    __slots__ = (
        "_beginnings", "_beginnings_lengths", "_endings", "_endings_lengths", "_few_endings",
        "_name_expressions", "_names", "_path_expressions", "_paths",
    )  # fmt: skip

    def __init__(self, rules: Iterable[tuple[int, _Rule]]) -> None:
        self._names: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        self._beginnings: dict[str, int] = {}
        of_names: list[tuple[int, str]] = []
        of_paths: list[tuple[int, str]] = []
        for number, rule in rules:
            pattern = rule.pattern
            kind = _kind(rule)
            if kind == "path":
                self._paths[pattern.removeprefix("/")] = number
            elif kind == "name":
                self._names[pattern] = number
            elif kind == "ending":
                self._endings[pattern[1:]] = number
            elif kind == "beginning":
                self._beginnings[pattern[:-1]] = number
            else:
                raw = pattern.encode("utf-8", "surrogateescape")
                expression = path_expression(raw) if rule.is_path else name_expression(raw)
                if expression is not None:
                    (of_paths if rule.is_path else of_names).append((number, expression))
        few = len(self._endings) <= _ENDINGS_AT_ONCE
        self._few_endings = tuple(self._endings) if few else None
        self._endings_lengths = tuple(sorted(set(map(len, self._endings))))
        self._beginnings_lengths = tuple(sorted(set(map(len, self._beginnings))))
        self._name_expressions = compile_set(of_names)
        self._path_expressions = compile_set(of_paths)

    def last_match(self, path: str, name: str) -> int:
        """The number of the last rule that matches, or -1."""
        last = self._names.get(name, _NONE)
        if self._paths:
            last = max(last, self._paths.get(path, _NONE))
        if self._endings and (self._few_endings is None or name.endswith(self._few_endings)):
            size = len(name)
            for length in self._endings_lengths:
                if length > size:
                    break
                last = max(last, self._endings.get(name[size - length :], _NONE))
        if self._beginnings:
            for length in self._beginnings_lengths:
                if length > len(name):
                    break
                last = max(last, self._beginnings.get(name[:length], _NONE))
        if self._name_expressions:
            last = max(last, _last_of(self._name_expressions, name))
        if self._path_expressions:
            last = max(last, _last_of(self._path_expressions, path))
        return last


class _Rules(NamedTuple):
    """One ignore file, compiled: its rules by number, and which of them take back in."""

    for_all: _Patterns
    for_directories: _Patterns | None
    negated: frozenset[int]
    size: int

    def verdict(self, path: str, name: str, is_directory: bool) -> bool | None:
        """Whether the last rule that matches ignores; None where none does."""
        last = self.for_all.last_match(path, name)
        if is_directory and self.for_directories is not None:
            last = max(last, self.for_directories.last_match(path, name))
        return None if last == _NONE else last not in self.negated


class _Layer(NamedTuple):
    """The rules of one file, and the way from its directory to the level."""

    rules: _Rules
    way: str


class IgnoreLevel:
    """One directory, and every ignore rule in force in it."""

    __slots__ = ("_layers", "ignored", "silent")

    def __init__(self, layers: tuple[_Layer, ...], ignored: bool) -> None:
        self._layers = layers
        self.ignored = ignored
        """Whether this directory itself is ignored, and with it all that it holds."""
        self.silent = not layers and not ignored
        """Whether nothing in this directory is ignored but ``.git``."""

    @classmethod
    def top(cls, texts: Mapping[str, str] | None = None) -> IgnoreLevel:
        """The root, with the texts of the ignore files in it by their names."""
        return cls(_layers_of(texts), False)

    def enter(self, directory_name: str, texts: Mapping[str, str] | None = None) -> IgnoreLevel:
        """The directory of that name in this one, with the texts of its ignore files."""
        ignored = self.is_ignored(directory_name, True)
        # At the border into an ignored directory the rules above are left behind: see `named`.
        above = () if ignored and not self.ignored else self._layers
        moved = tuple(_Layer(rules, f"{way}{directory_name}/") for rules, way in above)
        return IgnoreLevel(_bounded(_layers_of(texts) + moved), ignored)

    def named(self) -> IgnoreLevel:
        """This level for a caller who named it: it is looked into even if it is ignored.

        Inside an ignored directory only the rules from that directory downwards count then: those
        above it, the likes of ``build/**``, would empty what was asked for.
        """
        return IgnoreLevel(self._layers, False) if self.ignored else self

    def is_ignored(self, name: str, is_directory: bool) -> bool:
        """Whether the entry ``name`` of this directory is ignored."""
        if self.ignored or name == ".git":
            return True
        for rules, way in self._layers:
            verdict = rules.verdict(way + name, name, is_directory)
            if verdict is not None:
                return verdict
        return False


def _last_of(expressions: tuple[Expressions, ...], text: str) -> int:
    raw = text.encode("utf-8", "surrogateescape")
    return max(each.last_match(raw) for each in expressions)


def _bounded(layers: tuple[_Layer, ...]) -> tuple[_Layer, ...]:
    if len(layers) > LAYERS_MAX:
        _log.warning("more than %d ignore files in force: the highest are left out", LAYERS_MAX)
    return layers[:LAYERS_MAX]


def _layers_of(texts: Mapping[str, str] | None) -> tuple[_Layer, ...]:
    if not texts:
        return ()
    files = (compile_rules(text) for text in reversed(tuple(texts.values())))
    return tuple(_Layer(rules, "") for rules in files if rules.size)


class _KeptPatterns:
    """Compiled files by their content, the latest used; bounded by how many rules they have."""

    def __init__(self) -> None:
        self._files: dict[str, _Rules] = {}
        self._lock = threading.Lock()
        self.rules = 0

    def get(self, text: str) -> _Rules | None:
        with self._lock:
            rules = self._files.pop(text, None)
            if rules is not None:
                self._files[text] = rules
            return rules

    def __contains__(self, text: str) -> bool:
        return text in self._files

    def add(self, text: str, rules: _Rules) -> None:
        with self._lock:
            if text in self._files:
                return
            self._files[text] = rules
            self.rules += _weight(text, rules)
            while self.rules > RULES_KEPT and len(self._files) > 1:
                oldest = next(iter(self._files))
                self.rules -= _weight(oldest, self._files.pop(oldest))


def _weight(text: str, rules: _Rules) -> int:
    return 1 + rules.size + len(text) // 64


_kept = _KeptPatterns()


def compile_rules(text: str) -> _Rules:
    """Compile the text of an ignore file, or find it compiled.

    Some ten microseconds a rule when it is new: do it in a thread where the file is large. Then
    `IgnoreLevel.top` and `IgnoreLevel.enter` find it done.
    """
    rules = _kept.get(text)
    if rules is None:
        rules = _compile(text)
        _kept.add(text, rules)
    return rules


def is_compiled(text: str) -> bool:
    """Whether `compile_rules` would find the text compiled."""
    return text in _kept


def _compile(text: str) -> _Rules:
    rules = list(_bounded_rules(text))
    numbered = list(enumerate(rules))
    of_directories = [(number, rule) for number, rule in numbered if rule.directory_only]
    return _Rules(
        _Patterns((number, rule) for number, rule in numbered if not rule.directory_only),
        _Patterns(of_directories) if of_directories else None,
        frozenset(number for number, rule in numbered if rule.negated),
        len(rules),
    )


def _bounded_rules(text: str) -> Iterable[_Rule]:
    """The rules in the order of the file, as far as it is looked at."""
    cut = len(text) > TEXT_CHARACTERS_MAX
    if cut:
        text = text[: text.rfind("\n", 0, TEXT_CHARACTERS_MAX) + 1]
    count = characters = blind_spots = 0
    for line in _lines(text):
        rule = _rule(line)
        if rule is None:
            continue
        count += 1
        if _kind(rule) == "expression":
            characters += len(rule.pattern)
            behind = rule.pattern.partition("*")[2]
            blind_spots += behind.count("?") + behind.count("[")
        if (
            count > RULES_MAX
            or characters > EXPRESSION_CHARACTERS_MAX
            or blind_spots > BLIND_SPOTS_MAX
        ):
            count -= 1
            cut = True
            break
        yield rule
    if cut:
        _log.warning("an ignore file is too large: only its first %d rules count", count)


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


def _kind(rule: _Rule) -> Literal["name", "path", "ending", "beginning", "expression"]:
    pattern = rule.pattern
    if not _WILDCARDS.intersection(pattern):
        return "path" if rule.is_path else "name"
    if not rule.is_path and pattern[0] == "*" and _is_plain(pattern[1:]):
        return "ending"
    if not rule.is_path and pattern[-1] == "*" and _is_plain(pattern[:-1]):
        return "beginning"
    return "expression"


def _is_plain(text: str) -> bool:
    """Whether text and bytes mean the same, also when they are the end or the start of a name."""
    return text.isascii() and not _WILDCARDS.intersection(text)
