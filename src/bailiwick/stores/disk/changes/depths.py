"""How deep a tree is: what is given another name may lie deeper there than any path can name."""

from __future__ import annotations

import os
from contextlib import suppress

from bailiwick.paths import DEPTH_MAX, RESERVED_PREFIX, ScopedPath, tree_too_deep
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.removal import leads_down
from bailiwick.stores.disk.lookup.handles import Held
from bailiwick.stores.disk.workers import Stop


def check_depth(held: Held, to: ScopedPath, stop: Stop) -> None:
    """Refuse unless an entry, and all that lies in it, could be named if it stood at ``to``.

    Only names are looked at, never through a link; one descriptor a level is held, at most as many
    as a path has levels.
    """
    left = DEPTH_MAX - to.levels
    if left < 0:
        raise tree_too_deep(to)
    if held.type != "directory":
        return
    levels: list[tuple[int, list[str]]] = []
    try:
        fits = _enter(levels, held.open_for_listing(), left)
        while levels and fits:
            stop.check()
            directory, inner = levels[-1]
            if not inner:
                os.close(levels.pop()[0])
                continue
            # What is gone, or may not be entered, holds nothing that anyone could name.
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                flags = syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW
                fits = _enter(levels, os.open(inner.pop(), flags, dir_fd=directory), left)
        if not fits:
            raise tree_too_deep(to)
    finally:
        for directory, _ in levels:
            os.close(directory)


def _enter(levels: list[tuple[int, list[str]]], directory: int, left: int) -> bool:
    """Go into a directory, which is owned from here on; False where what is in it lies too deep."""
    levels.append((directory, []))
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(RESERVED_PREFIX):
                continue
            if len(levels) > left:
                return False
            if leads_down(entry):
                levels[-1][1].append(entry.name)
    return True
