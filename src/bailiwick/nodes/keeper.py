"""What whoever keeps nodes adds to a store, and what stands behind a handle at this instant."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple

from msgspec.structs import replace as with_fields

from bailiwick.errors import (
    Closed,
    FileAlreadyExists,
    InternalError,
    IsADirectory,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.limits import Limits
from bailiwick.model import EntryType, Expected, NewFileMode, Symlinks
from bailiwick.nodes.node import ROOT_ID, Node
from bailiwick.nodes.refusals import check_link_text, check_node, not_through_a_link
from bailiwick.paths import ScopedPath, from_parts
from bailiwick.store import Handle

PERMISSION_BITS = 0o777
"""All that is kept of a mode: setuid, setgid and sticky mean nothing here and are stripped."""


class NodeHandle:
    """A node that was found, a place for one (``parent``, ``missing``, the path's name), or both.

    Reading verbs use the node where there is one. Changing verbs use the place: the directory that
    was held, and what has the name in it at that instant.
    """

    made: tuple[ScopedPath, ...]

    __slots__ = (
        "is_closed", "made", "missing", "node", "parent", "path", "size", "store", "type",
    )  # fmt: skip

    def __init__(
        self,
        store: NodeKeeper,
        path: ScopedPath,
        seen: Node | None,
        *,
        is_object: bool = True,
        parent: str | None = None,
        missing: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.path = path
        self.node = seen if is_object else None
        self.parent = parent
        self.missing = missing
        self.is_closed = False
        self.type: EntryType | None = None if seen is None else seen.type
        self.size = 0 if seen is None else seen.size

    def close(self) -> None:
        self.is_closed = True


class NodePlace(NamedTuple):
    """Where an entry's name belongs: the deepest directory there is, those still missing, and what
    has the name."""

    directory: Node
    missing: tuple[str, ...]
    standing: Node | None


class Occupied(NamedTuple):
    """A directory, and what has a name in it."""

    directory: Node
    node: Node


class NodeKeeper(ABC):
    """What a keeper of nodes adds, and what a handle on one of them stands for.

    ``clock_ns`` gives the time, ``new_id`` a text that was never given before, also not to whoever
    kept the same nodes earlier.
    """

    kind: ClassVar[str]
    durability: ClassVar[str] = "none"
    """What a crash costs, for people: `description`."""

    def __init__(
        self,
        *,
        clock_ns: Callable[[], int],
        new_id: Callable[[], str],
        symlinks: Symlinks = "in-root",
        limits: Limits | None = None,
        new_file_mode: NewFileMode = "private",
    ) -> None:
        self.symlinks = symlinks
        self.limits = limits or Limits()
        self.clock_ns = clock_ns
        self.new_id = new_id
        self.file_mode, self.directory_mode = _default_modes(new_file_mode)
        self.lock = asyncio.Lock()
        self._closed = False
        self._root = self.new_node("directory", id=ROOT_ID)

    # --- what a keeper does ------------------------------------------------------------------

    @abstractmethod
    async def get_node(self, node_id: str) -> Node | None:
        """The node with this id; None where there is none any more."""

    @abstractmethod
    async def find_node(self, directory_id: str, name: str) -> Node | None:
        """The node of this name in a directory; None where there is none."""

    @abstractmethod
    async def list_nodes(self, directory_id: str) -> Iterable[Node]:
        """The nodes in a directory, in any order."""

    @abstractmethod
    async def commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        """Change all of them or none: first none of ``gone`` stands any more, then all of ``put``
        do, in the place of an earlier node with the same id.

        Called by one at a time. Cancelled, it raises `asyncio.CancelledError` only where nothing
        was changed: whoever has to wait does so in `bailiwick.finishing.to_the_end`.
        """

    async def content_of(self, node: Node, offset: int = 0, length: int | None = None) -> bytes:
        """What a file holds. A keeper that holds it elsewhere than in nodes answers for those."""
        return node.data[offset : None if length is None else offset + length]

    async def hashed(self, node: Node | None, expected: Expected) -> Node | None:
        """The node with its hash, where that is asked for and was not known."""
        if node is None or expected.sha256 is None or node.type != "file" or node.sha256:
            return node
        return with_fields(node, sha256=hashlib.sha256(await self.content_of(node)).hexdigest())

    async def release(self) -> None:
        """Let go of everything: nobody asks any more. Called once."""
        return

    # --- what a handle stands for ------------------------------------------------------------

    def check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    def held(self, handle: Handle) -> NodeHandle:
        self.check_open()
        if not isinstance(handle, NodeHandle) or handle.store is not self:
            raise InternalError("the handle is of another store")
        if handle.is_closed:
            raise Closed("the handle is closed", path=handle.path)
        return handle

    async def existing(self, handle: Handle) -> Node:
        """The node that was found; for a mere place, what has the name at this instant."""
        found = self.held(handle).node
        if found is not None:
            return await self.get_node(found.id) or found
        return (await self.taken_place(handle)).node

    async def taken_place(self, entry: Handle) -> Occupied:
        """The directory of an entry's name, and what has it, which must be something."""
        directory, _, node = await self.place_of(entry)
        if node is None:
            raise PathNotFound("no such file or directory", path=entry.path)
        return Occupied(directory, node)

    async def place_of(self, entry: Handle, *, parents: bool = False) -> NodePlace:
        """Where the entry's name belongs, in the directory that was held, at this instant.

        Directories missing above it are `PathNotFound`, unless ``parents`` allows to make them.
        """
        held = self.held(entry)
        if held.path.is_root:
            root = await self.get_node(ROOT_ID) or self._root
            return NodePlace(root, (), root)
        if held.parent is None:
            raise InternalError("a change needs a handle on an entry", path=entry.path)
        directory = await self.get_node(held.parent)
        if directory is None and held.parent == ROOT_ID:
            directory = self._root
        if directory is None:
            raise PathNotFound("the directory above it does not exist", path=entry.path)
        for count, name in enumerate(held.missing):
            child = await self.find_node(directory.id, name)
            if child is None:
                if not parents:
                    raise PathNotFound("the directory above it does not exist", path=entry.path)
                return NodePlace(directory, held.missing[count:], None)
            if child.type == "symlink":
                raise not_through_a_link(entry.path)
            if child.type != "directory":
                raise NotADirectory("a part of the path is not a directory", path=entry.path)
            directory = child
        return NodePlace(directory, (), await self.find_node(directory.id, held.path.name))

    async def changeable(self, entry: Handle, expected: Expected) -> Node:
        node = await self.existing(entry)
        if node.type == "symlink":
            raise not_through_a_link(entry.path)
        check_node(entry.path, await self.hashed(node, expected), expected)
        return node

    async def directory_of(self, handle: Handle) -> Node:
        """The directory that a handle is on, as it is now."""
        node = await self.existing(handle)
        if node.type != "directory":
            raise NotADirectory("not a directory", path=handle.path)
        if node.id != ROOT_ID and await self.get_node(node.id) is None:
            raise PathNotFound("the directory was removed meanwhile", path=handle.path)
        return node

    async def file_of(self, handle: Handle) -> Node:
        node = await self.existing(handle)
        if node.type == "directory":
            raise IsADirectory("is a directory", path=handle.path)
        if node.type == "symlink":
            raise SymlinkEscape("is a link, and is not followed here", path=handle.path)
        return node

    def refuse_taken(self, entry: Handle, place: NodePlace) -> None:
        if place.standing is not None:
            raise FileAlreadyExists("already exists", path=entry.path)

    def refuse_links(self, path: ScopedPath) -> None:
        if self.symlinks == "reject":
            raise SymlinkEscape("links are not made in this root", path=path)

    # --- changing the tree -------------------------------------------------------------------

    async def put(
        self,
        entry: Handle,
        place: NodePlace,
        node: Node,
        *,
        with_it: Sequence[Node] = (),
        leaves: Node | None = None,
    ) -> None:
        """Give ``node`` the entry's name, in place of whatever has it; missing parents are made.

        ``with_it`` is what lies beneath it, and ``leaves`` the directory that it has stood in.
        """
        held, directory = self.held(entry), place.directory
        put = [self.touched(directory)]
        for name in place.missing:
            made = with_fields(self.new_node("directory"), parent=directory.id, name=name)
            put.append(made)
            directory = made
        name = str(held.path.name)  # plain text, which every keeper can write down
        put += (with_fields(node, parent=directory.id, name=name), *with_it)
        gone = [] if place.standing is None else [place.standing]
        if leaves is not None:
            gone.append(node)
            if leaves.id != place.directory.id:
                put.append(self.touched(leaves))
        await self.commit(put, gone)
        if held.missing:
            above, deep = held.path.parent.parts, len(place.missing)
            held.made = tuple(from_parts(above[: len(above) - up]) for up in reversed(range(deep)))

    def touched(self, directory: Node) -> Node:
        return with_fields(directory, mtime_ns=self.clock_ns(), version=self.new_id())

    def new_node(
        self,
        kind: Literal["file", "directory", "symlink"],
        data: bytes = b"",
        *,
        id: str | None = None,
        sha256: str | None = None,
        mode: int | None = None,
    ) -> Node:
        """A node that has no place yet."""
        if mode is None:
            mode = self.file_mode if kind == "file" else self.directory_mode
        new_id, now = self.new_id(), self.clock_ns()
        bits = mode & PERMISSION_BITS
        return Node(id or new_id, "", "", kind, data, sha256, bits, now, now, new_id)

    def new_link(self, path: ScopedPath, target: str) -> Node:
        """A link has no mode that counts; every system shows all of its bits set."""
        data = check_link_text(path, target, self.limits.link_text_bytes_max)
        return self.new_node("symlink", data, mode=PERMISSION_BITS)


def _default_modes(new_file_mode: NewFileMode) -> tuple[int, int]:
    """The mode of a new file and of a new directory, which can be entered by who may read it."""
    if new_file_mode == "private":
        return 0o600, 0o700
    if new_file_mode == "umask":
        # There is no process whose umask counts: the usual one, 022, is taken.
        return 0o644, 0o755
    file_mode = new_file_mode & PERMISSION_BITS
    return file_mode, 0o700 | file_mode | (file_mode & 0o444) >> 2
