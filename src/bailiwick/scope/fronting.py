"""What fronts need of a scope besides its verbs: how it is called, and how large files may become.

Callers of a scope have no use for any of this, so it is not among its public names. A scope on a
server answers here too, as far as a server lets its callers say.
"""

from __future__ import annotations

from typing import Any, TypeVar

from bailiwick.call import Caller
from bailiwick.scope.core import ScopeCore

Called = TypeVar("Called", bound=ScopeCore)


def caller_of(scope: ScopeCore) -> Caller:
    """How a scope is called now: whoever opened it may have said how its person is asked, and how
    long they are waited for."""
    return scope._caller


def as_called(scope: Called, **changes: Any) -> Called:
    """The same scope, called otherwise. ``changes`` are fields of `Caller`; the rest stays as it
    is, where `Scope.with_caller` begins anew.

    On a server it is the server that knows the front and asks its own people, so that a name or an
    asker changes nothing there. A rehearsal is `Unsupported`: a server has none.
    """
    return scope._as_called(**changes)


def with_file_max(scope: Called, file_bytes: int) -> Called:
    """The same scope, through which no file becomes larger than this. More than the limit is no
    more. Less than the limit of a server is `Unsupported`: only the server could hold to it."""
    return scope._with_file_max(file_bytes)
