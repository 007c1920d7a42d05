"""How a scope has code run: judged, asked about and recorded as a command is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bailiwick import operations
from bailiwick.call import Call
from bailiwick.errors import Unsupported
from bailiwick.finishing import to_the_end
from bailiwick.late_module import LateModule
from bailiwick.proposal import Proposal
from bailiwick.sandbox import CommandLimits, Process
from bailiwick.scope.core import ScopeCore

if TYPE_CHECKING:
    from bailiwick.verbs import code
    from bailiwick.verbs.code import StartedCode
else:
    code = LateModule("bailiwick.verbs.code")


class CodeRuns(ScopeCore):
    """For `bailiwick.code`, which serves the calls that code makes."""

    @asynccontextmanager
    async def _code_process(
        self, source: str, limits: CommandLimits
    ) -> AsyncGenerator[Process, None]:
        """An interpreter that waits for its first message, and is ended with the block or with the
        root. Raises `MissingAccess` without ``execute``, `Unsupported` where none can be run."""
        begun: list[StartedCode] = []
        command = code.command_of(source)

        def remember(started: StartedCode) -> Process:
            begun.append(started)
            return started.process

        async def prepare(call: Call) -> Proposal[Process]:
            lends = self._pipeline.interpreter
            proposal = await code.start_code(call, lends, command, limits)
            return Proposal(proposal.act, remember)

        dependents = self._pipeline.dependents
        try:
            process: Process = await self._run(
                operations.EXEC, "code", self._top, prepare, command=command
            )
            dependents[id(process)] = process.close
            yield process
        finally:
            # Also one that had just begun when it was cancelled, and that nobody got.
            for each in begun:
                dependents.pop(id(each.process), None)
                await to_the_end(each.process.close())
                each.give_back()

    def _runs_code(self) -> bool:
        lends = self._pipeline.interpreter
        try:
            found = None if lends is None else lends()
        except Unsupported:
            return False
        return found is not None and not any(lack.fatal for lack in found.sandbox.missing())
