"""Messages between code and whoever answers it: four bytes that say how long it is, then JSON.

What comes from the sandbox was written by whoever wrote the code, whatever it looks like: it is
taken for what it says only where it has exactly the form of a message, and its length is known
before any of it is kept. What goes there holds no more than what code may know.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath

_LENGTH_BYTES: Final = 4


class ChannelBroken(Exception):
    """What came is no message: nothing that comes after it can be understood."""


class Raised(msgspec.Struct, forbid_unknown_fields=True):
    """An exception that the code did not catch, as it tells it."""

    type: str
    message: str
    kind: str | None
    traceback: str


class CodeMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A call, or the end: what the code came to (``done``) or the exception it ended with."""

    id: int = 0
    on: int = 0
    verb: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    done: msgspec.Raw = msgspec.Raw()
    raised: Raised | None = None

    @property
    def value(self) -> Any:
        return read(bytes(self.done), Any)


class MessageReader:
    """Takes messages out of the bytes that come."""

    def __init__(self, message_bytes_max: int) -> None:
        self._most = message_bytes_max
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[CodeMessage]:
        """The messages that are whole by now. Raises `ChannelBroken`."""
        self._pending += data
        while len(self._pending) >= _LENGTH_BYTES:
            length = int.from_bytes(self._pending[:_LENGTH_BYTES], "big")
            if length > self._most:
                raise ChannelBroken("a message is longer than it may be")
            end = _LENGTH_BYTES + length
            if len(self._pending) < end:
                return
            text = bytes(self._pending[_LENGTH_BYTES:end])
            del self._pending[:end]
            yield read(text, CodeMessage)


def read(text: bytes, kind: Any) -> Any:
    """A document from the sandbox. Raises `ChannelBroken`."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ChannelBroken(f"what came is no message: {error}") from None


def message(document: object) -> bytes:
    """A document for the sandbox."""
    text = json.dumps(document, separators=(",", ":")).encode()
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text


# --- what is told --------------------------------------------------------------------------------


def told(value: Any) -> Any:
    """A value for the sandbox: what JSON has not is an object with one name."""
    if isinstance(value, ScopedPath):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, msgspec.Struct):
        cls = type(value)
        return {
            "$record": [cls.__name__, {name: told(getattr(value, name)) for name in _names(cls)}]
        }
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    return {"$json": value}


@cache
def _names(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a value, and what it tells besides."""
    beside = {name for base in cls.__mro__ for name, each in vars(base).items()
              if isinstance(each, property) and not name.startswith("_")}  # fmt: skip
    return (*cls.__struct_fields__, *sorted(beside))


def error_told(error: BailiwickError) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "text": str(error),
        "message": error.message,
        "path": None if error.path is None else str(error.path),
        "hint": error.hint,
        "decided_by": error.decided_by,
        "details": json.loads(json.dumps(error.details, default=str)),
        "retryable": error.retryable,
        "errno": error.errno,
    }
