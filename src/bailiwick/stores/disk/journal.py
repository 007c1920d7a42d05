"""What this store has lying about in the tree, written down before it lies there.

One file for each open store that changes something, outside the root, locked while the store
lives: the lock says that its writer is alive, never a process id. It names the directories in
which the store stages, and every swap about to be made. Staging names carry the store's token, so
that recovery (`bailiwick.stores.disk.recovery`) removes what this journal accounts for and nothing
else. Not flushed: it is for a killed process, whose writes the kernel keeps.
"""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from typing import Final
from weakref import WeakSet

import msgspec

from bailiwick.errors import ParseError, PermissionDenied
from bailiwick.model import KiB
from bailiwick.paths import REMOVED, RESERVED_PREFIX
from bailiwick.stores.disk import syscalls

JOURNAL_SUFFIX: Final = ".journal"
COMPACT_BYTES: Final = 256 * KiB
"""A journal that has grown to this is begun anew with what is still under way."""


_ANY_INODE: Final = 0


class Header(msgspec.Struct, tag="journal", frozen=True):
    """The first line: whose staging names these are."""

    token: str


class JournalDirectory(msgspec.Struct, tag="directory", frozen=True):
    """A directory in which the store stages, by its path in the root and its inode."""

    path: str
    inode: int


class Swap(msgspec.Struct, tag="swap", frozen=True):
    """Two names of a directory about to be exchanged, and what stood under each before.

    The old content is known by its size and the hash of its first ``old_hashed`` bytes.
    """

    directory: str
    name: str
    stage: str
    old_inode: int
    old_size: int
    old_hashed: int
    old_sha256: str
    new_inode: int


Line = Header | JournalDirectory | Swap

_encode = msgspec.json.Encoder().encode


def stage_prefix(token: str) -> str:
    return f"{RESERVED_PREFIX}{token}-"


class JournalPlace:
    """The directory that holds the journals of one root, made when first needed."""

    def __init__(self, state_dir: str, key: str) -> None:
        """``key`` names the root: two never share one, and a restart finds it again."""
        self._path = os.path.join(state_dir, "journals", key)

    def ambient_open(self) -> int | None:
        """The directory, or None where nothing was ever written for this root."""
        try:
            return os.open(self._path, syscalls.LIST_FLAGS)
        except FileNotFoundError:
            return None

    def ambient_make(self) -> int:
        above = os.path.dirname(self._path)
        try:
            os.makedirs(os.path.dirname(above), mode=0o700, exist_ok=True)
        except OSError as error:
            # Without a path: it is no fault of the file that is written.
            raise PermissionDenied(
                "the state directory cannot be made",
                errno=error.errno,
                hint="set $XDG_STATE_HOME, or pass state_dir: one that can be written",
            ) from None
        for path in (above, self._path):
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
        return os.open(self._path, syscalls.LIST_FLAGS)


def ambient_check_outside(state_dir: str, root: os.stat_result) -> None:
    """Refuse a state directory beneath the root: those who may write there could forge it."""
    place = os.path.realpath(state_dir)
    while True:
        try:
            status = os.stat(place)
        except OSError:
            pass  # not there yet, or not to be seen: the root, which is open, is neither
        else:
            if (status.st_dev, status.st_ino) == (root.st_dev, root.st_ino):
                raise ParseError("the state directory lies inside the root")
        above = os.path.dirname(place)
        if above == place:
            return
        place = above


_open_here: WeakSet[Journal] = WeakSet()


def _abandon_after_fork() -> None:
    for journal in list(_open_here):
        journal.abandon()


os.register_at_fork(after_in_child=_abandon_after_fork)


