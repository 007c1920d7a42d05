"""Places and what is known of them, as fsspec spells both."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from bailiwick.model import Entry, Stat
from bailiwick.scope import Scope

Info = dict[str, Any]


def place_of(path: str) -> str:
    """A path of fsspec as the scope spells it. What begins with a slash begins at the top."""
    return path.strip("/") or "."


def info_of(found: Stat, place: str) -> Info:
    return {
        "name": _name(place), "size": found.size, "type": found.type, "mtime": found.mtime_ns / 1e9,
        "mode": found.mode, "version": found.version,
    }  # fmt: skip


async def entry_info(scope: Scope, entry: Entry) -> Info:
    """An entry of a listing. A link to a file is that file; one to a directory is a link, so that
    whoever walks comes to an end."""
    info: Info = {
        "name": _name(entry.path), "size": entry.size, "type": entry.type,
        "mtime": entry.mtime_ns / 1e9,
    }  # fmt: skip
    if entry.type == "symlink":
        info["islink"] = True
        info["type"] = "link"
        with suppress(OSError):
            found = await scope.stat(str(entry.path))
            if found.type == "file":
                return {**info_of(found, str(entry.path)), "islink": True}
    return info


def _name(place: str) -> str:
    """A place of the scope as fsspec spells it."""
    return "" if place == "." else str(place)
