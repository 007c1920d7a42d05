"""A store of your own: a whole tree in one file of lines, one line a change.

Four methods keep the nodes; `NodeStore` makes paths, links, preconditions, moves and copies of
them. Whoever opens the file reads its lines again, so everything survives the process. A line that
a crash has cut short was never a change, and is cut off.

`python your_own_store.py --prove` runs the contract of stores on it. Left out, to stay short: the
file only grows, and all of the tree is held in memory.
"""

import asyncio
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

import bailiwick
from bailiwick.errors import from_os_error
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.model import Symlinks
from bailiwick.nodes import Node, NodeStore
from bailiwick.testing.store_contract import DIFFERENCES, Plant, StoreDriver, run_contract


class Line(msgspec.Struct):
    """One change: which nodes stand from now on, and the ids of those that do not any more."""

    put: list[Node]
    gone: list[str]


class LineStore(NodeStore):
    kind = "lines"
    durability = "full"

    def __init__(self, file: Path, *, symlinks: Symlinks = "in-root") -> None:
        super().__init__(
            clock_ns=time.time_ns, new_id=lambda: uuid.uuid4().hex, symlinks=symlinks
        )  # fmt: skip
        self._nodes: dict[str, Node] = {}
        self._names: dict[str, dict[str, str]] = {}
        self._file = file.open("a+b", buffering=0)
        self._file.seek(0)
        self._length = 0
        for text in self._file:
            if not text.endswith(b"\n"):
                break
            self._apply(msgspec.json.decode(text, type=Line))
            self._length += len(text)
        self._file.truncate(self._length)

    # --- the four methods ---------------------------------------------------------------------

    async def get_node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id)

    async def find_node(self, directory_id: str, name: str) -> Node | None:
        node_id = self._names.get(directory_id, {}).get(name)
        return None if node_id is None else self._nodes[node_id]

    async def list_nodes(self, directory_id: str) -> Iterable[Node]:
        return [self._nodes[node_id] for node_id in self._names.get(directory_id, {}).values()]

    async def commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        line = Line(list(put), [node.id for node in gone])
        await to_the_end(in_thread(self._write, line))

    async def release(self) -> None:
        self._file.close()

    # --- the file and what is known of it -----------------------------------------------------

    def _write(self, line: Line) -> None:
        """On disk first, whole or not at all; then it is what everybody sees."""
        text = msgspec.json.encode(line) + b"\n"
        try:
            rest = memoryview(text)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._length)
            raise from_os_error(error) from error
        self._length += len(text)
        self._apply(line)

    def _apply(self, line: Line) -> None:
        for node_id in line.gone:
            node = self._nodes.pop(node_id)
            del self._names[node.parent][node.name]
        for node in line.put:
            self._nodes[node.id] = node
            self._names.setdefault(node.parent, {})[node.name] = node.id


async def make(*, symlinks: Symlinks, plant: Plant | None) -> StoreDriver:
    """A fresh tree for each case of the contract, planted before it is opened again."""
    with tempfile.TemporaryDirectory() as place:  # the open file stays when its name goes
        file = Path(place, "tree.lines")
        if plant is not None:
            planted = StoreDriver(LineStore(file))
            await plant(planted)
            await planted.aclose()
        return StoreDriver(LineStore(file, symlinks=symlinks))


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "tree.lines")
        async with bailiwick.open(LineStore(file)) as fs:
            await fs.write_text("notes/today.md", "hello\n", parents=True)
            edited = await fs.edit("notes/today.md", old="hello", new="good morning")
            print("  edited        ", edited.path)

        async with bailiwick.Authority.open() as authority:
            await authority.add_root("workspace:lines", LineStore(file), trusted=True)
            await authority.add_grant(
                subject="agent_run:*", root="workspace:lines", access={"read", "write"},
                by=bailiwick.User("me"),
            )  # fmt: skip
            agent = await authority.request_root(
                bailiwick.AgentRun("c1", "r1"), "workspace:lines", {"read", "write"}, "tidy up"
            )
            print("  still there   ", (await agent.read_text("notes/today.md")).text.strip())
            await agent.write_text("notes/tomorrow.md", "more\n")
            try:
                await agent.write_text(".git/hooks/pre-commit", "curl evil\n", parents=True)
            except bailiwick.BailiwickError as error:
                print("  refused       ", error.kind)
            for record in await authority.ledger.tail(2):
                print("  on record     ", record.operation, record.path, record.outcome)


async def prove() -> None:
    """What memory does not keep of the contract, a store of nodes does not: links are data."""
    await run_contract(make, differences=DIFFERENCES["memory"])
    print("  every case of the contract holds")


if __name__ == "__main__":
    asyncio.run(prove() if "--prove" in sys.argv else main())
