"""The nodes of a tree in memory, and the one walk that finds them.

A `File` is never written to: a write puts another `File` in its place, so whoever holds the old
one keeps reading the old bytes, whole. Only its mode and times change in place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bailiwick.errors import NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks
from bailiwick.model import EntryType, Symlinks
from bailiwick.paths import ScopedPath, from_parts, link_steps


@dataclass(slots=True, eq=False)
class File:
    data: bytes
    sha256: str
    mode: int
    mtime_ns: int
    version: str
    created_ns: int


@dataclass(slots=True, eq=False)
class Link:
    target: str
    mtime_ns: int
    version: str
    created_ns: int


@dataclass(slots=True, eq=False)
class Directory:
    """``removed`` tells those who still hold it that it has no name any more."""

    mode: int
    mtime_ns: int
    version: str
    created_ns: int
    parent: Directory | None = None
    children: dict[str, Node] = field(default_factory=dict)
    removed: bool = False


Node = File | Link | Directory


def type_of(node: Node) -> EntryType:
    if isinstance(node, File):
        return "file"
    return "symlink" if isinstance(node, Link) else "directory"


def size_of(node: Node) -> int:
    """Bytes of a file or of a link's text; a directory has no size of its own."""
    if isinstance(node, File):
        return len(node.data)
    return len(node.target.encode()) if isinstance(node, Link) else 0


def mode_of(node: Node) -> int:
    """Permission bits. A link has none that count; every system shows them all set."""
    return 0o777 if isinstance(node, Link) else node.mode


def beneath(node: Node) -> Iterator[Node]:
    """The node and everything under it, parents first. Iterative: depth is the caller's choice."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, Directory):
            waiting.extend(current.children.values())


def take_apart(node: Node) -> int:
    """Take a node that has lost its name apart, for those who still hold a part of it."""
    gone = list(beneath(node))
    for part in gone:
        if isinstance(part, Directory):
            part.removed = True
            part.children.clear()
    return len(gone)


def lies_in(directory: Directory | None, ancestor: Node) -> bool:
    """Whether ``directory`` is ``ancestor`` or lies somewhere beneath it."""
    while directory is not None:
        if directory is ancestor:
            return True
        directory = directory.parent
    return False


def levels_above(directory: Directory | None) -> int:
    """How many levels deep a name in ``directory`` lies."""
    levels = 0
    while directory is not None:
        levels += 1
        directory = directory.parent
    return levels


def is_deeper(node: Node, levels: int) -> bool:
    """Whether anything lies more than ``levels`` levels beneath the node."""
    rank = [node]
    while rank and levels >= 0:
        rank = [
            child
            for each in rank
            if isinstance(each, Directory)
            for child in each.children.values()
        ]
        levels -= 1
    return bool(rank)


class Reached(NamedTuple):
    """Where a walk came to: the node, its canonical path, and the names that were not there."""

    node: Node
    path: ScopedPath
    missing: tuple[str, ...]


def walk(root: Directory, path: ScopedPath, *, symlinks: Symlinks, hops_max: int) -> Reached:
    """Follow ``path`` from ``root``, links included, as far as it goes.

    ``..`` in a link's text is physical: it leaves the directory that the walk has really come to.
    A name that is missing ends the walk if the caller typed it; one that a link's text demands is
    `PathNotFound`, since nobody asked for it to be made.
    """
    trail, names = [root], list[str]()
    ahead = deque((name, True) for name in path.parts)
    node: Node = root
    hops = 0
    while ahead:
        if not isinstance(node, Directory):
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
        child = node.children.get(name)
        if child is None:
            if not typed:
                raise PathNotFound("a link leads to nothing", path=path)
            return Reached(node, from_parts(names), (name, *(later for later, _ in ahead)))
        if isinstance(child, Link):
            hops += 1
            _refuse_hop(path, hops, symlinks=symlinks, hops_max=hops_max)
            if child.target.startswith("/"):
                trail, names, node = [root], [], root
            ahead.extendleft((part, False) for part in reversed(link_steps(child.target)))
            continue
        names.append(name)
        node = child
        if isinstance(child, Directory):
            trail.append(child)
    return Reached(node, from_parts(names), ())


def _refuse_hop(path: ScopedPath, hops: int, *, symlinks: Symlinks, hops_max: int) -> None:
    if symlinks == "reject":
        raise SymlinkEscape("links are not followed in this root", path=path)
    if hops > hops_max:
        raise TooManyLinks("too many levels of links", path=path)
