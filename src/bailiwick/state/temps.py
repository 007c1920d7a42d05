"""Temporary roots: private directories that go when their owner does.

Each is a directory of its own beneath the state directory, locked by the process that made it for
as long as that lives. The lock is on the directory itself (flock), so it ends with the process,
however that ends. Whoever sweeps removes the directories whose lock is free, and no other. Their
owner removes them when they are closed or when their time is up.

A subject has only so many at a time: each holds descriptors, of which all that a process does needs
some.

A child made by a bare fork shares its parent's lock; one that executes a program does not.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

from bailiwick.errors import PermissionDenied, QuotaExceeded, from_os_error

_NAME = re.compile(r"[0-9a-f]{32}").fullmatch

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HOLD: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_LEVELS_MAX: Final = 64
"""Descriptors one removal holds; what lies deeper is lifted up first."""

_BATCH_ENTRIES: Final = 1_024
"""Names held in memory at a time while a directory is emptied."""


class TempPlace:
    """One temporary directory, owned by this process until it is closed."""

    def __init__(self, roots: TempRoots, name: str, fd: int, expires_at: float, owner: str) -> None:
        self._roots = roots
        self.name = name
        self.owner = owner
        self.path = os.path.join(roots.directory, name)
        self.fd = fd
        self.expires_at = expires_at

    def close(self) -> None:
        """Remove it and everything in it. Closing twice does nothing."""
        self._roots._end(self)


class TempRoots:
    """The temporary directories of one state directory. Its methods block; any thread may call."""

    def __init__(self, directory: str, clock: Callable[[], float]) -> None:
        """``directory`` is made when first needed; ``clock`` counts seconds and never goes back."""
        self.directory: Final = directory
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._places: dict[str, TempPlace] = {}
        self._owned = Counter[str]()

    def create(self, seconds: float, *, owner: str, most: int) -> TempPlace:
        """A new private directory, which lives for ``seconds`` unless it is closed before.

        Raises `QuotaExceeded` where ``owner`` has ``most`` of them already.
        """
        self._take(owner, most)
        try:
            parent = self._ambient_make()
            try:
                name, fd = _make_locked(parent)
            finally:
                os.close(parent)
        except BaseException as error:
            with self._lock:
                self._give_back(owner)
            if isinstance(error, OSError):
                raise from_os_error(error) from None
            raise
        place = TempPlace(self, name, fd, self._clock() + seconds, owner)
        with self._lock:
            self._places[name] = place
        return place

    def _take(self, owner: str, most: int) -> None:
        with self._lock:
            if self._owned[owner] >= most:
                raise QuotaExceeded(
                    f"a subject has at most {most} temporary roots at a time",
                    hint="close one that is no longer needed; over HTTP by DELETE /temp/{id}",
                    details={"of": "temporary roots", "limit": most},
                )
            self._owned[owner] += 1

    def _give_back(self, owner: str) -> None:
        """With the lock held."""
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    def sweep(self) -> int:
        """Remove what is over: places of this process whose time is up, and all of dead ones.

        Returns how many went. To be called at the start, and now and then.
        """
        now = self._clock()
        with self._lock:
            over = [place for place in self._places.values() if place.expires_at <= now]
        for place in over:
            place.close()
        parent = self._ambient_open()
        if parent is None:
            return len(over)
        try:
            names = [name for name in os.listdir(parent) if _NAME(name)]
            return len(over) + sum(_remove_if_free(parent, name) for name in names)
        finally:
            os.close(parent)

    def close(self) -> None:
        """Remove all places of this process."""
        with self._lock:
            places = list(self._places.values())
        for place in places:
            place.close()

    def _end(self, place: TempPlace) -> None:
        with self._lock:
            if self._places.pop(place.name, None) is None:
                return
            self._give_back(place.owner)
        parent = self._ambient_open()
        try:
            if parent is not None:
                _remove(parent, place.name)
        except OSError:
            pass  # what could not be removed now has a free lock, and is swept later
        finally:
            if parent is not None:
                os.close(parent)
            os.close(place.fd)

    def _ambient_make(self) -> int:
        os.makedirs(os.path.dirname(self.directory), mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o700)
        parent = os.open(self.directory, _OPEN)
        status = os.fstat(parent)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            os.close(parent)
            raise PermissionDenied("the directory for temporary roots is not private")
        return parent

    def _ambient_open(self) -> int | None:
        try:
            return os.open(self.directory, _OPEN)
        except OSError:
            return None


def _make_locked(parent: int) -> tuple[str, int]:
    """Make a directory and lock it before anyone can take it for a dead one's."""
    while True:
        name = os.urandom(16).hex()
        os.mkdir(name, 0o700, dir_fd=parent)
        # A sweep in another process may see it first: then it is theirs to remove.
        try:
            fd = os.open(name, _OPEN, dir_fd=parent)
        except FileNotFoundError:
            continue
        try:
            if _try_lock(fd) and _stands(parent, name, fd):
                os.fchmod(fd, 0o700)
                return name, fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stands(parent: int, name: str, fd: int) -> bool:
    """Whether the name still leads to what is open."""
    try:
        found = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))


def _remove_if_free(parent: int, name: str) -> bool:
    """Remove a directory whose owner is gone; in doubt it lives."""
    try:
        _open_up(parent, name)
        fd = os.open(name, _OPEN, dir_fd=parent)
    except OSError:
        return False
    try:
        if not _try_lock(fd) or not _stands(parent, name, fd):
            return False
        _remove(parent, name)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


# --- removing ---------------------------------------------------------------------------------


def _remove(parent: int, name: str) -> None:
    """Remove a tree by descriptors, children first, no link followed, no mount entered."""
    stack: list[tuple[int, int, str]] = []  # parent, directory, its name there
    try:
        _enter(stack, parent, name)
        device = os.fstat(stack[0][1]).st_dev
        while stack:
            above, directory, own_name = stack[-1]
            with os.scandir(directory) as entries:
                batch = list(islice(entries, _BATCH_ENTRIES))
            inner = [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            for entry in batch:
                if not entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        os.unlink(entry.name, dir_fd=directory)
            if inner and len(stack) >= _LEVELS_MAX:
                lifted = os.urandom(16).hex()
                os.rename(inner[0], lifted, src_dir_fd=directory, dst_dir_fd=stack[0][1])
            elif inner:
                _enter(stack, directory, inner[0])
                if os.fstat(stack[-1][1]).st_dev != device:
                    raise OSError("another filesystem is mounted there")
            elif not batch:
                os.rmdir(own_name, dir_fd=above)
                os.close(stack.pop()[1])
    finally:
        for _, directory, _ in stack:
            os.close(directory)


def _enter(stack: list[tuple[int, int, str]], parent: int, name: str) -> None:
    _open_up(parent, name)
    stack.append((parent, os.open(name, _OPEN, dir_fd=parent), name))


def _open_up(parent: int, name: str) -> None:
    """Let the owner in, whatever mode a directory was given: root, too, may be kept out. Never
    through a link."""
    with suppress(OSError):
        fd = os.open(name, _HOLD, dir_fd=parent)
        try:
            if os.fstat(fd).st_mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)
