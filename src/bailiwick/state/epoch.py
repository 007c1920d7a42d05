"""The epoch of the control plane: how every process that shares a state learns that it changed.

Eight bytes in a small file beside the database, mapped into the memory of each process. Whoever
changes grants, trust, rules or answers makes the number odd before the change is committed and even
after it. What was loaded under an even number is current for as long as the number is the same;
under an odd one nothing may be remembered, so a process that died in between makes the others slow,
never wrong. Looking costs a tenth of a microsecond and no query: nothing is read again (`LastRead`)
while nobody changed anything, in this process or another.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from bailiwick.errors import Closed, IoError

Read = TypeVar("Read")

_BYTES = 8


class Epoch:
    """The number, mapped. Reading is for everyone; changing is for the database's writer."""

    def __init__(self, descriptor: int | None) -> None:
        """``descriptor`` is an open file of eight bytes, owned from now on; None: in memory."""
        self._descriptor = descriptor
        self._cell = mmap.mmap(-1 if descriptor is None else descriptor, _BYTES)
        # Every operation asks, more than once: a call that never leaves C is half the price.
        look: Callable[[slice], bytes] = self._cell.__getitem__
        self.current: Callable[[], bytes] = partial(look, slice(_BYTES))
        """The number as it is now, to be compared with what it was when something was loaded."""

    @classmethod
    def open(cls, directory: int, name: str) -> Epoch:
        """Map the file ``name`` in an open directory, made if missing."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Written, not only made longer: a mapped hole on a full disk would kill the process.
            missing = _BYTES - os.fstat(descriptor).st_size
            if missing > 0:
                os.pwrite(descriptor, bytes(missing), _BYTES - missing)
                os.fsync(descriptor)
            epoch = cls(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        # Holding the lock means that nobody is committing: an odd number was left by the dead.
        if not epoch.is_steady(epoch.current()):
            epoch._put(epoch._number() + 1)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return epoch

    @staticmethod
    def is_steady(seen: bytes) -> bool:
        """Whether what is loaded under ``seen`` may be remembered: no change was under way."""
        return not seen[0] & 1

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Odd before what is done in here, even after it, whether it succeeded or not."""
        if self._descriptor is not None:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            except OSError as error:
                raise IoError("the epoch of the state cannot be locked") from error
        try:
            number = self._number()
            odd = number + 1 + number % 2
            self._put(odd)
            try:
                yield
            finally:
                self._put(odd + 1)
        finally:
            if self._descriptor is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        self._cell.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _number(self) -> int:
        return int.from_bytes(self._cell[:_BYTES], "little")

    def _put(self, number: int) -> None:
        # One copy of eight aligned bytes: no other process sees half of it.
        self._cell[:_BYTES] = (number % 2**64).to_bytes(_BYTES, "little")


def current_epoch(epoch: Epoch) -> bytes:
    """The epoch as it is. Raises `Closed`: a state that was closed is not mapped any more."""
    try:
        return epoch.current()
    except ValueError:
        raise Closed("the state is closed") from None


class LastRead(Generic[Read]):
    """One thing read of the database, as of now.

    While a change is under way, or after a crash in the middle of one, it is read every time. A
    read that fails raises, each time: what was read before is not trusted any more.
    """

    def __init__(self, epoch: Epoch, read: Callable[[], Read]) -> None:
        self._epoch = epoch
        self._current = epoch.current
        self._read = read
        # One tuple, so that another thread never sees an old value under a new epoch.
        self._known: tuple[bytes | None, Read] | None = None

    def get(self) -> Read:
        try:
            seen = self._current()
        except ValueError:
            raise Closed("the state is closed") from None
        known = self._known
        if known is not None and known[0] == seen:
            return known[1]
        read = self._read()
        self._known = (seen if self._epoch.is_steady(seen) else None, read)
        return read
