"""From a checked path to an open object beneath the root. The one door of the disk store.

Every object the store touches comes out of `Lookup.find_object` or `Lookup.find_entry`. There are
two ways to find one, with the same answers: the kernel confines the lookup (`kernel`), or we walk
it component by component (`walk`). Which is in force is chosen once, when the store is opened; no
error on a real path ever changes it.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from abc import ABC, abstractmethod
from typing import Final

from bailiwick.errors import (
    Busy,
    NotADirectory,
    NotARegularFile,
    ParseError,
    PathNotFound,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.paths import RESERVED_PREFIX, ROOT, ScopedPath, from_parts
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import Held, is_directory, lstat_at, same_object
from bailiwick.stores.disk.settings import DiskRoot, DiskSettings

ELSEWHERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EAGAIN)
"""What a lookup answers when the object is not, or no longer, where it is looked for."""


class Lookup(ABC):
    """What both ways share: entries, canonical names, and what is refused wherever it is found."""

    containment: str

    def __init__(self, root: DiskRoot, settings: DiskSettings) -> None:
        self.root = root
        self.settings = settings
        if not settings.cross_mounts and root.mount is None:
            raise Unsupported(
                "this kernel does not tell mounts apart", hint="leave cross_mounts alone"
            )
        self._retries: Final = settings.limits.busy_retries_max
        # Whether the spelling that found an object may not be its name.
        self.folds: Final = syscalls.may_fold_names(root.fd)
        # Whether objects of every kind are held by a descriptor of their own.
        self.holds_objects: Final = syscalls.can_reopen()
        self._names_objects: Final = self.holds_objects or syscalls.MACOS
        self._root_prefix = self._ask_root_prefix() if self._names_objects else ""

    @property
    def root_name(self) -> str:
        """The host path of the root: what its journals are found by. Never shown."""
        return self._root_prefix

    def _ask_root_prefix(self) -> str:
        return syscalls.kernel_name(self.root.fd).rstrip("/") + "/"

    def is_missing(self, path: ScopedPath) -> bool:
        """Whether one question tells that nothing stands there."""
        return False

    @abstractmethod
    def find_object(self, path: ScopedPath, directory: bool) -> Held:
        """Hold what ``path`` leads to, links followed as the root allows."""

    # --- entries ------------------------------------------------------------------------------

    def find_entry(self, path: ScopedPath, directory: bool, parents: bool) -> Held:
        """Hold the parent of ``path`` and its last name, which need not exist."""
        if path == ".":
            return self.find_object(path, directory)
        parent_text, _, name = path.rpartition("/")
        missing: tuple[str, ...] = ()
        if parent_text:
            parent, missing = self._find_parent(ScopedPath(parent_text), parents)
        else:
            parent = Held(ROOT, self.root.status, os.dup(self.root.fd))
        try:
            return self._entry_in(parent, name, missing, directory)
        except BaseException:
            parent.close()
            raise

    def _entry_in(self, parent: Held, name: str, missing: tuple[str, ...], directory: bool) -> Held:
        """The entry ``name``; takes over the descriptor of ``parent``."""
        path = parent.path
        status = None
        if missing:
            path = from_parts((*path.parts, *missing))
        else:
            name, status = self.look_at(parent, name)
        if directory and status is not None and not is_directory(status):
            raise NotADirectory("not a directory", path=path.child(name))
        held = Held(path.child(name), status, -1)
        held.stand_in(parent.fd, name, parent.path, missing)
        parent.fd = -1
        return held

    def look_at(self, parent: Held, name: str) -> tuple[str, os.stat_result | None]:
        """What stands under a name, and the name it really has."""
        path = parent.path.child(name)
        for _ in range(self._retries):
            status = lstat_at(parent.fd, name)
            if status is None:
                return name, None
            self.check_mount(parent.fd, path, name)
            if not self.folds and status.st_dev == self.root.dev:
                return name, status
            try:
                found = self._spelling(parent.fd, path, name, status)
            except FileNotFoundError:
                continue  # replaced or removed in between
            if found is not None:
                return found, status
        raise Busy("the entry keeps changing", path=path)

    def _find_parent(self, path: ScopedPath, parents: bool) -> tuple[Held, tuple[str, ...]]:
        """The directory ``path``, or with ``parents`` the deepest there is on the way to it, and
        the names still missing beneath."""
        for _ in range(self._retries):
            try:
                return self.find_object(path, True), ()
            except PathNotFound:
                if not parents:
                    raise
            deepest = self._find_deepest(path)
            if deepest is not None:
                return deepest
        raise Busy("the directories on the way keep changing", path=path)

    def _find_deepest(self, path: ScopedPath) -> tuple[Held, tuple[str, ...]] | None:
        """The deepest directory there is, and what is missing below; None where it was made."""
        parts = path.parts
        for cut in range(len(parts) - 1, -1, -1):
            try:
                held = self.find_object(from_parts(parts[:cut]), True)
            except PathNotFound:
                continue
            found = lstat_at(held.fd, parts[cut])
            if found is None:
                return held, parts[cut:]
            held.close()
            if stat_bits.S_ISLNK(found.st_mode):
                raise PathNotFound("a link on the way leads to nothing", path=path)
            return None
        return None

    def check_pinned(self, held: Held) -> None:
        """Raise `Busy` unless the directory an entry stands in is still where it was found.

        A directory that was moved out of the root after it was opened must not be changed. What
        remains is the instant between this check and the call that follows it.
        """
        path = held.parent_path
        if path != "." and not self.leads_to(path, os.fstat(held.parent)):
            raise moved_meanwhile(held.path)

    @abstractmethod
    def leads_to(self, path: str, status: os.stat_result, sole: bool = False) -> bool:
        """Whether ``path``, without following any link, is that very object.

        ``sole``: and has no other name.
        """

    # --- children -----------------------------------------------------------------------------

    def find_child(self, directory: Held, name: str) -> Held:
        """Hold one name of a held directory, a link not followed."""
        if "/" in name or name in ("", ".", ".."):
            raise ParseError("a child is named by one component", path=directory.path)
        path = directory.path.child(name)
        if name.startswith(RESERVED_PREFIX):
            raise PathNotFound("no such file or directory", path=path)
        parent = directory.fd if directory.fd >= 0 else directory.open_for_listing()
        try:
            held = self._hold_child(parent, directory.path, name)
        finally:
            if parent != directory.fd:
                os.close(parent)
        try:
            self.check_place(held)
        except BaseException:
            held.close()
            raise
        return held

    def _hold_child(self, parent: int, parent_path: ScopedPath, name: str) -> Held:
        path = parent_path.child(name)
        if self.holds_objects:
            return hold(path, os.open(name, syscalls.HOLD_FLAGS, dir_fd=parent))
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if is_directory(status):
            return hold(path, os.open(name, syscalls.HOLD_DIRECTORY_FLAGS, dir_fd=parent))
        held = Held(path, status, -1)
        held.stand_in(os.dup(parent), name, parent_path)
        return held

    # --- what is refused wherever it is found -------------------------------------------------

    def check_place(self, held: Held) -> None:
        """Refuse an object on a kernel filesystem, or across a mount where that is refused."""
        fd = held.fd
        if fd >= 0:
            self.check_mount(fd, held.path)
            if held.status is not None and held.status.st_dev != self.root.dev:
                check_filesystem(fd, held.path)
        elif held.parent >= 0:
            self.check_mount(held.parent, held.path, held.name)
            if held.status is not None and held.status.st_dev != self.root.dev:
                check_filesystem_at(held.parent, held.name, held.path)

    def check_mount(self, directory: int, path: ScopedPath, name: str = "") -> None:
        """Refuse another mount than the root's, where mounts are not crossed."""
        if not self.settings.cross_mounts and (
            syscalls.mount_of(directory, name) != self.root.mount
        ):
            raise across_mount(path)

    # --- canonical names ----------------------------------------------------------------------

    def _spelling(
        self, parent: int, path: ScopedPath, name: str, status: os.stat_result
    ) -> str | None:
        """The name an existing entry really has, which may differ in case from the one typed.

        None where something else stands there by now.
        """
        if status.st_dev != self.root.dev:
            check_filesystem_at(parent, name, path)
        if not self.holds_objects:
            return listed_spelling(parent, name, status)
        fd = os.open(name, syscalls.HOLD_FLAGS, dir_fd=parent)
        try:
            found = syscalls.kernel_name(fd).rpartition("/")[2]
        finally:
            os.close(fd)
        if found == name:
            return name
        there = lstat_at(parent, found)
        return found if there is not None and same_object(there, status) else None

    def check_nameable(self, path: ScopedPath, spelled: ScopedPath) -> None:
        """Refuse what a link leads to if no caller could name it."""
        if path.isascii() and RESERVED_PREFIX not in path:
            return
        if any(part.startswith(RESERVED_PREFIX) for part in path.parts):
            raise PathNotFound("no such file or directory", path=spelled)
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ParseError(
                "the name of what this leads to is not valid text", path=spelled
            ) from None

    def canonical_path(self, held: Held, spelled: ScopedPath) -> ScopedPath | None:
        """The path of an open object as the kernel knows it; None where it moved meanwhile.

        ``spelled`` is what was looked up: most often it is right, and one call shows that.
        """
        name = syscalls.kernel_name(held.fd)
        if name == self._root_prefix + spelled:
            return spelled
        self._root_prefix = prefix = self._ask_root_prefix()
        if name == prefix.rstrip("/") or name == prefix:
            return ROOT
        if not name.startswith(prefix):
            return None
        path = ScopedPath(name[len(prefix) :])
        self.check_nameable(path, spelled)
        return path


