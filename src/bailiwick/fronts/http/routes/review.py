"""Reviews: what agents did that nobody has agreed to yet, and what people say of it."""

from __future__ import annotations

import msgspec

from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import Body
from bailiwick.reviews import ReviewResult
from bailiwick.wire import Document, values
from bailiwick.wire.arguments import Argument, a_text, limit


class ReviewBody(Body, frozen=True, kw_only=True):
    """Hunks and runs by their ids, or beginnings of them; a file of a run as ``RUN:PATH``. What is
    rejected is taken back, and its agent is told, with the ``note``. While that is in the middle of
    a call or a command nothing is taken back, unless a person does ``insist``."""

    accept: list[str] = []
    reject: list[str] = []
    note: str | None = None
    preview: bool = False
    insist: bool = False
    approval: str | None = None


async def show_queue(request: Request) -> Document:
    query, scope = request.query, await request.scoped()
    found = await scope.review.queue(
        run=query.get("run"), paths=[query["path"]] if "path" in query else [],
        cursor=query.get("cursor"), limit=query.get("limit"),
    )  # fmt: skip
    return values.REVIEW_QUEUE.write(found)


async def say(request: Request) -> Document:
    body: ReviewBody = request.body
    scope = await request.scoped()
    done: ReviewResult | None = None
    if body.accept and not body.preview:
        done = await scope.review.accept(body.accept)
    if body.reject or done is None:
        taken = await scope.review.reject(
            body.reject, note=body.note, preview=body.preview, insist=body.insist
        )
        accepted = [] if done is None else done.accepted
        done = msgspec.structs.replace(taken, accepted=accepted)
    return values.REVIEW_RESULT.write(done)


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
        ),
        example="GET /review",
    ),
    Route(
        method="POST", path="/review", name="sayReview", family="runs", handler=say,
        about="Accept hunks, or reject them: those are taken back by what stands there now.",
        body=ReviewBody, result=values.REVIEW_RESULT.struct, needs=access("write"), who="person",
        changes=True, asks=True,
        example='POST /review {"reject": ["4b03c4a79c7e51d08f26ab93e07c1d54"], "note": "keep it"}',
    ),
)  # fmt: skip
