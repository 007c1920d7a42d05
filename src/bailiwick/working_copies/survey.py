"""What stands in a tree, path by path: what a working copy is compared with.

By descriptors, one component at a time, and no link is followed: others may change the tree while
it is looked at.
"""

from __future__ import annotations

import itertools
import os
import stat as stat_bits
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from bailiwick.commands import DirectorySeen, directory_seen
from bailiwick.model import EntryType
from bailiwick.paths import RESERVED_PREFIX, ScopedPath
from bailiwick.working_copy import Base

Known = TypeVar("Known")
VersionOf = Callable[[os.stat_result], str]

CHANGED_SINCE: Final = ""
"""Stands for the version of what was changed while the program may have seen it already: it is
nobody's, so that it is never taken for what stands there."""

MOUNTED: Final = "mounted"
"""Stands for the version of a directory that another filesystem is mounted on. Programs see what
lies beneath that, and nothing in it."""

LIST_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_TYPES: Final[dict[int, EntryType]] = {
    stat_bits.S_IFREG: "file", stat_bits.S_IFDIR: "directory", stat_bits.S_IFLNK: "symlink",
}  # fmt: skip


class Survey:
    """All that stood in a tree, by its path as the host has it (`os.fsdecode`), and what is known
    of single paths since: that goes before it."""

    doors: tuple[str, ...] | None = None
    """What leads to programs outside, by its path; None where nobody has looked for that."""

    has_looked_up = False
    """Whether more is known than was encoded."""

    def __init__(
        self, found: Mapping[str, Base], since: Mapping[str, Base | None] | None = None
    ) -> None:
        self._found = found
        self._since: Final[dict[str, Base | None]] = {}
        self._added: list[str] | None = []
        for path, base in (since or {}).items():
            self.put(path, base)

    def get(self, path: str) -> Base | None:
        return self._since[path] if path in self._since else self._found_at(path)

    def _found_at(self, path: str) -> Base | None:
        return self._found.get(path)

    def beneath(self, path: str) -> Iterator[str]:
        """All that lay in a directory, whatever its depth."""
        if self._added is None:
            self._added = sorted(each for each in self._since if not self._was_found(each))
        for each in self._found_beneath(path):
            if self._since.get(each, CHANGED_SINCE) is not None:
                yield each
        for each in starting_with(f"{path}/", self._added):
            if self._since[each] is not None:
                yield each

    def _was_found(self, path: str) -> bool:
        return path in self._found

    def _found_beneath(self, path: str) -> Iterator[str]:
        return starting_with(f"{path}/", self._order)

    @cached_property
    def _order(self) -> Sequence[str]:
        return sorted(self._found)

    def seen(self) -> Iterator[DirectorySeen]:
        """All that was found, directories before what lies in them."""
        listed: dict[str, list[str]] = {"": []}
        for path in self._order:
            if self._found[path].type == "directory":
                listed[path] = []
            else:
                directory, _, name = path.rpartition("/")
                listed[directory].append(name)
        return itertools.starmap(directory_seen, listed.items())

    def shows_what(self, other: Survey) -> bool:
        """Whether it found the names, and nothing else, that another survey of the tree found."""
        return False

    def doors_beside(self, hidden: Collection[str]) -> Collection[str]:
        """What it found that no program may see, whatever the rules are, and that is not
        ``hidden``."""
        return ()

    def put(self, path: str, base: Base | None) -> None:
        """What stands at one path by now."""
        self._since[path] = base
        if not self._was_found(path):
            self._added = None

    def encoded(self) -> bytes:
        """What was found, for whoever takes the working copy up again."""
        return encoded(self._found)

    @property
    def is_known_since(self) -> bool:
        """Whether anything is known of single paths that was not found at first."""
        return bool(self._since)

    def encoded_since(self) -> bytes:
        self.has_looked_up = False
        return encoded(self._since)


def encoded(paths: Mapping[str, object]) -> bytes:
    """By the bytes that the host has for a name: not every one is text."""
    return msgspec.msgpack.encode({os.fsencode(path): each for path, each in paths.items()})


def by_path(encoded: Mapping[bytes, Known]) -> dict[str, Known]:
    return {os.fsdecode(path): each for path, each in encoded.items()}


def starting_with(prefix: str, order: Sequence[str]) -> Iterator[str]:
    index = bisect_left(order, prefix)
    while index < len(order) and order[index].startswith(prefix):
        yield order[index]
        index += 1


def look(top: int, path: ScopedPath, version_of: VersionOf) -> Base | None:
    """What stands at one path by now."""
    status = status_at(top, path)
    return None if status is None else base_of(status, version_of)


def status_at(
    top: int, path: str, is_same: Callable[[str, os.stat_result], bool] | None = None
) -> os.stat_result | None:
    """What the kernel tells of one path, but nothing of what lies in another directory than it did:
    ``is_same`` says of each on the way whether it is the one."""
    *above, name = path.split("/")
    directory, way = os.open(".", LIST_FLAGS, dir_fd=top), ""
    try:
        for part in above:
            below = opened(directory, part)
            if below is None:
                return None
            os.close(directory)
            directory = below
            way = f"{way}/{part}" if way else part
            if is_same is not None and not is_same(way, os.fstat(directory)):
                return None
        return os.lstat(name, dir_fd=directory)
    except OSError:
        return None
    finally:
        os.close(directory)


def names_at(top: int, path: ScopedPath) -> Iterator[tuple[str, os.stat_result]]:
    """What stands in one directory, links on the way not followed; nothing where it is gone."""
    directory: int | None = os.open(".", LIST_FLAGS, dir_fd=top)
    try:
        for part in path.parts:
            assert directory is not None
            above, directory = directory, opened(directory, part)
            os.close(above)
            if directory is None:
                return
        assert directory is not None
        yield from _statuses(directory)
    finally:
        if directory is not None:
            os.close(directory)


def type_of(status: os.stat_result) -> EntryType:
    return _TYPES.get(stat_bits.S_IFMT(status.st_mode), "other")


def _statuses(directory: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as names:
        for each in names:
            if each.name.startswith(RESERVED_PREFIX):
                continue
            try:
                yield each.name, each.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue


def base_of(status: os.stat_result, version_of: VersionOf) -> Base:
    mode = stat_bits.S_IMODE(status.st_mode)
    return Base(type_of(status), version_of(status), status.st_size, mode)


def opened(directory: int, name: str) -> int | None:
    try:
        return os.open(name, LIST_FLAGS, dir_fd=directory)
    except OSError:
        return None  # gone, no directory any more, or not ours to look into
