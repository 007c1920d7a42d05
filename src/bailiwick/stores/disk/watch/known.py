"""What a watcher knows of a tree: every directory it watches, and what was last told of each name.

Pure bookkeeping: touches no file. A notice is news only if what stands under its name is not what
is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath, from_parts
from bailiwick.store import Sighting

FILES_KNOWN_MAX: Final = 500_000
"""Files of which the version is kept, some 100 MB. In a larger tree what is known of the rest is
only what was told of it, so that the first change of a file may be called ``created`` or
``updated`` by what the kernel said, which cannot tell a file that was replaced from a new one."""

ALL_TIMES: Final = 2**63 - 1

NO_DIRECTORY: Final = "-"
"""The version of a directory in whose place something else was told to stand, but not that what lay
in it is gone. There is none like it, so that this will be told."""

_TYPES: Final[dict[str, EntryType]] = {"f": "file", "s": "symlink", "o": "other"}

Leaf = str
"""A file or link as it is known: the first letter of its type, then its version."""


class WatchedDirectory:
    """A directory that is known.

    ``entries`` are the names in it. ``watch`` is the kernel's number, -1 for not watched (yet).
    ``version`` is empty where it was never looked at. ``adopt_ns``: names found in it that were
    last changed until then are no news, because the directory was told as a whole at that time;
    ``implied``: nobody has told of the directory itself, only of something in it. ``complete``
    says that a name which is not in ``entries`` did not exist; ``entered``, that it is watched and
    was looked through since; ``blind``, that it may not be entered.
    """

    __slots__ = (
        "adopt_ns", "blind", "complete", "entered", "entries", "implied", "name", "parent",
        "queued", "version", "watch",
    )  # fmt: skip

    def __init__(
        self, parent: WatchedDirectory | None, name: str, version: str, adopt_ns: int = 0
    ) -> None:
        self.parent = parent
        self.name = name
        self.version = version
        self.adopt_ns = adopt_ns
        self.entries: dict[str, Leaf | WatchedDirectory] = {}
        self.watch = -1
        self.entered = False
        self.implied = False
        self.blind = False
        self.queued = False
        self.complete = True

    def lies_in(self, other: WatchedDirectory) -> bool:
        """Whether this is ``other``, or a directory beneath it."""
        place: WatchedDirectory | None = self
        while place is not None and place is not other:
            place = place.parent
        return place is other

    def places(self) -> Iterator[WatchedDirectory]:
        """This directory and all that are known beneath it."""
        waiting = [self]
        while waiting:
            place = waiting.pop()
            yield place
            waiting.extend(
                entry for entry in place.entries.values() if isinstance(entry, WatchedDirectory)
            )

    def names_beneath(self, count_max: int) -> tuple[tuple[str, ...], bool]:
        """What is known to lie beneath, relative to it and sorted, a directory with a slash at its
        end; and whether that is not all."""
        names: list[str] = []
        waiting: list[tuple[str, WatchedDirectory]] = [("", self)]
        complete = True
        while waiting:
            prefix, place = waiting.pop()
            complete = complete and place.complete
            for name, entry in place.entries.items():
                if isinstance(entry, WatchedDirectory):
                    names.append(f"{prefix}{name}/")
                    waiting.append((f"{prefix}{name}/", entry))
                else:
                    names.append(prefix + name)
            if len(names) > count_max:
                return tuple(sorted(names)[:count_max]), True
        return tuple(sorted(names)), not complete


Entry = Leaf | WatchedDirectory


def leaf_of(kind: EntryType, version: str) -> Leaf:
    return kind[0] + version


def type_of(entry: Entry) -> EntryType:
    return "directory" if isinstance(entry, WatchedDirectory) else _TYPES[entry[0]]


def version_known(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    return entry.version if isinstance(entry, WatchedDirectory) else entry[1:]


def is_same(entry: Entry, seen: Sighting) -> bool:
    """Whether what is seen is what was told."""
    if isinstance(entry, WatchedDirectory):
        return seen.type == "directory" and entry.version in ("", seen.version)
    return entry == leaf_of(seen.type, seen.version)


def is_same_object(entry: Entry, seen: Sighting) -> bool:
    """Whether it is the same object, perhaps changed: a version begins with the inode's number."""
    if isinstance(entry, WatchedDirectory) != (seen.type == "directory"):
        return False
    version = version_known(entry)
    return version == "" or (version or "").partition("-")[0] == seen.version.partition("-")[0]


