"""Roots and grants: what there is, and who may do what with it."""

from __future__ import annotations

import hashlib
import secrets
import time

import msgspec

from bailiwick.errors import MissingAccess, ParseError, PathNotFound, QuotaExceeded
from bailiwick.fronts.http.access.lineage import descends, is_own
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import Body, route
from bailiwick.grant import Root
from bailiwick.state.grants.rows import GrantEntry
from bailiwick.state.grants.tokens import parse_plain_subject
from bailiwick.wire import Form, Result, verbs
from bailiwick.wire.arguments import Accesses, Argument, Globs, Seconds
from bailiwick.wire.forms import Key
from bailiwick.wire.values import Delegated, WireGrant

ROOT = Form(
    Root, "WireRoot", "A root, as callers know it: never where it lies on the host.",
    keys=(
        Key("name", "", str), "kind", "id", "display_name", "trusted", Key("default", "", bool),
        "labels", "names",
    ),
)  # fmt: skip


class RootList(Result, frozen=True, kw_only=True, tag="roots"):
    """The roots that the caller may ask for."""

    roots: list[ROOT.struct]  # type: ignore[name-defined]


class GrantList(Result, frozen=True, kw_only=True, tag="grants"):
    """Grants that hold now, oldest first."""

    grants: list[WireGrant]
    truncated: bool


class Revoked(Result, frozen=True, kw_only=True, tag="revoked"):
    """How many grants have ended: the one that was named, and all that came from it."""

    id: str
    ended: int


class GrantBody(Body, frozen=True, kw_only=True):
    subject: str
    root: str
    access: Accesses
    path: str = "."
    allowed: Globs = []
    denied: Globs = []
    expires_in: Seconds | None = None
    reason: str = ""


class RevokeBody(Body, frozen=True, kw_only=True):
    reason: str = ""


GRANTS_MAX = 1_000
"""Grants that one answer lists."""

DELEGATED_TOKENS_MAX = 100
"""Tokens by which an agent passes on what it holds at a time, and those who got it from it: more
helpers than one leads at once. Of a person's grants each is passed on so often."""


async def list_roots(request: Request) -> RootList:
    authority, caller = request.authority, request.caller
    default = request.app.settings.root or authority.first_root
    if caller.grant_id is None:
        seen = [root for root in authority.roots() if authority.holdings(caller.subject, str(root))]
    else:
        held = _entry(request, caller.grant_id)
        seen = [root for root in authority.roots() if str(root) == str(held.grant.root)]
    told = [ROOT.write(root, name=str(root), default=str(root) == default) for root in seen]
    return RootList(roots=told)


async def list_grants(request: Request) -> GrantList:
    entries, caller = request.authority.grants(), request.caller
    if caller.grant_id is not None:
        entries = [
            each for each in entries if descends(request.authority, each.id, caller.grant_id)
        ]
    elif not caller.is_person:
        own = str(caller.subject)
        entries = [each for each in entries if str(each.grant.subject) == own]
    root = request.query.get("root")
    if root is not None:
        entries = [each for each in entries if str(each.grant.root) == root]
    return GrantList(
        grants=[_grant(each) for each in entries[:GRANTS_MAX]], truncated=len(entries) > GRANTS_MAX
    )


def _grant(entry: GrantEntry) -> WireGrant:
    grant, until = entry.grant, entry.grant.expires_at
    ended = entry.ended_ns
    allowed = [each if isinstance(each, str) else " ".join(each) for each in grant.allowed]
    return WireGrant(
        id=grant.id, holds=entry.holds(time.time_ns()), standing=entry.kind == "standing",
        configured=entry.configured, subject=str(grant.subject), root=str(grant.root),
        access=sorted(grant.access), path=str(grant.path), allowed=allowed,
        denied=list(grant.denied), reason=grant.reason, source=grant.source, parent=entry.parent,
        created_ms=entry.created_ns // 1_000_000,
        expires_ms=None if until is None else int(until * 1_000),
        ended_ms=None if ended is None else ended // 1_000_000,
    )  # fmt: skip


async def add_grant(request: Request) -> Reply:
    body: GrantBody = request.body
    if body.subject.strip() != body.subject:
        raise ParseError("there is space around the subject")
    grant = await request.authority.add_grant(
        **msgspec.structs.asdict(body), by=request.caller.subject, front="http"
    )
    return Reply(_grant(_entry(request, grant.id)), 201)


async def revoke(request: Request) -> Revoked:
    """A person revokes any grant, others what they hold themselves, or have passed on."""
    grant_id = request.names["id"]
    entry = _entry(request, grant_id)
    if not request.caller.is_person and not is_own(request.authority, request.caller, entry):
        raise PathNotFound("there is no such grant")
    ended = await request.authority.revoke(
        grant_id, by=request.caller.subject, front="http", reason=request.body.reason
    )
    return Revoked(id=grant_id, ended=ended)


