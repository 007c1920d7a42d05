"""A command that a server runs: its output as it comes, taken up again where it broke, and what
became of it."""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, Self

import msgspec

from bailiwick.client.core import RemoteCore
from bailiwick.client.failures import cut_off, failure_of, no_answer
from bailiwick.client.reconnection import SILENCE_SECONDS_MAX, Reconnection
from bailiwick.client.transport import ANSWER_BYTES_MAX, HttpAnswer, segment
from bailiwick.client.values import rebuilt
from bailiwick.commands import ExecResult
from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    GrantExpired,
    GrantRevoked,
    IoError,
    ParseError,
    PathNotFound,
    Unauthenticated,
)
from bailiwick.model import KiB
from bailiwick.sandbox import Piece, WindowSize
from bailiwick.wire import Unreadable, command_verbs, values
from bailiwick.wire.verbs import Verb

INPUT_BYTES = 256 * KiB
"""What is handed over in one request: a part of what a server takes at once."""

_GONE = (Closed, GrantExpired, GrantRevoked, PathNotFound, Unauthenticated)
"""What says that a command has ended already: whoever began it is known no more, or it is."""

_decoder = msgspec.json.Decoder()


class BegunCommand(NamedTuple):
    """The first line of what is told of a command, and what is still to be handed to its input."""

    line: dict[str, Any]
    stdin: bytes | None


