"""Whole trees made aside, and put in their place by one commit: all or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace as with_fields

from bailiwick.errors import (
    FileAlreadyExists,
    InternalError,
    IsADirectory,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.nodes.keeper import NodeKeeper
from bailiwick.nodes.node import Node
from bailiwick.nodes.refusals import check_size, not_through_a_link
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Handle, Staged, WritePlan


class NodeStage:
    """One tree that nobody keeps yet, by the paths in it."""

    def __init__(self, store: NodeKeeper, place: Handle, size_max: int) -> None:
        self._store: Final = store
        self._place: Final = place
        self._plan: Final = WritePlan(size_max=size_max)
        self._nodes: dict[ScopedPath, Node] = {ROOT: store.new_node("directory")}
        self._implied: set[ScopedPath] = set()
        self._file: Staged | None = None
        self._content = bytearray()

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        self._store.check_open()
        for step in steps:
            if isinstance(step, bytes):
                self._write(step)
            else:
                self._end_file()
                self._make(step)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise InternalError("content follows the file it belongs to")
        check_size(self._final(self._file.path), len(self._content) + len(data), self._plan)
        self._content += data

    def _make(self, step: Staged) -> None:
        store, path = self._store, step.path
        self._directory(path.parent)
        if step.type == "directory" and path in self._implied:
            self._implied.discard(path)
        elif path in self._nodes:
            raise FileAlreadyExists("already exists", path=self._final(path))
        if step.type == "directory":
            self._add(step, store.new_node("directory", mode=step.file_mode))
        elif step.type == "symlink":
            link = store.new_link(self._final(path), step.target)
            store.refuse_links(self._final(path))
            self._nodes[path] = link
        elif step.type == "copy":
            original = self._nodes.get(ScopedPath(step.target))
            if original is None or original.type != "file":
                raise PathNotFound("no such file", path=self._final(ScopedPath(step.target)))
            self._add_file(step, original.data, original.sha256)
        else:
            self._add_file(step, b"", hashlib.sha256().hexdigest())
            self._file = step

    def _end_file(self) -> None:
        step, self._file = self._file, None
        if step is not None:
            data, self._content = bytes(self._content), bytearray()
            self._add_file(step, data, hashlib.sha256(data).hexdigest())

    def _add_file(self, step: Staged, data: bytes, sha256: str | None) -> None:
        self._add(step, self._store.new_node("file", data, sha256=sha256, mode=step.file_mode))

    def _add(self, step: Staged, node: Node) -> None:
        if step.mtime_ns is not None:
            node = with_fields(node, mtime_ns=step.mtime_ns)
        self._nodes[step.path] = node

    def _directory(self, path: ScopedPath) -> None:
        """See to it that a directory of the stage is there, with those above it."""
        way = ROOT
        for name in path.parts:
            way = way.child(name)
            node = self._nodes.get(way)
            if node is None:
                self._nodes[way] = self._store.new_node("directory")
                self._implied.add(way)
            elif node.type == "symlink":
                raise not_through_a_link(self._final(way))
            elif node.type != "directory":
                raise NotADirectory("not a directory", path=self._final(way))

    # --- appearing ----------------------------------------------------------------------------

    async def publish(self) -> None:
        self._end_file()
        store = self._store
        async with store.lock:
            place = await store.place_of(self._place)
            store.refuse_taken(self._place, place)
            others = [node for path, node in self._placed() if not path.is_root]
            await store.put(self._place, place, self._nodes[ROOT], with_it=others)

    def _placed(self) -> Iterator[tuple[ScopedPath, Node]]:
        """All of the stage, each with its name in its directory of the stage."""
        for path, node in self._nodes.items():
            parent = self._nodes[path.parent].id
            yield path, with_fields(node, parent=parent, name=str(path.name))

    async def merge(self, *, replace: bool) -> None:
        self._end_file()
        store = self._store
        async with store.lock:
            standing = {ROOT: await store.directory_of(self._place)}
            entered: set[ScopedPath] = set()
            put, gone = list[Node](), list[Node]()
            for path, node in sorted(self._placed(), key=lambda each: each[0].order):
                above = standing.get(path.parent)
                if path.is_root:
                    continue
                if above is None:  # in a directory that is new itself
                    put.append(node)
                    continue
                old = await store.find_node(above.id, path.name)
                if old is not None:
                    self._check_met(self._final(path), node, old, replace=replace)
                if old is not None and node.type == "directory":
                    standing[path] = old
                    continue
                entered.add(path.parent)
                put.append(with_fields(node, parent=above.id))
                gone += [] if old is None else [old]
            put += [store.touched(standing[path]) for path in entered]
            await store.commit(put, gone)

    def _check_met(self, final: ScopedPath, node: Node, old: Node, *, replace: bool) -> None:
        """Whether what is staged may stand where something stands already."""
        if node.type == "directory":
            if old.type == "symlink":
                raise SymlinkEscape("is a link, and nothing is unpacked through one", path=final)
            if old.type != "directory":
                why = "a directory of the archive meets something else"
                raise NotADirectory(why, path=final)
        elif not replace or node.type == "symlink":
            raise FileAlreadyExists("already exists", path=final)
        elif old.type == "directory":
            raise IsADirectory("a file of the archive meets a directory", path=final)
        elif old.type == "symlink":
            raise not_through_a_link(final)

    async def discard(self) -> None:
        self._file = None
        self._content = bytearray()
        self._nodes.clear()

    def _final(self, path: ScopedPath) -> ScopedPath:
        return path.beneath(self._place.path)
