"""The commands that callers have begun, and the sessions that they have open, by id.

They are of whoever began them, and of people. They end with the token or session of the console
that began them, with their grant, and with the server. What a command printed is kept for a while
after it has ended: whoever was cut off comes back for it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from bailiwick.errors import Closed, PathNotFound, RateLimited, Unauthenticated, Unsupported
from bailiwick.fronts.http.settings import (
    EVENT_LOOK_SECONDS,
    EXECUTIONS_KEPT_MAX,
    SESSION_IDLE_SECONDS_MAX,
)
from bailiwick.scope.front_access import refuse_if_not_allowed

if TYPE_CHECKING:
    from bailiwick.fronts.http.access.callers import HttpCaller
    from bailiwick.fronts.http.application import Application
    from bailiwick.scope import Scope
    from bailiwick.scope.execution import Execution
    from bailiwick.scope.sessions import Session


class HeldForCaller:
    """Something that goes on between the requests of a caller, in the scope it was begun in."""

    def __init__(self, id: str, caller: HttpCaller, scope: Scope) -> None:
        self.id = id
        self.caller = caller
        self.scope = scope

    def is_of(self, caller: HttpCaller) -> bool:
        return self.caller.holder == caller.holder

    def refuse_ended(self, caller: HttpCaller) -> None:
        """Refuse whoever began it, where the grant does not hold any more that it was begun
        under. People who look after others are not asked for those others' grants."""
        if self.is_of(caller):
            refuse_if_not_allowed(self.scope, "exec", frozenset(), ())


class HttpExecution(HeldForCaller):
    """A command, under way or ended."""

    def __init__(
        self, caller: HttpCaller, scope: Scope, execution: Execution, words: str,
        session: str | None,
    ) -> None:  # fmt: skip
        super().__init__(secrets.token_hex(12), caller, scope)
        self.execution = execution
        self.words = words
        self.session = session
        self.began_ms = time.time_ns() // 1_000_000
        self.ended_at: float | None = None
        self.input_turn = asyncio.Lock()
        execution.on_end(self._has_ended)

    def _has_ended(self) -> None:
        self.ended_at = time.monotonic()


class HttpSession(HeldForCaller):
    """A session that is open."""

    def __init__(self, caller: HttpCaller, scope: Scope, session: Session) -> None:
        super().__init__(session.id, caller, scope)
        self.session = session
        self.used_at = time.monotonic()


