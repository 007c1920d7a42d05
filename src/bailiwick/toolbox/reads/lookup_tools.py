"""`ls`, `tree`, `glob`, `grep` and `stat`: what there is, and where something stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from bailiwick.errors import BailiwickError, NotADirectory, escape_for_display
from bailiwick.model import Entry, MiB, Page
from bailiwick.search.results import GrepMatch, GrepResult
from bailiwick.toolbox import arguments
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.hints import (
    A_FILE,
    NARROW_GLOB,
    NARROW_GREP,
    NARROW_LS,
    NARROW_TREE,
    RAISE_FILE_SIZE,
    READ_THE_LINE,
)
from bailiwick.toolbox.reads.rows import entry_row, match_rows, path_row, rows_length, tree_rows
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

_NAMED_MAX = 5
"""Of those, how many are named in a row of text."""

_ENTRY_BYTES = 64
"""What a row of a listing takes besides its path, about."""


async def ls(bench: Bench, asked: arguments.Ls) -> Answered:
    most = bench.config.max_dir_entries
    async with _of_a_directory(bench, asked.path):
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
    result = DirectoryListing(
        entries=[_listed(entry) for entry in shown],
        truncated=omitted > 0,
        omitted_entries=omitted or None,
        note=f"at least {omitted} entries are not shown" if unknown else None,
    )

    def text() -> str:
        rows = [entry_row(entry) for entry in shown] or ["[empty]"]
        if omitted:
            least = "at least " if unknown else ""
            rows.append(_cut_row(f"{least}{omitted} entries", bench.advise(NARROW_LS)))
        return "\n".join(rows)

    return Answered(result, text)


async def tree(bench: Bench, asked: arguments.TreeArguments) -> Answered:
    most = bench.config.max_dir_entries
    async with _of_a_directory(bench, asked.path):
        found = await bench.scope.find(asked.path, depth=asked.depth, limit=most + 1)
    shown = fitting(
        found.matches[:most], bench.config.max_tool_result_bytes,
        lambda entry: 2 * utf8_length(entry.name) + utf8_length(entry.parent) + _ENTRY_BYTES,
    )  # fmt: skip
    omitted = len(found.matches) - len(shown)
    is_cut = found.truncated or omitted > 0
    result = DirectoryListing(
        entries=[_listed(entry) for entry in shown],
        truncated=is_cut,
        omitted_entries=max(omitted, 1) if is_cut else None,
        unreadable_paths=[str(path) for path in found.unreadable[:_SKIPPED_MAX]],
        note=None if omitted else found.reason,
    )

    def text() -> str:
        top = str(shown[0].path).count("/") if shown else 0
        rows = list(tree_rows(shown, top)) or ["[empty]"]
        if omitted:
            rows.append(_cut_row(f"at least {omitted} entries", bench.advise(NARROW_TREE)))
        return "\n".join([*rows, *_not_read(found.unreadable), *_noted(result.note)])

    return Answered(result, text)


@asynccontextmanager
async def _of_a_directory(bench: Bench, path: str) -> AsyncIterator[None]:
    """Who took a file for a directory is told how to read it. A path that leads through a file is
    another mistake."""
    try:
        yield
    except NotADirectory as error:
        with suppress(BailiwickError):
            if (await bench.scope.stat(path)).type == "file":
                error.hint = bench.advise(A_FILE)
        raise


def _noted(reason: str | None) -> list[str]:
    """Why there may be more, where that is not the number of what is shown: a row says that."""
    return [] if reason is None else [f"[{reason}]"]


def _cut_row(what: str, hint: str) -> str:
    return f"[... truncated, {what} omitted; {hint}]"


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


async def glob(bench: Bench, asked: arguments.GlobArguments) -> Answered:
    most = min(bench.config.max_glob_matches, bench.scope.limits.glob_max)
    found = await bench.scope.glob(asked.pattern, asked.path, limit=most)
    paths = [str(path) for path in found.paths]
    shown = fitting(paths, bench.config.max_tool_result_bytes, lambda path: utf8_length(path) + 4)
    omitted = found.omitted + len(paths) - len(shown)
    is_cut = found.truncated or omitted > 0
    result = Matches(
        matches=shown,
        truncated=is_cut,
        omitted_matches=omitted if is_cut else None,
        unreadable_paths=[str(path) for path in found.unreadable[:_SKIPPED_MAX]],
        note=None if found.omitted else found.reason,
    )

    def text() -> str:
        rows = [path_row(path) for path in shown] or ["[no matches]"]
        if omitted:
            rows.append(_cut_row(f"at least {omitted} matches", bench.advise(NARROW_GLOB)))
        return "\n".join([*rows, *_not_read(found.unreadable), *_noted(result.note)])

    return Answered(result, text)


async def grep(bench: Bench, asked: arguments.Grep) -> Answered:
    wanted = asked.max_results or bench.config.max_grep_matches
    most = min(wanted, bench.scope.limits.grep_matches_max)
    size = asked.max_grep_file_size_mb
    found = await bench.scope.grep(
        asked.pattern, asked.path,
        literal=asked.literal, ignore_case=asked.ignore_case, include=asked.include_glob,
        max_results=most, context=asked.context,
        max_file_bytes=-1 if size is None else max(1, int(size * MiB)),
    )  # fmt: skip
    note = found.reason if len(found.matches) < most else None
    return Answered(
        _lines_found(bench, found, note), lambda: _lines_in_words(bench, asked, found, note)
    )


def _lines_found(bench: Bench, found: GrepResult, note: str | None) -> LinesFound:
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
        unreadable_paths=[str(path) for path in found.unreadable[:_SKIPPED_MAX]],
        truncated=found.truncated or omitted > 0,
        omitted_matches=max(omitted, 1) if found.truncated or omitted else None,
        omitted_skipped=more_skipped or None,
        note=note,
    )


def _lines_in_words(
    bench: Bench, asked: arguments.Grep, found: GrepResult, note: str | None
) -> str:
    most = bench.config.max_tool_result_bytes
    rows = list(match_rows(found.matches, apart=asked.context > 0))
    shown = fitting(rows, most, rows_length)
    said: list[str] = []
    if shown:
        lines = cut_text("\n".join(row for each in shown for row in each), most)
        bench.wrapper.begin(lines.text)
        said.append(bench.wrapper.wrap(lines.text, asked.path))
        in_part = [
            f"{match.path}:{match.line}"
            for match in found.matches[: len(shown)]
            if match.line_truncated or lines.omitted_bytes
        ]
        if in_part:
            said.append(f"[shown in part: {_named(in_part)}; {bench.advise(READ_THE_LINE)}]")
    else:
        said.append(f"[no matches in {found.files_searched} files]")
    omitted = len(found.matches) - len(shown)
    if found.truncated or omitted:
        least = max(omitted, 1)
        said.append(_cut_row(f"at least {least} matches", bench.advise(NARROW_GREP)))
    return "\n".join([*said, *_not_searched(bench, found), *_noted(note)])


def _not_searched(bench: Bench, found: GrepResult) -> list[str]:
    """Rows about files that a search did not look into, in which there may be more."""
    said: list[str] = []
    if found.skipped_paths:
        said.append(
            f"[too large to be searched: {_named(found.skipped_paths)};"
            f" {bench.advise(RAISE_FILE_SIZE)}]"
        )
    if found.withheld:
        said.append(f"[withheld: {_named(found.withheld)}]")
    said += _not_read(found.unreadable)
    if found.skipped_binary_paths:
        said.append(f"[binary, not searched: {len(found.skipped_binary_paths)} files]")
    return said


def _not_read(paths: Sequence[str]) -> list[str]:
    """A row about what nobody could look into, in which there may be more."""
    return [f"[could not be read: {_named(paths)}]"] if paths else []


def _named(paths: Sequence[str]) -> str:
    """Some paths in a row, and how many more there are."""
    more = len(paths) - _NAMED_MAX
    shown = ", ".join(escape_for_display(path) for path in paths[:_NAMED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


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
        line_truncated=match.line_truncated,
    )  # fmt: skip


async def stat(bench: Bench, asked: arguments.StatArguments) -> Answered:
    known = await bench.scope.stat(asked.path)
    described = EntryDescribed(
        path=str(known.path), type=known.type, size=known.size, mode=f"{known.mode:04o}",
        modified_ms=known.mtime_ns // 1_000_000, version=known.version,
    )  # fmt: skip
    return Answered(Status(stat=described))
