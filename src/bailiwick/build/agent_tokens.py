"""What an agent may do by its token alone: a grant that is made with the token and ends with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bailiwick.grant import AgentRun, Core, Subject, User, check_subject, parse_subject
from bailiwick.operations import Access
from bailiwick.state.grants.tokens import check_token

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority


def subject_of(name: str) -> str:
    """Whose a token is where nobody says it: an agent of that name."""
    return str(check_subject(AgentRun(name, "token")))


def is_agent(subject: str) -> bool:
    """Whether a subject is none of those who govern."""
    return not isinstance(parse_subject(subject), (Core, User))


async def grant_with(
    authority: Authority, name: str, subject: str, *, root: str, access: Iterable[Access],
    by: Subject, front: str, path: str = ".", expires_in: float | None = None,
) -> None:  # fmt: skip
    """Grant what the token is for, in place of what an earlier one of that name was for.

    What no token could be made for is refused before anything is granted.
    """
    check_token(name, subject)
    await end_with(authority, name, by=by, front=front)
    await authority.add_grant(
        subject=subject, root=root, access=frozenset(access), path=path, expires_in=expires_in,
        by=by, front=front, reason=_reason(name),
    )  # fmt: skip


async def end_with(authority: Authority, name: str, *, by: Subject, front: str) -> None:
    """End what was granted with a token."""
    for entry in authority.grants():
        if entry.kind == "standing" and entry.grant.reason == _reason(name):
            await authority.revoke(entry.grant.id, by=by, front=front)


def _reason(name: str) -> str:
    return f"with the token {name}"
