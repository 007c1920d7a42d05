"""What each tool answers: plain values, whose fields that say nothing are left out."""

from __future__ import annotations

from typing import Any

import msgspec

from bailiwick.model import EntryType


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of answers."""


class FileRead(Result, frozen=True, kw_only=True):
    """``text`` is tagged. ``sha256`` is there where the whole file is known."""

    text: str
    sha256: str | None = None
    total_lines: int | None = None
    truncated: bool = False
    omitted_bytes: int | None = None
    next_line: int | None = None
    next_cursor: str | None = None


class FileWritten(Result, frozen=True, kw_only=True):
    ok: bool
    created: bool
    sha256: str
    request_id: str | None = None


class FileEdited(Result, frozen=True, kw_only=True):
    """``diff`` is tagged: it shows what stands around the change."""

    ok: bool
    diff: str
    sha256: str
    first_changed_line: int | None = None
    truncated: bool = False
    omitted_bytes: int | None = None
    request_id: str | None = None


class Listed(Result, frozen=True, kw_only=True):
    """A name that is no valid text is shown escaped, and cannot be reached by it."""

    name: str
    path: str
    type: EntryType
    size: int | None = None
    ignored: bool = False
    addressable: bool = True


class Listing(Result, frozen=True, kw_only=True):
    entries: list[Listed]
    truncated: bool = False
    omitted_entries: int | None = None
    note: str | None = None


class Matches(Result, frozen=True, kw_only=True):
    matches: list[str]
    truncated: bool = False
    omitted_matches: int | None = None
    note: str | None = None


class LineFound(Result, frozen=True, kw_only=True):
    """``line``, ``before`` and ``after`` are tagged."""

    path: str
    line_number: int
    line: str
    before: str | None = None
    after: str | None = None


class LinesFound(Result, frozen=True, kw_only=True):
    matches: list[LineFound]
    skipped_paths: list[str]
    skipped_binary_paths: list[str]
    withheld_paths: list[str] = []
    truncated: bool = False
    omitted_matches: int | None = None
    omitted_skipped: int | None = None
    note: str | None = None


class Described(Result, frozen=True, kw_only=True):
    path: str
    type: EntryType
    size: int
    mode: str
    modified_ms: int
    version: str


class Status(Result, frozen=True, kw_only=True):
    stat: Described


class Done(Result, frozen=True, kw_only=True):
    ok: bool
    request_id: str | None = None


class Versions(Result, frozen=True, kw_only=True):
    versions: list[dict[str, Any]]
    truncated: bool = False
    next_cursor: str | None = None


class Undone(Result, frozen=True, kw_only=True):
    """What was undone, or with ``preview`` would be; ``conflicts`` stayed as they are."""

    ok: bool
    undone: list[str]
    conflicts: list[dict[str, str]]
    preview: bool = False
    request_id: str | None = None
    truncated: bool = False


class Difference(Result, frozen=True, kw_only=True):
    """``diff`` is tagged."""

    diff: str
    equal: bool
    truncated: bool = False
    omitted_bytes: int | None = None
