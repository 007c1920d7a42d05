"""The change feed as server-sent events, resumable by the id of the last one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from bailiwick.errors import BailiwickError, Closed, Unauthenticated
from bailiwick.events import parse_cursor
from bailiwick.fronts.http.access.streams import counted_stream
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.settings import (
    EVENT_BEAT_SECONDS,
    EVENT_BYTES_TOGETHER,
    EVENT_LOOK_SECONDS,
    EVENTS_RENDERED,
)
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.model import Change
from bailiwick.wire import values, verbs


async def follow(request: Request) -> Reply:
    stream = _counted(request)
    # What is wrong with the request is told before the stream begins.
    await anext(stream)
    return Reply(
        headers=[(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")],
        chunks=stream,
    )


async def _counted(request: Request) -> AsyncGenerator[bytes, None]:
    """The stream, counted from before it begins until it ends. First comes an empty chunk, which
    says that it could begin."""
    with counted_stream(request):
        async with aclosing(await _begun(request)) as events:
            yield b""
            async for event in events:
                yield event


async def _begun(request: Request) -> AsyncGenerator[bytes, None]:
    query = request.query
    path = query.get("path", ".")
    since = request.header(b"last-event-id") or query.get("since")
    scope = await request.scoped(path)
    if since is not None:
        parse_cursor(since)
    # What changes between the answer and its first event is told too.
    now = await scope.change_cursor(path)
    changes = scope.watch(path, since=since or now, expand=query.get("expand", False))
    return _events(changes, since or now, request)


class _Coming:
    """Changes as they come, taken together with what came meanwhile.

    Every change that is sent by itself costs several turns of the event loop. On a busy server a
    turn takes its time, and a stream that sends one after the other falls behind for ever.
    """

    def __init__(self, changes: AsyncGenerator[Change, None]) -> None:
        self._changes = changes
        self._waiting: list[bytes] = []
        self._size = 0
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stirred: asyncio.Future[None] = self._loop.create_future()
        self.taking = asyncio.ensure_future(self._take())
        self.taking.add_done_callback(self._ended)
        self._timer = self._loop.call_later(EVENT_LOOK_SECONDS, self._look)

    def _ended(self, task: asyncio.Future[None]) -> None:
        # Who stops listening does not ask any more how it ended.
        if not task.cancelled():
            task.exception()
        self.stir()

    def _look(self) -> None:
        self._timer = self._loop.call_later(EVENT_LOOK_SECONDS, self._look)
        self.stir()

    def stir(self) -> None:
        """Have whoever waits look what there is."""
        if not self._stirred.done():
            self._stirred.set_result(None)

    async def stirred(self) -> None:
        """Wait for changes, for their end, for `stir`, or until it is time to look again. One
        future for all of it: waiting for several costs more than everything else about an event."""
        await self._stirred
        self._stirred = self._loop.create_future()

    @property
    def has_come(self) -> bool:
        return bool(self._waiting)

    async def _take(self) -> None:
        async for change in self._changes:
            event = _rendered(change)
            self._waiting.append(event)
            self._size += len(event)
            self.stir()
            if self._size >= EVENT_BYTES_TOGETHER:
                self._room.clear()
                await self._room.wait()

    def taken(self) -> bytes:
        """All that has come since the last time."""
        together = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._room.set()
        return together

    async def aclose(self) -> None:
        self._timer.cancel()
        self.taking.cancel()
        await asyncio.wait((self.taking,))
        await self._changes.aclose()


async def _events(
    changes: AsyncGenerator[Change, None], since: str, request: Request
) -> AsyncGenerator[bytes, None]:
    """The stream: changes as they come, and a comment now and then so that it stays open. It ends
    with the token or session that it was begun with."""
    coming = _Coming(changes)
    closed = asyncio.ensure_future(request.app.closing.wait())
    closed.add_done_callback(lambda _: coming.stir())
    clock = asyncio.get_running_loop().time
    spoke = clock()
    try:
        # Who is cut off before the first change knows where to go on, too.
        yield b"retry: 1000\nid: " + since.encode() + b"\n\n"
        while True:
            await coming.stirred()
            if closed.done() and not coming.has_come:
                return
            if not request.app.still_knows(request.caller):
                raise Unauthenticated("the token or session of this stream has ended")
            if coming.has_come:
                yield coming.taken()
            elif coming.taking.done():
                coming.taking.result()
                return
            elif clock() - spoke >= EVENT_BEAT_SECONDS:
                yield b": still here\n\n"
            else:
                continue
            spoke = clock()
    except Closed:
        return  # the server stops: the client comes back to the next one
    except BailiwickError as error:
        yield b"event: error\ndata: " + errors.encode(error) + b"\n\n"
    finally:
        closed.cancel()
        coming.taking.cancel()
        await asyncio.wait((closed,))
        await coming.aclose()


_encoder = msgspec.json.Encoder(enc_hook=str)

_rendered_last: dict[int, tuple[Change, bytes]] = {}


def _rendered(change: Change) -> bytes:
    """The text of a change, made once for all streams that are shown the very same one: what a
    subject sees otherwise is another object."""
    known = _rendered_last.get(id(change))
    if known is not None:
        return known[1]
    if len(_rendered_last) >= EVENTS_RENDERED:
        del _rendered_last[next(iter(_rendered_last))]
    text = _event(change)
    # Kept with the change itself, so that nothing else can have its number.
    _rendered_last[id(change)] = (change, text)
    return text


def _event(change: Change) -> bytes:
    document = values.EVENT.write(change)
    name = b"id: " + change.cursor.encode() + b"\n" if change.cursor else b""
    return name + b"event: change\ndata: " + _encoder.encode(document) + b"\n\n"


ROUTES: tuple[Route, ...] = (
    route(verbs.WATCH, follow, answers="events", who="caller"),
)  # fmt: skip
