"""Results from the wire: the same values that a scope returns.

The wire says the same things by other names: camelCase, ``hash`` with its algorithm before it,
``sizeBytes``, times in milliseconds, permission bits in octal. The names that follow from
those of the fields are worked out once for each class; the few others are in one table. What is
missing, of another type, or no path of a root, is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from bailiwick.client.failures import no_answer
from bailiwick.errors import ParseError
from bailiwick.model import Entry, Found, Stat, TextRead
from bailiwick.paths import PathText, ScopedPath
from bailiwick.versions import Leased

Rebuilt = TypeVar("Rebuilt", bound=msgspec.Struct)

_USUAL = {"size": "sizeBytes", "sha256": "hash", "sha256_before": "hashBefore"}

_OTHERS: dict[type, dict[str, str]] = {
    TextRead: {"text": "content"},
    Stat: {"mtime_ns": "modifiedNs", "created_ns": "createdNs"},
    Entry: {"mtime_ns": "modifiedNs"},
    Found: {"base": "path", "matches": "entries"},
    Leased: {"expires_ns": "expiresAtMs"},
}
"""What is called otherwise on the wire, by class and field."""

_is_octal = re.compile("0[0-7]{3,4}").fullmatch
_is_sha256 = re.compile(r"sha256:[0-9a-f]{64}").fullmatch


class _Field(NamedTuple):
    """A field, what the wire calls it, and how its value is read."""

    name: str
    key: str
    read: Callable[[Any], Any] | None


def rebuilt(cls: type[Rebuilt], document: Mapping[str, Any], **known: Any) -> Rebuilt:
    """The value that a document stands for; ``known`` is what the wire does not say."""
    try:
        return msgspec.convert({**_shaped(cls, document), **known}, cls, dec_hook=_checked)
    except (msgspec.ValidationError, _Wrong) as error:
        raise no_answer(str(error)) from None


def rebuilt_all(cls: type[Rebuilt], documents: object) -> list[Rebuilt]:
    if not isinstance(documents, list):
        raise no_answer("a list is missing")
    return [rebuilt(cls, each) for each in documents]


def scoped(text: object) -> ScopedPath:
    """A path that the server names. One that would lead out of a root is none."""
    try:
        return _canonical(text)
    except _Wrong as error:
        raise no_answer(str(error)) from None


def path_text(path: PathText) -> str:
    """What a caller gave for a path, as text for the wire. What is wrong with it the server says,
    as it does for everybody."""
    text = path if isinstance(path, str) else getattr(path, "__fspath__", lambda: None)()
    if not isinstance(text, str):
        raise ParseError(
            f"a path is text, not {type(path).__name__}", hint="decode bytes before passing them"
        )
    return str(text)


class _Wrong(ValueError):
    """A value that cannot be what it says."""


def _shaped(cls: type[msgspec.Struct], document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise _Wrong("an object is missing")
    shaped: dict[str, Any] = {}
    for name, key, read in _fields(cls):
        if key in document:
            value = document[key]
            shaped[name] = value if read is None or value is None else read(value)
    if cls is Entry:
        shaped["parent"] = _parent(document.get("path"), document.get("name"))
    return shaped


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[_Field, ...]:
    others = next((_OTHERS[base] for base in cls.__mro__ if base in _OTHERS), {})
    fields = []
    for field in msgspec.structs.fields(cls):
        key = others.get(field.name) or _key(field.name)
        fields.append(_Field(field.name, key, _reader(field.name, key, field.type)))
    return tuple(fields)


def _key(name: str) -> str:
    if name in _USUAL:
        return _USUAL[name]
    first, *more = (name[:-3] + "_ms" if name.endswith("_ns") else name).split("_")
    return first + "".join(part.capitalize() for part in more)


def _reader(name: str, key: str, kind: Any) -> Callable[[Any], Any] | None:
    if name.startswith("sha256"):
        return _digits
    if name == "file_mode":
        return _bits
    if name.endswith("_ns") and key.endswith("Ms"):
        return _nanoseconds
    if get_origin(kind) is list:
        (element,) = get_args(kind)
        if isinstance(element, type) and issubclass(element, msgspec.Struct):
            return lambda values: _all(element, values)
    return None


def _all(cls: type[msgspec.Struct], values: object) -> list[dict[str, Any]]:
    if not isinstance(values, list):
        raise _Wrong("a list is missing")
    return [_shaped(cls, each) for each in values]


def _digits(value: object) -> str:
    if not isinstance(value, str) or not _is_sha256(value):
        raise _Wrong("a hash is no hash")
    return value.removeprefix("sha256:")


def _bits(value: object) -> int:
    if not isinstance(value, str) or not _is_octal(value):
        raise _Wrong("permission bits are no octal text")
    return int(value, 8)


def _nanoseconds(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong("a time is no number")
    return value * 1_000_000


def _parent(path: object, name: object) -> ScopedPath:
    """The directory of an entry. Its name is one step, and its path ends with it."""
    if not isinstance(path, str) or not isinstance(name, str) or not name or "/" in name:
        raise _Wrong("an entry has no name")
    if path == name:
        return ScopedPath(".")
    if not path.endswith(f"/{name}"):
        raise _Wrong("an entry has two names")
    return _canonical(path[: -len(name) - 1])


def _checked(kind: type, value: object) -> ScopedPath:
    """What `msgspec` asks for the one type of ours that JSON has not."""
    assert kind is ScopedPath
    return _canonical(value)


def _canonical(value: object) -> ScopedPath:
    """A path as only a root has them: callers take a `ScopedPath` for one, and join it to others.

    Not parsed as a caller's text is: what a root lists may be called what nobody could ask for.
    """
    if not isinstance(value, str):
        raise _Wrong("a path is no text")
    if value != "." and any(part in ("", ".", "..") for part in value.split("/")):
        raise _Wrong("a path leads out of the root")
    if "\0" in value:
        raise _Wrong("a path holds a NUL character")
    return ScopedPath(value)
