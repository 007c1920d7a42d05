"""Between an editor and an agent: two streams of lines, of which only file calls are answered here,
and calls about terminals where they are served.

Everything else goes on as the bytes that came. The exceptions: ``initialize`` tells the agent which
calls are served, and what an agent sends that is no message at all goes nowhere (see
`messages`). Each direction is read as fast as the other end takes it, so that whoever floods waits;
what is held is bounded by the longest line, and by how many calls are under way.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from bailiwick.approvals import Answer, Approval
from bailiwick.errors import BailiwickError, Busy, InternalError, ParseError, escape_for_display
from bailiwick.fronts.acp import extension, messages, terminals
from bailiwick.fronts.acp.errors import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
    rpc_error,
)
from bailiwick.fronts.acp.extension import Served
from bailiwick.fronts.acp.files import FileCalls, check_number, check_text
from bailiwick.fronts.acp.lines import LinePiece, LineReader
from bailiwick.fronts.acp.members import Malformed
from bailiwick.fronts.acp.permissions import answer_of, names_our_question, permission_request
from bailiwick.fronts.acp.places import Places
from bailiwick.fronts.acp.terminals import Terminals
from bailiwick.model import MiB

_log = logging.getLogger("bailiwick.acp")

LINE_BYTES_MAX = 32 * MiB
"""The longest message of an agent that is read: a text of 5 MiB with every character escaped is
30 MiB. What an editor sends may be longer: it is passed on as it comes."""

CALLS_MAX = 64
"""File calls under way at once; those that wait for a person count too."""

_NULL = Raw(b"null")


class PeerGone(Exception):
    """The other end does not take anything any more."""


class Sender:
    """Writes whole lines to one end, each after the other."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._turn = asyncio.Lock()
        self._inside = False

    async def send(self, piece: LinePiece | bytes) -> None:
        """Wait until it is taken, more or less. A line in pieces keeps its turn to its end."""
        part, data = ("line", piece) if isinstance(piece, bytes) else piece
        if not (self._inside and part in ("middle", "end")):
            await self._turn.acquire()
            self._inside = part == "beginning"
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise PeerGone from error
        finally:
            if part in ("line", "end"):
                self._inside = False
                self._turn.release()


