"""`MemoryStore`: nodes in dictionaries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Sequence

from bailiwick.limits import Limits
from bailiwick.model import NewFileMode, Symlinks
from bailiwick.nodes import Node, NodeStore


class MemoryStore(NodeStore):
    """Names and bytes in memory. StagedRemoval with the process: durability is none.

    Nothing is waited for, so a cancelled call has either not begun or is complete.
    """

    kind = "memory"

    def __init__(
        self,
        *,
        symlinks: Symlinks = "in-root",
        limits: Limits | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        new_file_mode: NewFileMode = "private",
    ) -> None:
        versions = itertools.count(1)
        super().__init__(
            clock_ns=clock_ns,
            new_id=lambda: f"m{next(versions)}",
            symlinks=symlinks,
            limits=limits,
            new_file_mode=new_file_mode,
        )
        self._nodes: dict[str, Node] = {}
        self._names: dict[str, dict[str, Node]] = {}

    async def get_node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id)

    async def find_node(self, directory_id: str, name: str) -> Node | None:
        names = self._names.get(directory_id)
        return None if names is None else names.get(name)

    async def list_nodes(self, directory_id: str) -> Collection[Node]:
        return self._names.get(directory_id, {}).values()

    async def commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        for node in gone:
            del self._nodes[node.id], self._names[node.parent][node.name]
            if not self._names[node.parent]:
                del self._names[node.parent]
        for node in put:
            self._nodes[node.id] = node
            self._names.setdefault(node.parent, {})[node.name] = node

    async def release(self) -> None:
        self._nodes.clear()
        self._names.clear()
