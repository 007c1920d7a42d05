"""Where the working copies of one root are made and found again."""

from __future__ import annotations

import time

from bailiwick.commands import WorkInfo
from bailiwick.finishing import in_thread
from bailiwick.paths import NameRule
from bailiwick.store import HostDirectory
from bailiwick.working_copies.directory import DirectoryCopy, OpenLeft, ReadUpper
from bailiwick.working_copies.folder import About, Folder, Folders, new_id


class DirectoryWorkplace:
    """The working copies of a directory of this machine."""

    def __init__(
        self, folders: Folders, root: str, directory: HostDirectory, read_upper: ReadUpper,
        open_left: OpenLeft, *,
        names: NameRule, entries_max: int,
    ) -> None:  # fmt: skip
        self._folders = folders
        self._root = root
        self._directory = directory
        self._read_upper = read_upper
        self._open_left = open_left
        self._names = names
        self._entries_max = entries_max

    def new_id(self) -> str:
        return new_id()

    async def make(
        self,
        *,
        subject: str,
        request_id: str,
        command: tuple[str, ...],
        via: tuple[str, ...] = (),
        id: str | None = None,
    ) -> DirectoryCopy:
        about = About(
            id=id or new_id(), root=self._root, subject=subject, began_ns=time.time_ns(),
            request_id=request_id, command=command, via=via,
        )  # fmt: skip
        return self._copy(await in_thread(self._folders.make, about))

    async def open(self, id: str) -> DirectoryCopy:
        folder = await in_thread(self._folders.open, id)
        copy = self._copy(folder)
        await in_thread(copy.load)
        return copy

    async def all(self) -> list[WorkInfo]:
        return [
            WorkInfo(
                id=each.id, root=each.root, subject=each.subject, began_ns=each.began_ns,
                request_id=each.request_id, command=each.command, via=each.via,
            )
            for each in await in_thread(self._folders.all)
        ]  # fmt: skip

    def unfinished(self) -> list[str]:
        """Those that were being brought back when their process ended, or are just now."""
        return self._folders.unfinished()

    def _copy(self, folder: Folder) -> DirectoryCopy:
        directory = self._directory
        try:
            lower = directory.open_directory()
        except BaseException:
            folder.close()
            raise
        return DirectoryCopy(
            folder,
            lower,
            directory.version_of,
            self._read_upper,
            self._open_left,
            self._names,
            self._entries_max,
        )
