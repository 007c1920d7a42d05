"""The table of values: what each is called on the wire, and where it is not as the rule has it.

A value that leaves through a front has a row here. To rename something on the wire is to change its
row, and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_args

import msgspec

from bailiwick.archives.results import ArchiveResult, ExtractResult
from bailiwick.audit import LedgerRecord
from bailiwick.commands import ExecResult, WorkInfo
from bailiwick.model import (
    BytesRead,
    Change,
    ChangeResult,
    DiffResult,
    EditResult,
    Entry,
    Found,
    Page,
    Stat,
    TextRead,
    WriteResult,
)
from bailiwick.notices import ReviewNotice, RunNotice
from bailiwick.paths import ScopedPath
from bailiwick.reviews import (
    ReviewFile,
    ReviewHunk,
    ReviewNote,
    ReviewQueue,
    ReviewResult,
    ReviewSides,
)
from bailiwick.runs import Hunk, OthersHunk, RunChange, RunChanges, RunInfo
from bailiwick.sandbox import Piece, Stream
from bailiwick.search.results import GrepMatch, GrepResult
from bailiwick.text.diff import UnifiedDiff
from bailiwick.versions import (
    Comparison,
    Conflict,
    Difference,
    Fork,
    History,
    Leased,
    MergeResult,
    RestoreResult,
    Snapshot,
    UndoResult,
    Version,
)
from bailiwick.wire import names
from bailiwick.wire.forms import Document, Form, Key, Result
from bailiwick.working_copy import Published, Withheld, WorkChange, WorkChanges, WorkConflict

ALIAS = "deprecated"
"""What marks a field, in its schema, that is only another name of one that is shown."""


def alias_of(name: str) -> msgspec.Meta:
    return msgspec.Meta(description=f"Another name of {name}.", extra_json_schema={ALIAS: True})


def _line_count(line_feeds: int | None) -> int | None:
    """What follows the last newline counts here, as it does for those who have always read it."""
    return None if line_feeds is None else line_feeds + 1


def _is_known(value: object) -> bool:
    return value is not None


def _texts(paths: list[ScopedPath]) -> list[str]:
    return [*map(str, paths)]


_MODIFIED = (
    Key("modified_ms", "mtime_ns", int, names.milliseconds, again=True),
    Key("modified_ns", "mtime_ns", int),
)

# --- what files hold ---------------------------------------------------------------------------

FILE = Form(
    TextRead, "FileRead", "Text of a file, or a window of its lines.", kind="file", tagged=True,
    keys=(
        "path", Key("content", "text"), "encoding", "bom", "line_ending", "size", "returned_bytes",
        "truncated", "sha256", "version", "matched_ignore", "first_line",
        Key("original_line_count", "line_feeds", int | None, _line_count), "total_lines",
        "ends_with_newline", "next_cursor",
        Key("has_more", "next_cursor", bool, _is_known, again=True), "partial_line", "request_id",
    ),
)  # fmt: skip

FILE_BYTES = Form(
    BytesRead, "FileBytes", "Bytes of a file, as base64.", kind="file_bytes", tagged=True,
    keys=(
        "path", Key("content_base64", "data", str, names.base64_of, names.bytes_of), "offset",
        "size", Key("returned_bytes", "data", int, len, again=True), "truncated",
        Key("hash", "sha256", str | None, names.hash_of), "version", "request_id",
    ),
)  # fmt: skip

FILE_WRITE = Form(
    WriteResult, "FileWrite", "A file that was written.", kind="file_write", tagged=True
)
FILE_APPEND = FILE_WRITE.called(
    "FileAppend", "A file that something was added to.", kind="file_append"
)
FILE_TRUNCATE = FILE_WRITE.called(
    "FileTruncate", "A file that was cut or extended.", kind="file_truncate"
)
FILE_UPLOAD = FILE_WRITE.called(
    "FileUpload", "A file that was uploaded, under the name it got.", kind="file_upload"
)
FILE_EDIT = Form(
    EditResult, "FileEdit", "What an edit changed, or would change.", kind="file_edit", tagged=True
)

# --- the tree ----------------------------------------------------------------------------------

ENTRY = Form(
    Entry, "WireEntry", "One entry of a listing.",
    keys=(
        "name", Key("path", "path", str, str), "type",
        Key("kind", "type", Annotated[str, alias_of("type")], again=True), "ignored", "size",
        *_MODIFIED, "addressable", "read_only",
    ),
    derived={"parent": lambda told: names.parent_of(told.get("path"), told.get("name"))},
)  # fmt: skip

LIST = Form(Page, "Listing", "One page of a directory, sorted by name.", kind="list")

STAT = Form(
    Stat, "StatResult", "What is known of one object.", kind="stat", tagged=True,
    keys=(
        "path", "name", "type", "size", *_MODIFIED,
        Key("created_ms", "created_ns", int | None, names.milliseconds, again=True),
        Key("created_ns", "created_ns", int | None),
        Key("mode", "mode", Annotated[int, alias_of("fileMode, as a number")]),
        Key("file_mode", "mode", str, names.octal, again=True), "version", "links",
        "target", "mime", "read_only",
    ),
)  # fmt: skip


class LinkResult(Result, frozen=True, kw_only=True, tag="link"):
    """The text of a link."""

    path: str
    target: str


CHANGE = Form(ChangeResult, "Changed", "A change that has no content of its own.", kind="change")

EVENT = Form(
    Change, "Event", "One change.", unsaid={"beneath_links": ()},
    keys=(
        "kind", "path", "type", "subject", "request_id", "version", "origin", "subtree", "time_ns",
        "cursor", "beneath", "beneath_truncated",
    ),
)  # fmt: skip

EXTRACTED = Form(ExtractResult, "Extracted", "What came out of an archive.", kind="archive_extract")
ARCHIVED = Form(
    ArchiveResult, "Archived", "An archive that was made.", kind="archive_create", tagged=True
)

# --- searching ---------------------------------------------------------------------------------

FIND = Form(
    Found, "FindResult", "The entries that fit, sorted by path.", kind="find",
    keys=(
        Key("path", "base"), Key("entries", "matches"), "truncated", "omitted", "reason",
        "unreadable", "next_cursor", "request_id",
    ),
    unsaid={"visited": 0},
)  # fmt: skip
FILES = FIND.called("FilesResult", "All files beneath a directory, flat.", kind="files")
GLOB = Form(
    Found, "GlobResult", "The paths that match, sorted.", kind="glob",
    keys=(
        Key("pattern", "", str), Key("cwd", "base"), Key("matches", "paths", list[str], _texts),
        Key("count", "matches", int, len), "truncated", "omitted", "reason", "unreadable",
        "next_cursor", Key("entries", "", list[ENTRY.struct] | None),  # type: ignore[name-defined]
        Key("duration_ms", "", float), "request_id",
    ),
    unsaid={"visited": 0},
)  # fmt: skip

MATCH = Form(GrepMatch, "WireMatch", "One matching line.")
GREP = Form(
    GrepResult, "GrepResult",
    "The lines that match, sorted by path and line, and all that was not looked into.",
    kind="grep",
    keys=(
        Key("pattern", "", str), Key("path", "", str), "matches", "skipped_paths",
        "skipped_binary_paths", "unreadable", "withheld", "truncated", "files_searched",
        "skips_reported", "reason", Key("duration_ms", "", float), "request_id",
    ),
)  # fmt: skip

DIFF = Form(
    DiffResult, "DiffResult", "A unified diff, or a summary where that is too large.", kind="diff"
)

# --- what was, and what is tried apart ---------------------------------------------------------

VERSION = Form(
    Version, "WireVersion",
    "One version of what stands, or stood, at a place. ``kind`` is what happened.",
)  # fmt: skip
HISTORY = Form(
    History, "HistoryResult", "Versions, newest first.", kind="history", unsaid={"request_id": ""}
)
RESTORE = Form(RestoreResult, "Restored", "What a restore changed.", kind="restore")
CONFLICT = Form(Conflict, "WireConflict", "A place that was left as it is, and why.")
UNDO = Form(UndoResult, "Undone", "What an undo put back, and what it left.", kind="undo")
RUN = Form(RunInfo, "WireRun", "What one subject did in one session.", kind="run")
HUNK = Form(Hunk, "WireHunk", "Some lines that were changed at one place.")
OTHERS_HUNK = Form(OthersHunk, "WireOthersHunk", "Lines that somebody else changed meanwhile.")
RUN_CHANGE = Form(RunChange, "WireRunChange", "What became of one path by a run.")
RUN_CHANGES = Form(
    RunChanges, "RunChanged", "What a run changed in all, by path, in hunks.", kind="run_changes",
    unsaid={"request_id": ""},
)  # fmt: skip
RUN_NOTICE = Form(
    RunNotice, "RunEvent", "A run has begun, was heard of again, or has ended.",
    unsaid={"grant_id": None},
)  # fmt: skip
REVIEW_NOTICE = Form(
    ReviewNotice, "ReviewEvent", "A person has accepted or rejected what an agent did.",
    unsaid={"grant_id": None},
)  # fmt: skip
REVIEW_HUNK = Form(ReviewHunk, "WireReviewHunk", "Some lines that nobody has agreed to yet.")
REVIEW_SIDES = Form(
    ReviewSides, "WireReviewSides", "Some lines of a file that was changed on both sides."
)
REVIEW_FILE = Form(ReviewFile, "WireReviewFile", "What is left to look at of one path.")
REVIEW_QUEUE = Form(
    ReviewQueue, "Reviewing", "What agents did that nobody has agreed to, by path.", kind="review",
)  # fmt: skip
REVIEW_RESULT = Form(
    ReviewResult, "ReviewSaid", "What came of a verdict, and how many hunks are left.",
    kind="review_result",
)  # fmt: skip
REVIEW_NOTE = Form(ReviewNote, "WireReviewNote", "What an agent is told of what was taken back.")
SNAPSHOT = Form(Snapshot, "WireSnapshot", "A version with a name.")
FORK = Form(Fork, "WireFork", "A branch, and the version of its parent that it began with.")
DIFFERENCE = Form(Difference, "WireDifference", "One thing that is not the same in two branches.")
COMPARE = Form(
    Comparison, "Compared", "How a fork differs, sorted by path.", kind="compare",
    keys=(Key("fork", "", str), "differences", "truncated"), unsaid={"request_id": ""},
)  # fmt: skip
MERGE = Form(
    MergeResult, "Merged",
    "What a merge took over, or the conflicts for which it took over nothing.", kind="merge",
)  # fmt: skip
LOCK = Form(
    Leased, "Lock",
    "A lock that is held: give its ``token`` as ``lockToken`` with every change under it.",
    kind="lock", keys=(Key("id", "", str), "path", "token", Key("expires_at_ms", "expires_ns")),
)  # fmt: skip


# --- commands, and what they changed -----------------------------------------------------------

WORK_CHANGE = Form(WorkChange, "WireWorkChange", "One path that was changed apart.")
WITHHELD = Form(Withheld, "WireWithheld", "What is not brought back, and why.")
WORK_CONFLICT = Form(WorkConflict, "WireWorkConflict", "What others changed meanwhile: it stays.")
EXEC_RESULT = Form(ExecResult, "ExecResult", "What became of a command, and of what it changed.")
WORK_INFO = Form(WorkInfo, "WireWork", "A working copy that holds what is not in the tree.")
WORK_CHANGES = Form(
    WorkChanges, "WorkChanges", "What a working copy would do to the tree.", kind="work"
)
PUBLISHED = Form(Published, "WorkPublished", "What was brought back.", kind="work_published")
WORK_DIFF = Form(UnifiedDiff, "WorkDiff", "From the tree to a working copy.", kind="work_diff")


class WireExecution(Result, frozen=True, kw_only=True, tag="exec"):
    """A command that a server runs, or has run: ``command`` are its words as a shell would quote
    them, ``session`` the id of its session where it has one."""

    id: str
    request_id: str
    state: Literal["running", "ended"]
    command: str
    session: str | None
    subject: str
    root: str
    began_ms: int


class ExecutionList(Result, frozen=True, kw_only=True, tag="execs"):
    """Commands, oldest first."""

    executions: list[WireExecution]


class ExecLine(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One line about a command: the command (``exec``, first), a piece of its output (``seq``,
    ``stream``, ``data``), its ``result`` (last), or the ``error`` that ended the telling. ``data``
    is text, or base64 where ``encoding`` says so: what is no UTF-8 by itself."""

    exec: WireExecution | None = None
    seq: int | None = None
    stream: str | None = None
    data: str | None = None
    encoding: Literal["base64"] | None = None
    result: EXEC_RESULT.struct | None = None  # type: ignore[name-defined]
    error: dict[str, Any] | None = None


