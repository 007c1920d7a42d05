"""`history`, `undo` and `diff`: the tools of a store that keeps versions."""

from __future__ import annotations

from typing import Any

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.toolbox import arguments
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.results import ChangesUndone, DifferenceShown, VersionList
from bailiwick.toolbox.truncation import cut_text
from bailiwick.toolbox.untrusted_text import cut_note
from bailiwick.versions import Version

_VERSION_BYTES = 300
"""What a row of a history takes, about."""

_PATHS_MAX = 200
"""Paths an undo lists."""


async def history(bench: Bench, asked: arguments.HistoryArguments) -> VersionList:
    # A row has a bounded size besides its path, so fewer are asked for where the cap is small.
    most = max(1, min(asked.limit, bench.config.max_tool_result_bytes // _VERSION_BYTES))
    found = await bench.scope.history(asked.path, limit=most, cursor=asked.cursor)
    return VersionList(
        versions=[_told(version) for version in found.versions],
        truncated=found.truncated,
        next_cursor=found.next_cursor,
    )


def _told(version: Version) -> dict[str, Any]:
    told: dict[str, Any] = {
        "version": version.version, "kind": version.kind, "path": str(version.path),
        "type": version.type, "size": version.size, "by": version.subject,
        "requestId": version.request_id,
    }  # fmt: skip
    if version.sha256 is not None:
        told["sha256"] = version.sha256
    if version.time_ns is not None:
        told["modifiedMs"] = version.time_ns // 1_000_000
    return told


async def undo(bench: Bench, asked: arguments.UndoArguments) -> ChangesUndone:
    if (asked.request is None) == (asked.version is None):
        raise ParseError("give request or version", hint="history tells both")
    try:
        undone = await bench.scope.undo(asked.request, version=asked.version, preview=asked.preview)
    except PathNotFound as error:
        error.hint = error.hint or "history tells what you changed"
        raise
    return ChangesUndone(
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


async def diff(bench: Bench, asked: arguments.DiffArguments) -> DifferenceShown:
    version = asked.version
    if version is None:
        version = await _version_before(bench, asked.path)
    found = await bench.scope.diff(asked.path, as_of=version)
    cut = cut_text(found.text, bench.config.max_tool_result_bytes)
    bench.wrapper.begin(cut.text)
    text = bench.wrapper.wrap(cut.text, asked.path)
    return DifferenceShown(
        diff=text + cut_note(cut.omitted_bytes) if cut.omitted_bytes else text,
        equal=found.equal,
        truncated=found.truncated or cut.omitted_bytes > 0,
        omitted_bytes=cut.omitted_bytes or None,
    )


async def _version_before(bench: Bench, path: str) -> str:
    """The last version of a file but one: what changed lately is what one asks for."""
    versions = (await bench.scope.history(path, limit=2)).versions
    if len(versions) < 2:
        raise ParseError("this file has one version only", hint="there is nothing to compare")
    return versions[1].version
