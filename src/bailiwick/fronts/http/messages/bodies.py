"""The body of a request: read no further than it may be long, and decoded strictly."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

import msgspec

from bailiwick.errors import FileTooLarge, IoError, ParseError, UnsupportedMediaType
from bailiwick.fronts.http.settings import JSON_BYTES_MAX

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

Decoded = TypeVar("Decoded")

_CHARSETS = (b"", b"charset=utf-8", b'charset="utf-8"')


def too_large(limit: int) -> FileTooLarge:
    return FileTooLarge(
        f"the body is larger than {limit} bytes",
        hint="send larger content with PUT /file/raw",
        details={"limit": limit},
    )


def announced(headers: dict[bytes, bytes]) -> int | None:
    """How long the client says the body is."""
    length = headers.get(b"content-length")
    if length is None:
        return None
    if not length.isdigit() or len(length) > 18:
        raise ParseError("Content-Length is a number")
    return int(length)


def refuse_coded(headers: dict[bytes, bytes]) -> None:
    """Refuse a body that is not what is to be stored: one that must be unpacked first, and a part
    of something larger. Taken as they are, they would be written in place of it."""
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise UnsupportedMediaType(
            "a body is taken as it is sent, not unpacked", hint="send it without Content-Encoding"
        )
    if headers.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
        raise ParseError("the only Transfer-Encoding here is chunked")
    if b"content-range" in headers:
        raise ParseError(
            "a body is the whole content, not a part of it",
            hint="send all of it, without Content-Range; or add to the end: POST /file/append",
        )


async def chunks_of(
    receive: Receive, headers: dict[bytes, bytes], limit: int
) -> AsyncGenerator[bytes, None]:
    """The body as it comes. Raises `FileTooLarge` as soon as it is known to be."""
    if (announced(headers) or 0) > limit:
        raise too_large(limit)
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise IoError("the client went away in the middle of the request")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        if chunk:
            yield chunk
        if not message.get("more_body", False):
            return


async def read_json(
    receive: Receive, headers: dict[bytes, bytes], decoder: msgspec.json.Decoder[Decoded]
) -> Decoded:
    """A JSON body as the value it must be. Raises `ParseError`."""
    refuse_coded(headers)
    kind, _, parameters = headers.get(b"content-type", b"").partition(b";")
    charset = parameters.strip().lower()
    if kind.strip().lower() != b"application/json" or charset not in _CHARSETS:
        raise UnsupportedMediaType(
            "the body is JSON", hint="send the header: Content-Type: application/json"
        )
    pieces = [chunk async for chunk in chunks_of(receive, headers, JSON_BYTES_MAX)]
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    try:
        value = decoder.decode(body)
        _check_keys(body)
    except msgspec.ValidationError as error:
        raise ParseError(f"the body is wrong: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ParseError("the body is not valid JSON") from None
    except RecursionError:
        raise ParseError("the body is nested too deeply") from None
    return value


def _check_keys(body: bytes) -> None:
    """Look through what the decoder has taken, for keys alone: no number is made of digits."""
    json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object that gives a key twice: the decoder takes the last, and somebody who looked
    at the request on its way may have taken the first."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ParseError(f"the body gives {name[:80]!r} twice")
        seen.add(name)


def refuse_body(headers: dict[bytes, bytes]) -> None:
    """A route that takes none is not sent one: what would be ignored is refused."""
    if announced(headers) or b"transfer-encoding" in headers:
        raise ParseError("this route takes no body")


def expects_body(headers: dict[bytes, bytes]) -> bool:
    """Whether the client sends a body, as far as its headers say."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
