"""New content under a name: staged beside it, then put in its place in one step.

Nothing is ever written through an existing file: a name gets a new file or keeps its old one.
Whatever fails before that step leaves the tree as it was. Conditional publishing, where the old
content matters, is in `bailiwick.stores.disk.writes.compare_and_swap`.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from contextlib import suppress
from typing import Final

from bailiwick.errors import (
    Busy,
    FileAlreadyExists,
    FileTooLarge,
    IsADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan, Written
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.directories import Flushing, MadeDirectories
from bailiwick.stores.disk.changes.modes import NewModes
from bailiwick.stores.disk.flush_pace import flush
from bailiwick.stores.disk.journal import Journal
from bailiwick.stores.disk.lookup.beneath import Lookup, moved_meanwhile
from bailiwick.stores.disk.lookup.handles import (
    FORMAT_MASK,
    VERSION,
    Held,
    check_readable,
    lstat_at,
    new_tuple,
    same_object,
)
from bailiwick.stores.disk.workers import Stop

_REPLACEABLE: Final = (None, "file")

_STAGE_MODE: Final = 0o600

_MAKES_NO_NAME: Final = (errno.EEXIST, *syscalls.NO_SUCH_RENAME)
"""What a rename answers that does not make the name: it is there, or this cannot be asked for."""


class StagedFile:
    """A file being written under a staging name, in the directory an entry is held by."""

    __slots__ = ("directory", "fd", "journal", "mode", "name", "status")

    def __init__(
        self, directory: int, name: str, fd: int, status: os.stat_result, journal: Journal
    ) -> None:
        self.directory = directory
        self.name = name
        self.fd = fd
        self.journal = journal
        self.mode = _STAGE_MODE
        self.status = status

    def write(self, data: bytes | memoryview) -> None:
        _write_all(self.fd, data)

    def is_ours(self) -> bool:
        """Whether the staging name still stands for the file that was written."""
        return _stands_for(self.status, self.directory, self.name)

    def published(self, replaced: os.stat_result | None, sha256: str) -> Written:
        """What was made of it; the stage is done with."""
        fd, self.fd = self.fd, -1
        return _published(fd, replaced, sha256, self.mode)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def discard(self) -> None:
        """Take the staged file away again; it was never published."""
        try:
            if not self.journal.is_anothers and self.is_ours():
                syscalls.unlink(self.name, dir_fd=self.directory)
        except OSError:
            self.journal.keep()
        self.close()

    def clear_name(self) -> None:
        """Remove what lies under the staging name after an exchange."""
        try:
            syscalls.unlink(self.name, dir_fd=self.directory)
        except FileNotFoundError:
            pass
        except OSError:
            self.journal.keep()


class Publisher:
    """Stages and publishes for one store."""

    def __init__(self, lookup: Lookup, journal: Journal, modes: NewModes) -> None:
        self.lookup: Final = lookup
        self.settings: Final = lookup.settings
        self.journal: Final = journal
        self.modes: Final = modes
        self._durable: Final = lookup.settings.durable
        self._hardlinks: Final = lookup.settings.hardlinks
        self._retries: Final = lookup.settings.limits.busy_retries_max
        self._leads_to: Final = lookup.leads_to

    # --- the whole of an unconditional write --------------------------------------------------

    def write_blocking(
        self, held: Held, data: bytes, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        if len(data) > plan.size_max:
            raise too_large(plan, held.path)
        if (
            held.type in _REPLACEABLE
            and plan.mode == "overwrite"
            and plan.file_mode is None
            and not self._durable
            and not held.missing
            and held.parent_path in self.journal.directories
        ):
            return self._write_simply(held, data, sha256, plan, stop)
        self.check_early(held, plan)
        stage = self.stage(held)
        try:
            stage.write(data)
            return self.publish(held, stage, sha256, plan, stop)
        except BaseException:
            stage.discard()
            raise

    def _write_simply(
        self, held: Held, data: bytes, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        """The usual write, of a file over a file or of a new one, in one piece: `stage`,
        `check_ready`, `check_target`, `set_mode` and `publish` in their order, without what they
        are for beyond it. One by one they take a tenth longer, and for a new file a third. Whatever
        turns out to be unusual is left to them.
        """
        directory, target = held.parent, held.name
        name = self.journal.new_stage_name()
        try:
            fd = syscalls.open_at(name, syscalls.STAGE_FLAGS, _STAGE_MODE, dir_fd=directory)
        except FileExistsError:
            name, fd = self._open_stage(directory)
        staged = self._status_of_new(directory, name, fd)
        current: os.stat_result | None = None
        mode = None
        try:
            written = syscalls.write(fd, data)
            if written != len(data):
                _write_all(fd, memoryview(data)[written:])
            self.check_ready(held, name, staged)
            if held.status is None:
                mode = self._put_new(held, name, fd, stop)
            elif (
                (current := lstat_at(directory, target)) is not None
                and current.st_mode & FORMAT_MASK == stat_bits.S_IFREG
                and current.st_nlink == 1
                and current.st_uid == staged.st_uid
                and current.st_gid == staged.st_gid
            ):
                mode = current.st_mode & 0o777
                if mode != _STAGE_MODE:
                    os.fchmod(fd, mode)
                stop.commit()
                syscalls.rename_over(name, target, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            StagedFile(directory, name, fd, staged, self.journal).discard()
            raise
        if mode is not None:
            return _published(fd, current, sha256, mode)
        stage = StagedFile(directory, name, fd, staged, self.journal)
        stage.mode = -1  # it may have been given one already
        try:
            return self._put_in_place(held, stage, sha256, plan, stop)
        except BaseException:
            stage.discard()
            raise

    def _put_new(self, held: Held, name: str, fd: int, stop: Stop) -> int | None:
        """Give a staged file the name that the lookup found free; its mode, None where it is not
        made so. Without another look: what makes a name never replaces."""
        mode = self.modes.file
        if mode != _STAGE_MODE:
            os.fchmod(fd, mode)
        stop.commit()
        try:
            syscalls.rename_new(held.parent, name, held.parent, held.name)
        except OSError as error:
            if error.errno not in _MAKES_NO_NAME:
                raise
            stop.take_back()
            return None
        return mode

    # --- steps --------------------------------------------------------------------------------

    def check_early(self, held: Held, plan: WritePlan) -> None:
        """Refuse before anything is staged what the lookup has already seen to be refused.

        Only a look now may refuse, since the lookup may be long ago; where it saw nothing wrong,
        the look before publishing is enough.
        """
        if held.type not in _REPLACEABLE or plan.mode == "create" or held.missing:
            self.check_target(held, plan)

    def check_target(self, held: Held, plan: WritePlan) -> os.stat_result | None:
        """What stands under the name now; refuses what may not be replaced."""
        if held.path == ".":
            if plan.mode == "create":
                raise FileAlreadyExists("already exists", path=held.path)
            raise IsADirectory("is a directory", path=held.path)
        if held.missing:
            if not plan.parents:
                raise PathNotFound("no such file or directory", path=held.path)
            return None
        try:
            current = os.lstat(held.name, dir_fd=held.parent)
        except FileNotFoundError:
            return None
        if plan.mode == "create":
            raise FileAlreadyExists("already exists", path=held.path)
        if current.st_mode & FORMAT_MASK != stat_bits.S_IFREG or current.st_nlink != 1:
            if stat_bits.S_ISLNK(current.st_mode):
                raise _link_in_the_way(held)
            check_readable(current, held.path, self._hardlinks)
        return current

    def stage(self, held: Held) -> StagedFile:
        """Make an empty private file beside the target, or where its parents will be made."""
        directory = held.parent
        self.journal.staging_in(held.parent_path, directory)
        name, fd = self._open_stage(directory)
        return StagedFile(
            directory, name, fd, self._status_of_new(directory, name, fd), self.journal
        )

    def _status_of_new(self, directory: int, name: str, fd: int) -> os.stat_result:
        """What a file is that was just made. Without that it cannot be told from another's, so it
        is taken away by its name, which nobody else has."""
        try:
            return os.fstat(fd)
        except BaseException:
            os.close(fd)
            try:
                syscalls.unlink(name, dir_fd=directory)
            except OSError:
                self.journal.keep()
            raise

    def _open_stage(self, directory: int) -> tuple[str, int]:
        """A new file under a name of our own; the directory must be in the journal already."""
        name = self.journal.new_stage_name()
        while True:
            try:
                return name, syscalls.open_at(
                    name, syscalls.STAGE_FLAGS, _STAGE_MODE, dir_fd=directory
                )
            except FileExistsError:
                name = self.journal.new_stage_name(taken=True)

    def set_mode(self, stage: StagedFile, current: os.stat_result | None, plan: WritePlan) -> None:
        """Give the staged file the mode, and the owner of what it replaces, that it shall have."""
        ours = stage.status
        if current is not None and (ours.st_uid, ours.st_gid) != (current.st_uid, current.st_gid):
            # Best effort: only root may give a file away, and only a member may give it a group.
            with suppress(OSError):
                os.fchown(stage.fd, current.st_uid, current.st_gid)
        if plan.file_mode is not None:
            mode = plan.file_mode & 0o777
        elif current is not None:
            mode = current.st_mode & 0o777
        else:
            mode = self.modes.file
        if mode != stage.mode:
            os.fchmod(stage.fd, mode)
            stage.mode = mode

    def publish(
        self, held: Held, stage: StagedFile, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        """Put the staged file under the name. On failure nothing has changed."""
        if self._durable:
            self.set_mode(stage, self.check_target(held, plan), plan)
            flush(stage.fd)
        self.check_ready(held, stage.name, stage.status)
        return self._put_in_place(held, stage, sha256, plan, stop)

    def _put_in_place(
        self, held: Held, stage: StagedFile, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        for _ in range(self._retries):
            # The last look: a link or directory put there since is refused. One put there after
            # this line loses its name, but is never written through.
            current = self.check_target(held, plan)
            self.set_mode(stage, current, plan)
            stop.commit()
            try:
                if held.missing or self._durable:
                    self._put_durably(held, stage, current is not None)
                else:
                    _put(held, stage, current is not None)
            except FileAlreadyExists:
                stop.take_back()
                if plan.mode == "create":
                    raise
                continue  # someone made it in that instant: replace theirs
            return stage.published(current, sha256)
        raise Busy("others keep making and removing this file", path=held.path)

    def _put_durably(self, held: Held, stage: StagedFile, replace: bool) -> None:
        if held.missing:
            self._put_with_parents(held, stage)
        else:
            with Flushing(self._durable, stage.directory):
                _put(held, stage, replace)

    def check_ready(self, held: Held, name: str, staged: os.stat_result) -> None:
        """The last look at where it goes: the directory has not moved, the staged file is ours.

        One lookup from the root says both: the staging name is reached there, without a link, and
        stands for our file, which has no second name by which it could be shown elsewhere.
        """
        path = held.parent_path
        if path == ".":
            ours = _stands_for(staged, held.parent, name)
        else:
            ours = self._leads_to(f"{path}/{name}", staged, True)
        if not ours:
            raise moved_meanwhile(held.path)

    def _put_with_parents(self, held: Held, stage: StagedFile) -> None:
        made = MadeDirectories(held.parent, self.modes.directory, self._durable)
        try:
            parent = made.make_all(held.missing)
            with Flushing(self._durable, parent):
                rename_new(stage.directory, stage.name, parent, held.name, held.path)
            held.made = made.paths(held)
        except BaseException:
            made.unmake()
            raise
        finally:
            made.close()


def _write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data``, however little of it one call takes."""
    written = syscalls.write(fd, data)
    while written < len(data):
        data = memoryview(data)[written:]
        written = syscalls.write(fd, data)


