"""Leases on places: taking, keeping and giving back."""

from __future__ import annotations

from bailiwick.call import Call
from bailiwick.errors import ParseError
from bailiwick.verbs.clearing import clear_words
from bailiwick.versions import Leased, leases


async def lock(call: Call, ttl: float) -> Leased:
    _check_ttl(call, ttl)
    power = leases(call.store)
    if call.must_clear:
        await clear_words(call, f"lock it for {ttl:g} seconds")
    return await power.lock(call.handle, ttl)


async def renew(call: Call, lease: Leased, ttl: float) -> Leased:
    _check_ttl(call, ttl)
    power = leases(call.store)
    if call.must_clear:
        await clear_words(call, f"keep it locked for {ttl:g} seconds")
    return await power.renew(lease, ttl)


async def release(call: Call, lease: Leased) -> bool:
    """Nobody is asked about giving something back."""
    power = leases(call.store)
    call.questions = None
    if call.must_clear:
        await call.clear()
    return await power.release(lease)


def _check_ttl(call: Call, ttl: float) -> None:
    most = call.limits.lock_ttl_seconds_max
    if not 0 < ttl <= most:
        raise ParseError(f"a lock lasts up to {most:g} seconds", details={"limit": most})
