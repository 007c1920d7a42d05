"""Trees that were written out for programs to look at, kept for the commands to come.

    lowers/KEY/NAME/tree/     what programs see
    lowers/KEY/NAME/nodes     what it holds
    lowers/KEY/NAME/lock      how much it holds; shared by all who use it: the kernel lets go of it
                              however they end

A tree is named by all that it shows, so that nobody is shown what was written out for somebody who
may see more. It never changes. Those that nobody uses and no working copy lies over are taken away,
oldest first, when there are too many, or when they hold too much.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from bailiwick.errors import PathNotFound, from_os_error
from bailiwick.working_copies.boot_id import boot_id
from bailiwick.working_copies.removal import remove_tree
from bailiwick.working_copies.survey import CHANGED_SINCE
from bailiwick.working_copies.tree_writer import TreeNode

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STAGED: Final = ".new"
_GONE: Final = ".gone"
_NOTHING: Final = "nothing"
_LEFT_OVER_S: Final = 3600.0
"""After so long what has no lock is nobody's who is just about to make one."""


class HeldTree:
    """A tree that stays as long as it is held."""

    def __init__(self, name: str, directory: int, lock: int, changed: frozenset[str]) -> None:
        self.name: Final = name
        self.directory = directory
        self.changed: Final = changed
        self._lock = lock

    def is_of(self, status: os.stat_result, version: str) -> bool:
        return version != CHANGED_SINCE  # what was written out stays as it was

    def close(self) -> None:
        directory, self.directory = self.directory, -1
        if directory >= 0:
            os.close(directory)
            os.close(self._lock)


class TreeDraft:
    """A tree in the making, which nobody sees yet."""

    def __init__(self, path: str, lock: int) -> None:
        self.path: Final = path
        self._lock = lock
        self.directory: Final = os.open(os.path.join(path, "tree"), _DIRECTORY_FLAGS)

    def close(self) -> None:
        os.close(self.directory)
        os.close(self._lock)


