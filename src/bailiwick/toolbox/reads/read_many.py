"""`read_file` of several files: one answer, one pair of tags, and one cap that they share.

Small files come whole, and what they leave is shared out among the large ones. Between the files
stand lines with the nonce of the answer, which no file can hold: none can pass for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bailiwick.errors import BailiwickError, BinaryFile, ParseError, escape_for_display
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.arguments import ReadFile
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.hints import READ_ALONE
from bailiwick.toolbox.reads.binary_files import NoText, no_text
from bailiwick.toolbox.reads.file_windows import Loaded, ReadPart, load, notes_of, part_of
from bailiwick.toolbox.results import FilePart, FileRead

_SHARE_BYTES_MIN = 256
"""Less of a file than this is of no use: then it is left out, and named."""


class _Failed(NamedTuple):
    path: str
    told: dict[str, Any]


async def read_files(bench: Bench, asked: ReadFile) -> Answered:
    assert asked.paths is not None
    if asked.cursor is not None:
        raise ParseError("a cursor is for one file: give path")
    found = await _all_of(bench, asked, asked.paths)
    most = bench.config.max_tool_result_bytes
    loaded = [each for each in found if isinstance(each, Loaded)]
    sizes = [each.bytes(numbered=asked.line_numbers) for each in loaded]
    shares = iter(shared_out(sizes, most))

    def shown(path: str, each: Loaded | NoText | _Failed) -> ReadPart | NoText | _Failed:
        if not isinstance(each, Loaded):
            return each
        share = next(shares)
        return _left_out(bench, path) if share is None else part_of(bench, asked, each, share)

    return _answer(
        bench, [shown(path, each) for path, each in zip(asked.paths, found, strict=True)]
    )


async def _all_of(
    bench: Bench, asked: ReadFile, paths: Sequence[str]
) -> list[Loaded | NoText | _Failed]:
    found: list[Loaded | NoText | _Failed] = []
    room = bench.config.max_image_bytes
    for path in paths:
        try:
            try:
                found.append(await load(bench, asked, path))
            except BinaryFile as error:
                if asked.encoding is not None:
                    raise
                other = await no_text(bench, path, error, room)
                room -= 0 if other.image is None else other.size
                found.append(other)
        except BailiwickError as error:
            found.append(_Failed(path, bench.failure(error, "read_file")))
    return found


def shared_out(sizes: Sequence[int], most: int) -> list[int | None]:
    """How many bytes each file gets: what it needs, or an equal part of what the smaller ones
    leave. None where that would be too little to be of use."""
    shares: list[int | None] = [None] * len(sizes)
    # Of those that are alike, the ones that were asked for last are left out first.
    order = sorted(range(len(sizes)), key=lambda index: (sizes[index], -index))
    room = most
    for place, index in enumerate(order):
        share = room // (len(order) - place)
        if sizes[index] > share and share < min(_SHARE_BYTES_MIN, most):
            continue
        shares[index] = min(sizes[index], share) or 1
        room -= min(sizes[index], share)
    return shares


def _left_out(bench: Bench, path: str) -> _Failed:
    told = {"message": "there is no room for it here", "hint": bench.advise(READ_ALONE)}
    return _Failed(path, {"errorKind": "file_too_large", **told})


def _answer(bench: Bench, rows: list[ReadPart | NoText | _Failed]) -> Answered:
    parts = [each for each in rows if isinstance(each, ReadPart)]
    wrapper = bench.wrapper
    wrapper.begin(*(each.shown for each in parts), *(each.ref for each in parts))
    texts = (
        f"==> {escape_for_display(each.ref)} {wrapper.nonce} <==\n{each.shown}" for each in parts
    )
    text = wrapper.wrap("\n".join(texts), f"{len(rows)} files")
    notes = [note for each in rows for note in _notes(bench, each)]
    images = tuple(
        each.image for each in rows if isinstance(each, NoText) and each.image is not None
    )
    result = FileRead(
        text=text, files=[_part(each) for each in rows],
        truncated=any(part.truncated for part in parts),
    )  # fmt: skip
    return Answered(result, lambda: "\n".join((text, *notes)), images)


def _notes(bench: Bench, row: ReadPart | NoText | _Failed) -> list[str]:
    if isinstance(row, ReadPart):
        return notes_of(bench, row, f"{escape_for_display(row.ref)}: ")
    if isinstance(row, NoText):
        return [f"[{escape_for_display(row.path)}: {row.words}]"]
    told = row.told
    return [
        f"[{escape_for_display(row.path)}: {told['errorKind']}: {told['message']}; {told['hint']}]"
    ]


def _part(row: ReadPart | NoText | _Failed) -> FilePart:
    if isinstance(row, NoText):
        return row.part()
    if isinstance(row, _Failed):
        told = row.told
        return FilePart(
            path=row.path, error_kind=told["errorKind"], message=told["message"],
            hint=told["hint"],
        )  # fmt: skip
    return FilePart(
        path=row.ref, sha256=row.read.sha256, total_lines=row.read.total_lines,
        truncated=row.truncated, omitted_bytes=row.omitted_bytes if row.truncated else None,
        next_line=row.next_line, next_cursor=row.next_cursor,
    )  # fmt: skip
