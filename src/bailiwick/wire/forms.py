"""What a value looks like on the wire: made from the fields of its class, and from one row.

A form is all that is known of it: which names there are, in which order, of which type, what is
written under each and which field is read back from it. From that come the class that is encoded
and whose schema is shown (`Form.struct`), a value as such a document (`Form.write`), and the value
that a document stands for (`read`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import attrgetter
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec

from bailiwick.paths import ScopedPath
from bailiwick.wire import names as names_module
from bailiwick.wire.names import Unreadable, camel

Value = TypeVar("Value", bound=msgspec.Struct)
Told = TypeVar("Told", bound=msgspec.Struct, contravariant=True)
Way = Callable[[Any], Any]
"""From a value to what is written for it, or back."""


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is encoded. One that is ``tagged`` is about one file, whose ``version`` is the entity
    tag of the answer."""

    tagged: ClassVar[bool] = False


class Result(Document, frozen=True, kw_only=True, tag_field="kind"):
    """A document that stands by itself: ``kind`` names it."""


class Key(NamedTuple):
    """A name on the wire, in snake case, and the attribute that is told under it.

    With a type of its own it is written and read in just the ways that are given, else as the rule
    has it for that field. One that says ``again`` what another key does is not read. What is ``of``
    nothing is said beside the value, by whoever writes it.
    """

    name: str
    of: str
    type: Any = None
    write: Way | None = None
    read: Way | None = None
    again: bool = False


class Writes(Protocol[Told]):
    """Makes a document of a value, and of what is said beside it."""

    def __call__(self, value: Told, /, **beside: Any) -> Document: ...


class Form(Generic[Value]):
    """How values of a class are written: called ``name`` in schemas, and ``kind`` in documents.

    ``keys`` are fields, by their names, and whatever is not as the rule has it; without any, all
    fields are meant, the id of the request last. ``unsaid`` are fields that the wire does not tell,
    and what stands for them where a value is read. ``derived`` are those that are read from several
    keys together.
    """

    def __init__(
        self,
        of: type[Value],
        name: str,
        about: str,
        *,
        kind: str | None = None,
        tagged: bool = False,
        keys: Sequence[str | Key] = (),
        unsaid: Mapping[str, Any] | None = None,
        derived: Mapping[str, Way] | None = None,
    ) -> None:
        self.of = of
        self.name = name
        self.about = about
        self.kind = kind
        self.tagged = tagged
        self.unsaid = unsaid or {}
        self.derived = derived or {}
        self._given = keys
        _known.setdefault(of, self)

    def called(self, name: str, about: str, *, kind: str) -> Form[Value]:
        """Another form for the same values, which differs by what it is called."""
        return Form(
            self.of, name, about, kind=kind, tagged=self.tagged, keys=self._given,
            unsaid=self.unsaid, derived=self.derived,
        )  # fmt: skip

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """In the order of the wire."""
        fields = {field.name: field.type for field in msgspec.structs.fields(self.of)}
        named = self._given or [each for each in fields if each not in self.unsaid]
        if not self._given and "request_id" in named:
            named = [*(each for each in named if each != "request_id"), "request_id"]
        return tuple(
            each if isinstance(each, Key) and each.type is not None
            else _usual(each, fields[each]) if isinstance(each, str)
            else _usual(each.of, fields[each.of])._replace(name=each.name)
            for each in named
        )  # fmt: skip

    @cached_property
    def struct(self) -> type[Document]:
        """What is encoded, and what a schema is made of."""
        made = msgspec.defstruct(
            self.name, [(key.name, key.type) for key in self.keys],
            bases=(Document if self.kind is None else Result,), tag=self.kind, frozen=True,
            gc=False, namespace={"__doc__": self.about, "tagged": self.tagged},
        )  # fmt: skip
        return cast(type[Document], made)

    @cached_property
    def write(self) -> Writes[Value]:
        """A value as it is encoded, with what is said beside it."""
        told = [key for key in self.keys if key.of]
        ways = [(place, key.write) for place, key in enumerate(told) if key.write is not None]
        beside = [(place, key.name) for place, key in enumerate(self.keys) if not key.of]
        attributes, struct = attrgetter(*(key.of for key in told)), self.struct

        def write(value: Value, /, **more: Any) -> Document:
            said = [*attributes(value)]
            for place, way in ways:
                said[place] = way(said[place])
            for place, name in beside:
                said.insert(place, more[name])
            return struct(*said)

        return write

    def write_all(self, values: Sequence[Value]) -> list[Document]:
        """Values as they are encoded, of which there may be thousands: by key, not by value, which
        takes two thirds of the time."""
        columns: list[Iterable[Any]] = []
        for key in self.keys:
            column, way = map(attrgetter(key.of), values), key.write
            columns.append(column if way is None else [way(each) for each in column])
        return [*map(self.struct, *columns)]


