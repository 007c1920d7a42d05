"""Publishing that depends on the old content: compare-and-swap, append, truncate.

The old file is locked by its inode (flock, no lock files), hashed, and exchanged with the staged
one in a single step. What comes out must be the very file that was hashed, with the very content:
otherwise a foreign writer was there, the swap is undone and nothing of theirs is lost. Readers may
see the new content for that instant.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import msgspec

from bailiwick.errors import (
    Busy,
    FileAlreadyExists,
    ParseError,
    PathNotFound,
)
from bailiwick.model import Expected
from bailiwick.store import WritePlan, Written
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.flush_pace import flush
from bailiwick.stores.disk.journal import Swap
from bailiwick.stores.disk.lookup.handles import Held, lstat_at, same_object
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.current import (
    PIECE_BYTES,
    CurrentFile,
    check_expected,
    current_mismatch,
    missing,
    open_current,
)
from bailiwick.stores.disk.writes.publisher import Publisher, StagedFile, check_size, too_large

Fill = Callable[[StagedFile, CurrentFile | None, Stop], str]
"""Writes the new content into a stage and returns its hash; the old is open beside it."""


class Raced(Exception):
    """A foreign change came between check and publish. Nothing was changed by us."""


class Swapper:
    """Publishes conditionally for one store."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher: Final = publisher
        self._limits: Final = publisher.settings.limits
        self._durable: Final = publisher.settings.durable
        self.can_exchange = True

    # --- verbs --------------------------------------------------------------------------------

    def write_blocking(
        self, held: Held, data: bytes, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        if len(data) > plan.size_max:
            raise too_large(plan, held.path)

        def fill(stage: StagedFile, _current: CurrentFile | None, _stop: Stop) -> str:
            stage.write(data)
            return sha256

        return self._once(held, plan, fill, stop)

    def publish_staged_blocking(
        self, held: Held, stage: StagedFile, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        """Swap in content that is already staged; the caller discards it on failure."""
        current = open_current(self._publisher, held, plan, stop)
        try:
            check_expected(held, current, plan, stop)
            if current is None:
                raise missing(held.path, plan)
            return self._swap_in(held, stage, current, sha256, plan, stop)
        except Raced:
            raise current_mismatch(self._publisher, held, plan, stop) from None
        finally:
            if current is not None:
                current.close()

    def check_blocking(self, held: Held, plan: WritePlan, stop: Stop) -> None:
        """Refuse now what publishing would refuse."""
        current = open_current(self._publisher, held, plan, stop)
        try:
            check_expected(held, current, plan, stop)
        finally:
            if current is not None:
                current.close()

    def append_blocking(self, held: Held, data: bytes, plan: WritePlan, stop: Stop) -> Written:
        def fill(stage: StagedFile, current: CurrentFile | None, stop: Stop) -> str:
            digest = hashlib.sha256()
            size = 0
            if current is not None:
                check_size(current.status.st_size + len(data), plan, held.path)
                size = _copy(current.fd, stage, digest, plan.size_max, stop)
                current.seal(digest.hexdigest(), size)
            check_size(size + len(data), plan, held.path)
            stage.write(data)
            digest.update(data)
            return digest.hexdigest()

        return self._until_quiet(held, plan, fill, stop)

    def truncate_blocking(self, held: Held, size: int, plan: WritePlan, stop: Stop) -> Written:
        if size < 0:
            raise ParseError("a size cannot be negative", path=held.path)
        check_size(size, plan, held.path)

        def fill(stage: StagedFile, current: CurrentFile | None, stop: Stop) -> str:
            if current is None:
                raise PathNotFound("no such file or directory", path=held.path)
            digest = hashlib.sha256()
            kept = _copy(current.fd, stage, digest, size, stop)
            current.seal(digest.hexdigest(), kept)
            os.ftruncate(stage.fd, size)
            _hash_zeros(digest, size - kept, stop)
            return digest.hexdigest()

        return self._until_quiet(held, plan, fill, stop)

    def make_own_blocking(
        self,
        held: Held,
        file_mode: int | None,
        mtime_ns: int | None,
        atime_ns: int | None,
        expected: Expected,
        stop: Stop,
    ) -> Written:
        """Set the mode or the times of a file that has other names: on a copy in its place, so that
        the other names keep what they have. None keeps what it is."""

        def fill(stage: StagedFile, current: CurrentFile | None, stop: Stop) -> str:
            if current is None:
                raise PathNotFound("no such file or directory", path=held.path)
            digest = hashlib.sha256()
            size = _copy(current.fd, stage, digest, sys.maxsize, stop)
            current.seal(digest.hexdigest(), size)
            old = current.status
            modified = old.st_mtime_ns if mtime_ns is None else mtime_ns
            accessed = old.st_atime_ns if atime_ns is None else atime_ns
            os.utime(stage.fd, ns=(accessed, modified))
            return digest.hexdigest()

        plan = WritePlan(
            file_mode=file_mode, size_max=sys.maxsize, expected_version=expected.version,
            expected_sha256=expected.sha256,
        )  # fmt: skip
        return self._until_quiet(held, plan, fill, stop)

    # --- rounds -------------------------------------------------------------------------------

    def _until_quiet(self, held: Held, plan: WritePlan, fill: Fill, stop: Stop) -> Written:
        """Redo the whole on the newest content whenever a foreign writer came between."""
        if plan.conditional:
            return self._once(held, plan, fill, stop)
        for _ in range(self._limits.busy_retries_max):
            try:
                return self._round(held, plan, fill, stop)
            except Raced:
                stop.take_back()
                stop.check()
        raise Busy("others keep changing this file", path=held.path)

    def _once(self, held: Held, plan: WritePlan, fill: Fill, stop: Stop) -> Written:
        try:
            return self._round(held, plan, fill, stop)
        except Raced:
            raise current_mismatch(self._publisher, held, plan, stop) from None

    def _round(self, held: Held, plan: WritePlan, fill: Fill, stop: Stop) -> Written:
        current = open_current(self._publisher, held, plan, stop)
        try:
            check_expected(held, current, plan, stop)
            stage = self._publisher.stage(held)
            try:
                sha256 = fill(stage, current, stop)
                if current is None:
                    return self._create(held, stage, sha256, plan, stop)
                return self._swap_in(held, stage, current, sha256, plan, stop)
            except BaseException:
                stage.discard()
                raise
        finally:
            if current is not None:
                current.close()

    def _create(
        self, held: Held, stage: StagedFile, sha256: str, plan: WritePlan, stop: Stop
    ) -> Written:
        if plan.mode == "replace" or plan.conditional:
            raise missing(held.path, plan)
        create = msgspec.structs.replace(plan, mode="create")
        try:
            return self._publisher.publish(held, stage, sha256, create, stop)
        except FileAlreadyExists:
            if plan.mode == "create":
                raise
            raise Raced from None

    # --- the swap -----------------------------------------------------------------------------

    def _swap_in(
        self,
        held: Held,
        stage: StagedFile,
        current: CurrentFile,
        sha256: str,
        plan: WritePlan,
        stop: Stop,
    ) -> Written:
        self._publisher.set_mode(stage, current.status, plan)
        if self._durable:
            flush(stage.fd)
        self._publisher.check_ready(held, stage.name, stage.status)
        put = self._exchange if self.can_exchange else self._replace
        if self._durable:
            with Flushing(True, held.parent):
                put(held, stage, current, stop)
        else:
            put(held, stage, current, stop)
        return stage.published(current.status, sha256)

    def _exchange(self, held: Held, stage: StagedFile, current: CurrentFile, stop: Stop) -> None:
        journal = self._publisher.journal
        journal.swapping(
            Swap(
                directory=str(held.parent_path),
                name=str(held.name),
                stage=stage.name,
                old_inode=current.status.st_ino,
                old_size=current.status.st_size,
                old_hashed=current.hashed,
                old_sha256=current.sha256,
                new_inode=stage.status.st_ino,
            )
        )
        stop.commit()
        try:
            syscalls.exchange(stage.directory, stage.name, held.parent, held.name)
        except FileNotFoundError:
            raise Raced from None  # the name is gone
        except OSError as error:
            if error.errno not in syscalls.NO_SUCH_RENAME:
                raise
            self.can_exchange = False
            self._replace(held, stage, current, stop)
            return
        self._settle(held, stage, current, stop)
        journal.swapped(stage.name)

    def _settle(self, held: Held, stage: StagedFile, current: CurrentFile, stop: Stop) -> None:
        """After the exchange: remove the old file if it is the one that was hashed, or undo."""
        out = lstat_at(stage.directory, stage.name)
        if out is None:
            return  # someone cleared the staging name, which only held what we replaced
        try:
            same = same_object(out, current.status) and current.is_unchanged(stop)
        except BaseException:
            self._put_back(held, stage)
            raise
        if not same:
            self._put_back(held, stage)
            self._publisher.journal.swapped(stage.name)
            raise Raced
        stage.clear_name()

    def _put_back(self, held: Held, stage: StagedFile) -> None:
        """Undo a swap so that the newest foreign content ends under the name.

        Each exchange brings out what was put under the name last. Ours, or something older that
        was out before: done. Anything else is newer still, and goes back in turn.
        """
        older = {stage.status.st_ino}
        with ExitStack() as kept_open:  # a file that is gone leaves its number to the next one
            for _ in range(self._limits.busy_retries_max):
                try:
                    older.add(_kept_open(stage, kept_open))
                    syscalls.exchange(stage.directory, stage.name, held.parent, held.name)
                except FileNotFoundError:
                    # The name was removed meanwhile: what we took out is all there is.
                    try:
                        syscalls.rename_new(stage.directory, stage.name, held.parent, held.name)
                    except FileExistsError:
                        continue
                    except FileNotFoundError:
                        pass
                    return
                out = lstat_at(stage.directory, stage.name)
                if out is None:
                    return
                if out.st_ino in older:
                    stage.clear_name()
                    return
        # The newest that was seen, by those who do not stop: it is theirs to be followed.
        syscalls.rename_over(
            stage.name, held.name, src_dir_fd=stage.directory, dst_dir_fd=held.parent
        )
        raise Busy("others keep changing this file", path=held.path)

    def _replace(self, held: Held, stage: StagedFile, current: CurrentFile, stop: Stop) -> None:
        """Swap in without an exchange: a look, then a rename, and an instant between."""
        now = lstat_at(held.parent, held.name)
        if now is None or not same_object(now, current.status) or not current.is_unchanged(stop):
            raise Raced
        stop.commit()
        syscalls.rename_over(
            stage.name, held.name, src_dir_fd=stage.directory, dst_dir_fd=held.parent
        )


def _kept_open(stage: StagedFile, kept_open: ExitStack) -> int:
    """The number of what lies under the staging name, which is no other file's while it is kept."""
    flags = (syscalls.O_PATH or os.O_RDONLY) | os.O_NOFOLLOW | syscalls.O_CLOEXEC
    fd = os.open(stage.name, flags, dir_fd=stage.directory)
    kept_open.callback(os.close, fd)
    return os.fstat(fd).st_ino


def _copy(fd: int, stage: StagedFile, digest: hashlib._Hash, length: int, stop: Stop) -> int:
    """Copy the first ``length`` bytes into a stage, hashing them; how many there were."""
    offset = 0
    while offset < length:
        piece = os.pread(fd, min(PIECE_BYTES, length - offset), offset)
        if not piece:
            break
        digest.update(piece)
        stage.write(piece)
        offset += len(piece)
        stop.check()
    return offset


def _hash_zeros(digest: hashlib._Hash, count: int, stop: Stop) -> None:
    zeros = bytes(min(count, PIECE_BYTES))
    while count > 0:
        digest.update(zeros[:count])
        count -= PIECE_BYTES
        stop.check()
