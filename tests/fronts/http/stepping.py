"""What the tests of first steps have in common: connections that are kept, and a count of steps."""

import asyncio
import contextlib
import re

import msgspec

from bailiwick.fronts.http.transport.protocol import BoundedProtocol
from bailiwick.hook import Hook
from tests.fronts.http.serving import parsed
from tests.waiting import loop_turns


class Steps:
    """Counts requests by when they were answered."""

    def __init__(self, monkeypatch):
        self.first, self.later = 0, 0
        begin, start = BoundedProtocol._begin_first, BoundedProtocol._start_asgi_task

        def beginning(connection, **how):
            cycle = connection._first
            begin(connection, **how)
            ended = cycle.response_complete
            self.first += ended
            self.later += not ended

        def starting(connection, *arguments):
            self.later += 1
            start(connection, *arguments)

        monkeypatch.setattr(BoundedProtocol, "_begin_first", beginning)
        monkeypatch.setattr(BoundedProtocol, "_start_asgi_task", starting)

    def taken(self):
        """How many were answered in their first step, where they came in, and how many were not,
        since this was asked last."""
        counted = self.first, self.later
        self.first = self.later = 0
        return counted


class Kept:
    """One connection that is kept, and what is asked on it. It ends with the house."""

    def __init__(self, house, reader, writer):
        self.house, self.reader, self.writer = house, reader, writer
        house.also_close(self)

    @classmethod
    async def to(cls, house):
        return cls(house, *await house.connect())

    async def ask(self, path, *headers, token=None, method="GET", body=b""):
        head = self.house.head(f"{method} {path} HTTP/1.1", *headers, token=token)
        self.writer.write(head + body)
        return await self.answer()

    async def answer(self):
        """Status, headers without the date, and the document."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 120)
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        status, headers, document = parsed(head + await self.reader.readexactly(length))
        del headers["date"]
        return status, headers, document

    async def aclose(self):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def warm(house, path, **how):
    """Ask once, so that the scope of a caller is open, and what marks the file is known."""
    kept = await Kept.to(house)
    await kept.ask(f"/file?path={path}", **how)
    await kept.aclose()


async def records(house):
    """What stands on record of reads: path and outcome."""
    found = (await house.client().get("/audit?operation=read")).json()["records"]
    return [(each["path"], each["outcome"]) for each in reversed(found)]


def answers_with(house, handler, method="GET", path="/health"):
    """Have a route handled otherwise."""
    compiled = house.app._exact[method, path]
    compiled.route = msgspec.structs.replace(compiled.route, handler=handler)


class Slow(Hook):
    """Sees every operation, and takes its time."""

    name = "slow"

    def __init__(self):
        self.seen = []

    async def before(self, context):
        task = asyncio.current_task()
        assert task in asyncio.all_tasks()
        await loop_turns(10)
        assert asyncio.current_task() is task

    async def after(self, context, record):
        self.seen.append((record.path, record.outcome))
