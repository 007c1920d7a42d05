"""Asking a person for a root that nobody has granted: who, which root, which access, for how long.

What is asked, how long it takes and how it is refused is the same whether there is such a root or
not: nobody learns of a root by asking for it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bailiwick.approvals import Approvals, Asker, Preview, Question, Verdict
from bailiwick.errors import ApprovalDenied, ApprovalTimeout, ParseError
from bailiwick.grant import Subject, check_reason, parse_root_name
from bailiwick.limits import Limits
from bailiwick.model import Value
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath, parse

ASKED_VERB: Final = "request_root"
SOURCE: Final = "ask.roots"

_UNTOLD_S: Final = 3_600.0
"""For how long a root is asked for where nothing is said about that: an hour is a piece of work."""


class RootRequest(Value, frozen=True, kw_only=True):
    """What somebody asks for: all of it is shown to the person, and only that is given."""

    subject: Subject
    root: str
    access: frozenset[Access]
    path: ScopedPath
    seconds: float
    reason: str
    front: str


def root_request(
    subject: Subject,
    root: str,
    access: frozenset[Access],
    path: str,
    expires_in: float | None,
    reason: str,
    front: str,
    limits: Limits,
) -> RootRequest:
    """What is asked for, as far as it can be asked. Raises `ParseError`, whatever roots there
    are."""
    parse_root_name(root)
    if not access:
        raise ParseError("a root is asked for with some access", hint="such as read")
    if str(path).startswith("/"):
        raise ParseError("the path in a root that is asked for is relative to it")
    seconds = _UNTOLD_S if expires_in is None else float(expires_in)
    if not 0 < seconds <= limits.asked_root_seconds_max:
        raise ParseError(
            f"a root is asked for at most {spelled(limits.asked_root_seconds_max)}",
            hint="give a shorter expires_in",
        )
    return RootRequest(
        subject=subject, root=root, access=access, path=parse(path).path, seconds=seconds,
        reason=check_reason(reason), front=front,
    )  # fmt: skip


async def ask_for_root(
    approvals: Approvals,
    asked: RootRequest,
    request_id: str,
    *,
    asker: Asker | None,
    wait_s: float | None,
) -> Verdict:
    """Put the question and wait for a yes. Raises `ApprovalDenied`, `ApprovalTimeout`."""
    question = _question(asked, request_id)
    verdict = await approvals.ask(question, asker=asker, wait_s=wait_s)
    if verdict.allowed:
        return verdict
    details = {} if verdict.approval_id is None else {"approval_id": verdict.approval_id}
    if verdict.by == "default":
        raise ApprovalTimeout(
            "nobody answered in time, and nobody granted this root", decided_by=SOURCE,
            details=details,
        )  # fmt: skip
    raise ApprovalDenied(
        "a person was asked for this root and refused", decided_by=f"{SOURCE} ({verdict.by})",
        details=details,
    )  # fmt: skip


def _question(asked: RootRequest, request_id: str) -> Question:
    access = ", ".join(sorted(asked.access))
    path = str(asked.path)
    where = asked.root if asked.path.is_root else f"{path} in {asked.root}"
    return Question(
        subject=asked.subject, root=asked.root, operation="grant", verb=ASKED_VERB,
        access=tuple(sorted(asked.access)), paths=(path,), paths_total=1,
        paths_sha256=hashlib.sha256(path.encode()).hexdigest(), destination=None,
        prompt=f"nobody granted this: {access} of {where}, for {spelled(asked.seconds)}",
        sources=(SOURCE,), default="deny", reason=asked.reason, grant_id="",
        request_id=request_id, front=asked.front, preview=Preview(), target=path,
        arguments=f"{access}, for {spelled(asked.seconds)}",
    )  # fmt: skip


def spelled(seconds: float) -> str:
    """A time as people say it, exactly."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
