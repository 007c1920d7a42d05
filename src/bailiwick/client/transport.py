"""The connection to a server: one HTTP client, and what it takes from the other side.

An answer is bounded in size and time, comes as it is (nothing is unpacked), and from where it was
asked (a redirect is an error: the token goes to no other place). Settings of proxies in the
environment are not looked at, for the same reason.

Asked again is what changes nothing, and what was never sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import msgspec

from bailiwick.client.failures import cut_off, failure_of, no_answer, pending, too_slow, unreachable
from bailiwick.errors import (
    BailiwickError,
    Closed,
    FileTooLarge,
    InternalError,
    IoError,
    ParseError,
    Unsupported,
)
from bailiwick.finishing import to_the_end
from bailiwick.model import MiB

if TYPE_CHECKING:
    import ssl

    import httpx

_log = logging.getLogger("bailiwick.client")

ANSWER_BYTES_MAX = 100 * MiB
"""The most that one answer may hold: what one call may hold in memory."""

ERROR_BYTES_MAX = 1 * MiB
"""The same for an error: a message, and some details."""

CONNECT_SECONDS_MAX = 10.0
"""How long it may take until a server takes the connection: a server that runs does at once."""

KEPT_SECONDS_MAX = 20.0
"""How long a connection is kept without use: less than the server's thirty seconds, so that
nothing is sent on one that the server has just ended."""

CONNECTIONS_MAX = 256
"""Connections at once: each stream and each watch has its own."""

TRIES_MAX = 3
PAUSE_SECONDS = 0.05
"""How often something safe is asked in all, and the first pause between; each is twice as long."""

_encoder = msgspec.json.Encoder(enc_hook=str)
_decoder = msgspec.json.Decoder()

Query = Mapping[str, object]
Content = bytes | AsyncIterable[bytes]


class RemoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``content`` that is no bytes can be sent once. ``silence_s`` is how long nothing
    may come, where that is another time than for other answers."""

    method: str
    route: str
    query: Query = {}
    headers: Mapping[str, str] = {}
    content: Content | None = None
    silence_s: float | None = None

    @property
    def is_safe(self) -> bool:
        """Whether asking again changes nothing."""
        return self.method in ("GET", "HEAD")


class Transport:
    """A server, and the token by which it knows us."""

    def __init__(
        self, address: str, token: str | None, *, timeout_s: float, tls: ssl.SSLContext | None
    ) -> None:
        httpx = loaded()
        self.address = checked_address(address)
        self.timeout_s = timeout_s
        self._tls = tls
        headers = {"accept-encoding": "identity", "user-agent": "bailiwick"}
        if token is not None:
            headers["authorization"] = f"Bearer {checked_token(token)}"
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_SECONDS_MAX))
        self._client = httpx.AsyncClient(
            headers=headers,
            # A connection without TLS has no use for the certificates, which take long to load.
            verify=tls or self.address.startswith("https:"),
            follow_redirects=False,
            trust_env=False,
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=KEPT_SECONDS_MAX),
        )

    def with_token(self, token: str) -> Transport:
        """This server for another subject, to be closed by itself."""
        return Transport(self.address, token, timeout_s=self.timeout_s, tls=self._tls)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def ask(self, asked: RemoteRequest) -> dict[str, Any]:
        """The document that a request is answered with. Raises the errors of the server, and
        `IoError` where it gives no answer at all.

        A server carries out what has reached it, whether its caller is still there or not. So a
        caller who is cancelled waits for the answer to a change, as long as any other."""
        if asked.is_safe:
            return await self._exchanged(asked)
        upload = None
        if asked.content is not None and type(asked.content) is not bytes:
            upload = _Upload(cast("AsyncIterable[bytes]", asked.content))
            asked = msgspec.structs.replace(asked, content=upload)
        try:
            return await to_the_end(
                self._exchanged(asked), lambda: upload is not None and not upload.is_whole
            )
        except IoError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                _log.warning(
                    "interrupted, and the server gave no answer: whether %s %s was done is not "
                    "known", asked.method, asked.route,
                )  # fmt: skip
            raise

    async def _exchanged(self, asked: RemoteRequest) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._patience(asked)), self.opened(asked) as answer:
                return await answer.document()
        except TimeoutError:
            raise too_slow(self.timeout_s) from None

    def _patience(self, asked: RemoteRequest) -> float | None:
        """How long an exchange may take in all. An upload takes as long as its source."""
        return self.timeout_s if asked.content is None or type(asked.content) is bytes else None

    @asynccontextmanager
    async def opened(self, asked: RemoteRequest) -> AsyncIterator[HttpAnswer]:
        """An answer as it begins; whatever is an error is raised."""
        response: httpx.Response | None = None
        try:
            try:
                async with asyncio.timeout(self._patience(asked)):
                    response = await self._begun(asked)
                    answer = HttpAnswer(response, self.timeout_s)
                    await answer.refuse_failure()
            except TimeoutError:
                raise too_slow(self.timeout_s) from None
            yield answer
        finally:
            if response is not None:
                await response.aclose()

    async def _begun(self, asked: RemoteRequest) -> httpx.Response:
        library = loaded()
        pause = PAUSE_SECONDS
        for tries in range(1, TRIES_MAX + 1):
            if self._client.is_closed:
                raise Closed("the connection to the server is closed")
            try:
                request = self._client.build_request(
                    asked.method, self._url(asked), headers=dict(asked.headers),
                    content=asked.content, timeout=self._timeout_of(asked),
                )  # fmt: skip
                response: httpx.Response = await self._client.send(request, stream=True)
            except library.InvalidURL:
                raise ParseError("what was given is too long for an address") from None
            except library.HTTPError as error:
                never_sent = isinstance(error, (library.ConnectError, library.ConnectTimeout))
                if tries == TRIES_MAX or not (asked.is_safe or never_sent):
                    raise failed(error, self.timeout_s) from None
            else:
                return response
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _timeout_of(self, asked: RemoteRequest) -> httpx.Timeout:
        usual: httpx.Timeout = self._timeout
        if asked.silence_s is None:
            return usual
        return type(usual)(
            connect=usual.connect, read=asked.silence_s, write=usual.write, pool=usual.pool
        )

    def _url(self, asked: RemoteRequest) -> str:
        given = (
            f"{name}={_escaped(_query_text(value))}"
            for name, value in asked.query.items()
            if value is not None
        )
        query = "&".join(given)
        return f"{self.address}{asked.route}" + (f"?{query}" if query else "")


