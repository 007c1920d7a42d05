"""`make bench-fronts`: a small read and writes over HTTP, beside bare Starlette routes, in one run;
and what a server's memory grows by while 1 GiB goes in and out.

Both run as processes of their own with uvicorn, uvloop and httptools on loopback; the same client
asks both in turns, so that what else the machine does falls on both alike. Starlette answers a read
with a document of the same length from memory, and a write by `open().write()`: the least that any
server of the kind does. Writes go to 2,000 different files, and are told by what they take of the
server's processor and of the client's patience.
"""

import argparse
import contextlib
import dataclasses
import http.client
import json
import select
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.scratch import SMALL, on_memory
from bench.servers import Served, served

BLOCK = bytes(1024 * 1024)
AT_ONCE = 100
"""Files that are written in one turn."""


@dataclasses.dataclass(frozen=True)
class Work:
    """How much is asked of both servers."""

    rounds: int = 7
    connections: int = 8
    seconds: float = 1.0
    """How long one turn of reads is."""
    files: int = 2_000
    blocks: int = 1_024
    """MiB that go in and out."""


FORGET_PEAK = "5"
"""What the kernel's `clear_refs` takes for "begin to look for the peak anew"."""

BARE = """
import json, socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

BODY = sys.stdin.buffer.read()

async def file(request):
    request.query_params["path"]
    return Response(BODY, media_type="application/json")

async def write(request):
    asked = json.loads(await request.body())
    with open(sys.argv[1] + "/" + asked["path"], "w") as file:
        file.write(asked["content"])
    return JSONResponse({"path": asked["path"], "sizeBytes": len(asked["content"])})

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/file", file), Route("/file/write", write, methods=["POST"])])
config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", loop="uvloop",
                        http="httptools")
uvicorn.Server(config).run([listener])
"""


def ask(port: int, request: bytes, seconds: float, connections: int) -> tuple[int, float]:
    """How many requests were answered, in how many seconds, by so many connections that each ask
    again as soon as they are answered.

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
        # On a busy machine a turn may be over before the first answer: it goes on until then.
        while not answered or time.perf_counter() - began < seconds:
            for number, _ in ready.poll(1):
                data = pending[number] + sockets[number].recv(65_536)
                assert data.startswith(b"HTTP/1.1 200"), data[:200]
                if not data.endswith(b"}"):
                    pending[number] = data
                    continue
                pending[number] = b""
                answered += 1
                sockets[number].sendall(request)
        return answered, time.perf_counter() - began
    finally:
        ready.close()
        for connection in sockets.values():
            connection.close()


def request_of(port: int, token: str) -> bytes:
    shown = f"authorization: Bearer {token}\r\n" if token else ""
    return f"GET /file?path=small.txt HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{shown}\r\n".encode()


@contextlib.contextmanager
def bare_routes(body: bytes, directory: Path) -> Iterator[Served]:
    """The bare routes: one answers with ``body``, the other writes in ``directory``."""
    process = subprocess.Popen(
        [sys.executable, "-c", BARE, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(body)
        process.stdin.close()
        yield Served(f"http://127.0.0.1:{int(process.stdout.readline())}", "", process.pid)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def read_body(server: Served) -> bytes:
    asking = urllib.request.Request(f"{server.url}/file?path=small.txt")
    asking.add_header("authorization", f"Bearer {server.token}")
    with urllib.request.urlopen(asking) as answer:
        body: bytes = answer.read()
    return body


def measure_rates(mine: Served, bare: Served, work: Work) -> dict[str, float]:
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    used: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(work.rounds + 1):
        for who, server in (("theirs", bare), ("ours", mine)):
            before = server.processor_s()
            request = request_of(server.port, server.token)
            answered, took = ask(server.port, request, work.seconds, work.connections)
            if number:  # the first warms up
                rates[who].append(answered / took)
                used[who].append((server.processor_s() - before) / answered * 1e3)
    faster = [a / b for a, b in zip(rates["ours"], rates["theirs"], strict=True)]
    dearer = [a / b for a, b in zip(used["ours"], used["theirs"], strict=True)]
    return {
        "bailiwick_requests_a_second": round(statistics.median(rates["ours"])),
        "bare_starlette_requests_a_second": round(statistics.median(rates["theirs"])),
        "of_bare_starlette": round(statistics.median(faster), 2),
        "read_server_cpu_ms": round(statistics.median(used["ours"]), 3),
        "read_cpu_times_starlette": round(statistics.median(dearer), 2),
    }


def write_each(server: Served, numbers: range) -> tuple[float, list[float]]:
    """Write to different files over one connection: the server's processor time for each in ms, and
    how long each took."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    shown = {"content-type": "application/json"}
    if server.token:
        shown["authorization"] = f"Bearer {server.token}"
    took = []
    before = server.processor_s()
    for number in numbers:
        body = json.dumps({"path": f"d{number % 20:02}/{number:04}.txt", "content": SMALL.decode()})
        began = time.perf_counter()
        connection.request("POST", "/file/write", body, shown)
        answer = connection.getresponse()
        answer.read()
        took.append(time.perf_counter() - began)
        assert answer.status in (200, 201), answer.status
    used = server.processor_s() - before
    connection.close()
    return used / len(numbers) * 1e3, took


