"""From a row of the table of verbs to its route: the body it takes, the arguments of the verb as a
request says them, and the handler of what is a verb and nothing else.

What can be known of a row is worked out once, when its route is made.
"""

from __future__ import annotations

import base64
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec

from bailiwick.errors import ParseError
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.model import Edit
from bailiwick.scope import Scope
from bailiwick.wire import values
from bailiwick.wire.arguments import Argument, argument_name
from bailiwick.wire.verbs import Verb

Handler = Callable[[Request], Awaitable[Any]]


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request: what is not known in it is refused."""


def route(verb: Verb[Any], handler: Handler | None = None, **unusual: Any) -> Route:
    """The route of a verb. With no handler of its own it is the verb and nothing else."""
    has_body = verb.method == "POST"
    usual: dict[str, Any] = {
        "method": verb.method, "path": verb.path, "name": verb.id, "about": verb.about,
        "family": verb.family, "handler": handler or (_doing if has_body else _looking)(verb),
        "parameters": () if has_body else verb.takes, "body": body_of(verb) if has_body else None,
        "result": verb.struct, "statuses": verb.statuses, "raises": verb.raises,
        "needs": verb.needs, "verb": verb.name, "changes": verb.changes, "asks": verb.asks,
        "example": f"{verb.method} {verb.example}",
    }  # fmt: skip
    return Route(**{**usual, **unusual})


@cache
def body_of(verb: Verb[Any]) -> type[Body]:
    """What a verb takes in the body of a request."""
    return new_body(f"{verb.short.title()}Body", verb.takes)


def new_body(
    name: str, takes: Iterable[Argument], base: type[Body] = Body, **more: Any
) -> type[Body]:
    fields = [each.field for each in takes]
    made = msgspec.defstruct(name, fields, bases=(base,), frozen=True, kw_only=True, **more)
    return cast(type[Body], made)


def _doing(verb: Verb[Any]) -> Handler:
    """A change. Its grant is one for the path it names, or else for where something goes, or for
    everything."""
    name, body = verb.name, body_of(verb)
    place, asked, answered = _place_in(body), from_body(name, body), answering(verb)

    async def handler(request: Request) -> Any:
        body = request.body
        scope = await request.scoped(place(body))
        return answered(await getattr(scope, name)(**asked(body)))

    return handler


def _looking(verb: Verb[Any]) -> Handler:
    """A look at a place, the whole root unless told; or at what has no place."""
    name, write, asked = verb.name, verb.form.write, from_query(verb.name, verb)
    has_place = any(each.name == "path" for each in verb.takes)
    beside = [key.name for key in verb.form.keys if not key.of]

    async def handler(request: Request) -> Any:
        query, began = request.query, time.perf_counter()
        scope = await request.scoped(query.get("path", ".") if has_place else None)
        found = await getattr(scope, name)(**asked(query))
        return write(found, **{each: _BESIDE[each](query, found, began) for each in beside})

    return handler


def answering(verb: Verb[Any]) -> Callable[[Any], Any]:
    """What a change is answered with: 201 where something was made."""
    write, fields = verb.form.write, verb.form.of.__struct_fields__
    if verb.statuses == (200,):
        return write
    if verb.statuses == (201,):
        return lambda result: Reply(write(result), 201)
    made = attrgetter("created" if "created" in fields else "changed")
    return lambda result: Reply(write(result), 201 if made(result) else 200)


def from_body(verb: str, body: type[Body]) -> Callable[[Any], dict[str, Any]]:
    """What reads the arguments of a verb from a body."""
    ways = [
        (name, _IN_BODY.get(name) or attrgetter(key))
        for name, key in _arguments(verb)
        if name in _IN_BODY or key in body.__struct_fields__
    ]
    return lambda body: {name: way(body) for name, way in ways}


def from_query(verb: str, row: Verb[Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What reads the arguments of a verb from a query: those that are given."""
    taken = {each.name for each in row.takes}
    ways = [
        (name, key, _IN_QUERY.get(name, _as_it_is))
        for name, key in _arguments(verb)
        if key in taken
    ]
    return lambda query: {name: way(query[key]) for name, key, way in ways if key in query}


def _arguments(verb: str) -> list[tuple[str, str]]:
    """What a verb takes, and what each is called on the wire."""
    taken = [*inspect.signature(getattr(Scope, verb)).parameters][1:]
    return [(name, argument_name(name)) for name in taken]


def _as_it_is(value: Any) -> Any:
    return value


def _place_in(body: type[Body]) -> Callable[[Any], str | None]:
    if "path" in body.__struct_fields__:
        return attrgetter("path")
    return place_of if "destination" in body.__struct_fields__ else lambda body: None


def place_of(body: Any) -> str:
    """Where something goes, under either of two names. Raises `ParseError` where that is not said,
    or said twice."""
    if body.destination is not None and body.to is not None:
        raise ParseError("destination and to are two names of one thing: give one of them")
    place: str | None = body.destination or body.to
    if place is None:
        raise ParseError("the body is wrong: it has no destination")
    return place


def sha256_of(text: str | None) -> str | None:
    """The hex digits of a hash as a client wrote it: with ``sha256:`` before them, or alone."""
    if text is None:
        return None
    digits = text.removeprefix("sha256:")
    if len(digits) != 64 or not set(digits) <= _HEX:
        raise ParseError("a hash is written sha256: and 64 lowercase hex digits")
    return digits


_HEX = frozenset("0123456789abcdef")


def _expected(body: Any) -> str | None:
    """The hash that a client expects, under either of its names."""
    first, second = sha256_of(body.expected_hash), sha256_of(body.expected_sha256)
    if first is not None and second is not None and first != second:
        raise ParseError("expectedHash and expectedSha256 say two different things")
    return first or second


def _mode_bits(body: Any) -> int | None:
    given: str | int | None = body.file_mode
    return int(given, 8) if isinstance(given, str) else given


def _edits(body: Any) -> list[Edit] | None:
    return None if body.edits is None else [each.meant for each in body.edits]


def _addition(body: Any) -> bytes | str:
    if (body.content is None) == (body.content_base64 is None):
        raise ParseError("give content, or contentBase64")
    if body.content is not None:
        return str(body.content)
    try:
        return base64.b64decode(body.content_base64 or "", validate=True)
    except ValueError:
        raise ParseError("contentBase64 is not base64") from None


_IN_BODY: Mapping[str, Callable[[Any], Any]] = {
    "data": _addition,
    "destination": place_of,
    "edits": _edits,
    "expected_destination_sha256": lambda body: sha256_of(body.expected_destination_hash),
    "expected_sha256": _expected,
    "file_mode": _mode_bits,
    "to": place_of,
}
"""Arguments that a body does not say as they are, or under more than one name."""

_IN_QUERY: Mapping[str, Callable[[Any], Any]] = {
    "expected_sha256": sha256_of,
    "max_file_bytes": lambda most: most or None,
}

_BESIDE: Mapping[str, Callable[[Mapping[str, Any], Any, float], Any]] = {
    "duration_ms": lambda query, found, began: round((time.perf_counter() - began) * 1_000, 3),
    "entries": lambda query, found, began: (
        values.ENTRY.write_all(found.matches) if query.get("entries") else None
    ),
    "fork": lambda query, found, began: query["name"],
    "path": lambda query, found, began: query.get("path", "."),
    "pattern": lambda query, found, began: query["pattern"],
}
"""What an answer says beside the value that was found."""
