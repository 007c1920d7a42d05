"""What stood at a place at some time, and looking at it."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import NamedTuple

from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Reader
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Version


class StoryContent(NamedTuple):
    """What stood at a place: ``data`` is None where it was no text, or too large to compare, and
    where it ``is_lost``: other programs wrote over it before it was kept."""

    type: EntryType
    path: ScopedPath
    mode: int = 0
    data: bytes | None = None
    sha256: str | None = None
    target: str | None = None
    version: str = ""
    size: int = 0
    is_lost: bool = False


def is_text(stood: StoryContent | None) -> bool:
    return stood is None or stood.data is not None


def text_at(stood: StoryContent | None) -> bytes:
    """The text of what stood somewhere: none of what was not there, or no text."""
    return b"" if stood is None or stood.data is None else stood.data


async def look_at(
    store: Reader,
    path: ScopedPath,
    bytes_max: int,
    contents: dict[str, bytes],
    known: bytes | None = None,
) -> StoryContent | None:
    """What stands at a place itself: what a link above it leads to is another place. What was read
    of it is put into ``contents``, by its hash."""
    try:
        entry = await unfollowed(store, path)
    except BailiwickError:
        return None
    with closing(entry):
        if entry.type is None:
            return None
        stat = await store.stat(entry)
        if entry.type != "file":
            return StoryContent(
                entry.type, path, stat.mode & 0o777, target=stat.target, version=stat.version
            )
        unread = StoryContent(
            "file", path, stat.mode & 0o777, sha256=f"?{stat.version}", version=stat.version,
            size=stat.size,
        )  # fmt: skip
        if known is None and stat.size <= bytes_max:
            try:
                known = (await store.read(entry, 0, bytes_max)).data
            except PathNotFound:
                return unread._replace(is_lost=True)
            except BailiwickError:
                return unread
        if known is None:
            return unread
    sha256 = hashlib.sha256(known).hexdigest()
    contents[sha256] = known
    return unread._replace(data=None if 0 in known else known, sha256=sha256)


def is_left_by(version: Version, now: StoryContent | None) -> bool:
    """Whether what stands somewhere is, by its bytes, what a version left there."""
    if now is None or version.kind == "deleted":
        return now is None and version.kind == "deleted"
    if version.path != now.path or version.type != now.type:
        return False
    if version.type == "directory" or version.sha256 is None:
        # Of what came with its directory no hash is told: a volume says which version a file is of.
        return version.type == "directory" or version.version == now.version
    return version.sha256 == now.sha256


def differs(a: StoryContent | None, b: StoryContent | None) -> bool:
    if a is None or b is None:
        return a is not b
    return (a.type, a.sha256, a.target) != (b.type, b.sha256, b.target)
