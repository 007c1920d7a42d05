"""Holding what stands at a path by its own name: what a link above it leads to has another name, by
which nobody was asked whether it may be seen or touched."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from bailiwick.errors import NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Look


class Resolves(Protocol):
    """A store, or what an act may do to one."""

    def resolve(
        self, path: ScopedPath, look: Look, *, parents: bool = False
    ) -> Awaitable[Handle]: ...


async def unfollowed(store: Resolves, path: ScopedPath, *, parents: bool = False) -> Handle:
    """The entry at a path, as `Reader.resolve` finds it, through no link. `PathNotFound` where what
    stands above it is no directory: a link there tells nothing of what it leads to, not even by
    leading nowhere."""
    try:
        entry = await store.resolve(path, "entry", parents=parents)
    except (NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks):
        raise _nothing_at(path) from None
    if entry.path == path:
        return entry
    entry.close()
    raise _nothing_at(path)


def _nothing_at(path: ScopedPath) -> PathNotFound:
    return PathNotFound("nothing stands there itself", path=path)
