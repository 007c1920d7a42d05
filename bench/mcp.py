"""`python -m bench.mcp`: files over MCP, beside the reference server, in one run: one small file
read over and over, and different files made, read, edited, written over, looked at and moved.

Both are processes of their own, spoken to over pipes by the same plain client, in turns, so that
what else the machine does falls on both alike. Each also says how long it takes to start, up to the
end of the handshake. The reference server is a package of npm; it is installed once into a folder
of its own, in the user's cache.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.scratch import on_memory
from bench.servers import processor_s, python

PACKAGE = "@modelcontextprotocol/server-filesystem"
VERSION = "2026.8.31"
EDITED = "the line to edit"
CONTENT = "one line of a small file\n" * 40 + f"{EDITED}\n"
FILES = 1_000
WARM = 200

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Server:
    """A server at work, and the client that asks it."""

    def __init__(self, command: list[str], dialect: "Dialect") -> None:
        began = time.perf_counter()
        self.dialect = dialect
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._id = 0
        self.request("initialize", HANDSHAKE)
        self.started_s = time.perf_counter() - began
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def processor_s(self) -> float:
        return processor_s(self._process.pid)

    def call(self, tool: str, arguments: dict[str, Any]) -> float:
        """Seconds for one call of a tool."""
        began = time.perf_counter()
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = time.perf_counter() - began
        assert not answer["result"].get("isError"), answer
        return took

    def request(self, method: str, params: Any) -> Any:
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._id:
                return answer

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.terminate()
        self._process.wait()


def reference() -> Path:
    """The reference server's file, installed if need be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(os.environ.get("BAILIWICK_NPM") or os.path.join(cache, "bailiwick", "npm-bench"))
    file = place / "node_modules" / PACKAGE / "dist" / "index.js"
    if not file.exists():
        if shutil.which("npm") is None:
            raise SystemExit("the reference server needs node and npm")
        place.mkdir(parents=True, exist_ok=True)
        wanted = f"{PACKAGE}@{VERSION}"
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), wanted],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return file


Call = tuple[str, dict[str, Any]]


class Dialect:
    """What each verb is called, and how a place is named."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def place(self, path: str) -> str:
        return path

    def read(self, path: str) -> Call:
        return "read_file", {"path": self.place(path)}

    def write(self, path: str) -> Call:
        return "write_file", {"path": self.place(path), "content": CONTENT}

    def edit(self, path: str) -> Call:
        asked = {"path": self.place(path), "oldText": EDITED, "newText": "another line"}
        return "edit_file", asked

    def stat(self, path: str) -> Call:
        return "stat", {"path": self.place(path)}

    def move(self, path: str) -> Call:
        return "move", {"from": self.place(path), "to": self.place(path + ".moved")}


class ReferenceDialect(Dialect):
    def place(self, path: str) -> str:
        return str(self._root / path)

    def read(self, path: str) -> Call:
        return "read_text_file", {"path": self.place(path)}

    def edit(self, path: str) -> Call:
        edits = [{"oldText": EDITED, "newText": "another line"}]
        return "edit_file", {"path": self.place(path), "edits": edits}

    def stat(self, path: str) -> Call:
        return "get_file_info", {"path": self.place(path)}

    def move(self, path: str) -> Call:
        asked = {"source": self.place(path), "destination": self.place(path + ".moved")}
        return "move_file", asked


@contextlib.contextmanager
def servers() -> Iterator[dict[str, Server]]:
    place = on_memory()
    try:
        with contextlib.ExitStack() as stack:
            running = {}
            for name in ("bailiwick", "reference"):
                root = place / name
                for number in range(20):
                    (root / f"d{number:02}").mkdir(parents=True)
                (root / "a.txt").write_text(CONTENT)
                if name == "bailiwick":
                    state = ["--state", f"{place}/state"]
                    command = [python(), "-m", "bailiwick", "mcp", str(root), *state]
                    running[name] = Server(command, Dialect(root))
                else:
                    command = ["node", str(reference()), str(root)]
                    running[name] = Server(command, ReferenceDialect(root))
                stack.callback(running[name].close)
            yield running
    finally:
        shutil.rmtree(place)


def measure(reads: int) -> dict[str, Any]:
    """Medians in milliseconds, and how many times the reference server's speed it is."""
    with servers() as running:
        times: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(WARM + reads):
            for name, server in running.items():
                times[name].append(server.call(*server.dialect.read("a.txt")))
        medians = {name: statistics.median(each[WARM:]) * 1e3 for name, each in times.items()}
        return {
            **{f"{name}_ms": round(median, 3) for name, median in medians.items()},
            **{f"{name}_start_s": round(each.started_s, 3) for name, each in running.items()},
            "times_as_fast": round(medians["reference"] / medians["bailiwick"], 3),
            "different_files": measure_verbs(running),
        }


def measure_verbs(running: dict[str, Server]) -> dict[str, dict[str, float]]:
    """Every verb on different files, in turns of a hundred: of the reference server's time, and of
    the processor that it takes."""
    found = {}
    for verb in ("write", "read", "edit", "stat", "overwrite", "move"):
        took: dict[str, list[float]] = {name: [] for name in running}
        used: dict[str, list[float]] = {name: [] for name in running}
        for begin in range(0, FILES, 100):
            for name, server in running.items():
                ask = getattr(server.dialect, "write" if verb == "overwrite" else verb)
                before = server.processor_s()
                for number in range(begin, begin + 100):
                    took[name].append(server.call(*ask(f"d{number % 20:02}/{number:04}.txt")))
                used[name].append(server.processor_s() - before)
        p50 = {name: statistics.median(each) * 1e3 for name, each in took.items()}
        p99 = {name: statistics.quantiles(each, n=100)[-1] for name, each in took.items()}
        cpu = [a / b for a, b in zip(used["bailiwick"], used["reference"], strict=True)]
        found[verb] = {
            "p50 ms": round(p50["bailiwick"], 3),
            "p50 of reference": round(p50["bailiwick"] / p50["reference"], 2),
            "p99 of reference": round(p99["bailiwick"] / p99["reference"], 2),
            "processor ms": round(statistics.median(used["bailiwick"]) * 10, 3),
            "processor of reference": round(statistics.median(cpu), 2),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    found = measure(options.reads)
    for name, value in found.items():
        print(f"{name:<20} {value}")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
