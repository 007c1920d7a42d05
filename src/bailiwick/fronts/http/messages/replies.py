"""From a result or an error to what is sent: status, headers, body.

Every answer is for this origin alone and is kept by nobody. One about a file names its version
(`ETag`), and every one names its request (`X-Request-Id`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from bailiwick.errors import (
    ApprovalTimeout,
    BailiwickError,
    MethodNotAllowed,
    RangeNotSatisfiable,
    RateLimited,
    Unauthenticated,
)
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.messages.bodies import Message, Receive
from bailiwick.fronts.http.messages.ranges import tag_of
from bailiwick.fronts.http.messages.requests import Headers, Reply

Send = Callable[[Message], Awaitable[None]]

HOUSE = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # A browser does not draw an answer into a page of another server, nor of another port.
    (b"cross-origin-resource-policy", b"same-origin"),
)
_HOUSE_NAMES = tuple(name for name, _ in HOUSE)
JSON = (b"content-type", b"application/json")

_encoder = msgspec.json.Encoder(enc_hook=str)


class PendingReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person is being asked. The same request, with ``approval``, goes on once they said yes."""

    approval_id: str
    expires_at: str
    request_id: str
    kind: str = "approval_pending"


class Whole(NamedTuple):
    """A result that is sent in one piece: its status, headers of its own, and the body."""

    status: int
    headers: Headers
    body: bytes


def whole(result: Any, request_id: str | None) -> Whole | None:
    """A result as it is sent; None for a reply that is more than a result and its status.
    ``request_id`` is the one that the client gave, if it did."""
    status = 200
    if type(result) is Reply:
        if not result.is_only_a_result:
            return None
        status, result = result.status, result.result
    return Whole(status, own_headers(result, request_id), _encoder.encode(result))


def plain(answer: Whole) -> Reply:
    """A whole result as a reply, for where it is sent in the usual way."""
    length = (b"content-length", b"%d" % len(answer.body))
    headers = [JSON, length, *HOUSE, *answer.headers]
    return Reply(status=answer.status, headers=headers, body=answer.body)


def own_headers(result: Any, request_id: str | None) -> Headers:
    """The version of the one file that a result is about, and the id of its request."""
    headers: Headers = []
    if getattr(result, "tagged", False):
        tag = tag_of(result.version)
        if tag is not None:
            headers.append((b"etag", tag))
    shown = request_id or getattr(result, "request_id", None)
    headers.append((b"x-request-id", _request_id(shown)))
    return headers


def _request_id(known: str | None) -> bytes:
    if known is None or not (known.isascii() and known.isprintable()):
        known = errors.new_request_id()
    return known.encode("ascii")


def rendered(reply: Reply, request_id: str | None) -> Reply:
    """A reply with all its headers; one with a result has it as its body."""
    named = request_id or reply.request_id
    headers: Headers = [*HOUSE, *reply.headers, *own_headers(reply.result, named)]
    body, length = reply.body, reply.length
    if reply.chunks is None:
        if body is None:
            body = b"" if reply.result is None else _encoder.encode(reply.result)
            if reply.review:
                body = b'%b,"review":%b}' % (body[:-1], _encoder.encode(reply.review))
            if reply.result is not None:
                headers.append(JSON)
        length = len(body) if length is None else length
    if length is not None and reply.status not in (204, 304):
        headers.append((b"content-length", b"%d" % length))
    return Reply(
        status=reply.status, headers=headers, body=body, chunks=reply.chunks,
        failure=reply.failure,
    )  # fmt: skip


def failed(error: BailiwickError) -> Reply:
    """The answer to a request that failed, or for which a person must be asked."""
    if error.request_id is None:
        error.request_id = errors.new_request_id()
    if isinstance(error, ApprovalTimeout) and error.details.get("pending"):
        return Reply(_pending(error), 202, failure=error)
    status = errors.status_of(error)
    return Reply(
        status=status, headers=[JSON, *_extra_headers(error)], body=errors.encode(error, status),
        failure=error,
    )  # fmt: skip


def _extra_headers(error: BailiwickError) -> Headers:
    if isinstance(error, Unauthenticated):
        return [(b"www-authenticate", b'Bearer realm="bailiwick"')]
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", str(error.details.get("allow", "")).encode("latin-1"))]
    if isinstance(error, RangeNotSatisfiable) and type(error.details.get("size")) is int:
        return [(b"content-range", b"bytes */%d" % error.details["size"])]
    seconds = error.details.get("retry_after_s", 1.0 if isinstance(error, RateLimited) else None)
    return [] if seconds is None else [(b"retry-after", b"%d" % max(1, math.ceil(seconds)))]


def _pending(error: ApprovalTimeout) -> PendingReply:
    seconds = int(error.details.get("expires_ns", 0)) / 1e9
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    return PendingReply(
        approval_id=str(error.details["approval_id"]),
        expires_at=until,
        request_id=error.request_id or errors.new_request_id(),
    )


async def send_reply(reply: Reply, send: Send, receive: Receive | None, *, head: bool) -> None:
    """Send what `rendered` made; for a ``head`` without the body. A stream that fails half way is
    cut off, so that the client notices."""
    start = {"type": "http.response.start", "status": reply.status, "headers": reply.headers}
    if reply.chunks is None:
        await send(start)
        await send({"type": "http.response.body", "body": b"" if head else reply.body})
        return
    assert receive is not None, "whoever streams must know when the client has gone"
    async with aclosing(reply.chunks) as chunks:
        await send(start)
        if head:
            await send({"type": "http.response.body", "body": b""})
        else:
            await _stream(chunks, send, receive)


async def _stream(chunks: AsyncGenerator[bytes, None], send: Send, receive: Receive) -> None:
    """Send what comes, for as long as there is somebody to read it: what is sent to a client that
    has gone is silently dropped, and a stream of events would wait for the next one for ever."""
    gone = asyncio.ensure_future(_until_gone(receive))
    sending = asyncio.ensure_future(_send_all(chunks, send))
    try:
        await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        gone.cancel()
        sending.cancel()
        await asyncio.wait((gone, sending))


async def _send_all(chunks: AsyncGenerator[bytes, None], send: Send) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def with_house_headers(send: Send) -> Send:
    """What is mounted answers with the headers that every answer here has."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [each for each in message.get("headers", ()) if each[0] not in _HOUSE_NAMES]
            message = {**message, "headers": [*given, *HOUSE]}
        await send(message)

    return sent
