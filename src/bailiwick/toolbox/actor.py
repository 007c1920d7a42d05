"""Acting for an agent on a scope that may be a person's, with the pauses that rules ask for.

Everything that works on files for a model goes through an `Actor`: the tools, the editors that
providers have models trained on, and the backends of frameworks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from bailiwick.approvals import Asker, Question
from bailiwick.errors import BailiwickError
from bailiwick.grant import AgentRun, Core, User, check_subject
from bailiwick.portal import SyncScope
from bailiwick.runs import check_run_name
from bailiwick.scope import Scope
from bailiwick.scope.front_access import (
    as_called,
    caller_of,
    runs_code,
    runs_commands,
    with_file_max,
)
from bailiwick.toolbox.approval import Pending, QuestionRecorder
from bailiwick.toolbox.bridge import Bridge

Result = TypeVar("Result")
Work = Callable[[Scope], Coroutine[Any, Any, Result]]
"""What is done with the agent's scope."""


class Actor:
    """One agent at work.

    A scope that belongs to a person or to the host is passed on to ``agent_run:<front>/<session>``
    first, so that the rules for agents hold; one that an agent holds is used as it is. Where paths
    are narrowed the scope is always passed on, since it is the grant that narrows: links, moves
    and searches then meet the bound too. So it is with the size that a file may reach. A person's
    scope is passed on without ``execute`` unless ``passes_execute``.
    """

    def __init__(
        self,
        scope: Scope | SyncScope,
        *,
        front: str,
        session: str,
        allowed_paths: Collection[str] | None = None,
        file_bytes_max: int | None = None,
        reason: str = "",
        passes_execute: bool = False,
    ) -> None:
        self.front = front
        self._agent = AgentRun(front, session)
        check_subject(self._agent)
        self.bridge = Bridge.to(scope)
        self.owner = self.bridge.scope
        self._allowed = allowed_paths
        self._file_bytes_max = file_bytes_max
        self._reason = reason
        self._is_agent = not isinstance(self.owner.subject, (User, Core))
        # What a person may do without anybody's grant is theirs; to run programs is passed on where
        # it is said so. Whom somebody granted it has it.
        self._executes = "execute" in self.owner.access and (self._is_agent or passes_execute)
        self._lent: Scope | None = None
        self._lending = asyncio.Lock()
        # Who opened the scope may have said how its person is asked, and how long they are waited
        # for.
        caller = caller_of(self.owner)
        self._asker = caller.asker
        self._wait_s = caller.wait_s
        self._named: dict[str, str] = {}

    def name_run(self, title: str | None, step: str | None) -> None:
        """What people are to call the run, and this step of it, from now on."""
        said = {"title": title, "step": step}
        self._named |= {
            name: check_run_name(name, text) for name, text in said.items() if text is not None
        }

    @property
    def keeps_versions(self) -> bool:
        return "history" in self.owner.powers

    @property
    def runs_commands(self) -> bool:
        """Whether programs can be run here, and the agent's grant holds ``execute``."""
        return self._executes and runs_commands(self.owner)

    @property
    def runs_code(self) -> bool:
        """Whether code can be run here, and the agent's grant holds ``execute``."""
        return self._executes and runs_code(self.owner)

    async def run(
        self, work: Work[Result], *, asker: Asker | None = None, wait_s: float | None = None
    ) -> Result:
        """Do it, and wait for the person where one is asked. Without an ``asker``, nor one of the
        scope that was given, the question goes where the authority has people look, or the rule's
        default holds. ``wait_s`` is how long it waits, where not as long as the scope says; who
        is asked by an ``asker`` has as long as that at least."""
        own = self._wait_s
        is_own = wait_s is None or (asker is not None and (own is None or own > wait_s))
        seconds = own if is_own else wait_s

        async def run() -> Result:
            scope = await self._scope()
            named = as_called(scope, asker=asker or self._asker, wait_s=seconds, **self._named)
            return await work(named)

        return await self.bridge.run(run)

    def run_blocking(self, work: Work[Result], *, asker: Asker | None = None) -> Result:
        """Do work as `run` does, for a thread without an event loop, which waits for it."""
        return self.bridge.run_blocking(lambda: self.run(work, asker=asker))

    async def attempt(self, label: str, work: Work[Result]) -> Result | Pending:
        """Do it; but where a person would have to be asked nothing is done, and the answer is the
        question. With their word it is done by `run`, with the asker `by_word`."""

        async def run() -> Result | Pending:
            recorder = QuestionRecorder()
            scope = as_called(await self._scope(), asker=recorder, **self._named)
            doing = asyncio.ensure_future(work(scope))
            try:
                await asyncio.wait((doing, recorder.asked), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not doing.done():
                    # Cancelled while a person is asked, a call has changed nothing.
                    doing.cancel()
                    await asyncio.wait((doing,))
            if not recorder.asked.done():
                return doing.result()
            asked = recorder.asked.result()
            return Pending(tool=label, question=asked.question, approval_id=asked.id)

        return await self.bridge.run(run)

    def attempt_blocking(self, label: str, work: Work[Result]) -> Result | Pending:
        return self.bridge.run_blocking(lambda: self.attempt(label, work))

    async def rehearse(self, label: str, work: Work[Any]) -> Pending | None:
        """Whether it would ask a person, and what. Nothing is changed. None also where it would
        fail: that is for the real call to say."""

        async def run() -> Pending | None:
            told: list[Question | None] = []
            scope = await self._scope()
            with contextlib.suppress(BailiwickError):
                await work(as_called(scope, rehearsal=told.append))
            question = next((each for each in told if each is not None), None)
            return None if question is None else Pending(tool=label, question=question)

        return await self.bridge.run(run)

    async def aclose(self) -> None:
        """Let go of the agent's scope. The scope that was given is closed by whoever opened it."""

        async def close() -> None:
            async with self._lending:
                lent, self._lent = self._lent, None
            if lent is not None and lent.grant.id != self.owner.grant.id:
                await lent.aclose()

        await self.bridge.run(close)

    async def _scope(self) -> Scope:
        """The scope of the agent, made when it is first needed."""
        if self._lent is None:
            async with self._lending:
                if self._lent is None:
                    self._lent = await self._lend()
        return self._lent

    async def _lend(self) -> Scope:
        owner = self.owner.with_caller(self.front)
        if self._is_agent and self._allowed is None:
            return _bounded(owner, self._file_bytes_max)
        lent = await owner.delegate(
            owner.subject if self._is_agent else self._agent,
            access=owner.access if self._executes else None,
            allowed=self._allowed or (), reason=self._reason,
        )  # fmt: skip
        return _bounded(lent, self._file_bytes_max)


def _bounded(scope: Scope, file_bytes_max: int | None) -> Scope:
    """A scope through which no file becomes larger than this."""
    return scope if file_bytes_max is None else with_file_max(scope, file_bytes_max)
