"""Moving a staged tree into an existing directory, so that all of it can be undone.

A file that is replaced is exchanged with the new one: the old file then lies in the stage, whole,
until everything is in place. Undoing goes backwards and touches only what this merge made: where
someone else has changed a name since, theirs stays.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple, TypeVar

from bailiwick.errors import (
    BailiwickError,
    Busy,
    FileAlreadyExists,
    IsADirectory,
    NotADirectory,
    SymlinkEscape,
    Unsupported,
    from_os_error,
)
from bailiwick.paths import RESERVED_PREFIX, ScopedPath
from bailiwick.store import Staged, StagedRemoval
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.beneath import check_filesystem
from bailiwick.stores.disk.lookup.handles import check_readable, lstat_at, same_object, version_of
from bailiwick.stores.disk.lookup.trails import Trail, open_up
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.publisher import Publisher, rename_new

T = TypeVar("T", Staged, StagedRemoval)

_Kind = Literal["directory", "new", "exchanged", "linked", "taken", "removed"]


class MergeStep(NamedTuple):
    """One step that can be undone: what stands there now by our doing, or stood there before."""

    kind: _Kind
    path: ScopedPath
    status: os.stat_result
    kept: str = ""


class TreeMerge:
    """One merge under way."""

    def __init__(
        self, publisher: Publisher, stage: Trail, target: int, path: ScopedPath, replace: bool
    ) -> None:
        """``target`` is the directory that is merged into, owned from here on."""
        self._publisher: Final = publisher
        self._stage: Final = stage
        self._target: Final = Trail(target)
        self._path: Final = path
        self._replace: Final = replace
        self._done: list[MergeStep] = []
        self._made: dict[ScopedPath, Staged] = {}
        self._entered: set[ScopedPath] = set()

    def close(self) -> None:
        self._target.close()

    def run(
        self, directories: Mapping[ScopedPath, Staged], leaves: Sequence[Staged], stop: Stop
    ) -> None:
        try:
            for path in sorted(directories, key=lambda each: each.order):
                stop.check()
                self._step(self._directory, directories[path])
            for leaf in leaves:
                stop.check()
                self._step(self._leaf, leaf)
            self._finish()
            stop.commit()
        except BaseException:
            self._undo()
            raise

    def _step(self, job: Callable[[T, ScopedPath], None], step: T) -> None:
        final = step.path.beneath(self._path)
        try:
            job(step, final)
        except OSError as error:
            if error.errno == errno.EXDEV and not isinstance(error, BailiwickError):
                why = "another filesystem is mounted there: unpack into it by itself"
                raise Unsupported(why, path=final) from None
            raise from_os_error(error, final) from None

    # --- steps --------------------------------------------------------------------------------

    def _directory(self, step: Staged, final: ScopedPath) -> None:
        path = step.path
        parent = self._target.go(path.parent)
        try:
            syscalls.mkdir(path.name, 0o700, dir_fd=parent)
        except FileExistsError:
            self._enter(parent, path, final)
            return
        self._note("directory", path, parent)
        self._made[path] = step

    def _enter(self, parent: int, path: ScopedPath, final: ScopedPath) -> None:
        """A directory that exists already: looked at as any that a lookup comes by."""
        found = os.lstat(path.name, dir_fd=parent)
        if stat_bits.S_ISLNK(found.st_mode):
            raise SymlinkEscape("is a link, and nothing is unpacked through one", path=final)
        if not stat_bits.S_ISDIR(found.st_mode):
            raise NotADirectory("a directory of the archive meets something else", path=final)
        lookup = self._publisher.lookup
        fd = self._target.go(path)
        lookup.check_mount(fd, final)
        if os.fstat(fd).st_dev != lookup.root.dev:
            check_filesystem(fd, final)
        self._entered.add(path)

    def _leaf(self, step: Staged, final: ScopedPath) -> None:
        path, name = step.path, step.path.name
        origin, target = self._stage.go(path.parent), self._target.go(path.parent)
        status = os.lstat(name, dir_fd=origin)
        try:
            rename_new(origin, name, target, name, final)
        except FileAlreadyExists:
            self._over(step, final, status)
        else:
            self._note("new", path, target)

    def _over(self, step: Staged, final: ScopedPath, status: os.stat_result) -> None:
        """Put a file in the place of a file."""
        name = step.path.name
        origin, target = self._stage.go(step.path.parent), self._target.go(step.path.parent)
        current = lstat_at(target, name)
        if current is None:
            raise Busy("others keep making and removing this file", path=final)
        if not self._replace or step.type == "symlink":
            raise FileAlreadyExists("already exists", path=final)
        self._check_replaceable(current, final)
        if (status.st_uid, status.st_gid) != (current.st_uid, current.st_gid):
            # Best effort, as when any file is replaced.
            with suppress(OSError):
                owner = current.st_uid, current.st_gid
                os.chown(name, *owner, dir_fd=origin, follow_symlinks=False)
        try:
            syscalls.exchange(origin, name, target, name)
        except OSError as error:
            if error.errno not in syscalls.NO_SUCH_RENAME:
                raise
            self._over_by_link(step.path, origin, target)
            return
        self._note("exchanged", step.path, target)
        # What came out may be newer than what was looked at: then the undoing puts it back.
        self._check_replaceable(os.lstat(name, dir_fd=origin), final)

    def _over_by_link(self, path: ScopedPath, origin: int, target: int) -> None:
        """Replace where two names cannot be exchanged: the old file first gets a second name."""
        kept = f"{RESERVED_PREFIX}{len(self._done)}"  # which no entry of a stage is called
        os.link(path.name, kept, src_dir_fd=target, dst_dir_fd=origin, follow_symlinks=False)
        syscalls.rename_over(path.name, path.name, src_dir_fd=origin, dst_dir_fd=target)
        self._note("linked", path, target, kept)

    def _note(self, kind: _Kind, path: ScopedPath, target: int, kept: str = "") -> None:
        """Remember what stands there now by our doing, as exactly as it can be told from others:
        a file that is removed and made anew may well get the same inode."""
        self._done.append(MergeStep(kind, path, os.lstat(path.name, dir_fd=target), kept))

    def _check_replaceable(self, current: os.stat_result, final: ScopedPath) -> None:
        if stat_bits.S_ISDIR(current.st_mode):
            raise IsADirectory("a file of the archive meets a directory", path=final)
        if stat_bits.S_ISLNK(current.st_mode):
            raise SymlinkEscape("is a link, and writing through one is refused", path=final)
        check_readable(current, final, self._publisher.settings.hardlinks)

    def _finish(self) -> None:
        """Modes and times of the directories that were made, and all names made durable."""
        modes, durable = self._publisher.modes, self._publisher.settings.durable
        for path in sorted(self._made, reverse=True):
            step, fd = self._made[path], self._target.go(path)
            if step.mtime_ns is not None:
                os.utime(fd, ns=(step.mtime_ns, step.mtime_ns))
            os.fchmod(fd, modes.directory if step.file_mode is None else step.file_mode & 0o777)
            if durable:
                syscalls.flush(fd)
        if durable:
            for path in sorted(self._entered):
                syscalls.flush(self._target.go(path))
            syscalls.flush(self._target.top)

    # --- undoing ------------------------------------------------------------------------------

    def _undo(self) -> None:
        for path in sorted(self._made):  # some may have a mode by now that keeps all in them
            with suppress(OSError):
                open_up(self._target.go(path.parent), path.name)
        for done in reversed(self._done):
            with suppress(OSError):
                self._undo_one(done)

    def _undo_one(self, done: MergeStep) -> None:
        name = done.path.name
        target = self._target.go(done.path.parent)
        if done.kind == "directory":
            os.rmdir(name, dir_fd=target)  # unless someone has put something into it
            return
        found = lstat_at(target, name)
        if found is None or version_of(found) != version_of(done.status):
            return
        origin = self._stage.go(done.path.parent)
        if done.kind == "exchanged":
            syscalls.exchange(origin, name, target, name)
        elif done.kind == "linked":
            syscalls.rename_over(done.kept, name, src_dir_fd=origin, dst_dir_fd=target)
        else:
            self._take_back(origin, target, name, done.status)

    def _take_back(self, origin: int, target: int, name: str, status: os.stat_result) -> None:
        """Take a new file out again, by a rename: what is not ours goes back unharmed."""
        try:
            syscalls.rename_new(target, name, origin, name)
        except OSError as error:
            if error.errno not in (*syscalls.NO_SUCH_RENAME, errno.EEXIST):
                raise
            syscalls.unlink(name, dir_fd=target)
            return
        found = os.lstat(name, dir_fd=origin)
        if not same_object(found, status) or found.st_mtime_ns != status.st_mtime_ns:
            syscalls.rename_new(origin, name, target, name)
