"""Connections to one server, each kept for the next request: HTTP/1.1 (`http1`).

One request at a time on a connection. One that is not answered to its end is closed with it, and
one that the server has ended meanwhile is not used again. Nothing is asked a second time here.
"""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote, urlsplit

from bailiwick.client.failures import cut_off, too_slow, unreachable, untrusted
from bailiwick.client.http1 import (
    NotHttp,
    ResponseHead,
    ResponseReader,
    chunk,
    field_lines,
    request_line,
)
from bailiwick.errors import Closed, IoError, ParseError

CONNECT_SECONDS_MAX = 10.0
"""How long it may take until a server takes the connection: a server that runs does at once."""

KEPT_SECONDS_MAX = 20.0
"""How long a connection is kept without use: less than the server's thirty seconds, so that
nothing is sent on one that the server has just ended."""

CONNECTIONS_MAX = 256
"""Connections at once: each stream and each watch has its own."""

ADDRESS_BYTES_MAX = 65_536
"""The longest address that is asked for: servers take no more, and say so less clearly."""

INTERIM_ANSWERS_MAX = 100
"""What may come before an answer (1xx): whoever says more than that never answers."""

_PIECE_BYTES: Final = 65_536
"""A body up to this goes with the headers, in one piece; so much more of an answer is waited for
before what has come is taken up."""

Content = bytes | AsyncIterable[bytes]
Read = TypeVar("Read")


class NeverSent(Exception):
    """There was no connection, so that nothing was asked; ``error`` says why. Whoever could not
    show that they are the server will not be able to the next time."""

    def __init__(self, error: IoError, *, may_be_back: bool = True) -> None:
        super().__init__(str(error))
        self.error = error
        self.may_be_back = may_be_back


class _NobodyThere(Exception):
    """The server has gone while it was sent something."""


