"""Commands: run in a sandbox, told of line by line, and found again by id."""

from __future__ import annotations

import asyncio
import base64
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from bailiwick.errors import Busy, Closed, FileTooLarge, ParseError
from bailiwick.fronts.http.access.executions import HttpExecution
from bailiwick.fronts.http.access.streams import refuse_more_streams
from bailiwick.fronts.http.messages import bodies
from bailiwick.fronts.http.messages.exec_lines import HEADERS, Telling, first_line, shown
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.settings import EXEC_INPUT_SECONDS_MAX
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.operations import Command
from bailiwick.sandbox import CommandLimits
from bailiwick.scope.commands import words
from bailiwick.wire import command_verbs, values, verbs
from bailiwick.wire.arguments import STDIN_BYTES_MAX

_AT_ONCE = 4_096
"""Bytes that a pipe takes whole or not at all: so it is known what a command was handed."""


async def run(request: Request) -> Reply:
    body = request.body
    refuse_untold(request)
    scope = await request.scoped(body.cwd)
    execution = scope.exec(cwd=body.cwd, publish=body.publish, roots=body.roots, **given(body))
    entry = await request.app.executions.begin(request.caller, scope, execution, typed(body))
    return told(request, entry)


def given(body: Any) -> dict[str, Any]:
    """What a body says of a command, wherever it is run."""
    limits = body.limits
    if limits is not None:
        named = {name: getattr(limits, name) for name in CommandLimits.__struct_fields__}
        limits = CommandLimits(**named)
    return {
        "argv": body.argv, "shell": body.shell, "env": body.env, "stdin": _stdin(body),
        "timeout": body.timeout, "limits": limits, "network": body.network,
    }  # fmt: skip


def _stdin(body: Any) -> Any:
    ways = (body.stdin is not None, body.stdin_base64 is not None, body.stdin_pipe)
    if sum(ways) > 1:
        raise ParseError("give stdin, stdinBase64 or stdinPipe, and one of them alone")
    if body.stdin_pipe:
        return "pipe"
    data: bytes | None = None if body.stdin is None else body.stdin.encode()
    if body.stdin_base64 is not None:
        try:
            data = base64.b64decode(body.stdin_base64, validate=True)
        except ValueError:
            raise ParseError("stdinBase64 is not base64") from None
    if data is not None and len(data) > STDIN_BYTES_MAX:
        raise FileTooLarge(
            f"what a command reads is at most {STDIN_BYTES_MAX} bytes at once",
            hint="begin it with stdinPipe, and send more by POST /exec/{id}/input",
            details={"limit": STDIN_BYTES_MAX},
        )
    return data


def typed(body: Any) -> str:
    """The words of a command, as they would be typed."""
    return Command(argv=words(body.argv, body.shell)).words


def refuse_untold(request: Request) -> None:
    """Refuse to begin what its caller could not be told of."""
    if not request.body.detach:
        refuse_more_streams(request)


def told(request: Request, entry: HttpExecution) -> Reply:
    """A command that was begun, as whoever began it is told of it."""
    if request.body.detach:
        return Reply(headers=HEADERS, body=first_line(entry))
    telling = Telling(request, entry)
    chunks = telling.lines(0)
    if request.body.end_with_client:
        chunks = _ending_with_client(request, entry, telling, chunks)
    return Reply(headers=HEADERS, chunks=chunks, request_id=entry.execution.request_id)


async def _ending_with_client(
    request: Request, entry: HttpExecution, telling: Telling, lines: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(lines):
            async for each in lines:
                yield each
    finally:
        if not telling.is_over:
            request.app.executions.part(entry)


async def output(request: Request) -> Reply:
    entry = _found(request)
    refuse_more_streams(request)
    telling = Telling(request, entry)
    return Reply(
        headers=HEADERS, chunks=telling.lines(request.query.get("since", 0)),
        request_id=entry.execution.request_id,
    )  # fmt: skip


async def listed(request: Request) -> values.ExecutionList:
    found = request.app.executions.commands(request.caller)
    return values.ExecutionList(executions=[shown(each) for each in found])


async def hand_over(request: Request) -> values.InputTaken:
    """What a command does not read within a while is not taken: whoever sends it is told how much
    was, and sends the rest again."""
    bodies.refuse_coded(request.headers)
    entry = _found(request)
    source = bodies.chunks_of(request.receive, request.headers, STDIN_BYTES_MAX)
    async with aclosing(source):
        data = b"".join([chunk async for chunk in source])
    taken = 0
    async with entry.input_turn:
        if entry.ended_at is not None:
            raise Closed("the command has ended", status=409, retryable=False)
        try:
            async with asyncio.timeout(EXEC_INPUT_SECONDS_MAX):
                while taken < len(data):
                    part = data[taken : taken + _AT_ONCE]
                    await entry.execution.write(part)
                    taken += len(part)
        except TimeoutError:
            raise Busy(
                "the command does not read its input", hint="send the rest again",
                details={"taken_bytes": taken},
            ) from None  # fmt: skip
        if request.query.get("end", False):
            await entry.execution.close_input()
    return values.InputTaken(id=entry.id, taken_bytes=taken)


async def send_signal(request: Request) -> values.WireExecution:
    entry = _found(request)
    await entry.execution.send_signal(signal.Signals[request.body.signal])
    return shown(entry)


async def resize(request: Request) -> values.WireExecution:
    entry = _found(request)
    await entry.execution.resize(request.body.rows, request.body.columns)
    return shown(entry)


async def close(request: Request) -> values.ExecutionClosed:
    entry = _found(request)
    await request.app.executions.forget(entry)
    try:
        result: Any = values.EXEC_RESULT.write(await entry.execution.result())
    except Exception:
        result = None
    return values.ExecutionClosed(id=entry.id, result=result)


def _found(request: Request) -> HttpExecution:
    return request.app.executions.command(request.names["id"], request.caller)


_OF_ONE: dict[str, Any] = {"rooted": False, "who": "caller"}

ROUTES: tuple[Route, ...] = (
    route(verbs.EXEC, run, answers="lines", who="caller"),
    route(command_verbs.EXECUTIONS, listed, **_OF_ONE),
    route(command_verbs.OUTPUT, output, answers="lines", **_OF_ONE),
    route(
        command_verbs.INPUT, hand_over, raw_body=True, body=None,
        parameters=command_verbs.INPUT.takes, **_OF_ONE,
    ),
    route(command_verbs.SIGNAL, send_signal, **_OF_ONE),
    route(command_verbs.RESIZE, resize, **_OF_ONE),
    route(command_verbs.CLOSE, close, **_OF_ONE),
)  # fmt: skip
