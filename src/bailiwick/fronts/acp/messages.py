"""What the proxy reads of a message, and how strictly.

An agent's file calls must reach the scope and nothing else, so a message of the agent goes to the
editor only where no reader could take it for a file call. Readers differ: in what they forgive
(``NaN``, comments, another encoding), in which of two equal keys they take, in what they think ends
a line. What is not plain JSON-RPC of one line is therefore not passed on at all.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

FILE_METHODS = ("fs/", "_bailiwick/")
"""How the methods begin that are about files: the protocol's, and those of `extension`. Those we do
not know are not for the editor either: it would serve them itself, beside the scope."""

READ, WRITE = "fs/read_text_file", "fs/write_text_file"

OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
"""The requests in which an editor says where it works."""


class Malformed(Exception):
    """This is no message of the protocol."""


class Envelope(msgspec.Struct, frozen=True):
    """The members of a message that say what it is; the rest is left as it came."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        return self.method is not UNSET and self.id is not UNSET


_decode = msgspec.json.Decoder(Envelope).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder(enc_hook=str).encode

_half_characters = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""Half of a pair, as whoever cuts text by UTF-16 units sends it. Readers take it, our parser does
not; it cannot change what a message is, so it is looked past."""

_token = re.compile(
    rb'(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")(?P<named>\s*:)?|[{\[]|(?P<end>[}\]])', re.DOTALL
).finditer
"""What matters to tell the outermost names of valid JSON from everything else."""


def read(line: bytes) -> Envelope:
    """The message in a line, as far as every reader would agree on it. Raises `Malformed`."""
    try:
        line.decode()
        try:
            envelope = _decode(line)
        except msgspec.DecodeError:
            envelope = _decode(_half_characters.sub(rb"\\ufffd", line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("it is not a JSON object of one line") from None
    if _may_repeat(line) and _repeats(line):
        raise Malformed("a member stands in it twice")
    if _hides_file_call(line):
        raise Malformed("a part of it reads like a file call")
    return envelope


def _may_repeat(line: bytes) -> bool:
    """Whether a member's name could stand there twice: each once and unescaped cannot."""
    return line.count(b'"method"') > 1 or line.count(b'"id"') > 1 or b"\\u" in line


def _repeats(line: bytes) -> bool:
    """Whether a name stands twice in the outermost object of valid JSON."""
    depth, names = 0, set()
    for token in _token(line):
        if token["text"] is None:
            depth += -1 if token["end"] else 1
        elif depth == 1 and token["named"]:
            name = _decode_any(_half_characters.sub(rb"\\ufffd", token["text"]))
            if name in names:
                return True
            names.add(name)
    return False


def _hides_file_call(line: bytes) -> bool:
    """Whether a reader for whom more than a line feed ends a line would find a file call in it."""
    pieces = line.decode().splitlines()
    return len(pieces) > 1 and any(_is_file_call(piece.encode()) for piece in pieces)


def _is_file_call(piece: bytes) -> bool:
    plain = any(beginning.encode() in piece for beginning in FILE_METHODS)
    if not plain and b"\\u" not in piece and b"\\/" not in piece:
        return False
    try:
        method = _decode(piece).method
    except (msgspec.DecodeError, RecursionError):
        return False
    return method is not UNSET and method.startswith(FILE_METHODS)


def members(value: Raw | UnsetType) -> dict[str, Any]:
    """The members of an object, decoded; none where it is no object. Raises `Malformed` for text
    that cannot be kept, such as half a character."""
    if value is UNSET:
        return {}
    try:
        decoded = _decode_any(value)
    except (msgspec.DecodeError, RecursionError):
        raise Malformed("the parameters cannot be read") from None
    return decoded if isinstance(decoded, dict) else {}


def id_of(envelope: Envelope) -> Any:
    """The id of a message: a text or a number; None where there is none."""
    return None if envelope.id is UNSET else _decode_any(envelope.id)


def with_files_served(line: bytes, *, read: bool, write: bool, meta: dict[str, Any]) -> bytes:
    """``initialize`` as the agent gets it: the file capabilities are those that are served here,
    everything else stands as the editor sent it. ``meta`` is what is said of them beyond the
    protocol, beside what the editor says there."""
    message = _members_of(line)
    params = _members_of(message.get("params"))
    capabilities = _members_of(params.get("clientCapabilities"))
    files = _members_of(capabilities.get("fs"))
    served: dict[str, object] = {
        "readTextFile": read, "writeTextFile": write,
        "_meta": {**_meta_of(files), **meta},
    }  # fmt: skip
    told = {**capabilities, "fs": served}
    return encode({**message, "params": {**params, "clientCapabilities": told}}) + b"\n"


def _meta_of(files: dict[str, Raw]) -> dict[str, Raw]:
    """What the editor says beyond the protocol; nothing where that is no object."""
    with suppress(msgspec.DecodeError):
        return _members_of(files.get("_meta"))
    return {}


def _members_of(value: Any) -> dict[str, Raw]:
    if value is None or (isinstance(value, Raw) and bytes(value).strip() == b"null"):
        return {}
    return _decode_members(value)


_BEGINNING = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(?P<id>\d{1,18}|"[^"\\]{0,256}")\s*,'
    rb'\s*"(?P<what>method|result|error)"'
).match


def beginning_of(prefix: bytes) -> tuple[Raw, str] | None:
    """The id of a message of which only the beginning is known, and whether it is a request
    (``method``) or an answer; None where that cannot be told."""
    found = _BEGINNING(prefix)
    return None if found is None else (Raw(found["id"]), found["what"].decode())
