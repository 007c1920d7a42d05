"""Which calls code has, and what each takes: from the table of operations and the verbs of `Scope`.

A name that is not here is no call, whatever it is. What a call may be given follows from the
annotations of the verb, and is checked before the verb is reached.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from bailiwick.model import Edit
from bailiwick.operations import EXEC, OPERATIONS
from bailiwick.scope import Scope
from bailiwick.scope.core import ScopeCore
from bailiwick.scope.versions import Locking
from bailiwick.verbs.writes import ByteSource

LEFT_OUT: Final = {
    "apply": "what was changed in an overlay is applied by a person who has looked at it",
    "changes": "what was changed in an overlay is for whoever applies it",
    "delegate": "grants are passed on by people and programs, not by code that a model wrote",
    "discard": "what was changed in an overlay is given up by a person who has looked at it",
    "on_change": "a callback cannot reach into the sandbox; watch tells the same",
    "open_session": "sessions are of commands, which code does not run",
    "open_work": "working copies are of commands, too",
    "review": "what agents did is reviewed by people",
    "runs": "what agents did is looked at by people",
    "work": "working copies are of commands, too",
}
"""Verbs that code does not have, and why. Those of the operation exec run programs."""

_BESIDE: Final = ("create_temp", "change_cursor")
"""Verbs that no operation is named after."""

Returns = Literal["value", "stream", "state", "transaction", "lease", "sink"]
"""What comes back: a value, or something that stays open."""


class WireBytes(msgspec.Struct, forbid_unknown_fields=True, rename={"data": "$bytes"}):
    """Bytes as code sends them."""

    data: bytes


class WireState(msgspec.Struct, forbid_unknown_fields=True, rename={"on": "$state"}):
    """A scope that is open for the code, by its number."""

    on: int


class Parameter(NamedTuple):
    """One parameter of a call."""

    name: str
    default: Any
    is_keyword: bool
    type: Any

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


class CodeVerb(NamedTuple):
    """One call: what it takes, and what comes back."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: Returns
    result: Any
    about: str
    arguments: type[msgspec.Struct]
    """What arguments are checked against."""
    streamed: str | None = None
    """The parameter that comes piece by piece."""


@cache
def vocabulary() -> dict[str, CodeVerb]:
    """All calls, by name."""
    named = [verb for each in OPERATIONS.values() if each is not EXEC for verb in each.verbs]
    names = [each for each in (*named, *_BESIDE) if each not in LEFT_OUT and hasattr(Scope, each)]
    return {name: _verb(name) for name in names}


def _verb(name: str) -> CodeVerb:
    method = getattr(Scope, name)
    hints = get_type_hints(method)
    parameters, streamed = [], None
    for each in list(inspect.signature(method).parameters.values())[1:]:
        hint = hints[each.name]
        if hint == ByteSource:
            streamed = each.name
        elif (type_ := _wire_type(hint)) is None:
            # Nothing that code could send: its default holds.
            assert each.default is not each.empty, f"{name}: {each.name} cannot be sent"
            continue
        else:
            hint = type_
        is_keyword = each.kind is each.KEYWORD_ONLY
        parameters.append(Parameter(each.name, each.default, is_keyword, hint))
    fields: list[Any] = [
        (each.name, each.type) if each.is_required else (each.name, each.type, each.default)
        for each in parameters
        if each.name != streamed
    ]
    arguments = msgspec.defstruct(
        f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True
    )
    result = hints["return"]
    returns = "sink" if streamed else _returns(result)
    about = (inspect.getdoc(method) or "").partition("\n")[0]
    return CodeVerb(name, tuple(parameters), returns, result, about, arguments, streamed)


def _returns(hint: Any) -> Returns:
    if hint is Self:
        return "state"
    if hint is Locking:
        return "lease"
    origin = get_origin(hint)
    if origin is AsyncGenerator:
        return "stream"
    return "transaction" if origin is AbstractAsyncContextManager else "value"


def _wire_type(hint: Any) -> Any:
    """What a parameter is in JSON; None where it cannot be sent."""
    origin, within = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        known = [each for each in map(_wire_type, within) if each is not None]
        # A path may be an object of Python's: inside the sandbox that is made a text.
        return Union[tuple(known)] if known and known != [NoneType] else None  # noqa: UP007
    if origin is Sequence:
        element = _wire_type(within[0])
        return None if element is None else list[element]  # type: ignore[valid-type]
    if hint is bytes:
        return WireBytes
    if hint is ScopeCore:
        return WireState
    if origin is Literal or hint in (str, int, float, bool, NoneType, Any, Edit):
        return hint
    return None
