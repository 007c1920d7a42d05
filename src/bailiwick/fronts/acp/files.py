"""The two file calls of the protocol, done through a scope.

Only text is spoken here, so a file is read whole (up to 100 MiB) or by a window of its lines, and
written whole, atomically. All of it is done as an agent: see `bailiwick.toolbox.actor`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from typing import Any, NamedTuple, TypeVar

from bailiwick.approvals import Asker
from bailiwick.errors import FileTooLarge, ParseError
from bailiwick.model import MiB, WriteResult
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope
from bailiwick.text.codec import decode
from bailiwick.toolbox import Actor

Result = TypeVar("Result")

READ_BYTES_MAX = 100 * MiB
"""What is held of one file at most; a window of lines is bounded by the same."""

_LARGE_BYTES = 1 * MiB
_LARGE_AT_ONCE = 2
"""How many large files are held at once: an agent may ask for many, memory is for a few."""

_DECODED_INLINE_MAX = 256 * 1024
"""Up to here decoding takes less time than handing it to a thread."""


def as_given(path: str) -> str:
    """The path as it stands."""
    return path


class FileText(NamedTuple):
    """What was read, and the hash of the file's bytes, where all of them were seen."""

    text: str
    sha256: str | None


class FileCalls:
    """What an agent may ask of files, on one scope.

    ``place_of`` turns a path as the agent names it into one that the scope knows, and ``shown``
    turns it back.
    """

    def __init__(
        self,
        scope: Scope | SyncScope,
        *,
        session: str,
        place_of: Callable[[str], str] = as_given,
        shown: Callable[[str], str] = as_given,
        passes_execute: bool = False,
    ) -> None:
        self._actor = Actor(
            scope, front="acp", session=session, reason="calls over ACP",
            passes_execute=passes_execute,
        )  # fmt: skip
        self.place_of = place_of
        self.shown = shown
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def read(
        self,
        path: str,
        line: int | None,
        limit: int | None,
        *,
        asker: Asker | None = None,
        held: AsyncExitStack | None = None,
    ) -> FileText:
        """The text of a file, or of ``limit`` lines from ``line`` on, which counts from 1.

        What is large is one of a few until ``held`` is closed, which a caller on the scope's own
        loop can do when the answer is on its way; without it, until it is read.
        """
        place = self.place_of(path)

        async def read(scope: Scope) -> FileText:
            async with AsyncExitStack() as own:
                holding = _Holding(self._large, own if held is None else held)
                if line is None and limit is None:
                    return await _whole(scope, place, holding)
                # Editors take line 0 for the first, and the protocol's schema allows it.
                return await _window(scope, place, max(line or 1, 1), limit, holding)

        return await self._actor.run(read, asker=asker)

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_sha256: str | None = None,
        asker: Asker | None = None,
    ) -> WriteResult:
        """Write the whole of a text file, making it and its directories where they are missing.
        Encoding, byte order mark and line ending are those of the file that is replaced. With an
        expected hash, only onto what it names: else `HashMismatch`."""
        place = self.place_of(path)

        async def write(scope: Scope) -> WriteResult:
            return await scope.write_text(
                place, content, expected_sha256=expected_sha256, parents=True
            )

        return await self._actor.run(write, asker=asker)

    @property
    def runs_commands(self) -> bool:
        """Whether programs can be run here, and the agent may."""
        return self._actor.runs_commands

    async def run(
        self, work: Callable[[Scope], Coroutine[Any, Any, Result]], asker: Asker | None
    ) -> Result:
        """Do anything else with the agent's scope, under the same grant."""
        return await self._actor.run(work, asker=asker)

    async def aclose(self) -> None:
        await self._actor.aclose()


class _Holding:
    """Counts what is held of a file; a large one waits for its turn, and may not be too large."""

    def __init__(self, large: asyncio.Semaphore, held: AsyncExitStack) -> None:
        self._large = large
        self._held = held
        self._size = 0
        self._waited = False

    async def add(self, size: int) -> None:
        self._size += size
        if self._size > READ_BYTES_MAX:
            raise _too_large()
        if self._size > _LARGE_BYTES and not self._waited:
            self._waited = True
            await self._held.enter_async_context(self._large)


async def _whole(scope: Scope, place: str, holding: _Holding) -> FileText:
    data = bytearray()
    # A stream is one call, so one question and one record, however large the file is.
    async with aclosing(scope.stream(place)) as chunks:
        async for chunk in chunks:
            await holding.add(len(chunk))
            data += chunk
    if len(data) <= _DECODED_INLINE_MAX:
        return _decoded(data)
    return await asyncio.to_thread(_decoded, data)


def _decoded(data: bytearray) -> FileText:
    return FileText(decode(bytes(data)).text, hashlib.sha256(data).hexdigest())


async def _window(
    scope: Scope, place: str, line: int, limit: int | None, holding: _Holding
) -> FileText:
    if limit == 0:
        page = await scope.read_text(place, line=line, limit=1)
        return FileText("", page.sha256)
    page = await scope.read_text(place, line=line, limit=limit)
    text, left = [page.text], limit
    # One answer of a scope is bounded; the window is as long as the agent asked for.
    while page.next_cursor is not None:
        await holding.add(page.returned_bytes)
        if left is not None:
            left -= page.text.count("\n") + (not page.partial_line)
            if left <= 0:
                break
        if not page.partial_line:
            text.append("\n")
        page = await scope.read_text(place, cursor=page.next_cursor, limit=left)
        text.append(page.text)
    # The hash of one page is that of the file as it was then, and pages may be of several.
    return FileText("".join(text), page.sha256 if len(text) == 1 else None)


def _too_large() -> FileTooLarge:
    return FileTooLarge(
        f"one call returns at most {READ_BYTES_MAX} bytes",
        hint="ask for fewer lines: line and limit",
        details={"limit": READ_BYTES_MAX},
    )


def check_number(name: str, value: object) -> int | None:
    """A number of lines, or none."""
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 2**63:
        raise ParseError(f"{name} must be a whole number, from 0 on")
    return value


def check_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParseError(f"{name} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ParseError(f"{name} holds half a character, which is no text") from None
    return value
