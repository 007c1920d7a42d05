"""The lower tree of a volume, or of any store that is no directory: written out for programs.

What is written out is what a subject may see of one version, once, and shared by all commands that
may see the same of it. A store without versions is read as it stands: what is changed while that
goes on has nobody's version, so that nothing of it is ever overwritten.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from typing import Final, NamedTuple

import msgspec

from bailiwick.change_log import Logs
from bailiwick.errors import (
    HardlinkRefused,
    HashMismatch,
    NotADirectory,
    NotARegularFile,
    PathNotFound,
    PermissionDenied,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.model import EntryType, MiB
from bailiwick.paths import RESERVED_PREFIX, ROOT, ScopedPath
from bailiwick.store import Handle, Reader, Store
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import lines, past
from bailiwick.working_copies.lower import Below, ShowsBelow
from bailiwick.working_copies.survey import Survey, by_path, names_at, type_of
from bailiwick.working_copies.tree_cache import HeldTree, TreeCache, TreeDraft
from bailiwick.working_copies.tree_writer import TreeNode, TreeWriter, write_all
from bailiwick.working_copy import Base

_PERMISSIONS: Final = 0o777
_ENTRIES_BETWEEN_PAUSES: Final = 256
"""After so many entries looked at, others get their turn."""

_BATCH_BYTES: Final = 4 * MiB
_BATCH_FILES: Final = 256
"""What is held in memory of files on their way to the disk."""


_NOT_SHOWN: Final = (
    HardlinkRefused, HashMismatch, NotADirectory, NotARegularFile, PathNotFound, PermissionDenied,
    SymlinkEscape,
)  # fmt: skip
"""What is wrong with one file of a store that is read as it stands: it is not there for a program,
which sees all the others."""


class _Walked(NamedTuple):
    """What stood in the store, at which version of it; None where it has none."""

    version: str | None
    nodes: Mapping[str, TreeNode]
    below: Mapping[str, ScopedPath] = {}
    """Files of a directory of this machine that show through, by where they lie there."""


class StoreSurvey(Survey):
    """What stood in a store, with what it takes to write it out."""

    doors = ()
    """What is written out has none."""

    def __init__(self, walked: _Walked) -> None:
        super().__init__({path: _base(node) for path, node in walked.nodes.items()})
        self.walked: Final = walked


class MaterialisedLower:
    """A store whose tree is written out for the programs that are to see it."""

    masks = False

    def __init__(self, store: Store, cache: TreeCache, *, entries_max: int, bytes_max: int) -> None:
        self._store = store
        self._cache = cache
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._last = _Walked(None, {})
        self._first: int | None = None

    async def survey(self) -> Survey:
        version, found = await self._version(), self._last
        if version is None or version != found.version:
            async with self._reading(version) as store:
                walk = _StoreWalk(store, self._entries_max)
                await walk.run()
                found = _Walked(version, walk.found, walk.below)
            self._last = found
        return StoreSurvey(found)

    def recall(self, found: bytes, since: Mapping[str, Base | None]) -> Survey:
        return Survey(by_path(msgspec.msgpack.decode(found, type=dict[bytes, Base])), since)

    def mounts(self) -> Collection[str]:
        return ()  # nobody mounts anything where it is written out

    async def look(self, paths: Collection[ScopedPath]) -> dict[ScopedPath, Base | None]:
        found = {}
        for count, path in enumerate(paths, 1):
            found[path] = await self._look(path)
            if count % _ENTRIES_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
        return found

    async def _look(self, path: ScopedPath) -> Base | None:
        try:
            entry = await unfollowed(self._store, path)
        except PathNotFound:
            return None
        with closing(entry):
            return None if entry.type is None else _base(await _node(self._store, entry))

    # --- what is shown ------------------------------------------------------------------------

    async def show_again(self, name: str) -> HeldTree:
        found = await in_thread(self._cache.held if name else self._nothing, name, let_go=_close)
        if found is None:
            raise PathNotFound("what this working copy lay over was taken away")
        return found

    def _nothing(self, name: str) -> HeldTree:
        return self._cache.nothing()

    async def show(self, survey: Survey, masked: Sequence[str]) -> HeldTree:
        assert isinstance(survey, StoreSurvey)
        nodes = _without(survey.walked.nodes, masked)
        total = sum(each.size for each in nodes.values())
        if total > self._bytes_max:
            raise Unsupported(
                "there is more in this root than is written out for a command",
                details={"bytes": total, "limit": self._bytes_max},
            )
        found = await in_thread(self._found, nodes, let_go=_close)
        return found or await self._written(survey.walked, nodes)

    def _found(self, nodes: Mapping[str, TreeNode]) -> HeldTree | None:
        return self._cache.held(self._cache.name_of(nodes))

    async def _written(self, walked: _Walked, nodes: Mapping[str, TreeNode]) -> HeldTree:
        staged = await in_thread(self._cache.stage, let_go=self._discard)
        try:
            async with self._reading(walked.version) as store:
                changed = await self._write(store, staged, nodes, walked.below)
            return await in_thread(self._cache.keep, staged, nodes, changed, let_go=_close)
        finally:
            await to_the_end(self._discard(staged))

    async def _write(
        self, store: Reader, staged: TreeDraft, nodes: Mapping[str, TreeNode],
        below: Mapping[str, ScopedPath],
    ) -> frozenset[str]:  # fmt: skip
        like = await in_thread(self._cache.newest, let_go=_close_first)
        tree, same = (None, {}) if like is None else like
        writer = TreeWriter(staged.directory, None if tree is None else tree.directory, same)
        try:
            writing = _Writing(store, writer, below)
            left = await in_thread(_made, writer, nodes)
            for count, path in enumerate(left, 1):
                await writing.add(path, nodes[path])
                if count % _ENTRIES_BETWEEN_PAUSES == 0:
                    await asyncio.sleep(0)
            await writing.flush()
            await in_thread(writer.finish)
            return frozenset(writing.changed)
        finally:
            writer.close()
            if tree is not None:
                tree.close()

    async def _discard(self, staged: TreeDraft) -> None:
        staged.close()
        await in_thread(self._cache.discard, staged)
        await in_thread(self._cache.make_room)

    # --- what is read -------------------------------------------------------------------------

    async def _version(self) -> str | None:
        """The newest version, a fork's first one where nothing was changed in it yet; None where a
        store has none."""
        store = self._store
        if not ({"Logs", "Branches"} <= store.powers and isinstance(store, Logs)):
            return None
        if self._first is None:
            name = await lines(store).branch()
            forks = [each for each in await lines(store).forks() if each.name == name]
            self._first = max((int(each.version) for each in forks), default=0)
        return str(max(await store.log.end(), self._first))

    @asynccontextmanager
    async def _reading(self, version: str | None) -> AsyncGenerator[Reader, None]:
        if version is None:
            yield self._store
            return
        try:
            then = await past(self._store).as_of(version)
        except PathNotFound:  # nothing was ever changed, or it is not kept any more
            yield self._store
            return
        try:
            yield then
        finally:
            await to_the_end(then.aclose())


class _Writing:
    """Files on their way from a store to the disk."""

    def __init__(self, store: Reader, writer: TreeWriter, below: Mapping[str, ScopedPath]) -> None:
        self._store = store
        self._lower = store.lower if isinstance(store, ShowsBelow) else store
        self._writer = writer
        self._below = below
        self._batch: list[tuple[str, TreeNode, bytes]] = []
        self._batch_bytes = 0
        self.changed: set[str] = set()

    async def add(self, path: str, node: TreeNode) -> None:
        below = self._below.get(path)
        store = self._store if below is None else self._lower
        place = ScopedPath(path) if below is None else below
        try:
            with closing(await unfollowed(store, place)) as entry:
                if entry.type == "file":
                    await self._read(store, path, node, entry)
                    return
        except _NOT_SHOWN:
            pass
        self.changed.add(path)

    async def _read(self, store: Reader, path: str, node: TreeNode, entry: Handle) -> None:
        if entry.size > _BATCH_BYTES:
            await self._copy(store, path, node, entry)
            return
        content = await store.read(entry, 0, _BATCH_BYTES)
        if content.version != node.version:
            self.changed.add(path)
        self._batch.append((path, node, content.data))
        self._batch_bytes += len(content.data)
        if self._batch_bytes >= _BATCH_BYTES or len(self._batch) >= _BATCH_FILES:
            await self.flush()

    async def _copy(self, store: Reader, path: str, node: TreeNode, entry: Handle) -> None:
        await self.flush()
        file = await in_thread(self._writer.open_file, path)
        try:
            async with aclosing(store.stream(entry, 0, None)) as chunks:
                async for chunk in chunks:
                    await in_thread(write_all, file, chunk)
            await in_thread(self._writer.end_file, file, node)
            if (await store.stat(entry)).version != node.version:
                self.changed.add(path)
        except _NOT_SHOWN:
            self.changed.add(path)
        finally:
            os.close(file)

    async def flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch:
            await in_thread(self._writer.write, batch)


def _made(writer: TreeWriter, nodes: Mapping[str, TreeNode]) -> list[str]:
    """Make all that needs no content, and tell what does."""
    left = []
    for path, node in nodes.items():
        if node.type != "file":
            writer.make(path, node)
        elif not writer.has_written(path, node):
            left.append(path)
    return left


class _StoreWalk:
    """All that stands in a store, directories before what lies in them. What shows through of a
    directory of this machine is looked at there, the directories of one level at once."""

    def __init__(self, store: Reader, entries_max: int) -> None:
        self._store = store
        self._entries_max = entries_max
        self._waiting = [ROOT]
        self.found: dict[str, TreeNode] = {}
        self.below: dict[str, ScopedPath] = {}

    async def run(self) -> None:
        while self._waiting:
            level, self._waiting = self._waiting, []
            shown: list[tuple[ScopedPath, Below]] = []
            for path in level:
                with suppress(*_NOT_SHOWN):  # a store that is read as it stands
                    await self._directory(path, shown)
            if shown:
                for path, below, names in await in_thread(_listed, shown):
                    await self._add_below(path, below, names)

    async def _directory(self, path: ScopedPath, shown: list[tuple[ScopedPath, Below]]) -> None:
        store = self._store
        with closing(await store.resolve(path, "object", directory=True)) as directory:
            below = await store.below(directory) if isinstance(store, ShowsBelow) else None
            if below is None:
                children = await store.children(directory)
                names: Sequence[str] = [each.name for each in children.entries if each.addressable]
            else:
                shown.append((path, below))
                names = below.touched
            for name in names:
                if not name.startswith(RESERVED_PREFIX):
                    await self._add(directory, path, name)

    async def _add(self, directory: Handle, path: ScopedPath, name: str) -> None:
        with suppress(*_NOT_SHOWN), closing(await self._store.descend(directory, name)) as entry:
            node = await _node(self._store, entry)
            if node.type != "symlink" or node.target:  # else it leads out of the root
                await self._put(path.child(name), node)

    async def _add_below(
        self, path: ScopedPath, below: Below, names: list[tuple[str, os.stat_result]]
    ) -> None:
        links = []
        for name, status in names:
            kind = type_of(status)
            if kind == "symlink":
                links.append(name)
            elif kind in ("file", "directory"):
                await self._put(path.child(name), _seen(below, kind, status))
                if kind == "file":
                    self.below[str(path.child(name))] = below.path.child(name)
        if links:
            # Where they lead is the store's to say.
            with (
                suppress(*_NOT_SHOWN),
                closing(await self._store.resolve(path, "object", directory=True)) as directory,
            ):
                for name in links:
                    await self._add(directory, path, name)

    async def _put(self, path: ScopedPath, node: TreeNode) -> None:
        self.found[str(path)] = node
        if node.type == "directory":
            self._waiting.append(path)
        if len(self.found) % _ENTRIES_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        if len(self.found) > self._entries_max:
            raise Unsupported(
                "there is more in this root than a command can be given",
                details={"limit": self._entries_max},
            )


def _listed(
    shown: Sequence[tuple[ScopedPath, Below]],
) -> list[tuple[ScopedPath, Below, list[tuple[str, os.stat_result]]]]:
    """What stands in some directories of this machine, as far as it shows and has a name."""
    top = shown[0][1].directory.open_directory()
    try:
        return [
            (
                path,
                below,
                [
                    (name, status)
                    for name, status in names_at(top, below.path)
                    if below.shows(name) and _is_text(name)
                ],
            )
            for path, below in shown
        ]
    finally:
        os.close(top)


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _seen(below: Below, kind: EntryType, status: os.stat_result) -> TreeNode:
    size = status.st_size if kind == "file" else 0
    version, mode = below.directory.version_of(status), status.st_mode & _PERMISSIONS
    return TreeNode(kind, version, size, mode, status.st_mtime_ns, None)


async def _node(store: Reader, entry: Handle) -> TreeNode:
    stat = await store.stat(entry)
    size = stat.size if stat.type == "file" else 0
    mode = stat.mode & _PERMISSIONS
    return TreeNode(stat.type, stat.version, size, mode, stat.mtime_ns, stat.target)


def _base(node: TreeNode) -> Base:
    return Base(node.type, node.version, node.size, node.mode)


def _without(nodes: Mapping[str, TreeNode], masked: Sequence[str]) -> dict[str, TreeNode]:
    hidden = set(masked)
    kept: dict[str, TreeNode] = {}
    for path, node in nodes.items():
        if path in hidden or path.rpartition("/")[0] in hidden:
            hidden.add(path)
        else:
            kept[path] = node
    return kept


async def _close(tree: HeldTree | None) -> None:
    if tree is not None:
        tree.close()


async def _close_first(found: tuple[HeldTree, object] | None) -> None:
    if found is not None:
        found[0].close()
