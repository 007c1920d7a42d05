"""What a command left: an upper directory of overlayfs, read as changes of the tree beneath it.

A program filled it, so nothing in it is trusted: no link is followed, nothing but directories is
opened, every name may hold any bytes, and what lies too deep is named and not entered. What it
takes goes by what was touched, never by the size of the tree.

Overlayfs marks a name that was removed by a character device 0:0, a directory of which nothing
shows through by an attribute, and one that was moved by another. Root has them in attributes that
a program cannot set (``trusted.``); a plain user has not, and a program that overlayfs lets write
``user.`` attributes cannot write these, but neither does it get directories moved: `mv` copies.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bailiwick.sandbox import Touched, TouchedKind

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNOPENED = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_CAP_DAC_OVERRIDE = 1
_CAP_SYS_ADMIN = 21

_LOOKED_AT = 0o500
_CHANGED = 0o700
"""What a directory must let its owner do."""

_ACL = "system.posix_acl_access"
_ACL_OF_NEW = "system.posix_acl_default"
_SAID_BY_MODE = (0x01, 0x10, 0x20)
"""Tags of entries, as the kernel has them."""

_DEPTH_MAX = 256
"""How deep is looked: no path names what lies deeper."""


_Values = dict[str, bytes | None]
"""Of attributes, by their names; None where they cannot be read."""


class _Level(NamedTuple):
    upper: int
    lower: int | None
    path: str
    """Of the directory, as it is now: empty, or with a slash at its end."""
    was: str
    """The same as it was beneath."""
    names: list[str]
    """What is still to be looked at, the next one last."""
    shut: int | None = None
    """The mode that the program left, which did not let us in."""
    lost: bool = False
    """Whether it was moved, and what lay beneath has gone from there since."""
    hands_down: bool = False
    """Whether the tree itself gives what is made here an access control list."""


def touched(upper: int, lower: int, *, depth_max: int = _DEPTH_MAX) -> Iterator[Touched]:
    """Every name that was touched, a directory before what it holds.

    ``upper`` and ``lower`` are descriptors of the two directories; both stay open. Where a name
    holds another kind of object than before, ``removed`` comes first and then what is there now.
    Nothing else may be mounting the upper directory in another way meanwhile; processes that still
    write to it may be seen half-way.
    """
    prefix = _prefix()
    levels: list[_Level] = []
    try:
        top = os.open(".", _DIRECTORY, dir_fd=upper)
        beneath = os.dup(lower)
        names, hands_down = _names(top), _hands_down(beneath)
        levels.append(_Level(top, beneath, "", "", names, hands_down=hands_down))
        while levels:
            level = levels[-1]
            if not level.names:
                _close(levels.pop())
                continue
            name = level.names.pop()
            with contextlib.suppress(FileNotFoundError):
                told, below = _look(level, name, lower, prefix, deeper=len(levels) < depth_max)
                if below is not None:
                    levels.append(below)
                yield from told
    finally:
        while levels:
            _close(levels.pop())


def _prefix() -> str:
    """Of the attributes that overlayfs marks directories with, for a process that mounts as root
    does, and for any other: the launcher finds that out by trying."""
    return "trusted.overlay." if _has_power(_CAP_SYS_ADMIN) else "user.overlay."


def _has_power(capability: int) -> bool:
    """Whether this thread does: also root may not, in a container that gives it none."""
    try:
        with open("/proc/thread-self/status", encoding="ascii", errors="replace") as file:
            effective = next(line for line in file if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return False
    return bool(int(effective.split()[1], 16) >> capability & 1)


def _names(fd: int) -> list[str]:
    return sorted(os.listdir(fd), reverse=True)


def _close(level: _Level) -> None:
    _shut_again(level.upper, level.shut)
    os.close(level.upper)
    if level.lower is not None:
        os.close(level.lower)


def _kind_beneath(lower: int | None, name: str) -> int | None:
    """The mode of what was there before."""
    if lower is None:
        return None
    try:
        return os.stat(name, dir_fd=lower, follow_symlinks=False).st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # what nobody may look into the program could not reach either


def _look(
    level: _Level, name: str, root_lower: int, prefix: str, *, deeper: bool
) -> tuple[list[Touched], _Level | None]:
    status = os.stat(name, dir_fd=level.upper, follow_symlinks=False)
    path = level.path + name
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return [Touched(path=path, kind="removed")], None
    before = _kind_beneath(level.lower, name)
    if stat.S_ISDIR(status.st_mode):
        return _look_at_directory(level, name, status, before, root_lower, prefix, deeper=deeper)
    told = _removed_if_other(path, before, status.st_mode)
    existed = before is not None and not told
    mode = stat.S_IMODE(status.st_mode)
    kind: TouchedKind
    if stat.S_ISREG(status.st_mode):
        kind = "file_changed" if existed else "file_created"
        attributes, acls = _not_kept(level, name)
        told.append(
            Touched(
                path=path, kind=kind, mode=mode, size=status.st_size, attributes=attributes,
                acls=acls,
            )
        )  # fmt: skip
    elif stat.S_ISLNK(status.st_mode):
        kind = "symlink_changed" if existed else "symlink_created"
        target = os.readlink(name, dir_fd=level.upper)
        told.append(Touched(path=path, kind=kind, target=target))
    else:
        told.append(Touched(path=path, kind="special_dropped", mode=mode))
    return told, None


def _removed_if_other(path: str, before: int | None, now: int) -> list[Touched]:
    if before is None or stat.S_IFMT(before) == stat.S_IFMT(now):
        return []
    return [Touched(path=path, kind="removed")]


def _look_at_directory(
    level: _Level,
    name: str,
    status: os.stat_result,
    before: int | None,
    root_lower: int,
    prefix: str,
    *,
    deeper: bool,
) -> tuple[list[Touched], _Level | None]:
    path, mode = level.path + name, stat.S_IMODE(status.st_mode)
    told = _removed_if_other(path, before, status.st_mode)
    if not deeper:
        return [*told, Touched(path=path, kind="too_deep", mode=mode)], None
    fd, shut = _open_directory(level.upper, name)
    try:
        opaque = _attribute(fd, f"{prefix}opaque") == b"y"
        redirect = _redirect(fd, prefix)
        was = _origin(level, name, redirect)
        stayed = was == level.was + name and level.lower is not None  # or is back where it was
        moved_from = None if redirect is None or opaque or stayed else was
        is_new = before is None or bool(told)
        kind: TouchedKind | None = "directory_created" if is_new else "directory_replaced"
        beneath, lost = None, False
        if moved_from is not None:
            beneath = _open_beneath(root_lower, moved_from)
            lost = beneath is None
        elif before is None and not opaque and _came_along(level):
            kind, lost = "directory_changed", True
        elif not is_new and not opaque:
            kind = "directory_changed" if before is None or stat.S_IMODE(before) != mode else None
            beneath = _open_or_none(level.lower, name)
        attributes, acls = _not_kept(level, name)
        if (attributes or acls) and kind is None:
            kind = "directory_changed"
        if kind is not None:
            told.append(
                Touched(
                    path=path, kind=kind, mode=mode, moved_from=moved_from, attributes=attributes,
                    acls=acls,
                )
            )  # fmt: skip
        hands_down = level.hands_down if beneath is None else _hands_down(beneath)
        return told, _Level(fd, beneath, f"{path}/", f"{was}/", _names(fd), shut, lost, hands_down)
    except BaseException:
        _shut_again(fd, shut)
        os.close(fd)
        raise


def _came_along(level: _Level) -> bool:
    """Whether what overlayfs does not mark as new came with the directory around it."""
    return level.lost or (level.lower is not None and level.was != level.path)


def _redirect(fd: int, prefix: str) -> str | None:
    """Where a directory is said to have been moved from, by overlayfs and nobody else: what is no
    name of the tree beneath was put there by somebody who edits the folder."""
    found = _attribute(fd, f"{prefix}redirect") if prefix.startswith("trusted") else None
    if found is None:
        return None
    text = os.fsdecode(found)
    parts = text.removeprefix("/").split("/")
    return None if any(part in ("", ".", "..") for part in parts) else text


def _origin(level: _Level, name: str, redirect: str | None) -> str:
    """Where a directory was in the tree beneath: its own name, unless it was moved."""
    if redirect is None:
        return level.was + name
    return redirect[1:] if redirect.startswith("/") else level.was + redirect


def _attribute(fd: int, name: str) -> bytes | None:
    try:
        return os.getxattr(fd, name)
    except OSError:
        return None  # not there, or a filesystem that has none


def _not_kept(level: _Level, name: str) -> tuple[bool, bool]:
    """Whether something has attributes of its owner's, and access control lists, that it had not
    before."""
    own, acls = _attributes(level.upper, name)
    if not own and not acls:
        return False, False
    none: _Values = {}
    before, acls_before = none, none
    if level.lower is not None:
        before, acls_before = _attributes(level.lower, name)
    inherits = level.hands_down and not acls_before
    return bool(own) and own != before, bool(acls) and acls != acls_before and not inherits


def _attributes(directory: int, name: str) -> tuple[_Values, _Values]:
    """Those that a program can set, and access control lists, with their values where they can be
    read; what overlayfs notes in them is its own."""
    path = f"/proc/self/fd/{directory}/{name}"
    found: _Values = {}
    acls: _Values = {}
    with contextlib.suppress(OSError):  # it has gone, or a filesystem that has none
        for each in os.listxattr(path, follow_symlinks=False):
            if each in (_ACL, _ACL_OF_NEW):
                acls[each] = (
                    _beside_mode(_value(path, each)) if each == _ACL else _value(path, each)
                )
            elif each.startswith("user.") and not each.startswith("user.overlay."):
                found[each] = _value(path, each)
    return found, acls


def _value(path: str, name: str) -> bytes | None:
    with contextlib.suppress(OSError):
        return os.getxattr(path, name, follow_symlinks=False)
    return None


def _beside_mode(acl: bytes | None) -> bytes | None:
    """What a list says that the mode does not: entries of 8 bytes, of which those of the owner, the
    mask and others change with it."""
    if acl is None:
        return None
    entries = [acl[start : start + 8] for start in range(4, len(acl), 8)]
    return b"".join(each for each in entries if each[0] not in _SAID_BY_MODE)


def _hands_down(directory: int) -> bool:
    return _value(f"/proc/self/fd/{directory}/.", _ACL_OF_NEW) is not None


def _open_or_none(parent: int | None, name: str) -> int | None:
    if parent is None:
        return None
    with contextlib.suppress(OSError):
        return os.open(name, _UNOPENED | os.O_DIRECTORY, dir_fd=parent)
    return None


def _open_beneath(root: int, path: str) -> int | None:
    fd: int | None = os.dup(root)
    for name in path.split("/"):
        above, fd = fd, _open_or_none(fd, name)
        if above is not None:
            os.close(above)
    return fd


# --- showing what lies beneath again -----------------------------------------------------------


def let_through(upper: int, path: str, removed: Callable[[str], Iterable[str]]) -> None:
    """Have a directory of which nothing showed through, or that showed another one, and those
    within it, show what lies beneath but for the names that are ``removed`` in each. Any other
    directory is left as it is."""
    marks = [f"{_prefix()}{name}" for name in ("opaque", "redirect")]
    way: list[tuple[int, int | None]] = [(os.dup(upper), None)]
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for each in path.split("/"):
                way.append(_open_directory(way[-1][0], each, _CHANGED))
            if any(_attribute(way[-1][0], mark) is not None for mark in marks):
                _let_through(way[-1][0], path, removed, marks, _DEPTH_MAX - len(way))
    finally:
        _close_way(way)


def _let_through(
    directory: int,
    path: str,
    removed: Callable[[str], Iterable[str]],
    marks: list[str],
    deeper: int,
) -> None:
    """Names are hidden before anything shows: whoever is killed in between has hidden too much. As
    many levels ``deeper`` are looked at: nothing that lies below those was ever seen."""
    there = set(os.listdir(directory))
    for name in there if deeper > 0 else ():
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            way = _open_directory(directory, name, _CHANGED)
            try:
                _let_through(way[0], f"{path}/{name}", removed, marks, deeper - 1)
            finally:
                _close_way([way])
    for name in removed(path):
        if name not in there:
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=directory)
    for mark in marks:
        with contextlib.suppress(OSError):  # it has none
            os.removexattr(directory, mark)


# --- opening what a program has shut -----------------------------------------------------------


def _open_directory(parent: int, name: str, needed: int = _LOOKED_AT) -> tuple[int, int | None]:
    """A directory, and its mode where that kept us out. It is ours as it was the program's, so we
    let ourselves in; `_shut_again` when it was looked at."""
    held = os.open(name, _UNOPENED | os.O_DIRECTORY, dir_fd=parent)
    way = f"/proc/self/fd/{held}"
    try:
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        if mode & needed == needed or _has_power(_CAP_DAC_OVERRIDE):
            return os.open(name, _DIRECTORY, dir_fd=parent), None
        os.chmod(way, mode | 0o700)
        return os.open(way, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), mode
    finally:
        os.close(held)


def _shut_again(fd: int, mode: int | None) -> None:
    if mode is not None:
        os.fchmod(fd, mode)


def open_left(upper: int, path: str) -> int:
    """A descriptor to read a file that was left, whatever its mode. Raises OSError, also for what
    is no regular file and where a link is on the way."""
    *parents, name = path.split("/")
    way: list[tuple[int, int | None]] = [(os.dup(upper), None)]
    try:
        for each in parents:
            way.append(_open_directory(way[-1][0], each))
        return _open_file(way[-1][0], name)
    finally:
        _close_way(way)


@contextlib.contextmanager
def parent_left(upper: int, path: str) -> Iterator[tuple[int, str]]:
    """The directory that a path stands in, to change it, whatever modes keep its owner out, and
    its name there. Raises OSError, also where a link is on the way."""
    *parents, name = path.split("/")
    way: list[tuple[int, int | None]] = [(os.dup(upper), None)]
    try:
        for each in parents:
            way.append(_open_directory(way[-1][0], each, _CHANGED))
        yield way[-1][0], name
    finally:
        _close_way(way)


def _close_way(way: list[tuple[int, int | None]]) -> None:
    for fd, shut in reversed(way):
        _shut_again(fd, shut)
        os.close(fd)


def _open_file(parent: int, name: str) -> int:
    held = os.open(name, _UNOPENED, dir_fd=parent)
    try:
        status = os.fstat(held)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(name)
        way, flags = f"/proc/self/fd/{held}", os.O_RDONLY | os.O_CLOEXEC
        try:
            return os.open(way, flags)
        except PermissionError:
            mode = stat.S_IMODE(status.st_mode)
            os.chmod(way, mode | 0o400)
            try:
                return os.open(way, flags)
            finally:
                os.chmod(way, mode)
    finally:
        os.close(held)


def make_removable(work: str) -> None:
    """Overlayfs leaves a directory in ``work`` that its owner may not enter."""
    for path in (work, f"{work}/work"):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
