"""Lookups that the kernel confines: one `openat2` from the root, which cannot leave it.

Tried without links first; only where one was met, again with links, and then the canonical name is
asked of the object that was opened.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from bailiwick.errors import Busy, ParseError, from_os_error
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.beneath import ELSEWHERE, Lookup, hold, links_rejected
from bailiwick.stores.disk.lookup.handles import Held
from bailiwick.stores.disk.settings import DiskRoot, DiskSettings
from bailiwick.stores.disk.syscalls import openat2

fstat = os.fstat


class KernelLookup(Lookup):
    """Lookups confined by `openat2`: one call, which cannot leave the root."""

    containment = "kernel"

    def __init__(self, root: DiskRoot, settings: DiskSettings, explaining: Lookup) -> None:
        super().__init__(root, settings)
        assert syscalls.O_PATH is not None
        flags = syscalls.O_PATH | syscalls.O_CLOEXEC
        resolve = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS
        if not settings.cross_mounts:
            resolve |= syscalls.RESOLVE_NO_XDEV
        strict = resolve | syscalls.RESOLVE_NO_SYMLINKS
        self._strict: Final = syscalls.how(flags, strict)
        self._strict_directory: Final = syscalls.how(flags | syscalls.O_DIRECTORY, strict)
        self._following: Final = syscalls.how(flags, resolve)
        self._following_directory: Final = syscalls.how(flags | syscalls.O_DIRECTORY, resolve)
        self._exact: Final = not self.folds
        self._crosses: Final = settings.cross_mounts
        self._dev: Final = root.dev
        self._follows: Final = settings.symlinks == "in-root"
        self._explaining: Final = explaining

    def is_missing(self, path: ScopedPath) -> bool:
        if "\0" in path:
            return False
        fd = openat2(self.root.fd, path.encode(), self._strict)
        if fd >= 0:
            os.close(fd)
        return fd == -errno.ENOENT

    def find_object(self, path: ScopedPath, directory: bool) -> Held:
        # Every operation passes here, so what can be is written out in place.
        if "\0" in path:
            raise ParseError("the path holds a NUL character")
        fd = openat2(
            self.root.fd, path.encode(), self._strict_directory if directory else self._strict
        )
        if fd < 0:
            return self._find_slowly(path, directory, -fd)
        try:
            status = fstat(fd)
        except BaseException:
            os.close(fd)
            raise
        held = Held(path, status, fd)
        if self._exact and status.st_dev == self._dev:
            return held
        return self._find_spelled(held, path, directory)

    def find_entry(self, path: ScopedPath, directory: bool, parents: bool) -> Held:
        """As above, in fewer calls where a plain entry stands in a plain directory."""
        parent_path, slash, name = path.rpartition("/")
        if not (self._exact and self._crosses) or directory or "\0" in path or path == ".":
            return super().find_entry(path, directory, parents)
        if slash:
            fd = openat2(self.root.fd, parent_path.encode(), self._strict_directory)
        else:
            fd, parent_path = os.dup(self.root.fd), "."
        if fd < 0:
            return super().find_entry(path, directory, parents)
        status: os.stat_result | None
        try:
            try:
                status = place = os.lstat(name, dir_fd=fd)
            except FileNotFoundError:
                status, place = None, fstat(fd)
        except BaseException:
            os.close(fd)
            raise
        if place.st_dev != self._dev:
            os.close(fd)
            return super().find_entry(path, directory, parents)
        # On the root's own filesystem: an entry there stands in a directory that is there too.
        held = Held(path, status, -1)
        held.parent = fd
        held.name = name
        held.parent_path = parent_path
        held.missing = ()
        return held

    def leads_to(self, path: str, status: os.stat_result, sole: bool = False) -> bool:
        fd = openat2(self.root.fd, path.encode(), self._strict)
        if fd < 0:
            if -fd in ELSEWHERE:
                return False
            raise OSError(-fd, os.strerror(-fd))
        try:
            found = fstat(fd)
        finally:
            os.close(fd)
        return (
            found.st_ino == status.st_ino
            and found.st_dev == status.st_dev
            and (found.st_nlink == 1 or not sole)
        )

    def _find_spelled(self, held: Held, path: ScopedPath, directory: bool) -> Held:
        """What was found, where the spelling may not be the name or the place needs a look."""
        try:
            self.check_place(held)
            canonical = self.canonical_path(held, path)
        except BaseException:
            held.close()
            raise
        if canonical == path:
            return held
        held.close()
        return self._find_slowly(path, directory, errno.EAGAIN)

    def _find_slowly(self, path: ScopedPath, directory: bool, number: int) -> Held:
        """A link was met, the lookup raced, or there is nothing."""
        text = path.encode()
        strict = self._strict_directory if directory else self._strict
        following = self._following_directory if directory else self._following
        for _ in range(self._retries):
            if number == errno.ELOOP and self._follows:
                fd = openat2(self.root.fd, text, following)
                number = -fd
            elif number == errno.EAGAIN:
                fd = openat2(self.root.fd, text, strict)
                if fd == -errno.ELOOP and self._follows:
                    fd = openat2(self.root.fd, text, following)
                number = -fd
            else:
                fd = -1
            if fd >= 0:
                held = self._name(hold(path, fd))
                if held is not None:
                    return held
            elif number != errno.EAGAIN:
                self._refuse(path, directory, number)
            number = errno.EAGAIN
        raise Busy("the lookup kept racing with other changes", path=path)

    def _name(self, held: Held) -> Held | None:
        """Give an object its canonical path, and prove it; None where it moved meanwhile."""
        try:
            self.check_place(held)
            path = self.canonical_path(held, held.path)
            if path is None or held.status is None or not self.leads_to(path, held.status):
                held.close()
                return None
        except BaseException:
            held.close()
            raise
        held.path = path
        return held

    def _refuse(self, path: ScopedPath, directory: bool, number: int) -> None:
        """Raise what the kernel's refusal means; return where it was only a race.

        For links a walk finds out. It only explains: what it finds is let go.
        """
        if number == errno.ELOOP and not self._follows:
            raise links_rejected(path)
        if number not in (errno.ELOOP, errno.EXDEV):
            raise from_os_error(OSError(number, ""), path)
        self._explaining.find_object(path, directory).close()
