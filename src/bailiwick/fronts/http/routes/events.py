"""Changes, questions, runs and verdicts as server-sent events, resumable by the id of the last
change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from bailiwick.errors import BailiwickError, Closed, Unauthenticated
from bailiwick.events import parse_cursor
from bailiwick.fronts.http.access.lineage import descends
from bailiwick.fronts.http.access.streams import counted_stream
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.routes.approvals import APPROVAL_NOTICE, may_see
from bailiwick.fronts.http.settings import (
    EVENT_BEAT_SECONDS,
    EVENT_BYTES_TOGETHER,
    EVENT_LOOK_SECONDS,
    EVENTS_RENDERED,
)
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.model import Change
from bailiwick.notices import ApprovalNotice, Notice, ReviewNotice, RunNotice
from bailiwick.wire import Document, values, verbs


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
    return _events(changes, since or now, _Noticing(request, str(scope.root)))


class _Noticing:
    """Which notices a stream tells, and how."""

    def __init__(self, request: Request, root: str) -> None:
        self.request = request
        self._root = root

    def open_questions(self) -> list[bytes]:
        """What waits for a person as the stream begins: whoever was away missed no question."""
        found = self.request.authority.approvals.pending(brief=True)
        notices = (ApprovalNotice(kind="asked", approval=each) for each in found)
        return [text for each in notices if (text := self.rendered(each))]

    def rendered(self, notice: Notice) -> bytes:
        """The event of a notice; nothing where it is not for this caller. Questions are those of
        all roots, runs and verdicts those of the root that is followed."""
        if isinstance(notice, ApprovalNotice):
            if not may_see(self.request, notice.approval):
                return b""
            return _event(b"approval", APPROVAL_NOTICE.write(notice))
        if notice.root != self._root or not self._is_own(notice):
            return b""
        if isinstance(notice, RunNotice):
            return _event(b"run", values.RUN_NOTICE.write(notice))
        return _event(b"review", values.REVIEW_NOTICE.write(notice))

    def _is_own(self, notice: RunNotice | ReviewNotice) -> bool:
        caller = self.request.caller
        if caller.grant_id is not None:
            given = notice.grant_id
            return given is not None and descends(self.request.authority, given, caller.grant_id)
        return caller.is_person or notice.subject == str(caller.subject)


class _Coming:
    """Changes as they come, taken together with what came meanwhile.

    Every change that is sent by itself costs several turns of the event loop. On a busy server a
    turn takes its time, and a stream that sends one after the other falls behind for ever.

    Notices come between them. A reader who does not take them in time is `behind`: changes wait
    for it, and they cannot.
    """

    def __init__(self, changes: AsyncGenerator[Change, None], noticing: _Noticing) -> None:
        self._changes = changes
        self._noticing = noticing
        self.behind = False
        self._unfollow = noticing.request.authority.notices.follow(self._told)
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

    def _told(self, notice: Notice) -> None:
        event = self._noticing.rendered(notice)
        if not event:
            return
        if self._size >= 2 * EVENT_BYTES_TOGETHER:
            self.behind = True
        else:
            self._waiting.append(event)
            self._size += len(event)
        self.stir()

    def taken(self) -> bytes:
        """All that has come since the last time."""
        together = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._room.set()
        return together

    async def aclose(self) -> None:
        self._unfollow()
        self._timer.cancel()
        self.taking.cancel()
        await asyncio.wait((self.taking,))
        await self._changes.aclose()


async def _events(
    changes: AsyncGenerator[Change, None], since: str, noticing: _Noticing
) -> AsyncGenerator[bytes, None]:
    """The stream: changes and notices as they come, and a comment now and then so that it stays
    open. It ends with the token or session that it was begun with, and where its reader is too far
    behind, who comes back and is told what is open."""
    request = noticing.request
    coming = _Coming(changes, noticing)
    closed = asyncio.ensure_future(request.app.closing.wait())
    closed.add_done_callback(lambda _: coming.stir())
    clock = asyncio.get_running_loop().time
    spoke = clock()
    try:
        # Who is cut off before the first change knows where to go on, too.
        yield b"retry: 1000\nid: " + since.encode() + b"\n\n"
        for event in noticing.open_questions():
            yield event
        while True:
            await coming.stirred()
            if closed.done() and not coming.has_come:
                return
            if not request.app.still_knows(request.caller):
                raise Unauthenticated("the token or session of this stream has ended")
            if coming.behind:
                return
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
    text = _change_event(change)
    # Kept with the change itself, so that nothing else can have its number.
    _rendered_last[id(change)] = (change, text)
    return text


def _change_event(change: Change) -> bytes:
    name = b"id: " + change.cursor.encode() + b"\n" if change.cursor else b""
    return name + _event(b"change", values.EVENT.write(change))


def _event(name: bytes, document: Document) -> bytes:
    """One event. Only changes have an id besides: from that a stream is taken up again."""
    return b"event: " + name + b"\ndata: " + _encoder.encode(document) + b"\n\n"


ROUTES: tuple[Route, ...] = (
    route(verbs.WATCH, follow, answers="events", who="caller"),
)  # fmt: skip
