"""SQLite's failures as errors of Bailiwick. SQLite's own text is kept out where it may name a
host path."""

from __future__ import annotations

import errno

import apsw

from bailiwick.errors import BailiwickError, Busy, Closed, InternalError, IoError

_ERRNO: dict[type[apsw.Error], tuple[int, str, str]] = {
    apsw.FullError: (errno.ENOSPC, "is full", "free some space on the disk it is kept on"),
    apsw.ReadOnlyError: (errno.EROFS, "cannot be written", "is its directory writable?"),
    apsw.CantOpenError: (errno.EIO, "cannot be opened", "does its directory still exist?"),
    apsw.PermissionsError: (errno.EACCES, "cannot be opened", "whose are the files?"),
    apsw.NoMemError: (errno.ENOMEM, "found no memory", "the machine is out of memory"),
    apsw.CorruptError: (errno.EIO, "is damaged", "restore it from a backup"),
    apsw.NotADBError: (errno.EIO, "is no database", "restore it from a backup"),
    apsw.IOError: (errno.EIO, "cannot be read or written", "check the disk"),
    apsw.ProtocolError: (errno.EIO, "cannot be locked", "is it on a network filesystem?"),
}


_KEY_IS_TAKEN = "UNIQUE constraint failed: change.volume, change.key"
"""What SQLite says where a change in a volume is made a second time under its key. Any other
constraint that fails is a fault of ours."""


def from_sqlite(error: apsw.Error, whose: str = "state") -> BailiwickError:
    """The error that stands for SQLite's, in words about ``whose`` database it is. What is neither
    the machine's nor a lock's is ours."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Busy(f"the {whose} database is held by another process")
    if isinstance(error, apsw.ConnectionClosedError):
        return Closed(f"the {whose} is closed")
    if isinstance(error, apsw.ConstraintError) and _KEY_IS_TAKEN in str(error):
        # Somebody who was taken for lost has made the change after all.
        return IoError(
            "this was done already", hint="ask for it again under the same key",
            details={"retry_after_s": 1.0},
        )  # fmt: skip
    for cls, (number, what, hint) in _ERRNO.items():
        if isinstance(error, cls):
            return IoError(f"the {whose} database {what}", errno=number, hint=hint)
    return InternalError(f"the {whose} database refused ({type(error).__name__}): {error}")
