"""Running code that a model wrote: in a sandbox, with `state` as its only way to the tree."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import msgspec

from bailiwick.code.dialogue import CodeDialogue, CodeOutcome
from bailiwick.code.results import CodeError, CodeResult
from bailiwick.code.service import CodeService
from bailiwick.errors import BailiwickError, ParseError, Unsupported
from bailiwick.finishing import to_the_end
from bailiwick.limits import Limits
from bailiwick.portal import SyncScope, behind
from bailiwick.sandbox import CommandLimits, Ending
from bailiwick.scope import Scope
from bailiwick.scope.front_access import code_process, for_one_request
from bailiwick.text.both_ends import BothEnds, Printed

Number = TypeVar("Number", int, float)

_AS_LONG_AS_IT_LIKES_S = 365.0 * 24 * 3600

_PROCESSES_MAX = 64
"""Processes and threads of a run: enough for what a script starts, and for no more."""


async def run(
    scope: Scope,
    source: str,
    engine: str = "sandbox",
    *,
    timeout: float | None = None,  # noqa: ASYNC109 (of the process, which is ended)
    memory_bytes_max: int | None = None,
    output_bytes_max: int | None = None,
    calls_max: int | None = None,
    transactional: bool = False,
) -> CodeResult:
    """Run Python source in a sandbox, with ``state`` as its only way to the tree.

    The sandbox shows nothing of the tree and has no network. ``state`` has every verb of the scope,
    as blocking calls, which pass its grant, its policy and its people; all that they change is of
    one request. Its value is what the last expression comes to, or else the variable ``result``.
    What the code raises is told in the result (`CodeResult.error`), as is that it ran out of time
    or ended otherwise.

    ``timeout`` is in seconds and counts what it waits for, too; this and the other bounds may be
    less than the limits of the scope. With ``transactional`` its changes are made all together when
    it has ended well, or not at all. ``engine`` is "sandbox".

    Raises `MissingAccess` without ``execute``, `PolicyDenied` and `ApprovalDenied` where the code
    may not be run, `Unsupported` where no sandbox is to be had, where ``transactional`` is asked
    for and the store has no transactions, and for any other engine.
    """
    if not isinstance(scope, Scope):
        raise Unsupported("code is run where the tree is, not through a server")
    if not isinstance(source, str):
        raise ParseError("code is text")
    _check_engine(engine)
    bounds = _bounds(scope.limits, timeout, memory_bytes_max, output_bytes_max, calls_max)
    scope, request_id = for_one_request(scope)
    if not transactional:
        return await _run(scope, scope, source, bounds, request_id)
    return await _run_as_one(scope, source, bounds, request_id)


def run_sync(
    scope: SyncScope,
    source: str,
    engine: str = "sandbox",
    *,
    timeout: float | None = None,
    memory_bytes_max: int | None = None,
    output_bytes_max: int | None = None,
    calls_max: int | None = None,
    transactional: bool = False,
) -> CodeResult:
    """`run`, for blocking code."""
    if not isinstance(scope, SyncScope):
        raise ParseError("run_sync takes a blocking scope", hint="await run(…) for any other")
    inner, portal = behind(scope)
    return portal.run(
        run(
            inner, source, engine, timeout=timeout, memory_bytes_max=memory_bytes_max,
            output_bytes_max=output_bytes_max, calls_max=calls_max, transactional=transactional,
        )
    )  # fmt: skip


def _check_engine(engine: str) -> None:
    if engine == "monty":
        raise Unsupported(
            "the engine monty is not offered: its Python has neither generators nor exceptions of"
            " one's own, which `state` is made of, and its workers run outside of the sandbox",
            hint='leave engine out: "sandbox" runs all of Python, behind the walls of commands',
        )
    if engine != "sandbox":
        raise ParseError("there is no such engine", hint='engine is "sandbox"')


# --- bounds --------------------------------------------------------------------------------------


class _Bounds(NamedTuple):
    """What one run may use."""

    limits: CommandLimits
    output_bytes_max: int
    calls_max: int


def _bounds(
    most: Limits, timeout: float | None, memory: int | None, output: int | None, calls: int | None
) -> _Bounds:
    longest = most.code_seconds_max or _AS_LONG_AS_IT_LIKES_S
    seconds = _no_more("timeout", timeout, longest)
    memory_bytes = _no_more("memory_bytes_max", memory, most.code_memory_bytes_max)
    processes = min(_PROCESSES_MAX, most.exec_processes_max)
    limits = CommandLimits(
        # The clock ends it, and says so: its threads together cannot have computed for longer.
        seconds_max=seconds, cpu_seconds_max=math.ceil(seconds) * processes,
        memory_bytes_max=memory_bytes, scratch_bytes_max=memory_bytes, file_bytes_max=memory_bytes,
        processes_max=processes,
        descriptors_max=most.exec_descriptors_max,
        output_memory_bytes_max=most.exec_output_bytes_kept,
    )  # fmt: skip
    return _Bounds(
        limits, _no_more("output_bytes_max", output, most.code_output_bytes_max),
        _no_more("calls_max", calls, most.code_calls_max),
    )  # fmt: skip


def _no_more(name: str, asked: Number | None, most: Number) -> Number:
    if asked is None:
        return most
    if not isinstance(asked, (int, float)) or isinstance(asked, bool) or not 0 < asked <= most:
        raise ParseError(
            f"{name} is a number, more than none and no more than the limit",
            details={"limit": most},
        )
    return asked


# --- running -------------------------------------------------------------------------------------


class _NotKept(Exception):
    """Leaves a transaction whose code did not end well."""


async def _run_as_one(scope: Scope, source: str, bounds: _Bounds, request_id: str) -> CodeResult:
    """All changes together, or none."""
    if "forks" not in scope.powers:
        raise Unsupported(
            "all or nothing needs a store with transactions, which this one has not",
            hint="leave transactional out: what code changes is one request to undo",
        )
    result: CodeResult | None = None
    try:
        async with scope.transaction() as inside:
            result = await _run(scope, inside, source, bounds, request_id)
            if not result.ok:
                raise _NotKept
    except _NotKept:
        assert result is not None
        return msgspec.structs.replace(result, changes=[])
    except BailiwickError as error:
        if result is None:
            raise
        failed = CodeError(type=type(error).__name__, message=str(error), kind=error.kind)
        return msgspec.structs.replace(result, changes=[], error=failed)
    return result


async def _run(
    scope: Scope, tree: Scope, source: str, bounds: _Bounds, request_id: str
) -> CodeResult:
    """``scope`` says whether the code may be run, ``tree`` is what it works on."""
    limits = scope.limits
    service = CodeService(tree, limits, bounds.calls_max)
    ends = BothEnds(bounds.output_bytes_max)
    async with code_process(scope, source, bounds.limits) as process:
        try:
            talk = CodeDialogue(process, service, ends, limits.code_message_bytes_max)
            came, ending = await talk.hold(source, bounds.calls_max)
        finally:
            await to_the_end(service.close())
    if came is None:
        came = CodeOutcome(None, _without_a_word(ending, bounds))
    printed = ends.printed()
    return CodeResult(
        value=came.value, output=_with_a_note(printed),
        output_omitted_bytes=printed.omitted_bytes,
        error=came.error, calls=service.calls, changes=service.changes,
        timed_out=ending.timed_out, duration_ms=round(ending.duration_seconds * 1000, 3),
        request_id=request_id, sandbox=ending.sandbox,
    )  # fmt: skip


def _with_a_note(printed: Printed) -> str:
    if not printed.omitted_bytes:
        return printed.head
    return f"{printed.head}\n[... {printed.omitted_bytes} bytes omitted ...]\n{printed.tail}"


def _without_a_word(ending: Ending, bounds: _Bounds) -> CodeError:
    if ending.timed_out:
        seconds = f"{bounds.limits.seconds_max:g}"
        return CodeError(type="TimeoutError", message=f"the code ran longer than {seconds} s")
    how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit_code}"
    return CodeError(type="SystemExit", message=f"the code ended without a result ({how})")