class Relay:
    """One editor, one agent, one scope."""

    def __init__(
        self,
        *,
        editor: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        agent: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        files: FileCalls,
        places: Places,
        serves: Served,
        say: Callable[[str], None],
        terminals: Terminals | None = None,
    ) -> None:
        """``serves`` is what the agent is told of file calls; ``say`` tells the person who looks
        at the editor's log what went wrong. Without ``terminals`` the editor has them."""
        self._from_editor = LineReader(editor[0], LINE_BYTES_MAX)
        self._from_agent = LineReader(agent[0], LINE_BYTES_MAX)
        self._editor = Sender(editor[1])
        self._agent = Sender(agent[1])
        self._files = files
        self._places = places
        self._serves = serves
        self._say = say
        self._terminals = terminals
        self._prefix = f"bailiwick-{secrets.token_hex(8)}-"
        self._asked = 0
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._calls: dict[asyncio.Task[None], tuple[object, object]] = {}
        """Those under way, each with the ids of its request and its session."""
        self._closing = False

    async def aclose(self) -> None:
        """End the calls that are under way: nothing is left half-done."""
        self._closing = True
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)
        if self._terminals is not None:
            await self._terminals.aclose()

    # --- from the editor -----------------------------------------------------------------------

    async def editor_to_agent(self) -> None:
        """Pass on what the editor says, until it ends or the agent takes no more."""
        while (piece := await self._from_editor.next()) is not None:
            if piece.part == "line":
                passed = self._heard_editor(piece.data)
                if passed is not None:
                    await self._agent.send(passed)
            else:
                await self._agent.send(piece)

    def _heard_editor(self, line: bytes) -> bytes | None:
        """The line as the agent gets it; None where it was for us. An editor is not distrusted:
        what cannot be read here is passed on."""
        try:
            message = messages.read(line)
        except Malformed:
            return line
        method = message.method
        if method is None:
            return None if self._answered(message) else line
        if method == "initialize":
            with suppress(msgspec.DecodeError):
                read, write, more, terminal = self._serves
                told = extension.announcement(more)
                return messages.with_calls_served(
                    line, read=read, write=write, meta=told, terminal=terminal
                )
        elif method in messages.OPENING:
            self._note_directory(message)
        elif method == "session/cancel":
            self._cancel(session=_quietly(message).get("sessionId", UNSET))
        return line

    def _answered(self, message: messages.Message) -> bool:
        """Whether this answers a question of ours."""
        key = message.key
        if not isinstance(key, str) or not key.startswith(self._prefix):
            return False
        waiting = self._answers.pop(key, None)
        if waiting is not None and not waiting.done():
            result = None
            with suppress(Malformed):
                result = messages.members(message.result)
            waiting.set_result(result)
        return True

    def _note_directory(self, message: messages.Message) -> None:
        directory = _quietly(message).get("cwd")
        if not self._places.opened_in(directory):
            shown = escape_for_display(str(directory))
            self._say(f"the editor works in {shown}, which is not in the root that is served")

    # --- from the agent ------------------------------------------------------------------------

    async def agent_to_editor(self) -> None:
        """Pass on what the agent says and answer its file calls, until it ends or the editor takes
        no more."""
        while (piece := await self._from_agent.next()) is not None:
            if piece.part == "line":
                await self._hear_agent(piece.data)
            elif piece.part == "beginning":
                await self._refuse_long(piece.data)

    async def _hear_agent(self, line: bytes) -> None:
        if not line.strip():
            await self._editor.send(line)
            return
        try:
            message = messages.read(line)
            served_here = self._is_served_here(message)
            ours = not served_here and names_our_question(line, message.params)
        except Malformed as why:
            await self._refuse(_NULL, PARSE_ERROR, str(why))
            return
        if ours:
            answered = _NULL if message.id is None else message.id
            await self._refuse(answered, INVALID_REQUEST, "it is about a question of Bailiwick's")
        elif served_here:
            await self._begin_call(message)
        elif message.method == "$/cancel_request" and self._cancel(
            request=_quietly(message).get("requestId", UNSET)
        ):
            pass
        else:
            await self._editor.send(line if line.endswith(b"\n") else line + b"\n")

    def _is_served_here(self, message: messages.Message) -> bool:
        return message.is_file_call or (
            self._terminals is not None
            and message.method is not None
            and message.method.casefold().startswith(terminals.PREFIX)
        )

    async def _refuse(self, request: Raw, code: int, why: str) -> None:
        """A message that the editor does not get: the agent is told, and the editor's log."""
        self._say(f"the agent sent a line that is not passed on: {why}")
        error = RpcError(code, f"this message was not passed on: {why}")
        await self._agent.send(_failure(request, error))

    async def _refuse_long(self, beginning: bytes) -> None:
        """A message that is longer than what is read: whoever waits for it is told."""
        why = f"a message of an agent has at most {LINE_BYTES_MAX} bytes"
        self._say(f"the agent sent a line that is not passed on: {why}")
        known = messages.beginning_of(beginning)
        if known is not None and known[1] != "method":
            await self._editor.send(_failure(known[0], RpcError(INTERNAL_ERROR, why)))
        else:
            answered = _NULL if known is None else known[0]
            await self._agent.send(_failure(answered, RpcError(INVALID_REQUEST, why)))

    # --- calls ----------------------------------------------------------------------------

    async def _begin_call(self, message: messages.Message) -> None:
        request, method = message.id, message.method
        if request is None or method is None:
            return  # nobody waits for what it would say, and a change nobody hears of is none
        of_terminals = () if self._terminals is None else self._terminals.calls
        if method not in (messages.READ, messages.WRITE, *extension.CALLS, *of_terminals):
            error = RpcError(METHOD_NOT_FOUND, "this call is not served")
            await self._agent.send(_failure(request, error))
            return
        try:
            given = self._taken(message)
        except BailiwickError as refused:
            await self._agent.send(_failure(request, rpc_error(refused)))
            return
        task = asyncio.create_task(self._call(method, request, given))
        self._calls[task] = message.key, given.get("sessionId")
        task.add_done_callback(self._ended)

    def _taken(self, message: messages.Message) -> dict[str, Any]:
        """What a call was given, as it was sent or not at all, where there is room for it."""
        if not message.is_unicode:
            raise ParseError("a text in it holds half a character")
        if len(self._calls) >= CALLS_MAX:
            raise Busy(f"{CALLS_MAX} calls are under way", hint="wait for their answers")
        try:
            return messages.members(message.params)
        except Malformed as why:
            raise ParseError(str(why)) from None

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._calls[task]
        if not task.cancelled() and task.exception() is not None:
            _log.error("a call failed", exc_info=task.exception())

    async def _call(self, method: str, request: Raw, given: dict[str, Any]) -> None:
        async with AsyncExitStack() as held:
            try:
                result = await self._done(method, given, held)
                answer = messages.encode({"jsonrpc": "2.0", "id": request, "result": result})
                answer += b"\n"
            except asyncio.CancelledError:
                if self._closing:
                    raise
                answer = _failure(request, RpcError(CANCELLED, "the call was cancelled"))
            except BailiwickError as error:
                answer = _failure(request, rpc_error(error))
            except Exception as error:
                _log.exception("an unexpected fault")
                fault = InternalError(f"an unexpected fault: {type(error).__name__}")
                answer = _failure(request, rpc_error(fault))
            with suppress(PeerGone):  # an agent that has gone needs no answer
                await self._agent.send(answer)

    async def _done(
        self, method: str, given: dict[str, Any], held: AsyncExitStack
    ) -> dict[str, Any]:
        session = check_text("sessionId", given.get("sessionId"))

        async def ask(approval: Approval) -> Answer | None:
            return await self._ask(approval, session)

        if self._terminals is not None and method in self._terminals.calls:
            return await self._terminals.calls[method](given, ask)
        if method in extension.CALLS:
            return await extension.answer(self._files, method, given, ask)
        path = check_text("path", given.get("path"))
        if method == messages.WRITE:
            content = check_text("content", given.get("content"))
            expected = extension.expected_sha256(given.get("_meta"))
            done = await self._files.write(path, content, expected_sha256=expected, asker=ask)
            return {"_meta": extension.about(sha256=done.sha256, requestId=done.request_id)}
        line = check_number("line", given.get("line"))
        limit = check_number("limit", given.get("limit"))
        got = await self._files.read(path, line, limit, asker=ask, held=held)
        return {"content": got.text, "_meta": extension.about(sha256=got.sha256)}

    async def _ask(self, approval: Approval, session: str) -> Answer | None:
        """Put a question to the editor's person and wait."""
        self._asked += 1
        key = f"{self._prefix}{self._asked}"
        waiting = self._answers[key] = asyncio.get_running_loop().create_future()
        asked = {
            "jsonrpc": "2.0", "id": key, "method": "session/request_permission",
            "params": permission_request(approval, session, self._places.shown),
        }  # fmt: skip
        try:
            await self._editor.send(messages.encode(asked) + b"\n")
            return answer_of(await waiting)
        except PeerGone:
            return None
        finally:
            self._answers.pop(key, None)

    def _cancel(self, *, session: object = UNSET, request: object = UNSET) -> bool:
        """End the calls of a session, or one call; whether there was one."""
        found = False
        for call, (its_request, its_session) in self._calls.items():
            if (session is not UNSET and its_session == session) or (
                request is not UNSET and _same(its_request, request)
            ):
                found = True
                call.cancel()
        return found


def _same(one: object, other: object) -> bool:
    """Whether two ids are the same: 1 is not "1", and not true."""
    return type(one) is type(other) and one == other


def _quietly(message: messages.Message) -> dict[str, Any]:
    with suppress(Malformed):
        return messages.members(message.params)
    return {}


def _failure(request: Raw, error: RpcError) -> bytes:
    return messages.encode({"jsonrpc": "2.0", "id": request, "error": error.as_json()}) + b"\n"
