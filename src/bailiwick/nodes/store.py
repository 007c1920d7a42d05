"""`NodeStore`: the seam of stores over the nodes that a keeper keeps.

A change is looked at and committed under one lock, so that nothing comes between. Only streams
take their time: a written one is gathered first and published in one step.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

from msgspec.structs import replace as with_fields

from bailiwick.errors import (
    DirectoryNotEmpty,
    FileAlreadyExists,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
)
from bailiwick.model import (
    ANYTHING,
    Expected,
    Hardlinks,
    Stat,
    Symlinks,
)
from bailiwick.nodes.keeper import PERMISSION_BITS, NodeHandle, NodeKeeper, NodePlace
from bailiwick.nodes.lookup import NodeNames, beneath, ids_above, is_deeper
from bailiwick.nodes.node import ROOT_ID, Node
from bailiwick.nodes.refusals import (
    check_node,
    check_plan,
    check_range,
    check_replaceable,
    check_size,
    root_stays,
)
from bailiwick.nodes.staged_tree import NodeStage
from bailiwick.nodes.walk import Reached, walk
from bailiwick.paths import DEPTH_MAX, ScopedPath, tree_too_deep
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


class NodeStore(NodeKeeper):
    """Names and bytes, kept by a subclass as nodes: `NodeKeeper` says what it adds."""

    # --- what it is --------------------------------------------------------------------------

    @property
    def powers(self) -> frozenset[str]:
        return frozenset({"Stages", "Narrows"})

    @property
    def description(self) -> dict[str, str]:
        return {"kind": self.kind, "symlinks": self.symlinks, "durability": self.durability}

    # --- lookup ------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        self.check_open()
        if look == "object" or path.is_root:
            handle = await self._object(path)
        else:
            handle = await self._entry(path, parents=parents)
        if directory and handle.type not in ("directory", None):
            raise NotADirectory("not a directory", path=path)
        return handle

    async def _object(self, path: ScopedPath) -> NodeHandle:
        reached = await self._walk(path)
        if reached.missing:
            raise PathNotFound("no such file or directory", path=path)
        return NodeHandle(self, reached.path, reached.place)

    async def _entry(self, path: ScopedPath, *, parents: bool) -> NodeHandle:
        node, place, missing = await self._walk(path.parent)
        if node.type != "directory":
            raise NotADirectory("a part of the path is not a directory", path=path)
        if missing and not parents:
            raise PathNotFound("the directory above it does not exist", path=path)
        seen = None if missing else await self.find_node(node.id, path.name)
        for name in (*missing, path.name):
            place = place.child(name)
        return NodeHandle(self, place, seen, is_object=False, parent=node.id, missing=missing)

    async def _walk(self, path: ScopedPath) -> Reached[Node]:
        root = await self.get_node(ROOT_ID) or self._root
        hops_max = self.limits.link_hops_max
        return await walk(NodeNames(self), root, path, symlinks=self.symlinks, hops_max=hops_max)

    async def descend(self, directory: Handle, name: str) -> Handle:
        parent = await self.directory_of(directory)
        node = await self.find_node(parent.id, name)
        path = directory.path.child(name)
        if node is None:
            raise PathNotFound("no such file or directory", path=path)
        return NodeHandle(self, path, node, parent=parent.id)

    # --- reading -----------------------------------------------------------------------------

    async def stat(self, handle: Handle) -> Stat:
        node = await self.existing(handle)
        return Stat(
            path=handle.path,
            name=handle.path.name,
            type=node.type,
            size=node.size,
            mode=node.mode,
            mtime_ns=node.mtime_ns,
            created_ns=node.created_ns,
            version=node.version,
            links=1,
            target=node.data.decode() if node.type == "symlink" else None,
        )

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        node = await self.directory_of(directory)
        found = [
            Child(each.name, each.type, each.size, each.mtime_ns)
            for each in await self.list_nodes(node.id)
            if after is None or each.name > after
        ]
        found.sort(key=lambda child: child.name)
        kept = found if limit is None else found[:limit]
        return Children(kept, more=len(kept) < len(found))

    async def names_beside(self, entry: Handle) -> list[str]:
        if self.held(entry).parent is None:
            return []
        directory, missing, _ = await self.place_of(entry, parents=True)
        return [] if missing else [each.name for each in await self.list_nodes(directory.id)]

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        node = await self.file_of(file)
        check_range(file.path, offset, length)
        data = await self.content_of(node, offset, length)
        return Content(data, node.size, node.version)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        node = await self.file_of(file)
        check_range(file.path, offset, length)
        end = node.size if length is None else min(node.size, offset + length)
        step = self.limits.stream_chunk_bytes
        for start in range(offset, end, step):
            yield await self.content_of(node, start, min(step, end - start))
            await asyncio.sleep(0)
            self.check_open()

    async def readlink(self, entry: Handle) -> str:
        node = await self.existing(entry)
        if node.type != "symlink":
            raise ParseError("not a link", path=entry.path)
        return node.data.decode()

    # --- content -----------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        async with self.lock:
            return await self._publish(entry, bytes(data), sha256, plan)

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        await self._admit(entry, plan)
        gathered = bytearray()
        async for chunk in chunks:
            self.check_open()
            check_size(entry.path, len(gathered) + len(chunk), plan)
            gathered += chunk
        data = bytes(gathered)
        return await self.write(entry, data, hashlib.sha256(data).hexdigest(), plan)

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        async with self.lock:
            old = (await self._admit(entry, plan)).standing
            whole = data if old is None else await self.content_of(old) + data
            return await self._publish(entry, whole, hashlib.sha256(whole).hexdigest(), plan)

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        if size < 0:
            raise ParseError("a size is not negative", path=entry.path)
        async with self.lock:
            old = (await self._admit(entry, plan)).standing
            if old is None:
                raise PathNotFound("no such file or directory", path=entry.path)
            check_size(entry.path, size, plan)
            whole = (await self.content_of(old, 0, size)).ljust(size, b"\0")
            return await self._publish(entry, whole, hashlib.sha256(whole).hexdigest(), plan)

    async def _admit(self, entry: Handle, plan: WritePlan) -> NodePlace:
        """Check that the plan fits what stands there now."""
        place = await self.place_of(entry, parents=plan.parents)
        check_plan(entry.path, await self.hashed(place.standing, plan.expected), plan)
        return place

    async def _publish(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        place = await self._admit(entry, plan)
        check_size(entry.path, len(data), plan)
        old, mode = place.standing, plan.file_mode
        if mode is None:
            mode = self.file_mode if old is None else old.mode
        node = self.new_node("file", data, sha256=sha256, mode=mode)
        if old is not None:
            node = with_fields(node, created_ns=old.created_ns)
        await self.put(entry, place, node)
        before = None if old is None else old.size
        return Written(old is None, len(data), sha256, node.version, node.mode, before)

    # --- names -------------------------------------------------------------------------------

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        async with self.lock:
            place = await self.place_of(entry, parents=parents)
            if place.standing is not None and place.standing.type == "directory" and parents:
                return False
            self.refuse_taken(entry, place)
            await self.put(entry, place, self.new_node("directory", mode=file_mode))
            held = self.held(entry)
            held.made = (*(made_for(held) or ()), held.path)
            return True

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        async with self.lock:
            directory, node = await self.taken_place(entry)
            if node.id == ROOT_ID:
                raise root_stays()
            check_node(entry.path, await self.hashed(node, expected), expected)
            gone = await beneath(self, node)
            if len(gone) > 1 and not recursive:
                raise DirectoryNotEmpty("directory is not empty", path=entry.path)
            await self.commit([self.touched(directory)], gone)
            return len(gone)

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        if source.path.is_root or destination.path.is_root:
            raise root_stays()
        async with self.lock:
            here, node = await self.taken_place(source)
            place = await self.place_of(destination)
            there, old = place.directory, place.standing
            check_node(source.path, await self.hashed(node, expected), expected)
            check_node(destination.path, await self.hashed(old, replaced), replaced)
            if old is not None and old.id == node.id:
                return False
            above, line = await ids_above(self, there), await ids_above(self, here)
            if node.id in above:
                raise ParseError("a directory cannot be moved into itself", path=destination.path)
            if len(above) > len(line):
                await self._check_depth(destination, node, len(above))
            if old is not None:
                if not replace:
                    raise FileAlreadyExists("already exists", path=destination.path)
                if old.id in line:
                    why = "the directory holds what is moved"
                    raise DirectoryNotEmpty(why, path=destination.path)
                is_empty = not list(await self.list_nodes(old.id))
                check_replaceable(destination.path, node, old, is_empty=is_empty)
            await self.put(destination, place, node, leaves=here)
            return True

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        async with self.lock:
            node = await self.existing(source)
            place = await self.place_of(destination)
            if node.type == "directory" and not recursive:
                raise IsADirectory("is a directory", path=source.path)
            above = await ids_above(self, place.directory)
            if not destination.path.is_root and node.id in above:
                raise ParseError("a directory cannot be copied into itself", path=destination.path)
            self.refuse_taken(destination, place)
            await self._check_depth(destination, node, len(above))
            top, *others = await self._twins(node)
            await self.put(destination, place, top, with_it=others)
            return 1 + len(others)

    async def symlink(self, entry: Handle, target: str) -> None:
        link = self.new_link(entry.path, target)
        async with self.lock:
            place = await self.place_of(entry)
            self.refuse_links(entry.path)
            self.refuse_taken(entry, place)
            await self.put(entry, place, link)

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        async with self.lock:
            node = await self.changeable(entry, expected)
            await self.commit([with_fields(node, mode=file_mode & PERMISSION_BITS)], [])

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        """The time of access is not kept: nothing reads it back."""
        async with self.lock:
            node = await self.changeable(entry, expected)
            await self.commit([with_fields(node, mtime_ns=mtime_ns)], [])

    # --- powers ------------------------------------------------------------------------------

    async def stage(self, place: Handle, *, size_max: int) -> NodeStage:
        if (await self.place_of(place)).standing is not None:
            await self.directory_of(place)
        return NodeStage(self, place, size_max)

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> NodeStore:
        """There are no hard links here, so none to reject."""
        return NarrowedNodeStore(self, symlinks)

    def shares_tree(self, other: Store) -> bool:
        return isinstance(other, NodeStore) and other.lock is self.lock

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            async with self.lock:  # what is under way ends first
                await self.release()

    async def _check_depth(self, destination: Handle, node: Node, levels: int) -> None:
        """Refuse to put ``node`` where no path could name all that lies beneath it."""
        if await is_deeper(self, node, DEPTH_MAX - levels):
            raise tree_too_deep(destination.path)

    async def _twins(self, node: Node) -> list[Node]:
        """A copy of the node and all beneath it, times included."""
        twins: dict[str, Node] = {}
        for original in await beneath(self, node):
            twin_id, now = self.new_id(), self.clock_ns()
            if original.length is not None:
                data = await self.content_of(original)
                original = with_fields(original, data=data, length=None)
            above = twins.get(original.parent)
            twins[original.id] = with_fields(
                original, id=twin_id, version=twin_id, created_ns=now,
                parent=original.parent if above is None else above.id,
            )  # fmt: skip
        return list(twins.values())


class NarrowedNodeStore(NodeStore):
    """Another view of a store: its nodes and its lock, and an end of its own."""

    def __init__(self, whole: NodeStore, symlinks: Symlinks | None) -> None:
        self._whole = whole
        self.symlinks = "reject" if symlinks == "reject" else whole.symlinks
        self.limits, self.clock_ns, self.new_id = whole.limits, whole.clock_ns, whole.new_id
        self.file_mode, self.directory_mode = whole.file_mode, whole.directory_mode
        self.lock, self._root, self._closed = whole.lock, whole._root, False

    @property
    def description(self) -> dict[str, str]:
        return self._whole.description | {"symlinks": self.symlinks}

    async def get_node(self, node_id: str) -> Node | None:
        return await self._whole.get_node(node_id)

    async def find_node(self, directory_id: str, name: str) -> Node | None:
        return await self._whole.find_node(directory_id, name)

    async def list_nodes(self, directory_id: str) -> Iterable[Node]:
        return await self._whole.list_nodes(directory_id)

    async def commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        await self._whole.commit(put, gone)

    async def content_of(self, node: Node, offset: int = 0, length: int | None = None) -> bytes:
        return await self._whole.content_of(node, offset, length)

    def check_open(self) -> None:
        super().check_open()
        self._whole.check_open()
