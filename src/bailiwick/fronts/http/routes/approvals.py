"""What waits for a person: seen by people, and by whoever asked; answered by people alone."""

from __future__ import annotations

from msgspec.structs import replace

from bailiwick.approvals import (
    Answer,
    Approval,
    Preview,
    Question,
    RememberedRule,
    always_for,
)
from bailiwick.call import NOTHING_TO_SHOW
from bailiwick.errors import PathNotFound
from bailiwick.fronts.http.access.lineage import descends
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import Body
from bailiwick.notices import ApprovalNotice
from bailiwick.state.approvals.desk import STATES
from bailiwick.wire import Document, Form, Result
from bailiwick.wire.arguments import CURSOR, Argument, limit
from bailiwick.wire.forms import Key, within

APPROVAL = Form(
    Approval, "WireApproval", "A question, and what became of it.", kind="approval",
    keys=(
        "id", "state", Key("subject", "question.subject", str, str),
        *within(
            "question", Question, "root", "operation", "verb", "target", "destination",
            "arguments", "paths", "paths_total", "prompt",
        ),
        Key("decided_by", "question.sources", tuple[str, ...]),
        *within("question", Question, "default", "reason", "grant_id", "request_id", "front"),
        Key("always_for", "question.subject", str, always_for),
        *within(
            "question.preview", Preview, "diff", "diff_truncated", "sha256", "sha256_before",
            "size",
        ),
        "asked_ns", "expires_ns", "answer", "answered_by", "answered_ns",
    ),
)  # fmt: skip
APPROVAL_NOTICE = Form(
    ApprovalNotice, "ApprovalEvent", "A question was put, answered, or its time is up.",
    keys=(
        "kind", *within("approval", Approval, "id", "state"),
        Key("subject", "approval.question.subject", str, str),
        *within(
            "approval.question", Question, "root", "operation", "verb", "target", "destination",
            "arguments", "paths", "paths_total", "prompt", "reason", "front",
        ),
        *within(
            "approval", Approval, "asked_ns", "expires_ns", "answer", "answered_by", "answered_ns",
        ),
    ),
)  # fmt: skip
"""Without what would change, for whomever: `GET /approvals/{id}` shows it to those who may."""


class ApprovalList(Result, frozen=True, kw_only=True, tag="approvals"):
    """Questions: those that wait oldest first, others newest first."""

    approvals: list[APPROVAL.struct]  # type: ignore[name-defined]
    next_cursor: str | None


REMEMBERED = Form(
    RememberedRule, "WireRememberedRule", "What was answered for longer than once.",
    kind="remembered_rule",
    keys=(
        "id", "subject", "root", "grant_id", "operation", "access", "paths", "destination",
        "command", "branch", "effect", "reason", "approval_id", "by", "created_ns",
    ),
)  # fmt: skip


class RememberedRuleList(Result, frozen=True, kw_only=True, tag="remembered_rules"):
    """Those of a grant first, then those that hold always; the newest first in each."""

    rules: list[REMEMBERED.struct]  # type: ignore[name-defined]


class RuleForgotten(Result, frozen=True, kw_only=True, tag="rule_forgotten"):
    """An answer that was taken back: from now on it is asked again."""

    id: str


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
    seen = [_document(request, each) for each in found if may_see(request, each)]
    return ApprovalList(approvals=seen, next_cursor=cursor)


async def show(request: Request) -> Document:
    approval = request.authority.approvals.get(request.names["id"])
    if approval is None or not may_see(request, approval):
        raise PathNotFound("there is no such approval")
    return _document(request, approval)


async def answer(request: Request) -> Document:
    body: AnswerBody = request.body
    answered = await request.authority.approvals.answer(
        request.names["id"], body.answer, by=str(request.caller.subject), front="http"
    )
    return _document(request, answered)


async def list_rules(request: Request) -> RememberedRuleList:
    return RememberedRuleList(rules=REMEMBERED.write_all(request.authority.rules.rules()))


async def forget_rule(request: Request) -> RuleForgotten:
    rule_id, by = request.names["id"], str(request.caller.subject)
    if not await request.authority.rules.forget(rule_id, by=by, front="http"):
        raise PathNotFound("no answer for longer is called so", hint="GET /rules lists them")
    return RuleForgotten(id=rule_id)


def may_see(request: Request, approval: Approval) -> bool:
    """A person sees every question, whoever shows the token of a grant those that came of it, and
    an agent its own."""
    caller, question = request.caller, approval.question
    if caller.grant_id is not None:
        return descends(request.authority, question.grant_id, caller.grant_id)
    return caller.is_person or question.subject == caller.subject


def _document(request: Request, approval: Approval) -> Document:
    """What would change is for people alone: it may hold what whoever asks must not read."""
    if not request.caller.is_person:
        question = replace(approval.question, preview=NOTHING_TO_SHOW)
        approval = replace(approval, question=question)
    return APPROVAL.write(approval)


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
        about="One question with its paths and its diff.", result=APPROVAL.struct, rooted=False,
        who="caller", example="GET /approvals/4f1c",
    ),
    Route(
        method="POST", path="/approvals/{id}", name="answerApproval", family="approvals",
        handler=answer, about="Answer a question, for good.", body=AnswerBody,
        result=APPROVAL.struct, rooted=False, who="person", changes=True, governing=True,
        example='POST /approvals/4f1c {"answer": "once"}',
    ),
    Route(
        method="GET", path="/rules", name="rememberedRules", family="approvals",
        handler=list_rules,
        about="What people answered for longer than once: for a grant, and always.",
        result=RememberedRuleList, rooted=False, who="person", example="GET /rules",
    ),
    Route(
        method="DELETE", path="/rules/{id}", name="forgetRule", family="approvals",
        handler=forget_rule, about="Take such an answer back: from now on it is asked again.",
        result=RuleForgotten, changes=True, governing=True, rooted=False, who="person",
        example="DELETE /rules/remembered-4f1c",
    ),
)  # fmt: skip
