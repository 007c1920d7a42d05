"""The names in a directory of the host, and what is kept of them from one command to the next.

A directory whose times have not moved holds the names that it held: only those that have changed
are listed again. By descriptors, one component at a time, and no link is followed: others may
change the tree while it is looked at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from bailiwick.commands import DirectorySeen, directory_seen
from bailiwick.errors import Unsupported
from bailiwick.model import EntryType
from bailiwick.paths import DEPTH_MAX, REMOVED, RESERVED_PREFIX
from bailiwick.store import HostDirectory
from bailiwick.working_copies.survey import (
    CHANGED_SINCE,
    LIST_FLAGS,
    MOUNTED,
    base_of,
    by_path,
    encoded,
    opened,
    starting_with,
    type_of,
)
from bailiwick.working_copy import Base

_PATH_BYTES_MAX: Final = 3_500
"""Of paths that a mask can still be laid over; the kernel takes 4,095 bytes."""

_KEPT_MAX: Final = 200_000
"""Names that are kept in memory for the next command: a tenth of a kilobyte each,
and as much again where rules are about paths."""

_REALTIME_COARSE: Final = 5
"""linux/time.h; the standard library has no name for it."""

Kind = Base | EntryType
"""All that is known of a name, or only what it is: its times tell later whether it has changed."""

Identity = tuple[int, int]
"""A device, and the number of a directory there."""


def clock_ns() -> int:
    """As the kernel stamps files: by steps. What is changed after a look at this clock has no
    earlier time than it told."""
    return time.clock_gettime_ns(_REALTIME_COARSE)


class DirectoryNames:
    """One directory as it was seen: which it was, and what it held."""

    def __init__(
        self, identity: Identity, base: Base, kinds: Mapping[str, Kind], *,
        below: tuple[str, ...] = (), doors: tuple[str, ...] = (), staged: tuple[str, ...] = (),
        stamp: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """``kinds`` are of all but the directories in it, which are ``below``, and nothing of what
        is reserved for ourselves is in either. What is, is ``staged`` where it is one file that is
        written, and else one of the ``doors``. ``stamp`` is when it was changed last, where that
        tells the next time whether it was changed since."""
        self.identity: Final = identity
        self.base: Final = base
        self.kinds: Final = kinds
        self.below: Final = below
        self.doors: Final = doors
        self.staged: Final = staged
        self._stamp: Final = stamp
        self._seen: DirectorySeen | None = None

    def is_still(self, status: os.stat_result) -> bool:
        return self._stamp == (status.st_mtime_ns, status.st_ctime_ns) and self.identity == (
            status.st_dev, status.st_ino,
        )  # fmt: skip

    def seen(self, path: str) -> DirectorySeen:
        """It and what lies in it, by its path, which stays the same."""
        if self._seen is None:
            names = () if path.count("/") >= DEPTH_MAX else self.kinds
            self._seen = directory_seen(path, names)
        return self._seen

    @cached_property
    def encoded(self) -> msgspec.Raw:
        kinds = msgspec.Raw(encoded(self.kinds))
        return msgspec.Raw(msgspec.msgpack.encode((self.identity, self.base, kinds)))


class TreeNames:
    """All names in a tree at one time."""

    def __init__(
        self, listed: Mapping[str, DirectoryNames], shut: Mapping[str, Base] | None = None
    ) -> None:
        """``listed`` are directories by their path, the top itself by none. Those that are ``shut``
        cannot be looked into, or lie deeper than anything can be masked."""
        self.listed: Final = listed
        self.shut: Final = shut or {}

    def at(self, path: str) -> Kind | None:
        if not can_be_named(path):
            return None
        directory, _, name = path.rpartition("/")
        around = self.listed.get(directory)
        found = None if around is None else around.kinds.get(name)
        if found is None:
            itself = self.listed.get(path)
            found = self.shut.get(path) if itself is None else itself.base
        return found

    def beneath(self, path: str) -> Iterator[tuple[str, Kind]]:
        """All that lies in a directory, whatever its depth; all there is where it is the top.
        Directories come before what lies in them."""
        if path in self.listed:
            yield from self._in(path)
        prefix = f"{path}/" if path else ""
        for each in starting_with(prefix, self._order):
            if each and can_be_named(each):
                yield each, self.shut[each] if each in self.shut else self.listed[each].base
                yield from self._in(each)

    def _in(self, directory: str) -> Iterator[tuple[str, Kind]]:
        listed = self.listed.get(directory)
        if listed is None or directory.count("/") >= DEPTH_MAX:
            return
        prefix = f"{directory}/" if directory else ""
        for name, kind in listed.kinds.items():
            yield prefix + name, kind

    def seen(self) -> Iterator[DirectorySeen]:
        """All that can be named, directories before what lies in them."""
        for path in self._order:
            if can_be_named(path):
                listed = self.listed.get(path)
                yield directory_seen(path, ()) if listed is None else listed.seen(path)

    @cached_property
    def _order(self) -> list[str]:
        return sorted([*self.listed, *self.shut])

    @cached_property
    def doors(self) -> tuple[str, ...]:
        """Sockets, FIFOs and devices: whoever sees one can speak to what is behind it. Directories
        too that nobody has looked into: whoever knows a name in one might still open it. And what
        lies under a name of our own, where it is not hidden by the path that it has or shall have,
        and what will lie in `REMOVED`."""
        staged = ((path, each.staged) for path, each in self.listed.items())
        return (*self.lasting_doors, *_paths_of(staged))

    @cached_property
    def lasting_doors(self) -> tuple[str, ...]:
        """Those among them that are there for longer than it takes to write one file."""
        doors = ((path, each.doors) for path, each in self.listed.items())
        return (REMOVED, *self.shut, *_paths_of(doors))

    @cached_property
    def encoded(self) -> bytes:
        listed = {path: each.encoded for path, each in self.listed.items()}
        pieces = (msgspec.Raw(encoded(listed)), msgspec.Raw(encoded(self.shut)))
        return msgspec.msgpack.encode(pieces)


def _paths_of(listed: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    return (f"{path}/{name}" if path else name for path, names in listed for name in names)


_Encoded = tuple[
    dict[bytes, tuple[Identity, Base, dict[bytes, Kind]]],
    dict[bytes, Base],
]


def decoded(encoded: bytes) -> TreeNames:
    """Names that were kept. Raises `msgspec.MsgspecError`."""
    listed, shut = msgspec.msgpack.decode(encoded, type=_Encoded)
    directories = {
        os.fsdecode(path): DirectoryNames(identity, base, by_path(kinds))
        for path, (identity, base, kinds) in listed.items()
    }
    return TreeNames(directories, by_path(shut))


def can_be_named(path: str) -> bool:
    if RESERVED_PREFIX in path and any(x.startswith(RESERVED_PREFIX) for x in path.split("/")):
        return False
    return path.count("/") <= DEPTH_MAX


class NamesLister:
    """Lists one directory of the host again and again."""

    def __init__(self, directory: HostDirectory, entries_max: int) -> None:
        self._directory = directory
        self._entries_max = entries_max
        self._last = TreeNames({})

    def names(self) -> TreeNames:
        """All that is there now. Raises `Unsupported` where that is too much."""
        top = self._directory.open_directory()
        try:
            walk = _Walk(self._directory, self._last.listed, self._entries_max)
            walk.run(top)
        finally:
            os.close(top)
        last = self._last
        if walk.is_new or walk.listed.keys() != last.listed.keys() or walk.shut != last.shut:
            last = TreeNames(walk.listed, walk.shut)
        self._last = last if walk.count <= _KEPT_MAX else TreeNames({})
        return last


class _Walk:
    """One look through a tree."""

    def __init__(
        self, directory: HostDirectory, known: Mapping[str, DirectoryNames], entries_max: int
    ) -> None:
        self._directory = directory
        self._known = known
        self._entries_max = entries_max
        self._began_ns = time.time_ns()
        self._tell_times: dict[int, bool] = {}
        self.listed: dict[str, DirectoryNames] = {}
        self.shut: dict[str, Base] = {}
        self.is_new = False
        self.count = 0
        self._mounts: frozenset[str] = frozenset()

    def run(self, top: int) -> None:
        self._mounts = self._directory.mounts()
        above: list[tuple[str, int, Iterator[str]]] = []
        directory = os.open(".", LIST_FLAGS, dir_fd=top)
        prefix, below = "", iter(self._entered("", directory))
        try:
            while True:
                inner, name = None, ""
                for name in below:
                    if (inner := self._looked_at(prefix + name, name, directory)) is not None:
                        break
                if inner is not None:
                    above.append((prefix, directory, below))
                    directory, prefix = inner, f"{prefix}{name}/"
                    below = iter(self.listed[prefix[:-1]].below)
                elif above:
                    os.close(directory)
                    prefix, directory, below = above.pop()
                else:
                    return
        finally:
            for _, each, _ in above:
                os.close(each)
            os.close(directory)

    def _looked_at(self, path: str, name: str, parent: int) -> int | None:
        """A descriptor of that directory, where others lie in it."""
        try:
            status = os.lstat(name, dir_fd=parent)
        except FileNotFoundError:
            return None
        known = self._known.get(path)
        if path in self._mounts and type_of(status) == "directory":
            self._add(path, self._mounted(status, known))
            return None
        if known is not None and known.is_still(status) and not known.below:
            self._add(path, known)
            return None
        if len(os.fsencode(path)) >= _PATH_BYTES_MAX:
            self.shut[path] = base_of(status, self._directory.version_of)
            return None
        directory = opened(parent, name)
        if directory is None:
            if type_of(status) == "directory":
                self.shut[path] = base_of(status, self._directory.version_of)
            return None
        try:
            below = self._entered(path, directory)
        except BaseException:
            os.close(directory)
            raise
        if not below:
            os.close(directory)
            return None
        return directory

    def _mounted(self, status: os.stat_result, known: DirectoryNames | None) -> DirectoryNames:
        """A program sees the directory that something is mounted on, and nothing of that."""
        base = base_of(status, self._directory.version_of)._replace(version=MOUNTED)
        if known is None or known.base != base:
            known = DirectoryNames((status.st_dev, status.st_ino), base, {})
            self.is_new = True
        return known

    def _entered(self, path: str, directory: int) -> tuple[str, ...]:
        """Look at an open directory, and tell which others lie in it."""
        now_ns = clock_ns()
        status = os.fstat(directory)
        known = self._known.get(path)
        if known is None or not known.is_still(status):
            known = self._list(directory, status, now_ns)
            self.is_new = True
        self._add(path, known)
        return known.below

    def _add(self, path: str, listed: DirectoryNames) -> None:
        self.listed[path] = listed
        self.count += len(listed.kinds) + len(listed.below)
        if self.count > self._entries_max:
            raise Unsupported(
                "there is more in this root than a command can be given",
                details={"limit": self._entries_max},
            )

    def _list(self, directory: int, status: os.stat_result, now_ns: int) -> DirectoryNames:
        tells = self._tell_times.get(status.st_dev)
        if tells is None:
            tells = self._tell_times[status.st_dev] = self._directory.tells_times(directory)
        kinds: dict[str, Kind] = {}
        below: list[str] = []
        doors: list[str] = []
        staged: list[str] = []
        with os.scandir(directory) as names:
            for each in names:
                if each.name.startswith(RESERVED_PREFIX):
                    is_one = each.is_file(follow_symlinks=False) or each.is_symlink()
                    (staged if is_one else doors).append(each.name)
                elif each.is_file(follow_symlinks=False):
                    kinds[each.name] = "file"
                elif each.is_dir(follow_symlinks=False):
                    below.append(each.name)
                elif each.is_symlink():
                    kinds[each.name] = "symlink"
                else:
                    kinds[each.name] = "other"
                    doors.append(each.name)
        if not tells:
            kinds = dict(self._looked_up(directory, kinds))
        lasts = tells and status.st_ctime_ns < now_ns
        return DirectoryNames(
            (status.st_dev, status.st_ino), base_of(status, self._directory.version_of), kinds,
            below=tuple(below), doors=tuple(doors), staged=tuple(staged),
            stamp=(status.st_mtime_ns, status.st_ctime_ns) if lasts else None,
        )  # fmt: skip

    def _looked_up(self, directory: int, names: Mapping[str, object]) -> Iterator[tuple[str, Base]]:
        """All about files whose times say nothing later on. What was changed since this look
        began has no version: the program may have seen it as it was before."""
        for name in names:
            try:
                status = os.lstat(name, dir_fd=directory)
            except FileNotFoundError:
                continue
            base = base_of(status, self._directory.version_of)
            changed = status.st_ctime_ns >= self._began_ns
            yield name, base._replace(version=CHANGED_SINCE) if changed else base
