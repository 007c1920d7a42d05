"""`ls`, `glob`, `grep` and `stat`: what there is, and where something stands."""

from __future__ import annotations

from collections.abc import Sequence

from bailiwick.model import Entry, MiB, Page
from bailiwick.search.results import GrepMatch
from bailiwick.toolbox import arguments
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.results import (
    DirectoryListing,
    EntryDescribed,
    LineFound,
    LinesFound,
    Listed,
    Matches,
    Status,
)
from bailiwick.toolbox.truncation import cut_text, fitting, utf8_length

_COUNTED_MAX = 100_000
"""How many entries are counted that are not shown: enough to tell a model that it is too many."""

_SKIPPED_MAX = 100
"""Names of files that a search left out: more of them help nobody."""

_ENTRY_BYTES = 64
"""What a row of a listing takes besides its path, about."""


async def ls(bench: Bench, asked: arguments.Ls) -> DirectoryListing:
    most = bench.config.max_dir_entries
    entries, page = await _entries(bench, asked.path, most)
    shown = fitting(
        entries, bench.config.max_tool_result_bytes,
        lambda entry: 2 * utf8_length(entry.name) + utf8_length(entry.parent) + _ENTRY_BYTES,
    )  # fmt: skip
    omitted = len(entries) - len(shown)
    unknown = False
    while page.next_cursor is not None:
        if omitted >= _COUNTED_MAX:
            unknown = True
            break
        page = await bench.scope.list(asked.path, cursor=page.next_cursor, include_ignored=True)
        omitted += len(page.entries)
    return DirectoryListing(
        entries=[_listed(entry) for entry in shown],
        truncated=omitted > 0,
        omitted_entries=omitted or None,
        note=f"at least {omitted} entries are not shown" if unknown else None,
    )


async def _entries(bench: Bench, path: str, most: int) -> tuple[list[Entry], Page]:
    page_max = bench.scope.limits.list_page_max
    entries: list[Entry] = []
    cursor: str | None = None
    while True:
        page = await bench.scope.list(
            path, cursor=cursor, limit=min(most - len(entries), page_max), include_ignored=True
        )
        entries += page.entries
        cursor = page.next_cursor
        if cursor is None or len(entries) >= most:
            return entries, page


def _listed(entry: Entry) -> Listed:
    return Listed(
        name=entry.name,
        path=str(entry.path),
        type=entry.type,
        size=entry.size if entry.type == "file" else None,
        ignored=entry.ignored,
        addressable=entry.addressable,
    )


async def glob(bench: Bench, asked: arguments.GlobArguments) -> Matches:
    most = min(bench.config.max_glob_matches, bench.scope.limits.glob_max)
    found = await bench.scope.glob(asked.pattern, asked.path, limit=most)
    paths = [str(path) for path in found.paths]
    shown = fitting(paths, bench.config.max_tool_result_bytes, lambda path: utf8_length(path) + 4)
    omitted = found.omitted + len(paths) - len(shown)
    return Matches(
        matches=shown,
        truncated=found.truncated or omitted > 0,
        omitted_matches=omitted if found.truncated or omitted else None,
        note=found.reason,
    )


async def grep(bench: Bench, asked: arguments.Grep) -> LinesFound:
    limits = bench.scope.limits
    most = asked.max_results or bench.config.max_grep_matches
    size = asked.max_grep_file_size_mb
    found = await bench.scope.grep(
        asked.pattern, asked.path,
        literal=asked.literal, ignore_case=asked.ignore_case, include=asked.include_glob,
        max_results=min(most, limits.grep_matches_max), context=asked.context,
        max_file_bytes=-1 if size is None else max(1, int(size * MiB)),
    )  # fmt: skip
    shown = fitting(
        found.matches, bench.config.max_tool_result_bytes, lambda match: _size_of(bench, match)
    )
    omitted = len(found.matches) - len(shown)
    # A line is bounded by the scope, but an answer may be bounded more tightly still.
    bench.wrapper.begin(*(each for match in shown for each in _texts(match)))
    skipped, skipped_binary = found.skipped_paths, found.skipped_binary_paths
    more_skipped = sum(max(len(each) - _SKIPPED_MAX, 0) for each in (skipped, skipped_binary))
    return LinesFound(
        matches=[_line_found(bench, match) for match in shown],
        skipped_paths=[str(path) for path in skipped[:_SKIPPED_MAX]],
        skipped_binary_paths=[str(path) for path in skipped_binary[:_SKIPPED_MAX]],
        withheld_paths=[str(path) for path in found.withheld[:_SKIPPED_MAX]],
        truncated=found.truncated or omitted > 0,
        omitted_matches=max(omitted, 1) if found.truncated or omitted else None,
        omitted_skipped=more_skipped or None,
        note=found.reason,
    )


def _texts(match: GrepMatch) -> Sequence[str]:
    return (match.text, *match.before, *match.after)


def _size_of(bench: Bench, match: GrepMatch) -> int:
    """What a match takes in the answer: its texts, each group of lines between its tags."""
    groups = 1 + bool(match.before) + bool(match.after)
    texts = sum(utf8_length(text) + 1 for text in _texts(match))
    return texts + utf8_length(match.path) + groups * bench.wrapper.cost(match.path)


def _line_found(bench: Bench, match: GrepMatch) -> LineFound:
    def wrapped(lines: list[str]) -> str | None:
        text = cut_text("\n".join(lines), bench.config.max_tool_result_bytes).text
        return bench.wrapper.wrap(text, match.path, inline=True) if lines else None

    line = wrapped([match.text])
    assert line is not None
    return LineFound(
        path=str(match.path), line_number=match.line, line=line,
        before=wrapped(match.before), after=wrapped(match.after),
    )  # fmt: skip


async def stat(bench: Bench, asked: arguments.StatArguments) -> Status:
    known = await bench.scope.stat(asked.path)
    return Status(
        stat=EntryDescribed(
            path=str(known.path), type=known.type, size=known.size, mode=f"{known.mode:04o}",
            modified_ms=known.mtime_ns // 1_000_000, version=known.version,
        )
    )  # fmt: skip
