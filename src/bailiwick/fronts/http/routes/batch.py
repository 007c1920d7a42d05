"""Several changes in one request: all or nothing, where the store has transactions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Union

import msgspec

from bailiwick.errors import (
    ApprovalTimeout,
    BailiwickError,
    InternalError,
    ParseError,
    Unsupported,
)
from bailiwick.fronts.http.messages import errors
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.routes import files, tree
from bailiwick.fronts.http.settings import BATCH_OPERATIONS_MAX
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import Body, answering, body_of, from_body, new_body
from bailiwick.scope import Scope
from bailiwick.scope.front_access import as_called
from bailiwick.scope.lost_answers import lost_answer
from bailiwick.wire import Result
from bailiwick.wire.arguments import CHANGE, a_document, a_flag
from bailiwick.wire.verbs import VERBS, Verb


def _operation(verb: Verb[Any]) -> type[Body]:
    return new_body(
        f"{verb.short.title()}Op", (), body_of(verb), tag_field="op", tag=verb.short,
        namespace={"__doc__": f"As {verb.method} {verb.path}."},
    )  # fmt: skip


_HANDLERS: dict[str, Any] = {route.verb: route.handler for route in (*files.ROUTES, *tree.ROUTES)}
_BATCHED: dict[type, Verb[Any]] = {
    _operation(each): each for each in VERBS.values() if each.batched
}
"""The verb of each operation."""

_OPERATIONS: Any = Annotated[
    list[Union[tuple(_BATCHED)]],  # type: ignore[misc]  # noqa: UP007
    msgspec.Meta(min_length=1, max_length=BATCH_OPERATIONS_MAX),
]
BatchBody: Any = new_body(
    "BatchBody",
    (
        *CHANGE, a_document("operations", _OPERATIONS, required=True),
        a_flag("atomic").but(default=True),
    ),
)  # fmt: skip


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one operation: its result as its own route gives it, or its error."""

    ok: bool
    result: dict[str, Any] | None
    error: dict[str, Any] | None


class BatchResult(Result, frozen=True, kw_only=True, tag="batch"):
    """What became of each operation, in order."""

    atomic: bool
    results: list[Outcome]


class _Within:
    """A request that is part of another: one operation, in the scope of the whole."""

    def __init__(self, request: Request, body: Any, scope: Scope) -> None:
        self.body = body
        self.query: dict[str, Any] = {}
        self.holding = request.holding
        self._scope = scope

    async def scoped(self, path: str | None = None) -> Scope:
        approval = self.body.approval
        return self._scope if approval is None else self._scope.with_approval(approval)


async def batch(request: Request) -> BatchResult:
    body: BatchBody = request.body
    pace = request.caller.budget.changes
    if pace is not None and len(body.operations) > 1:
        pace.take(len(body.operations) - 1)  # the request itself was counted as one
    scope = await request.scoped()
    _refuse_misplaced_locks(body)
    if not body.atomic:
        return BatchResult(atomic=False, results=await _one_by_one(request, scope, body))
    if "forks" not in scope.powers:
        raise Unsupported(
            "this root has no transactions", hint='send "atomic": false to do one after the other'
        )
    results: list[Outcome] = []
    async with scope.transaction(lock_token=body.lock_token) as inside:
        for number, operation in enumerate(body.operations):
            try:
                results.append(await _done(request, operation, inside))
            except BailiwickError as error:
                error.details = {**error.details, "operation": number}
                _refuse_second_question(body, number, error)
                raise
        result = BatchResult(atomic=True, results=results)
        if request.foretell is not None:
            await request.foretell(request.route.verb, result)
    return result


def _refuse_misplaced_locks(body: BatchBody) -> None:
    """What lands together is held against one lock, what is done one by one against its own."""
    if not body.atomic and body.lock_token is not None:
        raise ParseError(
            "a batch that is not atomic takes no lockToken", hint="give it to the operations"
        )
    if body.atomic and any(each.lock_token is not None for each in body.operations):
        raise ParseError(
            "an operation of an atomic batch takes no lockToken of its own",
            hint="give it to the batch",
        )


def _refuse_second_question(body: BatchBody, number: int, error: BailiwickError) -> None:
    """Say that a batch cannot pass in which a person must be asked about this operation too.

    A yes that was given once is used up by the operation it was for, also where the batch then
    comes to nothing; so that each answer would be spent on waiting for the next.
    """
    used = body.approval or any(each.approval for each in body.operations[:number])
    if used and isinstance(error, ApprovalTimeout) and error.details.get("pending"):
        raise Unsupported(
            "a person must be asked about more than one operation of this batch",
            hint='send "atomic": false, or the operations one by one; or have what is asked'
            " answered for the whole grant instead of once",
            details=error.details,
        ) from error


async def _one_by_one(request: Request, scope: Scope, body: BatchBody) -> list[Outcome]:
    """Each is made under a key of its own, where the whole has one that the root keeps."""
    keys = [_key_of(request.key, number) for number, _ in enumerate(body.operations)]
    results = await _made_before(scope, body.operations, keys) if request.was_left else []
    for operation, key in list(zip(body.operations, keys, strict=True))[len(results) :]:
        under = scope if key is None else as_called(scope, key=key)
        try:
            results.append(await _done(request, operation, under))
        except BailiwickError as error:
            results.append(_failed(error))
    return results


def _key_of(key: bytes | None, number: int) -> bytes | None:
    return None if key is None else hashlib.sha256(key + number.to_bytes(4, "big")).digest()


async def _made_before(
    scope: Scope, operations: list[Any], keys: list[bytes | None]
) -> list[Outcome]:
    """What became of those that a server has come to before it ended: up to the last that changed
    something. One before it that did not is not done now, after what was to follow it."""
    found: list[Outcome] = []
    for operation, key in zip(reversed(operations), reversed(keys), strict=True):
        assert key is not None, "asked again only where keys are kept"
        verb = _BATCHED[type(operation)]
        try:
            made = await lost_answer(scope, verb.name, key, _given(verb)(operation))
        except BailiwickError as error:
            if error.retryable:
                raise
            found.append(_failed(error))
            continue
        if made is not None:
            found.append(_succeeded(answering(verb)(made)))
        elif found:
            found.append(_failed(_nothing_changed()))
    return found[::-1]


@cache
def _given(verb: Verb[Any]) -> Callable[[Any], dict[str, Any]]:
    return from_body(verb.name, body_of(verb))


def _nothing_changed() -> InternalError:
    return InternalError(
        "this changed nothing; what it was answered with was lost",
        hint="look at what the others changed", details={"done": False},
    )  # fmt: skip


async def _done(request: Request, operation: Any, scope: Scope) -> Outcome:
    handler = _HANDLERS[_BATCHED[type(operation)].name]
    return _succeeded(await handler(_Within(request, operation, scope)))


def _succeeded(answer: Any) -> Outcome:
    result = answer.result if isinstance(answer, Reply) else answer
    return Outcome(ok=True, result=msgspec.to_builtins(result, enc_hook=str), error=None)


def _failed(error: BailiwickError) -> Outcome:
    failure = msgspec.to_builtins(errors.document(error), enc_hook=str)
    return Outcome(ok=False, result=None, error=failure)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST", path="/batch", name="batch", family="versions", handler=batch,
        about="Several changes in one request: all or nothing, where there are transactions.",
        body=BatchBody, result=BatchResult, needs=access("write"), verb="transaction",
        changes=True, asks=True, raises=(422,),
        example='POST /batch {"operations": [{"op": "write", "path": "a", "content": "1"}]}',
    ),
)  # fmt: skip
