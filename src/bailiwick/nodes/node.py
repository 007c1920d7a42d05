"""One object of a tree, as a value."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

ROOT_ID: Final = "root"
"""The id of the root. It stands in no directory, and where nobody has put it there is one."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A file, a directory or a link, and where it stands.

    Content never changes under an id: a file that is written has another. A node that is moved, or
    whose mode or times are set, keeps it. ``parent`` is the id of the directory that it stands in.
    ``data`` is what a file holds, or the text of a link; ``sha256`` is there for a file only, and
    there None where it takes reading to know. Where ``length`` is given, so much is held elsewhere
    instead: `NodeKeeper.content_of` has it. ``created_ns`` is None where nobody knows it.
    """

    id: str
    parent: str
    name: str
    type: Literal["file", "directory", "symlink"]
    data: bytes
    sha256: str | None
    mode: int
    mtime_ns: int
    created_ns: int | None
    version: str
    length: int | None = None

    @property
    def size(self) -> int:
        return len(self.data) if self.length is None else self.length
