"""The verbs of a scope that a server does not serve: programs are run where the scope is."""

from __future__ import annotations

from functools import wraps
from typing import Any, NoReturn

from bailiwick.client.core import RemoteCore, bound
from bailiwick.errors import Unsupported
from bailiwick.scope import Scope


def _refuse(scope: RemoteCore) -> NoReturn:
    scope._refuse_closed()
    raise Unsupported(
        "a server runs no programs for its callers",
        hint="run them on the machine of the server: bailiwick -p DIRECTORY exec",
    )


async def _refused(scope: RemoteCore, said: dict[str, Any]) -> NoReturn:
    _refuse(scope)


class RemoteCommands(RemoteCore):
    """Programs, and what they changed: `Unsupported`, each of them."""

    work = bound(Scope.work, _refused)
    open_work = bound(Scope.open_work, _refused)
    open_session = bound(Scope.open_session, _refused)

    @wraps(Scope.exec)
    def exec(self, *args: object, **more: object) -> NoReturn:
        _refuse(self)

    @wraps(Scope.session)
    def session(self, *args: object, **more: object) -> NoReturn:
        _refuse(self)