class Known:
    """The tree of places, the watches that belong to them, and how much is kept."""

    def __init__(self, unwatch: Callable[[int], None]) -> None:
        self.root = WatchedDirectory(None, "", "", ALL_TIMES)
        self.by_watch: dict[int, WatchedDirectory] = {}
        self._unwatch = unwatch
        self._files = 0

    def path_of(self, place: WatchedDirectory) -> ScopedPath | None:
        """Where a directory stands by now; None where it is known no more."""
        names = []
        while place.parent is not None:
            names.append(place.name)
            place = place.parent
        if place is not self.root:
            return None
        return from_parts(names[::-1])

    def find(self, path: ScopedPath) -> tuple[WatchedDirectory, str]:
        """The directory a path lies in, made known if it is not, and the last name."""
        place = self.root
        parts = path.parts
        for part in parts[:-1]:
            entry = place.entries.get(part)
            if not isinstance(entry, WatchedDirectory):
                leaf = self.drop(place, part)
                entry = WatchedDirectory(place, part, "" if leaf is None else NO_DIRECTORY)
                entry.implied = leaf is None
                place.entries[part] = entry
            place = entry
        return place, parts[-1]

    def watched(self, place: WatchedDirectory, watch: int) -> WatchedDirectory | None:
        """Note that a directory is watched; returns another one that had the same watch, which
        is then the same directory under the name it used to have."""
        other = self.by_watch.get(watch)
        if other is not None and other is not place:
            other.watch, other.entered = -1, False
        else:
            other = None
        if place.watch not in (-1, watch):
            self.by_watch.pop(place.watch, None)
            self._unwatch(place.watch)
        place.watch = watch
        self.by_watch[watch] = place
        return other

    def keep(self, place: WatchedDirectory, name: str, leaf: Leaf) -> None:
        """Keep what was told of a file."""
        if name not in place.entries:
            self._files += 1
        place.entries[name] = leaf

    def keep_if_room(self, place: WatchedDirectory, name: str, leaf: Leaf) -> None:
        """Keep what was found of a file of which nothing was told."""
        if self._files < FILES_KNOWN_MAX:
            self.keep(place, name, leaf)
        else:
            place.complete = False

    def drop(self, place: WatchedDirectory, name: str) -> Entry | None:
        """Forget a name and all beneath it, and watch nothing of it any more."""
        entry = place.entries.pop(name, None)
        if isinstance(entry, WatchedDirectory):
            for each in entry.places():
                if each.watch >= 0:
                    self.by_watch.pop(each.watch, None)
                    self._unwatch(each.watch)
                    each.watch = -1
                self._files -= sum(isinstance(kept, str) for kept in each.entries.values())
            entry.parent = None
        elif entry is not None:
            self._files -= 1
        return entry

    def seek(self, path: ScopedPath) -> tuple[WatchedDirectory, str] | None:
        """The directory of a path and its name in it; None where the directory is not known."""
        place = self.root
        parts = path.parts
        for part in parts[:-1]:
            entry = place.entries.get(part)
            if not isinstance(entry, WatchedDirectory):
                return None
            place = entry
        return place, parts[-1]

    def deepest(self, path: ScopedPath) -> tuple[WatchedDirectory, ScopedPath]:
        """The last directory on the way to a path that is known, and the place next on the way."""
        place, parts = self.root, path.parts
        for count, part in enumerate(parts[:-1], start=1):
            entry = place.entries.get(part)
            if not isinstance(entry, WatchedDirectory):
                return place, from_parts(parts[:count])
            place = entry
        return place, path

    def take(self, path: ScopedPath) -> Entry | None:
        """Take an entry out, with all that is known beneath it, to put it elsewhere."""
        found = self.seek(path)
        if found is None:
            return None
        place, name = found
        entry = place.entries.pop(name, None)
        if isinstance(entry, str):
            self._files -= 1
        return entry

    def hang(self, entry: WatchedDirectory, place: WatchedDirectory, name: str) -> None:
        """Put a directory that was taken out under another name."""
        entry.parent, entry.name = place, name
        place.entries[name] = entry
