"""What stands under a name, as whoever tells of changes sees it: also where nobody watches."""

from __future__ import annotations

import os
from typing import Final, Literal

from bailiwick.errors import (
    BailiwickError,
    Busy,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
    TooManyLinks,
)
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Sighting
from bailiwick.stores.disk.lookup.beneath import Lookup
from bailiwick.stores.disk.lookup.handles import FORMAT_MASK, TYPE_BY_FORMAT, version_of

Elsewhere = Literal["elsewhere", "again", "unknown"]

ELSEWHERE: Final = (PathNotFound, NotADirectory, SymlinkEscape, TooManyLinks)
"""What a lookup answers where the way to a name is not made of directories any more."""


def sighting_of(status: os.stat_result) -> Sighting:
    kind: EntryType = TYPE_BY_FORMAT.get(status.st_mode & FORMAT_MASK, "other")
    if kind == "directory":
        owner, mode = (status.st_uid, status.st_gid), status.st_mode & 0o7777
        version = f"{status.st_ino:x}-{mode:x}-{owner[0]:x}-{owner[1]:x}"
    else:
        version = version_of(status)
    return Sighting(kind, version, status.st_ctime_ns)


def look(lookup: Lookup, path: ScopedPath, inode: str = "") -> Sighting | Elsewhere | None:
    """What stands under a name, no link followed.

    ``elsewhere``: the way to it is not made of directories any more, or they are others than the
    one with the number ``inode``. ``again``: it keeps changing. ``unknown``: may not be examined.
    """
    above = path.parent
    try:
        directory = lookup.find_object(above, True)
    except ELSEWHERE:
        return "elsewhere"
    except Busy:
        return "again"
    except (BailiwickError, OSError, UnicodeError):
        return "unknown"
    try:
        if directory.path != above:
            return "elsewhere"  # a link stands in the way: what it leads to has a name of its own
        if inode and f"{os.fstat(directory.fd).st_ino:x}" != inode:
            return "elsewhere"
        name, status = lookup.look_at(directory, path.name)
    except Busy:
        return "again"
    except (BailiwickError, OSError, UnicodeError):
        return "unknown"
    finally:
        directory.close()
    return None if status is None or name != path.name else sighting_of(status)


def sight(lookup: Lookup, path: ScopedPath) -> Sighting | None:
    """`bailiwick.store.Watches.sight`."""
    seen = look(lookup, path)
    return seen if isinstance(seen, Sighting) else None
