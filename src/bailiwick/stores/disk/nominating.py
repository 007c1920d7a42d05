"""What ripgrep names, as paths of the root. Loaded only when something is searched."""

from __future__ import annotations

import os
import time
from functools import cache

from bailiwick.paths import RESERVED_PREFIX, ScopedPath
from bailiwick.search.grep import Query
from bailiwick.stores.disk import landlock
from bailiwick.stores.disk.handles import Held
from bailiwick.stores.disk.ripgrep import (
    Area,
    Bounds,
    ambient_find_ripgrep,
    nominate_binary_blocking,
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
    bounds = Bounds(time.monotonic() + deadline_s, lambda: stop.asked)
    fd = directory.open_for_listing()
    try:
        found = nominate_blocking(ripgrep, fd, query, area, bounds)
        if found is None:
            return None
        if binaries:
            others = nominate_binary_blocking(ripgrep, fd, area, bounds)
            if others is None:
                return None
            found += others
    finally:
        os.close(fd)
    return {path.beneath(directory.path) for name in found if (path := _addressable(name))}


def _addressable(name: bytes) -> ScopedPath | None:
    """The path that was named, unless a caller could not name it either."""
    try:
        path = ScopedPath(name.decode())
    except UnicodeDecodeError:
        return None
    reserved = any(part.startswith(RESERVED_PREFIX) for part in path.parts)
    return None if reserved else path
