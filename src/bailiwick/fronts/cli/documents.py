"""Values as JSON has them: the same names as on the HTTP wire, so that one reader reads both.

camelCase; sizes are ``sizeBytes``, times ``…Ms``, a hash is ``sha256:…``, and ``kind`` says what a
document is. These names are a promise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bailiwick.fronts.cli.output import plain
from bailiwick.model import Entry, Found, Stat, TextRead

_NAMES = {
    "size": "sizeBytes",
    "sha256": "hash",
    "sha256_before": "hashBefore",
    "sha256_after": "hashAfter",
    "mtime_ns": "modifiedMs",
}


def camel(name: str) -> str:
    """A field's name on the wire."""
    if name in _NAMES:
        return _NAMES[name]
    return _joined(name.removesuffix("_ns") + "_ms" if name.endswith("_ns") else name)


def _joined(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def document(kind: str, value: msgspec.Struct, **more: object) -> dict[str, Any]:
    """A result as a document, all its fields under their wire names."""
    return {"kind": kind, **{_joined(k): plain(v) for k, v in more.items()}, **fields(value)}


def fields(value: msgspec.Struct) -> dict[str, Any]:
    return {camel(name): _wire(name, getattr(value, name)) for name in value.__struct_fields__}


def _wire(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "file_mode":
        return f"{value:04o}"
    if name.startswith("sha256"):
        return f"sha256:{value}"
    if name.endswith("_ns") and isinstance(value, int):
        return value // 1_000_000
    if isinstance(value, Entry):
        return entry(value)
    if isinstance(value, msgspec.Struct):
        return fields(value)
    if isinstance(value, (list, tuple)):
        return [_wire("", item) for item in value]
    return plain(value)


def entry(value: Entry) -> dict[str, Any]:
    """A row of a listing."""
    return {
        "name": value.name, "path": str(value.path), "type": value.type, "kind": value.type,
        "ignored": value.ignored, "sizeBytes": value.size,
        "modifiedMs": value.mtime_ns // 1_000_000, "addressable": value.addressable,
    }  # fmt: skip


def listing(path: str, entries: Iterable[Entry]) -> dict[str, Any]:
    """All entries of a directory: the pages of it were gone through."""
    return {
        "kind": "list", "path": path, "entries": [entry(each) for each in entries],
        "truncated": False, "nextCursor": None,
    }  # fmt: skip


def found_document(value: Found) -> dict[str, Any]:
    told = document("find", value)
    return told | {"path": told.pop("base"), "entries": told.pop("matches")}


def stat_document(value: Stat) -> dict[str, Any]:
    return document("stat", value, modified_ns=value.mtime_ns, file_mode=f"{value.mode:04o}")


def text_document(value: TextRead) -> dict[str, Any]:
    told = document("file", value)
    told["content"] = told.pop("text")
    feeds = value.line_feeds
    count = None if feeds is None else feeds + 1
    return told | {"originalLineCount": count, "hasMore": value.next_cursor is not None}
