"""A proxy before PostgreSQL, on this machine only: it counts trips, adds latency, stalls and cuts.

A trip is whatever a client sends and then waits for: a simple query, or a batch that ends with a
message Sync or Flush. One by which a connection learns a statement, to use it ever after, is made
but not counted: which connections have learnt which is left to chance.
"""

import asyncio
import contextlib
import struct

from tests.s3 import HOST
from tests.waiting import let_pass

TRIPS = (b"Q", b"S", b"H")
"""Query, Sync and Flush, by the first letter of the message."""

PARSE, EXECUTE = b"P", b"E"

SSL_REQUEST = 80877103


class PostgresProxy:
    """To be used as ``async with PostgresProxy(postgres) as proxy``, then ``proxy.dsn``."""

    def __init__(self, postgres, latency_s=0.0):
        self.trips = 0
        self.learning = 0
        self.latency_s = latency_s
        self._postgres = postgres
        self._server = None
        self._connections = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._lost_trip = None
        self._last_words = None
        self._is_losing = False

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    @property
    def dsn(self):
        return self._postgres.dsn_at(self._server.sockets[0].getsockname()[1])

    @contextlib.contextmanager
    def counting(self):
        """Trips that are made meanwhile, as a list of one number in the end."""
        before, counted = self.trips - self.learning, []
        yield counted
        counted.append(self.trips - self.learning - before)

    @contextlib.contextmanager
    def stalled(self):
        """Nothing gets through, and nobody is told."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def stall_after(self, words):
        """Nothing gets through any more once these words have. Returns an event for that."""
        self._last_words = words, asyncio.Event()
        return self._last_words[1]

    def flow(self):
        self._flows.set()

    def lose_answer(self, trip):
        """The answer to a trip from now on (1 is the next) is lost with its connection: the server
        has done what it was asked."""
        self._lost_trip = self.trips + trip

    async def cut(self):
        """All connections end, in the middle of whatever they carry."""
        serving = list(self._connections)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._connections.add(asyncio.current_task())
        try:
            there, back = await asyncio.open_connection(HOST, self._postgres.port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry_requests(reader, back))
                    both.create_task(self._carry(there, writer))
            finally:
                back.close()
        except (OSError, EOFError, asyncio.CancelledError, ExceptionGroup):
            pass
        finally:
            writer.close()
            self._connections.discard(asyncio.current_task())

    async def _carry(self, reader, writer):
        while data := await reader.read(65_536):
            await self._flows.wait()
            if self._is_losing:
                self._is_losing = False
                raise EOFError
            writer.write(data)
            await writer.drain()
        raise EOFError

    async def _carry_requests(self, reader, writer):
        begun = learns = False
        while True:
            head = await reader.readexactly(4 if not begun else 5)
            (length,) = struct.unpack("!I", head[-4:])
            body = await reader.readexactly(length - 4)
            if not begun:
                begun = struct.unpack("!I", body[:4])[0] != SSL_REQUEST
            elif head[:1] in (PARSE, EXECUTE):
                learns = head[:1] == PARSE
            elif head[:1] in TRIPS:
                self.trips += 1
                self.learning += learns
                learns = False
                self._is_losing = self._is_losing or self.trips == self._lost_trip
                if self.latency_s:
                    await let_pass(self.latency_s)
            await self._flows.wait()
            writer.write(head + body)
            await writer.drain()
            if self._last_words is not None and self._last_words[0] in body:
                (_, come), self._last_words = self._last_words, None
                self._flows.clear()
                come.set()
