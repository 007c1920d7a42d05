"""Sums that tell whether a row is still what was written.

Content has its hashes. But a number that was flipped in the row of a name would show one file under
the name of another, each of them whole: so such rows carry a sum over themselves, which is compared
whenever they are read from the database.
"""

from __future__ import annotations

import hashlib
from typing import Final
from zlib import crc32

from bailiwick.errors import IoError
from bailiwick.stores.volume.rows.records import FILE, LINK, BoundName, Inode

_NUMBERS: Final = 7
"""The first columns of a node's row, which are numbers."""

DAMAGED: Final = -1
"""Stands for a content that must not be read: there is none with this number."""


def name_guard(parent: int, name: str, node: int, kind: int) -> int:
    return crc32(f"{parent} {node} {kind} {name}".encode(errors="surrogatepass"))


def inode_guard(inode: Inode) -> int:
    node, born, kind, mode, size, mtime_ns, edition, sha256, content, data, created_ns = inode
    numbers = f"{node} {born} {kind} {mode} {size} {mtime_ns} {edition} {content or 0} "
    if created_ns is not None:  # a row from before has a sum without it
        numbers += f"{created_ns} "
    # One flipped bit makes text of bytes: that is not what was written, and is left out.
    told = numbers.encode() + (sha256 if isinstance(sha256, bytes) else b"")
    return crc32(told + data if kind == LINK and isinstance(data, bytes) else told)


def row_guard(*values: object) -> int:
    """The sum over a row that is made now and then: a branch, a snapshot, a volume."""
    return crc32("\0".join(map(str, values)).encode(errors="surrogatepass"))


def log_guard(
    branch: int, version: int, time_ns: int, verb: str, subject: str | None, request: str | None,
    note: bytes | None, key: bytes | None,
) -> int:  # fmt: skip
    """The sum over what the log says of a whole version, in its first row."""
    who = f"{branch} {version} {time_ns} {verb}\0{subject or ''}\0{request or ''}"
    return crc32(key or b"", crc32(note or b"", crc32(who.encode(errors="surrogatepass"))))


def is_sound(inode: Inode, guard: int | None) -> bool:
    """Whether a node's row is what was written, its small content included."""
    if guard is not None and guard != inode_guard(inode):
        return False
    if inode.kind != FILE or inode.content is not None:
        return True
    return is_small_content(inode.size, inode.sha256, inode.data)


def is_small_content(size: int, sha256: bytes | None, data: object) -> bool:
    """Whether content that is kept in a node's row is what was written. Damage may have made
    anything of it."""
    return isinstance(data, bytes) and len(data) == size and hashlib.sha256(data).digest() == sha256


def checked_name(parent: int, name: str, node: int, kind: int, guard: int | None) -> BoundName:
    if guard is not None and guard != name_guard(parent, name, node, kind):
        raise IoError("the row of a name is damaged", hint="check the volume")
    return BoundName(node, kind)


def checked_inode(inode: Inode, guard: int | None) -> Inode:
    """The node as it can be believed. Of a damaged file nothing can be read, but it can still be
    replaced or removed."""
    if is_sound(inode, guard):
        return inode
    if inode.kind != FILE or not all(isinstance(each, int) for each in inode[:_NUMBERS]):
        raise damaged()
    sha256 = inode.sha256 if isinstance(inode.sha256, bytes) else None
    return inode._replace(content=DAMAGED, data=None, sha256=sha256)


def damaged() -> IoError:
    return IoError("the content or its row is damaged", hint="check the volume")
