"""What a lookup found, held open.

One class for objects and entries, since a verb may be given either: an object is held by its own
descriptor, an entry by its parent's and one name. Nothing here looks anything up by a path.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from typing import Final

from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    FileAlreadyExists,
    HardlinkRefused,
    InternalError,
    IsADirectory,
    NotADirectory,
    NotARegularFile,
    PathNotFound,
    PermissionDenied,
    SymlinkEscape,
)
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import syscalls

TYPE_BY_FORMAT: Final[dict[int, EntryType]] = {
    stat_bits.S_IFREG: "file",
    stat_bits.S_IFDIR: "directory",
    stat_bits.S_IFLNK: "symlink",
}

FORMAT_MASK: Final = 0o170000

new_tuple: Final = tuple.__new__
"""Makes a named tuple in half the time its class takes, where that is done for every entry."""

VERSION: Final = "%x-%x-%x-%x"
"""A version's text; formatting so is twice as fast as an f-string, on the path of every read."""

_SPECIAL: Final[dict[int, str]] = {
    stat_bits.S_IFIFO: "a FIFO",
    stat_bits.S_IFSOCK: "a socket",
    stat_bits.S_IFCHR: "a character device",
    stat_bits.S_IFBLK: "a block device",
}


class Held:
    """An object or entry held open.

    ``fd`` holds the object itself (-1: held by name only), ``parent`` the directory in which
    ``name`` stands (-1: held by itself only), ``missing`` the directories between the two that do
    not exist yet. ``parent_path`` is the canonical path of ``parent``. ``made`` is there once
    directories were made on the way: see `bailiwick.store.made_for`.
    """

    made: tuple[ScopedPath, ...]

    __slots__ = ("fd", "made", "missing", "name", "parent", "parent_path", "path", "status", "type")

    type: EntryType | None

    def __init__(self, path: ScopedPath, status: os.stat_result | None, fd: int) -> None:
        self.path = path
        self.status = status
        if status is None:
            self.type = None
        else:  # as in `type_of`, since every lookup comes by here
            self.type = TYPE_BY_FORMAT.get(status.st_mode & 0o170000, "other")
        self.fd = fd
        self.parent = -1

    @property
    def size(self) -> int:
        return 0 if self.status is None else self.status.st_size

    def stand_in(
        self, parent: int, name: str, parent_path: str, missing: tuple[str, ...] = ()
    ) -> None:
        """Say where the object stands; ``parent`` is owned from here on."""
        self.parent = parent
        self.name = name
        self.parent_path = parent_path
        self.missing = missing

    def close(self) -> None:
        fd = self.fd
        if fd >= 0:
            self.fd = -1
            os.close(fd)
        fd = self.parent
        if fd >= 0:
            self.parent = -1
            os.close(fd)

    @property
    def listing_bytes(self) -> int:
        """About how large the directory itself is, which grows with its names."""
        return 0 if self.status is None else self.status.st_size

    def refresh(self) -> os.stat_result | None:
        """What stands there now; None where nothing does."""
        if self.fd >= 0:
            return os.fstat(self.fd)
        if self.missing:
            return None
        return lstat_at(self.parent, self.name)

    def open_for_reading_unchecked(self) -> int:
        """Open the object to read its bytes. The caller has checked what it is.

        Through its own descriptor where it has one: nothing can have been put in its place.
        Otherwise by its one name, and what comes out must be what was found.
        """
        if self.fd >= 0:
            return os.open(f"/proc/self/fd/{self.fd}", syscalls.READ_FLAGS)
        try:
            fd = os.open(self.name, syscalls.READ_FLAGS | syscalls.O_NOFOLLOW, dir_fd=self.parent)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link took the name
                raise self._replaced() from None
            raise
        try:
            self._check_same(os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def open_for_listing(self) -> int:
        """Open the directory to list its names."""
        if self.type != "directory":
            raise wrong_type(self.type, self.path)
        if self.fd >= 0:
            return os.open(".", syscalls.LIST_FLAGS, dir_fd=self.fd)
        fd = os.open(self.name, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=self.parent)
        try:
            self._check_same(os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _check_same(self, status: os.stat_result) -> None:
        if self.status is None or not same_object(self.status, status):
            raise self._replaced()

    def _replaced(self) -> Replaced:
        return Replaced("something else took this name meanwhile", path=self.path)

    def look_again(self) -> None:
        """Take what stands under the name now for what is held: an entry is its name."""
        self.status = status = self.refresh()
        self.type = None if status is None else type_of(status)


class Replaced(Busy):
    """`Busy` for one reason: something else took the name by which alone an object is held."""


def held_entry(handle: object) -> Held:
    """The handle as what this store made it; it must be an entry."""
    held = held_object(handle)
    if held.parent < 0 and held.path != ".":
        raise InternalError("this verb needs an entry", path=held.path)
    return held


def held_object(handle: object) -> Held:
    """The handle as what this store made it, still open."""
    if not isinstance(handle, Held):
        raise InternalError("the handle is not one of this store")
    if handle.fd < 0 and handle.parent < 0:
        raise Closed("the handle is closed", path=handle.path)
    return handle


def same_object(a: os.stat_result, b: os.stat_result) -> bool:
    return a.st_ino == b.st_ino and a.st_dev == b.st_dev


def lstat_at(directory: int, name: str) -> os.stat_result | None:
    """What stands under one name in a held directory, a link not followed; None for nothing."""
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def version_of(status: os.stat_result) -> str:
    """An opaque text that changes whenever the file is replaced or rewritten.

    Times move in steps of the kernel's clock (1 to 10 ms before Linux 6.13, on the change after a
    stat since): two rewrites in place of the same size within one step look alike. That of a
    directory is without its size, which grows with the names in it, hidden ones too.
    """
    size = 0 if is_directory(status) else status.st_size
    return VERSION % (status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)


def type_of(status: os.stat_result) -> EntryType:
    return TYPE_BY_FORMAT.get(status.st_mode & FORMAT_MASK, "other")


def is_directory(status: os.stat_result) -> bool:
    return status.st_mode & FORMAT_MASK == 0o040000


def check_free(held: Held) -> None:
    """Refuse unless something new can be made under the entry's name."""
    if held.path == "." or held.refresh() is not None:
        raise FileAlreadyExists("already exists", path=held.path)
    if held.missing:
        raise PathNotFound("no such file or directory", path=held.path)


def root_itself(path: ScopedPath) -> PermissionDenied:
    return PermissionDenied("the root itself cannot be changed so", path=path, errno=errno.EPERM)


def wrong_type(kind: EntryType | None, path: ScopedPath) -> BailiwickError:
    """The error for something that is not the directory it should be."""
    if kind is None:
        return PathNotFound("no such file or directory", path=path)
    return NotADirectory("not a directory", path=path)


def check_readable(status: os.stat_result, path: ScopedPath, hardlinks: str) -> None:
    """Refuse what is not a regular file, or has other names where that is refused."""
    mode = status.st_mode
    if not stat_bits.S_ISREG(mode):
        if stat_bits.S_ISDIR(mode):
            raise IsADirectory("is a directory", path=path)
        if stat_bits.S_ISLNK(mode):
            raise SymlinkEscape("is a link, which is not followed here", path=path)
        what = _SPECIAL.get(stat_bits.S_IFMT(mode), "of a kind that is not known")
        raise NotARegularFile(f"is {what}, not a regular file", path=path)
    if status.st_nlink > 1 and hardlinks == "reject":
        raise HardlinkRefused(
            "the file has other names, and this root refuses such files", path=path
        )