_known: dict[type, Form[Any]] = {}
"""The first form of each class."""


def form_of(cls: type[Value]) -> Form[Value]:
    """How values of a class are written where nothing else is said. What has no row of its own is
    written by the rule alone."""
    for base in cls.__mro__:
        if base in _known:
            return _known[base]
    return Form(cls, cls.__name__, cls.__doc__ or "")


def told(value: msgspec.Struct) -> dict[str, Any]:
    """All fields of a value in their own order, each by its first name on the wire, also those that
    the wire leaves out."""
    return {
        camel(key.name): msgspec.to_builtins(
            getattr(value, key.of) if key.write is None else key.write(getattr(value, key.of)),
            enc_hook=str,
        )
        for key in _told(type(value))
    }


@cache
def _told(cls: type[msgspec.Struct]) -> tuple[Key, ...]:
    keys = form_of(cls).keys
    return tuple(
        next((key for key in keys if key.of == field.name), None) or _usual(field.name, field.type)
        for field in msgspec.structs.fields(cls)
    )


def read(cls: type[Value], document: object) -> Value:
    """The value of a class that a document stands for. Raises `Unreadable`."""
    try:
        return msgspec.convert(_shaped(cls, document), cls, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from None


def _shaped(cls: type[msgspec.Struct], document: object) -> dict[str, Any]:
    """A document by the names of the fields, each read in its way."""
    if not isinstance(document, dict):
        raise Unreadable("an object is missing")
    form = form_of(cls)
    shaped = dict(form.unsaid)
    for name, field, way in _reading(cls):
        if name in document:
            value = document[name]
            shaped[field] = value if way is None or value is None else way(value)
    for field, way in form.derived.items():
        shaped[field] = way(document)
    return shaped


@cache
def _reading(cls: type[msgspec.Struct]) -> tuple[tuple[str, str, Way | None], ...]:
    """What each field of a class is read from, and how."""
    keys = {key.of: key for key in form_of(cls).keys if not key.again}
    return tuple(
        (camel(key.name), field.name, key.read)
        for field in msgspec.structs.fields(cls)
        for key in (keys.get(field.name) or _usual(field.name, field.type),)
    )


def _path(kind: type, value: object) -> ScopedPath:
    """What `msgspec` asks for the one type of ours that JSON has not."""
    assert kind is ScopedPath
    return names_module.path_of(value)


def within(attribute: str, cls: type[msgspec.Struct], *names: str) -> list[Key]:
    """The keys of some fields of what a value holds in an attribute, by the rule."""
    fields = {field.name: field.type for field in msgspec.structs.fields(cls)}
    return [_usual(name, fields[name])._replace(of=f"{attribute}.{name}") for name in names]


# --- the rule ---------------------------------------------------------------------------------


def _usual(field: str, hint: Any) -> Key:
    """The key of a field, by its name and its type."""
    name, kind = names_module.wire_name(field), _type(hint)
    if field.startswith("sha256"):
        return Key(name, field, kind, names_module.hash_of, names_module.digits_of)
    if field == "file_mode":
        return Key(name, field, str, names_module.octal, names_module.bits_of)
    if field.endswith("_ns"):
        return Key(name, field, kind, names_module.milliseconds, names_module.nanoseconds)
    if hint is ScopedPath:
        return Key(name, field, kind, str)
    if hint == ScopedPath | None:
        return Key(name, field, kind, _path_or_none)
    element = get_args(hint)[0] if get_origin(hint) is list else None
    if element is ScopedPath:
        return Key(name, field, kind, lambda paths: [*map(str, paths)])
    if _is_value(element):
        return Key(name, field, kind, form_of(element).write_all, partial(_all, element))
    return Key(name, field, kind)


def _path_or_none(path: ScopedPath | None) -> str | None:
    return None if path is None else str(path)


def _all(cls: type[msgspec.Struct], values: object) -> list[dict[str, Any]]:
    if not isinstance(values, list):
        raise Unreadable("a list is missing")
    return [_shaped(cls, each) for each in values]


def _type(hint: Any) -> Any:
    """A type as JSON has it: a path is text, and so is a word out of several."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is ScopedPath or origin is Literal:
        return str
    if origin in (Union, UnionType):
        return Union[tuple(map(_type, arguments))]  # noqa: UP007
    if origin is list:
        return list[_type(arguments[0])]  # type: ignore[misc]
    return form_of(hint).struct if _is_value(hint) else hint


def _is_value(hint: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
