"""Writing archives: entries and their content in, bytes out, the same for the same tree.

Nothing of who owned the files is written: user and group are 0 and have no names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bailiwick.archives.compression import packer_of
from bailiwick.archives.entries import ArchiveEntry
from bailiwick.archives.formats import ArchiveFormat, packing_of
from bailiwick.archives.tar_writer import TarWriter
from bailiwick.archives.zip_writer import ZipWriter


class ArchiveWriter(Protocol):
    """One archive being written. Content follows the entry of its file, as long as was said."""

    def entry(self, entry: ArchiveEntry) -> bytes: ...
    def content(self, data: bytes) -> bytes: ...
    def finish(self) -> bytes: ...


def new_writer(known: ArchiveFormat) -> ArchiveWriter:
    if known == "zip":
        return ZipWriter()
    return TarWriter(packer_of(packing_of(known)))


def written(writer: ArchiveWriter, parts: Iterable[ArchiveEntry | bytes]) -> bytes:
    """Write some entries and pieces of content; the bytes that are ready."""
    return b"".join(
        writer.content(part) if isinstance(part, bytes) else writer.entry(part) for part in parts
    )
