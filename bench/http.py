"""`python -m bench.http`: a small read over HTTP, beside a bare Starlette route, in one run.

Both run as processes of their own with uvicorn, uvloop and httptools on loopback; the same client
asks both in turns, so that what else the machine does falls on both alike. Starlette answers a
document of the same length from memory: the least that any server of the kind does.
"""

import argparse
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
from pathlib import Path

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


def measure(rounds: int, seconds: float, connections: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "root").mkdir()
        (Path(scratch) / "root" / "small.txt").write_text("a line of text\n" * 64)
        env = {**os.environ, "XDG_STATE_HOME": f"{scratch}/state"}
        served = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bailiwick",
                "serve",
                f"{scratch}/root",
                "--port",
                "0",
                "--json",
            ],
            stdout=subprocess.PIPE,
            env=env,
        )
        told = json.loads(served.stdout.readline())
        port, token = int(told["url"].rpartition(":")[2]), told["token"]
        asking = urllib.request.Request(f"{told['url']}/file?path=small.txt")
        asking.add_header("authorization", f"Bearer {token}")
        with urllib.request.urlopen(asking) as answer:
            body = answer.read()
        bare = subprocess.Popen(
            [sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        bare.stdin.write(body)
        bare.stdin.close()
        bare_port = int(bare.stdout.readline())
        ours: list[float] = []
        theirs: list[float] = []
        try:
            for number in range(rounds + 1):
                pair = (
                    ask(bare_port, request_of(bare_port, None), seconds, connections),
                    ask(port, request_of(port, token), seconds, connections),
                )
                if number:  # the first warms up
                    theirs.append(pair[0])
                    ours.append(pair[1])
        finally:
            for process in (served, bare):
                process.terminate()
                process.wait(10)
                process.stdout.close()
    ratio = statistics.median(mine / bare for mine, bare in zip(ours, theirs, strict=True))
    return {
        "starlette_per_s": statistics.median(theirs),
        "bailiwick_per_s": statistics.median(ours),
        "ratio": ratio,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args()
    found = measure(options.rounds, options.seconds, options.connections)
    print(
        f"GET /file, 960 bytes: {found['bailiwick_per_s']:,.0f}/s;"
        f" bare Starlette {found['starlette_per_s']:,.0f}/s; ratio {found['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
