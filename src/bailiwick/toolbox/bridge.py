"""From whatever thread or loop a framework calls on, to the loop a scope belongs to.

A store belongs to one event loop. Frameworks call tools on the loop they run on, on a loop of
another thread, or on worker threads without any; all of them get there, and the one who cannot (the
scope's own loop, blocked by waiting for itself) is told so instead of waiting forever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from bailiwick.finishing import running_loop
from bailiwick.handed_over import HandedOver
from bailiwick.portal import Portal, SyncScope, behind
from bailiwick.scope import Scope

Result = TypeVar("Result")
Work = Callable[[], Coroutine[Any, Any, Result]]


class Bridge:
    """Runs coroutines where a scope lives."""

    def __init__(
        self, scope: Scope, portal: Portal | None, home: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.scope = scope
        self._portal = portal
        self._home = home
        if portal is None and home is None:
            self._home = running_loop()

    @classmethod
    def to(cls, scope: Scope | SyncScope, home: asyncio.AbstractEventLoop | None = None) -> Bridge:
        """The way to a scope. One without a portal lives on the loop ``home``, else on the one that
        runs now, or on the first one it is used on."""
        if isinstance(scope, SyncScope):
            return cls(*behind(scope))
        return cls(scope, None, home)

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The loop on which the scope lives; None where it was not used on any yet."""
        return self._home if self._portal is None else self._portal.loop

    async def run(self, work: Work[Result]) -> Result:
        """Run to the end, from any loop."""
        here = asyncio.get_running_loop()
        if self._portal is not None:
            if self._portal.is_here:
                return await work()
            return await self._portal.run_for(work())
        if self._home is None:
            self._home = here
        if self._home is here:
            return await work()
        return await HandedOver(self._home, work()).wait_here()

    def run_blocking(self, work: Work[Result]) -> Result:
        """Run to the end, from any thread that is not the scope's own loop."""
        if self._portal is not None:
            return self._portal.run(work())
        if self._home is None or self._home is running_loop():
            raise RuntimeError(
                "a blocking call cannot wait for its own event loop: use the async twin, call it "
                "from another thread, or open the scope with bailiwick.open_sync"
            )
        return HandedOver(self._home, work()).wait()
