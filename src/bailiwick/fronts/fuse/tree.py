"""The tree as programs see it through a mount: names, attributes, and what makes and moves them.

Every method is one that the kernel asks for, by verbs of the scope and nothing else. What is
refused comes out as the error of the verb, whose number the program gets.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Final, NamedTuple

from bailiwick.errors import DirectoryNotEmpty, FileAlreadyExists, ParseError, PathNotFound
from bailiwick.fronts.fuse.content import OpenContents
from bailiwick.fronts.fuse.nodes import FuseNode, FuseNodes, ino_of
from bailiwick.fronts.fuse.protocol import NOW, FuseAttributes, SetAttributes
from bailiwick.fronts.fuse.staged_files import StagedBytes, Times
from bailiwick.model import EntryType, Stat
from bailiwick.portal import SyncScope

_TYPES: Final[dict[EntryType, int]] = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    # Whatever it is, it is not to be opened: as which the kernel knows a socket.
    "other": stat.S_IFSOCK,
}
_RENAME_NOREPLACE: Final = 1


class ListedDirectory(NamedTuple):
    """One row of a directory."""

    ino: int
    name: str
    mode: int


class MountedTree:
    """The verbs of a mount."""

    def __init__(self, scope: SyncScope, *, as_of: str | None, read_only: bool) -> None:
        self._scope = scope
        self._as_of = as_of
        self._read_only = read_only
        self.nodes = FuseNodes()
        self.contents = OpenContents(scope, self.nodes, as_of)

    # --- looking ----------------------------------------------------------------------------------

    def look_up(self, parent: FuseNode, name: str) -> tuple[FuseNode, FuseAttributes]:
        child = self.nodes.child(parent, name)
        if child is not None:
            with child.lock:
                if child.staged is not None and child.staged.dirty and not child.is_gone:
                    self.nodes.known(parent, name, child.kind)
                    return child, _of_staged(child, child.staged)
        try:
            path = self.nodes.path_in(parent, name)
            found = self._scope.lstat(path, as_of=self._as_of)
        except (PathNotFound, ParseError) as error:
            if child is not None:
                self.nodes.detach(child)
            if isinstance(error, ParseError) and error.errno != errno.ENAMETOOLONG:
                # A name that nothing can have: nothing has it.
                raise OSError(errno.ENOENT, "no such name") from None
            raise
        node = self.nodes.known(parent, name, found.type)
        return node, self._seen(node, found)

    def attributes(self, node: FuseNode) -> tuple[FuseAttributes, bool]:
        """What is shown of it, and whether that may change any moment."""
        with node.lock:
            staged = self.contents.current(node)
            if staged is not None and (staged.dirty or node.is_gone):
                return _of_staged(node, staged), True
        return self._seen(node, self.contents.stat(node)), False

    def _seen(self, node: FuseNode, found: Stat) -> FuseAttributes:
        if node.kind != found.type:
            raise OSError(errno.ESTALE, "something else stands there now")
        if node.staged is None:
            node.seen(found.version)
        mode = _TYPES[found.type] | (found.mode & 0o777)
        return FuseAttributes(node.ino, found.size, mode, max(found.links, 1), found.mtime_ns)

    def read_link(self, node: FuseNode) -> str:
        return self.contents.at(node, lambda path: self._scope.readlink(path, as_of=self._as_of))

    def entries(self, node: FuseNode) -> list[ListedDirectory]:
        """All that is in a directory, and what was made there and is still being written."""
        above = node.parent or node
        listed = [
            ListedDirectory(node.ino, ".", stat.S_IFDIR),
            ListedDirectory(above.ino, "..", stat.S_IFDIR),
        ]
        found: dict[str, int] = {child.name: stat.S_IFREG for child in self.nodes.new_in(node)}
        cursor = None
        while True:
            after = cursor
            page = self.contents.at(
                node,
                lambda path, after=after: self._scope.list(  # type: ignore[misc]
                    path, cursor=after, include_ignored=True, as_of=self._as_of
                ),
            )
            for entry in page.entries:
                if entry.addressable:
                    found[entry.name] = _TYPES[entry.type]
            cursor = page.next_cursor
            if cursor is None:
                break
        return listed + [
            ListedDirectory(ino_of(node, name), name, mode) for name, mode in found.items()
        ]

    # --- making -----------------------------------------------------------------------------------

    def create(
        self, parent: FuseNode, name: str, mode: int, flags: int
    ) -> tuple[FuseNode, FuseAttributes]:
        """A file that is being written and stands nowhere yet; open."""
        path = self._new_path(parent, name)
        self.contents.refuse_writing(path, over=False)
        child = self.nodes.child(parent, name)
        if child is not None and child.staged is not None and not child.is_gone:
            raise FileAlreadyExists("already exists", path=path)
        if child is not None:
            self.nodes.detach(child)
        node = self.nodes.known(parent, name, "file")
        with node.lock:
            node.staged = StagedBytes(
                mode=mode & 0o777, is_new=True, exclusive=bool(flags & os.O_EXCL)
            )
            node.writers += 1
            return node, _of_staged(node, node.staged)

    def make_file(self, parent: FuseNode, name: str, mode: int) -> tuple[FuseNode, FuseAttributes]:
        if not stat.S_ISREG(mode):
            raise OSError(errno.EPERM, "only files, directories and links are made here")
        path = self._new_path(parent, name)
        self._scope.write_bytes(path, b"", mode="create", file_mode=mode & 0o777)
        return self.look_up(parent, name)

    def make_directory(
        self, parent: FuseNode, name: str, mode: int
    ) -> tuple[FuseNode, FuseAttributes]:
        self._scope.make_dir(self._new_path(parent, name), file_mode=mode & 0o777)
        return self.look_up(parent, name)

    def make_link(
        self, parent: FuseNode, name: str, target: str
    ) -> tuple[FuseNode, FuseAttributes]:
        self._scope.symlink(self._new_path(parent, name), target)
        return self.look_up(parent, name)

    def _new_path(self, parent: FuseNode, name: str) -> str:
        self.refuse_read_only()
        child = self.nodes.child(parent, name)
        if child is not None and child.staged is not None and child.staged.is_new:
            raise OSError(errno.EEXIST, "already exists")
        return self.nodes.path_in(parent, name)

    def refuse_read_only(self) -> None:
        if self._read_only:
            raise OSError(errno.EROFS, "the mount is read-only")

    # --- opening ----------------------------------------------------------------------------------

    def open(self, node: FuseNode, flags: int) -> bool:
        """Open a file. Whether the pages that the kernel has of it are right."""
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        if writes:
            self.refuse_read_only()
            if not node.is_gone:
                self.contents.refuse_writing(self.nodes.path(node), over=True)
        with node.lock:
            self.contents.current(node)
            if writes and flags & os.O_TRUNC:
                self.contents.resize(node, 0)
            elif flags & os.O_ACCMODE != os.O_WRONLY:
                self.contents.begin_reading(node)
            if writes:
                node.writers += 1
            else:
                node.readers += 1
            if node.staged is not None:
                return True
            is_right = node.version is not None and node.cached == node.version
            node.cached = node.version
            return is_right

    # --- taking away and moving -------------------------------------------------------------------

    def remove(self, parent: FuseNode, name: str) -> None:
        """A file or link. Who has it open goes on with what it held."""
        self.refuse_read_only()
        path = self.nodes.path_in(parent, name)
        node = self.nodes.child(parent, name)
        if node is None:
            self._scope.remove(path)
            return
        with node.lock:
            if node.staged is None or not node.staged.is_new:
                unpin = self.contents.pin(node)
                try:
                    self._scope.remove(path)
                except BaseException:
                    unpin()
                    raise
            self.nodes.detach(node)

    def remove_directory(self, parent: FuseNode, name: str) -> None:
        self.refuse_read_only()
        node = self.nodes.child(parent, name)
        if node is not None and next(self.nodes.new_in(node), None) is not None:
            raise DirectoryNotEmpty("directory is not empty")
        self._scope.remove(self.nodes.path_in(parent, name))
        if node is not None:
            self.nodes.detach(node)

    def rename(self, parent: FuseNode, name: str, to: FuseNode, new: str, flags: int) -> None:
        self.refuse_read_only()
        if flags & ~_RENAME_NOREPLACE:
            raise OSError(errno.EINVAL, "names are not exchanged here")
        node = self.nodes.child(parent, name)
        if node is None:
            node, _ = self.look_up(parent, name)
            node.lookups -= 1
        self.contents.publish(node)  # so that what is moved is what was written
        other = self.nodes.child(to, new)
        if other is node:
            return
        if flags & _RENAME_NOREPLACE and other is not None and other.staged is not None:
            raise FileAlreadyExists("already exists")
        self._move(node, other, to, new, replace=not flags & _RENAME_NOREPLACE)
        self.nodes.move(node, to, new)

    def _move(
        self, node: FuseNode, other: FuseNode | None, to: FuseNode, new: str, *, replace: bool
    ) -> None:
        path, destination = self.nodes.path(node), self.nodes.path_in(to, new)
        if node.kind == "directory":
            if other is not None and replace:
                # A directory takes the place of an empty one only, which has no content to keep.
                self.remove_directory(to, new)
            self._scope.move(path, destination)
            return
        if other is None:
            self._scope.move(path, destination, replace=replace)
            return
        with other.lock:
            unpin = self.contents.pin(other)
            try:
                self._scope.move(path, destination, replace=replace)
            except BaseException:
                unpin()
                raise

    # --- attributes -------------------------------------------------------------------------------

    def set_attributes(self, node: FuseNode, wanted: SetAttributes) -> None:
        self.refuse_read_only()
        if wanted.uid not in (None, os.getuid()) or wanted.gid not in (None, os.getgid()):
            raise OSError(errno.EPERM, "all belongs to whoever mounted it")
        if wanted.mode is not None:
            self._set_mode(node, wanted.mode & 0o7777)
        if wanted.size is not None:
            self._set_size(node, wanted.size, by_handle=wanted.handle is not None)
        if wanted.mtime_ns is not None or wanted.atime_ns is not None:
            self._set_times(node, wanted.mtime_ns, wanted.atime_ns)

    def _set_mode(self, node: FuseNode, mode: int) -> None:
        if mode & ~0o777:
            raise OSError(errno.EPERM, "only permission bits are kept here")
        with node.lock:
            staged = node.staged
            if staged is not None:
                staged.mode = mode
                if staged.is_new or node.is_gone:
                    return
            self.contents.at(node, lambda path: self._scope.set_mode(path, mode))
            if staged is not None and not staged.dirty:
                staged.version = self.contents.stat(node).version

    def _set_size(self, node: FuseNode, size: int, *, by_handle: bool) -> None:
        with node.lock:
            if by_handle or node.staged is not None:
                self.contents.resize(node, size)
                if not by_handle:
                    self.contents.publish(node)
                return
            self.contents.at(node, lambda path: self._scope.truncate(path, size))

    def _set_times(self, node: FuseNode, mtime_ns: int | None, atime_ns: int | None) -> None:
        if mtime_ns is None or node.kind == "symlink":
            # Neither when something was last read nor the times of links are kept, and whoever
            # copies a tree sets both: refused, they would take the whole copy for failed.
            return
        now = time.time_ns()
        with node.lock:
            staged = node.staged
            times = Times(
                now if mtime_ns == NOW else mtime_ns, now if atime_ns == NOW else atime_ns
            )
            if staged is not None and (staged.dirty or node.is_gone):
                staged.times, staged.mtime_ns = times, times.mtime_ns
                return
            self.contents.at(
                node,
                lambda path: self._scope.set_times(path, times.mtime_ns, atime_ns=times.atime_ns),
            )
            if staged is not None:
                staged.version = self.contents.stat(node).version


def _of_staged(node: FuseNode, staged: StagedBytes) -> FuseAttributes:
    links = 0 if node.is_gone else 1
    return FuseAttributes(node.ino, staged.size, stat.S_IFREG | staged.mode, links, staged.mtime_ns)
