"""Whole texts, for editors that work out the new content themselves."""

from __future__ import annotations

from typing import NamedTuple

from bailiwick.errors import FileTooLarge
from bailiwick.scope import Scope
from bailiwick.text.codec import decode


class TextDocument(NamedTuple):
    """The text of a file, the bytes it is made of, and the hash by which it is known to be
    unchanged."""

    path: str
    text: str
    sha256: str | None
    data: bytes


async def whole_text(scope: Scope, path: str) -> TextDocument:
    """All of a text file that can be edited at all. Raises `FileTooLarge`, `BinaryFile`."""
    most = scope.limits.text_write_bytes_max
    read = await scope.read_bytes(path, 0, most + 1)
    if len(read.data) > most:
        raise FileTooLarge(
            f"only files of at most {most} bytes can be edited", path=read.path,
            details={"limit": most},
        )  # fmt: skip
    return TextDocument(path, decode(read.data).text, read.sha256, read.data)