def piece_line(piece: Piece) -> ExecLine:
    """A piece of output. Each stands by itself, so that it is the same wherever one begins."""
    try:
        return ExecLine(seq=piece.seq, stream=piece.stream, data=piece.data.decode())
    except UnicodeDecodeError:
        text = names.base64_of(piece.data)
        return ExecLine(seq=piece.seq, stream=piece.stream, data=text, encoding="base64")


def piece_of(line: ExecLine) -> Piece:
    """The piece that a line tells. Raises `Unreadable`."""
    if line.seq is None or line.data is None or line.stream not in get_args(Stream):
        raise names.Unreadable("a piece of output is none")
    data = line.data.encode() if line.encoding is None else names.bytes_of(line.data)
    return Piece(line.seq, cast(Stream, line.stream), data)


class ExecutionClosed(Result, frozen=True, kw_only=True, tag="exec_closed"):
    """A command that has ended for good, and is forgotten. Without a ``result`` where it failed."""

    id: str
    result: EXEC_RESULT.struct | None  # type: ignore[name-defined]


class InputTaken(Result, frozen=True, kw_only=True, tag="exec_input"):
    """Bytes that a command was handed."""

    id: str
    taken_bytes: int


class WireSession(Result, frozen=True, kw_only=True, tag="session"):
    """A session that is open: where its commands are run, with which variables, which of them are
    under way here, and the words of those that were lost with an earlier process."""

    id: str
    cwd: str
    env: dict[str, str]
    lost: tuple[str, ...]
    running: list[str]
    subject: str
    root: str


