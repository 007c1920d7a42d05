"""Writing a tree out to a directory of the host, for programs to look at.

Nobody else writes there. What is the same in a tree that was written out before is linked, not
written again: no program changes a file beneath its own changes. Its methods block.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from bailiwick import sparse_files
from bailiwick.errors import Unsupported, from_os_error
from bailiwick.model import EntryType

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMEABLE: Final = frozenset((errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ))
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeNode(NamedTuple):
    """What is to stand at one path."""

    type: EntryType
    version: str
    size: int
    mode: int
    mtime_ns: int
    target: str | None


class TreeWriter:
    """One tree being written. Directories come before what lies in them."""

    def __init__(self, top: int, like: int | None, same: Mapping[str, TreeNode]) -> None:
        """``top`` is an empty directory. ``like`` is a tree that was written before, with what it
        holds in ``same``."""
        self._top = top
        self._like = like
        self._same = same
        self._way: list[tuple[str, int]] = []
        self._like_way: list[tuple[str, int]] = []
        self._directories: list[tuple[str, TreeNode]] = []

    def has_written(self, path: str, node: TreeNode) -> bool:
        """Whether a file stands there already, as it did in the tree that was written before."""
        if self._like is None or self._same.get(path) != node:
            return False
        above, _, name = path.rpartition("/")
        try:
            there = _entered(self._like, above, self._like_way)
            here = _entered(self._top, above, self._way)
            os.link(name, name, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)
        except OSError:  # it has too many names by now, or the other tree has gone
            return False
        return True

    def make(self, path: str, node: TreeNode) -> None:
        """A directory or a link."""
        with _told():
            above, _, name = path.rpartition("/")
            here = _entered(self._top, above, self._way)
            if node.type == "symlink":
                os.symlink(node.target or "", name, dir_fd=here)
                os.utime(name, ns=(node.mtime_ns,) * 2, dir_fd=here, follow_symlinks=False)
            else:
                os.mkdir(name, 0o700, dir_fd=here)
                self._directories.append((path, node))

    def write(self, files: Iterable[tuple[str, TreeNode, bytes]]) -> None:
        """Whole files, many at once."""
        for path, node, data in files:
            file = self.open_file(path)
            try:
                write_all(file, data)
                self.end_file(file, node)
            finally:
                os.close(file)

    def open_file(self, path: str) -> int:
        """A new file, to be written to by its descriptor."""
        above, _, name = path.rpartition("/")
        with _told():
            here = _entered(self._top, above, self._way)
            return os.open(name, _NEW_FLAGS, 0o600, dir_fd=here)

    def end_file(self, file: int, node: TreeNode) -> None:
        """All of it was written; it is still to be closed."""
        with _told():
            os.fchmod(file, node.mode)
            os.utime(file, ns=(node.mtime_ns,) * 2)

    def finish(self) -> None:
        """Give directories the modes and times that they are to have."""
        with _told():
            for path, node in reversed(self._directories):
                above, _, name = path.rpartition("/")
                here = _entered(self._top, above, self._way)
                os.utime(name, ns=(node.mtime_ns,) * 2, dir_fd=here, follow_symlinks=False)
                os.chmod(name, node.mode, dir_fd=here)

    def close(self) -> None:
        for way in (self._way, self._like_way):
            while way:
                os.close(way.pop()[1])


def _entered(top: int, path: str, way: list[tuple[str, int]]) -> int:
    """A directory of the tree, by those on the way to it that are still open."""
    parts = path.split("/") if path else []
    same = 0
    while same < min(len(way), len(parts)) and way[same][0] == parts[same]:
        same += 1
    while len(way) > same:
        os.close(way.pop()[1])
    for part in parts[same:]:
        above = way[-1][1] if way else top
        way.append((part, os.open(part, _DIRECTORY_FLAGS, dir_fd=above)))
    return way[-1][1] if way else top


def write_all(file: int, data: bytes) -> None:
    with _told():
        sparse_files.write_all(file, data)


@contextmanager
def _told() -> Iterator[None]:
    """What the host cannot hold is said in words."""
    try:
        yield
    except OSError as error:
        if error.errno in _UNNAMEABLE:
            raise Unsupported(
                "this root holds a name that a program cannot be shown on this machine"
            ) from None
        raise from_os_error(error) from error
    except (OverflowError, ValueError):  # text that is no name here, a time beyond all clocks
        raise Unsupported(
            "this root holds what a program cannot be shown on this machine"
        ) from None
