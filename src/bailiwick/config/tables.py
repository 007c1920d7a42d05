"""A table of the document on its way to a value: which keys it may have, and what each must be.

Every refusal begins with file, line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bailiwick.config.toml_positions import KeyPath, Positions, TomlPosition
from bailiwick.config.units import parse_duration, parse_size
from bailiwick.errors import BailiwickError, ParseError, Unsupported
from bailiwick.policies.nearness import hint_for, quoted

Result = TypeVar("Result")
Word = TypeVar("Word", bound=str)

INTEGER_MAX = 2**62


class ConfigDocument:
    """The source of a document, for messages."""

    def __init__(self, source: str, positions: Positions) -> None:
        self.source = source
        self.positions = positions

    def error(self, position: TomlPosition, message: str, hint: str | None = None) -> ParseError:
        line, column = position
        return ParseError(
            f"{self.source}:{line}:{column}: {message}",
            hint=hint,
            details={"line": line, "column": column},
        )


class Table:
    """One table. Every method that takes a key raises `ParseError` when its value is wrong."""

    def __init__(self, document: ConfigDocument, path: KeyPath, content: dict[str, Any]) -> None:
        self._document = document
        self._path = path
        self._content = content
        self._known: frozenset[str] | None = None

    @property
    def line(self) -> int:
        return self._document.positions.of_key(self._path).line

    def has(self, key: str) -> bool:
        return key in self._content

    def names(self) -> list[str]:
        return list(self._content)

    def error(
        self, key: str | None, message: str, hint: str | None = None, *, at: int | None = None
    ) -> ParseError:
        """An error at the value of a key, or at the table itself."""
        positions = self._document.positions
        if key is None:
            return self._document.error(positions.of_key(self._path), message, hint)
        path: KeyPath = (*self._path, key) if at is None else (*self._path, key, at)
        return self._document.error(positions.of(path), message, hint)

    def only(self, *known: str) -> None:
        """Refuse every key but these, before anything else: a key that is missing may be there
        under another spelling. What is read later must be one of them."""
        self._known = frozenset(known)
        for key in self._content:
            if key not in self._known:
                position = self._document.positions.of_key((*self._path, key))
                raise self._document.error(
                    position, f"{quoted(key)} is not known here", hint_for(key, known)
                )

    def require(self, *keys: str) -> None:
        for key in keys:
            if key not in self._content:
                raise self.error(None, f"{quoted(key)} is missing here")

    def checked(self, key: str, check: Callable[[], Result]) -> Result:
        """What a check returns; what it refuses is refused at this key, and what is known and not
        built is `Unsupported` still."""
        try:
            return check()
        except BailiwickError as error:
            here = self.error(key, error.message, error.hint)
            if isinstance(error, Unsupported):
                raise Unsupported(here.message, hint=here.hint, details=here.details) from None
            raise here from None

    # --- values ------------------------------------------------------------------------------

    def _take(self, key: str) -> Any:
        assert self._known is None or key in self._known, f"{key} is read but not declared"
        return self._content.get(key)

    def text(self, key: str, *, empty: bool = False) -> str | None:
        value = self._take(key)
        if value is None:
            return None
        return self._text(key, value, empty=empty)

    def _text(self, key: str, value: Any, *, empty: bool = False, at: int | None = None) -> str:
        if not isinstance(value, str):
            raise self.error(key, f"{quoted(key)} takes text, not {kind_of(value)}", at=at)
        if (not value and not empty) or "\0" in value:
            raise self.error(key, f"{quoted(key)} is empty or holds a NUL character", at=at)
        return value

    def flag(self, key: str) -> bool | None:
        value = self._take(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.error(key, f"{quoted(key)} takes true or false, not {kind_of(value)}")

    def integer(self, key: str, low: int, high: int = INTEGER_MAX) -> int | None:
        value = self._take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"{quoted(key)} takes a whole number, not {kind_of(value)}")
        if not low <= value <= high:
            raise self.error(key, f"{quoted(key)} is a whole number from {low} to {high}")
        return value

    def choice(self, key: str, words: Iterable[Word]) -> Word | None:
        value = self.text(key)
        if value is None:
            return None
        known = tuple(words)
        for word in known:
            if word == value:
                return word
        message = f"{quoted(value)} is no value of {quoted(key)}"
        raise self.error(key, message, hint_for(value, known))

    def duration(self, key: str) -> float | None:
        value = self.text(key)
        return None if value is None else self.checked(key, lambda: parse_duration(value))

    def size(self, key: str) -> int | None:
        """A number of bytes, at least one."""
        value = self._take(key)
        if isinstance(value, str):
            value = self.checked(key, lambda: parse_size(value))
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"{quoted(key)} takes a size, not {kind_of(value)}")
        if not 1 <= value <= INTEGER_MAX:
            raise self.error(key, f"{quoted(key)} is a size from 1 to {INTEGER_MAX} bytes")
        return value

    def texts(self, key: str, *, one: bool = False) -> tuple[str, ...] | None:
        """A list of texts, none of them twice; with ``one`` also a single text."""
        value = self._take(key)
        if value is None:
            return None
        if one and isinstance(value, str):
            return (self._text(key, value),)
        if not isinstance(value, list):
            raise self.error(key, f"{quoted(key)} takes a list of texts, not {kind_of(value)}")
        listed = [self._text(key, each, at=number) for number, each in enumerate(value)]
        for number, each in enumerate(listed):
            if each in listed[:number]:
                raise self.error(key, f"{quoted(each)} stands here twice", at=number)
        return tuple(listed)

    def words(
        self, key: str, words: Iterable[Word], *, one: bool = False
    ) -> tuple[Word, ...] | None:
        """A list of known words."""
        listed = self.texts(key, one=one)
        if listed is None:
            return None
        known: dict[str, Word] = {word: word for word in words}
        for number, each in enumerate(listed):
            if each not in known:
                message = f"{quoted(each)} is no value of {quoted(key)}"
                at = number if isinstance(self._content[key], list) else None
                raise self.error(key, message, hint_for(each, known), at=at)
        return tuple(known[word] for word in listed)

    def anything(self, key: str) -> Any:
        """The value as it is, for a key that takes values of several types."""
        return self._take(key)

    # --- tables ------------------------------------------------------------------------------

    def table(self, key: str) -> Table | None:
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            hint = f"write [{key}]" if isinstance(value, list) else None
            raise self.error(key, f"{quoted(key)} is one table, not {kind_of(value)}", hint)
        return Table(self._document, (*self._path, key), value)

    def tables(self, key: str) -> list[Table]:
        """The tables of ``[[key]]``."""
        value = self._take(key)
        if value is None:
            return []
        hint = f"write [[{key}]]"
        if not isinstance(value, list):
            message = f"{quoted(key)} is a list of tables, not {kind_of(value)}"
            raise self.error(key, message, hint)
        made: list[Table] = []
        for number, each in enumerate(value):
            if not isinstance(each, dict):
                message = f"{quoted(key)} is a list of tables, not of {kind_of(each)}"
                raise self.error(key, message, hint, at=number)
            made.append(Table(self._document, (*self._path, key, number), each))
        return made

    def labels(self, key: str) -> dict[str, str]:
        """A table of texts whose keys are anyone's choice."""
        table = self.table(key)
        if table is None:
            return {}
        labels: dict[str, str] = {}
        for name in table.names():
            if not name or not name.isprintable():
                raise table.error(name, "the name of a label is printable text")
            labels[name] = table.text(name, empty=True) or ""
        return labels


def kind_of(value: object) -> str:
    """What a value of TOML is, in words."""
    for kind, words in (
        (bool, "true or false"), (str, "text"), (int, "a whole number"), (float, "a number"),
        (list, "a list"), (dict, "a table"),
    ):  # fmt: skip
        if isinstance(value, kind):
            return words
    return "a date or time"