def measure_writes(mine: Served, bare: Served, work: Work) -> dict[str, float]:
    """All files are made, then written over, in turns of a hundred."""
    used: dict[str, list[float]] = {"ours": [], "theirs": []}
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(2):
        for begin in range(0, work.files, AT_ONCE):
            for who, server in (("theirs", bare), ("ours", mine)):
                numbers = range(begin, min(begin + AT_ONCE, work.files))
                cpu_ms, times = write_each(server, numbers)
                used[who].append(cpu_ms)
                took[who] += times
    ratios = [mine / other for mine, other in zip(used["ours"], used["theirs"], strict=True)]
    return {
        "write_server_cpu_ms": round(statistics.median(used["ours"]), 3),
        "starlette_write_server_cpu_ms": round(statistics.median(used["theirs"]), 3),
        "write_cpu_times_starlette": round(statistics.median(ratios), 1),
        "write_ms_p50": round(statistics.median(took["ours"]) * 1e3, 2),
        "starlette_write_ms_p50": round(statistics.median(took["theirs"]) * 1e3, 2),
    }


def measure_memory(server: Served, blocks: int) -> dict[str, float]:
    """What the server's memory peaks at above idle, in MiB, while a large file goes in and out."""
    host, route = server.url.removeprefix("http://"), "/file/raw?path=large"
    shown, pid = {"authorization": f"Bearer {server.token}"}, server.pid

    def upload() -> None:
        connection = http.client.HTTPConnection(host)
        size = {"content-length": str(len(BLOCK) * blocks)}
        connection.request("PUT", route, (BLOCK for _ in range(blocks)), {**shown, **size})
        assert connection.getresponse().status in (200, 201)
        connection.close()

    def download() -> None:
        connection = http.client.HTTPConnection(host)
        connection.request("GET", route, headers=shown)
        answer, received = connection.getresponse(), 0
        while block := answer.read(len(BLOCK)):
            received += len(block)
        assert received == len(BLOCK) * blocks
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


def measure(place: Path, work: Work) -> dict[str, float]:
    root, plain = place / "root", place / "plain"
    for directory in (root, plain):
        for number in range(20):
            (directory / f"d{number:02}").mkdir(parents=True)
    (root / "small.txt").write_text("a line of text\n" * 64)
    with served(root, place / "state") as mine, bare_routes(read_body(mine), plain) as bare:
        found = measure_rates(mine, bare, work)
        found |= measure_writes(mine, bare, work)
        found |= measure_memory(mine, work.blocks)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=Work.rounds)
    parser.add_argument("--connections", type=int, default=Work.connections)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    place = on_memory()
    try:
        found = measure(place, Work(rounds=options.rounds, connections=options.connections))
    finally:
        shutil.rmtree(place)
    for name, value in found.items():
        print(f"{name:<34} {value}")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
