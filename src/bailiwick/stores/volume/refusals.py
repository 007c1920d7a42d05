"""What a volume refuses, and in which words: checks without any effect."""

from __future__ import annotations

import errno

from bailiwick.errors import (
    FileTooLarge,
    LockHeld,
    NotADirectory,
    ParseError,
    PathNotFound,
    PermissionDenied,
    SymlinkEscape,
)
from bailiwick.model import Expected
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import WritePlan
from bailiwick.stores.volume.rows import Inode


def check_size(path: ScopedPath, size: int, plan: WritePlan) -> None:
    if size > plan.size_max:
        raise FileTooLarge(
            f"the file would be larger than {plan.size_max} bytes",
            path=path,
            details={"limit": plan.size_max},
        )


def check_range(path: ScopedPath, offset: int, length: int | None) -> None:
    if offset < 0 or (length is not None and length < 0):
        raise ParseError("offset and length are not negative", path=path)


def check_expected(path: ScopedPath, inode: Inode | None, expected: Expected) -> None:
    """Compare what stands there with what the caller last saw."""
    sha256 = None if inode is None or inode.sha256 is None else inode.sha256.hex()
    expected.check(path, None if inode is None else inode.version, sha256)


def check_link_text(path: ScopedPath, text: str, bytes_max: int) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ParseError("the link's text is not valid text", path=path) from None
    if not text.strip() or "\0" in text:
        raise ParseError("a link's text is neither blank nor holds NUL", path=path)
    if len(data) > bytes_max:
        raise ParseError("the link's text is too long", path=path, details={"limit": bytes_max})
    return data


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


def not_through_a_link(path: ScopedPath) -> SymlinkEscape:
    return SymlinkEscape(
        "is a link, and nothing is changed through a link",
        path=path,
        hint="name what it leads to by its own path, or remove the link",
    )


def root_stays() -> PermissionDenied:
    return PermissionDenied(
        "the root itself cannot be removed, moved or replaced", path=ROOT, errno=errno.EPERM
    )