async def delegate(request: Request) -> Reply:
    body = request.body
    scope = await request.holding.held(request.names["id"])
    if scope is None:
        raise PathNotFound("the caller holds no such grant", hint="GET /capabilities names yours")
    subject = parse_plain_subject(body.subject)
    front = await _make_room(request, scope.grant.id)
    name = f"{front}{request.key.hex()[:12] if request.key else secrets.token_hex(6)}"
    await _end_lost(request, name)
    heir = await scope.delegate(**{**msgspec.structs.asdict(body), "subject": subject})
    token = await request.authority.tokens.issue(
        name, str(subject),
        by=request.caller.subject, front="http", grant_id=heir.grant.id, expires_in=body.expires_in,
    )  # fmt: skip
    return Reply(Delegated(grant=_grant(_entry(request, heir.grant.id)), token=token), 201)


def _delegated_by(request: Request, grant_id: str) -> str:
    """What the names of the tokens begin with that count together: those of an agent and of all who
    got something from it, or those of one grant of a person."""
    if request.caller.is_person:
        return f"delegated:{grant_id}:"
    counts_for = request.authority.accountable(grant_id) or ""
    return f"delegated:by:{hashlib.sha256(counts_for.encode()).hexdigest()[:16]}:"


async def _make_room(request: Request, grant_id: str) -> str:
    """Bound the tokens that come of delegating: each is kept for as long as what it is for. Those
    whose grant has ended are let go of first. Returns how the next one's name begins."""
    book, front = request.authority.tokens, _delegated_by(request, grant_id)
    made = [each for each in book.tokens() if each.name.startswith(front)]
    left = len(made)
    for each in made if left >= DELEGATED_TOKENS_MAX else ():
        entry = None if each.grant_id is None else request.authority.grant(each.grant_id)
        if entry is None or not entry.holds(time.time_ns()):
            await book.revoke(each.name, by=request.caller.subject, front="http")
            left -= 1
    if left >= DELEGATED_TOKENS_MAX:
        raise QuotaExceeded(
            f"grants are passed on to {DELEGATED_TOKENS_MAX} others at once, and not to more",
            hint="revoke one that is no longer used",
            details={"limit": DELEGATED_TOKENS_MAX},
        )
    return front


async def _end_lost(request: Request, name: str) -> None:
    """End what was passed on before under the same key: nobody was told the secret of it."""
    for token in request.authority.tokens.tokens() if request.key else ():
        if token.name == name and token.grant_id is not None:
            await request.authority.revoke(
                token.grant_id, by=request.caller.subject, front="http", reason="not told"
            )


def _entry(request: Request, grant_id: str) -> GrantEntry:
    entry = request.authority.grant(grant_id)
    if entry is None:
        raise PathNotFound("there is no such grant")
    return entry


class TrustBody(Body, frozen=True, kw_only=True):
    trusted: bool


class Trusted(Result, frozen=True, kw_only=True, tag="trust"):
    """Whether a root may be changed."""

    root: str
    trusted: bool


async def set_trust(request: Request) -> Trusted:
    if not request.caller.is_person:
        raise MissingAccess("only a person or the host may trust a root")
    root = request.root or request.app.default_root()
    await request.authority.set_trust(
        root, request.body.trusted, by=request.caller.subject, front="http"
    )
    return Trusted(root=root, trusted=request.body.trusted)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/roots", name="roots", family="governing", handler=list_roots,
        about="The roots that the caller may ask for.", result=RootList, rooted=False,
        example="GET /roots",
    ),
    Route(
        method="POST", path="/trust", name="trust", family="governing", handler=set_trust,
        about="Trust a root, so that it may be changed, or no more.", body=TrustBody,
        result=Trusted, changes=True, who="person", governing=True,
        example='POST /trust {"trusted": true}',
    ),
    Route(
        method="GET", path="/grants", name="grants", family="governing", handler=list_grants,
        about="The grants that hold now; an agent sees its own.", result=GrantList, rooted=False,
        who="caller", parameters=(Argument(name="root", about="Only on this root: kind:id."),),
        example="GET /grants",
    ),
    Route(
        method="POST", path="/grants", name="addGrant", family="governing", handler=add_grant,
        about="Let a subject, or a pattern of them, ask for a root.", body=GrantBody,
        result=WireGrant, statuses=(201,), rooted=False, who="person", changes=True,
        governing=True, raises=(409,),
        example='POST /grants {"subject": "agent_run:*", "root": "workspace:demo",'
        ' "access": ["read", "list"]}',
    ),
    Route(
        method="POST", path="/grants/{id}/revoke", name="revokeGrant", family="governing",
        handler=revoke, about="End a grant and all that came from it, at once.", body=RevokeBody,
        result=Revoked, rooted=False, who="caller", changes=True, governing=True,
        example='POST /grants/4f1c/revoke {"reason": "done"}',
    ),
    route(verbs.DELEGATE, delegate, rooted=False, who="caller", secret=True, repeatable=True),
)  # fmt: skip
