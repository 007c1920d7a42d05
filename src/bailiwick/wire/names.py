"""What a field is called on the wire, and how what it holds is written and read.

What is read is checked as far as its type does not say it: what is no hash, no octal text, no time
or no path of a root is `Unreadable`.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache

from bailiwick.paths import ScopedPath


class Unreadable(ValueError):
    """Something that cannot be what it says."""


def camel(name: str) -> str:
    """A name as the wire spells it."""
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))


def wire_name(field: str) -> str:
    """What a field is called on the wire, still in snake case."""
    if field == "size":
        return "size_bytes"
    if field.endswith("_ns"):
        return field.removesuffix("_ns") + "_ms"
    return field.replace("sha256", "hash")


def hash_of(sha256: str | None) -> str | None:
    return None if sha256 is None else f"sha256:{sha256}"


def digits_of(value: object) -> str:
    if not isinstance(value, str) or not _is_sha256(value):
        raise Unreadable("a hash is no hash")
    return value.removeprefix("sha256:")


@lru_cache(maxsize=256)
def octal(bits: int) -> str:
    """Permission bits."""
    return f"{bits:04o}"


def bits_of(value: object) -> int:
    if not isinstance(value, str) or not _is_octal(value):
        raise Unreadable("permission bits are no octal text")
    return int(value, 8)


def milliseconds(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1_000_000


def nanoseconds(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable("a time is no number")
    return value * 1_000_000


def base64_of(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")


def bytes_of(value: object) -> bytes:
    if not isinstance(value, str):
        raise Unreadable("bytes are no text")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Unreadable("bytes are no base64") from None


def path_of(value: object) -> ScopedPath:
    """A path as only a root has them: callers take a `ScopedPath` for one, and join it to others.

    Not parsed as a caller's text is: what a root lists may be called what nobody could ask for.
    """
    if not isinstance(value, str):
        raise Unreadable("a path is no text")
    if value != "." and any(part in ("", ".", "..") for part in value.split("/")):
        raise Unreadable("a path leads out of the root")
    if "\0" in value:
        raise Unreadable("a path holds a NUL character")
    return ScopedPath(value)


def parent_of(path: object, name: object) -> ScopedPath:
    """The directory of an entry. Its name is one step, and its path ends with it."""
    if not isinstance(path, str) or not isinstance(name, str) or not name or "/" in name:
        raise Unreadable("an entry has no name")
    if path == name:
        return ScopedPath(".")
    if not path.endswith(f"/{name}"):
        raise Unreadable("an entry has two names")
    return path_of(path[: -len(name) - 1])


_is_octal = re.compile("0?[0-7]{4}").fullmatch
_is_sha256 = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
