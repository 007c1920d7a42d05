"""The tools that change something."""

from __future__ import annotations

from bailiwick.errors import ParseError
from bailiwick.model import Edit, EditResult
from bailiwick.toolbox import arguments
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.hints import IN_PARTS
from bailiwick.toolbox.results import ChangeDone, FileEdited, FileWritten
from bailiwick.toolbox.truncation import cut_text
from bailiwick.toolbox.untrusted_text import cut_note


async def write_file(bench: Bench, asked: arguments.WriteFile) -> Answered:
    written = await bench.scope.write_text(
        asked.path, asked.content, parents=True, expected_sha256=asked.expected_sha256
    )
    assert written.sha256 is not None, "whoever wrote the whole of a file knows what it holds"
    result = FileWritten(
        ok=True, created=written.created, sha256=written.sha256,
        request_id=bench.told(written.request_id),
    )  # fmt: skip
    return Answered(result)


async def edit_file(bench: Bench, asked: arguments.EditFile) -> Answered:
    edited = await bench.scope.edit(asked.path, _edits(asked))
    return Answered(_edited(bench, edited))


def _edits(asked: arguments.EditFile) -> list[Edit]:
    if asked.edits is not None:
        if asked.old_text is not None or asked.new_text is not None:
            raise ParseError("give oldText and newText, or edits, not both")
        return [each.meant for each in asked.edits]
    if asked.old_text is None or asked.new_text is None:
        raise ParseError("give oldText and newText, or edits")
    return [Edit(asked.old_text, asked.new_text, asked.replace_all)]


def _edited(bench: Bench, edited: EditResult) -> FileEdited:
    cut = cut_text(edited.diff, bench.config.max_tool_result_bytes)
    bench.wrapper.begin(cut.text)
    diff = bench.wrapper.wrap(cut.text, edited.path)
    note = cut_note(cut.omitted_bytes, bench.advise(IN_PARTS)) if cut.omitted_bytes else ""
    return FileEdited(
        ok=True,
        diff=diff + note,
        sha256=edited.sha256,
        first_changed_line=edited.first_changed_line,
        truncated=edited.diff_truncated or cut.omitted_bytes > 0,
        omitted_bytes=cut.omitted_bytes or None,
        request_id=bench.told(edited.request_id),
    )


async def mkdir(bench: Bench, asked: arguments.Mkdir) -> Answered:
    made = await bench.scope.make_dir(asked.path, parents=asked.recursive)
    return Answered(ChangeDone(ok=True, request_id=bench.told(made.request_id)))


async def rm(bench: Bench, asked: arguments.Rm) -> Answered:
    removed = await bench.scope.remove(asked.path, recursive=asked.recursive)
    return Answered(ChangeDone(ok=True, request_id=bench.told(removed.request_id)))


async def move(bench: Bench, asked: arguments.MoveArguments) -> Answered:
    moved = await bench.scope.move(asked.source, asked.to)
    return Answered(ChangeDone(ok=True, request_id=bench.told(moved.request_id)))
