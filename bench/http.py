"""`make bench-fronts`: a small read over HTTP, beside a bare Starlette route, in one run; and what
a server's memory grows by while 1 GiB goes in and out.

Both run as processes of their own with uvicorn, uvloop and httptools on loopback; the same client
asks both in turns, so that what else the machine does falls on both alike. Starlette answers a
document of the same length from memory: the least that any server of the kind does.
"""

import argparse
import contextlib
import http.client
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

SECONDS = 1.0
"""How long one turn is."""

BLOCK, BLOCKS = bytes(1024 * 1024), 1024

FORGET_PEAK = "5"
"""What the kernel's `clear_refs` takes for "begin to look for the peak anew"."""

BARE = """
import asyncio, socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

BODY = sys.stdin.buffer.read()

async def file(request):
    request.query_params["path"]
    return Response(BODY, media_type="application/json")

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/file", file)])
config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", loop="uvloop",
                        http="httptools")
uvicorn.Server(config).run([listener])
"""


def ask(port: int, request: bytes, seconds: float, connections: int) -> float:
    """Requests a second, by so many connections that each ask again as soon as they are answered.

    By plain sockets: a client that takes longer than the server would measure itself.
    """
    ready = select.epoll()
    sockets = {}
    try:
        for _ in range(connections):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets[connection.fileno()] = connection
            ready.register(connection, select.EPOLLIN)
            connection.sendall(request)
        answered, pending = 0, dict.fromkeys(sockets, b"")
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            for number, _ in ready.poll(1):
                data = pending[number] + sockets[number].recv(65_536)
                assert data.startswith(b"HTTP/1.1 200"), data[:200]
                if not data.endswith(b"}"):
                    pending[number] = data
                    continue
                pending[number] = b""
                answered += 1
                sockets[number].sendall(request)
        return answered / (time.perf_counter() - began)
    finally:
        ready.close()
        for connection in sockets.values():
            connection.close()


def request_of(port: int, token: str | None) -> bytes:
    shown = f"authorization: Bearer {token}\r\n" if token else ""
    return f"GET /file?path=small.txt HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{shown}\r\n".encode()


@contextlib.contextmanager
def served(scratch: Path) -> Iterator[tuple[str, str, int]]:
    """A server on a directory: its address, a token, and its process."""
    (scratch / "root").mkdir()
    (scratch / "root" / "small.txt").write_text("a line of text\n" * 64)
    command = [sys.executable, "-m", "bailiwick", "serve", f"{scratch}/root"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": f"{scratch}/state"},
    )
    try:
        told = json.loads(process.stdout.readline())
        yield told["url"], told["token"], process.pid
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@contextlib.contextmanager
def bare_route(body: bytes) -> Iterator[int]:
    """The bare route, which answers with ``body``: its port."""
    process = subprocess.Popen(
        [sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdin.write(body)
        process.stdin.close()
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def measure_rates(url: str, token: str, rounds: int, connections: int) -> dict[str, float]:
    asking = urllib.request.Request(f"{url}/file?path=small.txt")
    asking.add_header("authorization", f"Bearer {token}")
    with urllib.request.urlopen(asking) as answer:
        body = answer.read()
    port = int(url.rpartition(":")[2])
    ours: list[float] = []
    theirs: list[float] = []
    with bare_route(body) as bare:
        for number in range(rounds + 1):
            pair = (
                ask(bare, request_of(bare, None), SECONDS, connections),
                ask(port, request_of(port, token), SECONDS, connections),
            )
            if number:  # the first warms up
                theirs.append(pair[0])
                ours.append(pair[1])
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {
        "bailiwick_requests_a_second": round(statistics.median(ours)),
        "bare_starlette_requests_a_second": round(statistics.median(theirs)),
        "of_bare_starlette": round(statistics.median(ratios), 2),
    }


def measure_memory(url: str, token: str, pid: int) -> dict[str, float]:
    """What the server's memory peaks at above idle, in MiB, while a large file goes in and out."""
    host, route = url.removeprefix("http://"), "/file/raw?path=large"
    shown = {"authorization": f"Bearer {token}"}

    def upload() -> None:
        connection = http.client.HTTPConnection(host)
        size = {"content-length": str(len(BLOCK) * BLOCKS)}
        connection.request("PUT", route, (BLOCK for _ in range(BLOCKS)), {**shown, **size})
        assert connection.getresponse().status in (200, 201)
        connection.close()

    def download() -> None:
        connection = http.client.HTTPConnection(host)
        connection.request("GET", route, headers=shown)
        answer, received = connection.getresponse(), 0
        while block := answer.read(len(BLOCK)):
            received += len(block)
        assert received == len(BLOCK) * BLOCKS
        connection.close()

    rose = {}
    for name, transfer in (("upload", upload), ("download", download)):
        idle = resident(pid, "VmRSS")
        Path(f"/proc/{pid}/clear_refs").write_text(FORGET_PEAK)
        transfer()
        rose[f"{name}_of_1_GiB_extra_MiB"] = round((resident(pid, "VmHWM") - idle) / 1024, 1)
    return rose


def resident(pid: int, what: str) -> int:
    """A figure of a process's memory, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, served(Path(scratch)) as (url, token, pid):
        found = measure_rates(url, token, options.rounds, options.connections)
        found |= measure_memory(url, token, pid)
    for name, value in found.items():
        print(f"{name:<34} {value}")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