def _stands_for(staged: os.stat_result, directory: int, name: str) -> bool:
    """Whether a name stands for the file that was staged."""
    found = lstat_at(directory, name)
    return found is not None and same_object(found, staged)


def _published(fd: int, replaced: os.stat_result | None, sha256: str, mode: int) -> Written:
    """What came of a staged file that has its name now; closes it."""
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    size = status.st_size
    version = VERSION % (status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)
    before = None if replaced is None else replaced.st_size
    return new_tuple(Written, (replaced is None, size, sha256, version, mode, before))


def _link_in_the_way(held: Held) -> SymlinkEscape:
    """Where it leads is not said here: a store does not know who may hear it."""
    return SymlinkEscape("is a link, and writing through one is refused", path=held.path)


def _put(held: Held, stage: StagedFile, replace: bool) -> None:
    """The instant of publishing."""
    directory = stage.directory
    if replace:
        syscalls.rename_over(stage.name, held.name, src_dir_fd=directory, dst_dir_fd=directory)
    else:
        rename_new(directory, stage.name, directory, held.name, held.path)


def rename_new(from_fd: int, source: str, to_fd: int, target: str, path: ScopedPath) -> None:
    """Rename to a name that must be free, also where the kernel has no word for that."""
    try:
        syscalls.rename_new(from_fd, source, to_fd, target)
    except FileExistsError:
        raise FileAlreadyExists("already exists", path=path) from None
    except OSError as error:
        if error.errno not in syscalls.NO_SUCH_RENAME:
            raise
        _link_new(from_fd, source, to_fd, target, path)


def _link_new(from_fd: int, source: str, to_fd: int, target: str, path: ScopedPath) -> None:
    """Rename by a second name, which never replaces; directories cannot have one."""
    found = os.stat(source, dir_fd=from_fd, follow_symlinks=False)
    if stat_bits.S_ISDIR(found.st_mode):
        if lstat_at(to_fd, target) is not None:
            raise FileAlreadyExists("already exists", path=path)
        syscalls.rename_over(source, target, src_dir_fd=from_fd, dst_dir_fd=to_fd)
        return
    try:
        os.link(source, target, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
    except FileExistsError:
        raise FileAlreadyExists("already exists", path=path) from None
    syscalls.unlink(source, dir_fd=from_fd)


def check_size(size: int, plan: WritePlan, path: ScopedPath) -> None:
    if size > plan.size_max:
        raise too_large(plan, path)


def too_large(plan: WritePlan, path: ScopedPath) -> FileTooLarge:
    return FileTooLarge(
        f"the file would be larger than {plan.size_max} bytes",
        path=path,
        details={"limit": plan.size_max},
    )
