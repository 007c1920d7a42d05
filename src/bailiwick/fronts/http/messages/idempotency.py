"""`Idempotency-Key`: who asks for a change twice under one key has it done once.

Kept is what says what was done, and what says that it cannot be done. Not kept, so that the same
request may be made again under the same key, is what says that nothing was done yet: a person is
being asked, the caller may not, something else was in the way.

Where a root keeps the key with the change, nobody has to be told that it is not known: an answer
that was lost, with its server or on the way from the database, is made again from what was changed;
and where nothing was changed, it is done now.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    InternalError,
    IoError,
    ParseError,
    PolicyError,
)
from bailiwick.fronts.http.messages import replies
from bailiwick.fronts.http.messages.requests import Headers, Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import answering, body_of, from_body, place_of
from bailiwick.limits import Limits
from bailiwick.scope import Scope
from bailiwick.scope.front_access import refuse_if_not_allowed
from bailiwick.scope.lost_answers import keeps_key, lost_answer
from bailiwick.state.idempotency import LeftKey, StoredAnswer, TakenKey
from bailiwick.wire.verbs import VERBS

HEADER = b"idempotency-key"

KEY_CHARACTERS_MAX = 255
"""A key is a random word, or a name that its sender can make again."""

_KEY = re.compile(f"[!-~]{{1,{KEY_CHARACTERS_MAX}}}", re.ASCII).fullmatch
_REPLAYED = (b"idempotency-replayed", b"true")
_OF_THE_CONNECTION = frozenset((b"connection",))

_FAILED_OF_ITSELF = (Busy, Closed, InternalError, IoError)

_encoder = msgspec.json.Encoder(enc_hook=str, order="sorted")


def takes_key(route: Route) -> bool:
    """Whether a route can be asked for under a key: it changes something, what is asked is at hand
    as a whole before it is done, and the answer holds nothing that must not be kept."""
    is_whole = not route.raw_body and route.answers == "json"
    return route.changes and is_whole and not route.secret


async def once(request: Request, done: Callable[[], Awaitable[Reply]]) -> Reply:
    """Have a request answered by ``done``, or as it was answered before."""
    key = request.header(HEADER)
    if key is None or not request.route.changes:
        return await done()
    if not takes_key(request.route):
        raise ParseError("this route takes no Idempotency-Key", hint=_hint(request.route))
    if not _KEY(key):
        raise ParseError(
            f"an Idempotency-Key is 1 to {KEY_CHARACTERS_MAX} printable characters without spaces"
        )
    scope = await _scope(request)
    limits = Limits() if scope is None else scope.limits
    caller = f"{request.caller.subject}\0{request.caller.grant_id or ''}"
    book = request.authority.idempotency
    counts_for = request.caller.budget.subject
    known = await book.take(caller, counts_for, key, _digest(request), limits)
    if isinstance(known, StoredAnswer):
        if scope is not None:
            _refuse_if_not_allowed(request, scope)
        return _again(request, known)
    recalling = scope if scope is not None and keeps_key(scope, request.route.verb) else None
    taken = await _taken_over(request, known, recalling)
    try:
        reply = None
        if recalling is not None:
            request.key = taken.mark
            if taken is not known:
                reply = await _recalled(request, recalling, taken)
        reply = reply or await done()
        await _keep(request, taken, reply, recalled=recalling is not None)
    finally:
        book.ended(taken)
    return reply


async def _taken_over(
    request: Request, known: TakenKey | LeftKey, recalling: Scope | None
) -> TakenKey:
    """The key, also where somebody has left it behind and the root knows what became of it."""
    if isinstance(known, TakenKey):
        return known
    if recalling is None:
        raise known.interrupted()
    _refuse_if_not_allowed(request, recalling)
    return await request.authority.idempotency.take_over(known)


async def _recalled(request: Request, scope: Scope, taken: TakenKey) -> Reply | None:
    """The answer that was lost; None where nothing was done."""
    verb = VERBS[request.route.verb]
    given = from_body(verb.name, body_of(verb))(request.body)
    made = await lost_answer(scope, verb.name, taken.mark, given)
    if made is None:
        return None
    answer = answering(verb)(made)
    reply = answer if isinstance(answer, Reply) else Reply(answer)
    reply = replies.rendered(reply, request.request_id)
    reply.headers.append(_REPLAYED)
    return reply


async def _keep(request: Request, taken: TakenKey, reply: Reply, *, recalled: bool) -> None:
    """Keep an answer, or give back the key. What failed of itself where changes are known again is
    neither: whoever asks again is told what became of it by then."""
    book = request.authority.idempotency
    if recalled and isinstance(reply.failure, _FAILED_OF_ITSELF):
        return
    if reply.status == 202 or (reply.failure is not None and _nothing_was_done(reply.failure)):
        await book.give_back(taken)
        return
    assert reply.body is not None, "what changes something answers as a whole"
    headers = [each for each in reply.headers if each[0] not in _OF_THE_CONNECTION]
    await book.keep(taken, StoredAnswer(reply.status, headers, reply.body))


def _nothing_was_done(error: BailiwickError) -> bool:
    """Whether an error says that it may be otherwise the next time, and that nothing was done."""
    if isinstance(error, (IoError, InternalError)):
        return False  # it may have been done, and not recorded
    return error.retryable or isinstance(error, PolicyError)


def _again(request: Request, answer: StoredAnswer) -> Reply:
    """An answer that was given before, under the id of the request that asks for it now."""
    headers: Headers = [_REPLAYED]
    for name, value in answer.headers:
        if name == b"x-request-id" and request.request_id is not None:
            value = request.request_id.encode("ascii")
        headers.append((name, value))
    return Reply(status=answer.status, headers=headers, body=answer.body)


def _digest(request: Request) -> bytes:
    """All that is asked, however it is spelled. Conditions in headers are part of it."""
    conditions = [request.header(name) for name in (b"if-match", b"if-none-match")]
    root = request.root or request.app.settings.root or request.authority.first_root
    asked = [request.route.name, root, request.names, request.query, request.body, conditions]
    return hashlib.sha256(_encoder.encode(asked)).digest()


async def _scope(request: Request) -> Scope | None:
    """The scope in which the route acts, where it acts in one."""
    route, body = request.route, request.body
    if not route.rooted or not route.verb:
        return None
    paths = _paths(route.verb, body)
    return await request.scoped(paths[0] if paths else None)


def _refuse_if_not_allowed(request: Request, scope: Scope) -> None:
    """Refuse whoever may not ask this now, also for an answer that they were given before."""
    route, body = request.route, request.body
    for each in getattr(body, "operations", None) or [body]:
        verb = _verb(route, each)
        refuse_if_not_allowed(scope, verb, route.needs, _paths(verb, each))


def _paths(verb: str, body: Any) -> list[str]:
    """The places that a call acts on, first the one by which its scope is chosen. Where something
    is copied from may be in another root."""
    if verb in ("copy", "create_archive"):
        return [place_of(body)]
    path: str | None = getattr(body, "path", None)
    if path is None:
        return []
    return [path, place_of(body)] if verb in ("move", "extract_archive") else [path]


def _verb(route: Route, body: Any) -> str:
    """The verb of a route, or of one operation of a batch."""
    tag = type(body).__struct_config__.tag if body is not None else None
    return _OPERATIONS.get(str(tag), route.verb)


_OPERATIONS = {
    "write": "write_text", "edit": "edit", "append": "append", "truncate": "truncate",
    "dir": "make_dir", "remove": "remove", "move": "move", "copy": "copy", "symlink": "symlink",
    "mode": "set_mode", "times": "set_times",
}  # fmt: skip
"""The verbs of a batch's operations, by what they are called there."""


def _hint(route: Route) -> str:
    if route.secret:
        return "its answer holds a secret, which is not kept"
    if route.answers == "lines":
        return "its answer is a stream: GET /exec tells which commands were begun"
    if not route.rooted:
        return "its body is a stream"
    return "its body is a stream: send If-Match or If-None-Match, with which it is not done twice"
