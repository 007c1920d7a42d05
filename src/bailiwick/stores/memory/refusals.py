"""What a store in memory refuses, and in which words: checks without any effect."""

from __future__ import annotations

import errno

from bailiwick.errors import (
    DirectoryNotEmpty,
    FileTooLarge,
    IsADirectory,
    NotADirectory,
    ParseError,
    PermissionDenied,
    SymlinkEscape,
)
from bailiwick.model import Expected
from bailiwick.paths import DEPTH_MAX, ROOT, ScopedPath, tree_too_deep
from bailiwick.store import WritePlan
from bailiwick.stores.memory.tree import (
    Directory,
    File,
    Node,
    is_deeper,
    levels_above,
    lies_in,
)


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
    sha256 = node.sha256 if isinstance(node, File) else None
    expected.check(path, None if node is None else node.version, sha256)


def check_replaceable(path: ScopedPath, node: Node, old: Node, origin: Directory) -> None:
    """Whether a move of ``node`` from ``origin`` may put it in the place of ``old``."""
    if isinstance(old, Directory) and lies_in(origin, old):
        raise DirectoryNotEmpty("the directory holds what is moved", path=path)
    if isinstance(node, Directory) and not isinstance(old, Directory):
        raise NotADirectory("a directory cannot replace something else", path=path)
    if isinstance(old, Directory):
        if not isinstance(node, Directory):
            raise IsADirectory("only a directory can replace a directory", path=path)
        if old.children:
            raise DirectoryNotEmpty("directory is not empty", path=path)


def check_depth(path: ScopedPath, node: Node, directory: Directory) -> None:
    """Refuse to put ``node`` into ``directory`` where no path could name all that lies beneath."""
    if is_deeper(node, DEPTH_MAX - levels_above(directory)):
        raise tree_too_deep(path)


def check_link_text(path: ScopedPath, text: str, bytes_max: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ParseError("the link's text is not valid text", path=path) from None
    if not text.strip() or "\0" in text:
        raise ParseError("a link's text is neither blank nor holds NUL", path=path)
    if size > bytes_max:
        raise ParseError("the link's text is too long", path=path, details={"limit": bytes_max})


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