class SessionList(Result, frozen=True, kw_only=True, tag="sessions"):
    """The sessions that are open, oldest first."""

    sessions: list[WireSession]


class SessionClosed(Result, frozen=True, kw_only=True, tag="session_closed"):
    """A session whose processes have ended. What was not published is kept."""

    id: str


class WorkList(Result, frozen=True, kw_only=True, tag="work_list"):
    """Working copies, oldest first."""

    work: list[WORK_INFO.struct]  # type: ignore[name-defined]


class WorkDiscarded(Result, frozen=True, kw_only=True, tag="work_discarded"):
    """What was given up."""

    id: str
    discarded: list[str]


class OverlayDiscarded(Result, frozen=True, kw_only=True, tag="overlay_discarded"):
    """What was given up of an overlay."""

    discarded: list[str]


class SnapshotMade(Result, frozen=True, kw_only=True, tag="snapshot"):
    """A snapshot that was made."""

    snapshot: SNAPSHOT.struct  # type: ignore[name-defined]


class SnapshotList(Result, frozen=True, kw_only=True, tag="snapshots"):
    """All snapshots."""

    snapshots: list[SNAPSHOT.struct]  # type: ignore[name-defined]


class ForkMade(Result, frozen=True, kw_only=True, tag="fork"):
    """A fork that was made: act in it with ``fork=NAME`` in any query."""

    name: str


