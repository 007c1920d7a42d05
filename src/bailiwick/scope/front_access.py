"""What fronts need of a scope besides its verbs: how it is called, how large files may become, and
what would be refused now.

Callers of a scope have no use for any of this, so it is not among its public names. A scope on a
server answers here too, as far as a server lets its callers say.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from bailiwick import operations
from bailiwick.call import Caller, Target
from bailiwick.errors import ApprovalDenied, Busy, IoError
from bailiwick.operations import Access, Operation
from bailiwick.paths import check_new_name, parse
from bailiwick.policy import Ask, Decision
from bailiwick.reviews import ReviewNote
from bailiwick.sandbox import CommandLimits, Process
from bailiwick.scope.code import CodeRuns
from bailiwick.scope.core import ScopeCore
from bailiwick.scope.review import ReviewVerbs
from bailiwick.scope.sessions import Session, SessionVerbs
from bailiwick.verbs.commands import place_of

Called = TypeVar("Called", bound=ScopeCore)


def caller_of(scope: ScopeCore) -> Caller:
    """How a scope is called now: whoever opened it may have said how its person is asked, and how
    long they are waited for."""
    return scope._caller


def as_called(scope: Called, **changes: Any) -> Called:
    """A scope, called otherwise. ``changes`` are fields of `Caller`; the rest stays as it
    is, where `Scope.with_caller` begins anew.

    On a server it is the server that knows the front and asks its own people, so that a name or an
    asker changes nothing there. A rehearsal is `Unsupported`: a server has none.
    """
    return scope._as_called(**changes)


def with_file_max(scope: Called, file_bytes: int) -> Called:
    """A scope through which no file becomes larger than this. More than the limit is no
    more. Less than the limit of a server is `Unsupported`: only the server could hold to it."""
    return scope._with_file_max(file_bytes)


def has_review_notes(scope: ReviewVerbs) -> bool:
    """Whether people took back anything that the holder is to be told of with its next result.
    Where nobody can tell by now there is another next result: whatever was done has that of its
    own."""
    try:
        return scope._has_review_notes()
    except (Busy, IoError):
        return False


async def review_notes(scope: ReviewVerbs) -> list[ReviewNote]:
    """What the holder is to be told of what people took back, which is told once; later, where
    that cannot be found out by now."""
    try:
        return await scope._review_notes() if scope._has_review_notes() else []
    except (Busy, IoError):
        return []


async def waiting_review_notes(scope: ReviewVerbs) -> list[ReviewNote]:
    """What the holder is still to be told, which it is told all the same with its next result."""
    return await scope._waiting_review_notes() if scope._has_review_notes() else []


def runs_commands(scope: ScopeCore) -> bool:
    """Whether programs can be run in this root, whoever may run them: it is a directory here, and
    there is a sandbox."""
    return scope._runs_commands()


def top_of(scope: ScopeCore) -> str:
    """The directory in which all lies that the grant reaches, as the scope names it."""
    grant = scope.grant
    return str(grant.path.relative_to(grant.base)) if grant.path.lies_in(grant.base) else "."


def place_for_programs(scope: ScopeCore) -> str:
    """Where the top of a scope stands for the programs that are run in it."""
    path = str(scope.grant.path)
    place = place_of(scope.grant.root)
    return place if path == "." else f"{place}/{path}"


def session_as_called(session: Session, scope: SessionVerbs) -> Session:
    """A session for one call of whoever uses it: what is asked is asked as ``scope``, the same one
    called otherwise, asks. It shares all but its directory."""
    return session._as_called(scope)


def enter(session: Session, directory: str) -> bool:
    """Have the commands that come begin in ``directory``, as programs name it. False where it is
    none of the session's tree."""
    return session._enter(directory)


def for_one_request(scope: Called) -> tuple[Called, str]:
    """A scope whose calls are all of one request, and its id: that which it has, else a new one."""
    request_id = scope._request_id or scope._pipeline.machine.new_request_id()
    return scope.with_request(request_id), request_id


def code_process(
    scope: CodeRuns, source: str, limits: CommandLimits
) -> AbstractAsyncContextManager[Process]:
    """An interpreter in a sandbox, for code that was judged and is on record."""
    return scope._code_process(source, limits)


def runs_code(scope: ScopeCore) -> bool:
    """Whether code can be run for this root, whoever may run it: there is a sandbox. On a server
    that is not known."""
    return isinstance(scope, CodeRuns) and scope._runs_code()


def refuse_if_not_allowed(
    scope: ScopeCore, verb: str, needs: frozenset[Access], paths: Sequence[str]
) -> None:
    """Refuse a call that could not be made now: the grant has ended, does not hold the access or
    does not reach a place, or a rule denies it. For what a caller is shown once more without being
    done again: it looks at the names alone, asks nobody, counts nothing and records nothing.

    Raises `MissingAccess`, `GrantExpired`, `GrantRevoked`, `UntrustedWorkspace`, `PolicyDenied`,
    `PathNotFound`, `Closed`.
    """
    operation = _BY_VERB.get(verb, operations.WRITE)
    _refuse_unfit(scope, operation, needs)
    for text in paths:
        _judged(scope, operation, verb, Target(text, "entry"), operation.ruled)


def refuse_writing(scope: ScopeCore, text: str, *, over: bool) -> None:
    """Refuse a write that could not be made now, likewise: ``over`` what stands there, or as
    something new. One that a person would be asked about is refused where nobody can be asked: for
    whoever gathers what is written, and could only tell of a refusal when nobody listens any more.

    Raises what `refuse_if_not_allowed` does, `ApprovalDenied` and `ParseError`.
    """
    operation = operations.WRITE
    _refuse_unfit(scope, operation, frozenset())
    target = Target(text, "entry", creates=not over)
    ruled = operation.ruled_over if over else operation.ruled_new
    if not over:
        check_new_name(text.rpartition("/")[2])
    decision = _judged(scope, operation, "write_bytes", target, ruled)
    if isinstance(decision, Ask) and decision.default == "deny" and not _can_ask(scope):
        raise ApprovalDenied(
            "this needs a person's approval and nobody can be asked", decided_by=decision.source
        )


def _can_ask(scope: ScopeCore) -> bool:
    caller = scope._caller
    return caller.asker is not None or scope._pipeline.approvals.interactive(caller.front)


def _refuse_unfit(scope: ScopeCore, operation: Operation, needs: frozenset[Access]) -> None:
    pipeline, grant = scope._pipeline, scope.grant
    pipeline.refuse_closed()
    pipeline.check_access(grant, needs | operation.needed)
    pipeline.standing.holds(grant, operation)


def _judged(
    scope: ScopeCore, operation: Operation, verb: str, target: Target, ruled: frozenset[Access]
) -> Decision:
    pipeline, grant = scope._pipeline, scope.grant
    call = scope._call(operation, verb, target)
    root = grant.root
    path = parse(target.text, root.mount_point, root.names).path.beneath(grant.base)
    decision = pipeline.decide(call, path, ruled, False)
    pipeline.obey(call, decision, target, path)
    return decision


_BY_VERB = {verb: each for each in operations.OPERATIONS.values() for verb in each.verbs}
