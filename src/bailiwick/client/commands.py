"""The verbs of a remote scope that run programs, and look at what those changed."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec

from bailiwick.client.command_sessions import RemoteCommandSession, given_up, put_plainly
from bailiwick.client.core import NOTHING, AsksByVerbs, RemoteCore, remote
from bailiwick.client.executions import BegunCommand, RemoteExecution
from bailiwick.client.values import path_text, rebuilt_all
from bailiwick.commands import WorkInfo
from bailiwick.errors import ParseError
from bailiwick.operations import Command, Network, environment_of
from bailiwick.paths import PathText
from bailiwick.sandbox import CommandLimits
from bailiwick.scope import Scope
from bailiwick.scope.commands import input_of, words
from bailiwick.scope.execution import PublishWhen
from bailiwick.scope.working_copies import OpenWork
from bailiwick.wire import camel, command_verbs, verbs
from bailiwick.wire.arguments import STDIN_BYTES_MAX
from bailiwick.wire.names import base64_of
from bailiwick.wire.verbs import Verb

Prepared = Callable[[], Awaitable[dict[str, Any]]]


class RemoteCommands(RemoteCore):
    """Programs, run where the tree is, and what they changed."""

    def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        shell: str | None = None,
        cwd: PathText = ".",
        env: Mapping[str, str] | None = None,
        stdin: bytes | Literal["pipe"] | None = None,
        timeout: float | None = None,
        limits: CommandLimits | None = None,
        network: Network = "none",
        publish: PublishWhen = "atomic",
        roots: Sequence[str] = (),
    ) -> RemoteExecution:
        """Run a program in a sandbox on the server, on a working copy of this tree: see
        `Scope.exec`. It goes on when this client goes away."""
        given = {name: each for name, each in locals().items() if name != "self"}

        async def prepared() -> dict[str, Any]:
            return given

        return self._executing(verbs.EXEC, prepared)

    def _executing(self, verb: Verb[Any], prepared: Prepared) -> RemoteExecution:
        """A command, by the verb that begins it and what that is given when it does."""
        self._refuse_closed()
        request_id = self._session.request_id or secrets.token_hex(8)
        scope = self._with(request_id=request_id)
        rooted = verb is verbs.EXEC

        async def begin() -> BegunCommand:
            given = await prepared()
            # What is no text must not go out as what JSON makes of it.
            Command(
                argv=words(given["argv"], given["shell"]),
                environment=environment_of(given["env"] or {}),
            )
            said = {"detach": True, **_unlike_itself(given)}
            told = await scope._told(verb, given, said, rooted=rooted)
            return BegunCommand(told, given["stdin"] if _is_much(given["stdin"]) else None)

        return RemoteExecution(self, begin, request_id)

    def session(
        self,
        *,
        cwd: PathText = ".",
        env: Mapping[str, str] | None = None,
        roots: Sequence[str] = (),
    ) -> RemoteCommandSession:
        """One working copy on the server for many commands: see `Scope.session`. It is opened when
        it is entered or first used."""
        self._refuse_closed()
        given = {"cwd": path_text(cwd), "env": dict(env or {}), "roots": roots}

        async def opens() -> dict[str, Any]:
            return await self._told(verbs.SESSION_OF_COMMANDS, given)

        return RemoteCommandSession(self, opens, cwd, env or {})

    async def open_session(self, id: str) -> RemoteCommandSession:
        """A session that was left, also by another client, or that is open: see
        `Scope.open_session`."""
        _check_id(id)

        async def opens() -> dict[str, Any]:
            return await self._told(verbs.OPEN_SESSION, {"id": id})

        session = RemoteCommandSession(self, opens, ".", {})
        await session.__aenter__()
        known = session._opened.told
        assert known is not None
        session.cwd, session.env = known[0], dict(known[1])
        return session

    work = remote(Scope.work, verbs.WORK, read=lambda told: rebuilt_all(WorkInfo, told.get("work")))

    changes = remote(Scope.changes, command_verbs.OVERLAY_CHANGES)
    apply = remote(Scope.apply, command_verbs.OVERLAY_APPLY, first=put_plainly)
    discard = remote(Scope.discard, command_verbs.OVERLAY_DISCARD, first=put_plainly, read=given_up)

    async def open_work(self, id: str) -> RemoteWork:
        """A working copy that was left. Raises `PathNotFound`, and `Busy` where a command is run in
        it."""
        _check_id(id)
        work = RemoteWork(self, id)
        await work.changes()
        return work


class RemoteWork(AsksByVerbs):
    """A working copy on a server, as an `OpenWork` is one here. Others may use it meanwhile."""

    def __init__(self, scope: RemoteCommands, id: str) -> None:
        self._scope = scope
        self.id = id

    changes = remote(OpenWork.changes, verbs.OPEN_WORK)
    diff = remote(OpenWork.diff, command_verbs.WORK_DIFF)
    apply = remote(OpenWork.apply, command_verbs.WORK_APPLY, first=put_plainly)
    discard = remote(OpenWork.discard, command_verbs.WORK_DISCARD, first=put_plainly, read=given_up)

    async def _told(
        self, verb: Verb[Any], given: Mapping[str, Any], beside: Mapping[str, object] = NOTHING
    ) -> dict[str, Any]:
        return await self._scope._told(verb, {"id": self.id, **given}, beside)

    def close(self) -> None:
        """Nothing is held between calls."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


def _check_id(id: str) -> None:
    if not isinstance(id, str) or not id:
        raise ParseError("a working copy is named by its id, which is text")


def _is_much(stdin: object) -> bool:
    """Whether what a command is to read goes over when it has begun."""
    return isinstance(stdin, (bytes, bytearray, memoryview)) and len(stdin) > STDIN_BYTES_MAX


def _unlike_itself(given: Mapping[str, Any]) -> dict[str, object]:
    """What of a command is not written as it is, by the names of the wire."""
    stdin = input_of(given["stdin"], given.get("terminal"))
    limits, cwd = given["limits"], given["cwd"]
    said: dict[str, object] = {
        "stdin": None,
        "limits": None,
        "cwd": None if cwd is None else path_text(cwd),
    }
    if given["argv"] is not None:
        said["argv"] = list(given["argv"])
    if given["env"] is not None:
        said["env"] = dict(given["env"])
    if isinstance(stdin, bytes) and not _is_much(stdin):
        said["stdinBase64"] = base64_of(stdin)
    elif stdin is not None:
        said["stdinPipe"] = True
    if limits is not None:
        if not isinstance(limits, CommandLimits):
            raise ParseError("limits takes a bailiwick.CommandLimits")
        said["limits"] = {
            camel(name): each for name, each in msgspec.structs.asdict(limits).items()
        }
    return said
