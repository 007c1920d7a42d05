"""`read_file`: the whole of a small file with its hash, a window of any other, several at once."""

from __future__ import annotations

from bailiwick.errors import BinaryFile, ParseError
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.arguments import ReadFile
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.reads.binary_files import no_text
from bailiwick.toolbox.reads.file_windows import ReadPart, load, notes_of, part_of
from bailiwick.toolbox.reads.read_many import read_files
from bailiwick.toolbox.results import FileRead
from bailiwick.toolbox.untrusted_text import cut_note


async def read_file(bench: Bench, asked: ReadFile) -> Answered:
    if asked.cursor is not None and asked.line is not None:
        raise ParseError("give line or cursor, not both")
    if (asked.path is None) == (asked.paths is None):
        raise ParseError("give path or paths")
    if asked.path is None:
        return await read_files(bench, asked)
    try:
        loaded = await load(bench, asked, asked.path)
    except BinaryFile as error:
        if asked.encoding is not None:
            raise
        return (await no_text(bench, asked.path, error, bench.config.max_image_bytes)).alone()
    return _alone(bench, part_of(bench, asked, loaded, bench.config.max_tool_result_bytes))


def _alone(bench: Bench, part: ReadPart) -> Answered:
    bench.wrapper.begin(part.shown)
    text = bench.wrapper.wrap(part.shown, part.ref)
    read = part.read
    result = FileRead(
        text=text + cut_note(part.omitted_bytes) if part.truncated else text,
        sha256=read.sha256,
        total_lines=read.total_lines,
        truncated=part.truncated,
        omitted_bytes=part.omitted_bytes if part.truncated else None,
        next_line=part.next_line,
        next_cursor=part.next_cursor,
    )
    return Answered(result, lambda: "\n".join((text, *notes_of(bench, part))))
