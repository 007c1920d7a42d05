"""`history`, `undo` and `diff`: the tools of a store that keeps versions."""

from __future__ import annotations

from typing import Any

from bailiwick.errors import ParseError, PathNotFound, escape_for_display
from bailiwick.model import DiffResult
from bailiwick.toolbox import arguments
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.hints import (
    GO_ON_IN_HISTORY,
    IN_PARTS,
    NOTHING_TO_COMPARE,
    ONE_OF_TWO,
    WHICH_VERSIONS,
)
from bailiwick.toolbox.results import ChangesUndone, DifferenceShown, VersionList
from bailiwick.toolbox.truncation import cut_text
from bailiwick.toolbox.untrusted_text import cut_note
from bailiwick.versions import Version

_VERSION_BYTES = 300
"""What a row of a history takes, about."""

_PATHS_MAX = 200
"""Paths an undo lists."""


async def history(bench: Bench, asked: arguments.HistoryArguments) -> Answered:
    # A row has a bounded size besides its path, so fewer are asked for where the cap is small.
    most = max(1, min(asked.limit, bench.config.max_tool_result_bytes // _VERSION_BYTES))
    found = await bench.scope.history(asked.path, limit=most, cursor=asked.cursor)
    result = VersionList(
        versions=[_told(version) for version in found.versions],
        truncated=found.truncated,
        next_cursor=found.next_cursor,
    )

    def text() -> str:
        rows = [_row(version, asked.path) for version in found.versions] or ["[no versions]"]
        if found.next_cursor is not None:
            rows.append(f"[{bench.advise(GO_ON_IN_HISTORY, cursor=found.next_cursor)}]")
        return "\n".join(rows)

    return Answered(result, text)


def _row(version: Version, asked: str) -> str:
    """A version in a row: what became of it, when, by whom, and by which names it is found. What
    others made past this boundary has neither."""
    path = str(version.path)
    named = "" if path == asked else f" {escape_for_display(path)}"
    when = "" if version.time_ns is None else f", modifiedMs {version.time_ns // 1_000_000}"
    by = escape_for_display(version.subject) or "others"
    request = f", request {version.request_id}" if version.request_id else ""
    what = f"{version.kind}{named}, {version.size} bytes{when}"
    return f"version {version.version}: {what} by {by}{request}"


def _told(version: Version) -> dict[str, Any]:
    told: dict[str, Any] = {
        "version": version.version, "kind": version.kind, "path": str(version.path),
        "type": version.type, "size": version.size,
    }  # fmt: skip
    if version.subject:
        told["by"] = version.subject
    if version.request_id:
        told["requestId"] = version.request_id
    if version.sha256 is not None:
        told["sha256"] = version.sha256
    if version.time_ns is not None:
        told["modifiedMs"] = version.time_ns // 1_000_000
    return told


async def undo(bench: Bench, asked: arguments.UndoArguments) -> Answered:
    if (asked.request is None) == (asked.version is None):
        raise ParseError("give request or version", hint=bench.advise(ONE_OF_TWO))
    undone = await bench.scope.undo(asked.request, version=asked.version, preview=asked.preview)
    result = ChangesUndone(
        ok=not undone.conflicts,
        undone=[str(path) for path in undone.undone[:_PATHS_MAX]],
        conflicts=[
            {"path": str(each.path), "reason": each.reason}
            for each in undone.conflicts[:_PATHS_MAX]
        ],
        preview=undone.preview,
        request_id=undone.request_id,
        truncated=max(len(undone.undone), len(undone.conflicts)) > _PATHS_MAX,
    )
    return Answered(result)


async def diff(bench: Bench, asked: arguments.DiffArguments) -> Answered:
    found = await _compared(bench, asked)
    cut = cut_text(found.text, bench.config.max_tool_result_bytes)
    bench.wrapper.begin(cut.text)
    text = bench.wrapper.wrap(cut.text, asked.path)
    result = DifferenceShown(
        diff=text + cut_note(cut.omitted_bytes) if cut.omitted_bytes else text,
        equal=found.equal,
        truncated=found.truncated or cut.omitted_bytes > 0,
        omitted_bytes=cut.omitted_bytes or None,
    )

    def words() -> str:
        if found.equal:
            return "[no difference]"
        if not cut.omitted_bytes and not found.truncated:
            return text
        return (
            f"{text}\n[... truncated, {cut.omitted_bytes} bytes omitted; {bench.advise(IN_PARTS)}]"
        )

    return Answered(result, words)


async def _compared(bench: Bench, asked: arguments.DiffArguments) -> DiffResult:
    """From a version to now; the file may have had another name then."""
    scope = bench.scope
    if asked.version is None:
        before = await _version_before(bench, asked.path)
        return await scope.diff(before.path, asked.path, as_of=before.version)
    try:
        return await scope.diff(asked.path, as_of=asked.version)
    except PathNotFound as error:
        then = None if error.path is None else await _name_then(bench, asked.path, asked.version)
        if then is None:  # the file is there, that version of it is not
            error.hint = bench.advise(WHICH_VERSIONS)
        if then in (None, asked.path):
            raise
    return await scope.diff(then, asked.path, as_of=asked.version)


async def _name_then(bench: Bench, path: str, version: str) -> str | None:
    """What a file was called at a version, where its history tells of that."""
    found = await bench.scope.history(path, limit=bench.scope.limits.history_max)
    return next((str(each.path) for each in found.versions if each.version == version), None)


async def _version_before(bench: Bench, path: str) -> Version:
    """The last version of a file but one: what changed lately is what one asks for."""
    versions = (await bench.scope.history(path, limit=2)).versions
    if len(versions) < 2:
        raise ParseError("this file has one version only", hint=bench.advise(NOTHING_TO_COMPARE))
    return versions[1]