class _Upload:
    """What a caller's source gives, and whether all of it was asked for: until then the server
    takes nothing of it for a file."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        self._source = source
        self.is_whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._source:
            yield chunk
        self.is_whole = True


class HttpAnswer:
    """What a server answers, from its headers on."""

    def __init__(self, response: httpx.Response, timeout_s: float) -> None:
        self._response = response
        self._timeout_s = timeout_s
        self.status = response.status_code

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    def number(self, name: str) -> int | None:
        """A header that is a number."""
        text = self.header(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise no_answer(f"its header {name} is no number")
        return int(text)

    async def refuse_failure(self) -> None:
        """Raise what this is, where it is no success."""
        if 300 <= self.status < 400:
            raise no_answer("it sends us to another place, and the token goes nowhere else")
        if self.header("content-encoding") not in (None, "identity"):
            raise no_answer("it is compressed, which nobody asked for")
        if self.status == 202:
            raise pending(await self.document())
        if not 200 <= self.status < 300:
            raise failure_of(self.status, await self._document_or_none())

    async def _document_or_none(self) -> object:
        """What an error says of itself. An error page of something else says nothing to us."""
        try:
            return await self.document(ERROR_BYTES_MAX)
        except (FileTooLarge, InternalError):
            return None

    async def document(self, bytes_max: int = ANSWER_BYTES_MAX) -> dict[str, Any]:
        """The whole of it, as the JSON object that it must be."""
        if (self.number("content-length") or 0) > bytes_max:
            raise _too_large(bytes_max)
        pieces, size = [], 0
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                pieces.append(chunk)
        try:
            document = _decoder.decode(b"".join(pieces))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise no_answer("it is not valid JSON") from None
        if not isinstance(document, dict):
            raise no_answer("it is no JSON object")
        return document

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes as they come. One that ends early is `IoError`."""
        httpx = loaded()
        try:
            raw = cast("AsyncGenerator[bytes, None]", self._response.aiter_raw())
            async with aclosing(raw) as chunks:
                async for chunk in chunks:
                    yield chunk
        except httpx.HTTPError as error:
            raise failed(error, self._timeout_s) from None


def loaded() -> Any:
    """The HTTP library, where it is installed."""
    try:
        import httpx
    except ImportError:
        raise Unsupported(
            "speaking with a server needs the package httpx",
            hint="pip install 'bailiwick[client]'",
        ) from None
    return httpx


def failed(error: Exception, timeout_s: float) -> BailiwickError:
    """The error of ours that a fault of the connection is."""
    httpx = loaded()
    if isinstance(error, httpx.ConnectTimeout):
        return unreachable("it did not take the connection in time")
    if isinstance(error, httpx.ConnectError):
        return unreachable("it refused the connection")
    if isinstance(error, httpx.TimeoutException):
        return too_slow(timeout_s)
    if isinstance(error, httpx.RemoteProtocolError):
        return cut_off("it ended early, or is no HTTP")
    return cut_off(type(error).__name__)


def encoded(body: Mapping[str, object]) -> bytes:
    """A body as JSON, without what was not given. Raises `ParseError` for what JSON has not."""
    given = {name: value for name, value in body.items() if value is not None}
    try:
        return _encoder.encode(given)
    except UnicodeEncodeError:
        raise ParseError("the text holds half a character (a lone surrogate)") from None
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise ParseError("what was given cannot be sent as JSON") from None


def checked_address(address: str) -> str:
    """An address without a slash at its end. Raises `ParseError` for what is none."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ParseError("this is no address", hint="http://127.0.0.1:4180") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ParseError("a server has an address like http://127.0.0.1:4180")
    if parts.username is not None or parts.query or parts.fragment:
        raise ParseError(
            "an address has no user, query or fragment", hint="give the token as token="
        )
    return address.rstrip("/")


def checked_token(token: object) -> str:
    """A token that fits into a header. Raises `ParseError`, which does not repeat it."""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise ParseError("a token is printable text, as the server gave it")
    if not token or " " in token:
        raise ParseError("a token is not empty and holds no spaces")
    return token


def segment(text: str) -> str:
    """A text as one part of a route. Raises `ParseError` for those two that an address does not
    keep: it would be another route that is asked for."""
    if text in (".", ".."):
        raise ParseError(f"nothing on a server is called {text}")
    return _escaped(text)


def _escaped(text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise ParseError("the text holds half a character (a lone surrogate)") from None


def _query_text(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _too_large(limit: int) -> FileTooLarge:
    return FileTooLarge(
        f"the server's answer is larger than {limit} bytes",
        hint="ask for less: a page, a window, a narrower pattern, or a stream",
        details={"limit": limit},
    )
