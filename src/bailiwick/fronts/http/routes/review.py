"""Reviews: what agents did that nobody has agreed to yet, and what people say of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bailiwick.errors import BailiwickError, ParseError
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import Body
from bailiwick.reviews import ReviewResult
from bailiwick.scope import Scope
from bailiwick.scope.front_access import as_called, caller_of
from bailiwick.scope.lost_answers import lost_verdict
from bailiwick.state.made_once import FORETOLD
from bailiwick.verbs.review.names import refuse_both
from bailiwick.wire import Document, values
from bailiwick.wire.arguments import Argument, a_flag, a_text, limit


class ReviewBody(Body, frozen=True, kw_only=True):
    """Hunks and runs by their ids, or beginnings of them, and as ``ID@VERSION`` as they were shown
    with that version of the file; a file of a run as ``RUN:PATH``. What is rejected is taken back,
    and its agent is told, with the ``note``. While that is in the middle of a call or a command
    nothing is taken back, unless a person does ``insist``.

    With ``work`` or ``ofFork`` it is what is not in the tree yet: hunks of the working copy or the
    fork, all of it by its name, or a file as ``NAME:PATH``. What is accepted is applied or merged,
    what is rejected is given up there. One file of it that was changed in the tree, too, is
    settled by the ``text`` that it becomes, or with ``over`` by what it is apart.

    A hunk that both mean, such as one of a run that is accepted, is refused before anything is
    done. What is accepted comes first. Where a rejection is refused then, the error tells in its
    ``details`` what was ``accepted`` and ``applied``."""

    accept: list[str] = []
    reject: list[str] = []
    work: str | None = None
    of_fork: str | None = None
    text: str | None = None
    over: bool = False
    note: str | None = None
    preview: bool = False
    insist: bool = False
    approval: str | None = None


async def show_queue(request: Request) -> Document:
    query, scope = request.query, await request.scoped()
    found = await scope.review.queue(
        run=query.get("run"), paths=[query["path"]] if "path" in query else [],
        cursor=query.get("cursor"), limit=query.get("limit"), work=query.get("work"),
        fork=query.get("of_fork"), brief=query.get("brief", False),
    )  # fmt: skip
    return values.REVIEW_QUEUE.write(found)


def _refuse_idle(body: ReviewBody) -> None:
    """Nothing is said that nobody would look at."""
    if not body.accept and not body.reject:
        raise ParseError("say what is accepted or rejected")
    if body.accept and body.preview:
        raise ParseError("only what is rejected has a preview")
    if not body.accept and (body.over or body.text is not None):
        raise ParseError("text and over are for what is accepted")
    if not body.reject and (body.insist or body.note is not None):
        raise ParseError("note and insist are for what is rejected")


async def say(request: Request) -> Document:
    body: ReviewBody = request.body
    _refuse_idle(body)
    scope = await request.scoped()
    if body.accept and body.reject and not request.was_left:
        await _refuse_both(scope, body)
    done: ReviewResult | None = None
    if body.accept:
        under = _under_key(scope, request.key, "accept")
        done = await _lost(request, under, "accept") or await under.review.accept(
            body.accept, work=body.work, fork=body.of_fork, text=body.text, over=body.over
        )
    if body.reject and (done is None or not done.conflicts):
        under = _under_key(scope, request.key, "reject")
        with _telling(done):
            taken = await _lost(request, under, "reject") or await under.review.reject(
                body.reject, note=body.note, preview=body.preview, insist=body.insist,
                work=body.work, fork=body.of_fork,
            )  # fmt: skip
        accepted, applied = ([], []) if done is None else (done.accepted, done.applied)
        done = msgspec.structs.replace(taken, accepted=accepted, applied=applied)
    assert done is not None
    return values.REVIEW_RESULT.write(done)


async def _refuse_both(scope: Scope, body: ReviewBody) -> None:
    """A run is accepted with all that is left of it: so a hunk of it cannot be rejected then."""
    cursor: str | None = None
    while True:
        page = await scope.review.queue(work=body.work, fork=body.of_fork, cursor=cursor)
        refuse_both(body.accept, body.reject, page.files, body.work or body.of_fork)
        cursor = page.next_cursor
        if cursor is None:
            return


@contextmanager
def _telling(done: ReviewResult | None) -> Iterator[None]:
    """Where the second verdict is refused, what came of the first is told with the refusal."""
    try:
        yield
    except BailiwickError as error:
        if done is not None:
            applied = [str(each) for each in done.applied]
            error.details = {**error.details, "accepted": done.accepted, "applied": applied}
        raise


def _under_key(scope: Scope, key: bytes | None, verdict: str) -> Scope:
    """Either verdict is a change of its own."""
    if key is None:
        return scope
    return as_called(scope, key=hashlib.sha256(key + verdict.encode()).digest())


async def _lost(request: Request, scope: Scope, verdict: str) -> ReviewResult | None:
    """What came of a verdict that a server has ended over."""
    if not request.was_left:
        return None
    key, made = caller_of(scope).key, request.made
    assert key is not None, "left behind is a key"
    return await lost_verdict(
        scope, key, made.get(verdict), made.get(FORETOLD + verdict), work=request.body.work
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/review", name="review", family="runs", handler=show_queue,
        about="What agents did that no person has agreed to, by path, in hunks.",
        result=values.REVIEW_QUEUE.struct, needs=access("read"), who="person",
        parameters=(
            a_text("run", "Only what a run had to do with."),
            Argument(name="path", about="Only what lies there."),
            a_text("cursor", "Where an earlier answer left off."),
            limit(1_000),
            a_flag("brief", "How many hunks each path has, and not the hunks themselves."),
            a_text("work", "Instead, what a working copy would do to the tree."),
            a_text("of_fork", "Instead, what a fork would do to it if it were merged."),
        ),
        example="GET /review",
    ),
    Route(
        method="POST", path="/review", name="sayReview", family="runs", handler=say,
        about="Accept hunks, or reject them: those are taken back by what stands there now. Of a"
        " working copy or a fork they are applied, or given up there.",
        body=ReviewBody, result=values.REVIEW_RESULT.struct, needs=access("write"), who="person",
        changes=True, asks=True, governing=True,
        example='POST /review {"reject": ["4b03c4a79c7e51d08f26ab93e07c1d54"], "note": "keep it"}',
    ),
)  # fmt: skip
