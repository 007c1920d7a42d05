"""The verbs of a remote scope that follow what changes: server-sent events, taken up again.

A connection that breaks is made anew from the cursor of the last change that was told: nothing is
told twice, and nothing is left out as long as the server keeps it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from bailiwick.client.core import RemoteCore
from bailiwick.client.failures import cut_off, failure_of, no_answer
from bailiwick.client.reconnection import SILENCE_SECONDS_MAX, Reconnection
from bailiwick.client.transport import HttpAnswer
from bailiwick.client.values import asked, rebuilt
from bailiwick.errors import BailiwickError, Busy, Closed, IoError
from bailiwick.model import Change, MiB
from bailiwick.paths import PathText
from bailiwick.wire import verbs

_log = logging.getLogger("bailiwick.client")

EVENT_BYTES_MAX = 64 * MiB
"""One event: a directory that goes whole is told with up to ten thousand paths."""

_decoder = msgspec.json.Decoder()


class _Event(NamedTuple):
    """One event of a stream: its id where it has one, its name, and what it says."""

    id: str
    name: str
    data: bytes


class RemoteFollowing(RemoteCore):
    """Watching."""

    async def watch(
        self, path: PathText = ".", *, since: str | None = None, expand: bool = False
    ) -> AsyncGenerator[Change, None]:
        """Every change at or beneath ``path``: those after the cursor ``since``, then new ones."""
        tries = Reconnection()
        while True:
            self._refuse_closed()
            tries.begin()
            try:
                async with aclosing(self._events(path, since, expand)) as events:
                    async for event in events:
                        since = event.id or since
                        if event.name == "change":
                            yield _change(event)
            except (IoError, Closed, Busy) as error:
                # A server that stops or starts says so, or says nothing at all.
                lost: BailiwickError = error
            else:
                lost = cut_off("the stream of changes ended")
            self._refuse_closed()
            await tries.lost(lost)

    async def change_cursor(self, path: PathText = ".") -> str:
        """The cursor of this moment: what changes at or beneath ``path`` from here on is told by
        `watch` with it, whenever that begins."""
        async with aclosing(self._events(path, None, False)) as events:
            async for event in events:
                if event.id:
                    return event.id
        raise no_answer("its events begin nowhere")

    async def on_change(
        self, callback: Callable[[Change], None], path: PathText = "."
    ) -> Callable[[], None]:
        """Call ``callback`` with every change at or beneath ``path`` from now on, on the event
        loop. Returns what ends it, which may be called twice. What the callback raises is logged
        and reaches nobody; so is what ends the watching."""
        since = await self.change_cursor(path)
        task = asyncio.create_task(self._follow(callback, path, since))
        self._life.following.add(task)
        task.add_done_callback(self._life.following.discard)

        def end() -> None:
            task.cancel()

        return end

    async def _follow(self, callback: Callable[[Change], None], path: PathText, since: str) -> None:
        try:
            async with aclosing(self.watch(path, since=since)) as changes:
                async for change in changes:
                    try:
                        callback(change)
                    except BaseException:
                        _log.exception("a callback for changes failed")
        except BailiwickError as error:
            if not self._life.closed:
                _log.warning("changes are not told any more: %s", error)

    async def _events(
        self, path: PathText, since: str | None, expand: bool
    ) -> AsyncGenerator[_Event, None]:
        """The events of one connection. One that tells an error is raised as it."""
        request = self._asked(verbs.WATCH.method, verbs.WATCH.path, asked(verbs.WATCH, locals()))
        request = msgspec.structs.replace(request, silence_s=SILENCE_SECONDS_MAX)
        async with self._session.transport.opened(request) as answer:
            if (answer.header("content-type") or "").partition(";")[0] != "text/event-stream":
                raise no_answer("it is no stream of events")
            async with aclosing(_parsed(answer)) as events:
                async for event in events:
                    if event.name == "error":
                        raise _told(event)
                    yield event


async def _parsed(answer: HttpAnswer) -> AsyncGenerator[_Event, None]:
    """The events of a stream, as the HTML standard has them: fields in lines, ended by an empty
    one. A last event that was cut off is none."""
    event = _Event("", "", b"")
    rest = b""
    async with aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                line = line.removesuffix(b"\r")
                if line:
                    event = _with_field(event, line)
                    continue
                if event.id or event.data:
                    yield event
                event = _Event("", "", b"")
            if len(rest) + len(event.data) > EVENT_BYTES_MAX:
                raise no_answer("an event does not end")


def _with_field(event: _Event, line: bytes) -> _Event:
    name, _, value = line.partition(b":")
    value = value.removeprefix(b" ")
    if name == b"id" and len(value) <= 1_024 and value.isascii():
        return event._replace(id=value.decode("ascii"))
    if name == b"event":
        return event._replace(name=value[:64].decode("ascii", "replace"))
    if name == b"data":
        joined = event.data + b"\n" + value if event.data else value
        if len(joined) > EVENT_BYTES_MAX:
            raise no_answer("an event does not end")
        return event._replace(data=joined)
    return event


def _document(event: _Event) -> dict[str, Any]:
    try:
        document = _decoder.decode(event.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise no_answer("an event is no JSON object")
    return document


def _change(event: _Event) -> Change:
    return rebuilt(Change, _document(event))


def _told(event: _Event) -> BailiwickError:
    document = _document(event)
    status = document.get("status")
    return failure_of(status if isinstance(status, int) else 500, document)
