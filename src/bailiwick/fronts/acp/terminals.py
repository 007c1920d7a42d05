"""The protocol's terminals, as commands in a sandbox.

Each terminal is one command on a working copy of its own, which may run for as long as a command of
a session may. When it has ended, what it changed is brought back, and only then is it told that it
has: an agent that has waited for it finds in the files what it made.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from signal import SIGKILL, Signals
from typing import Any, Final

from bailiwick.approvals import Asker
from bailiwick.commands import ExecResult
from bailiwick.errors import Busy, ParseError, PathNotFound
from bailiwick.fronts.acp.files import FileCalls, check_number, check_text
from bailiwick.model import MiB
from bailiwick.scope import Scope
from bailiwick.scope.execution import Execution
from bailiwick.scope.front_access import top_of
from bailiwick.scope.sessions import Session
from bailiwick.toolbox.command_tool import what_to_do
from bailiwick.toolbox.shell import brought_back
from bailiwick.wire.pieces import as_text

_log = logging.getLogger("bailiwick.acp")

PREFIX: Final = "terminal/"
"""How the methods begin. Where terminals are served here, none of them is for the editor."""

TERMINALS_MAX: Final = 32
"""Those that an agent has and has not released, running or not."""

OUTPUT_BYTES_MAX: Final = 1 * MiB
"""What is held of one terminal, whatever an agent asks for."""

Given = dict[str, Any]


class Terminal:
    """One command, the end of what it has printed, and how it ended."""

    def __init__(
        self, owner: str, session: Session, execution: Execution, output_bytes_max: int
    ) -> None:
        self.owner: Final = owner
        self._session = session
        self._execution = execution
        self._bytes_max = output_bytes_max
        self._tail = bytearray()
        self._omitted = False
        self._result: ExecResult | None = None
        self.ended: Final = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        try:
            async for piece in as_text(self._execution):
                self._add(piece.data)
            result = await self._execution.result()
            self._result = await brought_back(self._session, result, "atomic")
            hint = what_to_do(self._result)
            if hint is not None:
                self._add(f"\n[{hint}]\n")
        except Exception:
            _log.exception("a terminal was not followed to its end")

    def _add(self, text: str) -> None:
        self._tail += text.encode()
        over = len(self._tail) - self._bytes_max
        if over > 0:
            del self._tail[:over]
            self._omitted = True

    def output(self) -> Given:
        """What is held of what it printed, from a whole character on."""
        text = bytes(self._tail).decode(errors="ignore")
        told: Given = {"output": text, "truncated": self._omitted}
        return told if not self.ended.done() else {**told, "exitStatus": self.status()}

    def status(self) -> Given:
        result = self._result
        if result is None:
            return {"exitCode": None, "signal": None}
        signal = None if result.signal is None else _name_of(result.signal)
        return {"exitCode": result.exit_code, "signal": signal}

    async def kill(self) -> None:
        """End the command; what it changed until then is brought back."""
        if not self.ended.done():
            await self._execution.send_signal(SIGKILL)

    async def close(self) -> None:
        """Let go of it, and ask nobody any more. What was not brought back is kept in a working
        copy."""
        self.ended.cancel()
        await asyncio.wait([self.ended])
        await self._session.aclose()


def _name_of(signal: int) -> str:
    try:
        return Signals(signal).name
    except ValueError:
        return str(signal)


class Terminals:
    """What an agent may do with terminals. Their ids are no other agent's to guess, and a terminal
    is for the session that it was made in."""

    def __init__(self, files: FileCalls) -> None:
        self._files = files
        self._terminals: dict[str, Terminal] = {}
        self._starting = 0
        self.calls: Final[dict[str, Callable[[Given, Asker], Awaitable[Given]]]] = {
            f"{PREFIX}create": self._create,
            f"{PREFIX}output": self._output,
            f"{PREFIX}wait_for_exit": self._wait,
            f"{PREFIX}kill": self._kill,
            f"{PREFIX}release": self._release,
        }

    async def aclose(self) -> None:
        """End all of them."""
        terminals, self._terminals = self._terminals, {}
        for each in terminals.values():
            await each.close()

    async def _create(self, given: Given, asker: Asker) -> Given:
        owner = given["sessionId"]
        words = _words(given)
        env = _variables(given.get("env"))
        cwd = given.get("cwd")
        place = None if cwd is None else self._files.place_of(check_text("cwd", cwd))
        most = check_number("outputByteLimit", given.get("outputByteLimit"))
        kept = OUTPUT_BYTES_MAX if most is None else min(most, OUTPUT_BYTES_MAX)
        if len(self._terminals) + self._starting >= TERMINALS_MAX:
            raise Busy(f"there are {TERMINALS_MAX} terminals", hint="release those that have ended")

        async def start(scope: Scope) -> Terminal:
            session = scope.session(cwd=top_of(scope) if place is None else place, env=env)
            try:
                execution = await session.exec(
                    words, timeout=scope.limits.session_seconds_max, replayable=False
                )
            except BaseException:
                await session.aclose()
                raise
            return Terminal(owner, session, execution, kept)

        self._starting += 1
        try:
            terminal = await self._files.run(start, asker)
        finally:
            self._starting -= 1
        id = f"bailiwick-{secrets.token_hex(16)}"
        self._terminals[id] = terminal
        return {"terminalId": id}

    async def _output(self, given: Given, asker: Asker) -> Given:
        return self._of(given).output()

    async def _wait(self, given: Given, asker: Asker) -> Given:
        terminal = self._of(given)
        await asyncio.shield(terminal.ended)
        return terminal.status()

    async def _kill(self, given: Given, asker: Asker) -> Given:
        await self._of(given).kill()
        return {}

    async def _release(self, given: Given, asker: Asker) -> Given:
        terminal = self._of(given)
        await terminal.kill()
        await asyncio.shield(terminal.ended)
        if self._terminals.pop(given["terminalId"], None) is not None:
            await terminal.close()
        return {}

    def _of(self, given: Given) -> Terminal:
        terminal = self._terminals.get(check_text("terminalId", given.get("terminalId")))
        if terminal is None or terminal.owner != given["sessionId"]:
            raise PathNotFound("there is no such terminal")
        return terminal


def _words(given: Given) -> list[str]:
    """The words of a command; without ``args`` it is a text for a shell, which is how agents say
    what a person would type."""
    command, words = check_text("command", given.get("command")), given.get("args")
    if words is None or words == []:
        return ["/bin/sh", "-c", command]
    if not isinstance(words, list):
        raise ParseError("args must be a list of texts")
    return [command, *(check_text("args", each) for each in words)]


def _variables(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ParseError("env must be a list of objects with name and value")
    return {
        check_text("env.name", each.get("name")): check_text("env.value", each.get("value"))
        for each in given
    }
