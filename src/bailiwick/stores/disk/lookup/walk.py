"""Lookups without help from the kernel: one component at a time, every directory held open.

No text with a slash and no ``..`` ever reaches the kernel, and no link is ever followed by it.
``..`` in the text of a link goes back to the directory that was really passed, by its descriptor,
so that a directory moved meanwhile leads nowhere new. Also used to explain why the kernel refused.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from typing import Final

from bailiwick.errors import (
    Busy,
    NotADirectory,
    PermissionDenied,
    SymlinkEscape,
    TooManyLinks,
    from_os_error,
)
from bailiwick.paths import ROOT, ScopedPath, from_parts
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.beneath import (
    ELSEWHERE,
    Lookup,
    hold,
    links_rejected,
    listed_spelling,
)
from bailiwick.stores.disk.lookup.handles import Held, same_object
from bailiwick.stores.disk.settings import KERNEL_LINK_HOPS

# What the links of /proc that lead to open objects say; followed as text they would lead astray.
_MAGIC_TEXT: Final = (":[", "anon_inode:")


class WalkLookup(Lookup):
    """Lookups by held descriptors: slower, and the same answers."""

    containment = "walk"

    def find_object(self, path: ScopedPath, directory: bool) -> Held:
        for _ in range(self._retries):
            walk = _PathWalk(self, path, follow=self.settings.symlinks == "in-root")
            try:
                held = walk.run(directory)
                if held is None:
                    continue
            except OSError as error:
                raise from_os_error(error, path) from None
            finally:
                walk.release()
            try:
                self.check_nameable(held.path, path)
                self.check_place(held)
                if not walk.exact:
                    spelled = self._spelled(held)
                    if spelled is None:
                        held.close()
                        continue
                    held.path = spelled
            except BaseException:
                held.close()
                raise
            return held
        raise Busy("the lookup kept racing with other changes", path=path)

    def leads_to(self, path: str, status: os.stat_result, sole: bool = False) -> bool:
        walk = _PathWalk(self, ScopedPath(path), follow=False)
        try:
            found = walk.run(False)
        except OSError as error:
            if error.errno in ELSEWHERE:
                return False
            raise
        finally:
            walk.release()
        if found is None or found.status is None:
            return False
        found.close()
        return same_object(found.status, status) and not (sole and found.status.st_nlink != 1)

    def _spelled(self, held: Held) -> ScopedPath | None:
        """The canonical path where the components walked may be other spellings of it."""
        if held.fd >= 0 and self._names_objects:
            return self.canonical_path(held, held.path)
        if held.parent < 0 or held.status is None:
            return held.path
        held.name = listed_spelling(held.parent, held.name, held.status)
        return ScopedPath(held.parent_path).child(held.name)


class _PathWalk:
    """One walk from the root. Holds a descriptor for each directory it stands in."""

    def __init__(self, lookup: WalkLookup, path: ScopedPath, follow: bool) -> None:
        self._lookup = lookup
        self._follow = follow
        self._path = path
        self._pending = list(reversed(path.parts))
        self._names: list[str] = []
        self._held: list[tuple[int, os.stat_result]] = []
        self._hops = 0
        self.exact = not lookup.folds

    def release(self) -> None:
        for fd, _ in self._held:
            os.close(fd)
        self._held.clear()

    @property
    def _current(self) -> int:
        return self._held[-1][0] if self._held else self._lookup.root.fd

    @property
    def _current_status(self) -> os.stat_result:
        return self._held[-1][1] if self._held else self._lookup.root.status

    def run(self, directory: bool) -> Held | None:
        """Walk to the end. None: something changed under our feet, walk again."""
        while self._pending:
            component = self._pending.pop()
            if component == ".":
                continue
            if component == "..":
                self._climb()
                continue
            status = os.stat(component, dir_fd=self._current, follow_symlinks=False)
            if stat_bits.S_ISLNK(status.st_mode):
                if not self._splice(component, status):
                    return None
            elif stat_bits.S_ISDIR(status.st_mode):
                if not self._enter(component):
                    return None
            elif self._pending or directory:
                raise NotADirectory("not a directory", path=self._path)
            else:
                return self._end_at(component, status)
        return self._end_here()

    def _climb(self) -> None:
        if not self._held:
            raise SymlinkEscape("a link in the path leads outside this root", path=self._path)
        fd, _ = self._held.pop()
        os.close(fd)
        self._names.pop()

    def _enter(self, component: str) -> bool:
        try:
            fd = os.open(component, syscalls.HOLD_DIRECTORY_FLAGS, dir_fd=self._current)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                return False  # it was a directory a moment ago
            raise
        status = os.fstat(fd)
        self._held.append((fd, status))
        self._names.append(component)
        self._lookup.check_mount(fd, self._path)
        self._check_device(status)
        return True

    def _check_device(self, status: os.stat_result) -> None:
        if status.st_dev != self._lookup.root.dev:
            self.exact = False

    def _splice(self, component: str, status: os.stat_result) -> bool:
        """Put the text of a link in the place of its name; False: it is no link any more."""
        if not self._follow:
            raise links_rejected(self._path)
        if self._hops == KERNEL_LINK_HOPS:
            raise TooManyLinks("too many levels of links", path=self._path)
        self._hops += 1
        if syscalls.refuses_links(self._current):
            raise SymlinkEscape("links are not followed on this mount", path=self._path)
        if not self._pending:
            self._check_sticky(status)
        try:
            text = os.readlink(component, dir_fd=self._current)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return False
            raise
        absolute = text.startswith("/")
        if (absolute or any(mark in text for mark in _MAGIC_TEXT)) and self._on_kernel_filesystem():
            raise SymlinkEscape("a magic link is never followed", path=self._path)
        if absolute:
            raise SymlinkEscape(
                "a link in the path is absolute, and so leads outside this root",
                path=self._path,
                hint="make it relative",
            )
        parts = [part for part in text.split("/") if part]
        if text.endswith("/"):
            parts.append(".")  # what stands before the slash must be a directory
        self._pending.extend(reversed(parts))
        return True

    def _on_kernel_filesystem(self) -> bool:
        return syscalls.filesystem_type(self._current) in syscalls.KERNEL_FILESYSTEMS

    def _check_sticky(self, status: os.stat_result) -> None:
        """As the kernel's fs.protected_symlinks: a stranger's link in a directory like /tmp."""
        directory = self._current_status
        shared = stat_bits.S_ISVTX | stat_bits.S_IWOTH
        stranger = status.st_uid not in (os.geteuid(), directory.st_uid)
        if stranger and directory.st_mode & shared == shared and syscalls.protects_links():
            raise PermissionDenied(
                "another user's link in a shared directory is not followed", path=self._path
            )

    def _end_here(self) -> Held:
        path = from_parts(self._names)
        if not self._held:
            return Held(ROOT, self._lookup.root.status, os.dup(self._lookup.root.fd))
        fd, status = self._held.pop()
        return Held(path, status, fd)

    def _end_at(self, component: str, status: os.stat_result) -> Held | None:
        path = from_parts([*self._names, component])
        self._lookup.check_mount(self._current, self._path, component)
        self._check_device(status)
        if self._lookup.holds_objects:
            held = hold(path, os.open(component, syscalls.HOLD_FLAGS, dir_fd=self._current))
            if held.type in ("symlink", "directory"):
                held.close()
                return None
            return held
        held = Held(path, status, -1)
        parent_path = from_parts(self._names)
        parent = self._held.pop()[0] if self._held else os.dup(self._lookup.root.fd)
        held.stand_in(parent, component, parent_path)
        return held
