"""The ledger: who did what. A person sees all of it, an agent its own records, and who has the
token of one grant what was done under it."""

from __future__ import annotations

import msgspec

from bailiwick.audit import LedgerRecord
from bailiwick.errors import PathNotFound
from bailiwick.fronts.http.access.lineage import descends
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route
from bailiwick.state.ledger.query import LedgerFilter
from bailiwick.state.ledger.verification import Verification
from bailiwick.wire import Document, Form, Result, values
from bailiwick.wire.arguments import CHARACTERS_MAX, CURSOR, Argument, limit
from bailiwick.wire.forms import Key


class AuditPage(Result, frozen=True, kw_only=True, tag="audit"):
    """Some records, newest first."""

    records: list[values.RECORD.struct]  # type: ignore[name-defined]
    scanned: int
    truncated: bool
    next_cursor: str | None


VERIFIED = Form(
    Verification, "Verified", "Whether the ledger is as it was written.", kind="audit_verify",
    keys=(
        "ok", "records", "moved_out",
        Key("first_bad_seq", "first_bad", int | None, lambda bad: bad and bad.seq),
        Key("first_bad_why", "first_bad", str | None, lambda bad: bad and bad.why),
        "head", "tail_proved", "words",
    ),
)  # fmt: skip


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


def record_of(record: LedgerRecord, for_person: bool) -> Document:
    """A record. Hashes are for people: that of what was replaced, or of what was never written,
    is enough to find out what it is, and was told with the result to whom it may be."""
    if not for_person:
        record = msgspec.structs.replace(record, sha256_before=None, sha256_after=None)
    return values.RECORD.write(record)


async def verify(request: Request) -> Document:
    return VERIFIED.write(await request.authority.ledger.verify(request.query.get("head")))


def _text(name: str, about: str, characters_max: int = 512) -> Argument:
    """A filter. What it is compared with is short, unless it is a path."""
    return Argument(name=name, about=about, characters_max=characters_max)


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
            Argument(
                name="outcome", about="How it ended.", choices=("success", "denied", "failed")
            ),
            _text("error_kind", "The kind of error."),
            _text("path", "A place and everything beneath it.", CHARACTERS_MAX),
            _text("glob", "A pattern for paths.", CHARACTERS_MAX),
            _text("request_id", "A request."),
            _text("grant_id", "A grant."),
            Argument(
                name="since", about="From this time on, in milliseconds.", kind="integer",
                most=2**53,
            ),
            Argument(
                name="until", about="Before this time, in milliseconds.", kind="integer",
                most=2**53,
            ),
            limit(1_000), CURSOR,
        ),
        example="GET /audit?outcome=denied&limit=20",
    ),
    Route(
        method="GET", path="/audit/verify", name="verifyAudit", family="audit", handler=verify,
        about="Prove that no record was changed, removed or moved.", result=VERIFIED.struct,
        rooted=False, who="person",
        parameters=(_text("head", "A head that was kept elsewhere: proves the end as well."),),
        example="GET /audit/verify",
    ),
)  # fmt: skip
