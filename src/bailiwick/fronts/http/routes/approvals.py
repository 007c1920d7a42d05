"""What waits for a person: seen by people, and by whoever asked; answered by people alone."""

from __future__ import annotations

from bailiwick.approvals import Answer, Approval, always_for
from bailiwick.call import NOTHING_TO_SHOW
from bailiwick.errors import PathNotFound
from bailiwick.fronts.http.lineage import descends
from bailiwick.fronts.http.requests import Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import Body
from bailiwick.state.approvals import STATES
from bailiwick.wire import Result
from bailiwick.wire.arguments import CURSOR, Argument, limit
from bailiwick.wire.naming import hash_of


class WireApproval(Result, frozen=True, kw_only=True, tag="approval"):
    """A question, and what became of it."""

    id: str
    state: str
    subject: str
    root: str
    operation: str
    verb: str
    target: str
    destination: str | None
    arguments: str
    paths: tuple[str, ...]
    paths_total: int
    prompt: str
    decided_by: tuple[str, ...]
    default: str
    reason: str
    grant_id: str
    request_id: str
    front: str
    always_for: str
    diff: str | None
    """What would change, like the three after it for people alone: it may hold what whoever asks
    must not read."""
    diff_truncated: bool
    hash: str | None
    hash_before: str | None
    size_bytes: int | None
    asked_ms: int
    expires_ms: int
    answer: str | None
    answered_by: str | None
    answered_ms: int | None


class ApprovalList(Result, frozen=True, kw_only=True, tag="approvals"):
    """Questions: those that wait oldest first, others newest first."""

    approvals: list[WireApproval]
    next_cursor: str | None


class AnswerBody(Body, frozen=True, kw_only=True):
    answer: Answer


async def list_approvals(request: Request) -> ApprovalList:
    desk, query = request.authority.approvals, request.query
    state, cursor = query.get("state", "pending"), None
    if state == "pending":
        found = desk.pending()
    else:
        found, cursor = desk.list(
            state=None if state == "all" else state, limit=query.get("limit", 100),
            cursor=query.get("cursor"),
        )  # fmt: skip
    seen = [_document(request, each) for each in found if _may_see(request, each)]
    return ApprovalList(approvals=seen, next_cursor=cursor)


async def show(request: Request) -> WireApproval:
    approval = request.authority.approvals.get(request.names["id"])
    if approval is None or not _may_see(request, approval):
        raise PathNotFound("there is no such approval")
    return _document(request, approval)


async def answer(request: Request) -> WireApproval:
    body: AnswerBody = request.body
    answered = await request.authority.approvals.answer(
        request.names["id"], body.answer, by=str(request.caller.subject), front="http"
    )
    return _document(request, answered)


def _may_see(request: Request, approval: Approval) -> bool:
    caller, question = request.caller, approval.question
    if caller.grant_id is not None:
        return descends(request.authority, question.grant_id, caller.grant_id)
    return caller.is_person or question.subject == caller.subject


def _document(request: Request, approval: Approval) -> WireApproval:
    question, answered = approval.question, approval.answered_ns
    preview = question.preview if request.caller.is_person else NOTHING_TO_SHOW
    return WireApproval(
        id=approval.id, state=approval.state, subject=str(question.subject), root=question.root,
        operation=question.operation, verb=question.verb, target=question.target,
        destination=question.destination, arguments=question.arguments, paths=question.paths,
        paths_total=question.paths_total, prompt=question.prompt, decided_by=question.sources,
        default=question.default, reason=question.reason, grant_id=question.grant_id,
        request_id=question.request_id, front=question.front,
        always_for=always_for(question.subject), diff=preview.diff,
        diff_truncated=preview.diff_truncated, hash=hash_of(preview.sha256),
        hash_before=hash_of(preview.sha256_before), size_bytes=preview.size,
        asked_ms=approval.asked_ns // 1_000_000, expires_ms=approval.expires_ns // 1_000_000,
        answer=approval.answer, answered_by=approval.answered_by,
        answered_ms=None if answered is None else answered // 1_000_000,
    )  # fmt: skip


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/approvals", name="approvals", family="approvals",
        handler=list_approvals, about="Questions that wait for a person, or others by state.",
        result=ApprovalList, rooted=False, who="caller",
        parameters=(
            Argument(
                name="state", about="Which (pending unless told).", choices=(*STATES, "all")
            ),
            limit(1_000), CURSOR,
        ),
        example="GET /approvals",
    ),
    Route(
        method="GET", path="/approvals/{id}", name="approval", family="approvals", handler=show,
        about="One question with its paths and its diff.", result=WireApproval, rooted=False,
        who="caller", example="GET /approvals/4f1c",
    ),
    Route(
        method="POST", path="/approvals/{id}", name="answerApproval", family="approvals",
        handler=answer, about="Answer a question, for good.", body=AnswerBody,
        result=WireApproval, rooted=False, who="person", changes=True,
        example='POST /approvals/4f1c {"answer": "once"}',
    ),
)  # fmt: skip