class TreeCache:
    """The trees of one root. Its methods block."""

    def __init__(
        self, path: str, pinned: Callable[[], set[str]], *, trees_max: int, bytes_max: int
    ) -> None:
        """``pinned`` are the names of those that working copies lie over."""
        self._path: Final = path
        self._pinned = pinned
        self._trees_max = trees_max
        self._bytes_max = bytes_max

    @staticmethod
    def name_of(nodes: Mapping[str, TreeNode]) -> str:
        """The name of a tree that shows this, since this machine was started: what was written just
        before it stopped may not be whole."""
        digest = hashlib.sha256(boot_id())
        digest.update(msgspec.msgpack.encode(sorted(nodes.items())))
        return digest.hexdigest()[:40]

    def held(self, name: str, changed: frozenset[str] = frozenset()) -> HeldTree | None:
        """The tree of that name, if it is there."""
        if not _is_name(name):
            return None
        place = os.path.join(self._path, name)
        try:
            lock = os.open(os.path.join(place, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            directory = os.open(os.path.join(place, "tree"), _DIRECTORY_FLAGS)
            if not _is_at(lock, os.path.join(place, "lock")):
                os.close(directory)
                raise FileNotFoundError(place)
            os.utime(lock)
        except FileNotFoundError:  # taken away before it was held
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        return HeldTree(name, directory, lock, changed)

    def nothing(self) -> HeldTree:
        """A directory without anything in it."""
        place = os.path.join(self._path, _NOTHING)
        os.makedirs(place, mode=0o700, exist_ok=True)
        directory = os.open(place, _DIRECTORY_FLAGS)
        return HeldTree("", directory, os.dup(directory), frozenset())

    def newest(self) -> tuple[HeldTree, dict[str, TreeNode]] | None:
        """The tree that was used last, and what it holds."""
        for name in self._by_age():
            tree = self.held(name)
            if tree is None:
                continue
            try:
                with open(os.path.join(self._path, name, "nodes"), "rb") as file:
                    return tree, msgspec.msgpack.decode(file.read(), type=dict[str, TreeNode])
            except (OSError, msgspec.MsgspecError):
                tree.close()
        return None

    def stage(self) -> TreeDraft:
        """Begin a new tree. Raises `PermissionDenied`, `IoError`."""
        place = os.path.join(self._path, secrets.token_hex(20) + _STAGED)
        try:
            os.makedirs(place, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            lock = os.open(os.path.join(place, "lock"), flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_SH)
                os.mkdir(os.path.join(place, "tree"))
                os.chmod(os.path.join(place, "tree"), 0o755)
                return TreeDraft(place, lock)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise from_os_error(error) from None

    def keep(
        self, staged: TreeDraft, nodes: Mapping[str, TreeNode], changed: frozenset[str]
    ) -> HeldTree:
        """Give a tree that is whole its name. Where it is not what was wanted, since some of it was
        changed meanwhile, the name is nobody's."""
        name = secrets.token_hex(20) if changed else self.name_of(nodes)
        with open(os.path.join(staged.path, "nodes"), "wb") as file:
            file.write(msgspec.msgpack.encode({} if changed else nodes))
        with open(os.path.join(staged.path, "lock"), "wb") as file:
            file.write(b"%d" % sum(each.size for each in nodes.values()))
        with suppress(OSError):  # another was quicker, with the same
            os.rename(staged.path, os.path.join(self._path, name))
        tree = self.held(name, changed)
        if tree is None:
            raise PathNotFound("what a program was to see has been taken away meanwhile")
        self.discard(staged)
        return tree

    def discard(self, staged: TreeDraft) -> None:
        """Take away what is still staged. To be called at the end in any case."""
        if os.path.exists(staged.path):
            self._remove(self._put_aside(os.path.basename(staged.path)))

    def make_room(self) -> None:
        """Take away what is over the bounds, and what killed processes have left."""
        bytes_left, trees_left = self._bytes_max, self._trees_max
        for name in self._by_age():
            trees_left -= 1
            bytes_left -= self._bytes_of(name)
            if trees_left < 0 or bytes_left < 0 or name.endswith(_STAGED):
                self._take_away(name)
        for name in self._left_over():
            self._remove(name)

    def _by_age(self) -> Iterator[str]:
        """All there are, those that were used last first."""
        found = []
        for name in self._names():
            with suppress(OSError):
                lock = os.stat(os.path.join(self._path, name, "lock"))
                found.append((lock.st_mtime_ns, name))
        for _, name in sorted(found, reverse=True):
            yield name

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._path) if name != _NOTHING]
        except FileNotFoundError:
            return []

    def _left_over(self) -> Iterator[str]:
        """What somebody was taking away, or had just begun to make, when they were killed."""
        for name in self._names():
            place = os.path.join(self._path, name)
            with suppress(OSError):
                is_old = time.time() - os.stat(place).st_mtime > _LEFT_OVER_S
                if name.endswith(_GONE) or (
                    is_old and not os.path.exists(os.path.join(place, "lock"))
                ):
                    yield name

    def _bytes_of(self, name: str) -> int:
        place = os.path.join(self._path, name, "lock")
        with suppress(OSError, ValueError), open(place, "rb") as file:
            return int(file.read(32))
        return 0

    def _take_away(self, name: str) -> None:
        """Unless somebody uses it, or a working copy lies over it."""
        with suppress(OSError):
            lock = os.open(os.path.join(self._path, name, "lock"), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                gone = None if name in self._pinned() else self._put_aside(name)
            finally:
                os.close(lock)
            if gone is not None:
                self._remove(gone)

    def _put_aside(self, name: str) -> str:
        """Nobody finds it any more from here on."""
        gone = secrets.token_hex(20) + _GONE
        os.rename(os.path.join(self._path, name), os.path.join(self._path, gone))
        return gone

    def _remove(self, name: str) -> None:
        parent = os.open(self._path, _DIRECTORY_FLAGS)
        try:
            with suppress(OSError):  # another takes it away just now
                remove_tree(parent, name)
        finally:
            os.close(parent)


def _is_name(text: str) -> bool:
    return len(text) == 40 and text.isascii() and text.isalnum()


def _is_at(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False
