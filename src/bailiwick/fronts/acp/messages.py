"""What the proxy reads of a message, and how strictly.

An agent's file calls must reach the scope and nothing else, so a message of the agent goes to the
editor only where no reader could take it for a file call. Readers differ: in what they forgive
(``NaN``, comments, another encoding), in which of two equal keys they take, in what they think ends
a line. What is not plain JSON-RPC of one line is therefore not passed on at all.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from bailiwick.fronts.acp.members import Malformed, check_members, decode_members, known_names

FILE_METHODS = ("fs/", "_bailiwick/")
"""How the methods begin that are about files: the protocol's, and those of `extension`. Those we do
not know are not for the editor either: it would serve them itself, beside the scope."""

READ, WRITE = "fs/read_text_file", "fs/write_text_file"

OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
"""The requests in which an editor says where it works."""

_NAMES = known_names("jsonrpc", "id", "method", "params", "result", "error")

Id = str | int | None
"""What the protocol lets a request be known by."""


class Message(NamedTuple):
    """The members of a message that say what it is; the rest is left as it came."""

    id: Raw | None
    """As it stands there, which is how it is answered; None where there is none."""
    key: Id
    """The same, to be compared."""
    method: str | None
    params: Raw | None
    result: Raw | None
    is_unicode: bool
    """Whether all of its text is. Where not, it is known what the message is, but its parameters
    are not those that were sent."""

    @property
    def is_file_call(self) -> bool:
        return self.method is not None and self.method.casefold().startswith(FILE_METHODS)


_decode_method = msgspec.json.Decoder(str).decode
_decode_id = msgspec.json.Decoder(Id).decode
_decode_any = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder(enc_hook=str).encode

_half_characters = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""Half of a pair, as whoever cuts text by UTF-16 units sends it; whole pairs too. Readers take a
half, our parser does not; it cannot change what a message is, so it is looked past to tell that."""

_STAND_IN = "\ufffd"


def read(line: bytes) -> Message:
    """The message in a line, as far as every reader would agree on it. Raises `Malformed`."""
    if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        # For some readers that ends a line, and what follows is a message of its own.
        raise Malformed("a line ends within it")
    is_unicode = True
    try:
        line.decode()
        try:
            members = decode_members(line)
        except msgspec.DecodeError:
            is_unicode = False
            line = _half_characters.sub(rb"\\ufffd", line)
            members = decode_members(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("it is not a JSON object of one line") from None
    check_members(line, members, _NAMES)
    message = _message(members, is_unicode=is_unicode)
    if not is_unicode and any(_STAND_IN in text for text in (*members, *_what_names(message))):
        # There are readers that drop what they cannot keep, and so read another name.
        raise Malformed("a name in it holds half a character")
    return message


def _message(members: dict[str, Raw], *, is_unicode: bool) -> Message:
    request, method = members.get("id"), members.get("method")
    try:
        key = None if request is None else _decode_id(request)
    except msgspec.DecodeError:
        raise Malformed("its id is neither a text nor a whole number") from None
    try:
        called = None if method is None else _decode_method(method)
    except msgspec.DecodeError:
        raise Malformed("its method is no text") from None
    return Message(request, key, called, members.get("params"), members.get("result"), is_unicode)


def _what_names(message: Message) -> tuple[str, str]:
    return message.method or "", str(message.key)


def members(value: Raw | None) -> dict[str, Any]:
    """The members of an object, decoded; none where it is no object. Raises `Malformed` for a value
    that cannot be kept, such as a number beyond all bounds."""
    if value is None:
        return {}
    try:
        decoded = _decode_any(value)
    except (msgspec.DecodeError, RecursionError):
        raise Malformed("the parameters cannot be read") from None
    return decoded if isinstance(decoded, dict) else {}


def with_calls_served(
    line: bytes, *, read: bool, write: bool, meta: dict[str, Any], terminal: bool = False
) -> bytes:
    """``initialize`` as the agent gets it: the file capabilities are those that are served here,
    and so are terminals where they are; everything else stands as the editor sent it. ``meta`` is
    what is said of files beyond the protocol, beside what the editor says there."""
    message = _members_of(line)
    params = _members_of(message.get("params"))
    capabilities = _members_of(params.get("clientCapabilities"))
    files = _members_of(capabilities.get("fs"))
    served: dict[str, object] = {
        "readTextFile": read, "writeTextFile": write,
        "_meta": {**_meta_of(files), **meta},
    }  # fmt: skip
    told = {**capabilities, "fs": served, **({"terminal": True} if terminal else {})}
    return encode({**message, "params": {**params, "clientCapabilities": told}}) + b"\n"


def _meta_of(files: dict[str, Raw]) -> dict[str, Raw]:
    """What the editor says beyond the protocol; nothing where that is no object."""
    with suppress(msgspec.DecodeError):
        return _members_of(files.get("_meta"))
    return {}


def _members_of(value: Any) -> dict[str, Raw]:
    if value is None or (isinstance(value, Raw) and bytes(value).strip() == b"null"):
        return {}
    return decode_members(value)


_BEGINNING = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>0|[1-9]\d{0,17}|"[ !#-\[\]-~]{0,256}")\s*,'
    rb'\s*"(?P<what>method|result|error)"'
).match


def beginning_of(prefix: bytes) -> tuple[Raw, str] | None:
    """The id of a message of which only the beginning is known, and whether it is a request
    (``method``) or an answer; None where that cannot be told."""
    found = _BEGINNING(prefix)
    return None if found is None else (Raw(found["id"]), found["what"].decode())
