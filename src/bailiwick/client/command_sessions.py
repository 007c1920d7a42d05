"""A session on a server: one working copy over many commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self

from bailiwick.client.core import NOTHING, AsksByVerbs, remote
from bailiwick.client.executions import RemoteExecution
from bailiwick.client.failures import no_answer
from bailiwick.client.values import path_text
from bailiwick.errors import Closed, ParseError, PathNotFound, Unsupported
from bailiwick.operations import Network
from bailiwick.paths import PathText, ScopedPath
from bailiwick.sandbox import CommandLimits, WindowSize
from bailiwick.scope.sessions import Session
from bailiwick.wire import command_verbs
from bailiwick.wire.names import Unreadable, path_of
from bailiwick.wire.verbs import Verb

if TYPE_CHECKING:
    from bailiwick.client.commands import RemoteCommands

Opens = Callable[[], Coroutine[Any, Any, dict[str, Any]]]


class _Opened:
    """What a session is on its server: the same for all forms in which it is used."""

    def __init__(self, opens: Opens) -> None:
        self.opens = opens
        self.opening: asyncio.Task[dict[str, Any]] | None = None
        self.id = ""
        self.told: tuple[str, dict[str, str]] | None = None
        self.telling = asyncio.Lock()
        self.closed = False


def put_plainly(scope: object, said: dict[str, Any]) -> None:
    """Paths, and hunks of single files, as far as some are meant, as the wire has them."""
    if said.get("paths") is not None:
        said["paths"] = list(said["paths"])
    hunks = said.get("hunks")
    if hunks is None:
        return
    if not isinstance(hunks, Mapping) or not hunks:
        raise ParseError("hunks are numbers by the path of their file")
    try:
        said["hunks"] = {path_text(path): sorted(each) for path, each in hunks.items()}
    except TypeError:
        raise ParseError("hunks are numbers by the path of their file") from None


def given_up(document: Mapping[str, Any]) -> list[ScopedPath]:
    """The paths that an answer says were given up."""
    told = document.get("discarded")
    if not isinstance(told, list):
        raise no_answer("it does not say what was given up")
    try:
        return [*map(path_of, told)]
    except Unreadable as error:
        raise no_answer(str(error)) from None


class RemoteCommandSession(AsksByVerbs):
    """A session on a server, as a `Session` is one here. It is opened there when it is entered or
    first used; ``id`` is empty until then."""

    def __init__(
        self, scope: RemoteCommands, opens: Opens, cwd: PathText, env: Mapping[str, str]
    ) -> None:
        """``opens`` asks the server for it, and gives what the server says of it."""
        self._scope = scope
        self._opened = _Opened(opens)
        self.cwd = cwd
        self.env = dict(env)
        self.lost: tuple[str, ...] = ()
        """The words of commands that were under way when it was left: their processes are gone."""

    @property
    def id(self) -> str:
        """Of the session and of its working copy."""
        return self._opened.id

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self._scope!r}>"

    def with_request(self, request_id: str) -> Self:
        """This session under an id: what is done by it is told and recorded with ``request_id``."""
        return self._by(self._scope.with_request(request_id))

    def with_approval(self, approval_id: str) -> Self:
        """This session for a call that a person has approved: exactly the call they saw."""
        return self._by(self._scope.with_approval(approval_id))

    def _by(self, scope: RemoteCommands) -> Self:
        same = copy(self)
        same._scope = scope
        return same

    def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        shell: str | None = None,
        cwd: PathText | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Literal["pipe"] | None = None,
        terminal: WindowSize | None = None,
        timeout: float | None = None,
        limits: CommandLimits | None = None,
        network: Network = "none",
        replayable: bool = True,
    ) -> RemoteExecution:
        """Run a program in the working copy of this session: see `Session.exec`. Its output is
        kept on the server: without ``replayable`` it is `Unsupported`."""
        given = {name: each for name, each in locals().items() if name != "self"}
        if not replayable:
            raise Unsupported("a server keeps what a command prints, to tell of it")
        where, variables = path_text(self.cwd), dict(self.env)

        async def prepared() -> dict[str, Any]:
            id = await self._id()
            await self._tell(id, where, variables)
            return {**given, "id": id}

        return self._scope._executing(command_verbs.SESSION_EXEC, prepared)

    publish = remote(Session.publish, command_verbs.SESSION_PUBLISH, first=put_plainly)
    discard = remote(
        Session.discard, command_verbs.SESSION_DISCARD, first=put_plainly, read=given_up
    )
    changes = remote(Session.changes, command_verbs.SESSION_CHANGES)
    diff = remote(Session.diff, command_verbs.SESSION_DIFF)

    async def aclose(self) -> None:
        """End every command that is under way, and keep the working copy where it holds anything
        that was not published."""
        if self._opened.closed:
            return
        self._opened.closed = True
        if self._opened.opening is None:
            return
        try:
            await self._opened.opening
        except BaseException:
            return
        with suppress(Closed, PathNotFound):  # the server has closed it
            given = {"id": self.id}
            await self._scope._told(command_verbs.SESSION_CLOSE, given, rooted=False)

    async def __aenter__(self) -> Self:
        await self._id()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # --- asking --------------------------------------------------------------------------------

    async def _id(self) -> str:
        """Its id, once it is open. What the server says of one that was left holds then."""
        state = self._opened
        if state.closed:
            raise Closed("this session is closed")
        if state.opening is None:
            state.opening = asyncio.ensure_future(self._open())
        await asyncio.shield(state.opening)
        return state.id

    async def _open(self) -> dict[str, Any]:
        state, document = self._opened, await self._opened.opens()
        id, cwd, env = (document.get(name) for name in ("id", "cwd", "env"))
        lost = document.get("lost")
        if not isinstance(id, str) or not isinstance(cwd, str) or not isinstance(env, dict):
            raise no_answer("it is no session")
        if not isinstance(lost, list) or not all(isinstance(each, str) for each in lost):
            raise no_answer("it does not say what was lost")
        state.id, state.told = id, (cwd, dict(env))
        self.lost = tuple(lost)
        return document

    async def _tell(self, id: str, cwd: str, env: dict[str, str]) -> None:
        """Have the server know where commands are run, and with which variables, where that has
        changed: it is kept with the working copy."""
        state = self._opened
        async with state.telling:
            if state.told != (cwd, env):
                given = {"id": id, "cwd": cwd, "env": env}
                await self._scope._told(command_verbs.SESSION_SET, given, rooted=False)
                state.told = (cwd, env)

    async def _told(
        self, verb: Verb[Any], given: Mapping[str, Any], beside: Mapping[str, object] = NOTHING
    ) -> dict[str, Any]:
        given = {"id": await self._id(), **given}
        return await self._scope._told(verb, given, beside, rooted=False)
