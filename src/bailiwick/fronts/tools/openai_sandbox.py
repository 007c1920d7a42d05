"""A sandbox of the OpenAI Agents SDK: the workspace of a `SandboxAgent` is a scope.

Commands are run in our sandbox, each by itself, and what it changed is brought back when it has
ended; files are read and written by the verbs. There is nothing to set up or to snapshot: what the
agent works on stands there, and its versions are those of the workspace. The SDK's own tool
``exec_command`` pauses by its ``needs_approval``, as the function tools do.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeVar

from bailiwick.approvals import Asker
from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.fronts.tools.extras import extra
from bailiwick.fronts.tools.openai_agents import NOT_RUN, AgentTools
from bailiwick.scope import Scope
from bailiwick.scope.front_access import place_for_programs, top_of
from bailiwick.toolbox import Pending, Toolbox
from bailiwick.toolbox.answer import text_of
from bailiwick.toolbox.command_tool import about_the_command, in_words, to_its_end
from bailiwick.toolbox.failures import failure

with extra("openai"):
    from agents.sandbox.capabilities import Shell
    from agents.sandbox.capabilities.shell import ShellToolSet
    from agents.sandbox.capabilities.tools import ExecCommandTool
    from agents.sandbox.capabilities.tools.shell_tool import ExecCommandArgs
    from agents.sandbox.errors import (
        ExecTimeoutError,
        InvalidManifestPathError,
        WorkspaceArchiveReadError,
        WorkspaceArchiveWriteError,
        WorkspaceReadNotFoundError,
    )
    from agents.sandbox.files import EntryKind, FileEntry
    from agents.sandbox.manifest import Manifest
    from agents.sandbox.session import SandboxSession, SandboxSessionState
    from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
    from agents.sandbox.session.sandbox_client import BaseSandboxClient
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
    from agents.sandbox.types import ExecResult, Permissions, User
    from agents.tool_context import ToolContext
    from pydantic import ValidationError

Result = TypeVar("Result")
Work = Callable[[Scope], Coroutine[Any, Any, Result]]

_EXEC = "exec_command"


class _ForModel(NamedTuple):
    """A command that a model has asked for, and what a person has said about it."""

    asker: Asker | None


_for_model: ContextVar[_ForModel | None] = ContextVar("bailiwick_sandbox_for_model", default=None)


class SandboxTools(AgentTools):
    """The workspace of a `SandboxAgent`. The tools must offer `run_command`::

        kit = SandboxTools(tools(fs, operations=["run_command"]))
        agent = SandboxAgent(name="coder", capabilities=[kit.shell()])
        Runner.run(agent, …, run_config=RunConfig(sandbox=SandboxRunConfig(client=kit.client)))

    Without `shell`, by the SDK's own capability, a command about which a person must be asked is
    put to them in line, or not run.
    """

    def __init__(
        self, tools: Toolbox, *, agreed: Mapping[str, str | Sequence[str]] | None = None
    ) -> None:
        tools.require("run_command")
        super().__init__(tools, agreed=agreed)
        self.client = BailiwickSandboxClient(tools)

    def shell(self) -> Shell:
        """The SDK's capability of commands, with its ``exec_command`` asking first."""

        def configure(toolset: ShellToolSet) -> None:
            toolset.exec_command = _AskingExec(self, toolset)

        return Shell(configure_tools=configure)

    async def rehearse(self, words: Sequence[str], env: Mapping[str, str]) -> Pending | None:
        """Whether a command would have to be asked about, and what."""

        async def work(scope: Scope) -> None:
            await scope.exec(words, cwd=top_of(scope), env=env).result()

        return await self._tools.actor.rehearse(_EXEC, work)


