"""`Idempotency-Key`: who asks for a change twice under one key has it done once.

Kept is what says what was done, and what says that it cannot be done. Not kept, so that the same
request may be made again under the same key, is what says that nothing was done yet: a person is
being asked, the caller may not, something else was in the way.

Where a root keeps the key with the change, nobody has to be told that it is not known: an answer
that was lost, with its server or on the way from the database, is made again from what was changed;
and where nothing was changed, it is done now. The state keeps what is changed of it with the key:
there all is done again, and what was done is only told. What makes a secret, which is kept nowhere,
is done again in place of the first.

A sender that says which of its tries this is (`Idempotency-Try`) will say so when it asks again.
Nothing is written down for its first one: the key goes with the change where the root keeps it, and
else the answer stays in the memory of this process for a while.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from bailiwick.errors import (
    Busy,
    Closed,
    InternalError,
    IoError,
    ParseError,
    PolicyError,
    QuotaExceeded,
)
from bailiwick.fronts.http.messages import replies
from bailiwick.fronts.http.messages.requests import Headers, Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import answering, body_of, from_body, from_query, place_of
from bailiwick.limits import Limits
from bailiwick.scope import Scope
from bailiwick.scope.front_access import refuse_if_not_allowed
from bailiwick.scope.lost_answers import (
    interrupted,
    is_asked_again,
    keeps_key,
    knows_keys,
    lost_answer,
    was_made,
)
from bailiwick.state.idempotency import LeftKey, StoredAnswer, TakenKey
from bailiwick.state.made_once import FORETOLD
from bailiwick.wire.verbs import VERBS

HEADER = b"idempotency-key"
TRY = b"idempotency-try"

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


async def once(request: Request, done: Callable[[], Awaitable[Reply]]) -> Reply | None:
    """Have a request answered by ``done``, or as it was answered before. None where it is to be
    done as any other: what it changes is marked with its key."""
    key = request.header(HEADER)
    if key is None or not request.route.changes:
        return None
    if not _KEY(key):
        raise ParseError(
            f"an Idempotency-Key is 1 to {KEY_CHARACTERS_MAX} printable characters without spaces"
        )
    if TRY in request.headers and request.route.repeatable:
        request.key = _mark(request, key)
        return None
    if TRY in request.headers:
        return await _tried(request, key, done)
    if not takes_key(request.route):
        raise ParseError("this route takes no Idempotency-Key", hint=_hint(request.route))
    return await _kept(request, key, done)


async def _kept(request: Request, key: str, done: Callable[[], Awaitable[Reply]]) -> Reply:
    """Under a key that is taken before anything is done, and kept with its answer for a day."""
    scope = await _scope(request)
    limits = Limits() if scope is None else scope.limits
    book = request.authority.idempotency
    counts_for = _counts_for(request, scope)
    known = await book.take(_caller(request), counts_for, key, _digest(request), limits)
    if isinstance(known, StoredAnswer):
        if scope is not None:
            _refuse_if_not_allowed(request, scope)
        return _again(request, known)
    recalling = scope if _recalls(request, scope) else None
    is_known_again = recalling is not None or request.route.governing or request.route.repeatable
    taken = await _taken_over(request, known, scope, is_known_again=is_known_again)
    try:
        reply = None
        if is_known_again:
            request.key = taken.mark
            request.was_left = isinstance(known, LeftKey)
            request.foretell = partial(book.foretell, taken)
        if isinstance(known, LeftKey):
            request.made = known.made
        if recalling is not None and isinstance(known, LeftKey):
            reply = await _recalled(request, recalling)
        with book.under(taken):
            reply = reply or await done()
        await _keep(request, taken, reply, recalled=is_known_again)
    finally:
        book.ended(taken)
    return reply


async def _tried(request: Request, key: str, done: Callable[[], Awaitable[Reply]]) -> Reply | None:
    """Under a key whose sender says which of its tries this is. Only those count that may have
    reached a server."""
    is_first = _try_of(request) == 1
    mark = _mark(request, key)
    scope = await _scope(request)
    recalls = _recalls(request, scope)
    if request.route.governing or (recalls and _is_batch(request)):
        with suppress(QuotaExceeded):
            return await _kept(request, key, done)
    if scope is not None and recalls:
        request.key = mark
        return None if is_first else await _asked_again(request, scope, done)
    if not (takes_key(request.route) or request.route.raw_body):
        if is_first:
            return None
        raise interrupted()
    recent, counts_for = request.app.recent_answers, request.caller.budget.subject
    if not is_first or recent.knows(counts_for, mark):
        answer = await recent.known(counts_for, mark)
        if answer is None:
            raise interrupted()
        if scope is not None:
            _refuse_if_not_allowed(request, scope)
        return _unread(request, _again(request, answer))
    with recent.remembering(counts_for, mark) as told:
        reply = await done()
        if not _says_that_nothing_was_done(reply):
            told.set_result(_stored(reply))
        return reply


def _mark(request: Request, key: str) -> bytes:
    whose = hashlib.sha256(_caller(request).encode()).digest()
    return hashlib.sha256(whose + key.encode() + _digest(request)).digest()


async def _asked_again(
    request: Request, scope: Scope, done: Callable[[], Awaitable[Reply]]
) -> Reply:
    """What was made under the key, or else what is made now. An earlier try may still be under way:
    who of both is second finds what the first has made in its way, and then the answer as well."""
    _refuse_if_not_allowed(request, scope)
    reply = await _recalled(request, scope)
    if reply is not None:
        return _unread(request, reply)
    reply = await done()
    if reply.failure is not None:
        reply = await _recalled(request, scope) or reply
    return reply


def _recalls(request: Request, scope: Scope | None) -> bool:
    """Whether the root knows again what a request has changed, and how it is answered."""
    if scope is None:
        return False
    if _is_batch(request):
        return knows_keys(scope)
    verb = VERBS.get(request.route.verb)
    if verb is None or (verb.id != request.route.name and request.route.given is None):
        return False
    return keeps_key(scope, verb.name)


def _is_batch(request: Request) -> bool:
    """Whether it is several operations. Of those that are one change it is known what they will be
    answered with before it comes to pass, and only then; of others each has a key of its own."""
    return request.route.verb == "transaction"


def _try_of(request: Request) -> int:
    number = request.headers[TRY]
    if not number.isdigit() or len(number) > 3 or not int(number):
        raise ParseError("Idempotency-Try is a number from 1 to 999")
    return int(number)


def _caller(request: Request) -> str:
    return f"{request.caller.subject}\0{request.caller.grant_id or ''}"


def _unread(request: Request, reply: Reply) -> Reply:
    """An answer to a request whose body nobody has read, and nobody will."""
    if request.route.raw_body:
        reply.headers.append((b"connection", b"close"))
    return reply


async def _taken_over(
    request: Request, known: TakenKey | LeftKey, scope: Scope | None, *, is_known_again: bool
) -> TakenKey:
    """The key, also where somebody has left it behind and it is known what became of it."""
    if isinstance(known, TakenKey):
        return known
    if not is_known_again:
        raise interrupted()
    if scope is not None:
        _refuse_if_not_allowed(request, scope)
    return await request.authority.idempotency.take_over(known)


async def _recalled(request: Request, scope: Scope) -> Reply | None:
    """The answer that was lost; None where nothing was done, or where it is had by doing it."""
    assert request.key is not None, "it was asked for under a key"
    if _is_batch(request):
        if not request.body.atomic or not await was_made(scope, request.key):
            return None
        foretold = request.made.get(FORETOLD + request.route.verb)
        if not foretold:
            raise interrupted()
        return _replayed(request, Reply(foretold[0]))
    verb = VERBS[request.route.verb]
    if is_asked_again(verb.name):
        return None
    if request.route.given is not None:
        given = request.route.given(request)
    elif request.route.raw_body:
        given = from_query(verb.name, verb)(request.query)
    else:
        given = from_body(verb.name, body_of(verb))(request.body)
    made = await lost_answer(scope, verb.name, request.key, given)
    if made is None:
        return None
    answer = answering(verb)(made)
    return _replayed(request, answer if isinstance(answer, Reply) else Reply(answer))


def _replayed(request: Request, reply: Reply) -> Reply:
    reply = replies.rendered(reply, request.request_id)
    reply.headers.append(_REPLAYED)
    return reply


async def _keep(request: Request, taken: TakenKey, reply: Reply, *, recalled: bool) -> None:
    """Keep an answer, or give back the key. What failed of itself where changes are known again, or
    may be made again, is neither: whoever asks again is told what became of it by then."""
    book = request.authority.idempotency
    if recalled and isinstance(reply.failure, _FAILED_OF_ITSELF):
        return
    if _says_that_nothing_was_done(reply):
        await book.give_back(taken)
        return
    try:
        await book.keep(taken, _stored(reply))
    except Busy as error:
        raise IoError(
            "this may be done, and its answer could not be kept", details=error.details,
            hint="ask again under the same Idempotency-Key",
        ) from error  # fmt: skip


def _stored(reply: Reply) -> StoredAnswer:
    assert reply.body is not None, "what changes something answers as a whole"
    headers = [each for each in reply.headers if each[0] not in _OF_THE_CONNECTION]
    return StoredAnswer(reply.status, headers, reply.body)


def _says_that_nothing_was_done(reply: Reply) -> bool:
    """Whether an answer says that nothing was done, and that it may be otherwise the next time."""
    error = reply.failure
    if reply.status == 202 or error is None:
        return reply.status == 202
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


def _counts_for(request: Request, scope: Scope | None) -> str:
    """What a key is counted with: those of its subject in the root whose limits bound them, in all
    temporary roots, of which there may be ever more, or in none."""
    subject = request.caller.budget.subject
    if scope is None:
        return subject
    return f"{subject}\0{'temp' if scope.root.kind == 'temp' else scope.root}"


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