class ForkList(Result, frozen=True, kw_only=True, tag="forks"):
    """All forks."""

    forks: list[FORK.struct]  # type: ignore[name-defined]


class Deleted(Result, frozen=True, kw_only=True, tag="deleted"):
    """Something with a name that is gone."""

    name: str


# --- what is handed out ------------------------------------------------------------------------


class Limits(Document, frozen=True, kw_only=True):
    """How much of anything."""

    text_read_bytes: int
    text_write_bytes: int
    max_file_bytes: int
    json_body_bytes: int
    upload_bytes: int
    lines: int
    list_page: int
    glob_matches: int
    grep_matches: int


class Capabilities(Result, frozen=True, kw_only=True, tag="capabilities"):
    """What this server, and this caller on this root, can do."""

    version: str
    features: tuple[str, ...]
    limits: Limits
    subject: str
    root: str
    grant_id: str
    access: list[str]
    powers: list[str]
    trusted: bool
    read_only: bool


class TempRoot(Result, frozen=True, kw_only=True, tag="temp"):
    """A private root, to be used as ``/roots/temp/{id}/…`` by whoever made it."""

    root: str
    id: str
    expires_at_ms: int | None


class WireGrant(Result, frozen=True, kw_only=True, tag="grant"):
    """A grant, standing or handed out."""

    id: str
    holds: bool
    standing: bool
    configured: bool
    subject: str
    root: str
    access: list[str]
    path: str
    allowed: list[str]
    denied: list[str]
    reason: str
    source: str
    parent: str | None
    created_ms: int
    expires_ms: int | None
    ended_ms: int | None


class Delegated(Result, frozen=True, kw_only=True, tag="delegated"):
    """A narrower grant for another subject, and the token by which that subject uses it. The token
    is shown this once."""

    grant: WireGrant
    token: str


# --- what is on record -------------------------------------------------------------------------

RECORD = Form(
    LedgerRecord, "WireRecord", "One record.",
    keys=(
        "seq", "time_ns", "request_id", "subject", "grant_id", "root", "operation", "verb", "path",
        "destination", "outcome", "error_kind", "policy_source", "hooks", "reason", "bytes",
        "sha256_before", "sha256_after", Key("duration_ns", "duration_ns", int), "front",
        "approval_id", "details",
    ),
)  # fmt: skip
