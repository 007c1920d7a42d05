"""`MemoryStore`: the store protocol over the nodes of `tree`.

Every change happens between two awaits, so a cancelled call has either not begun or is complete.
Only streams suspend: a written one is gathered first and published in one step.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import NamedTuple

from bailiwick.errors import (
    Closed,
    DirectoryNotEmpty,
    FileAlreadyExists,
    InternalError,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.model import (
    ANYTHING,
    EntryType,
    Expected,
    Hardlinks,
    Limits,
    NewFileMode,
    Stat,
    Symlinks,
)
from bailiwick.paths import ScopedPath, from_parts
from bailiwick.store import (
    Child,
    Children,
    Content,
    Handle,
    Look,
    Store,
    WritePlan,
    Written,
    made_for,
)
from bailiwick.stores.memory.refusals import (
    check_depth,
    check_link_text,
    check_node,
    check_range,
    check_replaceable,
    check_size,
    not_through_a_link,
    root_stays,
)
from bailiwick.stores.memory.staging import MemoryStage
from bailiwick.stores.memory.tree import (
    Directory,
    File,
    Link,
    Node,
    Reached,
    levels_above,
    lies_in,
    mode_of,
    size_of,
    take_apart,
    type_of,
    walk,
)

PERMISSION_BITS = 0o777
"""All that is kept of a mode: setuid, setgid and sticky mean nothing here and are stripped."""


class MemoryHandle:
    """A node that was found, a place for one (``parent``, ``missing``, ``name``), or both.

    Reading verbs use the node where there is one. Changing verbs use the place: the directory that
    was held, and what has the name in it at that instant.
    """

    made: tuple[ScopedPath, ...]

    __slots__ = (
        "is_closed", "made", "missing", "name", "node", "parent", "path", "size", "store", "type",
    )  # fmt: skip

    def __init__(
        self,
        store: MemoryStore,
        path: ScopedPath,
        *,
        node: Node | None = None,
        parent: Directory | None = None,
        missing: tuple[str, ...] = (),
    ) -> None:
        self.store = store
        self.path = path
        self.node = node
        self.parent = parent
        self.missing = missing
        self.name = path.name
        self.is_closed = False
        seen = node
        if seen is None and parent is not None and not missing:
            seen = parent.children.get(path.name)
        self.type: EntryType | None = None if seen is None else type_of(seen)
        self.size = 0 if seen is None else size_of(seen)

    def close(self) -> None:
        self.is_closed = True


class Place(NamedTuple):
    """Where an entry's name belongs: the deepest directory there is, and those still missing."""

    directory: Directory
    missing: tuple[str, ...]


