"""Answers the calls of code: looks each up in the vocabulary, checks what it was given, and makes
it on the scope as any caller would. There is no other way from the code to the tree."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from bailiwick.code.changes import changes_of
from bailiwick.code.handles import (
    CodeHandle,
    HandleCall,
    OpenLease,
    OpenScope,
    OpenSink,
    OpenStream,
    OpenTransaction,
)
from bailiwick.code.messages import CodeMessage, error_told, message, told
from bailiwick.code.results import CodeCall, CodeChange
from bailiwick.code.vocabulary import CodeVerb, WireBytes, WireState, vocabulary
from bailiwick.errors import (
    BailiwickError,
    Busy,
    FileTooLarge,
    InternalError,
    ParseError,
    QuotaExceeded,
)
from bailiwick.limits import Limits
from bailiwick.scope import Scope

_log = logging.getLogger("bailiwick")

FIRST = 0
"""The number of the scope that the code was given."""


class CodeService:
    """What one run of code can reach, and what it did."""

    def __init__(self, scope: Scope, limits: Limits, calls_max: int) -> None:
        self._scope = scope
        self._limits = limits
        self._calls_max = calls_max
        self._handles: dict[int, CodeHandle] = {}
        self._last = FIRST
        self._tentative: dict[int, list[CodeChange]] = {}
        self.calls: list[CodeCall] = []
        self.count = 0
        self.changes: list[CodeChange] = []

    async def answer(self, asked: CodeMessage) -> bytes:
        """The message that goes back for a call."""
        self.count += 1
        kind = None
        try:
            value = await self._made(asked)
            return self._fitting({"id": asked.id, "value": value})
        except BailiwickError as error:
            kind = error.kind
            return message({"id": asked.id, "error": error_told(error)})
        except Exception:
            _log.exception("a call of code failed in a way that is not known")
            kind = InternalError.kind
            unknown = InternalError("the call failed in a way that is not known")
            return message({"id": asked.id, "error": error_told(unknown)})
        finally:
            if asked.verb in vocabulary() and self.count <= self._calls_max:
                self.calls.append(CodeCall(verb=asked.verb, path=_path(asked), error_kind=kind))

    def _fitting(self, document: dict[str, Any]) -> bytes:
        data = message(document)
        if len(data) > self._limits.code_message_bytes_max:
            raise FileTooLarge(
                f"what would be answered takes {len(data)} bytes",
                hint="ask for less: offset and length, line and limit, a cursor, or a stream",
                details={"limit": self._limits.code_message_bytes_max},
            )
        return data

    async def _made(self, asked: CodeMessage) -> Any:
        if self.count > self._calls_max:
            raise QuotaExceeded(
                "the code has made as many calls as it may",
                hint="do more with each call", details={"limit": self._calls_max},
            )  # fmt: skip
        handle = self._handles.get(asked.on)
        if handle is None and asked.on != FIRST:
            raise ParseError("nothing is open under this number")
        own = handle.calls.get(asked.verb) if handle is not None else None
        if handle is not None and own is not None:
            return await self._of_handle(asked, handle, own)
        scope = self._scope if handle is None else getattr(handle, "scope", None)
        verb = vocabulary().get(asked.verb)
        if verb is None or scope is None:
            raise ParseError("there is no such call")
        return await self._verb(asked, verb, scope)

    async def _of_handle(self, asked: CodeMessage, handle: CodeHandle, call: HandleCall) -> Any:
        given = _checked(asked, call.arguments)
        try:
            value = await call.make(handle, given)
        except BailiwickError:
            if call.ends:
                del self._handles[asked.on]
                await handle.close()
            raise
        if call.ends:
            del self._handles[asked.on]
            self._settle(asked, handle, given, value)
        return told(value)

    async def _verb(self, asked: CodeMessage, verb: CodeVerb, scope: Scope) -> Any:
        given = _checked(asked, verb.arguments)
        arguments = {name: self._meant(getattr(given, name)) for name in given.__struct_fields__}
        if verb.returns != "value" and len(self._handles) >= self._limits.code_handles_max:
            raise Busy(
                "the code has as much open as it may", hint="close what is done with",
                details={"limit": self._limits.code_handles_max},
            )  # fmt: skip
        method = getattr(scope, verb.name)
        if verb.returns == "value":
            result = await method(**arguments)
            self._note(asked.on, changes_of(verb.name, result))
            return told(result)
        if verb.returns == "stream":
            return {"$stream": self._opened(asked, OpenStream(method(**arguments)))}
        if verb.returns == "sink":
            assert verb.streamed is not None
            name = verb.streamed
            sink = OpenSink(lambda chunks: method(**arguments, **{name: chunks}))
            return {"$sink": self._opened(asked, sink)}
        if verb.returns == "state":
            return {"$state": self._opened(asked, OpenScope(await method(**arguments)))}
        if verb.returns == "transaction":
            block = method(**arguments)
            number = self._opened(asked, OpenTransaction(block, await block.__aenter__()))
            self._tentative[number] = []
            return {"$transaction": number}
        lease = await method(**arguments)
        number = self._opened(asked, OpenLease(lease))
        return {"$lease": [number, str(lease.path), lease.token, lease.expires_ns]}

    def _opened(self, asked: CodeMessage, handle: CodeHandle) -> int:
        self._last += 1
        handle.of = asked.on
        self._handles[self._last] = handle
        return self._last

    def _meant(self, value: Any) -> Any:
        """An argument as the verb has it."""
        if isinstance(value, WireBytes):
            return value.data
        if isinstance(value, WireState):
            found = self._scope if value.on == FIRST else self._handles.get(value.on)
            scope = found if isinstance(found, Scope) else getattr(found, "scope", None)
            if scope is None:
                raise ParseError("no scope is open under this number")
            return scope
        return value

    # --- what was changed ------------------------------------------------------------------------

    def _note(self, on: int, changes: list[CodeChange]) -> None:
        """Those of the tree itself, and of what may still come to be in it."""
        if on == FIRST:
            self.changes += changes
        elif on in self._tentative:
            self._tentative[on] += changes

    def _settle(self, asked: CodeMessage, handle: CodeHandle, given: Any, value: Any) -> None:
        if isinstance(handle, OpenSink):
            self._note(handle.of, changes_of("write_stream", value))
        if isinstance(handle, OpenTransaction):
            changes = self._tentative.pop(asked.on, [])
            self._note(handle.of, changes if given.commit else [])

    async def close(self) -> None:
        """Let go of all that is still open; the newest first."""
        while self._handles:
            _, handle = self._handles.popitem()
            try:
                await handle.close()
            except BailiwickError:
                _log.warning("something that code left open could not be closed", exc_info=True)


def _checked(asked: CodeMessage, kind: type[msgspec.Struct]) -> Any:
    """What a call was given, if it is what it takes."""
    try:
        return msgspec.json.decode(asked.arguments, type=kind)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ParseError(f"{asked.verb} cannot be given this: {error}") from None


class _Named(msgspec.Struct):
    """The place that a call is about, as far as it tells one."""

    path: Any = None
    base: Any = None
    prefix: Any = None


def _path(asked: CodeMessage) -> str | None:
    try:
        named = msgspec.json.decode(asked.arguments, type=_Named)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    found = next((each for each in (named.path, named.base, named.prefix) if each), None)
    return found[:4096] if isinstance(found, str) else None
