"""A proxy before a server of ours, on this machine only, that cuts connections."""

import asyncio
import contextlib


class CuttingProxy:
    """To be used as ``async with CuttingProxy(port) as proxy``, then ``proxy.url``.

    ``heard`` has what was sent through it, by request as a client that waits for answers sends
    them. ``cuts`` says what becomes of each that follows: "answer" is cut when the server has
    answered and before the client hears it, "request" before the server hears it, "refusal" is
    told by something that stands between; None, and what is not said, goes through.
    """

    def __init__(self, port):
        self.port = port
        self.heard = []
        self.cuts = []
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _begin(self, reader, writer):
        self._tasks.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request = head + await _body(reader, head)
                self.heard.append(request)
                cut = self.cuts.pop(0) if self.cuts else None
                if cut == "request":
                    return
                if cut == "refusal":
                    writer.write(b"HTTP/1.1 502 Bad\r\ncontent-length: 2\r\n\r\n<>")
                    continue
                there, back = await asyncio.open_connection("127.0.0.1", self.port)
                with contextlib.closing(back):
                    back.write(request)
                    answer = await there.readuntil(b"\r\n\r\n")
                    answer += await _body(there, answer)
                if cut == "answer":
                    return
                writer.write(answer)
                await writer.drain()


async def _body(reader, head):
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
    if fields.get(b"transfer-encoding") == b"chunked":
        body = b""
        while not body.endswith(b"0\r\n\r\n"):
            body += await reader.readuntil(b"\r\n")
        return body
    return await reader.readexactly(int(fields.get(b"content-length", 0)))


def header(request, name):
    """A header of a request that was heard; None where it has none."""
    for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        field, _, value = line.partition(b":")
        if field.lower() == name.encode():
            return value.strip().decode()
    return None
