"""Where the working copies of one root are made and found again."""

from __future__ import annotations

import time

from bailiwick.commands import WorkInfo
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.paths import NameRule
from bailiwick.working_copies.directory import DirectoryCopy, Uppers
from bailiwick.working_copies.folder import About, Folder, Folders, new_id
from bailiwick.working_copies.lower import Lower
from bailiwick.working_copies.tree_in_sight import TreeInSight


class DirectoryWorkplace:
    """The working copies of one root, which lie in directories of this machine."""

    def __init__(
        self, folders: Folders, root: str, lower: Lower, uppers: Uppers, *, names: NameRule,
        bytes_max: int,
    ) -> None:  # fmt: skip
        """``bytes_max``: how much of what a program changed is looked at."""
        self._folders = folders
        self._root = root
        self._lower = lower
        self._uppers = uppers
        self._names = names
        self._bytes_max = bytes_max

    def new_id(self) -> str:
        return new_id()

    def look(self) -> TreeInSight:
        return TreeInSight(self._lower)

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
        folder = await in_thread(self._folders.make, about, let_go=_unmade)
        try:
            return await self._copy(folder, "")
        except BaseException:
            await to_the_end(_unmade(folder))
            raise

    async def open(self, id: str) -> DirectoryCopy:
        folder = await in_thread(self._folders.open, id, let_go=_closed)
        try:
            copy = await self._copy(folder, await in_thread(folder.load_lower))
        except BaseException:
            folder.close()
            raise
        try:
            await in_thread(copy.load)
        except BaseException:
            copy.close()
            raise
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

    async def _copy(self, folder: Folder, lower: str) -> DirectoryCopy:
        shown = await self._lower.show_again(lower)
        return DirectoryCopy(folder, self._lower, shown, self._uppers, self._names, self._bytes_max)


async def _closed(folder: Folder) -> None:
    folder.close()


async def _unmade(folder: Folder) -> None:
    await in_thread(folder.remove)
    folder.close()
