"""Clearing up after a store that was killed, by its journal and by nothing else.

Runs when a store is opened, for each journal of the same root whose lock is free, which means that
its writer is dead. Half-done swaps come first: finished where the old content came out unharmed,
undone where something foreign did. Then what carries the dead store's token goes.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from typing import Final

import msgspec

from bailiwick.errors import BailiwickError
from bailiwick.paths import REMOVED, ROOT, ScopedPath
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.removal import leads_down, remove_litter
from bailiwick.stores.disk.journal import (
    JOURNAL_SUFFIX,
    Header,
    JournalDirectory,
    JournalPlace,
    Line,
    Swap,
    stage_prefix,
)
from bailiwick.stores.disk.lookup.beneath import Lookup, check_filesystem
from bailiwick.stores.disk.lookup.handles import lstat_at
from bailiwick.stores.disk.workers import UNSTOPPABLE
from bailiwick.stores.disk.writes.current import hash_of

_log = logging.getLogger("bailiwick.stores.disk")

_decode = msgspec.json.Decoder(Line).decode

_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What is said of a directory that is none: a link is not followed."""


def recover(lookup: Lookup, place: JournalPlace) -> None:
    """Clear up after every dead store of this root."""
    directory = place.ambient_open()
    if directory is None:
        return
    try:
        for name in os.listdir(directory):
            if name.endswith(JOURNAL_SUFFIX):
                _recover_one(lookup, directory, name)
    finally:
        os.close(directory)


def _recover_one(lookup: Lookup, directory: int, name: str) -> None:
    try:
        fd = os.open(name, os.O_RDWR | syscalls.O_NOFOLLOW | syscalls.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return  # another start was quicker, or it is not ours to open
    try:
        if not _is_dead(fd):
            return
        with os.fdopen(os.dup(fd), "rb") as journal:
            lines = _read_lines(journal.read())
        if _clear(lookup, lines):
            os.unlink(name, dir_fd=directory)
        else:
            _log.warning("not all a killed store left could be cleared: kept for the next start")
    except OSError:
        _log.warning("the journal of a killed store could not be worked off", exc_info=True)
    finally:
        os.close(fd)


def _is_dead(fd: int) -> bool:
    """Whether the writer of a journal is gone. In doubt it lives."""
    try:
        return syscalls.try_lock(fd) and os.fstat(fd).st_nlink > 0
    except OSError:
        return False


def _read_lines(text: bytes) -> list[Line]:
    """The lines of a journal. One that was cut had no effect yet: what it names was not done."""
    lines: list[Line] = []
    for line in text.splitlines():
        with suppress(msgspec.MsgspecError):
            lines.append(_decode(line))
    return lines


def _clear(lookup: Lookup, lines: list[Line]) -> bool:
    """Clear up; whether nothing is left. A journal without a head names nothing."""
    if not lines or not isinstance(lines[0], Header):
        return True
    return _Cleaning(lookup, lines[0].token, lines).run()


class _Cleaning:
    """One dead store's things, found and cleared."""

    def __init__(self, lookup: Lookup, token: str, lines: list[Line]) -> None:
        self._lookup: Final = lookup
        self._prefix: Final = stage_prefix(token)
        self._depth_max: Final = lookup.settings.limits.depth_max
        self._directories: Final = [line for line in lines if isinstance(line, JournalDirectory)]
        self._swaps: Final = {line.stage: line for line in lines if isinstance(line, Swap)}
        self._is_clear = True

    def run(self) -> bool:
        named = [line for line in self._directories if line.path != REMOVED]
        if len(named) < len(self._directories):
            self._sweep_removed()
        moved = [line for line in named if not self._sweep_named(line)]
        if moved:
            # Renamed or removed since: its litter, if any, is somewhere in the tree.
            self._sweep_everything()
        return self._is_clear

    def _sweep_named(self, line: JournalDirectory) -> bool:
        """Sweep the directory of that very path, reached without a link; whether it is there."""
        try:
            held = self._lookup.find_object(ScopedPath(line.path), True)
        except BailiwickError:
            return False
        try:
            if held.path != line.path or held.status is None or held.status.st_ino != line.inode:
                return False
            fd = held.open_for_listing()
        except OSError:
            return False
        finally:
            held.close()
        try:
            self._sweep(fd)
        finally:
            os.close(fd)
        return True

    def _sweep_removed(self) -> None:
        """Take the rest of what was being removed, and the place for that, where it is empty. What
        others have put there, be it no directory or one that is shut, holds nothing of ours."""
        top = self._lookup.root.fd
        try:
            fd = os.open(REMOVED, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=top)
        except OSError as error:
            found = lstat_at(top, REMOVED)
            is_ours = found is not None and found.st_uid == os.geteuid()
            self._is_clear = error.errno in _NOT_THERE or not is_ours
            return
        try:
            self._sweep(fd)
        finally:
            os.close(fd)
        with suppress(OSError):
            os.rmdir(REMOVED, dir_fd=top)

    def _sweep_everything(self) -> None:
        """Sweep the whole tree, links not followed and kernel filesystems not entered."""
        stack: list[tuple[int, list[str]]] = []
        try:
            self._descend(stack, self._lookup.root.fd, ".")
            while stack:
                fd, inner = stack[-1]
                if not inner:
                    os.close(stack.pop()[0])
                elif len(stack) < self._depth_max:
                    self._descend(stack, fd, inner.pop())
                else:
                    inner.clear()
        finally:
            for fd, _ in stack:
                os.close(fd)

    def _descend(self, stack: list[tuple[int, list[str]]], parent: int, name: str) -> None:
        inner: list[str] = []
        try:
            fd = os.open(name, syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW, dir_fd=parent)
        except OSError:
            return  # gone, or not ours to look into
        stack.append((fd, inner))
        with suppress(OSError):
            self._lookup.check_mount(fd, ROOT)
            check_filesystem(fd, ROOT)
            inner += self._sweep(fd)

    def _sweep(self, directory: int) -> list[str]:
        """Clear one directory of what carries the token; the names of its own directories."""
        inner: list[str] = []
        ours: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith(self._prefix):
                    ours.append(entry.name)
                elif leads_down(entry):
                    inner.append(entry.name)
        for name in ours:
            try:
                if (swap := self._swaps.get(name)) is not None:
                    self._settle(directory, swap)
                remove_litter(directory, name)
            except OSError:
                self._is_clear = False
        return inner

    def _settle(self, directory: int, swap: Swap) -> None:
        """Finish or undo a swap: what is then under its staging name may go.

        New content there: the swap did not happen, or was undone. The old content, unharmed: it is
        finished. Anything else is foreign and was taken out by us: it goes back, unless someone
        has put something newer under the name since.
        """
        out = lstat_at(directory, swap.stage)
        if out is None or out.st_ino == swap.new_inode:
            return
        if out.st_ino == swap.old_inode and _is_unharmed(directory, swap):
            return
        now = lstat_at(directory, swap.name)
        if now is None:
            syscalls.rename_new(directory, swap.stage, directory, swap.name)
        elif now.st_ino == swap.new_inode:
            syscalls.exchange(directory, swap.stage, directory, swap.name)


def _is_unharmed(directory: int, swap: Swap) -> bool:
    """Whether what came out of a swap still has the content it had before."""
    fd = os.open(swap.stage, syscalls.READ_FLAGS | syscalls.O_NOFOLLOW, dir_fd=directory)
    try:
        return (
            os.fstat(fd).st_size == swap.old_size
            and hash_of(fd, swap.old_hashed, UNSTOPPABLE) == swap.old_sha256
        )
    finally:
        os.close(fd)
