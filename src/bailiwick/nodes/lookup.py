"""From node to node: by name, and what lies above and beneath."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bailiwick.model import EntryType
from bailiwick.nodes.node import ROOT_ID, Node


class Nodes(Protocol):
    """What is needed of whoever keeps the nodes."""

    async def get_node(self, node_id: str) -> Node | None: ...
    async def find_node(self, directory_id: str, name: str) -> Node | None: ...
    async def list_nodes(self, directory_id: str) -> Iterable[Node]: ...


class NodeNames:
    """The names of nodes, for a walk over them."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def type_of(self, place: Node) -> EntryType:
        return place.type

    async def find(self, directory: Node, name: str) -> Node | None:
        return await self._nodes.find_node(directory.id, name)

    async def link_text(self, link: Node) -> str:
        return link.data.decode()


async def beneath(nodes: Nodes, node: Node) -> list[Node]:
    """The node and everything under it, parents first. Iterative: depth is the caller's choice."""
    found = [node]
    for each in found:
        if each.type == "directory":
            found.extend(await nodes.list_nodes(each.id))
    return found


async def ids_above(nodes: Nodes, directory: Node) -> list[str]:
    """The directory and those that it lies in, up to the root."""
    line = [directory.id]
    while line[-1] != ROOT_ID:
        above = await nodes.get_node(directory.parent)
        line.append(directory.parent)
        if above is None:  # the root, which nobody has put yet, or one that is being removed
            break
        directory = above
    return line


async def is_deeper(nodes: Nodes, node: Node, levels: int) -> bool:
    """Whether anything lies more than ``levels`` levels beneath the node."""
    rank = [node]
    while rank and levels >= 0:
        rank = [
            child
            for each in rank
            if each.type == "directory"
            for child in await nodes.list_nodes(each.id)
        ]
        levels -= 1
    return bool(rank)
