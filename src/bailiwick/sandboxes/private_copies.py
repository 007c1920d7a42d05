"""A copy of a tree for one command, where nothing can be mounted over the tree itself, and what the
command left in it, turned into what overlayfs would have left.

    WORK/tree      the copy, in which the command works
    WORK/stamps    what was copied, there until all that was changed is in the upper directory

A program filled the copy, so nothing in it is trusted: it is gone through by descriptors, no link
is followed, and only directories that were copied are entered. What is new is moved to the upper
directory as it is, what is missing becomes a mark there. Whoever is killed in between goes on from
there: what stands in the upper directory already was moved before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import msgspec

from bailiwick.errors import Unsupported

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES: Final = 1 << 30

TREE: Final = "tree"
STAMPS: Final = "stamps"


class _Stamp(NamedTuple):
    """What was copied: of a directory its mode alone tells."""

    path: bytes
    mode: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def _stamp(path: bytes, status: os.stat_result) -> _Stamp:
    return _Stamp(
        path, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns,
        status.st_ctime_ns,
    )  # fmt: skip


# --- in ----------------------------------------------------------------------------------------


def fill(lower: int, work: int, masked: Collection[bytes], bytes_max: int) -> None:
    """Copy what lies in an open directory, but for what is ``masked`` and what is neither file,
    directory nor link. Raises `Unsupported` where it is more than so many bytes, and OSError."""
    os.mkdir(TREE, 0o700, dir_fd=work)
    filling = _Filling(frozenset(masked), bytes_max)
    top = os.open(TREE, _DIRECTORY, dir_fd=work)
    try:
        filling.directory(os.open(".", _DIRECTORY, dir_fd=lower), os.dup(top), b"")
        os.fchmod(top, stat.S_IMODE(os.stat(lower).st_mode) | 0o700)
    finally:
        os.close(top)
    _save(work, filling.stamps)


class _Filling:
    def __init__(self, masked: frozenset[bytes], bytes_max: int) -> None:
        self._masked = masked
        self._bytes_max = self._bytes_left = bytes_max
        self.stamps: list[_Stamp] = []

    def directory(self, source: int, target: int, prefix: bytes) -> None:
        """Owns both descriptors: one is held a level."""
        try:
            for name in sorted(os.listdir(source)):
                path = prefix + os.fsencode(name)
                if path not in self._masked:
                    with contextlib.suppress(FileNotFoundError, PermissionError):
                        self._entry(source, target, name, path)
        finally:
            os.close(source)
            os.close(target)

    def _entry(self, source: int, target: int, name: str, path: bytes) -> None:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        times = (status.st_atime_ns, status.st_mtime_ns)
        if stat.S_ISDIR(status.st_mode):
            below = os.open(name, _DIRECTORY, dir_fd=source)
            os.mkdir(name, 0o700, dir_fd=target)
            if _mount_of(below) == _mount_of(source):
                self.directory(below, os.open(name, _DIRECTORY, dir_fd=target), path + b"/")
            else:
                os.close(below)  # nor does a program see in other sandboxes what is mounted there
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=target)
            os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(status.st_mode):
            self._file(source, target, name, times)
        else:
            return
        now = os.stat(name, dir_fd=target, follow_symlinks=False)
        self.stamps.append(_stamp(path, now))

    def _file(self, source: int, target: int, name: str, times: tuple[int, int]) -> None:
        old = os.open(name, _READ, dir_fd=source)
        try:
            status = os.fstat(old)
            if not stat.S_ISREG(status.st_mode):
                return
            new = os.open(name, _NEW, 0o600, dir_fd=target)
            try:
                self._content(old, new)
                os.fchmod(new, stat.S_IMODE(status.st_mode) & 0o777)
                os.utime(new, ns=times)
            finally:
                os.close(new)
        finally:
            os.close(old)

    def _content(self, old: int, new: int) -> None:
        # Not by `copy_file_range`, which does not go from one filesystem to another. What others
        # write to it meanwhile is looked at again as long as there is more.
        end = 0
        while (start := _data_after(old, end)) is not None:
            self._count(start - end)
            os.lseek(new, start, os.SEEK_SET)
            end = os.lseek(old, start, os.SEEK_HOLE)
            os.lseek(old, start, os.SEEK_SET)
            while start < end and (
                moved := os.sendfile(new, old, None, min(_PIECE_BYTES, end - start))
            ):
                self._count(moved)
                start += moved
        size = os.fstat(old).st_size
        if size > end:
            self._count(size - end)
            os.ftruncate(new, size)

    def _count(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise Unsupported(
                "there is more in this root than is copied for a command",
                details={"limit": self._bytes_max},
            )


def _data_after(file: int, offset: int) -> int | None:
    """Where the next data of a file begin: what is no data is a hole."""
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def _mount_of(directory: int) -> bytes:
    """Which mount a directory lies on (proc_pid_fdinfo(5))."""
    with open(f"/proc/self/fdinfo/{directory}", "rb") as file:
        return next(line for line in file if line.startswith(b"mnt_id:"))


# --- out ---------------------------------------------------------------------------------------


def gather(upper: int, work: int, remove: Callable[[int, str], None]) -> None:
    """Move what was changed in the copy to the upper directory, and take the copy away by
    ``remove``. Nothing happens where there is none."""
    stamps = _load(work)
    if stamps is None:
        return
    top, _ = _let_in(work, os.fsencode(TREE))
    try:
        _Gathering(stamps).directory(top, upper, b"")
    finally:
        os.close(top)
    os.unlink(STAMPS, dir_fd=work)
    for name in os.listdir(work):
        remove(work, name)


class _Gathering:
    def __init__(self, stamps: Collection[_Stamp]) -> None:
        self._stamps = {each.path: each for each in stamps}
        self._names: dict[bytes, list[bytes]] = {}
        for path in self._stamps:
            above, _, name = path.rpartition(b"/")
            self._names.setdefault(above, []).append(name)

    def directory(self, tree: int, upper: int, path: bytes) -> None:
        """As deep as what was copied."""
        there = {os.fsencode(name) for name in os.listdir(tree)}
        for name in self._names.get(path, ()):
            if name not in there:
                with contextlib.suppress(FileExistsError):  # moved before
                    os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=upper)
        for name in sorted(there):
            self._entry(tree, upper, name, path + b"/" + name if path else name)

    def _entry(self, tree: int, upper: int, name: bytes, path: bytes) -> None:
        status = os.stat(name, dir_fd=tree, follow_symlinks=False)
        known = self._stamps.get(path)
        if known is None or stat.S_IFMT(known.mode) != stat.S_IFMT(status.st_mode):
            self._move(tree, upper, name)
        elif stat.S_ISDIR(status.st_mode):
            self._below(tree, upper, name, path, known)
        elif known != _stamp(path, status):
            self._move(tree, upper, name)

    def _move(self, tree: int, upper: int, name: bytes) -> None:
        try:
            os.rename(name, name, src_dir_fd=tree, dst_dir_fd=upper)
        except PermissionError:  # a directory that its owner may not write to
            fd, mode = _let_in(tree, name)
            try:
                os.rename(name, name, src_dir_fd=tree, dst_dir_fd=upper)
                os.fchmod(fd, mode)
            finally:
                os.close(fd)

    def _below(self, tree: int, upper: int, name: bytes, path: bytes, known: _Stamp) -> None:
        below, mode = _let_in(tree, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=upper)
            above, _ = _let_in(upper, name)
            try:
                self.directory(below, above, path)
                stays = bool(os.listdir(above)) or mode != stat.S_IMODE(known.mode)
                if stays:
                    os.fchmod(above, mode)
            finally:
                os.close(above)
            if not stays:
                os.rmdir(name, dir_fd=upper)
        finally:
            os.close(below)


def _let_in(parent: int, name: bytes) -> tuple[int, int]:
    """A directory, whatever mode keeps its owner out, and that mode."""
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{held}", mode | 0o700)
        return os.open(f"/proc/self/fd/{held}", os.O_RDONLY | os.O_CLOEXEC), mode
    finally:
        os.close(held)


# --- what was copied -----------------------------------------------------------------------------


def _save(work: int, stamps: list[_Stamp]) -> None:
    """Whole or not at all: without it the copy is nobody's."""
    file = os.open(STAMPS + ".new", _NEW, 0o600, dir_fd=work)
    with os.fdopen(file, "wb") as opened:
        opened.write(msgspec.msgpack.encode(stamps))
    os.rename(STAMPS + ".new", STAMPS, src_dir_fd=work, dst_dir_fd=work)


def _load(work: int) -> list[_Stamp] | None:
    try:
        file = os.open(STAMPS, _READ, dir_fd=work)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as opened:
        return msgspec.msgpack.decode(opened.read(), type=list[_Stamp])
