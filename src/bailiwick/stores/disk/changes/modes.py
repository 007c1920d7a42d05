"""The permission bits of what a store makes anew."""

from __future__ import annotations

import os
from functools import cached_property

from bailiwick.model import NewFileMode
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.journal import JournalPlace
from bailiwick.stores.disk.settings import PRIVATE_DIRECTORY, PRIVATE_FILE


class NewModes:
    """Modes by the root's ``new_file_mode``; directories can be entered wherever files are read."""

    def __init__(self, setting: NewFileMode, place: JournalPlace) -> None:
        self._setting = setting
        self._place = place

    @cached_property
    def file(self) -> int:
        if self._setting == "private":
            return PRIVATE_FILE
        if isinstance(self._setting, int):
            return self._setting
        return 0o666 & ~self._umask()

    @cached_property
    def directory(self) -> int:
        if self._setting == "private":
            return PRIVATE_DIRECTORY
        if isinstance(self._setting, int):
            return 0o700 | self._setting | (self._setting & 0o444) >> 2
        return 0o777 & ~self._umask()

    def _umask(self) -> int:
        """The process's mask, seen on a file: asking for it in Python would change it meanwhile."""
        directory = self._place.ambient_make()
        try:
            name = f"mask-{os.urandom(8).hex()}"
            fd = syscalls.open_at(name, syscalls.STAGE_FLAGS, 0o777, dir_fd=directory)
            try:
                return 0o777 & ~os.fstat(fd).st_mode
            finally:
                os.close(fd)
                os.unlink(name, dir_fd=directory)
        finally:
            os.close(directory)
