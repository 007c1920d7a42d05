"""What changed while a person was asked.

They see one state of the tree and answer minutes later. What a call acts on must still be what they
saw: a file in the same version, a directory that is the same one, nothing where nothing was. What
came into a directory meanwhile is judged like everything else in it, and what a rule would ask
about it was not asked.
"""

from __future__ import annotations

from contextlib import closing

from bailiwick.call import Asked, Call
from bailiwick.errors import HashMismatch, NotADirectory, PathNotFound, SymlinkEscape
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Reader


class SeenState:
    """What stands at a place when a person is asked. To be closed.

    ``version`` is that of a file or link, None where nothing stands. The version of a directory
    changes with every name in it, so a directory is held, and is the same one if it is in the same
    version as what has its name.
    """

    def __init__(
        self, store: Reader, handle: Handle, version: str | None, held: Handle | None
    ) -> None:
        self._store = store
        self._handle = handle
        self._held = held
        self.version = version

    def close(self) -> None:
        if self._held is not None:
            self._held.close()

    async def require(self) -> None:
        """Refuse unless the same stands there still."""
        try:
            same = await self._is_same()
        except (NotADirectory, PathNotFound, SymlinkEscape):
            same = False
        if not same:
            raise changed_meanwhile(self._handle.path)

    async def _is_same(self) -> bool:
        store, handle = self._store, self._handle
        now = await store.resolve(handle.path, "entry", parents=True)
        with closing(now):
            if (now.path, now.type) != (handle.path, handle.type):
                return False
            if now.type is None:
                return True
            version = (await store.stat(now)).version
            if self._held is None:
                return version == self.version
            return version == (await store.stat(self._held)).version


async def standing_at(store: Reader, handle: Handle) -> SeenState:
    """Look at what a handle stands for, before a person is asked."""
    if handle.type is None:
        return SeenState(store, handle, None, None)
    if handle.type == "directory":
        held = await store.resolve(handle.path, "object", directory=True)
        return SeenState(store, handle, None, held)
    return SeenState(store, handle, (await store.stat(handle)).version, None)


def changed_meanwhile(path: ScopedPath) -> HashMismatch:
    return HashMismatch("this was changed while a person was asked", path=path, hint="ask again")


def refuse_unasked(call: Call, asked: list[Asked]) -> None:
    """Once all was judged anew: refuse what a rule asks about and the person did not see."""
    found, call.questions = call.questions or [], None
    seen = {each.path for each in asked}
    for each in found:
        if each.path not in seen:
            raise changed_meanwhile(each.path)
