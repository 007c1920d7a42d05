"""The wire beneath the application: what a client may send, and how long it may take.

uvicorn with httptools bounds neither the size of headers nor the time of anything. Both are bounded
here: sizes as bytes come in, times by one look a second at all connections, so that a request that
behaves costs nothing for it.

    head      from the first byte (or the opening) to the end of the headers
    body      while the application waits for more of it
    answer    while the client does not take what is there for it
    idle      between an answer and the next request
    parting   after an answer that came before the whole request: what still comes is thrown away

A request takes its first step where it came in, as soon as the piece that it came in is parsed.
Most are answered by that, and wait for no turn of the event loop. Of what comes in one piece only
the first does so: who sends a thousand at once has the others wait their turn.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Literal
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from bailiwick.errors import BailiwickError, Busy, Closed, IoError, ParseError
from bailiwick.first_step import BeginsAtOnce
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.messages.replies import Whole
from bailiwick.fronts.http.settings import (
    BODY_BYTES_PER_SECOND_MIN,
    FOR_PEOPLE,
    HEADER_BYTES_MAX,
    HEADER_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    LINGER_BYTES_MAX,
    LINGER_SECONDS_MAX,
    PIPELINED_MAX,
    SHUTDOWN_STALL_SECONDS_MAX,
    TRIAL_SECONDS_MAX,
    WHOLE,
)
from bailiwick.fronts.http.transport.descriptors import DescriptorRoom

_RESULT_HEADERS = (
    b"content-type: application/json\r\ncache-control: no-store\r\n"
    b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n"
    b"content-length: "
)

Begin = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
Phase = Literal["head", "idle", "body", "answer", "parting"]


class _TooLarge(Exception):
    """The headers are larger than they may be."""


class _TooMany(Exception):
    """More requests wait on the connection than may."""


class _TwoReadings(Exception):
    """Somebody on the way may have read the request otherwise than we would."""


class Door:
    """The transport as the rest of uvicorn sees it, which parts from a client politely.

    To close a connection on which the client is still sending resets it, and the answer may be lost
    on the way. So the sending side is closed first, and what still comes is thrown away for a
    while.
    """

    __slots__ = ("_part", "_transport", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, part: Callable[[], None]) -> None:
        self._transport = transport
        self._part = part
        self.write = transport.write
        self.is_closing = transport.is_closing

    def close(self) -> None:
        self._part()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 for clients that may be slow, greedy or hostile."""

    room: ClassVar[DescriptorRoom]
    """How many connections there may be."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.real = transport
        self.transport = Door(transport, self._part)  # type: ignore[assignment]
        self.phase: Phase = "head"
        self.since = self.loop.time()
        self._quiet_bytes = 0
        self._piece_bytes = 0
        self._begun_in_bytes = 0
        self._parted_bytes = 0
        self._body_bytes = 0
        self._body_heard = 0.0
        self._whole = True
        self._deaf = False
        loop: object = self.loop
        # On a loop that is not ours a request has to wait for its turn.
        self._begin: Begin | None = loop.begin if isinstance(loop, BeginsAtOnce) else None
        self._first: RequestResponseCycle | None = None
        self._head = b""
        self._dated: object = None
        self.stuck_since: float | None = None
        self._for_people = False
        if len(self.connections) > self.room.for_all:
            self._squeeze_in()

    # --- where there is no more room -------------------------------------------------------------

    def _squeeze_in(self) -> None:
        """Take the place of a connection that waits for its next request. Where none does, this is
        one of those that are kept for people; and of these the one goes that was answered and has
        not gone, or else has not said for longest who it is, so that nobody keeps people out by
        holding them open."""
        if self._end_oldest("idle"):
            return
        self._for_people = True
        if len(self.connections) <= self.room.connections:
            return
        if not self._end_oldest("parting") and not self._end_oldest("head"):
            self._refuse(Busy("the server has as many connections as it may", hint="try again"))

    def _end_oldest(self, phase: Phase) -> bool:
        """End the connection that has been in a phase for longest: of all that are idle, else of
        those that are kept for people. Says whether there was one."""
        found: BoundedProtocol | None = None
        for each in self.connections:
            if each is self or not isinstance(each, BoundedProtocol) or each.phase != phase:
                continue
            if each.real.is_closing() or not (phase == "idle" or each._for_people):
                continue
            if found is None or each.since < found.since:
                found = each
        if found is not None:
            found.real.abort()
        return found is not None

    def _is_crowded(self) -> bool:
        """Whether this is one of the connections that are kept for people, still."""
        if self._for_people and len(self.connections) <= self.room.for_all:
            self._for_people = False
        return self._for_people

    # --- what comes ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.phase == "parting" or self._deaf:
            self._parted_bytes += len(data)
            if self._parted_bytes > LINGER_BYTES_MAX:
                self.real.abort()
            return
        if self.phase == "idle":
            self.phase = "head"
            self.since = self.loop.time()
        self._piece_bytes = len(data)
        self._quiet_bytes += self._piece_bytes
        broken: httptools.HttpParserError | None = None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nobody here speaks anything else: the request is answered as it is, and that is all.
            self.cycle.keep_alive = False
            self._whole = self._deaf = True
            self.phase = "answer"
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooMany):
                self._end_with_those_that_wait()
            else:
                broken = error
        if self._first is not None:
            self._begin_first(only_if_whole=broken is not None)
        if broken is not None:
            self._refuse(_what_is_wrong(broken))
        elif self._quiet_bytes > HEADER_BYTES_MAX and self.phase in ("head", "body"):
            # Headers, or what stands between the parts of a body, without end.
            self._refuse(_headers_too_large())

    def _begin_first(self, *, only_if_whole: bool) -> None:
        """Take the first step of the request that this piece began. Behind one that is not even
        whole came something that is no HTTP: that is told, and nothing else."""
        cycle, self._first = self._first, None
        assert cycle is not None
        assert self._begin is not None, "else it has a task already"
        if only_if_whole and cycle.more_body:
            return
        task = self._begin(cycle.run_asgi(self.app))
        if not task.done():
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._begun_in_bytes = self._piece_bytes

    def on_headers_complete(self) -> None:
        """As uvicorn's, which cannot be bounded, and which has every request wait for its turn."""
        parser, given, url = self.parser, self.headers, self.url
        # What follows the body is no header: nobody had seen it when the request was judged.
        self.headers = []
        if self._quiet_bytes + self._begun_in_bytes > HEADER_BYTES_MAX:
            # No more than this has come since the request before; how much of it is headers is
            # looked at only now, so that a request that behaves does not pay for counting.
            size = sum(len(name) + len(value) + 4 for name, value in given) + len(url)
            if size > HEADER_BYTES_MAX:
                raise _TooLarge
        version = parser.get_http_version()
        _refuse_two_readings(url, version, given)
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _TooMany
        self.phase = "body"
        self.since = self.loop.time()
        self._whole = False
        self._quiet_bytes = 0
        self._body_bytes = 0
        scope = self._scope_of(url, version, parser.get_method(), given)
        keep_alive = version == "1.1" and parser.should_keep_alive()
        if self._for_people and self._is_crowded():
            scope[FOR_PEOPLE] = True
            keep_alive = False  # the next one may need it
        before = self.cycle
        self.cycle = cycle = RequestResponseCycle(
            scope, self.transport, self.flow, self.logger, self.access_logger, self.access_log,  # type: ignore[arg-type]
            self.server_state.default_headers, asyncio.Event(), self.expect_100_continue,
            keep_alive, self.on_response_complete,
        )  # fmt: skip
        if before is not None and not before.response_complete:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
        elif self._begin is None:
            self._start_asgi_task(cycle, self.app)
        else:
            self._first = cycle

    def _scope_of(
        self, url: bytes, version: str, method: bytes, headers: list[tuple[bytes, bytes]]
    ) -> dict[str, Any]:
        parsed = httptools.parse_url(url)
        raw_path = parsed.path
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": method.decode("ascii"),
            "root_path": self.root_path,
            "path": self.root_path + path,
            "raw_path": self.root_path.encode("ascii") + raw_path,
            "query_string": parsed.query or b"",
            "headers": headers,
            "state": self.app_state.copy(),
            WHOLE: self._answer_whole,
        }

    def on_body(self, body: bytes) -> None:
        self._quiet_bytes = 0
        self._body_bytes += len(body)
        self._body_heard = self.loop.time()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._whole = True
        self._quiet_bytes = 0
        self.phase = "answer"
        cycle = self.cycle
        if cycle.response_complete:
            self._rest()
        else:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """As uvicorn's, but for its timer of connections that are kept: they are looked at."""
        self.server_state.total_requests += 1
        if self.real.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.phase == "answer":
            self._rest()
        if not self.pipeline:  # the last of them may not be whole yet
            self.flow.resume_reading()

    def _end_with_those_that_wait(self) -> None:
        """Answer what has come so far, and part: the rest is not even looked at."""
        self.cycle.keep_alive = False  # of the last of them
        self._whole = False
        self._deaf = True
        self.phase = "answer"

    def _rest(self) -> None:
        """Wait for the next request."""
        self.phase = "idle"
        self.since = self.loop.time()

    def eof_received(self) -> None:
        """A client that has closed its side while its request is not whole has gone."""
        if self.phase in ("head", "body"):
            self.real.close()

    # --- what goes -----------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self.stuck_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stuck_since = None
        super().resume_writing()

    def _answer_whole(self, answer: Whole) -> bool:
        """Send a result in one piece: the same bytes as by the usual way, which
        looks at every header of every answer anew. False where there is more to consider."""
        cycle = self.cycle
        if (
            self.pipeline
            or not cycle.keep_alive
            or cycle.response_started
            or cycle.disconnected
            or self.flow.write_paused
        ):
            return False
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        dated = self.server_state.default_headers
        if dated is not self._dated:
            self._dated = dated
            lines = b"".join(b"%b: %b\r\n" % each for each in dated)
            self._head = lines + _RESULT_HEADERS
        status, headers, body = answer
        own = b"".join([b"\r\n%b: %b" % each for each in headers])
        first = STATUS_LINE[status]
        self.real.write(b"%b%b%d%b\r\n\r\n%b" % (first, self._head, len(body), own, body))
        cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True

    def send_400_response(self, msg: str) -> None:
        self._refuse(ParseError("this is not HTTP"))

    def _refuse(self, error: BailiwickError) -> None:
        """Answer what never reached the application, and part. An answer that is on its way
        already is cut off."""
        begun = self.cycle is not None and self.cycle.response_started
        if self.real.is_closing() or self.phase == "parting":
            return
        if begun and not self.cycle.response_complete:
            self.real.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._whole = False
        self.real.write(refusal(error))
        self._part()

    def _part(self) -> None:
        if self.real.is_closing():
            return
        if self._whole or not self.real.can_write_eof():
            self.phase = "parting"
            self.since = self.loop.time()
            self.real.close()
            return
        self.phase = "parting"
        self.since = self.loop.time()
        self.flow.resume_reading()
        self.real.write_eof()

    # --- how long ------------------------------------------------------------------------------

    def look_at(self, now: float) -> None:
        """End what takes too long. Called once a second for every connection."""
        waited = now - self.since
        if self.stuck_since is not None and now - self.stuck_since > IDLE_SECONDS_MAX:
            self.real.abort()
        elif self.phase == "head" and waited > (
            TRIAL_SECONDS_MAX if self._for_people else HEADER_SECONDS_MAX
        ):
            self._refuse(_too_slow("the headers"))
        elif self.phase == "idle" and waited > self.timeout_keep_alive:
            self.timeout_keep_alive_handler()
        elif self.phase == "body" and not self.flow.read_paused:
            if waited > IDLE_SECONDS_MAX + self._body_bytes / BODY_BYTES_PER_SECOND_MIN:
                self._refuse(_too_slow("the body"))
        elif self.phase == "parting" and waited > LINGER_SECONDS_MAX:
            if self._whole and waited < IDLE_SECONDS_MAX and self.real.get_write_buffer_size():
                return  # the answer is still on its way
            self.real.abort()

    def hurry(self, now: float, stopping_since: float) -> None:
        """End what does not go on by itself. Called several times a second once the server stops;
        who sends or takes something meanwhile has until it gives up waiting for everybody."""

        def stalls(since: float) -> bool:
            return now - max(since, stopping_since) > SHUTDOWN_STALL_SECONDS_MAX

        if self.stuck_since is not None:
            if stalls(self.stuck_since):
                self.real.abort()
        elif self.phase == "body" and not self.flow.read_paused:
            if stalls(self._body_heard):
                self._refuse(Closed("the server is closing"))
        elif self.phase == "parting" and stalls(self.since):
            self.real.abort()


