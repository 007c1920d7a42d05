"""What fronts need of a scope besides its verbs: how it is called, how large files may become, and
what would be refused now.

Callers of a scope have no use for any of this, so it is not among its public names. A scope on a
server answers here too, as far as a server lets its callers say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from bailiwick import operations
from bailiwick.call import Caller, Target
from bailiwick.operations import Access
from bailiwick.paths import parse
from bailiwick.scope.core import ScopeCore

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


def refuse_if_not_allowed(
    scope: ScopeCore, verb: str, needs: frozenset[Access], paths: Sequence[str]
) -> None:
    """Refuse a call that could not be made now: the grant has ended, does not hold the access or
    does not reach a place, or a rule denies it. For what a caller is shown once more without being
    done again: it looks at the names alone, asks nobody, counts nothing and records nothing.

    Raises `MissingAccess`, `GrantExpired`, `GrantRevoked`, `UntrustedWorkspace`, `PolicyDenied`,
    `PathNotFound`, `Closed`.
    """
    pipeline, grant = scope._pipeline, scope.grant
    operation = _BY_VERB.get(verb, operations.WRITE)
    pipeline.refuse_closed()
    pipeline.check_access(grant, needs | operation.needed)
    pipeline.standing.holds(grant, operation)
    for text in paths:
        target = Target(text, "entry")
        call = scope._call(operation, verb, target)
        path = parse(text, grant.root.mount_point).path.beneath(grant.base)
        pipeline.obey(call, pipeline.decide(call, path, operation.ruled, False), target, path)


_BY_VERB = {verb: each for each in operations.OPERATIONS.values() for verb in each.verbs}
