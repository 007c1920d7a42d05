"""What a volume refuses, and in which words: checks without any effect."""

from __future__ import annotations

from bailiwick.errors import LockHeld, NotADirectory, PathNotFound
from bailiwick.model import Expected
from bailiwick.nodes.refusals import (
    check_link_text,
    check_range,
    check_size,
    not_through_a_link,
    root_stays,
)
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.rows.records import Inode

__all__ = [
    "check_expected",
    "check_link_text",
    "check_range",
    "check_size",
    "no_such",
    "not_on_the_way",
    "not_through_a_link",
    "nowhere",
    "root_stays",
    "stale_token",
]


def check_expected(path: ScopedPath, inode: Inode | None, expected: Expected) -> None:
    """Compare what stands there with what the caller last saw."""
    sha256 = None if inode is None or inode.sha256 is None else inode.sha256.hex()
    expected.check(path, None if inode is None else inode.version, sha256)


def stale_token() -> LockHeld:
    return LockHeld(
        "the lock token is not the newest for this path, or was never given out for it",
        details={"stale": True},
        hint="take the lock again, read what stands there now, then change it with the new token",
    )


def no_such(path: ScopedPath) -> PathNotFound:
    return PathNotFound("no such file or directory", path=path)


def nowhere(path: ScopedPath) -> PathNotFound:
    return PathNotFound("the directory above it does not exist", path=path)


def not_on_the_way(path: ScopedPath) -> NotADirectory:
    return NotADirectory("a part of the path is not a directory", path=path)
