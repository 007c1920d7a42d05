"""Other fronts on this server, loaded by name and only when they are first asked for.

A front never imports another. What one may be loaded for stands here as text, like the commands in
the table of the command line; and a server that nobody asks for it starts without its weight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bailiwick.errors import Unsupported

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.build.shared_grants import SharedGrants
    from bailiwick.fronts.http.application import ASGI


def mounts_of(
    authority: Authority, *, workers: int, shared: SharedGrants | None = None
) -> dict[str, ASGI]:
    """What `bailiwick serve` serves besides its own routes; where others serve with it, under
    grants that they have together."""

    def make(create: Any) -> Any:
        return create(authority, workers=workers, shared=shared)

    return {"/mcp": LazyApplication("bailiwick.fronts.mcp.mounting:create", "mcp", make)}


class LazyApplication:
    """An ASGI application that is made when the first request comes.

    ``entry`` is ``module:function``, ``extra`` what to install where the module cannot be loaded;
    ``make`` calls the function.
    """

    def __init__(self, entry: str, extra: str, make: Callable[[Any], Any]) -> None:
        self._entry = entry
        self._extra = extra
        self._make = make
        self._turn = asyncio.Lock()
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            async with self._turn:
                if self._app is None:
                    self._app = self._make(await asyncio.to_thread(self._load))
        await self._app(scope, receive, send)

    async def aclose(self) -> None:
        if self._app is not None:
            await self._app.aclose()

    def _load(self) -> Any:
        module, _, name = self._entry.partition(":")
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            raise Unsupported(
                f"this needs a package that is missing: {error.name}",
                hint=f"pip install 'bailiwick[{self._extra}]'",
            ) from None
