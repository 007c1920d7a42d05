"""The connection to a server: one HTTP client, and what it takes from the other side.

An answer is bounded in size and time, comes as it is (nothing is unpacked), and from where it was
asked (a redirect is an error: the token goes to no other place). Settings of proxies in the
environment are not looked at, for the same reason.

Asked again, some times, is what got no answer or met a server that was closing: what changes
nothing; a change that is at hand as a whole, under a key by which the server knows it again; and
whatever was never sent. A stream that was begun cannot be sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import msgspec

from bailiwick.client.failures import failure_of, no_answer, pending, too_slow
from bailiwick.client.pool import ConnectionPool, Content, NeverSent, RawAnswer
from bailiwick.client.retries import FIRST_RETRIES_MAX, RETRIES_MAX, RETRY_SECONDS, Retries
from bailiwick.errors import BailiwickError, FileTooLarge, InternalError, IoError, ParseError
from bailiwick.finishing import to_the_end
from bailiwick.model import MiB

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger("bailiwick.client")

ANSWER_BYTES_MAX = 100 * MiB
"""The most that one answer may hold: what one call may hold in memory."""

ERROR_BYTES_MAX = 1 * MiB
"""The same for an error: a message, and some details."""

_encoder = msgspec.json.Encoder(enc_hook=str)
_decoder = msgspec.json.Decoder()

Query = Mapping[str, object]


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

    @property
    def is_whole(self) -> bool:
        """Whether all that is to be sent is at hand, and could be sent again."""
        return self.content is None or type(self.content) is bytes


class Transport:
    """A server, and the token by which it knows us."""

    def __init__(
        self,
        address: str,
        token: str | None,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None,
        retry_s: float = RETRY_SECONDS,
    ) -> None:
        self.address = checked_address(address)
        self.timeout_s = timeout_s
        self.retry_s = retry_s
        self._tls = tls
        self._retries_max = FIRST_RETRIES_MAX
        headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "bailiwick"}
        if token is not None:
            headers["authorization"] = f"Bearer {checked_token(token)}"
        self._pool = ConnectionPool(self.address, headers, timeout_s=timeout_s, tls=tls)

    def with_token(self, token: str) -> Transport:
        """This server for another subject, to be closed by itself."""
        return Transport(
            self.address, token, timeout_s=self.timeout_s, tls=self._tls, retry_s=self.retry_s
        )

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def ask(self, asked: RemoteRequest) -> dict[str, Any]:
        """The document that a request is answered with. Raises the errors of the server, and
        `IoError` where it gives no answer at all.

        A server carries out what has reached it, whether its caller is still there or not. So a
        caller who is cancelled waits for the answer to a change, as long as any other; but not for
        the next try."""
        retries = Retries(self.retry_s, self._retries_max)
        if asked.is_safe:
            return await self._answered(asked, retries)
        upload = None
        if asked.content is not None and type(asked.content) is not bytes:
            upload = _Upload(cast("AsyncIterable[bytes]", asked.content))
            asked = msgspec.structs.replace(asked, content=upload)
        try:
            return await to_the_end(
                self._answered(asked, retries),
                lambda: retries.give_up() or (upload is not None and not upload.is_whole),
            )
        except IoError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                _log.warning(
                    "interrupted, and the server gave no answer: whether %s %s was done is not "
                    "known", asked.method, asked.route,
                )  # fmt: skip
            raise

    async def _answered(self, asked: RemoteRequest, retries: Retries) -> dict[str, Any]:
        while True:
            try:
                document = await self._exchanged(asked, retries)
            except NeverSent as failure:
                await retries.failed(failure.error, harmless=failure.may_be_back)
            except BailiwickError as error:
                if not asked.is_whole:
                    raise
                await retries.failed(error)
            else:
                self._retries_max = RETRIES_MAX
                return document

    async def _exchanged(self, asked: RemoteRequest, retries: Retries) -> dict[str, Any]:
        headers = asked.headers
        if asked.is_whole and not asked.is_safe:
            headers = {**headers, **retries.headers()}
        patience_s = self._patience(asked)
        try:
            async with asyncio.timeout(patience_s):
                silence_s = self.timeout_s if patience_s is None else None
                answer = await self._begun(asked, headers, silence_s)
                try:
                    await answer.refuse_failure()
                    return await answer.document()
                finally:
                    answer.close()
        except TimeoutError:
            raise too_slow(self.timeout_s) from None

    def _patience(self, asked: RemoteRequest) -> float | None:
        """How long an exchange may take in all. An upload takes as long as its source."""
        return self.timeout_s if asked.is_whole else None

    @asynccontextmanager
    async def opened(self, asked: RemoteRequest) -> AsyncIterator[HttpAnswer]:
        """An answer as it begins; whatever is an error is raised."""
        answer: HttpAnswer | None = None
        silence_s = self.timeout_s if asked.silence_s is None else asked.silence_s
        retries = self.retries_of_a_stream()
        try:
            while answer is None:
                try:
                    async with asyncio.timeout(self._patience(asked)):
                        answer = await self._begun(asked, asked.headers, silence_s)
                        await answer.refuse_failure()
                except TimeoutError:
                    raise too_slow(self.timeout_s) from None
                except NeverSent as failure:
                    await retries.failed(failure.error, harmless=failure.may_be_back)
                except IoError as error:
                    if answer is not None or not asked.is_safe:
                        raise
                    await retries.failed(error)
            yield answer
        finally:
            if answer is not None:
                answer.close()

    def retries_of_a_stream(self) -> Retries:
        """Tries of what its reader takes up again by itself."""
        return Retries(self.retry_s, FIRST_RETRIES_MAX)

    async def _begun(
        self, asked: RemoteRequest, headers: Mapping[str, str], silence_s: float | None
    ) -> HttpAnswer:
        target = self._target(asked)
        return HttpAnswer(
            await self._pool.send(asked.method, target, headers, asked.content, silence_s)
        )

    def _target(self, asked: RemoteRequest) -> str:
        given = (
            f"{name}={_escaped(_query_text(value), safe='/')}"
            for name, value in asked.query.items()
            if value is not None
        )
        query = "&".join(given)
        return f"{asked.route}?{query}" if query else asked.route


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

    def __init__(self, raw: RawAnswer) -> None:
        self._raw = raw
        self.status = raw.status
        self.header = raw.header
        self.close = raw.close

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
        while chunk := await self._raw.read():
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
        while chunk := await self._raw.read():
            yield chunk


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


def _escaped(text: str, safe: str = "") -> str:
    try:
        return quote(text, safe=safe)
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
