"""What the TypeScript client is made from: the types and the table of routes of `openapi.json`.

`python -m release.typescript` writes `wire.d.ts` and `routes.js` anew; a test holds them equal to
what a server says of itself, so that a change of the wire is a line in a diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from bailiwick.fronts.http.openapi import encoded
from bailiwick.fronts.http.routes.approvals import APPROVAL_NOTICE
from bailiwick.wire import values

PLACE = Path(__file__).parents[1] / "clients" / "typescript"
TYPES, ROUTES = PLACE / "wire.d.ts", PLACE / "routes.js"
_IN_ROOT = "InRoot"
_NOTE = "// Written by `python -m release.typescript` from what the server says; not by hand.\n"
_BYTES = "Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | string"

_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean",
          "null": "null", "object": "Record<string, unknown>"}  # fmt: skip
_ANSWERS = {"application/json": "json", "application/x-ndjson": "lines",
            "text/event-stream": "events", "text/plain": "text", "*/*": "response"}  # fmt: skip


def type_of(schema: dict[str, Any]) -> str:
    """A schema as TypeScript writes it. Bounds are for the server to check."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        inner = type_of(schema.get("items", {}))
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"Record<string, {type_of(schema['additionalProperties'])}>"
    return _PLAIN.get(schema.get("type", ""), "unknown")


def _comment(text: str, indent: str) -> str:
    words = " ".join(text.split()).replace("``", "`").replace("*/", "* /")
    return f"{indent}/** {words} */\n" if words else ""


def interface(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    lines = [_comment(schema.get("description", ""), ""), f"export interface {name} {{\n"]
    for field, inner in schema.get("properties", {}).items():
        about = inner.get("description", "")
        note = f"@deprecated {about}" if inner.get("deprecated") else about
        # A field without need of a value may be left out by who asks, and by an older server.
        mark = "" if field in required else "?"
        lines += [_comment(note, "  "), f"  {field}{mark}: {type_of(inner)};\n"]
    return "".join([*lines, "}\n"])


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each operation by its name, with its method and path; a root's own form is the same one."""
    every = {
        told["operationId"]: {**told, "method": method.upper(), "path": path}
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    }
    plain = {name: told for name, told in every.items() if not name.endswith(_IN_ROOT)}
    return {name: {**told, "rooted": f"{name}{_IN_ROOT}" in every} for name, told in plain.items()}


def _body(told: dict[str, Any]) -> tuple[str | None, str]:
    """What kind of body an operation has, and its type."""
    content = told.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        return "json", type_of(content["application/json"]["schema"])
    return ("bytes", f"{{ body: {_BYTES} }}") if content else (None, "")


def fields_of_body(told: dict[str, Any], document: dict[str, Any]) -> set[str]:
    schema = document["components"]["schemas"].get(_body(told)[1], {})
    return set(schema.get("properties", ()))


def _answer(told: dict[str, Any]) -> tuple[str, str]:
    """How an answer is read, and its type."""
    done = next(each for status, each in told["responses"].items() if status in ("200", "201"))
    ((media, inner),) = done.get("content", {"*/*": {}}).items()
    kind = _ANSWERS[media]
    types = {
        "lines": "AsyncGenerator<ExecLine, void>", "events": "AsyncGenerator<Event, void>",
        "text": "Promise<string>", "response": "Promise<Response>",
    }  # fmt: skip
    return kind, types.get(kind) or f"Promise<{type_of(inner.get('schema', {}))}>"


def route(told: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """The row of an operation in the table that the client goes by."""
    query = [each["name"] for each in told.get("parameters", ()) if each["in"] == "query"]
    kind, _ = _body(told)
    fields = fields_of_body(told, document)
    asked = "body" if "approval" in fields else "query" if "approval" in query else None
    return {
        "method": told["method"], "path": told["path"], "rooted": told["rooted"], "query": query,
        "body": kind, "answer": _answer(told)[0], "approval": asked,
    }  # fmt: skip


def signature(name: str, told: dict[str, Any]) -> str:
    fields, needed = [], False
    for each in told.get("parameters", ()):
        if each["in"] in ("query", "path"):
            must = each.get("required") or each["in"] == "path"
            needed = needed or must
            about = _comment(each.get("description", ""), "    ")
            fields.append(f"{about}    {each['name']}{'' if must else '?'}: "
                          f"{type_of(each['schema'])};\n")  # fmt: skip
    _, body = _body(told)
    needed = needed or bool(body)
    parts = [f"{{\n{''.join(fields)}  }}"] if fields else []
    given = " & ".join([*parts, *([body] if body else [])]) or "Record<string, never>"
    about = _comment(told.get("summary") or told.get("description", ""), "  ")
    return (
        f"{about}  {name}(given{'' if needed else '?'}: {given}, how?: How): {_answer(told)[1]};\n"
    )


_NOTICES = {
    "approval": APPROVAL_NOTICE.struct, "run": values.RUN_NOTICE.struct,
    "review": values.REVIEW_NOTICE.struct,
}  # fmt: skip
"""What the stream of events tells besides changes, by the names of its events."""


def told_events() -> str:
    """Everything that the stream of events tells, each with the name of its event."""
    references, schemas = msgspec.json.schema_components(
        list(_NOTICES.values()), ref_template="#/components/schemas/{name}"
    )
    names = {"change": "Event"} | {
        event: type_of(told) for event, told in zip(_NOTICES, references, strict=True)
    }
    union = "".join(f"\n  | ({{ event: {json.dumps(e)} }} & {name})" for e, name in names.items())
    return (
        "".join(f"\n{interface(name, schemas[name])}" for name in sorted(schemas))
        + f"\n/** What the stream of events tells; `event` says what it is. */\n"
        f"export type Told ={union};\n"
    )


_FOLLOW = (
    "\n  /** Every change, question, run and verdict as it comes, each with its `event`. */\n"
    '  follow(given?: Parameters<Operations["events"]>[0], how?: How):'
    " AsyncGenerator<Told, void>;\n"
)


def document() -> dict[str, Any]:
    """What the server says of itself."""
    told: dict[str, Any] = json.loads(encoded())
    return told


def files() -> dict[Path, str]:
    """The text of both files."""
    whole = document()
    named = operations(whole)
    schemas = whole["components"]["schemas"]
    types = [
        _NOTE, 'import type { How } from "./index.js";\n',
        *(f"\n{interface(name, schemas[name])}" for name in sorted(schemas)), told_events(),
        "\n/** Every operation of a server, by its name in openapi.json. */\n",
        "export interface Operations {\n",
        "\n".join(signature(name, told) for name, told in named.items()), _FOLLOW, "}\n",
    ]  # fmt: skip
    rows = (f"  {name}: {json.dumps(route(told, whole))},\n" for name, told in named.items())
    table = [_NOTE, "/** @type {Record<string, import('./index.js').Route>} */\n",
             "export const ROUTES = {\n", *rows, "};\n"]  # fmt: skip
    return {TYPES: "".join(types), ROUTES: "".join(table)}


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