class MemoryStore:
    """Names and bytes in memory. Gone with the process: durability is none."""

    def __init__(
        self,
        *,
        symlinks: Symlinks = "in-root",
        limits: Limits | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        new_file_mode: NewFileMode = "private",
    ) -> None:
        self.symlinks = symlinks
        self._limits = limits or Limits()
        self._clock_ns = clock_ns
        self._file_mode, self._directory_mode = _default_modes(new_file_mode)
        self._versions = itertools.count(1)
        self._closed = False
        now = clock_ns()
        self._root = Directory(self._directory_mode, now, self._next_version(), now)

    @property
    def powers(self) -> frozenset[str]:
        return frozenset({"Stages", "Narrows"})

    @property
    def description(self) -> dict[str, str]:
        return {"kind": "memory", "symlinks": self.symlinks, "durability": "none"}

    # --- lookup ------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        self._check_open()
        if look == "object" or path.is_root:
            handle = self._object(path)
        else:
            handle = self._entry(path, parents=parents)
        if directory and handle.type not in ("directory", None):
            raise NotADirectory("not a directory", path=path)
        return handle

    def _object(self, path: ScopedPath) -> MemoryHandle:
        reached = self._walk(path)
        if reached.missing:
            raise PathNotFound("no such file or directory", path=path)
        return MemoryHandle(self, reached.path, node=reached.node)

    def _entry(self, path: ScopedPath, *, parents: bool) -> MemoryHandle:
        reached = self._walk(path.parent)
        if not isinstance(reached.node, Directory):
            raise NotADirectory("a part of the path is not a directory", path=path)
        if reached.missing and not parents:
            raise PathNotFound("the directory above it does not exist", path=path)
        place = reached.path
        for name in (*reached.missing, path.name):
            place = place.child(name)
        return MemoryHandle(self, place, parent=reached.node, missing=reached.missing)

    def _walk(self, path: ScopedPath) -> Reached:
        hops_max = self._limits.link_hops_max
        return walk(self._root, path, symlinks=self.symlinks, hops_max=hops_max)

    async def descend(self, directory: Handle, name: str) -> Handle:
        parent = self._directory(directory)
        node = parent.children.get(name)
        path = directory.path.child(name)
        if node is None:
            raise PathNotFound("no such file or directory", path=path)
        return MemoryHandle(self, path, node=node, parent=parent)

    # --- reading -----------------------------------------------------------------------------

    async def stat(self, handle: Handle) -> Stat:
        node = self._existing(handle)
        return Stat(
            path=handle.path,
            name=handle.path.name,
            type=type_of(node),
            size=size_of(node),
            mode=mode_of(node),
            mtime_ns=node.mtime_ns,
            created_ns=node.created_ns,
            version=node.version,
            links=1,
            target=node.target if isinstance(node, Link) else None,
        )

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        node = self._directory(directory)
        names = sorted(name for name in node.children if after is None or name > after)
        kept = names if limit is None else names[:limit]
        entries = [_child(name, node.children[name]) for name in kept]
        return Children(entries, more=len(kept) < len(names))

    async def names_beside(self, entry: Handle) -> list[str]:
        held = self._held(entry)
        if held.parent is None:
            return []
        directory, missing = self._place(held)
        return [] if missing else list(directory.children)

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        node = self._file(file)
        check_range(file.path, offset, length)
        return Content(node.data[offset : offset + length], len(node.data), node.version)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        node = self._file(file)
        check_range(file.path, offset, length)
        end = len(node.data) if length is None else min(len(node.data), offset + length)
        step = self._limits.stream_chunk_bytes
        for start in range(offset, end, step):
            yield node.data[start : min(start + step, end)]
            await asyncio.sleep(0)
            self._check_open()

    # --- content -----------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        return self._publish(entry, data, sha256, plan)

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        self._admit(entry, plan)
        gathered = bytearray()
        async for chunk in chunks:
            self._check_open()
            check_size(entry.path, len(gathered) + len(chunk), plan)
            gathered += chunk
        data = bytes(gathered)
        return self._publish(entry, data, hashlib.sha256(data).hexdigest(), plan)

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        old = self._admit(entry, plan)
        whole = data if old is None else old.data + data
        return self._publish(entry, whole, hashlib.sha256(whole).hexdigest(), plan)

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        if size < 0:
            raise ParseError("a size is not negative", path=entry.path)
        old = self._admit(entry, plan)
        if old is None:
            raise PathNotFound("no such file or directory", path=entry.path)
        check_size(entry.path, size, plan)
        whole = old.data[:size].ljust(size, b"\0")
        return self._publish(entry, whole, hashlib.sha256(whole).hexdigest(), plan)

    def _admit(self, entry: Handle, plan: WritePlan) -> File | None:
        """Check that the plan fits what stands there now; return the file, if there is one."""
        old = self._standing(entry, parents=plan.parents)
        if plan.mode == "create" and old is not None:
            raise FileAlreadyExists("already exists", path=entry.path)
        if plan.mode == "replace" and old is None:
            raise PathNotFound("there is nothing to replace", path=entry.path)
        if isinstance(old, Directory):
            raise IsADirectory("is a directory", path=entry.path)
        if isinstance(old, Link):
            raise not_through_a_link(entry.path)
        check_node(entry.path, old, plan.expected)
        return old

    def _publish(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        old = self._admit(entry, plan)
        check_size(entry.path, len(data), plan)
        mode = plan.file_mode
        if mode is None:
            mode = self._file_mode if old is None else old.mode
        mode &= PERMISSION_BITS
        now, version = self._clock_ns(), self._next_version()
        created = now if old is None else old.created_ns
        self._put(entry, File(bytes(data), sha256, mode, now, version, created))
        before = None if old is None else len(old.data)
        return Written(old is None, len(data), sha256, version, mode, before)

    # --- names -------------------------------------------------------------------------------

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        old = self._standing(entry, parents=parents)
        if isinstance(old, Directory) and parents:
            return False
        if old is not None:
            raise FileAlreadyExists("already exists", path=entry.path)
        mode = self._directory_mode if file_mode is None else file_mode & PERMISSION_BITS
        self._put(entry, self._new_directory(mode))
        held = self._held(entry)
        held.made = (*(made_for(held) or ()), held.path)
        return True

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        node = self._standing_existing(entry)
        if node is self._root:
            raise root_stays()
        check_node(entry.path, node, expected)
        if isinstance(node, Directory) and node.children and not recursive:
            raise DirectoryNotEmpty("directory is not empty", path=entry.path)
        self._take(entry)
        return take_apart(node)

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        if self._root in (self._held(source).node, self._held(destination).node):
            raise root_stays()
        node = self._standing_existing(source)
        old = self._standing(destination)
        check_node(source.path, node, expected)
        check_node(destination.path, old, replaced)
        if old is node:
            return False
        if lies_in(self._place(destination).directory, node):
            raise ParseError("a directory cannot be moved into itself", path=destination.path)
        here, there = self._place(source).directory, self._place(destination).directory
        if levels_above(there) > levels_above(here):
            check_depth(destination.path, node, there)
        if old is not None:
            if not replace:
                raise FileAlreadyExists("already exists", path=destination.path)
            check_replaceable(destination.path, node, old, here)
            take_apart(old)
        self._take(source)
        self._put(destination, node)
        return True

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        node = self._existing(source)
        old = self._standing(destination)
        if isinstance(node, Directory) and not recursive:
            raise IsADirectory("is a directory", path=source.path)
        if old is not self._root and lies_in(self._place(destination).directory, node):
            raise ParseError("a directory cannot be copied into itself", path=destination.path)
        if old is not None:
            raise FileAlreadyExists("already exists", path=destination.path)
        check_depth(destination.path, node, self._place(destination).directory)
        made, count = self._duplicate(node)
        self._put(destination, made)
        return count

    async def symlink(self, entry: Handle, target: str) -> None:
        check_link_text(entry.path, target, self._limits.link_text_bytes_max)
        old = self._standing(entry)
        if self.symlinks == "reject":
            raise SymlinkEscape("links are not made in this root", path=entry.path)
        if old is not None:
            raise FileAlreadyExists("already exists", path=entry.path)
        now = self._clock_ns()
        self._put(entry, Link(target, now, self._next_version(), now))

    async def readlink(self, entry: Handle) -> str:
        node = self._existing(entry)
        if not isinstance(node, Link):
            raise ParseError("not a link", path=entry.path)
        return node.target

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        node = self._changeable(entry)
        check_node(entry.path, node, expected)
        node.mode = file_mode & PERMISSION_BITS

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        """The time of access is not kept: nothing reads it back."""
        node = self._changeable(entry)
        check_node(entry.path, node, expected)
        node.mtime_ns = mtime_ns

    # --- powers ------------------------------------------------------------------------------

    async def stage(self, place: Handle, *, size_max: int) -> MemoryStage:
        if self._standing(place) is not None:
            self._directory(place)
        return MemoryStage(self, place, size_max)

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> MemoryStore:
        """There are no hard links here, so none to reject."""
        return NarrowedMemoryStore(self, symlinks)

    def shares_tree(self, other: Store) -> bool:
        return isinstance(other, MemoryStore) and other._root is self._root

    async def aclose(self) -> None:
        self._closed = True
        self._root = Directory(self._directory_mode, 0, "", 0, removed=True)

    # --- what a handle stands for ------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    def _held(self, handle: Handle) -> MemoryHandle:
        self._check_open()
        if not isinstance(handle, MemoryHandle) or handle.store is not self:
            raise InternalError("the handle is of another store")
        if handle.is_closed:
            raise Closed("the handle is closed", path=handle.path)
        return handle

    def _existing(self, handle: Handle) -> Node:
        """The node that was found; for a mere place, what has the name at this instant."""
        node = self._held(handle).node or self._standing(handle)
        if node is None:
            raise PathNotFound("no such file or directory", path=handle.path)
        return node

    def _standing(self, entry: Handle, *, parents: bool = False) -> Node | None:
        """What has the entry's name at this instant, in the directory that was held.

        Directories missing above it are `PathNotFound`, unless ``parents`` allows to make them.
        """
        held = self._held(entry)
        if held.node is self._root:
            return self._root
        directory, missing = self._place(held)
        if (missing and not parents) or directory.removed:
            raise PathNotFound("the directory above it does not exist", path=entry.path)
        return None if missing else directory.children.get(held.name)

    def _standing_existing(self, entry: Handle) -> Node:
        node = self._standing(entry)
        if node is None:
            raise PathNotFound("no such file or directory", path=entry.path)
        return node

    def _place(self, entry: Handle) -> Place:
        held = self._held(entry)
        if held.parent is None:
            raise InternalError("a change needs a handle on an entry", path=entry.path)
        directory = held.parent
        for count, name in enumerate(held.missing):
            child = directory.children.get(name)
            if child is None:
                return Place(directory, held.missing[count:])
            if isinstance(child, Link):
                raise not_through_a_link(entry.path)
            if not isinstance(child, Directory):
                raise NotADirectory("a part of the path is not a directory", path=entry.path)
            directory = child
        return Place(directory, ())

    def _changeable(self, entry: Handle) -> File | Directory:
        node = self._existing(entry)
        if isinstance(node, Link):
            raise not_through_a_link(entry.path)
        return node

    def _directory(self, handle: Handle) -> Directory:
        node = self._existing(handle)
        if not isinstance(node, Directory):
            raise NotADirectory("not a directory", path=handle.path)
        if node.removed:
            raise PathNotFound("the directory was removed meanwhile", path=handle.path)
        return node

    def _file(self, handle: Handle) -> File:
        node = self._existing(handle)
        if isinstance(node, Directory):
            raise IsADirectory("is a directory", path=handle.path)
        if isinstance(node, Link):
            raise SymlinkEscape("is a link, and is not followed here", path=handle.path)
        return node

    # --- changing the tree -------------------------------------------------------------------

    def _put(self, entry: Handle, node: Node) -> None:
        """Give ``node`` the entry's name, in place of whatever has it; missing parents are made."""
        directory, missing = self._place(entry)
        held = self._held(entry)
        if held.missing:
            above = entry.path.parent.parts
            held.made = tuple(
                from_parts(above[: len(above) - deeper]) for deeper in reversed(range(len(missing)))
            )
        for name in missing:
            made = self._new_directory(self._directory_mode)
            self._link(directory, name, made)
            directory = made
        self._link(directory, entry.path.name, node)

    def _link(self, directory: Directory, name: str, node: Node) -> None:
        directory.children[name] = node
        if isinstance(node, Directory):
            node.parent = directory
        self._touch(directory)

    def _take(self, entry: Handle) -> None:
        directory = self._place(entry).directory
        del directory.children[entry.path.name]
        self._touch(directory)

    def _touch(self, directory: Directory) -> None:
        directory.mtime_ns, directory.version = self._clock_ns(), self._next_version()

    def _new_directory(self, mode: int) -> Directory:
        now = self._clock_ns()
        return Directory(mode, now, self._next_version(), now)

    def _duplicate(self, node: Node) -> tuple[Node, int]:
        """A copy of the node and all beneath it, times included, and how many nodes it has."""
        top = self._duplicate_one(node)
        waiting, count = [(node, top)], 1
        while waiting:
            original, made = waiting.pop()
            if not isinstance(original, Directory) or not isinstance(made, Directory):
                continue
            for name, child in original.children.items():
                twin = self._duplicate_one(child)
                made.children[name] = twin
                if isinstance(twin, Directory):
                    twin.parent = made
                waiting.append((child, twin))
                count += 1
        return top, count

    def _duplicate_one(self, node: Node) -> Node:
        version, now = self._next_version(), self._clock_ns()
        if isinstance(node, File):
            return File(node.data, node.sha256, node.mode, node.mtime_ns, version, now)
        if isinstance(node, Link):
            return Link(node.target, node.mtime_ns, version, now)
        return Directory(node.mode, node.mtime_ns, version, now)

    def _next_version(self) -> str:
        return f"m{next(self._versions)}"


class NarrowedMemoryStore(MemoryStore):
    """Another view of a store: the same nodes and clock, and an end of its own."""

    def __init__(self, whole: MemoryStore, symlinks: Symlinks | None) -> None:
        self.symlinks = "reject" if symlinks == "reject" else whole.symlinks
        self._whole = whole
        self._limits, self._clock_ns = whole._limits, whole._clock_ns
        self._file_mode, self._directory_mode = whole._file_mode, whole._directory_mode
        self._versions, self._root = whole._versions, whole._root
        self._closed = False

    def _check_open(self) -> None:
        super()._check_open()
        self._whole._check_open()

    async def aclose(self) -> None:
        self._closed = True


def _default_modes(new_file_mode: NewFileMode) -> tuple[int, int]:
    """The mode of a new file and of a new directory, which can be entered by who may read it."""
    if new_file_mode == "private":
        return 0o600, 0o700
    if new_file_mode == "umask":
        # There is no process whose umask counts: the usual one, 022, is taken.
        return 0o644, 0o755
    file_mode = new_file_mode & PERMISSION_BITS
    return file_mode, 0o700 | file_mode | (file_mode & 0o444) >> 2


def _child(name: str, node: Node) -> Child:
    return Child(name, type_of(node), size_of(node), node.mtime_ns)