class _AskingExec(ExecCommandTool):
    """``exec_command`` that pauses the run where a rule asks, and passes on what was said."""

    def __init__(self, kit: SandboxTools, toolset: ShellToolSet) -> None:
        given = toolset.exec_command
        super().__init__(
            session=given.session, user=given.user, workspace_scope=given.workspace_scope,
            needs_approval=self._asks,
        )  # fmt: skip
        self._kit = kit

    async def _asks(self, context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        try:
            args = ExecCommandArgs.model_validate(arguments)
            text = self._prepare_command(args)
        except (ValidationError, InvalidManifestPathError):
            return False  # the call itself says what is wrong
        words = [args.shell or "sh", "-lc" if args.login else "-c", text]
        env = await self.session.state.manifest.environment.resolve()
        return self._kit.noted(_EXEC, call_id, await self._kit.rehearse(words, env))

    async def _invoke(self, context: object, raw_input: str) -> str:
        call_id = context.tool_call_id if isinstance(context, ToolContext) else None
        word = self._kit.word(context, _EXEC, call_id) if isinstance(context, ToolContext) else None
        before = _for_model.set(_ForModel(word))
        try:
            return await super()._invoke(context, raw_input)
        finally:
            _for_model.reset(before)


class BailiwickSandboxState(SandboxSessionState):
    """What the SDK keeps of a session: nothing but its name is needed."""

    type: Literal["bailiwick"] = "bailiwick"


class BailiwickSandboxClient(BaseSandboxClient[None]):
    """Makes sessions on one workspace. A manifest may set variables, and nothing else: files are
    those of the workspace. No snapshot is taken; one that is to be kept elsewhere is refused."""

    backend_id = "bailiwick"
    supports_default_options = True

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: None = None,
    ) -> SandboxSession:
        # The SDK names a local one wherever nobody has said anything.
        if snapshot is not None and snapshot.type not in ("local", "noop"):
            raise ValueError("a workspace of Bailiwick keeps its own versions: no snapshot")
        id = uuid.uuid4()
        state = BailiwickSandboxState(
            session_id=id, manifest=self._fitting(manifest or Manifest()),
            snapshot=resolve_snapshot(None, str(id)),
        )  # fmt: skip
        return self._wrap_session(BailiwickSandboxSession(self._tools, state))

    async def delete(self, session: SandboxSession) -> SandboxSession:
        return session  # the workspace is not the session's

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        if not isinstance(state, BailiwickSandboxState):
            raise TypeError("this is not the state of a sandbox of Bailiwick")
        state.manifest = self._fitting(state.manifest)
        return self._wrap_session(BailiwickSandboxSession(self._tools, state))

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, BailiwickSandboxState)

    def _fitting(self, manifest: Manifest) -> Manifest:
        if manifest.entries or manifest.users or manifest.groups or manifest.extra_path_grants:
            raise ValueError(
                "a manifest for a workspace of Bailiwick has variables only: put files into the"
                " workspace, and grant what else is to be reached"
            )
        root = place_for_programs(self._tools.actor.owner)
        return manifest.model_copy(update={"root": root}, deep=True)


