"""Values as JSON has them: by the names of the wire, so that one reader reads both.

Unlike there, a document holds all fields of its value, in their own order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bailiwick import wire
from bailiwick.model import Entry, Found, Stat, TextRead


def document(kind: str, value: msgspec.Struct, **more: object) -> dict[str, Any]:
    """A result as a document, all its fields under their wire names."""
    return {
        "kind": kind,
        **{wire.camel(name): each for name, each in more.items()},
        **fields(value),
    }


def fields(value: msgspec.Struct) -> dict[str, Any]:
    return wire.told(value)


def entry(value: Entry) -> dict[str, Any]:
    """A row of a listing."""
    row: dict[str, Any] = msgspec.to_builtins(wire.values.ENTRY.write(value))
    del row["modifiedNs"]
    return row


def listing(path: str, entries: Iterable[Entry]) -> dict[str, Any]:
    """All entries of a directory: the pages of it were gone through."""
    return {
        "kind": "list", "path": path, "entries": [entry(each) for each in entries],
        "truncated": False, "nextCursor": None,
    }  # fmt: skip


def found_document(value: Found) -> dict[str, Any]:
    told = document("find", value)
    told["path"] = told.pop("path")
    del told["entries"]
    return told | {"entries": [entry(each) for each in value.matches]}


def stat_document(value: Stat) -> dict[str, Any]:
    return document("stat", value, modified_ns=value.mtime_ns, file_mode=f"{value.mode:04o}")


def text_document(value: TextRead) -> dict[str, Any]:
    told = document("file", value)
    told["content"] = told.pop("content")
    written = msgspec.to_builtins(wire.values.FILE.write(value))
    return told | {name: written[name] for name in ("originalLineCount", "hasMore")}
