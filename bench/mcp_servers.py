"""Servers over MCP as processes of their own, and what each of them calls its tools."""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.npm import installed
from bench.servers import processor_s

PACKAGE = "@modelcontextprotocol/server-filesystem"
VERSION = "2026.8.31"
EDITED = "the line to edit"
CONTENT = "one line of a small file\n" * 40 + f"{EDITED}\n"
READ_AT_ONCE = 200
"""Files of one call, by whoever has to read them all to search in them."""


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
    """The reference server's file."""
    return installed(PACKAGE, VERSION) / "dist" / "index.js"


Call = tuple[str, dict[str, Any]]


class Dialect:
    """What each verb is called, and how a place is named."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, path: str) -> str:
        return path

    def read(self, path: str) -> Call:
        return "read_file", {"path": self.place(path)}

    def window(self, path: str, line: int, limit: int) -> Call:
        return "read_file", {"path": self.place(path), "line": line, "limit": limit}

    def write(self, path: str, content: str = CONTENT) -> Call:
        return "write_file", {"path": self.place(path), "content": content}

    def create(self, path: str, content: str) -> Iterator[Call]:
        """A file that may need the directories above it."""
        yield self.write(path, content)

    def edit(self, path: str, old: str = EDITED, new: str = "another line") -> Call:
        return "edit_file", {"path": self.place(path), "oldText": old, "newText": new}

    def stat(self, path: str) -> Call:
        return "stat", {"path": self.place(path)}

    def move(self, path: str, to: str | None = None) -> Call:
        return "move", {"from": self.place(path), "to": self.place(to or f"{path}.moved")}

    def list(self, path: str) -> Call:
        return "ls", {"path": self.place(path)}

    def tree(self) -> Call:
        return "tree", {"depth": 256}

    def glob(self, pattern: str) -> Call:
        return "glob", {"pattern": pattern}

    def grep(self, word: str, paths: Sequence[str]) -> Iterator[Call]:
        yield "grep", {"pattern": word, "literal": True}


class ReferenceDialect(Dialect):
    def place(self, path: str) -> str:
        return str(self.root / path)

    def read(self, path: str) -> Call:
        return "read_text_file", {"path": self.place(path)}

    def window(self, path: str, line: int, limit: int) -> Call:
        """From the first line on: it has no other beginning."""
        return "read_text_file", {"path": self.place(path), "head": line - 1 + limit}

    def create(self, path: str, content: str) -> Iterator[Call]:
        yield "create_directory", {"path": self.place(path.rpartition("/")[0])}
        yield self.write(path, content)

    def edit(self, path: str, old: str = EDITED, new: str = "another line") -> Call:
        edits = [{"oldText": old, "newText": new}]
        return "edit_file", {"path": self.place(path), "edits": edits}

    def stat(self, path: str) -> Call:
        return "get_file_info", {"path": self.place(path)}

    def move(self, path: str, to: str | None = None) -> Call:
        asked = {"source": self.place(path), "destination": self.place(to or f"{path}.moved")}
        return "move_file", asked

    def list(self, path: str) -> Call:
        return "list_directory", {"path": self.place(path)}

    def tree(self) -> Call:
        return "directory_tree", {"path": str(self.root)}

    def glob(self, pattern: str) -> Call:
        return "search_files", {"path": str(self.root), "pattern": pattern}

    def grep(self, word: str, paths: Sequence[str]) -> Iterator[Call]:
        """It has no search in files: all are read."""
        for begin in range(0, len(paths), READ_AT_ONCE):
            some = paths[begin : begin + READ_AT_ONCE]
            yield "read_multiple_files", {"paths": [self.place(path) for path in some]}
