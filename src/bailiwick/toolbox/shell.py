"""A shell that is kept over the calls of a tool: one session, and the directory that it is in.

Each command is a program of its own, judged and asked about by itself, and all that it started ends
with it. What it has changed is brought back when it has ended, unless that is left to whoever has
the shell; until then the commands that come see it, and nobody else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable

import msgspec

from bailiwick.commands import ExecResult
from bailiwick.errors import BailiwickError
from bailiwick.scope import Scope
from bailiwick.scope.execution import NOTHING, PublishWhen
from bailiwick.scope.front_access import enter, session_as_called, top_of
from bailiwick.scope.sessions import Session
from bailiwick.text.both_ends import Printed
from bailiwick.toolbox.command_tool import about_the_command, printed_by
from bailiwick.verbs.working_copies.bring_back import withheld_for
from bailiwick.wire.pieces import TextPiece, as_text
from bailiwick.working_copy import Published

_MARK = "\036"
"""What stands before the directory that a command ended in. It comes last of what it prints; who
prints such a thing too can only say wrongly where the next command begins."""

_DIRECTORY_CHARACTERS_MAX = 4096
"""As long as the name of a directory can be: what is longer is no such name, and not held."""

_TELLS_WHERE = 'trap \'printf "\\036%s" "$PWD"\' EXIT; eval "$1"'
"""The command is a word of its own beside it, so that whoever is asked sees it as it was given."""


class Shell:
    """Runs commands in ``bash``, one after the other. Made for one agent."""

    def __init__(self, publish: PublishWhen = "atomic") -> None:
        self._publish = publish
        self._session: Session | None = None
        self._turn = asyncio.Lock()

    async def run(
        self, scope: Scope, command: str, seconds: float | None, bytes_max: int
    ) -> tuple[Printed, ExecResult]:
        """Run a command. Cancelled, it is ended with all that it started."""
        async with self._turn:
            if self._session is None:
                self._session = scope.session(cwd=top_of(scope))
            session = session_as_called(self._session, about_the_command(scope))
            execution = session.exec(
                ["/bin/bash", "-c", _TELLS_WHERE, "bash", command], timeout=seconds
            )
            try:
                where = _Directory()
                printed = await printed_by(where.taken_from(as_text(execution)), bytes_max)
                result = await execution.result()
            finally:
                await execution.aclose()
            if where.told is not None and enter(session, where.told):
                self._session.cwd = session.cwd
            return printed, await brought_back(session, result, self._publish)

    async def publish(self) -> Published:
        """Bring back what is not in the tree yet."""
        async with self._turn:
            return NOTHING if self._session is None else await self._session.publish()

    async def restart(self) -> str | None:
        """Begin anew, at the top. What was not brought back is kept in a working copy, which is
        told."""
        async with self._turn:
            session, self._session = self._session, None
            if session is None:
                return None
            found = await session.changes()
            await session.aclose()
            return session.id if found.changes or found.withheld or found.conflicts else None

    async def aclose(self) -> None:
        """End it. What was not brought back is kept in a working copy."""
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()


async def brought_back(session: Session, result: ExecResult, publish: PublishWhen) -> ExecResult:
    """What came of a command of a session that was alone in it, once what it changed was brought
    back. What refuses all of it withholds each path: the program has run, and that is told."""
    found = await session.changes()
    if not (found.changes or found.withheld or found.conflicts):
        return msgspec.structs.replace(result, work_id=None)
    if publish == "manual":
        return result
    try:
        done = await session.publish(publish)
    except BailiwickError as error:
        withheld = [withheld_for(error, each.path) for each in found.changes]
        done = Published(changes=[], withheld=withheld, conflicts=[])
    return msgspec.structs.replace(
        result, changes=done.changes, withheld=done.withheld, conflicts=done.conflicts,
        request_id=done.request_id or result.request_id,
        work_id=session.id if done.withheld or done.conflicts else None,
    )  # fmt: skip


class _Directory:
    """Takes out of what a command prints where it ended."""

    told: str | None = None

    async def taken_from(self, pieces: AsyncIterable[TextPiece]) -> AsyncGenerator[TextPiece, None]:
        held: TextPiece | None = None
        async for piece in pieces:
            if piece.stream != "stdout":
                yield piece
                continue
            if held is not None:
                piece = piece._replace(data=held.data + piece.data)
            before, mark, after = piece.data.rpartition(_MARK)
            if not mark or len(after) > _DIRECTORY_CHARACTERS_MAX:
                held = None
                yield piece
            else:
                held = piece._replace(data=mark + after)
                yield piece._replace(data=before)
        if held is not None:
            self.told = held.data.removeprefix(_MARK)
