"""What each tool answers: plain values, whose fields that say nothing are left out."""

from __future__ import annotations

from typing import Any

import msgspec

from bailiwick.model import EntryType


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of answers."""


class FilePart(ToolResult, frozen=True, kw_only=True):
    """One of several files: how much of it is shown, or why it is not."""

    path: str
    sha256: str | None = None
    total_lines: int | None = None
    truncated: bool = False
    omitted_bytes: int | None = None
    next_line: int | None = None
    next_cursor: str | None = None
    mime_type: str | None = None
    size: int | None = None
    error_kind: str | None = None
    message: str | None = None
    hint: str | None = None


class FileRead(ToolResult, frozen=True, kw_only=True):
    """``text`` is tagged, where it is the file's. ``sha256`` is there where the whole file is
    known. What is no text has a ``mime_type`` and a ``size``; several files are told of in
    ``files``, and their texts stand together between one pair of tags."""

    text: str
    sha256: str | None = None
    total_lines: int | None = None
    truncated: bool = False
    omitted_bytes: int | None = None
    next_line: int | None = None
    next_cursor: str | None = None
    mime_type: str | None = None
    size: int | None = None
    hint: str | None = None
    files: list[FilePart] | None = None


class FileWritten(ToolResult, frozen=True, kw_only=True):
    ok: bool
    created: bool
    sha256: str
    request_id: str | None = None


class FileEdited(ToolResult, frozen=True, kw_only=True):
    """``diff`` is tagged: it shows what stands around the change."""

    ok: bool
    diff: str
    sha256: str
    first_changed_line: int | None = None
    truncated: bool = False
    omitted_bytes: int | None = None
    request_id: str | None = None


class Listed(ToolResult, frozen=True, kw_only=True):
    """A name that is no valid text is shown escaped, and cannot be reached by it."""

    name: str
    path: str
    type: EntryType
    size: int | None = None
    ignored: bool = False
    addressable: bool = True


class DirectoryListing(ToolResult, frozen=True, kw_only=True):
    entries: list[Listed]
    truncated: bool = False
    omitted_entries: int | None = None
    unreadable_paths: list[str] = []
    note: str | None = None


class Matches(ToolResult, frozen=True, kw_only=True):
    matches: list[str]
    truncated: bool = False
    omitted_matches: int | None = None
    unreadable_paths: list[str] = []
    note: str | None = None


class LineFound(ToolResult, frozen=True, kw_only=True):
    """``line``, ``before`` and ``after`` are tagged. ``line_truncated`` says that one of these
    lines is longer than what is shown of it."""

    path: str
    line_number: int
    line: str
    before: str | None = None
    after: str | None = None
    line_truncated: bool = False


class LinesFound(ToolResult, frozen=True, kw_only=True):
    matches: list[LineFound]
    skipped_paths: list[str]
    skipped_binary_paths: list[str]
    withheld_paths: list[str] = []
    unreadable_paths: list[str] = []
    truncated: bool = False
    omitted_matches: int | None = None
    omitted_skipped: int | None = None
    note: str | None = None


class EntryDescribed(ToolResult, frozen=True, kw_only=True):
    path: str
    type: EntryType
    size: int
    mode: str
    modified_ms: int
    version: str


class Status(ToolResult, frozen=True, kw_only=True):
    stat: EntryDescribed


class ChangeDone(ToolResult, frozen=True, kw_only=True):
    ok: bool
    request_id: str | None = None


class VersionList(ToolResult, frozen=True, kw_only=True):
    versions: list[dict[str, Any]]
    truncated: bool = False
    next_cursor: str | None = None


class ChangesUndone(ToolResult, frozen=True, kw_only=True):
    """What was undone, or with ``preview`` would be; ``conflicts`` stayed as they are."""

    ok: bool
    undone: list[str]
    conflicts: list[dict[str, str]]
    preview: bool = False
    request_id: str | None = None
    truncated: bool = False


class DifferenceShown(ToolResult, frozen=True, kw_only=True):
    """``diff`` is tagged."""

    diff: str
    equal: bool
    truncated: bool = False
    omitted_bytes: int | None = None


class CommandEnded(ToolResult, frozen=True, kw_only=True):
    """``output`` is tagged. What was ``withheld``, or is in conflict with what others changed, is
    kept in the working copy ``work_id``."""

    output: str
    exit_code: int | None = None
    changes: list[dict[str, str]]
    signal: int | None = None
    timed_out: bool = False
    withheld: list[dict[str, str]] = []
    conflicts: list[dict[str, str]] = []
    hint: str | None = None
    truncated: bool = False
    omitted_bytes: int | None = None
    work_id: str | None = None
    request_id: str | None = None


class CodeEnded(ToolResult, frozen=True, kw_only=True):
    """``output``, ``value`` (as JSON) and ``raised`` are tagged: the code says them."""

    output: str
    value: str | None = None
    raised: str | None = None
    error_kind: str | None = None
    timed_out: bool = False
    calls: int
    changes: list[dict[str, str]]
    truncated: bool = False
    omitted_bytes: int | None = None
    request_id: str | None = None
