"""Which descriptors a program has open on a file of a mount.

The kernel tells of every descriptor that is closed, also of one that a shell lent to a program it
started (`{ cat a; cat b; } > c`): the file is still being written then, by whoever lent it.
"""

from __future__ import annotations

import os
from pathlib import Path


def writes_still(pid: int, ino: int) -> bool:
    """Whether a process, or a thread by its number, has a descriptor open to write the file with
    this number. False where that cannot be seen. Nothing of the mount is looked at, so that whoever
    answers for it does not wait for itself."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError:
        return False
    return any(_writes(descriptor, ino) for descriptor in descriptors)


def is_written(ino: int) -> bool:
    """Whether any process that can be seen has a descriptor open to write the file."""
    return any(writes_still(int(entry), ino) for entry in os.listdir("/proc") if entry.isdecimal())


def _writes(descriptor: Path, ino: int) -> bool:
    try:
        rows = dict(
            line.split(":", 1) for line in descriptor.read_text().splitlines() if ":" in line
        )
        return int(rows["ino"]) == ino and int(rows["flags"], 8) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, KeyError, ValueError):
        return False  # closed meanwhile, or an older kernel, which does not tell
