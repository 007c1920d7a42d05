"""What fronts need of a scope besides its verbs: how it is called, how large files may become, and
what can be read on the spot.

Callers of a scope have no use for any of this, so it is not among its public names. A scope on a
server answers here too, as far as a server lets its callers say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from bailiwick import operations
from bailiwick.call import Caller, Target
from bailiwick.model import TextRead
from bailiwick.paths import PathText
from bailiwick.scope.core import ScopeCore
from bailiwick.verbs import reading

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


def read_text_now(scope: ScopeCore, path: PathText) -> TextRead | Callable[[], Awaitable[TextRead]]:
    """`Scope.read_text` of a whole file on the spot, where nothing keeps it waiting. Otherwise what
    goes on with the same call, once it is started: its grant counts it once."""
    call = scope._call(operations.READ, "read_text", Target(path, "object"))
    at_once, ignores = scope._pipeline.at_once, scope._ignores
    if at_once is not None:
        read = at_once.run(call, reading.read_text_now, at_once.read_now, ignores)
        if read is not None:
            return read
    return lambda: scope._carry_out(
        call, lambda call: reading.read_text(call, ignores, reading.WHOLE), None
    )
