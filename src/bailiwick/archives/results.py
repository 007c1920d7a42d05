"""What the verbs about archives return."""

from __future__ import annotations

from bailiwick.model import Value
from bailiwick.paths import ScopedPath


class ExtractResult(Value, frozen=True, kw_only=True):
    """What came out of an archive. ``skipped`` are names of entries that stand for the destination
    itself; everything else was made, or nothing was."""

    path: ScopedPath
    destination: ScopedPath
    files: int
    directories: int
    links: int
    bytes: int
    skipped: list[str]
    request_id: str


class ArchiveResult(Value, frozen=True, kw_only=True):
    """An archive that was made: what it holds (``bytes`` of content), and the file it became."""

    path: ScopedPath
    format: str
    files: int
    directories: int
    links: int
    bytes: int
    size: int
    sha256: str
    version: str
    created: bool
    file_mode: int
    request_id: str
