"""From what rules want a person to be asked, to a verdict.

All that one call must ask is one question, which lists its paths: a person is not asked twice about
one thing, and a bulk operation is answered as a whole.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Literal

from bailiwick.approvals import Approvals, Preview, Question, Verdict
from bailiwick.call import Asked, Call
from bailiwick.errors import ApprovalDenied, ApprovalTimeout, Closed
from bailiwick.operations import ARCHIVE_CREATE, MOVE, Access


async def ask(
    call: Call, asked: list[Asked], preview: Preview, approvals: Approvals, closing: asyncio.Event
) -> Verdict:
    """Put the question and wait; ends with `Closed` when the scope is closed meanwhile."""
    caller = call.caller
    if caller.rehearsal is not None:
        caller.rehearsal(question_of(call, asked, preview) if asked else None)
        raise ApprovalDenied("this was a rehearsal: nothing was done", decided_by="rehearsal")
    question = question_of(call, asked, preview)
    if caller.approval is not None:
        return await approvals.redeem(caller.approval, question)
    if caller.asker is None and not approvals.interactive(caller.front):
        allowed = question.default == "allow"
        return Verdict(allowed=allowed, approval_id=None, by="nobody")
    waiting = asyncio.ensure_future(
        approvals.ask(question, asker=caller.asker, wait_s=caller.wait_s)
    )
    events = [closing] if call.life is None else [closing, call.life.closing]
    closed = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait((waiting, *closed), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise Closed("this scope was closed while a person was asked")
        return waiting.result()
    finally:
        for task in (waiting, *closed):
            task.cancel()
        await asyncio.wait((waiting, *closed))


def question_of(call: Call, asked: list[Asked], preview: Preview) -> Question:
    """The one question for everything that a call must ask."""
    grant = call.grant
    paths = list(dict.fromkeys(each.path for each in asked))
    digest = hashlib.sha256("\0".join(paths).encode()).hexdigest()
    default: Literal["allow", "deny"] = (
        "allow" if all(each.ask.default == "allow" for each in asked) else "deny"
    )
    return Question(
        subject=grant.subject, root=str(grant.root), operation=call.operation.name, verb=call.verb,
        access=tuple(sorted(_access_of(call))),
        paths=tuple(paths[: call.limits.ask_paths_max]), paths_total=len(paths),
        paths_sha256=digest,
        destination=call.goes_to,
        prompt="; ".join(dict.fromkeys(each.ask.prompt for each in asked)),
        sources=tuple(dict.fromkeys(each.ask.source for each in asked)), default=default,
        reason=grant.reason, grant_id=grant.id, request_id=call.request_id,
        front=call.caller.front, preview=preview,
        target="" if call.target.handle is None else call.target.handle.path,
        arguments=", ".join(_arguments_of(call)), branch=grant.root.line,
        command=None if call.command is None else call.command.text,
    )  # fmt: skip


_ARGUMENTS = (
    "recursive", "replace", "overwrite", "mode", "file_mode", "parents", "missing_ok",
    "include_ignored", "format", "dry_run", "of", "from",
)  # fmt: skip
"""The arguments that change what is done. Those that are content are shown as a diff."""

_NAMES = ("name", "version", "through", "request_id", "subject")
"""Those that say which version, branch or snapshot is meant, and what is to be undone."""


def _arguments_of(call: Call) -> Iterator[str]:
    """What was given, as a person reads it. Nothing here is taken for checked: reads ask first."""
    given = call.given or {}
    if call.command is not None:
        yield call.command.text
    for name in _ARGUMENTS:
        value = given.get(name)
        if value is True:
            yield name
        elif name == "file_mode" and type(value) is int:
            yield f"{name} {value:04o}"
        elif isinstance(value, str):
            yield f"{name} {value}"
    named = {name: given.get(name) for name in _NAMES}
    named["as_of"] = None if call.past is None else call.past.version
    named["other_as_of"] = None if call.past_there is None else call.past_there.version
    for name, value in named.items():
        if isinstance(value, str):
            yield f"{name} {_plainly(value)}"
    handle = call.target.handle
    whole = call.operation in (MOVE, ARCHIVE_CREATE) or given.get("recursive") is True
    if whole and handle is not None and handle.type == "directory":
        yield "everything in it"
    if call.grant.root.line:
        yield f"in the fork {call.grant.root.line}"


def _plainly(value: str) -> str:
    """A value that cannot be taken for several arguments."""
    is_plain = value.isprintable() and not set(value) & set("',\"\\")
    return value if is_plain else repr(value)


def _access_of(call: Call) -> frozenset[Access]:
    """What the call uses at any of its places: an answer for longer must cover all of it."""
    operation, destination = call.operation, call.destination
    access = operation.ruled | operation.destination_access
    if operation is ARCHIVE_CREATE:
        return access | {"write"}
    there = None if destination is None else destination.handle
    if operation is MOVE and there is not None and there.type is not None:
        return access | {"delete"}
    return access


def refuse(call: Call, asked: list[Asked], verdict: Verdict) -> None:
    """Raise what a verdict that does not allow means."""
    path, source = asked[0].path, asked[0].ask.source
    details = {} if verdict.approval_id is None else {"approval_id": verdict.approval_id}
    if verdict.by == "nobody":
        why = "this needs a person's approval and nobody can be asked"
        raise ApprovalDenied(why, path=path, decided_by=source, details=details)
    if verdict.by == "default":
        why = "nobody answered in time, and the rule refuses then"
        raise ApprovalTimeout(why, path=path, decided_by=source, details=details)
    raise ApprovalDenied(
        "a person was asked and refused", path=path, decided_by=f"{source} ({verdict.by})",
        details=details,
    )  # fmt: skip
