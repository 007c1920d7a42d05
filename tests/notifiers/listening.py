"""A real server on loopback that takes what a webhook is sent, and answers as a test says."""

import asyncio
import contextlib

from tests.waiting import until


class Hook:
    """What came, and how the next ones are answered: each is a coroutine function that is given the
    writer; the last one goes on."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.came = asyncio.Condition()
        self.port = 0
        self.connections = set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook?key=1"

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.connections.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            body = await reader.readexactly(int(headers["Content-Length"]))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            async with self.came:
                self.requests.append((lines[0], headers, body))
                self.came.notify_all()
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self.connections.discard(task)

    async def count(self, least):
        async with self.came:
            await asyncio.wait_for(self.came.wait_for(lambda: len(self.requests) >= least), 60)
        return self.requests


@contextlib.asynccontextmanager
async def listening(*answers, ssl=None):
    hook = Hook(*answers)
    server = await asyncio.start_server(hook.serve, "127.0.0.1", 0, ssl=ssl)
    hook.port = server.sockets[0].getsockname()[1]
    try:
        yield hook
    finally:
        server.close()
        for task in list(hook.connections):
            task.cancel()
        if hook.connections:
            await asyncio.wait(list(hook.connections))
        await server.wait_closed()
        # A handshake that failed is a task of the event loop's, which ends by itself.
        await until(lambda: not any("_accept_connection" in repr(t) for t in asyncio.all_tasks()))


def says(status, *more):
    async def answer(writer):
        lines = [f"HTTP/1.1 {status}", *more, "Content-Length: 0", "", ""]
        writer.write("\r\n".join(lines).encode())
        await writer.drain()

    return answer


async def stalls(writer):
    await asyncio.get_running_loop().create_future()


async def breaks(writer):
    writer.transport.abort()


async def babbles(writer):
    """Garbage without an end and without a line."""
    while True:
        writer.write(b"\xff" * 65536)
        await writer.drain()


async def drips_headers(writer):
    """The beginning of an answer, again and again, and never one."""
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 100)
        await writer.drain()
