"""OpenAPI 3.1, made from the table that routes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from bailiwick.fronts.http.messages.conditions import takes_if_match, terms_of
from bailiwick.fronts.http.messages.errors import ErrorBody
from bailiwick.fronts.http.messages.idempotency import HEADER, KEY_CHARACTERS_MAX, takes_key
from bailiwick.fronts.http.messages.replies import PendingReply
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.fronts.http.routes.system import version
from bailiwick.fronts.http.table import Route
from bailiwick.wire.arguments import FORK, OCTAL, Argument

_ALWAYS = (400, 403, 404, 405, 408, 429, 431, 500, 503)
"""Statuses of errors that any route may answer."""

_WITH_BODY = (413, 415)
_WITH_KEY = (413, 507)
_SCOPED = (501,)
_CHANGING = (409, 413, 423, 507)

_REASONS = {
    200: "Done.", 201: "Made.", 202: "A person is being asked; come back with the approval.",
    206: "A part of the file.", 304: "As the client has it.", 400: "Malformed.",
    401: "No token, or none that is known.", 403: "Refused.", 404: "Not there.",
    405: "Not by this method.", 408: "The request did not come in time.", 409: "Not as expected.",
    412: "A condition does not hold.", 413: "Too large.", 415: "Not of the right type.",
    416: "The range lies outside.", 422: "The content does not fit.", 423: "Locked.",
    429: "Too often.", 431: "Headers too large.", 500: "A fault of the server.",
    501: "Not something this root can do.", 503: "Not now.", 507: "No room.",
}  # fmt: skip


def error_statuses(route: Route) -> tuple[int, ...]:
    """Every status of an error that a route may answer."""
    found = {*_ALWAYS, *route.raises}
    if route.who != "anyone":
        found.add(401)
    if route.body is not None or route.raw_body:
        found.update(_WITH_BODY)
    if any(terms_of(route)):
        found.add(412)
    if takes_key(route):
        found.update(_WITH_KEY)
    if route.rooted:
        found.update(_SCOPED)
        if route.changes:
            found.update(_CHANGING)
    return tuple(sorted(found))


def document() -> dict[str, Any]:
    """The whole description."""
    shapes = {ErrorBody, PendingReply}
    for route in ROUTES:
        shapes.update(shape for shape in (route.body, route.result) if shape is not None)
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    schemas, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    known = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        for prefix in ("", "/roots/{kind}/{id}") if route.rooted else ("",):
            operations = paths.setdefault(prefix + _path(route, prefix), {})
            operations[route.method.lower()] = _operation(route, known, prefix)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bailiwick",
            "version": version(),
            "description": "The filesystem for AI agents, over HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


@lru_cache(maxsize=1)
def encoded() -> bytes:
    return msgspec.json.encode(document())


def _path(route: Route, prefix: str) -> str:
    """The path; a name in it must not be one of the prefix too."""
    return route.path.replace("{id}", "{item}") if prefix else route.path


def _operation(route: Route, known: dict[Any, Any], prefix: str) -> dict[str, Any]:
    parameters = [_parameter(each) for each in route.parameters]
    if route.rooted:
        parameters.append(_parameter(FORK))
    parameters += _headers(route)
    parameters += [_in_path("item" if prefix and name == "id" else name) for name in route.names]
    if prefix:
        parameters += [_in_path("kind"), _in_path("id")]
    operation: dict[str, Any] = {
        "operationId": route.name + ("InRoot" if prefix else ""),
        "summary": route.about,
        "tags": [route.family],
        "parameters": parameters,
        "responses": _responses(route, known),
    }
    if route.body is not None:
        content = {"application/json": {"schema": known[route.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.raw_body:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.who == "anyone":
        operation["security"] = []
    return operation


def _parameter(parameter: Argument) -> dict[str, Any]:
    schema: dict[str, Any]
    if parameter.kind == "integer":
        schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    elif parameter.kind == "mode":
        schema = {"type": "string", "pattern": f"{OCTAL}|^(0|[1-9][0-9]{{0,3}})$"}
    elif parameter.kind == "boolean":
        schema = {"type": "boolean"}
    elif parameter.choices:
        schema = {"type": "string", "enum": list(parameter.choices)}
    else:
        schema = {"type": "string", "maxLength": parameter.characters_max}
        if parameter.required:
            schema["minLength"] = 1
    return {
        "name": parameter.shown,
        "in": "query",
        "required": parameter.required,
        "description": parameter.about,
        "schema": schema,
    }


def _headers(route: Route) -> list[dict[str, Any]]:
    """The headers that mean something on this route, besides those of every request."""
    found = []
    if takes_if_match(terms_of(route)):
        about = 'The ETag of what is changed, its hash as "sha256:…", or *.'
        found.append(("If-Match", about, 1_024))
    if takes_key(route):
        about = "The same key is answered the same within a day, without doing it twice."
        found.append((HEADER.decode().title(), about, KEY_CHARACTERS_MAX))
    return [
        {
            "name": name, "in": "header", "required": False, "description": about,
            "schema": {"type": "string", "minLength": 1, "maxLength": most},
        }
        for name, about, most in found
    ]  # fmt: skip


def _in_path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _responses(route: Route, known: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in route.statuses:
        responses[str(status)] = {"description": _REASONS[status], **_content(route, known, status)}
    if route.asks:
        pending = {"application/json": {"schema": known[PendingReply]}}
        responses["202"] = {"description": _REASONS[202], "content": pending}
    for status in error_statuses(route):
        failure = {"application/json": {"schema": known[ErrorBody]}}
        responses[str(status)] = {"description": _REASONS[status], "content": failure}
    return responses


def _content(route: Route, known: dict[Any, Any], status: int) -> dict[str, Any]:
    if status == 304 or route.method == "HEAD":
        return {}
    if route.answers == "bytes":
        return {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}
    if route.answers == "events":
        return {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
    if route.answers == "lines":
        return {"content": {"application/x-ndjson": {"schema": known[route.result]}}}
    if route.answers == "text":
        return {"content": {"text/plain": {"schema": {"type": "string"}}}}
    if route.answers == "document":
        return {"content": {"application/json": {"schema": {"type": "object"}}}}
    assert route.result is not None, f"{route.name} answers JSON of some shape"
    return {"content": {"application/json": {"schema": known[route.result]}}}
