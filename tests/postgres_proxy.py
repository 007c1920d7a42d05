"""A proxy before PostgreSQL, on this machine only: it counts trips, adds latency, stalls and cuts.

A trip is whatever a client sends and then waits for: a simple query, or a batch that ends with a
message Sync or Flush. One by which a connection learns a statement, to use it ever after, is made
but not counted: which connections have learnt which is left to chance.
"""

import asyncio
import contextlib
import struct
import subprocess
import sys
import threading

from tests.laws.citations import ROOT
from tests.s3 import HOST
from tests.waiting import let_pass

TRIPS = (b"Q", b"S", b"H")
"""Query, Sync and Flush, by the first letter of the message."""

QUERY, PARSE, BIND, EXECUTE, SYNC = b"Q", b"P", b"B", b"E", b"S"

CHANGING = (b"INSERT INTO", b"UPDATE", b"DELETE FROM")
HEARTBEAT = b"state_servers"

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
        self._commits_to_lose = 0
        self._last_words = None
        self._stalls_commit = False

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

    def stall_commit(self):
        """Nothing gets through any more once the next commit has, of whatever kind it is."""
        self._stalls_commit = True

    def flow(self):
        self._flows.set()

    def lose_answer(self, trip):
        """The answer to a trip from now on (1 is the next) is lost with its connection: the server
        has done what it was asked."""
        self._lost_trip = self.trips + trip

    def lose_commits(self, count):
        """The same for so many commits, the next ones: a transaction's, or a statement's that is
        one by itself."""
        self._commits_to_lose += count

    @property
    def loses_no_more(self):
        """Whether all that was to be lost has been."""
        return not self._commits_to_lose

    async def cut(self):
        """All connections end, in the middle of whatever they carry."""
        serving = list(self._connections)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._connections.add(asyncio.current_task())
        loses = asyncio.Event()
        try:
            there, back = await asyncio.open_connection(HOST, self._postgres.port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry_requests(reader, back, loses))
                    both.create_task(self._carry(there, writer, loses))
            finally:
                back.close()
        except (OSError, EOFError, asyncio.CancelledError, ExceptionGroup):
            pass
        finally:
            writer.close()
            self._connections.discard(asyncio.current_task())

    async def _carry(self, reader, writer, loses):
        while data := await reader.read(65_536):
            await self._flows.wait()
            if loses.is_set():
                raise EOFError
            writer.write(data)
            await writer.drain()
        raise EOFError

    async def _carry_requests(self, reader, writer, loses):
        begun = learns = is_last = False
        watch = _CommitWatch()
        while True:
            head = await reader.readexactly(4 if not begun else 5)
            (length,) = struct.unpack("!I", head[-4:])
            body = await reader.readexactly(length - 4)
            if not begun:
                begun = struct.unpack("!I", body[:4])[0] != SSL_REQUEST
            else:
                watch.see(head[:1], body)
            if head[:1] in (PARSE, EXECUTE):
                learns = head[:1] == PARSE
            elif head[:1] in TRIPS:
                self.trips += 1
                self.learning += learns
                learns = False
                is_last = self.trips == self._lost_trip
                if self._commits_to_lose and watch.commits:
                    self._commits_to_lose -= 1
                    is_last = True
                if self.latency_s:
                    await let_pass(self.latency_s)
            await self._flows.wait()
            if self._stalls_commit and watch.commits and head[:1] in (QUERY, SYNC):
                self._stalls_commit = False
                self._flows.clear()
            writer.write(head + body)
            if is_last:
                loses.set()
            await writer.drain()
            if self._last_words is not None and self._last_words[0] in body:
                (_, come), self._last_words = self._last_words, None
                self._flows.clear()
                come.set()


class _CommitWatch:
    """Which trips of one connection commit something, by what it has sent."""

    def __init__(self):
        self.commits = False
        self._changing = set()  # statements that it has learnt
        self._in_transaction = False

    def see(self, kind, body):
        if kind == PARSE:
            name, sql, _ = body.split(b"\0", 2)
            if any(word in sql for word in CHANGING) and HEARTBEAT not in sql:
                self._changing.add(name)
        elif kind == BIND:
            name = body.split(b"\0", 2)[1]
            self.commits = name in self._changing and not self._in_transaction
        elif kind == QUERY:
            self.commits = b"COMMIT" in body
            self._in_transaction = body.startswith(b"BEGIN") and not self.commits


class ProxyThread:
    """A proxy on a loop of its own: the test itself waits."""

    def __init__(self, postgres, latency_s=0.0):
        self._proxy = PostgresProxy(postgres, latency_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self):
        self._thread.start()
        self._run(self._proxy.__aenter__())
        return self

    def __exit__(self, *_):
        self._run(self._proxy.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def dsn(self):
        return self._proxy.dsn

    @property
    def trips(self):
        return self._proxy.trips

    def through(self, dsn):
        return self._proxy.dsn.replace("/postgres", "/" + dsn.rpartition("/")[2])

    @contextlib.contextmanager
    def stalled(self):
        """Nothing gets through, and nobody is told."""
        self._loop.call_soon_threadsafe(self._proxy._flows.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._proxy._flows.set)

    def stall_for(self, seconds):
        """Nothing gets through from now on, for so long."""
        self._loop.call_soon_threadsafe(self._proxy._flows.clear)
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._proxy._flows.set)

    def stall_commit(self):
        self._loop.call_soon_threadsafe(self._proxy.stall_commit)

    def flow(self):
        self._loop.call_soon_threadsafe(self._proxy.flow)

    def slow_down(self, seconds):
        """So long for every trip."""
        self._proxy.latency_s = seconds

    def lose_commits(self, count):
        self._proxy.lose_commits(count)

    @property
    def loses_no_more(self):
        return self._proxy.loses_no_more

    def cut(self):
        self._run(self._proxy.cut())


class ProxyProcess:
    """A proxy in a process of its own, as a network is: what is measured does not wait for it."""

    def __init__(self, postgres, latency_s):
        self._postgres = postgres
        self._words = [sys.executable, "-m", __name__, str(postgres.port), str(latency_s)]

    def __enter__(self):
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.dsn = self._postgres.dsn_at(int(self._process.stdout.readline()))
        return self

    def __exit__(self, *_):
        self._process.communicate(timeout=60)

    @property
    def trips(self):
        print(file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


class _Standing:
    """A PostgreSQL that another process has started."""

    def __init__(self, port):
        self.port = port

    def dsn_at(self, port):
        return str(port)


async def carry(port, latency_s):
    """Says where it listens, and for every line that it is given how many trips there were."""
    loop = asyncio.get_running_loop()
    async with PostgresProxy(_Standing(port), latency_s) as proxy:
        print(proxy.dsn, flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(proxy.trips, flush=True)


if __name__ == "__main__":
    asyncio.run(carry(int(sys.argv[1]), float(sys.argv[2])))
