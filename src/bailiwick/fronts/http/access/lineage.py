"""Which grants are a caller's own: those of its subject, or the one its token is for; and whatever
was passed on from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.fronts.http.access.callers import HttpCaller
    from bailiwick.state.grants.rows import GrantEntry


def is_own(authority: Authority, caller: HttpCaller, entry: GrantEntry) -> bool:
    """Whether a grant was handed to the caller, or comes from one that was.

    Who shows the token of one grant is known by that grant alone. The subject in it is a name that
    whoever passed the grant on has chosen, and may be somebody else's.
    """
    subject, found = str(caller.subject), entry
    while found.kind == "held":
        if caller.grant_id is None:
            if str(found.grant.subject) == subject:
                return True
        elif found.id == caller.grant_id:
            return True
        parent = None if found.parent is None else authority.grant(found.parent)
        if parent is None:
            return False
        found = parent
    return False


def descends(authority: Authority, grant_id: str, ancestor: str) -> bool:
    """Whether a grant is another one, or comes from it."""
    while grant_id != ancestor:
        entry = authority.grant(grant_id)
        if entry is None or entry.parent is None:
            return False
        grant_id = entry.parent
    return True
