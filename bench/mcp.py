"""`python -m bench.mcp`: reading a small file over MCP, beside the reference server, in one run.

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
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "@modelcontextprotocol/server-filesystem"
VERSION = "2026.8.31"
CONTENT = "one line of a small file\n" * 40
WARM = 200

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Server:
    """A server at work, and the client that asks it."""

    def __init__(self, command: list[str], tool: str, path: str) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._id = 0
        self.request("initialize", HANDSHAKE)
        self.started_s = time.perf_counter() - began
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._read = {"name": tool, "arguments": {"path": path}}

    def read(self) -> float:
        """Seconds for one read of the file."""
        began = time.perf_counter()
        answer = self.request("tools/call", self._read)
        took = time.perf_counter() - began
        assert "one line of a small file" in json.dumps(answer)
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


@contextlib.contextmanager
def servers() -> Iterator[dict[str, Server]]:
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        root = Path(place, "root")
        root.mkdir()
        (root / "a.txt").write_text(CONTENT)
        commands = {
            "bailiwick": (
                [sys.executable, "-m", "bailiwick", "mcp", str(root), "--state", f"{place}/state"],
                "read_file",
                "a.txt",
            ),
            "reference": (
                ["node", str(reference()), str(root)],
                "read_text_file",
                str(root / "a.txt"),
            ),
        }
        running = {}
        for name, (command, tool, path) in commands.items():
            running[name] = Server(command, tool, path)
            stack.callback(running[name].close)
        yield running


def measure(reads: int) -> dict[str, float]:
    """Medians in milliseconds, and how many times the reference server's speed it is."""
    with servers() as running:
        times: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(WARM + reads):
            for name, server in running.items():
                times[name].append(server.read())
        medians = {name: statistics.median(each[WARM:]) * 1e3 for name, each in times.items()}
        return {
            **{f"{name}_ms": median for name, median in medians.items()},
            **{f"{name}_start_s": server.started_s for name, server in running.items()},
            "times_as_fast": medians["reference"] / medians["bailiwick"],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    found = {name: round(value, 3) for name, value in measure(options.reads).items()}
    for name, value in found.items():
        print(f"{name:<20} {value}")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
