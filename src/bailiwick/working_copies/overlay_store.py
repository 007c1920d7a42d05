"""A tree that lies over another one: the lower is read as far as somebody asks, and never written.

What is changed is kept apart as nodes, with what stood below at first touch. A name that was not
touched is what it is below at this instant. What is neither file, directory nor link below does not
show.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, closing
from typing import Final

from msgspec.structs import replace as with_fields

from bailiwick.changes_made import mounts_in
from bailiwick.errors import (
    BailiwickError,
    HashMismatch,
    IsADirectory,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
    TooManyLinks,
    from_os_error,
)
from bailiwick.finishing import ends_where_it_is_left, in_thread, to_the_end
from bailiwick.limits import Limits
from bailiwick.model import NewFileMode, Stat, Symlinks
from bailiwick.nodes import ROOT_ID, Node, NodeStore
from bailiwick.nodes.lookup import beneath
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Child, Children, Handle, HostDirectory, Reader
from bailiwick.unfollowed import unfollowed
from bailiwick.working_copies.base_images import BYTES_MAX
from bailiwick.working_copies.folder import Folder
from bailiwick.working_copies.lower import Below
from bailiwick.working_copies.overlay_record import LOWER, OverlayRecord, RecordEntry, origin_of
from bailiwick.working_copy import Base

_NOTHING_THERE: Final = (IsADirectory, NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks)


class OverlayStore(NodeStore):
    """Names and bytes over those of another store."""

    kind = "overlay"
    durability = "full"

    def __init__(
        self,
        lower: Reader,
        folder: Folder,
        record: OverlayRecord,
        *,
        clock_ns: Callable[[], int],
        symlinks: Symlinks = "in-root",
        limits: Limits | None = None,
        new_file_mode: NewFileMode = "private",
    ) -> None:
        super().__init__(
            clock_ns=clock_ns, new_id=lambda: uuid.uuid4().hex, symlinks=symlinks, limits=limits,
            new_file_mode=new_file_mode,
        )  # fmt: skip
        self.lower: Final = lower
        self.folder: Final = folder
        self.record: Final = record
        self._hashes: dict[tuple[str, str], str] = {}
        self.ending: Callable[[], Awaitable[None]] | None = None
        """What is left to do when it is closed, for whoever has nothing but the store."""

    # --- nodes ----------------------------------------------------------------------------------

    async def get_node(self, node_id: str) -> Node | None:
        known = self.record.nodes.get(node_id)
        if known is not None or not node_id.startswith(LOWER) or not self._shows(node_id):
            return known
        return await self._lower_node(node_id)

    def _shows(self, node_id: str) -> bool:
        """Whether nothing was done in the overlay that hides what stands below."""
        while node_id != ROOT_ID and node_id not in self.record.nodes:
            above, _, name = node_id.removeprefix(LOWER).rpartition("/")
            parent = LOWER + above if above else ROOT_ID
            if (parent, name) in self.record.hidden or name in self.record.names.get(parent, ()):
                return False
            node_id = parent
        return True

    async def find_node(self, directory_id: str, name: str) -> Node | None:
        touched = self.record.names.get(directory_id, {}).get(name)
        if touched is not None:
            return self.record.nodes[touched]
        origin = origin_of(directory_id)
        if origin is None or (directory_id, name) in self.record.hidden:
            return None
        return await self._lower_node(LOWER + (f"{origin}/{name}" if origin else name))

    async def list_nodes(self, directory_id: str) -> Iterable[Node]:
        touched = self.record.names.get(directory_id, {})
        found = [self.record.nodes[each] for each in touched.values()]
        origin = origin_of(directory_id)
        below = await self._names_below(origin, None, None) if origin is not None else None
        for child in () if below is None else below.entries:
            if child.addressable and child.name not in touched:
                node = await self.find_node(directory_id, child.name)
                found += [] if node is None else [node]
        return found

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        """Both lists are sorted, so that one page takes one page of the lower."""
        node = await self.directory_of(directory)
        touched, hidden = self.record.names.get(node.id, {}), self.record.hidden
        above = [
            Child(each.name, each.type, each.size, each.mtime_ns)
            for each in map(self.record.nodes.__getitem__, touched.values())
            if after is None or each.name > after
        ]
        origin, below = origin_of(node.id), list[Child]()
        more = origin is not None
        while more and origin is not None and (limit is None or len(below) <= limit):
            page = await self._names_below(origin, after, limit)
            if page is None:
                break
            below += [
                each
                for each in page.entries
                if each.name not in touched and (node.id, each.name) not in hidden
                if each.type != "other"
            ]
            more = page.more and bool(page.entries)
            after = page.entries[-1].name if page.entries else after
        found = sorted([*above, *below], key=lambda each: each.name)
        if limit is None:
            return Children(found, more=False)
        return Children(found[:limit], more=len(found) > limit)

    # --- what lies below ------------------------------------------------------------------------

    async def _names_below(
        self, origin: str, after: str | None, limit: int | None
    ) -> Children | None:
        path = ScopedPath(origin or ROOT)
        try:
            directory = await self.lower.resolve(path, "object", directory=True)
        except _NOTHING_THERE:
            return None
        with closing(directory):
            if directory.path != path:
                return None  # a link stands there by now
            return await self.lower.children(directory, after=after, limit=limit)

    async def below(self, directory: Handle) -> Below | None:
        """Where the lower tree has what shows in a directory and was not touched; None where
        nothing of it shows. Raises as `children` does."""
        node = await self.directory_of(directory)
        origin = origin_of(node.id)
        if origin is None or not isinstance(self.lower, HostDirectory):
            return None
        path = ScopedPath(origin or ROOT)
        with closing(await self.lower.resolve(path, "object", directory=True)) as found:
            if found.path != path:
                return None
        touched, hidden = self.record.names.get(node.id, {}), self.record.hidden

        def shows(name: str) -> bool:
            return name not in touched and (node.id, name) not in hidden

        return Below(path, self.lower, tuple(touched), shows)

    async def stat_below(self, path: ScopedPath) -> Stat | None:
        """What stands at a path of the lower tree, if that is its own name."""
        try:
            entry = await unfollowed(self.lower, path, parents=True)
        except _NOTHING_THERE:
            return None
        with closing(entry):
            if entry.type is None:
                return None
            try:
                return await self.lower.stat(entry)
            except _NOTHING_THERE:
                return None

    async def base_at(self, path: ScopedPath) -> Base | None:
        stat = await self.stat_below(path)
        return None if stat is None else Base(stat.type, stat.version, stat.size, stat.mode & 0o777)

    async def _lower_node(self, node_id: str) -> Node | None:
        path = ScopedPath(node_id.removeprefix(LOWER))
        stat = await self.stat_below(path)
        if stat is None or stat.type == "other":
            return None
        return Node(
            node_id, LOWER + path.parent if not path.parent.is_root else ROOT_ID, str(path.name),
            stat.type, (stat.target or "").encode(), None, stat.mode & 0o777,
            stat.mtime_ns, stat.created_ns, stat.version,
            stat.size if stat.type == "file" else None,  # only a file has content elsewhere
        )  # fmt: skip

    async def content_of(self, node: Node, offset: int = 0, length: int | None = None) -> bytes:
        if node.length is None:
            return await super().content_of(node, offset, length)
        if node.id in self.record.nodes or not node.id.startswith(LOWER):
            try:
                return await in_thread(self.record.read, node.id, offset, length)
            except FileNotFoundError:
                raise PathNotFound("it was removed meanwhile") from None
            except OSError as error:
                raise from_os_error(error) from error
        wanted = max(node.size - offset, 0) if length is None else length
        return await self._read_below(node, offset, wanted)

    async def _read_below(self, node: Node, offset: int, length: int) -> bytes:
        path = ScopedPath(node.id.removeprefix(LOWER))
        with closing(await unfollowed(self.lower, path)) as entry:
            found = await self.lower.read(entry, offset, length)
        if found.version != node.version:
            raise HashMismatch("it was changed while it was read", path=path)
        return found.data

    async def hashed_node(self, node: Node) -> Node:
        """A file with its hash, which of what was never touched takes reading it once."""
        if node.sha256 is not None:
            return node
        key = node.id, node.version
        if key not in self._hashes:
            digest, step = hashlib.sha256(), self.limits.stream_chunk_bytes
            for start in range(0, node.size, step):
                digest.update(await self.content_of(node, start, step))
            self._hashes[key] = digest.hexdigest()
        return with_fields(node, sha256=self._hashes[key])

    # --- changing -------------------------------------------------------------------------------

    async def commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        try:
            await to_the_end(self._commit(put, gone), ends_where_it_is_left)
        except BailiwickError:
            raise
        except OSError as error:  # of the folder that it is kept in
            raise from_os_error(error) from error

    async def _commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        record = self.record
        mounts = mounts_in(self.lower) or ()
        put = [*await self._above(put), *put]
        bases: dict[str, Base | None] = {}
        hidden: list[tuple[str, str]] = []
        moved = {each.id for each in put} & {each.id for each in gone}
        for node in gone:
            await self._leaves(node, bases, hidden, moved=node.id in moved)
        kept = [await self._kept(node) for node in put]
        staying = {each.id for each in put}
        entry = RecordEntry(
            kept, [each.id for each in gone if each.id not in staying], hidden, bases
        )
        for node in put:
            await self._arrives(node, put, bases, moved=node.id in moved)
        if mounts:
            entry.mounted = record.mounted_of(bases, (), mounts)
        await in_thread(record.append, entry)

    async def _above(self, put: Sequence[Node]) -> list[Node]:
        """The directories of the lower tree around what is touched: with that they stay, whatever
        becomes of them below."""
        found: dict[str, Node] = {}
        known = {each.id for each in put}
        for node in put:
            parent = node.parent
            while parent.startswith(LOWER) and parent not in known | self.record.nodes.keys():
                directory = await self._lower_node(parent)
                if directory is None:
                    break
                found[parent] = directory
                known.add(parent)
                parent = directory.parent
        return list(found.values())

    async def _leaves(
        self,
        node: Node,
        bases: dict[str, Base | None],
        hidden: list[tuple[str, str]],
        *,
        moved: bool,
    ) -> None:
        """A name is given up: what lies below it must not show, and what stood there is known by
        what was looked at."""
        if node.id == ROOT_ID:
            return
        path = self.record.path_of(node.id)
        await self._note(path, node, bases)
        origin = origin_of(node.parent)
        if origin is not None and node.id == LOWER + (f"{origin}/{node.name}".lstrip("/")):
            hidden.append((node.parent, node.name))
        if moved and node.type == "directory":
            for each in (await beneath(self, node))[1:]:
                await self._note(self.record.path_of(each.id), each, bases)

    async def _note(
        self, path: ScopedPath, node: Node | None, bases: dict[str, Base | None]
    ) -> None:
        """What stands below at a path, unless it was touched before."""
        if path in self.record.bases or str(path) in bases or path.is_root:
            return
        if node is not None and node.id == LOWER + path and node.id not in self.record.nodes:
            bases[str(path)] = Base(node.type, node.version, node.size, node.mode)
        else:
            bases[str(path)] = await self.base_at(path)

    async def _arrives(
        self, node: Node, put: Sequence[Node], bases: dict[str, Base | None], *, moved: bool
    ) -> None:
        """A name is taken, or what has it becomes another."""
        if node.id == ROOT_ID:
            return
        path = self._path_among(node, put)
        await self._note(path, await self.get_node(node.id), bases)
        if node.type == "file":
            await self._keep_image(path, bases)
        if moved and node.type == "directory":
            for each in (await beneath(self, node))[1:]:
                below = self.record.path_of(each.id).relative_to(self.record.path_of(node.id))
                await self._note(below.beneath(path), None, bases)

    def _path_among(self, node: Node, put: Sequence[Node]) -> ScopedPath:
        """Where a node will stand, in directories that may be new themselves."""
        new = {each.id: each for each in put}
        names = [node.name]
        parent = node.parent
        while parent in new and parent != ROOT_ID:
            names.append(new[parent].name)
            parent = new[parent].parent
        path = self.record.path_of(parent)
        for name in reversed(names):
            path = path.child(name)
        return path

    async def _keep_image(self, path: ScopedPath, bases: dict[str, Base | None]) -> None:
        """What a file held that is changed, so that both can be joined later on."""
        base = bases.get(str(path)) or self.record.bases.get(path)
        if base is None or base.type != "file" or base.size > BYTES_MAX:
            return
        if await in_thread(self.folder.has_base, path):
            return
        node = await self._lower_node(LOWER + path)
        if node is None or node.version != base.version:
            return
        try:
            data = await self._read_below(node, 0, BYTES_MAX)
        except (HashMismatch, *_NOTHING_THERE):
            return
        if 0 not in data:
            await in_thread(self.folder.save_base, path, data)

    async def _kept(self, node: Node) -> Node:
        """A node with its content put aside: what is touched does not change with the lower."""
        if node.type != "file":
            return node
        if node.length is None:
            size, sha256 = await in_thread(self.record.write, node.id, [node.data])
            return with_fields(node, data=b"", length=size, sha256=sha256)
        if node.id in self.record.nodes:
            return node
        size, sha256 = await self.copy_up(node.id, ScopedPath(node.id.removeprefix(LOWER)), node)
        return with_fields(node, length=size, sha256=sha256)

    async def copy_up(self, node_id: str, path: ScopedPath, node: Node | None) -> tuple[int, str]:
        """Keep what a file of the lower tree holds, as it is now."""
        with closing(await unfollowed(self.lower, path)) as entry:
            stat = await self.lower.stat(entry)
            if node is not None and stat.version != node.version:
                raise HashMismatch("it was changed meanwhile", path=path)
            async with aclosing(self.lower.stream(entry, 0, None)) as chunks:
                return await self.keep_stream(node_id, chunks)

    async def keep_stream(self, node_id: str, chunks: AsyncIterator[bytes]) -> tuple[int, str]:
        writing = await in_thread(self.record.begin, node_id)
        try:
            async for chunk in chunks:
                await in_thread(writing.add, chunk)
            return await in_thread(writing.end)
        finally:
            writing.close()

    async def release(self) -> None:
        """The record and the folder are its working copy's: that one closes them."""

    async def aclose(self) -> None:
        await super().aclose()
        ending, self.ending = self.ending, None
        if ending is not None:  # with the lock free: what is left is looked through once more
            await ending()
