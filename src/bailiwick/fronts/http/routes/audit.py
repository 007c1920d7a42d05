"""The ledger: who did what. A person sees all of it, an agent its own records, and who has the
token of one grant what was done under it."""

from __future__ import annotations

import msgspec

from bailiwick.audit import LedgerRecord
from bailiwick.errors import PathNotFound
from bailiwick.fronts.http.lineage import descends
from bailiwick.fronts.http.requests import Request, hash_of
from bailiwick.fronts.http.table import CHARACTERS_MAX, CURSOR, Parameter, Route, limit
from bailiwick.fronts.http.wire import Result
from bailiwick.state.reading import LedgerFilter


class WireRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One record."""

    seq: int
    time_ms: int
    request_id: str
    subject: str
    grant_id: str | None
    root: str | None
    operation: str
    verb: str
    path: str | None
    destination: str | None
    outcome: str
    error_kind: str | None
    policy_source: str | None
    hooks: tuple[str, ...]
    reason: str
    bytes: int | None
    hash_before: str | None
    hash_after: str | None
    duration_ns: int
    front: str
    approval_id: str | None
    details: dict[str, str]


class AuditPage(Result, frozen=True, kw_only=True, tag="audit"):
    """Some records, newest first."""

    records: list[WireRecord]
    scanned: int
    truncated: bool
    next_cursor: str | None


class Verified(Result, frozen=True, kw_only=True, tag="audit_verify"):
    """Whether the ledger is as it was written."""

    ok: bool
    records: int
    moved_out: int
    first_bad_seq: int | None
    first_bad_why: str | None
    head: str
    tail_proved: bool
    words: str


async def query(request: Request) -> AuditPage:
    given = dict(request.query)
    cursor, most = given.pop("cursor", None), given.pop("limit", 100)
    for name in ("since", "until"):
        if name in given:
            given[f"{name}_ns"] = min(given.pop(name) * 1_000_000, 2**63 - 1)
    caller = request.caller
    if caller.grant_id is not None:
        wanted = given.setdefault("grant_id", caller.grant_id)
        if not descends(request.authority, wanted, caller.grant_id):
            raise PathNotFound("there is no such grant")
    elif not caller.is_person:
        # Of others it is told neither what they did nor where.
        given["subject"] = str(caller.subject)
    page = await request.authority.ledger.query(LedgerFilter(**given), cursor=cursor, limit=most)
    return AuditPage(
        records=[record_of(each, caller.is_person) for each in page.records], scanned=page.scanned,
        truncated=page.truncated, next_cursor=page.next_cursor,
    )  # fmt: skip


def record_of(record: LedgerRecord, for_person: bool) -> WireRecord:
    """A record. Hashes are for people: that of what was replaced, or of what was never written,
    is enough to find out what it is, and was told with the result to whom it may be."""
    before, after = (record.sha256_before, record.sha256_after) if for_person else (None, None)
    return WireRecord(
        seq=record.seq, time_ms=record.time_ns // 1_000_000, request_id=record.request_id,
        subject=record.subject, grant_id=record.grant_id, root=record.root,
        operation=record.operation, verb=record.verb, path=record.path,
        destination=record.destination, outcome=record.outcome, error_kind=record.error_kind,
        policy_source=record.policy_source, hooks=record.hooks, reason=record.reason,
        bytes=record.bytes, hash_before=hash_of(before),
        hash_after=hash_of(after), duration_ns=record.duration_ns,
        front=record.front, approval_id=record.approval_id, details=record.details,
    )  # fmt: skip


async def verify(request: Request) -> Verified:
    found = await request.authority.ledger.verify(request.query.get("head"))
    bad = found.first_bad
    return Verified(
        ok=found.ok, records=found.records, moved_out=found.moved_out,
        first_bad_seq=None if bad is None else bad.seq,
        first_bad_why=None if bad is None else bad.why, head=found.head,
        tail_proved=found.tail_proved, words=found.words,
    )  # fmt: skip


def _text(name: str, about: str, characters_max: int = 512) -> Parameter:
    """A filter. What it is compared with is short, unless it is a path."""
    return Parameter(name=name, about=about, characters_max=characters_max)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/audit", name="audit", family="audit", handler=query,
        about="Records of the ledger, newest first.", result=AuditPage, rooted=False,
        who="caller",
        parameters=(
            _text("subject", "Who: user:local, agent_run:*."),
            _text("root", "Where: workspace:demo, workspace:*."),
            _text("operation", "What: write."),
            _text("verb", "The very verb: write_text."),
            Parameter(
                name="outcome", about="How it ended.", choices=("success", "denied", "failed")
            ),
            _text("errorKind", "The kind of error."),
            _text("path", "A place and everything beneath it.", CHARACTERS_MAX),
            _text("glob", "A pattern for paths.", CHARACTERS_MAX),
            _text("requestId", "A request."),
            _text("grantId", "A grant."),
            Parameter(
                name="since", about="From this time on, in milliseconds.", type="integer",
                most=2**53,
            ),
            Parameter(
                name="until", about="Before this time, in milliseconds.", type="integer",
                most=2**53,
            ),
            limit(1_000), CURSOR,
        ),
        example="GET /audit?outcome=denied&limit=20",
    ),
    Route(
        method="GET", path="/audit/verify", name="verifyAudit", family="audit", handler=verify,
        about="Prove that no record was changed, removed or moved.", result=Verified,
        rooted=False, who="person",
        parameters=(_text("head", "A head that was kept elsewhere: proves the end as well."),),
        example="GET /audit/verify",
    ),
)  # fmt: skip
