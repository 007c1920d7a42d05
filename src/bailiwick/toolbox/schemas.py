"""JSON Schemas of what tools take and answer, as small as they can be: each is sent to a model."""

from __future__ import annotations

from typing import Any

import msgspec

_SAYS_LITTLE = frozenset(("title", "default", "maximum"))
"""Names of structs, defaults that are what one would expect, bounds no model reaches."""


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    schema, parts = _schema_of(kind)
    compact: dict[str, Any] = _compact(schema, parts)
    return compact


def output_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a tool's answer: what is always there. More may be."""
    schema, parts = _schema_of(kind)
    properties = {
        name: _outline(_compact(schema["properties"][name], parts))
        for name in schema.get("required", ())
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _outline(schema: dict[str, Any]) -> dict[str, Any]:
    """The type alone; what a list holds or an object has is plain to see in the answer."""
    return {"type": schema["type"]} if "type" in schema else {}


def _schema_of(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    (reference,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    schema = dict(parts[reference["$ref"]])
    schema.pop("description", None)  # the struct's docstring speaks to readers of the code
    return schema, parts


def _compact(schema: Any, parts: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_compact(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = {k: v for k, v in parts[schema["$ref"]].items() if k != "description"}
        return _compact(part, parts)
    schema = {key: value for key, value in schema.items() if key not in _SAYS_LITTLE}
    some = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(some) == 1:  # optional: that it may be left out is said by its not being required
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _compact({**some[0], **rest}, parts)
    compact = {
        key: (
            {name: _compact(each, parts) for name, each in value.items()}
            if key == "properties"
            else _compact(value, parts)
        )
        for key, value in schema.items()
    }
    if compact.get("required") == []:
        del compact["required"]
    return compact
