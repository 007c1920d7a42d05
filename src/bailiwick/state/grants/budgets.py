"""Whose budget a grant counts against: that of the first on its line who is no person.

Whoever delegates gains nothing by it. What an agent has passed on, to itself or to others, through
however many hands and names, counts for that agent; what a person or the host hands out counts for
whoever got it. The line is read from the book, so that it holds for what a temporary root was made
under, too.
"""

from __future__ import annotations

from bailiwick.grant import Core, User, parse_subject
from bailiwick.state.grants.rows import LINE, Read

_HOLDERS = (
    LINE + "SELECT subject FROM line JOIN grants USING (id) WHERE kind = 'held' ORDER BY step DESC"
)


def accountable(read: Read, grant_id: str) -> str | None:
    """The subject that a grant counts for; None where it is not in the book."""
    holders: list[str] = [subject for (subject,) in read(_HOLDERS, (grant_id,))]
    if not holders:
        return None
    agents = (each for each in holders if not isinstance(parse_subject(each), (Core, User)))
    return next(agents, holders[-1])
