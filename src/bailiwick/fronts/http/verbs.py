"""Handlers that are a verb of a scope and nothing else: the verb is called with what the request
says, and what it returns is the answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from bailiwick.fronts.http.requests import Reply, Request, sha256_of
from bailiwick.fronts.http.wire import expected, mode_bits, place_of
from bailiwick.model import Edit
from bailiwick.scope import Scope
from bailiwick.wire import Form
from bailiwick.wire.arguments import argument_name

Handler = Callable[[Request], Awaitable[Any]]
Where = Literal["path", "destination", "everywhere"]


def doing(
    verb: str,
    form: Form[Any],
    *,
    where: Where = "path",
    made: Callable[[Any], bool] | None = None,
) -> Handler:
    """The handler of a change. Its grant is one for the place that ``where`` names, and the answer
    is 201 where something was ``made``."""

    async def handler(request: Request) -> Any:
        body = request.body
        scope = await request.scoped(_PLACES[where](body))
        result = await getattr(scope, verb)(**_asked(verb, body))
        document = form.write(result)
        return document if made is None else Reply(document, 201 if made(result) else 200)

    return handler


def looking(verb: str, form: Form[Any]) -> Handler:
    """The handler of a look at a place: the whole root, unless told."""

    async def handler(request: Request) -> Any:
        query = request.query
        scope = await request.scoped(query.get("path", "."))
        given = {name: query[key] for name, key in _parameters(verb) if key in query}
        return form.write(await getattr(scope, verb)(**given))

    return handler


@cache
def _parameters(verb: str) -> tuple[tuple[str, str], ...]:
    """What a verb takes, and what each is called on the wire."""
    taken = [*inspect.signature(getattr(Scope, verb)).parameters][1:]
    return tuple((name, argument_name(name)) for name in taken)


def _asked(verb: str, body: msgspec.Struct) -> dict[str, Any]:
    """The arguments of a verb, as a body says them."""
    return {
        name: _READ[name](body) if name in _READ else getattr(body, key)
        for name, key in _parameters(verb)
        if hasattr(body, key)
    }


def _edits(body: Any) -> list[Edit] | None:
    if body.edits is None:
        return None
    return [Edit(each.old_text, each.new_text, each.replace_all) for each in body.edits]


_PLACES: Mapping[Where, Callable[[Any], str | None]] = {
    "path": lambda body: body.path,
    "destination": place_of,
    "everywhere": lambda body: None,
}

_READ: Mapping[str, Callable[[Any], Any]] = {
    "edits": _edits,
    "expected_destination_sha256": lambda body: sha256_of(body.expected_destination_hash),
    "expected_sha256": lambda body: expected(body.expected_hash, body.expected_sha256),
    "destination": place_of,
    "file_mode": lambda body: mode_bits(body.file_mode),
    "to": place_of,
}
"""Arguments that are not said as they are, or under more than one name."""
