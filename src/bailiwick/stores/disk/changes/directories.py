"""Making directories, one name at a time by the descriptor of the one above."""

from __future__ import annotations

import os
from contextlib import suppress

from bailiwick.errors import FileAlreadyExists, PathNotFound
from bailiwick.paths import ScopedPath, from_parts
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.modes import NewModes
from bailiwick.stores.disk.flush_pace import flush
from bailiwick.stores.disk.lookup.beneath import Lookup
from bailiwick.stores.disk.lookup.handles import Held, is_directory
from bailiwick.stores.disk.workers import Stop


class MadeDirectories:
    """Directories made on the way to an entry, so that they can be unmade."""

    def __init__(self, above: int, mode: int, durable: bool) -> None:
        self._mode = mode
        self._durable = durable
        self._chain: list[int] = [above]
        self._made: list[tuple[int, str]] = []
        self._levels: list[int] = []

    @property
    def count(self) -> int:
        return len(self._made)

    def paths(self, held: Held) -> tuple[ScopedPath, ...]:
        """Those that were made, not found, where the way leads to ``held``."""
        above = ScopedPath(held.parent_path).parts
        names = (*held.missing, held.name)
        return tuple(from_parts((*above, *names[: level + 1])) for level in self._levels)

    def make_all(self, names: tuple[str, ...]) -> int:
        """Make each name beneath the one before; the last one's descriptor."""
        for name in names:
            self.make(name)
        return self._chain[-1]

    def make(self, name: str, mode: int | None = None) -> int:
        """Make one directory beneath the last; one that exists already is entered."""
        above = self._chain[-1]
        with Flushing(self._durable, above):
            try:
                syscalls.mkdir(name, 0o700, dir_fd=above)
            except FileExistsError:
                fd = os.open(name, syscalls.HOLD_DIRECTORY_FLAGS, dir_fd=above)
                self._chain.append(fd)
                return fd
            self._made.append((above, name))
            self._levels.append(len(self._chain) - 1)
            fd = os.open(name, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=above)
            self._chain.append(fd)
            os.fchmod(fd, self._mode if mode is None else mode)
        return fd

    def unmake(self) -> None:
        """Remove what was made, if it is still empty."""
        for above, name in reversed(self._made):
            with suppress(OSError):
                os.rmdir(name, dir_fd=above)

    def close(self) -> None:
        for fd in self._chain[1:]:
            os.close(fd)
        del self._chain[1:]


class Flushing:
    """Makes the names of directories durable after they were changed inside ``with``.

    The directories are opened before: what can fail for want of permission or of a descriptor
    fails while nothing is done yet. (An O_PATH descriptor cannot be flushed itself.)
    """

    __slots__ = ("_directories", "_opened")

    def __init__(self, durable: bool, *directories: int) -> None:
        self._directories = directories if durable else ()
        self._opened: list[int] = []

    def __enter__(self) -> None:
        try:
            for directory in self._directories:
                self._opened.append(os.open(".", syscalls.LIST_FLAGS, dir_fd=directory))
        except BaseException:
            self._close()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                for fd in self._opened:
                    flush(fd)
        finally:
            self._close()

    def _close(self) -> None:
        while self._opened:
            os.close(self._opened.pop())


def make_dir_blocking(
    lookup: Lookup, modes: NewModes, held: Held, file_mode: int | None, parents: bool, stop: Stop
) -> bool:
    """Make a directory and, with ``parents``, those above it; whether any was made."""
    found = held.refresh()
    if found is not None:
        if parents and is_directory(found):
            return False
        raise FileAlreadyExists("already exists", path=held.path)
    if held.missing and not parents:
        raise PathNotFound("no such file or directory", path=held.path)
    lookup.check_pinned(held)
    made = MadeDirectories(held.parent, modes.directory, lookup.settings.durable)
    try:
        stop.commit()
        made.make_all(held.missing)
        before = made.count
        made.make(held.name, None if file_mode is None else file_mode & 0o777)
        if made.count == before and not parents:
            raise FileAlreadyExists("already exists", path=held.path)
        held.made = made.paths(held)
    except BaseException:
        made.unmake()
        raise
    finally:
        made.close()
    return made.count > 0
