"""The closed list of acts, each with the operations that it is part of."""

from __future__ import annotations

from typing import Any, Final

from bailiwick.acts import (
    Act,
    Append,
    Copy,
    CopyIn,
    CopyOver,
    MakeDir,
    Move,
    Remove,
    SetMode,
    SetTimes,
    Symlink,
    Truncate,
    Unpack,
    Write,
    WriteStream,
)
from bailiwick.operations import (
    ARCHIVE_CREATE,
    ARCHIVE_EXTRACT,
    COPY,
    COPY_DESTINATION,
    COPY_IN_DESTINATION,
    DELETE,
    EDIT,
    EXEC,
    LEASE,
    MOVE,
    READ,
    VERSION,
    WRITE,
    WRITE_ONTO,
    Operation,
)
from bailiwick.version_acts import (
    BringBack,
    Commit,
    DeleteFork,
    DeleteSnapshot,
    DiscardWork,
    KeepSnapshot,
    Lock,
    MakeFork,
    Merge,
    OpenFork,
    Release,
    Renew,
    Restore,
    RunCommand,
    Undo,
)

DONE_BY: Final[dict[type[Act[Any]], tuple[Operation, ...]]] = {
    Write: (WRITE, EDIT), WriteStream: (WRITE, ARCHIVE_CREATE),
    Append: (WRITE_ONTO,), Truncate: (WRITE_ONTO,),
    MakeDir: (WRITE,), Symlink: (WRITE,), SetMode: (WRITE,), SetTimes: (WRITE,),
    Remove: (DELETE,), Move: (MOVE,), Copy: (COPY,), CopyOver: (COPY,),
    CopyIn: (COPY_DESTINATION, COPY_IN_DESTINATION), Unpack: (ARCHIVE_EXTRACT,),
    Lock: (LEASE,), Renew: (LEASE,), Release: (LEASE,),
    Restore: (EDIT,), Undo: (VERSION,), Merge: (VERSION,), Commit: (VERSION,),
    BringBack: (VERSION,), RunCommand: (EXEC,), DiscardWork: (VERSION,),
    KeepSnapshot: (VERSION,), DeleteSnapshot: (VERSION,),
    MakeFork: (VERSION,), DeleteFork: (VERSION,), OpenFork: (READ,),
}  # fmt: skip
"""Grant, rules and people judge an operation: what is done must be part of that one, and nothing
else is ever done."""
