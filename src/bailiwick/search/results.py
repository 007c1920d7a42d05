"""What callers are told of a search in files."""

from __future__ import annotations

from bailiwick.model import Value
from bailiwick.paths import ScopedPath


class GrepMatch(Value, frozen=True, kw_only=True):
    """One matching line: where it is, what it says, what stands around it.

    ``line_truncated`` says that only the part around the match is shown; ``undecodable`` that bytes
    which are not UTF-8 are shown as ``\\xNN``.
    """

    path: ScopedPath
    line: int
    column: int
    text: str
    before: list[str] = []
    after: list[str] = []
    line_truncated: bool = False
    undecodable: bool = False


class GrepResult(Value, frozen=True, kw_only=True):
    """What a search found, sorted by path and line, and everything it did not look into.

    ``skips_reported`` is False where the caller asked to leave out the lists of skipped files.
    """

    matches: list[GrepMatch]
    skipped_paths: list[ScopedPath]
    skipped_binary_paths: list[ScopedPath]
    unreadable: list[ScopedPath]
    withheld: list[ScopedPath]
    truncated: bool
    files_searched: int
    skips_reported: bool
    request_id: str
    reason: str | None = None
