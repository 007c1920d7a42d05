"""`run_code`: Python that the model wrote, in a sandbox, with `state` as its way to the tree.

A question about the code pauses a call as any other does. What the code asks for while it runs
cannot be paused for: where a rule wants a person asked about that, and nobody can be asked in line,
the call in the code fails.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.arguments import CodeArguments
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.command_tool import about_the_command
from bailiwick.toolbox.results import CodeEnded
from bailiwick.toolbox.untrusted_text import cut_note

_PATHS_MAX = 200
"""Changes that an answer lists."""

_DO_LESS = "print and return less, or write it to a file"

_LEGEND = (
    "`?` may be left out; every call takes these where it makes sense: as_of, cursor, encoding,"
    " expected_version, file_mode, include_ignored, lock_token. Entries have .path .name .type"
    " .size, matches of grep .path .line .text. Errors have .kind and are Python's own"
    " (FileNotFoundError …). Methods of `state`:\n"
)


def calls_of_state() -> str:
    """What a model is told of `state`."""
    from bailiwick.code.stubs import stubs

    return f"{_LEGEND}{stubs()}"


async def run_code(bench: Bench, asked: CodeArguments) -> Answered:
    from bailiwick import code

    most = bench.config.max_tool_result_bytes
    scope = about_the_command(bench.scope)
    output_max = min(most // 2, scope.limits.code_output_bytes_max)
    result = await code.run(
        scope, asked.source, timeout=asked.timeout, transactional=asked.transactional,
        output_bytes_max=max(output_max, 1),
    )  # fmt: skip
    value = "" if result.value is None else msgspec.json.encode(result.value).decode()
    error = result.error
    raised = "" if error is None else error.traceback or f"{error.type}: {error.message}"
    shown = [_cut(result.output, most), _cut(value, most // 4), _cut(raised, most // 4)]
    bench.wrapper.begin(*(each.text for each in shown))
    output, value, raised = (_tagged(bench, each) for each in shown)
    omitted = result.output_omitted_bytes + sum(each.omitted_bytes for each in shown)
    ended = CodeEnded(
        output=output,
        value=None if result.value is None else value,
        raised=None if error is None else raised,
        error_kind=None if error is None else error.kind,
        timed_out=result.timed_out,
        calls=len(result.calls),
        changes=[
            {"path": str(each.path), "kind": each.kind}
            | ({} if each.origin is None else {"from": str(each.origin)})
            for each in result.changes[:_PATHS_MAX]
        ],
        truncated=omitted > 0 or len(result.changes) > _PATHS_MAX,
        omitted_bytes=omitted or None,
        request_id=bench.told(result.request_id) if result.changes else None,
    )
    return Answered(ended)


class _CutText(NamedTuple):
    """As much of a text as an answer holds."""

    text: str
    omitted_bytes: int


def _cut(text: str, bytes_max: int) -> _CutText:
    data = text.encode()
    if len(data) <= bytes_max:
        return _CutText(text, 0)
    kept = data[:bytes_max].decode(errors="ignore")
    return _CutText(kept, len(data) - len(kept.encode()))


def _tagged(bench: Bench, shown: _CutText) -> str:
    text = bench.wrapper.wrap(shown.text, ".")
    return text + cut_note(shown.omitted_bytes, _DO_LESS) if shown.omitted_bytes else text
