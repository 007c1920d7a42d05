"""A deepagents sandbox: the backend of a deep agent that may run commands, too.

The framework offers its tool ``execute`` where a backend is a sandbox. As with files, what it shows
to the model is raw text, so that nothing is tagged.
"""

from __future__ import annotations

from bailiwick.commands import ExecResult
from bailiwick.errors import Unsupported
from bailiwick.fronts.tools import new_session
from bailiwick.fronts.tools.deepagents import BailiwickBackend, Work, twins
from bailiwick.fronts.tools.extras import extra
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope
from bailiwick.text.both_ends import Printed
from bailiwick.toolbox import ToolConfig
from bailiwick.toolbox.arguments import CommandArguments
from bailiwick.toolbox.command_tool import PRINT_LESS, run_to_its_end, what_to_do
from bailiwick.toolbox.untrusted_text import cut_note

with extra("deepagents"):
    from deepagents.backends.protocol import ExecuteResponse, SandboxBackendProtocol


def _not_run(error: str) -> ExecuteResponse:
    return ExecuteResponse(output=error, exit_code=None)


def _execute(command: str, *, timeout: int | None = None) -> Work[ExecuteResponse]:
    asked = CommandArguments(command=command, timeout=timeout or None)

    async def work(scope: Scope) -> ExecuteResponse:
        printed, result = await run_to_its_end(scope, asked, ToolConfig().max_tool_result_bytes)
        code = result.exit_code
        return ExecuteResponse(
            output=_shown(printed, result),
            exit_code=128 + (result.signal or 0) if code is None else code,
            truncated=printed.omitted_bytes > 0 or result.truncated,
        )

    return work


def _shown(printed: Printed, result: ExecResult) -> str:
    """What it printed, and what a model has to know beside it."""
    text = printed.head
    if printed.omitted_bytes:
        text += f"{cut_note(printed.omitted_bytes, PRINT_LESS)}\n{printed.tail}"
    hint = what_to_do(result)
    return text if hint is None else f"{text}\n[{hint}]"


class BailiwickSandbox(BailiwickBackend, SandboxBackendProtocol):
    """Files and commands of a deep agent: ``create_deep_agent(backend=BailiwickSandbox(scope))``.

    The scope's grant must hold ``execute``, which a person's own does; whoever makes this passes it
    on to the agent. Raises `Unsupported` where the grant does not, or no programs can be run.
    """

    _runs_commands = True

    def __init__(
        self,
        scope: Scope | SyncScope,
        *,
        session: str | None = None,
        allowed_paths: list[str] | None = None,
    ) -> None:
        named = session or new_session()
        super().__init__(scope, session=named, allowed_paths=allowed_paths)
        if not self._actor.runs_commands:
            raise Unsupported(
                "no commands are run here",
                hint="it takes a directory, bubblewrap, and a grant that holds execute",
            )
        self._id = f"{self._actor.owner.root}/{named}"

    @property
    def id(self) -> str:
        return self._id

    execute, aexecute = twins("execute", _execute, _not_run)
