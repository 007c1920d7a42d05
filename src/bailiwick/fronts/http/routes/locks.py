"""Locks: leases that end by themselves."""

from __future__ import annotations

from contextlib import aclosing

from bailiwick.fronts.http.access.leases import HeldLease
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import Body, route
from bailiwick.grant import parse_subject
from bailiwick.paths import parse
from bailiwick.scope import Scope
from bailiwick.scope.versions import Lease
from bailiwick.versions import Leased
from bailiwick.wire import Document, Result, values, verbs
from bailiwick.wire.arguments import Ttl


class Released(Result, frozen=True, kw_only=True, tag="lock_released"):
    """A lock that was given back; ``held`` says whether it had not run out already."""

    id: str
    held: bool


class RenewBody(Body, frozen=True, kw_only=True):
    ttl: Ttl = 60.0


async def lock(request: Request) -> Reply:
    body = request.body
    scope = await request.scoped(body.path)
    lease = await scope.lock(body.path, ttl=body.ttl)
    caller = request.caller
    held = HeldLease(
        holder=caller.holder, subject=str(caller.subject),
        root=request.root or request.app.default_root(), fork=request.query.get("fork"),
        text=body.path, path=str(lease.path.beneath(scope.grant.base)), token=lease.token,
        expires_ns=lease.expires_ns,
    )  # fmt: skip
    return Reply(_lock(request.app.leases.name(held), lease), 201)


async def renew(request: Request) -> Document:
    name = request.names["id"]
    lease = await _own(request, request.app.leases.find(name, request.caller.holder))
    await lease.renew(request.body.ttl)
    return _lock(name, lease)


async def release(request: Request) -> Released:
    """Whoever holds a lock gives it back; and a person may give back any."""
    name, caller = request.names["id"], request.caller
    found = request.app.leases.find(name, None if caller.is_person else caller.holder)
    if found.holder == caller.holder:
        held = await (await _own(request, found)).release()
    else:
        held = await _release_for_another(request, found)
    return Released(id=name, held=held)


async def _own(request: Request, found: HeldLease) -> Lease:
    """A lease of the caller, in the scope that they have now."""
    request.scope = await request.holding.scope(found.root, _WRITE, found.text, found.fork)
    scope = request.scope
    if request.request_id is not None:
        scope = scope.with_request(request.request_id)
    return Lease(scope, found.text, _leased(found, scope))


async def _release_for_another(request: Request, found: HeldLease) -> bool:
    """Give back a lock of somebody whose grant may have ended, and the lock not. A lock knows its
    holder by name: so the person passes on, for this moment, a part of what they hold."""
    own = await request.holding.scope(found.root, _WRITE, None)
    heir = await own.delegate(
        parse_subject(found.subject), access={"read", "write"}, expires_in=_HANDING_SECONDS,
        reason=f"{request.caller.subject} gives back a lock",
    )  # fmt: skip
    async with aclosing(heir):
        if found.fork is None:
            return await Lease(heir, found.path, _leased(found, heir)).release()
        async with aclosing(await heir.open_fork(found.fork)) as fork:
            return await Lease(fork, found.path, _leased(found, fork)).release()


def _leased(found: HeldLease, scope: Scope) -> Leased:
    """The lease, as it is seen in a scope."""
    path = parse(found.path).path.relative_to(scope.grant.base)
    return Leased(path=path, token=found.token, expires_ns=found.expires_ns)


def _lock(name: str, lease: Lease) -> Document:
    leased = Leased(path=lease.path, token=lease.token, expires_ns=lease.expires_ns)
    return values.LOCK.write(leased, id=name)


_WRITE = access("write")
_HANDING_SECONDS = 60.0

ROUTES: tuple[Route, ...] = (
    route(verbs.LOCK, lock, who="caller"),
    Route(
        method="POST", path="/lock/{id}/renew", name="renewLock", family="versions",
        handler=renew, about="Hold a lock longer.", body=RenewBody, result=values.LOCK.struct,
        changes=True, who="caller", rooted=False, raises=(423,), repeatable=True,
        example='POST /lock/o5n9/renew {"ttl": 60}',
    ),
    Route(
        method="POST", path="/lock/{id}/release", name="releaseLock", family="versions",
        handler=release, about="Give a lock back.", result=Released, changes=True, who="caller",
        rooted=False, raises=(423,), repeatable=True, example="POST /lock/o5n9/release",
    ),
)  # fmt: skip
