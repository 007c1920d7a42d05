"""Filesystems mounted inside a tree: who takes the tree away or elsewhere leaves them alone.

Whoever mounted something did so under that name. Emptying it because it lies in a directory that is
removed, or carrying it off with one that is moved, is never what was meant; and no retry helps, so
it is not told as `busy`.
"""

from __future__ import annotations

import errno
import os
import re

from bailiwick.errors import PermissionDenied
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import Held

_MOUNTS = "/proc/self/mountinfo"

_POINT = 4
"""Where a line of it says where something is mounted (proc_pid_mountinfo(5))."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounted(path: ScopedPath) -> PermissionDenied:
    return PermissionDenied(
        "a filesystem is mounted there, or somewhere beneath it",
        path=path,
        errno=errno.EBUSY,
        hint="it has to be unmounted first",
    )


def is_mount_point(directory: int, name: str) -> bool:
    """Whether something is mounted on one name of a held directory."""
    try:
        return syscalls.mount_of(directory, name) != syscalls.mount_of(directory)
    except OSError:
        return False


def refuse_mounts(held: Held) -> None:
    """Refuse an entry on which, or beneath which, something is mounted.

    By what the kernel says of all mounts, so that no tree is walked. Where it says nothing (there
    is no /proc), only the entry itself is looked at.
    """
    if is_mount_point(held.parent, held.name):
        raise mounted(held.path)
    if syscalls.O_PATH is None:
        return
    try:
        fd = os.open(held.name, syscalls.HOLD_FLAGS, dir_fd=held.parent)
    except OSError:
        return
    try:
        found = mounts_beneath(fd)
    finally:
        os.close(fd)
    if found:
        raise mounted(held.path)


def mounts_beneath(directory: int) -> frozenset[str]:
    """The paths in a held directory that something is mounted on, as far as the kernel says."""
    try:
        top = os.fsencode(syscalls.kernel_name(directory)).rstrip(b"/") + b"/"
        points = _mount_points()
    except OSError:
        return frozenset()
    return frozenset(os.fsdecode(x.removeprefix(top)) for x in points if x.startswith(top))


def _mount_points() -> list[bytes]:
    with open(_MOUNTS, "rb") as file:
        lines = file.read().splitlines()
    return [_ESCAPED.sub(_unescape, line.split(b" ", _POINT + 1)[_POINT]) for line in lines]


def _unescape(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 8),))