class ConnectionPool:
    """A server, and the connections to it."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        """``timeout_s`` is how long a connection may take, and nothing may be taken by the server.
        Without ``tls`` a server by https is one that the system's certificates vouch for."""
        parts = urlsplit(address)
        name = (parts.hostname or "").encode("idna").decode()
        secure = parts.scheme == "https"
        self._host, self._port = name, parts.port or (443 if secure else 80)
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._timeout_s = timeout_s
        self._prefix = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        named = f"[{name}]" if ":" in name else name
        host = named if parts.port is None else f"{named}:{parts.port}"
        try:
            self._fields = field_lines((("host", host), *headers.items()))
        except NotHttp:
            raise _does_not_fit() from None
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self.is_closed = False

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: Content | None,
        silence_s: float | None,
    ) -> RawAnswer:
        """Ask, and return the answer from its headers on. ``silence_s`` is how long nothing may
        come, where nobody else bounds that. Raises `NeverSent`, `IoError`, `ParseError`."""
        target = self._prefix + target
        if len(target) > ADDRESS_BYTES_MAX:
            raise ParseError("what was given is too long for an address")
        if type(content) is bytes:
            length = b"content-length: %d\r\n\r\n" % len(content)
        elif content is not None:
            length = b"transfer-encoding: chunked\r\n\r\n"
        else:
            length = b"\r\n" if method == "GET" else b"content-length: 0\r\n\r\n"
        try:
            line, own = request_line(method, target or "/"), field_lines(headers.items())
        except NotHttp:
            raise _does_not_fit() from None
        request = b"%b%b%b%b" % (line, self._fields, own, length)
        connection = await self._taken()
        try:
            head = await connection.asked(request, content, silence_s)
        except BaseException:
            self.let_go(connection)
            raise
        return RawAnswer(self, connection, head, silence_s)

    async def _taken(self) -> _Connection:
        if self.is_closed:
            raise Closed("the connection to the server is closed")
        await self._find_room()
        try:
            until = time.monotonic() - KEPT_SECONDS_MAX
            while self._idle:
                connection = self._idle.pop()
                if connection.is_fresh(until):
                    return connection
                self._end(connection)
            return await self._connected()
        except BaseException:
            self._room.release()
            raise

    async def _find_room(self) -> None:
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._room.acquire()
        except TimeoutError:
            raise too_slow(self._timeout_s) from None

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(min(self._timeout_s, CONNECT_SECONDS_MAX)):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._timeout_s), self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            raise NeverSent(unreachable("it did not take the connection in time")) from None
        except ssl.SSLError as error:
            raise NeverSent(untrusted(error), may_be_back=False) from None
        except (OSError, UnicodeError):
            raise NeverSent(unreachable("it refused the connection")) from None
        self._all.add(connection)
        return connection

    def give_back(self, connection: _Connection) -> None:
        """Take back a connection whose answer was read to its end."""
        if self.is_closed or not connection.rest():
            self.let_go(connection)
            return
        self._idle.append(connection)
        self._room.release()
        oldest = self._idle[0]
        if oldest.since < connection.since - KEPT_SECONDS_MAX:
            self._end(self._idle.pop(0))

    def let_go(self, connection: _Connection) -> None:
        """Give up a connection that cannot be used again."""
        self._end(connection)
        self._room.release()

    def _end(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.abort()

    async def aclose(self) -> None:
        """End all connections, also those that are at work."""
        self.is_closed = True
        self._idle.clear()
        ending, self._all = self._all, set()
        for each in ending:
            each.abort()
        for each in ending:
            await each.gone.wait()


class RawAnswer:
    """An answer from its headers on, to be closed by who was given it."""

    def __init__(
        self,
        pool: ConnectionPool,
        connection: _Connection,
        head: ResponseHead,
        silence_s: float | None,
    ) -> None:
        self.status, self._headers = head
        self._pool = pool
        self._connection: _Connection | None = connection
        self._silence_s = silence_s

    def header(self, name: str) -> str | None:
        """A header by its name in small letters; of several the last."""
        found = self._headers.get(name.encode())
        return None if found is None else found.decode("latin-1")

    async def read(self) -> bytes:
        """What came next of the body; nothing at its end. Raises `IoError` where it ends early."""
        connection = self._connection
        if connection is None:
            return b""
        piece = await connection.body(self._silence_s)
        if not piece:
            self._connection = None
            self._pool.give_back(connection)
        return piece

    def close(self) -> None:
        """Let go. What was not read to its end ends with its connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.let_go(connection)


class _Connection(asyncio.Protocol):
    """One connection, and what came on it that nobody has read."""

    def __init__(self, timeout_s: float) -> None:
        self._reader = ResponseReader()
        self._timeout_s = timeout_s
        self._is_sent = False
        self._came: list[bytes] = []
        self._came_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._reading: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.gone = asyncio.Event()
        self.since = 0.0

    # --- what the event loop tells -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._came.append(data)
        self._came_bytes += len(data)
        if self._came_bytes > _PIECE_BYTES:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._error = error
        self._writable.set()
        self.gone.set()
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    # --- one request after the other -----------------------------------------------------------

    def is_fresh(self, until: float) -> bool:
        """Whether it was used since, and the server has said nothing meanwhile: that could only be
        that it ends."""
        if self._ended or self._came or self.since < until:
            return False
        number = self._transport.get_extra_info("socket").fileno()
        if hasattr(select, "poll"):
            ready = select.poll()
            ready.register(number, select.POLLIN)
            return not ready.poll(0)
        return not select.select([number], [], [], 0)[0]

    def rest(self) -> bool:
        """Be ready for another request; False where that cannot be. What was said beyond the answer
        would be taken for the next one."""
        reader = self._reader
        if self._ended or self._came or not self._is_sent:
            return False
        if not (reader.keeps and reader.is_between):
            return False
        self.since = time.monotonic()
        return True

    def abort(self) -> None:
        if not self.gone.is_set():
            self._transport.abort()

    async def asked(
        self, request: bytes, content: Content | None, silence_s: float | None
    ) -> ResponseHead:
        """Send a request, of which ``request`` is the head; the head of its answer."""
        with suppress(_NobodyThere):  # the answer may have come before all was taken
            await self._send(request, content)
        for _ in range(INTERIM_ANSWERS_MAX):
            head = await self._next(self._reader.head, silence_s)
            if head.status >= 200:
                return head
        raise cut_off("it ended early, or is no HTTP")

    async def _send(self, request: bytes, content: Content | None) -> None:
        self._is_sent = False
        write = self._transport.write
        if content is None or type(content) is bytes:
            if content is None or len(content) <= _PIECE_BYTES:
                write(request + (content or b""))
            else:
                write(request)
                write(content)
        else:
            write(request)
            async for data in cast(AsyncIterable[bytes], content):
                if data:  # a chunk of nothing would end the body
                    write(chunk(data))
                    await self._taken_up()
            write(chunk(b""))
        self._is_sent = True
        await self._taken_up()

    async def _taken_up(self) -> None:
        """Wait until the server takes more. Raises `_NobodyThere`."""
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._writable.wait()
            except TimeoutError:
                raise too_slow(self._timeout_s) from None
        if self.gone.is_set():
            raise _NobodyThere

    async def body(self, silence_s: float | None) -> bytes:
        """What came next of a body; nothing at its end."""
        return await self._next(self._reader.body, silence_s)

    async def _next(self, read: Callable[[], Read | None], silence_s: float | None) -> Read:
        """What is read next, once enough of it has come."""
        try:
            while (found := read()) is None:
                self._reader.feed(await self._read(silence_s))
        except NotHttp:
            raise cut_off("it ended early, or is no HTTP") from None
        return found

    async def _read(self, silence_s: float | None) -> bytes:
        if not self._came and not self._ended:
            self._reading = asyncio.get_running_loop().create_future()
            try:
                if silence_s is None:
                    await self._reading
                else:
                    async with asyncio.timeout(silence_s):
                        await self._reading
            except TimeoutError:
                raise too_slow(silence_s or self._timeout_s) from None
            finally:
                self._reading = None
        if not self._came:
            if self._error is not None:
                raise cut_off(type(self._error).__name__)
            return b""
        data = self._came[0] if len(self._came) == 1 else b"".join(self._came)
        self._came.clear()
        if self._came_bytes > _PIECE_BYTES and not self._ended:
            self._transport.resume_reading()
        self._came_bytes = 0
        return data


def _does_not_fit() -> ParseError:
    return ParseError("what was given does not fit into a request")
