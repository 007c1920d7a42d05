"""What a store of nodes refuses, and in which words: checks without any effect."""

from __future__ import annotations

import errno

from bailiwick.errors import (
    DirectoryNotEmpty,
    FileAlreadyExists,
    FileTooLarge,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
    PermissionDenied,
    SymlinkEscape,
)
from bailiwick.model import Expected
from bailiwick.nodes.node import Node
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import WritePlan


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


def check_node(path: ScopedPath, node: Node | None, expected: Expected) -> None:
    """Compare what stands there with what the caller last saw."""
    expected.check(
        path, None if node is None else node.version, None if node is None else node.sha256
    )


def check_plan(path: ScopedPath, old: Node | None, plan: WritePlan) -> None:
    """Whether content may be published over what stands there."""
    if plan.mode == "create" and old is not None:
        raise FileAlreadyExists("already exists", path=path)
    if plan.mode == "replace" and old is None:
        raise PathNotFound("there is nothing to replace", path=path)
    if old is not None and old.type == "directory":
        raise IsADirectory("is a directory", path=path)
    if old is not None and old.type == "symlink":
        raise not_through_a_link(path)
    check_node(path, old, plan.expected)


def check_replaceable(path: ScopedPath, node: Node, old: Node, *, is_empty: bool) -> None:
    """Whether a move may put ``node`` in the place of ``old``, which lies not above it."""
    if node.type == "directory" and old.type != "directory":
        raise NotADirectory("a directory cannot replace something else", path=path)
    if old.type == "directory":
        if node.type != "directory":
            raise IsADirectory("only a directory can replace a directory", path=path)
        if not is_empty:
            raise DirectoryNotEmpty("directory is not empty", path=path)


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
