"""A server that says what it likes: raw bytes on loopback, and what it was told."""

import asyncio
import contextlib
import json

CAPABILITIES = {
    "kind": "capabilities", "version": "0", "features": [], "subject": "user:local",
    "root": "workspace:demo", "grantId": "g1", "access": ["read", "write", "list", "watch"],
    "powers": ["forks"], "trusted": True, "readOnly": False,
    "limits": {
        "textReadBytes": 262144, "textWriteBytes": 5242880, "maxFileBytes": 2**30,
        "jsonBodyBytes": 10485760, "uploadBytes": 52428800, "lines": 2000, "listPage": 2000,
        "globMatches": 50000, "grepMatches": 50000,
    },
}  # fmt: skip


def answer(body, status="200 OK", *headers, length=None):
    """An answer as bytes; ``length`` is what it says it is long."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(data) if length is None else length}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class Liar:
    """One that answers `/capabilities` as it should, and everything else as it was told to."""

    def __init__(self, port, said):
        self.url = f"http://127.0.0.1:{port}"
        self.said = said
        self.heard = []
        self.bodies = []


@contextlib.asynccontextmanager
async def lying(said, *, capabilities=CAPABILITIES):
    """``said``: bytes, or a list of them for one request after another (the last for all that
    follow), or what writes to the connection itself."""
    liar = Liar(0, said)

    async def serve(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                liar.heard.append(head)
                length = next(
                    (int(line[15:]) for line in head.split("\r\n")
                     if line.lower().startswith("content-length:")), 0,
                )  # fmt: skip
                liar.bodies.append(await reader.readexactly(length))
                if "/capabilities" in head:
                    writer.write(answer(capabilities))
                    await writer.drain()
                    continue
                given = liar.said
                if isinstance(given, list):
                    given = given.pop(0) if len(given) > 1 else given[0]
                if callable(given):
                    await given(writer)
                else:
                    writer.write(given)
                await writer.drain()
                break
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    serving = set()

    def begin(reader, writer):
        serving.add(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    liar.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield liar
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
