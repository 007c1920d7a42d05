"""What stands in a directory, and what is known of an object. Reads names, never content."""

from __future__ import annotations

import heapq
import os

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.model import EntryType, Stat
from bailiwick.paths import RESERVED_PREFIX
from bailiwick.store import Child, Children
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.handles import FORMAT_MASK, TYPE_BY_FORMAT, Held, new_tuple, version_of
from bailiwick.stores.disk.links import readlink
from bailiwick.stores.disk.settings import INLINE_BYTES_MAX
from bailiwick.stores.disk.workers import Stop


def children_blocking(held: Held, after: str | None, limit: int | None, _stop: Stop) -> Children:
    """Names sorted by their text; only those returned are examined."""
    fd = held.open_for_listing()
    try:
        if held.listing_bytes <= INLINE_BYTES_MAX:
            names = _sorted_names(os.listdir(fd), after)
        else:
            names = _smallest_names(fd, after, limit)
        more = limit is not None and len(names) > limit
        if more:
            del names[limit:]
        return Children(_examine(fd, names), more)
    finally:
        os.close(fd)


def _sorted_names(names: list[str], after: str | None) -> list[str]:
    names = [name for name in names if not name.startswith(RESERVED_PREFIX)]
    if after is not None:
        names = [name for name in names if _shown(name) > after]
    names.sort(key=None if "".join(names).isascii() else _shown)
    return names


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


def _examine(directory: int, names: list[str]) -> list[Child]:
    """What each name stands for. One that is gone is left out, one that resists is `other`."""
    lstat, type_of = os.lstat, TYPE_BY_FORMAT.get
    found = []
    for name in names:
        shown = name if name.isascii() else _escaped(name)
        try:
            status = lstat(name, dir_fd=directory)
        except FileNotFoundError:
            continue
        except OSError:
            found.append(Child(shown, "other", 0, 0, shown == name))
            continue
        kind = type_of(status.st_mode & FORMAT_MASK, "other")
        size = 0 if kind == "directory" else status.st_size
        found.append(new_tuple(Child, (shown, kind, size, status.st_mtime_ns, shown == name)))
    return found


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
    kind: EntryType = TYPE_BY_FORMAT.get(status.st_mode & FORMAT_MASK, "other")
    return Stat(
        path=held.path,
        name=held.path.name,
        type=kind,
        size=0 if kind == "directory" else status.st_size,
        mode=status.st_mode & 0o7777,
        mtime_ns=status.st_mtime_ns,
        version=version_of(status),
        links=status.st_nlink,
        target=_target_shown(held) if kind == "symlink" else None,
    )


def _target_shown(held: Held) -> str | None:
    """The text of a link, unless it leads outside."""
    try:
        return readlink(held)
    except (OSError, ParseError):
        return None