def _what_is_wrong(error: httptools.HttpParserError) -> ParseError:
    """With what cannot be parsed, or was refused while it was."""
    cause = error.__context__
    if isinstance(cause, _TooLarge):
        return _headers_too_large()
    return ParseError(str(cause) if isinstance(cause, _TwoReadings) else "this is not HTTP")


def _refuse_two_readings(url: bytes, version: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse what one reader takes for this request, and another for that one."""
    if b"#" in url:
        raise _TwoReadings("a fragment is not part of a request: a # in a name is written %23")
    if version != "1.1":
        if version != "1.0":
            raise _TwoReadings("this server speaks HTTP/1.1")
        if any(name == b"transfer-encoding" for name, _ in headers):
            raise _TwoReadings("HTTP/1.0 has no Transfer-Encoding: where the body ends is unclear")
    if url[:1] not in (b"/", b"*"):
        # The address of a whole URL counts, and not that of the header, by which hosts are judged.
        scheme, _, rest = url.partition(b"://")
        named = re.split(rb"[/?]", rest, maxsplit=1)[0].lower()
        hosts = [value.lower() for name, value in headers if name == b"host"]
        if scheme.lower() not in (b"http", b"https") or [named] != hosts:
            raise _TwoReadings("the request is for another host than its Host header says")


def refusal(error: BailiwickError) -> bytes:
    """A whole answer, for where there is no application to make one."""
    status = errors.status_of(error)
    body = errors.encode(error, status)
    head = (
        b"content-type: application/json\r\ncontent-length: %d\r\ncache-control: no-store\r\n"
        b"x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n"
        b"connection: close\r\n\r\n"
    )
    return STATUS_LINE[status] + head % len(body) + body


def _headers_too_large() -> ParseError:
    return ParseError(
        f"the headers are larger than {HEADER_BYTES_MAX} bytes",
        status=431,
        details={"limit": HEADER_BYTES_MAX},
    )


def _too_slow(what: str) -> IoError:
    return IoError(f"{what} did not come in time", status=408, errno=errno.ETIMEDOUT)
