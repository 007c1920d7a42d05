"""From a path to a node: the one walk over names and links, and what lies above and beneath."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from bailiwick.errors import NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks
from bailiwick.model import Symlinks
from bailiwick.nodes.node import ROOT_ID, Node
from bailiwick.paths import ScopedPath, from_parts, link_steps


class Nodes(Protocol):
    """What a walk needs of whoever keeps the nodes."""

    async def get_node(self, node_id: str) -> Node | None: ...
    async def find_node(self, directory_id: str, name: str) -> Node | None: ...
    async def list_nodes(self, directory_id: str) -> Iterable[Node]: ...


class ReachedNode(NamedTuple):
    """Where a walk came to: the node, its canonical path, and the names that were not there."""

    node: Node
    path: ScopedPath
    missing: tuple[str, ...]


async def walk(
    nodes: Nodes, root: Node, path: ScopedPath, *, symlinks: Symlinks, hops_max: int
) -> ReachedNode:
    """Follow ``path`` from ``root``, links included, as far as it goes.

    ``..`` in a link's text is physical: it leaves the directory that the walk has really come to.
    A name that is missing ends the walk if the caller typed it; one that a link's text demands is
    `PathNotFound`, since nobody asked for it to be made.
    """
    trail, names = [root], list[str]()
    ahead = deque((name, True) for name in path.parts)
    node = root
    hops = 0
    while ahead:
        if node.type != "directory":
            raise NotADirectory("a part of the path is not a directory", path=path)
        name, typed = ahead.popleft()
        if name == ".":
            continue
        if name == "..":
            if len(trail) == 1:
                raise SymlinkEscape("a link leads outside this root", path=path)
            trail.pop()
            names.pop()
            node = trail[-1]
            continue
        child = await nodes.find_node(node.id, name)
        if child is None:
            if not typed:
                raise PathNotFound("a link leads to nothing", path=path)
            return ReachedNode(node, from_parts(names), (name, *(later for later, _ in ahead)))
        if child.type == "symlink":
            hops += 1
            _refuse_hop(path, hops, symlinks=symlinks, hops_max=hops_max)
            text = child.data.decode()
            if text.startswith("/"):
                trail, names, node = [root], [], root
            ahead.extendleft((part, False) for part in reversed(link_steps(text)))
            continue
        names.append(name)
        node = child
        if child.type == "directory":
            trail.append(child)
    return ReachedNode(node, from_parts(names), ())


def _refuse_hop(path: ScopedPath, hops: int, *, symlinks: Symlinks, hops_max: int) -> None:
    if symlinks == "reject":
        raise SymlinkEscape("links are not followed in this root", path=path)
    if hops > hops_max:
        raise TooManyLinks("too many levels of links", path=path)


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
