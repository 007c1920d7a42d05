"""Where the working copies of one root are made and found again."""

from __future__ import annotations

import time
from typing import Any

from bailiwick.commands import WorkInfo
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.paths import NameRule
from bailiwick.store import Store
from bailiwick.working_copies.directory import DirectoryCopy, Uppers
from bailiwick.working_copies.folder import About, Folder, Folders, new_id
from bailiwick.working_copies.lower import Lower
from bailiwick.working_copies.overlay_copy import OverlayCopy
from bailiwick.working_copies.overlay_record import OverlayRecord
from bailiwick.working_copies.overlay_store import OverlayStore
from bailiwick.working_copies.removals import Removals
from bailiwick.working_copies.tree_in_sight import TreeInSight


class DirectoryWorkplace:
    """The working copies of one root, which lie in directories of this machine."""

    def __init__(
        self, folders: Folders, root: str, store: Store, lower: Lower, uppers: Uppers, *,
        names: NameRule, bytes_max: int, removals: Removals | None = None,
    ) -> None:  # fmt: skip
        """``lower`` is what programs see of the ``store``. ``bytes_max``: how much of what a
        program changed is looked at. Whoever runs commands waits for the ``removals``."""
        self._folders = folders
        self._root = root
        self._store = store
        self._lower = lower
        self._uppers = uppers
        self._names = names
        self._bytes_max = bytes_max
        self._removals = removals or Removals()

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

    async def open(self, id: str) -> DirectoryCopy | OverlayCopy:
        folder = await in_thread(self._folders.open, id, let_go=_closed)
        if folder.is_overlay:
            return OverlayCopy(await self._overlay(folder, {}), lives=False)
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

    async def open_overlay(
        self, *, subject: str, **options: Any
    ) -> tuple[OverlayStore, OverlayCopy]:
        """The overlay of this directory as it was left, or a new one. Raises `Busy` where another
        process has it."""
        known = await in_thread(self._folders.overlays)
        if known:
            folder = await in_thread(self._folders.open, known[0].id, let_go=_closed)
        else:
            about = About(
                id=new_id(), root=self._root, subject=subject, began_ns=time.time_ns(),
                command=("overlay:",),
            )  # fmt: skip
            folder = await in_thread(self._folders.make, about, let_go=_unmade)
        store = await self._overlay(folder, options)
        return store, OverlayCopy(store, lives=True)

    async def _overlay(self, folder: Folder, options: dict[str, Any]) -> OverlayStore:
        """What was changed in an overlay. The folder is closed where that cannot be read."""
        record = OverlayRecord(folder)
        try:
            await in_thread(record.open)
            await in_thread(folder.flush)
        except BaseException:
            record.close()
            folder.close()
            raise
        return OverlayStore(self._store, folder, record, clock_ns=time.time_ns, **options)

    async def was_done(self, key: bytes) -> bool:
        return await in_thread(self._folders.was_done, key)

    def unfinished(self) -> list[str]:
        """Those that were being brought back or given up when their process ended, or are just
        now."""
        return self._folders.unfinished()

    async def _copy(self, folder: Folder, lower: str) -> DirectoryCopy:
        shown = await self._lower.show_again(lower)
        return DirectoryCopy(
            folder, self._lower, shown, self._uppers, self._names, self._bytes_max, self._removals
        )


async def _closed(folder: Folder) -> None:
    folder.close()


async def _unmade(folder: Folder) -> None:
    await in_thread(folder.remove)
    folder.close()
