"""What ripgrep names, as paths of the root. Loaded only when something is searched."""

from __future__ import annotations

import os
import time
from functools import cache

from bailiwick.paths import RESERVED_PREFIX, ScopedPath
from bailiwick.search.grep import Query
from bailiwick.stores.disk.lookup.handles import Held
from bailiwick.stores.disk.search import landlock
from bailiwick.stores.disk.search.ripgrep import (
    Area,
    SearchBounds,
    ambient_find_ripgrep,
    nominate_blocking,
)
from bailiwick.stores.disk.workers import Stop

_ambient_ripgrep = cache(ambient_find_ripgrep)


def ambient_can_nominate() -> bool:
    """Whether there is a ripgrep, and a wall to put around it."""
    return landlock.version() >= 1 and _ambient_ripgrep() is not None


def nominate_paths_blocking(
    directory: Held,
    query: Query,
    binaries: bool,
    area: Area,
    deadline_s: float,
    stop: Stop,
) -> set[ScopedPath] | None:
    """A superset of the files beneath ``directory`` with a match; None where it cannot be told."""
    ripgrep = _ambient_ripgrep()
    if ripgrep is None:
        return None
    bounds = SearchBounds(time.monotonic() + deadline_s, lambda: stop.asked)
    fd = directory.open_for_listing()
    try:
        found = nominate_blocking(ripgrep, fd, query, area, bounds, binaries=binaries)
    finally:
        os.close(fd)
    return None if found is None else _paths_of(found, directory.path)


def _paths_of(names: list[bytes], base: ScopedPath) -> set[ScopedPath] | None:
    """The paths that were named, without our own; None where no caller could name one.

    Such a file is not searched but reported, and only a walk meets all of its kind.
    """
    paths: set[ScopedPath] = set()
    for name in names:
        try:
            path = ScopedPath(name.decode())
        except UnicodeDecodeError:
            return None
        if RESERVED_PREFIX not in path or not any(
            part.startswith(RESERVED_PREFIX) for part in path.parts
        ):
            paths.add(path.beneath(base))
    return paths