def hold(path: ScopedPath, fd: int) -> Held:
    """A handle on an open descriptor, which it owns from here on."""
    try:
        return Held(path, os.fstat(fd), fd)
    except BaseException:
        os.close(fd)
        raise


def listed_spelling(parent: int, name: str, status: os.stat_result) -> str:
    """The name of an object as its directory lists it, for platforms that cannot say it."""
    listing = os.open(".", syscalls.LIST_FLAGS, dir_fd=parent)
    try:
        with os.scandir(listing) as entries:
            same = [entry.name for entry in entries if entry.inode() == status.st_ino]
    finally:
        os.close(listing)
    return name if name in same or len(same) != 1 else same[0]


def check_filesystem(fd: int, path: ScopedPath) -> None:
    """Refuse what lies on a filesystem whose files are conversations with the kernel."""
    kind = syscalls.KERNEL_FILESYSTEMS.get(syscalls.filesystem_type(fd))
    if kind is not None:
        raise NotARegularFile(f"lies on a kernel filesystem ({kind})", path=path)


def check_filesystem_at(directory: int, name: str, path: ScopedPath) -> None:
    """Refuse a name on such a filesystem; where there is no O_PATH there are none of them."""
    if syscalls.O_PATH is not None:
        fd = os.open(name, syscalls.HOLD_FLAGS, dir_fd=directory)
        try:
            check_filesystem(fd, path)
        finally:
            os.close(fd)


def moved_meanwhile(path: ScopedPath) -> Busy:
    return Busy("the directory was moved or replaced meanwhile, nothing was changed", path=path)


def across_mount(path: ScopedPath) -> SymlinkEscape:
    return SymlinkEscape(
        "another filesystem is mounted there, and this root does not cross mounts", path=path
    )


def links_rejected(path: ScopedPath) -> SymlinkEscape:
    return SymlinkEscape(
        "a link stands in the path, and this root follows none",
        path=path,
        hint="name the place it leads to, if that is inside",
    )
