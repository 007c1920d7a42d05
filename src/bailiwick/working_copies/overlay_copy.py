"""The working copy of an overlay: what was changed on top of a tree by verbs.

What became of each path follows from the record alone. What is in the tree by now, or was given up,
is forgotten by writing down anew what is left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

from msgspec.structs import replace as with_fields

from bailiwick.changes_made import MOUNTED_SINCE, mounted_around, mounts_in
from bailiwick.commands import DirectorySeen, SessionNote, Visible
from bailiwick.errors import PathNotFound, Unsupported
from bailiwick.finishing import ends_where_it_is_left, in_thread, to_the_end
from bailiwick.nodes import ROOT_ID, Node
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.sandbox import Tree
from bailiwick.versions import Stale
from bailiwick.working_copies.folder import Folder
from bailiwick.working_copies.overlay_record import LOWER, RecordEntry, in_order
from bailiwick.working_copies.overlay_store import OverlayStore
from bailiwick.working_copy import (
    Alterations,
    Altered,
    Base,
    Dropped,
    GivingUp,
    Publishing,
)


class OverlayCopy:
    """What was changed in one overlay. ``lives`` is whether the overlay is open for others: then
    it is not closed from here, and stays where all of it was given up."""

    is_overlay: Final = True

    def __init__(self, store: OverlayStore, *, lives: bool) -> None:
        self._store: Final = store
        self._record: Final = store.record
        self._folder: Final = store.folder
        self._lives: Final = lives

    @property
    def id(self) -> str:
        return self._folder.id

    @property
    def folder(self) -> Folder:
        return self._folder

    def close(self) -> None:
        if not self._lives:
            self.let_go()

    async def finish(self) -> None:
        """The overlay is closed: where it holds nothing, nothing of it is left."""
        try:
            if not self._record.bases or not (await self.alterations()).any_left:
                await in_thread(self._folder.remove)
        finally:
            self.let_go()

    def let_go(self) -> None:
        self._record.close()
        self._folder.close()

    # --- what was changed ---------------------------------------------------------------------

    async def alterations(self) -> Alterations:
        mounts = mounts_in(self._store.lower)
        async with self._store.lock:
            altered: list[Altered] = []
            covered: list[Dropped] = []
            async for each in self._altered():
                if self._is_as_mounted(each.path, mounts):
                    altered.append(each)
                else:
                    covered.append(Dropped(each.path, MOUNTED_SINCE, each.size, each.sha256))
            return Alterations(altered, covered, [], mounts=mounts)

    def _is_as_mounted(self, path: ScopedPath, mounts: frozenset[str] | None) -> bool:
        """Whether what stands below is in the filesystem that it was in when it was touched: else
        it is something else, whatever its name and its mode."""
        return mounted_around(path, mounts or ()) == self._record.mounted.get(path)

    async def _altered(self) -> AsyncGenerator[Altered, None]:
        for path in in_order(self._record.bases):
            base = self._record.bases[path]
            node = await self.node_at(path)
            if node is None:
                if base is not None:
                    yield Altered(path, None, base)
            elif node.id == LOWER + path and node.id not in self._record.nodes:
                continue  # as it is below
            elif node.type == "directory":
                if base is None or base.type != "directory" or base.mode != node.mode:
                    yield Altered(path, "directory", base, node.mode, mark=_mark(node))
            elif node.type == "symlink":
                if node.id == LOWER + path and await self._stands_below(path, base):
                    continue  # it has come back: of one that leads out, the text says nothing
                text = node.data.decode()
                yield Altered(path, "symlink", base, size=len(text), target=text, mark=_mark(node))
            else:
                mark, node = _mark(node), await self._store.hashed_node(node)
                yield Altered(path, "file", base, node.mode, node.size, node.sha256, mark=mark)

    async def _stands_below(self, path: ScopedPath, base: Base | None) -> bool:
        stat = await self._store.stat_below(path)
        return base is not None and stat is not None and stat.version == base.version

    async def node_at(self, path: ScopedPath) -> Node | None:
        node: Node | None = None
        directory = ROOT_ID
        for name in path.parts:
            if node is not None and node.type != "directory":
                return None
            node = await self._store.find_node(directory, name)
            if node is None:
                return None
            directory = node.id
        return node

    # --- content ------------------------------------------------------------------------------

    async def content(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        node = await self.node_at(path)
        if node is not None and node.type == "file":
            step = self._store.limits.stream_chunk_bytes
            for start in range(0, node.size, step):
                yield await self._store.content_of(node, start, step)
            return
        # It came along with its directory, and is gone from where it lay: put aside.
        origin = self._record.origin_at(path)
        if origin is None or not await in_thread(self._folder.has_kept, origin):
            raise PathNotFound("is not among what was changed", path=path)
        async with aclosing(self.kept(origin)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def keep(self, path: ScopedPath, chunks: AsyncGenerator[bytes, None]) -> None:
        await self._folder.keep(path, chunks)

    async def keep_all(self, contents: Mapping[ScopedPath, bytes]) -> None:
        await in_thread(self._folder.keep_all, contents)

    async def kept(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._folder.kept(path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def base_image(self, path: ScopedPath) -> bytes | None:
        return await in_thread(self._folder.load_base, path)

    # --- what became of it --------------------------------------------------------------------

    async def publishing(self, what: Publishing | None) -> None:
        await in_thread(self._folder.note_publishing, what)

    async def giving_up(self, what: GivingUp | None) -> None:
        await in_thread(self._folder.note_giving_up, what)

    async def note_done(self, key: bytes) -> None:
        await in_thread(self._folder.note_done, key)

    async def settle(self, published: Collection[ScopedPath], seen: Alterations) -> None:
        marks = {each.path: each.mark for each in seen.altered}
        async with self._store.lock:
            await to_the_end(self._keep_all_but(frozenset(published), marks), ends_where_it_is_left)

    async def discard(self, seen: Alterations | None = None) -> None:
        if not self._lives:
            await in_thread(self._folder.remove)
        elif seen is not None:
            covered = {str(each.path) for each in seen.unfit}
            async with self._store.lock:
                marks = {each.path: each.mark for each in seen.altered}
                marks |= {x.path: x.mark async for x in self._altered() if x.path in covered}
                keeping = self._keep_all_but(frozenset(marks), marks)
                await to_the_end(keeping, ends_where_it_is_left)

    async def _keep_all_but(
        self, settled: frozenset[ScopedPath], seen: Mapping[ScopedPath, str | None]
    ) -> None:
        """Write down anew what is left, over the tree as it is now: also what was changed again
        since somebody looked, for which that is what it was changed from."""
        mounts, anew = mounts_in(self._store.lower) or (), set[ScopedPath]()
        rebuilt, known = _Rebuilt(self, self._store), frozenset(self._record.bases)
        async for each in self._altered():
            base = each.base
            if each.path in settled:
                if each.mark == seen.get(each.path, ""):
                    continue
                base = await self._store.base_at(each.path)
                anew.add(each.path)
            await rebuilt.add(each.path, base, await self.node_at(each.path))
        entry = rebuilt.entry
        entry.mounted = self._record.mounted_of(entry.bases, anew, mounts)
        await in_thread(self._write_anew, entry, known)

    def _write_anew(self, entry: RecordEntry, known: frozenset[ScopedPath]) -> None:
        """In one go: an image that is no longer true must not be found."""
        self._record.append(entry)
        self._folder.forget_bases(known - self._record.bases.keys())

    async def rebase(self, path: ScopedPath, image: bytes) -> None:
        async with self._store.lock:
            await in_thread(self._folder.save_base, path, image)
            await self._look_again((path,))

    async def restored(self, paths: Collection[ScopedPath]) -> None:
        async with self._store.lock:
            await self._look_again(paths)

    async def _look_again(self, paths: Collection[ScopedPath]) -> None:
        """What stands there by now is what changes are compared with."""
        mounts = mounts_in(self._store.lower) or ()
        bases = {path: await self._store.base_at(path) for path in paths}
        await in_thread(self._record.append, self._record.with_bases(bases, mounts))

    async def rewrite(self, path: ScopedPath, data: bytes, seen: Alterations) -> None:
        async with self._store.lock:
            node = await self.node_at(path)
            if node is None or node.type != "file":
                raise PathNotFound("is not among what was changed", path=path)
            if _mark(node) not in (each.mark for each in seen.altered if each.path == path):
                raise Stale  # others have changed it since somebody looked
            new = self._store.new_node("file", data, mode=node.mode)
            placed = with_fields(
                new, parent=node.parent, name=node.name, created_ns=node.created_ns
            )
            await self._store.commit([placed], [node])

    # --- for commands -------------------------------------------------------------------------

    async def survey(self) -> None:
        raise _no_programs()

    def seen(self) -> Iterable[DirectorySeen]:
        raise _no_programs()

    async def by_now(self) -> Visible | None:
        raise _no_programs()

    async def show(self, masked: tuple[str, ...]) -> None:
        raise _no_programs()

    def tree(self, place: str, masked: tuple[str, ...], *, writable: bool, lasting: bool) -> Tree:
        raise _no_programs()

    async def keep_bases(self) -> None:
        """All are kept at first touch."""

    async def leave(self) -> None:
        """All is durable when it was changed."""

    async def note_session(self, note: SessionNote) -> None:
        raise _no_programs()

    async def session_note(self) -> SessionNote | None:
        return None


def _mark(node: Node) -> str:
    return f"{node.id} {node.version} {node.mode}"


def _no_programs() -> Unsupported:
    return Unsupported(
        "programs are not run in what an overlay keeps",
        hint="open the overlay itself: they work in a working copy of their own",
    )


class _Rebuilt:
    """What is left of an overlay, as the record of a new one over the same tree."""

    def __init__(self, copy: OverlayCopy, store: OverlayStore) -> None:
        self._copy = copy
        self._store = store
        self._directories: dict[ScopedPath, str] = {ROOT: ROOT_ID}
        self.entry = RecordEntry(anew=True)

    async def add(self, path: ScopedPath, base: Base | None, node: Node | None) -> None:
        """Directories come before what lies in them."""
        store, entry = self._store, self.entry
        parent = await self._directory(path.parent)
        entry.bases[str(path)] = base
        below = await store.base_at(path)
        stays = node is not None and node.type == "directory" and base is not None
        if stays and below is not None and below.type == "directory":
            assert node is not None
            self._put(with_fields(node, id=LOWER + path), path, parent)
            return
        if base is not None and parent == _lower_id(path.parent):
            # Given up here, whatever others do there. What is new here hides nothing of theirs.
            entry.hidden.append((parent, str(path.name)))
        if node is None:
            return
        fresh = with_fields(node, id=store.new_id())
        if node.type == "file":
            fresh = with_fields(fresh, **await self._content(node, fresh.id))
        self._put(fresh, path, parent)

    async def _content(self, node: Node, new_id: str) -> dict[str, Any]:
        record = self._store.record
        if node.id in record.nodes:
            await in_thread(record.adopt, node.id, new_id)
            return {}
        origin = ScopedPath(node.id.removeprefix(LOWER))
        size, sha256 = await self._store.copy_up(new_id, origin, None)
        return {"length": size, "sha256": sha256}

    def _put(self, node: Node, path: ScopedPath, parent: str) -> None:
        self.entry.put.append(with_fields(node, parent=parent, name=str(path.name)))
        if node.type == "directory":
            self._directories[path] = node.id

    async def _directory(self, path: ScopedPath) -> str:
        """The id of a directory: of one that is left, or of the tree. One that others have taken
        away below, or put something else in the place of, stays here with what is left in it."""
        if path not in self._directories:
            below = await self._store.base_at(path)
            if below is not None and below.type == "directory":
                self._directories[path] = LOWER + path
            else:
                node = await self._copy.node_at(path)
                if node is None or node.type != "directory":
                    node = self._store.new_node("directory")
                await self.add(path, self._store.record.bases.get(path), node)
        return self._directories[path]


def _lower_id(path: ScopedPath) -> str:
    return ROOT_ID if path.is_root else LOWER + path
