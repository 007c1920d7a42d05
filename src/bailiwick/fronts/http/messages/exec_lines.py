"""What is told of a command, line by line: newline-delimited JSON, from any piece of its output on.

An empty line now and then says that nothing happens: proxies end what is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from bailiwick.fronts.http.access.streams import counted_stream
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.messages.requests import Headers, Request
from bailiwick.fronts.http.settings import EVENT_BEAT_SECONDS, EVENT_LOOK_SECONDS
from bailiwick.wire import values
from bailiwick.wire.command_verbs import WITHOUT_END

if TYPE_CHECKING:
    from bailiwick.fronts.http.access.executions import HttpExecution

HEADERS: Headers = [(b"content-type", b"application/x-ndjson"), (b"x-accel-buffering", b"no")]

_encoder = msgspec.json.Encoder(enc_hook=str)


def line(told: values.ExecLine) -> bytes:
    return _encoder.encode(told) + b"\n"


def shown(entry: HttpExecution) -> values.WireExecution:
    return values.WireExecution(
        id=entry.id, request_id=entry.execution.request_id,
        state="running" if entry.ended_at is None else "ended", command=entry.words,
        session=entry.session, subject=str(entry.scope.subject), root=str(entry.scope.root),
        began_ms=entry.began_ms,
    )  # fmt: skip


def first_line(entry: HttpExecution) -> bytes:
    return line(values.ExecLine(exec=shown(entry)))


class Telling:
    """Tells one caller of one command, for as long as they may hear of it."""

    def __init__(self, request: Request, entry: HttpExecution) -> None:
        self._request = request
        self._executions = request.app.executions
        self._entry = entry
        self._caller = request.caller
        self._clock = asyncio.get_running_loop().time
        self._spoke = self._clock()
        self.is_over = False
        """Whether all was told."""

    async def lines(self, since: int) -> AsyncGenerator[bytes, None]:
        """The command, its output from a piece on, and what became of it."""
        try:
            yield first_line(self._entry)
            with counted_stream(self._request):
                async with aclosing(self._told(since)) as told:
                    async for each in told:
                        self._spoke = self._clock()
                        yield each
        except Exception as error:
            document = msgspec.to_builtins(errors.document(errors.typed(error)), enc_hook=str)
            yield line(values.ExecLine(error=document))
        self.is_over = True

    async def _told(self, since: int) -> AsyncGenerator[bytes, None]:
        if since < WITHOUT_END:  # output that was given up keeps nobody from the result
            async with aclosing(self._pieces(since)) as pieces:
                async for each in pieces:
                    yield each
        execution = self._entry.execution
        ending = asyncio.ensure_future(execution.result())
        async with aclosing(self._until(ending)) as beats:
            async for beat in beats:
                yield beat
        result: Any = values.EXEC_RESULT.write(ending.result())
        yield line(values.ExecLine(result=result))

    async def _pieces(self, since: int) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._entry.execution.output(since)) as pieces:
            while True:
                coming = asyncio.ensure_future(_next(anext(pieces, None)))
                async with aclosing(self._until(coming)) as beats:
                    async for beat in beats:
                        yield beat
                piece = coming.result()
                if piece is None:
                    return
                yield line(values.piece_line(piece))

    async def _until(self, coming: asyncio.Future[Any]) -> AsyncGenerator[bytes, None]:
        """Wait for something, and see to it meanwhile that its caller is still known."""
        coming.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            while True:
                done, _ = await asyncio.wait((coming,), timeout=EVENT_LOOK_SECONDS)
                self._executions.refuse_unknown(self._entry, self._caller)
                if done:
                    return
                if self._clock() - self._spoke >= EVENT_BEAT_SECONDS:
                    yield b"\n"
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait((coming,))


async def _next(piece: Awaitable[Any]) -> Any:
    return await piece