class RemoteExecution:
    """A command on a server, as an `Execution` is one here: begun when it is first awaited or read
    from. It goes on when this client goes away; leaving it as a context manager ends it."""

    def __init__(
        self,
        scope: RemoteCore,
        begin: Callable[[], Coroutine[Any, Any, BegunCommand]],
        request_id: str,
    ) -> None:
        """``begin`` asks the server to run it."""
        self._scope = scope
        self._begin = begin
        self.request_id = request_id
        self._beginning: asyncio.Task[str] | None = None
        self._result: ExecResult | None = None

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._begun().__await__()

    async def __aenter__(self) -> Self:
        return await self._begun()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self.output()

    async def output(self, since: int = 0) -> AsyncGenerator[Piece, None]:
        """What it prints, from a sequence number on, to its end. A connection that breaks is taken
        up where it broke."""
        id, next_seq, tries = await self._id(), max(since, 0), Reconnection()
        ended: BailiwickError | None = None
        while ended is None:
            self._scope._refuse_closed()
            tries.begin()
            try:
                async with aclosing(self._lines(id, next_seq)) as lines:
                    async for line in lines:
                        if line.result is not None:
                            self._result = line.result
                            return
                        if (ended := line.error) is not None:
                            break
                        assert line.piece is not None
                        if line.piece.seq != next_seq:
                            raise no_answer("pieces of the output are missing")
                        next_seq += 1
                        yield line.piece
                lost: BailiwickError = cut_off("the output did not come to its end")
            except (IoError, Busy) as error:
                lost = error
            if ended is None:
                self._scope._refuse_closed()
                await tries.lost(lost)
        raise ended

    async def result(self) -> ExecResult:
        """Wait until it has ended and what it changed was brought back."""
        if self._result is None:
            async with aclosing(self.output(command_verbs.WITHOUT_END)) as pieces:
                async for _ in pieces:
                    raise no_answer("a result is one line")
        assert self._result is not None
        return self._result

    async def write(self, data: bytes) -> None:
        """Hand ``data`` to its input. Raises `Closed` where it has none."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ParseError(f"data must be bytes, not {type(data).__name__}")
        left = memoryview(data).cast("B")
        while left:
            left = left[await self._taken(bytes(left[:INPUT_BYTES])) :]

    async def _taken(self, data: bytes, **query: object) -> int:
        """How much of it the command has taken: it may take its time."""
        try:
            document = await self._told(command_verbs.INPUT, query, content=data)
        except Busy as error:
            taken = error.details.get("taken_bytes")
        else:
            taken = document.get("takenBytes")
        if not isinstance(taken, int) or not 0 <= taken <= len(data):
            raise no_answer("it does not say how much was taken")
        return taken

    async def close_input(self) -> None:
        with suppress(Closed):  # it has ended, and its input with it
            await self._taken(b"", end=True)

    async def send_signal(self, signal: int) -> None:
        """To the command, and to what it started in its own group."""
        try:
            name = signals.Signals(signal).name
        except ValueError:
            name = ""
        if name not in command_verbs.SIGNALS:
            raise ParseError("no signal that can be sent to a command on a server")
        await self._told(command_verbs.SIGNAL, {}, {"signal": name})

    async def resize(self, rows: int, columns: int) -> None:
        """Its terminal has another size; without a terminal nothing happens."""
        size = WindowSize(rows, columns)
        await self._told(command_verbs.RESIZE, {}, msgspec.structs.asdict(size))

    async def aclose(self) -> None:
        """End it, with everything it started; what it changed until then is not brought back."""
        if self._beginning is None:
            return
        try:
            await self._beginning
        except BaseException:
            return
        with suppress(*_GONE):
            document = await self._told(command_verbs.CLOSE, {})
            if document.get("result") is not None:
                self._result = rebuilt(ExecResult, document["result"])

    # --- asking --------------------------------------------------------------------------------

    async def _begun(self) -> Self:
        await self._id()
        return self

    async def _id(self) -> str:
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(self._found())
        return await asyncio.shield(self._beginning)

    async def _found(self) -> str:
        begun = await self._begin()
        told = begun.line.get("exec")
        id = told.get("id") if isinstance(told, dict) else None
        if not isinstance(id, str) or not id:
            raise no_answer("it does not say what it has begun")
        if begun.stdin is not None:
            following = self._scope._life.following
            giving = asyncio.ensure_future(self._give(begun.stdin))
            following.add(giving)
            giving.add_done_callback(following.discard)
        return id

    async def _give(self, data: bytes) -> None:
        """Hand over all that it is to read. That it ends before it has is its own affair."""
        with suppress(BailiwickError):
            await self.write(data)
            await self.close_input()

    async def _told(
        self,
        verb: Verb[Any],
        query: dict[str, object],
        body: dict[str, object] | None = None,
        content: bytes | None = None,
    ) -> dict[str, Any]:
        route = verb.path.format(id=segment(await self._id()))
        return await self._scope._ask(
            verb.kind, verb.method, route, query=query, body=body, content=content, asks=False,
            rooted=False,
        )  # fmt: skip

    async def _lines(self, id: str, since: int) -> AsyncGenerator[_ToldLine, None]:
        """What one connection tells."""
        row = command_verbs.OUTPUT
        request = self._scope._asked(
            row.method, row.path.format(id=segment(id)), {"since": since}, rooted=False
        )
        request = msgspec.structs.replace(request, silence_s=SILENCE_SECONDS_MAX)
        async with (
            self._scope._session.transport.opened(request) as answer,
            aclosing(_parsed(answer)) as lines,
        ):
            async for line in lines:
                if line is not None:
                    yield line


class _ToldLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that matters: a piece, the result, or the error that it was ended by."""

    piece: Piece | None = None
    result: ExecResult | None = None
    error: BailiwickError | None = None


async def _parsed(answer: HttpAnswer) -> AsyncGenerator[_ToldLine | None, None]:
    rest = b""
    async with aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if line:
                    yield _read(line)
            if len(rest) > ANSWER_BYTES_MAX:
                raise no_answer("a line does not end")


def _read(line: bytes) -> _ToldLine | None:
    """What a line says; None for the first one, which is known."""
    try:
        document = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise no_answer("a line is no JSON object")
    if document.get("error") is not None:
        told = document["error"]
        status = told.get("status") if isinstance(told, dict) else None
        return _ToldLine(error=failure_of(status if isinstance(status, int) else 500, told))
    if document.get("result") is not None:
        return _ToldLine(result=rebuilt(ExecResult, document["result"]))
    if "exec" in document:
        return None
    try:
        return _ToldLine(piece=values.piece_of(msgspec.convert(document, values.ExecLine)))
    except (Unreadable, msgspec.ValidationError) as error:
        raise no_answer(str(error)) from None
