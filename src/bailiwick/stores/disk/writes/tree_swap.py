"""Much that goes, comes and becomes another in an existing directory at once, each on a condition.

A merge (`bailiwick.stores.disk.writes.tree_merge`) that also takes away. What goes is given a name
in the stage, and what is replaced is exchanged with what comes, so that what came out can be looked
at: where it is not what was expected, somebody else was quicker, and all of it is undone. What came
out lies in the stage, whole, until everything is in place.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat as stat_bits
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

from bailiwick.errors import FileAlreadyExists, NotADirectory, PathNotFound
from bailiwick.model import Expected
from bailiwick.paths import RESERVED_PREFIX, ScopedPath
from bailiwick.store import Staged, StagedRemoval
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.handles import is_directory, lstat_at, same_object, version_of
from bailiwick.stores.disk.lookup.mounts import is_mount_point, mounted
from bailiwick.stores.disk.lookup.trails import Trail
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.current import PIECE_BYTES
from bailiwick.stores.disk.writes.publisher import Publisher
from bailiwick.stores.disk.writes.tree_merge import MergeStep, TreeMerge


class TreeSwap(TreeMerge):
    """One swap under way."""

    def __init__(
        self, publisher: Publisher, stage: Trail, target: int, path: ScopedPath,
        over: Mapping[ScopedPath, Expected],
    ) -> None:  # fmt: skip
        super().__init__(publisher, stage, target, path, replace=True)
        self._expected: Final = over

    def run_all(
        self,
        gone: Sequence[StagedRemoval],
        directories: Mapping[ScopedPath, Staged],
        implied: AbstractSet[ScopedPath],
        leaves: Sequence[Staged],
        stop: Stop,
    ) -> None:
        """``implied`` are the directories that something was staged in, and that must be there."""
        try:
            for each in gone:
                stop.check()
                self._step(self._take_out, each)
            for path in sorted(implied, key=lambda each: each.order):
                self._step(self._go_through, directories[path])
        except BaseException:
            self._undo()
            raise
        made = {path: step for path, step in directories.items() if path not in implied}
        self.run(made, leaves, stop)

    # --- what goes ----------------------------------------------------------------------------

    def _take_out(self, gone: StagedRemoval, final: ScopedPath) -> None:
        path, name = gone.path, gone.path.name
        self._enter_all(path.parent)
        parent = self._target.go(path.parent)
        found = lstat_at(parent, name)
        if found is None:
            raise PathNotFound("no such file or directory", path=final)
        if is_directory(found) != (gone.type == "directory"):
            raise NotADirectory("others have put something else in its place", path=final)
        if is_directory(found):
            self._remove_directory(path, parent, found, final)
            return
        self._check_goes(found, gone.expected, final)
        kept = f"{RESERVED_PREFIX}{len(self._done)}"  # which no entry of a stage is called
        syscalls.rename_over(name, kept, src_dir_fd=parent, dst_dir_fd=self._stage.top)
        self._done.append(MergeStep("taken", path, found, kept))
        self._check_out(self._stage.top, kept, found, gone.expected, final)

    def _remove_directory(
        self, path: ScopedPath, parent: int, found: os.stat_result, final: ScopedPath
    ) -> None:
        try:
            os.rmdir(path.name, dir_fd=parent)
        except OSError as error:
            if error.errno == errno.EBUSY and is_mount_point(parent, path.name):
                raise mounted(final) from None
            raise
        self._entered.discard(path)
        self._done.append(MergeStep("removed", path, found))

    def _check_goes(self, found: os.stat_result, expected: Expected, final: ScopedPath) -> None:
        expected._replace(sha256=None).check(final, version_of(found), None)
        if stat_bits.S_ISREG(found.st_mode):
            self._check_replaceable(found, final)

    def _check_out(
        self, directory: int, name: str, was: os.stat_result, expected: Expected, final: ScopedPath
    ) -> None:
        """What came out is what was looked at, and holds what is expected. To be renamed has
        changed its version."""
        now = os.lstat(name, dir_fd=directory)
        same = (
            same_object(now, was)
            and now.st_size == was.st_size
            and now.st_mtime_ns == was.st_mtime_ns
        )
        sha256 = None
        if same and expected.sha256 is not None and stat_bits.S_ISREG(now.st_mode):
            sha256 = _hash_at(directory, name)
        expected = expected._replace(version=None) if same else expected
        expected.check(final, version_of(now), sha256)

    # --- what comes ---------------------------------------------------------------------------

    def _enter_all(self, path: ScopedPath) -> None:
        """Look at each directory on the way, once."""
        missing: list[ScopedPath] = []
        while not path.is_root and path not in self._entered:
            missing.append(path)
            path = path.parent
        for each in reversed(missing):
            self._enter(self._target.go(each.parent), each, each.beneath(self._path))

    def _go_through(self, step: Staged, final: ScopedPath) -> None:
        self._enter_all(step.path)

    def _directory(self, step: Staged, final: ScopedPath) -> None:
        """It only comes where nothing stands."""
        parent = self._target.go(step.path.parent)
        syscalls.mkdir(step.path.name, 0o700, dir_fd=parent)
        self._note("directory", step.path, parent)
        self._made[step.path] = step

    def _leaf(self, step: Staged, final: ScopedPath) -> None:
        if step.path not in self._expected:
            super()._leaf(step, final)
            return
        origin = self._stage.go(step.path.parent)
        self._over(step, final, os.lstat(step.path.name, dir_fd=origin))

    def _over(self, step: Staged, final: ScopedPath, status: os.stat_result) -> None:
        expected = self._expected.get(step.path)
        if expected is None:
            raise FileAlreadyExists("already exists", path=final)
        found = lstat_at(self._target.go(step.path.parent), step.path.name)
        if found is None:
            raise PathNotFound("no such file or directory", path=final)
        expected._replace(sha256=None).check(final, version_of(found), None)
        super()._over(step, final, status)
        kept = self._done[-1].kept or step.path.name
        self._check_out(self._stage.go(step.path.parent), kept, found, expected, final)

    # --- undoing ------------------------------------------------------------------------------

    def _undo_one(self, done: MergeStep) -> None:
        if done.kind == "removed":
            self._put_directory_back(done)
        elif done.kind == "taken":
            # Where the name is taken by now, somebody has written over it: theirs stays.
            target = self._target.go(done.path.parent)
            syscalls.rename_new(self._stage.top, done.kept, target, done.path.name)
        else:
            super()._undo_one(done)

    def _put_directory_back(self, done: MergeStep) -> None:
        name, parent = done.path.name, self._target.go(done.path.parent)
        os.mkdir(name, 0o700, dir_fd=parent)
        directory = self._target.go(done.path)
        with suppress(OSError):  # only root may give it away
            os.fchown(directory, done.status.st_uid, done.status.st_gid)
        os.fchmod(directory, stat_bits.S_IMODE(done.status.st_mode))


def _hash_at(directory: int, name: str) -> str:
    digest = hashlib.sha256()
    file = os.open(name, syscalls.READ_FLAGS | syscalls.O_NOFOLLOW, dir_fd=directory)
    try:
        while piece := os.read(file, PIECE_BYTES):
            digest.update(piece)
    finally:
        os.close(file)
    return digest.hexdigest()