class Executions:
    """All commands and sessions of one server."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._commands: dict[str, HttpExecution] = {}
        self._sessions: dict[str, HttpSession] = {}
        self._looking: asyncio.Task[None] | None = None
        self._parting: set[asyncio.Task[Any]] = set()

    # --- commands ----------------------------------------------------------------------------

    async def begin(
        self, caller: HttpCaller, scope: Scope, execution: Execution, words: str,
        session: str | None = None,
    ) -> HttpExecution:  # fmt: skip
        """Start a command, and keep it. Raises what starting it raises: who has to be asked first
        comes again with the answer."""
        self._refuse_several()
        entry = HttpExecution(caller, scope, execution, words, session)
        try:
            await execution
            if self._app.closing.is_set():
                raise Closed("the server is closing")
        except BaseException:
            # Whoever asked was not told of it: it would be nobody's.
            self._later(execution.aclose())
            raise
        self._commands[entry.id] = entry
        self._make_room(entry)
        self._look_after()
        return entry

    def commands(self, caller: HttpCaller) -> list[HttpExecution]:
        return [each for each in self._commands.values() if _may_see(each, caller)]

    def command(self, id: str, caller: HttpCaller) -> HttpExecution:
        """A command that a caller may see. Raises `PathNotFound`, of somebody else's as of none."""
        entry = self._commands.get(id)
        if entry is None or not _may_see(entry, caller):
            raise PathNotFound("there is no such command", hint="it may have ended long ago")
        entry.refuse_ended(caller)
        return entry

    def refuse_unknown(self, entry: HeldForCaller, caller: HttpCaller) -> None:
        """For who is being told of a command: refuse them once they would not be let in now."""
        if not self._app.still_knows(caller):
            raise Unauthenticated("the token or session of this stream has ended")
        entry.refuse_ended(caller)

    async def forget(self, entry: HttpExecution) -> None:
        """End a command, and let go of what it printed."""
        self._commands.pop(entry.id, None)
        await entry.execution.aclose()

    def part(self, entry: HttpExecution) -> None:
        """End a command likewise, for whoever does not wait for that."""
        self._commands.pop(entry.id, None)
        self._later(entry.execution.aclose())

    def _make_room(self, newest: HttpExecution) -> None:
        """Let go of the oldest that have ended, where they are more than are kept."""
        ended = [each for each in self._commands.values() if each.ended_at is not None]
        whose = newest.caller.budget.subject
        own = [each for each in ended if each.caller.budget.subject == whose]
        most = newest.scope.limits.exec_kept_max
        crowded = [*own[: max(0, len(own) - most)], *ended[: len(ended) - EXECUTIONS_KEPT_MAX]]
        for entry in dict.fromkeys(crowded):
            self.part(entry)

    # --- sessions ----------------------------------------------------------------------------

    def keep_session(self, caller: HttpCaller, scope: Scope, session: Session) -> HttpSession:
        entry = self._sessions[session.id] = HttpSession(caller, scope, session)
        self._look_after()
        return entry

    def refuse_more_sessions(self, caller: HttpCaller, scope: Scope) -> None:
        """Raises `RateLimited` where a caller has as many open as may be, and `Unsupported` where
        another process may be asked for what this one has."""
        self._refuse_several()
        refuse_if_not_allowed(scope, "exec", frozenset(), ())
        most, whose = scope.limits.exec_per_subject_max, caller.budget.subject
        own = [each for each in self._sessions.values() if each.caller.budget.subject == whose]
        if len(own) >= most and not caller.is_person:
            raise RateLimited(
                "this subject has as many sessions open as it may", hint="close one of them",
                details={"limit": most},
            )  # fmt: skip

    def sessions(self, caller: HttpCaller) -> list[HttpSession]:
        return [each for each in self._sessions.values() if _may_see(each, caller)]

    def session(self, id: str, caller: HttpCaller) -> HttpSession:
        """A session that is open, and that a caller may see. Raises `PathNotFound`."""
        entry = self.open_session(id, caller)
        if entry is None:
            raise PathNotFound("no such session is open", hint=f"POST /sessions/{id[:64]}/open")
        return entry

    def open_session(self, id: str, caller: HttpCaller) -> HttpSession | None:
        entry = self._sessions.get(id)
        if entry is None or not _may_see(entry, caller):
            return None
        entry.refuse_ended(caller)
        entry.used_at = time.monotonic()
        return entry

    async def close_session(self, entry: HttpSession) -> None:
        self._sessions.pop(entry.id, None)
        await entry.session.aclose()

    def running_in(self, session: str) -> list[HttpExecution]:
        return [
            each
            for each in self._commands.values()
            if each.session == session and each.ended_at is None
        ]

    # --- ending ------------------------------------------------------------------------------

    def _refuse_several(self) -> None:
        if self._app.settings.several:
            raise Unsupported(
                "a command lives in one process, and this server has several",
                hint="serve with one worker, and with a state of its own",
            )

    def _look_after(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        """Let go of what has had its time, and of what those began who are known no more."""
        while self._commands or self._sessions:
            await asyncio.sleep(EVENT_LOOK_SECONDS)
            now, knows = time.monotonic(), self._app.still_knows
            for entry in list(self._commands.values()):
                kept = entry.scope.limits.exec_kept_seconds
                is_old = entry.ended_at is not None and now - entry.ended_at > kept
                if is_old or not knows(entry.caller):
                    self.part(entry)
            for open_one in list(self._sessions.values()):
                if self.running_in(open_one.id):
                    open_one.used_at = now
                idle = now - open_one.used_at > SESSION_IDLE_SECONDS_MAX
                if idle or not knows(open_one.caller):
                    self._later(self.close_session(open_one))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    async def end_of(self, caller: HttpCaller) -> None:
        """End what a token began that has ended."""
        await self._end(lambda each: each.caller is caller)

    async def aclose(self) -> None:
        """End everything: the server ends."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        await self._end(lambda each: True)
        if self._parting:
            await asyncio.wait(self._parting)

    async def _end(self, meant: Callable[[HeldForCaller], bool]) -> None:
        sessions = [each for each in self._sessions.values() if meant(each)]
        commands = [each for each in self._commands.values() if meant(each)]
        await _all(
            [*map(self.forget, commands), *map(self.close_session, sessions)],
        )


def _may_see(entry: HeldForCaller, caller: HttpCaller) -> bool:
    return caller.is_person or entry.is_of(caller)


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*works, return_exceptions=True)
