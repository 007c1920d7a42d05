"""`run_command`: a text for a shell, in a sandbox, on a working copy.

A question about the command pauses a call as any other does. What the command changed is judged
when it has run, and cannot be paused for: whoever was asked has seen the command, not what came of
it. Where a rule wants a person asked about that, and nobody can be asked in line, it is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterable

from bailiwick.approvals import Answer, Approval
from bailiwick.commands import ExecResult
from bailiwick.errors import escape_for_display
from bailiwick.scope import Scope
from bailiwick.scope.execution import Execution
from bailiwick.scope.front_access import as_called, caller_of
from bailiwick.text.both_ends import BothEnds, Printed
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.approval import SpeaksOfOne, is_about_a_command
from bailiwick.toolbox.arguments import CommandArguments
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.results import CommandEnded
from bailiwick.toolbox.untrusted_text import cut_note
from bailiwick.wire.pieces import TextPiece, as_text

_PATHS_MAX = 200
"""Paths that an answer lists, of each sort."""

_PATHS_IN_WORDS = 20
"""Paths that are told in a line."""

PRINT_LESS = "print less, or into a file"


async def run_to_its_end(
    scope: Scope, asked: CommandArguments, bytes_max: int
) -> tuple[Printed, ExecResult]:
    """Run a command for a model."""
    return await to_its_end(
        about_the_command(scope).exec(shell=asked.command, cwd=asked.cwd, timeout=asked.timeout),
        bytes_max,
    )


async def to_its_end(execution: Execution, bytes_max: int) -> tuple[Printed, ExecResult]:
    """Follow a command to its end. Cancelled, it is ended with all that it started."""
    try:
        printed = await printed_by(as_text(execution), bytes_max)
        return printed, await execution.result()
    finally:
        await execution.aclose()


async def run_command(bench: Bench, asked: CommandArguments) -> Answered:
    most = bench.config.max_tool_result_bytes
    printed, result = await run_to_its_end(bench.scope, asked, most)
    omitted = printed.omitted_bytes
    ended = CommandEnded(
        output=tagged(bench, printed, asked.cwd),
        exit_code=result.exit_code,
        changes=[
            {"path": str(each.path), "kind": each.kind}
            | ({} if each.origin is None else {"from": str(each.origin)})
            for each in result.changes[:_PATHS_MAX]
        ],
        signal=result.signal,
        timed_out=result.timed_out,
        withheld=[
            {"path": each.path, "errorKind": each.error_kind, "reason": each.reason}
            | ({} if each.decided_by is None else {"decidedBy": each.decided_by})
            for each in result.withheld[:_PATHS_MAX]
        ],
        conflicts=[
            {"path": str(each.path), "reason": each.reason}
            for each in result.conflicts[:_PATHS_MAX]
        ],
        hint=what_to_do(result),
        truncated=omitted > 0 or result.truncated or _is_long(result),
        omitted_bytes=omitted or None,
        work_id=result.work_id,
        request_id=bench.told(result.request_id) if result.changes else None,
    )
    return Answered(ended)


def about_the_command(scope: Scope) -> Scope:
    """A scope whose asker, where it was made for the one question a call is paused for, says
    nothing about what comes after it."""
    of_one = caller_of(scope).asker
    if not isinstance(of_one, SpeaksOfOne):
        return scope

    async def ask(approval: Approval) -> Answer | None:
        return await of_one(approval) if is_about_a_command(approval.question) else None

    return as_called(scope, asker=ask)


def _is_long(result: ExecResult) -> bool:
    most = max(len(result.changes), len(result.withheld), len(result.conflicts))
    return most > _PATHS_MAX


def what_to_do(result: ExecResult) -> str | None:
    """What a model is to do about what did not come back."""
    if result.work_id is None:
        return None
    said = ["not all came back" if result.changes else "nothing of what it changed came back"]
    if result.conflicts:
        said.append("others changed the same files: read them, then run the command again")
    if result.withheld:
        said.append("do not look for a way around what was withheld")
    said.append(f"a person can look with `bailiwick work show {result.work_id}`, and apply it")
    return "; ".join(said)


def in_words(bench: Bench, printed: Printed, result: ExecResult) -> str:
    """All that a model is told, as text: what it printed, and in lines outside the tags how it
    ended and what came of it."""
    said = [tagged(bench, printed, ".")]
    if result.timed_out:
        said.append("[it ran out of time and was ended]")
    elif result.exit_code is None:
        said.append(f"[ended by signal {result.signal}]")
    elif result.exit_code != 0:
        said.append(f"[exit code {result.exit_code}]")
    if result.changes:
        told = ", ".join(
            f"{escape_for_display(str(each.path))} {each.kind}"
            for each in result.changes[:_PATHS_IN_WORDS]
        )
        more = len(result.changes) - _PATHS_IN_WORDS
        said.append(f"[changed: {told}{f' and {more} more' if more > 0 else ''}]")
    hint = what_to_do(result)
    return "\n".join(said if hint is None else [*said, f"[{hint}]"])


# --- what it printed ------------------------------------------------------------------------------


async def printed_by(pieces: AsyncIterable[TextPiece], bytes_max: int) -> Printed:
    """As much as an answer holds: how a command began, and how it ended. No more is held."""
    ends = BothEnds(bytes_max)
    async for piece in pieces:
        ends.add(piece.data.encode())
    return ends.printed()


def tagged(bench: Bench, printed: Printed, ref: str) -> str:
    """What it printed as a model gets it: between tags, with a note outside them where something
    is left out."""
    bench.wrapper.begin(printed.head, printed.tail)
    head = bench.wrapper.wrap(printed.head, ref)
    if not printed.omitted_bytes:
        return head
    note = cut_note(printed.omitted_bytes, PRINT_LESS)
    return f"{head}{note}\n{bench.wrapper.wrap(printed.tail, ref)}"