class BailiwickSandboxSession(BaseSandboxSession):
    """One session of a `SandboxAgent`, on the workspace of its tools. It has no terminals."""

    state: BailiwickSandboxState

    def __init__(self, tools: Toolbox, state: BailiwickSandboxState) -> None:
        self.state = state
        self._tools = tools
        self._is_running = False

    async def running(self) -> bool:
        return self._is_running

    async def _start_workspace(self) -> None:
        self._is_running = True

    async def _persist_snapshot(self) -> None:
        """Nothing is the session's own."""

    async def _after_shutdown(self) -> None:
        self._is_running = False

    async def persist_workspace(self) -> io.IOBase:
        raise NotImplementedError("a workspace of Bailiwick keeps its own versions")

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        raise NotImplementedError("a workspace of Bailiwick keeps its own versions")

    # --- commands -----------------------------------------------------------------------------

    async def _exec_internal(
        self,
        *command: str | Path,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> ExecResult:
        words = [str(each) for each in command]
        env = await self.state.manifest.environment.resolve()
        asked = _for_model.get()
        most = self._tools.config.max_tool_result_bytes

        async def work(scope: Scope) -> ExecResult:
            longest = scope.limits.exec_seconds_max
            seconds = longest if timeout is None else min(timeout, longest)
            execution = about_the_command(scope).exec(
                words, cwd=top_of(scope), env=env, timeout=seconds
            )
            if asked is None:
                return await _raw(execution, most)
            printed, result = await to_its_end(execution, most)
            text = in_words(self._tools.bench(scope, "run_command"), printed, result)
            if result.timed_out:
                raise ExecTimeoutError(command=command, timeout_s=seconds)
            return ExecResult(stdout=text.encode(), stderr=b"", exit_code=_code(result))

        try:
            return await self._done(work, None if asked is None else asked.asker)
        except BailiwickError as error:
            # Whatever else it raises would end the run: a model can do something else.
            told = text_of(failure(error)).encode()
            return ExecResult(stdout=b"", stderr=told, exit_code=NOT_RUN)

    # --- files --------------------------------------------------------------------------------

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        place = self._place(path, user)
        try:
            read = await self._done(lambda scope: scope.read_bytes(place))
        except PathNotFound as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except BailiwickError as error:
            told = {"reason": error.kind}
            raise WorkspaceArchiveReadError(path=path, context=told, cause=error) from error
        return io.BytesIO(read.data)

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        content = data.read()
        content = content.encode() if isinstance(content, str) else bytes(content)
        place = self._place(path, user)
        await self._change(path, lambda scope: scope.write_bytes(place, content, parents=True))

    async def mkdir(
        self, path: Path | str, *, parents: bool = False, user: str | User | None = None
    ) -> None:
        place = self._place(path, user)

        async def make(scope: Scope) -> None:
            if not (parents and await scope.exists(place)):
                await scope.make_dir(place, parents=parents)

        await self._change(path, make)

    async def rm(
        self, path: Path | str, *, recursive: bool = False, user: str | User | None = None
    ) -> None:
        place = self._place(path, user)
        await self._change(
            path, lambda scope: scope.remove(place, recursive=recursive, missing_ok=recursive)
        )

    async def mv(
        self, source: Path | str, destination: Path | str, *, user: str | User | None = None
    ) -> None:
        one, other = self._place(source, user), self._place(destination, user)
        await self._change(source, lambda scope: scope.move(one, other, replace=True))

    async def same_file(
        self, left: Path | str, right: Path | str, *, follow_symlinks: bool = True,
        user: str | User | None = None,
    ) -> bool:  # fmt: skip
        one, other = self._place(left, user), self._place(right, user)

        async def compare(scope: Scope) -> bool:
            look = scope.stat if follow_symlinks else scope.lstat
            found = [await look(each) for each in (one, other)]
            if any(each.type == "symlink" for each in found):
                return False
            return found[0].path == found[1].path

        try:
            return await self._done(compare)
        except PathNotFound:
            return False

    async def ls(self, path: Path | str, *, user: str | User | None = None) -> list[FileEntry]:
        place = self._place(path, user)

        async def listed(scope: Scope) -> list[FileEntry]:
            entries: list[FileEntry] = []
            cursor: str | None = None
            while True:
                page = await scope.list(place, cursor=cursor, include_ignored=True)
                entries += [_entry(PurePosixPath(str(path)), each) for each in page.entries]
                cursor = page.next_cursor
                if cursor is None:
                    return entries

        return await self._done(listed)

    def _place(self, path: Path | str, user: str | User | None) -> str:
        if user is not None:
            raise ValueError("there are no users in a workspace of Bailiwick")
        root = PurePosixPath(self.state.manifest.root)
        top = PurePosixPath(top_of(self._tools.actor.owner))
        return str(top / PurePosixPath(self.normalize_path(path)).relative_to(root))

    async def _change(self, path: Path | str, work: Work[Any]) -> None:
        try:
            await self._done(work)
        except BailiwickError as error:
            raise WorkspaceArchiveWriteError(
                path=Path(path), message=text_of(failure(error)), cause=error
            ) from error

    async def _done(self, work: Work[Result], asker: Asker | None = None) -> Result:
        return await self._tools.actor.run(work, asker=asker)


def _code(result: Any) -> int:
    code: int | None = result.exit_code
    return 128 + (result.signal or 0) if code is None else code


async def _raw(execution: Any, bytes_max: int) -> ExecResult:
    """What a command printed, as it is, for whoever parses it; no more of each stream than an
    answer may hold."""
    kept = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        async for piece in execution:
            room = bytes_max - len(kept[piece.stream])
            kept[piece.stream] += piece.data[: max(room, 0)]
        result = await execution.result()
    finally:
        await execution.aclose()
    if result.timed_out:
        raise ExecTimeoutError(command=(), timeout_s=None)
    return ExecResult(
        stdout=bytes(kept["stdout"]), stderr=bytes(kept["stderr"]), exit_code=_code(result)
    )


_KINDS = {
    "file": EntryKind.FILE, "directory": EntryKind.DIRECTORY, "symlink": EntryKind.SYMLINK,
}  # fmt: skip


def _entry(above: PurePosixPath, entry: Any) -> FileEntry:
    mode = 0o7 if entry.type == "directory" else 0o6
    return FileEntry(
        path=str(above / entry.name), size=entry.size or 0,
        kind=_KINDS.get(entry.type, EntryKind.OTHER), owner="", group="",
        permissions=Permissions(owner=mode, directory=entry.type == "directory"),
    )  # fmt: skip
