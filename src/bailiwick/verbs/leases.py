"""Leases on places: taking, keeping and giving back."""

from __future__ import annotations

from bailiwick.call import Call
from bailiwick.errors import ParseError
from bailiwick.proposal import Proposal, as_it_is
from bailiwick.version_acts import Lock, Release, Renew
from bailiwick.versions import Leased, check_leases


async def lock(call: Call, ttl: float) -> Proposal[Leased]:
    _check_ttl(call, ttl)
    check_leases(call.store)
    return Proposal(Lock(call.handle, ttl), as_it_is)


async def renew(call: Call, lease: Leased, ttl: float) -> Proposal[Leased]:
    _check_ttl(call, ttl)
    check_leases(call.store)
    return Proposal(Renew(call.handle, lease, ttl), as_it_is)


async def release(call: Call, lease: Leased) -> Proposal[bool]:
    check_leases(call.store)
    call.questions = None  # see `Release`
    return Proposal(Release(call.handle, lease), as_it_is)


def _check_ttl(call: Call, ttl: float) -> None:
    most = call.limits.lock_ttl_seconds_max
    if not 0 < ttl <= most:
        raise ParseError(f"a lock lasts up to {most:g} seconds", details={"limit": most})
