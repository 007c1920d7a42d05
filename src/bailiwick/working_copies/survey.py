"""What stands in a directory of the host, path by path: what a working copy is compared with.

By descriptors, one component at a time, and no link is followed: others may change the tree while
it is looked at.
"""

from __future__ import annotations

import os
import stat as stat_bits
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

from bailiwick.commands import NameSeen
from bailiwick.errors import Unsupported
from bailiwick.model import EntryType
from bailiwick.paths import DEPTH_MAX, RESERVED_PREFIX, ScopedPath
from bailiwick.working_copy import Base

VersionOf = Callable[[os.stat_result], str]

CHANGED_SINCE: Final = ""
"""Stands for the version of what was changed while the program may have seen it already: it is
nobody's, so that it is never taken for what stands there."""

_LIST_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_new: Final = tuple.__new__
"""Makes a named tuple in half the time its class takes."""

_FORMAT: Final = 0o170000
_MODE: Final = 0o7777

_TYPES: Final[dict[int, EntryType]] = {
    stat_bits.S_IFREG: "file", stat_bits.S_IFDIR: "directory", stat_bits.S_IFLNK: "symlink",
}  # fmt: skip


class Survey:
    """All that stood in a tree, by its path as the host has it (`os.fsdecode`)."""

    def __init__(self, entries: dict[str, Base]) -> None:
        self.entries = entries
        self._sorted: list[str] | None = None

    def get(self, path: str) -> Base | None:
        return self.entries.get(path)

    def beneath(self, path: str) -> Iterator[str]:
        """All that lay in a directory, whatever its depth."""
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        prefix = path + "/"
        index = bisect_left(self._sorted, prefix)
        while index < len(self._sorted) and self._sorted[index].startswith(prefix):
            yield self._sorted[index]
            index += 1

    def names_in(self, path: str) -> Iterator[str]:
        """The names that stood in a directory itself."""
        for each in self.beneath(path):
            name = each[len(path) + 1 :]
            if "/" not in name:
                yield name

    def seen(self) -> Iterator[NameSeen]:
        """All of it, directories before what lies in them."""
        for path, base in sorted(self.entries.items()):
            yield NameSeen(path, base.type)

    def put(self, path: str, base: Base | None) -> None:
        """What stands at one path by now."""
        if base is None:
            self.entries.pop(path, None)
        else:
            self.entries[path] = base
        self._sorted = None


def survey(top: int, version_of: VersionOf, *, since_ns: int, entries_max: int) -> Survey:
    """Look at everything beneath the open directory ``top``. What was changed after ``since_ns``
    has no version: the program may have seen it as it was before. What lies deeper than any path
    can name is left out."""
    found: dict[str, Base] = {}
    above: list[_SurveyLevel] = []
    level = _SurveyLevel("", os.open(".", _LIST_FLAGS, dir_fd=top))
    try:
        while True:
            _add_all(level, found, version_of, since_ns)
            if len(above) >= DEPTH_MAX:
                level.below.clear()
            if len(found) > entries_max:
                raise Unsupported(
                    "there is more in this root than a command can be given",
                    details={"limit": entries_max},
                )
            below, name = None, ""
            while below is None:
                if level.below:
                    name = level.below.pop()
                    below = _opened(level.directory, name)
                elif above:
                    os.close(level.directory)
                    level = above.pop()
                else:
                    return Survey(found)
            above.append(level)
            level = _SurveyLevel(f"{level.prefix}{name}/", below)
    finally:
        for each in (*above, level):
            os.close(each.directory)


class _SurveyLevel:
    """A directory on the way down, held open, and those in it that are still to be looked into."""

    def __init__(self, prefix: str, directory: int) -> None:
        self.prefix = prefix
        self.directory = directory
        self.below: list[str] = []


def look(top: int, path: ScopedPath, version_of: VersionOf) -> Base | None:
    """What stands at one path by now."""
    directory = os.open(".", _LIST_FLAGS, dir_fd=top)
    try:
        for part in path.parts[:-1]:
            below = _opened(directory, part)
            os.close(directory)
            if below is None:
                directory = -1
                return None
            directory = below
        try:
            status = os.lstat(path.name, dir_fd=directory)
        except OSError:
            return None
        return _base(status, version_of)
    finally:
        if directory >= 0:
            os.close(directory)


def names_at(top: int, path: ScopedPath) -> Iterator[tuple[str, os.stat_result]]:
    """What stands in one directory, links on the way not followed; nothing where it is gone."""
    directory: int | None = os.open(".", _LIST_FLAGS, dir_fd=top)
    try:
        for part in path.parts:
            assert directory is not None
            above, directory = directory, _opened(directory, part)
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


def _add_all(
    level: _SurveyLevel, found: dict[str, Base], version_of: VersionOf, since_ns: int
) -> None:
    """What stands in one directory. In one piece: every file of a tree comes by here before each
    command, and to call what `look` is made of for each takes a third longer."""
    prefix, below = level.prefix, level.below
    with os.scandir(level.directory) as names:
        for each in names:
            name = each.name
            if name.startswith(RESERVED_PREFIX):
                continue
            try:
                status = each.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            mode = status.st_mode
            kind = _TYPES.get(mode & _FORMAT, "other")
            if kind == "directory":
                below.append(name)
                version = version_of(status)
            else:
                changed = status.st_ctime_ns >= since_ns
                version = CHANGED_SINCE if changed else version_of(status)
            found[prefix + name] = _new(Base, (kind, version, status.st_size, mode & _MODE))


def _base(status: os.stat_result, version_of: VersionOf) -> Base:
    mode = stat_bits.S_IMODE(status.st_mode)
    return Base(type_of(status), version_of(status), status.st_size, mode)


def _opened(directory: int, name: str) -> int | None:
    try:
        return os.open(name, _LIST_FLAGS, dir_fd=directory)
    except OSError:
        return None  # gone, no directory any more, or not ours to look into
