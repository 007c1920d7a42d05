"""Whole trees made aside in memory, and put in their place between two awaits: all or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Protocol

from bailiwick.errors import (
    FileAlreadyExists,
    InternalError,
    IsADirectory,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.model import Limits, Symlinks
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Staged, WritePlan
from bailiwick.stores.memory.refusals import check_link_text, check_size, not_through_a_link
from bailiwick.stores.memory.tree import Directory, File, Link, Node

_PERMISSION_BITS: Final = 0o777


class Keeper(Protocol):
    """What a stage needs of the store whose tree it grows for."""

    symlinks: Symlinks
    _limits: Limits
    _file_mode: int
    _directory_mode: int

    def _new_directory(self, mode: int) -> Directory: ...
    def _next_version(self) -> str: ...
    def _clock_ns(self) -> int: ...
    def _standing(self, entry: Handle, *, parents: bool = False) -> Node | None: ...
    def _directory(self, handle: Handle) -> Directory: ...
    def _put(self, entry: Handle, node: Node) -> None: ...
    def _link(self, directory: Directory, name: str, node: Node) -> None: ...
    def _check_open(self) -> None: ...


class MemoryStage:
    """One tree that nothing leads to yet."""

    def __init__(self, store: Keeper, place: Handle, size_max: int) -> None:
        self._store: Final = store
        self._place: Final = place
        self._plan: Final = WritePlan(size_max=size_max)
        self._top = store._new_directory(store._directory_mode)
        self._made: dict[ScopedPath, Staged] = {}
        self._implied: set[ScopedPath] = set()
        self._file: Staged | None = None
        self._content = bytearray()

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        self._store._check_open()
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
        store, name = self._store, step.path.name
        directory = self._directory(step.path.parent)
        if step.type == "directory" and step.path in self._implied:
            self._implied.discard(step.path)
        elif name in directory.children:
            raise FileAlreadyExists("already exists", path=self._final(step.path))
        elif step.type == "directory":
            store._link(directory, name, store._new_directory(store._directory_mode))
        elif step.type == "symlink":
            self._make_link(step, directory)
        elif step.type == "copy":
            original = self._directory(ScopedPath(step.target).parent).children.get(
                ScopedPath(step.target).name
            )
            if not isinstance(original, File):
                raise PathNotFound("no such file", path=self._final(ScopedPath(step.target)))
            self._put_file(step, original.data, original.sha256)
        else:
            store._link(directory, name, self._new_file(step, b"", hashlib.sha256().hexdigest()))
            self._file = step
        self._made[step.path] = step

    def _make_link(self, step: Staged, directory: Directory) -> None:
        store, final = self._store, self._final(step.path)
        check_link_text(final, step.target, store._limits.link_text_bytes_max)
        if store.symlinks == "reject":
            raise SymlinkEscape("links are not made in this root", path=final)
        now = store._clock_ns()
        link = Link(step.target, now, store._next_version(), now)
        store._link(directory, step.path.name, link)

    def _end_file(self) -> None:
        step, self._file = self._file, None
        if step is not None:
            data, self._content = bytes(self._content), bytearray()
            self._put_file(step, data, hashlib.sha256(data).hexdigest())

    def _put_file(self, step: Staged, data: bytes, sha256: str) -> None:
        directory = self._directory(step.path.parent)
        self._store._link(directory, step.path.name, self._new_file(step, data, sha256))

    def _new_file(self, step: Staged, data: bytes, sha256: str) -> File:
        store = self._store
        mode = store._file_mode if step.file_mode is None else step.file_mode & _PERMISSION_BITS
        now = store._clock_ns()
        mtime_ns = now if step.mtime_ns is None else step.mtime_ns
        return File(data, sha256, mode, mtime_ns, store._next_version(), now)

    def _directory(self, path: ScopedPath) -> Directory:
        """A directory of the stage, made if it is not there yet."""
        directory, way = self._top, ScopedPath(".")
        for name in path.parts:
            way = way.child(name)
            child = directory.children.get(name)
            if child is None:
                child = self._store._new_directory(self._store._directory_mode)
                self._store._link(directory, name, child)
                self._implied.add(way)
            if isinstance(child, Link):
                raise not_through_a_link(self._final(way))
            if not isinstance(child, Directory):
                raise NotADirectory("not a directory", path=self._final(way))
            directory = child
        return directory

    # --- appearing ----------------------------------------------------------------------------

    async def publish(self) -> None:
        self._end_file()
        if self._store._standing(self._place) is not None:
            raise FileAlreadyExists("already exists", path=self._place.path)
        self._dress()
        self._store._put(self._place, self._top)

    def _dress(self) -> None:
        """Modes and times of directories, once everything is in them."""
        for path, step in self._made.items():
            if step.type == "directory":
                _dress(self._directory(path), step)

    async def merge(self, *, replace: bool) -> None:
        self._end_file()
        self._dress()
        target = self._store._directory(self._place)
        self._check(self._top, target, ScopedPath("."), replace)
        # Nothing can fail any more.
        waiting = [(self._top, target)]
        while waiting:
            staged, standing = waiting.pop()
            for name, node in staged.children.items():
                old = standing.children.get(name)
                if isinstance(node, Directory) and isinstance(old, Directory):
                    waiting.append((node, old))
                    continue
                self._store._link(standing, name, node)

    def _check(self, top: Directory, target: Directory, path: ScopedPath, replace: bool) -> None:
        waiting = [(top, target, path)]
        while waiting:
            staged, standing, way = waiting.pop()
            for name, node in staged.children.items():
                old, final = standing.children.get(name), self._final(way.child(name))
                if old is None:
                    continue
                if isinstance(node, Directory):
                    if isinstance(old, Link):
                        why = "is a link, and nothing is unpacked through one"
                        raise SymlinkEscape(why, path=final)
                    if not isinstance(old, Directory):
                        why = "a directory of the archive meets something else"
                        raise NotADirectory(why, path=final)
                    waiting.append((node, old, way.child(name)))
                elif not replace or isinstance(node, Link):
                    raise FileAlreadyExists("already exists", path=final)
                elif isinstance(old, Directory):
                    raise IsADirectory("a file of the archive meets a directory", path=final)
                elif isinstance(old, Link):
                    raise not_through_a_link(final)

    async def discard(self) -> None:
        self._file = None
        self._content = bytearray()
        self._top = Directory(0, 0, "", 0, removed=True)

    def _final(self, path: ScopedPath) -> ScopedPath:
        return path.beneath(self._place.path)


def _dress(directory: Directory, step: Staged) -> None:
    if step.file_mode is not None:
        directory.mode = step.file_mode & _PERMISSION_BITS
    if step.mtime_ns is not None:
        directory.mtime_ns = step.mtime_ns
