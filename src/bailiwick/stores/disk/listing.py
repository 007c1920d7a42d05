"""What stands in a directory, and what is known of an object. Reads names, never content."""

from __future__ import annotations

import heapq
import os
from bisect import bisect_left, bisect_right
from stat import S_IFREG
from typing import Final

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.model import EntryType, Stat
from bailiwick.paths import RESERVED_PREFIX
from bailiwick.store import Child, Children
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.links import readlink
from bailiwick.stores.disk.lookup.handles import (
    FORMAT_MASK,
    TYPE_BY_FORMAT,
    Held,
    new_tuple,
    version_of,
)
from bailiwick.stores.disk.settings import INLINE_BYTES_MAX
from bailiwick.stores.disk.workers import Stop

_AFTER_RESERVED: Final = RESERVED_PREFIX[:-1] + chr(ord(RESERVED_PREFIX[-1]) + 1)
"""The first text after all that begin with the prefix."""

_EXAMINED_AT_ONCE: Final = 512
"""Entries whose states are held at a time: each is near a kilobyte, and a cache holds these."""


def children_blocking(held: Held, after: str | None, limit: int | None, _stop: Stop) -> Children:
    """Names sorted by their text; only those returned are examined."""
    fd = held.open_for_listing()
    try:
        if held.listing_bytes <= INLINE_BYTES_MAX:
            names = os.listdir(fd)
            plain = "".join(names).isascii()
            names = _sorted_names(names, after) if plain else _sorted_texts(names, after)
        else:
            names = _smallest_names(fd, after, limit)
            plain = "".join(names).isascii()
        more = limit is not None and len(names) > limit
        if more:
            del names[limit:]
        return Children(_examine(fd, names, plain), more)
    finally:
        os.close(fd)


def _sorted_names(names: list[str], after: str | None) -> list[str]:
    """Names that are plain ASCII. Sorted as they are shown, so that what is to be left out stands
    together and is found by halving, not by looking at each."""
    names.sort()
    ours = bisect_left(names, RESERVED_PREFIX)
    del names[ours : bisect_left(names, _AFTER_RESERVED, ours)]
    if after is not None:
        del names[: bisect_right(names, after)]
    return names


def _sorted_texts(names: list[str], after: str | None) -> list[str]:
    """Names of all kinds, sorted as they are shown."""
    shown = [
        name
        for name in names
        if not name.startswith(RESERVED_PREFIX) and (after is None or _shown(name) > after)
    ]
    shown.sort(key=_shown)
    return shown


def _smallest_names(fd: int, after: str | None, limit: int | None) -> list[str]:
    """The first names of a directory too large to be held in memory whole."""
    with os.scandir(fd) as entries:
        names = (
            entry.name
            for entry in entries
            if not entry.name.startswith(RESERVED_PREFIX)
            and (after is None or _shown(entry.name) > after)
        )
        if limit is None:
            return sorted(names, key=_shown)
        return heapq.nsmallest(limit + 1, names, key=_shown)


def _shown(name: str) -> str:
    """A name as it is shown, and sorted by: one that is no text is escaped."""
    return name if name.isascii() else _escaped(name)


def _escaped(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    return name


def _examine(directory: int, names: list[str], plain: bool) -> list[Child]:
    """What each name stands for. One that is gone is left out, one that resists is `other`."""
    found: list[Child] = []
    for start in range(0, len(names), _EXAMINED_AT_ONCE):
        some = names[start : start + _EXAMINED_AT_ONCE]
        seen = _examine_plain(directory, some) if plain else None
        found += _examine_each(directory, some) if seen is None else seen
    return found


def _examine_plain(directory: int, names: list[str]) -> list[Child] | None:
    """Names that are plain ASCII and all still there; None where something is the matter with one.

    Two passes that need not look out for that take a fifth less time.
    """
    lstat = os.lstat
    try:
        seen = [lstat(name, dir_fd=directory) for name in names]
    except OSError:
        return None
    return [
        new_tuple(Child, (name, "file", status.st_size, status.st_mtime_ns, True, False))
        if status.st_mode & FORMAT_MASK == S_IFREG
        else _child(name, name, status)
        for name, status in zip(names, seen, strict=True)
    ]


def _examine_each(directory: int, names: list[str]) -> list[Child]:
    found: list[Child] = []
    for name in names:
        shown = _shown(name)
        try:
            status = os.lstat(name, dir_fd=directory)
        except FileNotFoundError:
            continue
        except OSError:
            found.append(Child(shown, "other", 0, 0, shown == name))
            continue
        found.append(_child(name, shown, status))
    return found


def _child(name: str, shown: str, status: os.stat_result) -> Child:
    kind = _kind_of(status.st_mode)
    size = 0 if kind == "directory" else status.st_size
    return Child(shown, kind, size, status.st_mtime_ns, shown == name)


def _kind_of(mode: int) -> EntryType:
    return TYPE_BY_FORMAT.get(mode & FORMAT_MASK, "other")


def names_beside(held: Held) -> list[str]:
    """All names in the directory an entry stands in."""
    if held.path == "." or held.missing:
        return []
    fd = os.open(".", syscalls.LIST_FLAGS, dir_fd=held.parent)
    try:
        return [name for name in os.listdir(fd) if not name.startswith(RESERVED_PREFIX)]
    finally:
        os.close(fd)


def stat_of(held: Held) -> Stat:
    """What is known of the object or entry now."""
    status = held.refresh()
    if status is None:
        raise PathNotFound("no such file or directory", path=held.path)
    kind = _kind_of(status.st_mode)
    return Stat(
        path=held.path,
        name=held.path.name,
        type=kind,
        size=0 if kind == "directory" else status.st_size,
        mode=status.st_mode & 0o7777,
        mtime_ns=status.st_mtime_ns,
        version=version_of(status),
        # Of a directory it counts those in it, also such as are hidden or staged.
        links=1 if kind == "directory" else status.st_nlink,
        target=_target_shown(held) if kind == "symlink" else None,
    )


def _target_shown(held: Held) -> str | None:
    """The text of a link, unless it leads outside."""
    try:
        return readlink(held)
    except (OSError, ParseError):
        return None
