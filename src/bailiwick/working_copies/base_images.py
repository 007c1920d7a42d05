"""What files of a directory held before they were changed in a working copy.

Nobody tells when a program touches a file first. What lies below is copied as soon as it is seen to
be covered, as long as it still is what the survey has found; else it is not known any more.
"""

from __future__ import annotations

import os
import stat as stat_bits
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.working_copies.folder import Folder
from bailiwick.working_copies.lower import ShownTree
from bailiwick.working_copy import Base

BYTES_MAX: Final = Limits().diff_bytes_max
"""More than this is never compared, so it is not kept either."""

_DIRECTORY_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BaseImages:
    """Those of one working copy, kept in its folder. Its methods block."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def keep(self, shown: ShownTree, bases: Iterable[tuple[ScopedPath, Base]]) -> None:
        """What lies below the files that were changed, some of it at a time."""
        found: dict[ScopedPath, bytes] = {}
        size = 0
        for path, base in bases:
            if base.type != "file" or base.size > BYTES_MAX or self._folder.has_base(path):
                continue
            with suppress(OSError):  # gone, or another thing by now
                data = _read(shown, path, base)
                if data is not None and 0 not in data:
                    found[path] = data
                    size += len(data)
            if size > BYTES_MAX:
                self._folder.save_bases(found)
                found, size = {}, 0
        self._folder.save_bases(found)


def _read(shown: ShownTree, path: ScopedPath, base: Base) -> bytes | None:
    """The content that belongs to the version of ``base``; None where others have changed it,
    before or while it was read."""
    directory = os.open(".", _DIRECTORY_FLAGS, dir_fd=shown.directory)
    try:
        for part in path.parts[:-1]:
            below = os.open(part, _DIRECTORY_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = below
        file = os.open(path.name, _FILE_FLAGS, dir_fd=directory)
    finally:
        os.close(directory)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat_bits.S_ISREG(status.st_mode) or not shown.is_of(status, base.version):
            return None
        data = opened.read(BYTES_MAX + 1)
        unchanged = shown.is_of(os.fstat(file), base.version)
        return data if unchanged and len(data) <= BYTES_MAX else None