class Journal:
    """The journal of one open store. Safe to use from several threads."""

    def __init__(self, place: JournalPlace) -> None:
        self._place = place
        self._header = Header(token := os.urandom(6).hex())
        self._stage_format = stage_prefix(token) + "%016x"
        self._lock = threading.Lock()
        self.directories: dict[str, JournalDirectory] = {}
        self._next_number = random.Random(os.urandom(32)).getrandbits
        self._swaps: dict[str, Swap] = {}
        self._keep = False
        self._fd = -1
        self._name = ""
        self._size = 0
        self.is_anothers = False
        """Of the process that this one was forked from: what is staged is not ours to clear."""
        _open_here.add(self)

    def abandon(self) -> None:
        """Be none, in a forked child: the journal is the parent's, and says that it lives."""
        self._lock = threading.Lock()  # another thread may have held it
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._name = -1, ""
        self.is_anothers = True

    def new_stage_name(self, taken: bool = False) -> str:
        """A name nobody has. ``taken``: the last one was, by someone who guesses."""
        return self._stage_format % (
            int.from_bytes(os.urandom(8)) if taken else self._next_number(64)
        )

    def staging_in(self, path: str, directory: int) -> None:
        """Before something is staged in the held directory ``directory``."""
        if path not in self.directories:
            line = JournalDirectory(str(path), os.fstat(directory).st_ino)
            with self._lock:
                self._write(line)
                self.directories[line.path] = line

    def staging_in_removed(self) -> None:
        """Before something lies in `REMOVED`, which comes and goes: it is known by its name."""
        if REMOVED not in self.directories:
            line = JournalDirectory(REMOVED, _ANY_INODE)
            with self._lock:
                self._write(line)
                self.directories[line.path] = line

    def swapping(self, swap: Swap) -> None:
        """Before two names are exchanged."""
        with self._lock:
            self._write(swap)
            self._swaps[swap.stage] = swap

    def swapped(self, stage: str) -> None:
        """The staging name of a swap is gone again."""
        with self._lock:
            self._swaps.pop(stage, None)

    def keep(self) -> None:
        """Something of ours could not be cleared: leave the journal to the next start."""
        self._keep = True

    def close(self) -> None:
        """Nothing lies about any more: remove the journal."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if self._keep and fd >= 0:
                os.close(fd)
            else:
                self._discard(fd, self._name)

    def _write(self, line: Line) -> None:
        if self._fd < 0:
            self._begin([])
        elif self._size > COMPACT_BYTES:
            old = self._fd, self._name
            self._begin([*self.directories.values(), *self._swaps.values()])
            self._discard(*old)
        self._size = _append(self._fd, self._size, _encode(line) + b"\n")

    def _begin(self, lines: list[Line]) -> None:
        """Make a new journal file, locked before anyone can take it for a dead one."""
        directory = self._place.ambient_make()
        try:
            fd, name = _make_locked(directory)
        finally:
            os.close(directory)
        try:
            whole = b"".join(_encode(line) + b"\n" for line in (self._header, *lines))
            size = _append(fd, 0, whole)
        except BaseException:
            self._discard(fd, name)
            raise
        self._fd, self._name, self._size = fd, name, size

    def _discard(self, fd: int, name: str) -> None:
        if fd < 0:
            return
        directory = self._place.ambient_open()
        if directory is not None:
            try:
                os.unlink(name, dir_fd=directory)
            except FileNotFoundError:
                pass
            finally:
                os.close(directory)
        os.close(fd)


def _make_locked(directory: int) -> tuple[int, str]:
    while True:
        name = os.urandom(8).hex() + JOURNAL_SUFFIX
        flags = syscalls.STAGE_FLAGS | os.O_APPEND
        fd = syscalls.open_at(name, flags, 0o600, dir_fd=directory)
        try:
            # Recovery in another process may have seen the file first, and removed it.
            if syscalls.try_lock(fd) and os.fstat(fd).st_nlink:
                return fd, name
        except OSError as error:
            # Without locks nobody will take this journal for a dead one either.
            if error.errno in syscalls.NO_LOCKS:
                return fd, name
            os.close(fd)
            raise
        os.close(fd)


def _append(fd: int, size: int, lines: bytes) -> int:
    """Add lines whole, or not at all; the size of the journal then."""
    try:
        written = syscalls.write(fd, lines)
        while written < len(lines):
            written += syscalls.write(fd, memoryview(lines)[written:])
    except BaseException:
        with suppress(OSError):
            os.ftruncate(fd, size)  # half a line would swallow the next one
        raise
    return size + written
