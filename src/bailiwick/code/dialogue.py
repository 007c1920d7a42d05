"""One run of code: what it prints is kept, what it calls is answered, until it has ended.

The process is taken to be hostile. It is answered one call at a time, and read no faster than it is
answered; whatever is no message ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from bailiwick.code.messages import ChannelBroken, CodeMessage, MessageReader, Raised, message
from bailiwick.code.results import CodeError
from bailiwick.code.service import CodeService
from bailiwick.code.stubs import error_table, state_text
from bailiwick.errors import Closed, ParseError
from bailiwick.sandbox import Ending, Process
from bailiwick.text.both_ends import BothEnds

_CALLS_BEYOND: Final = 100
"""Calls that are still refused one by one: code may look for a way to end well."""

_VALUE_DEPTH_MAX: Final = 100
"""Of lists and objects in a value: as deep as every reader of JSON goes."""

_TEXT_CHARACTERS_MAX: Final = 16_384
"""Of what an exception says, and of a traceback: a deep one is told by its beginning and end."""


class CodeOutcome(NamedTuple):
    """What the code itself came to."""

    value: Any
    error: CodeError | None


class CodeDialogue:
    """Talks with one process to its end."""

    def __init__(
        self, process: Process, service: CodeService, printed: BothEnds, message_bytes_max: int
    ) -> None:
        self._process = process
        self._service = service
        self._printed = printed
        self._most = message_bytes_max
        self._reader = MessageReader(message_bytes_max)
        self._next_id = 1

    async def hold(self, source: str, calls_max: int) -> tuple[CodeOutcome | None, Ending]:
        """Hand over the source, and answer until it has ended. None: it ended without a word."""
        gone = asyncio.ensure_future(self._process.wait())
        came: CodeOutcome | None = None
        try:
            first = {
                "source": source, "state": state_text(), "errors": error_table(),
                "message_bytes_max": self._most,
            }  # fmt: skip
            with suppress(Closed):
                await self._process.write(message(first))
            async for piece in self._process.pieces():
                if piece.stream == "stderr":
                    self._printed.add(piece.data)
                elif came is None:
                    came = await self._heard(piece.data, gone, calls_max)
                    if came is not None:
                        await self._process.kill()
            return came, await gone
        finally:
            gone.cancel()

    async def _heard(
        self, data: bytes, gone: asyncio.Future[Ending], calls_max: int
    ) -> CodeOutcome | None:
        try:
            for each in self._reader.feed(data):
                if each.raised is not None:
                    return CodeOutcome(None, _error_of(each.raised))
                if bytes(each.done):
                    return _checked(each.value)
                await self._answer(each, gone, calls_max)
        except ChannelBroken as error:
            text = str(error)
            return CodeOutcome(
                None, CodeError(type="ChannelBroken", message=text, kind=ParseError.kind)
            )
        return None

    async def _answer(
        self, asked: CodeMessage, gone: asyncio.Future[Ending], calls_max: int
    ) -> None:
        if asked.id != self._next_id:
            raise ChannelBroken("calls are numbered one after the other")
        self._next_id += 1
        if asked.id > calls_max + _CALLS_BEYOND:
            raise ChannelBroken("it goes on calling though it has made as many calls as it may")
        call = asyncio.ensure_future(self._service.answer(asked))
        try:
            # Nobody waits for an answer when the process has gone: a person may be asked for it.
            await asyncio.wait((call, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not call.done():
                call.cancel()
                await asyncio.wait((call,))
        if not call.cancelled():
            with suppress(Closed):
                await self._process.write(call.result())


def _checked(value: Any) -> CodeOutcome:
    """A value that everybody can write down again."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _VALUE_DEPTH_MAX:
            text = f"the value of the code is nested more than {_VALUE_DEPTH_MAX} deep"
            return CodeOutcome(None, CodeError(type="ValueError", message=text))
        level = [inner for each in level for inner in _within(each)]
    return CodeOutcome(value, None)


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_KINDS: Final = frozenset(kind for _, kind, _ in error_table() if kind is not None)


def _error_of(raised: Raised) -> CodeError:
    return CodeError(
        type=_cut(raised.type), message=_cut(raised.message), traceback=_cut(raised.traceback),
        # It is the code that says so: whatever is no kind of error is none.
        kind=raised.kind if raised.kind in _KINDS else None,
    )  # fmt: skip


def _cut(text: str) -> str:
    if len(text) <= _TEXT_CHARACTERS_MAX:
        return text
    half = _TEXT_CHARACTERS_MAX // 2
    omitted = len(text) - 2 * half
    return f"{text[:half]}\n[... {omitted} characters omitted ...]\n{text[-half:]}"
