"""What a scope can do that fsspec has no name for: an edit in place, and taking a change back.

A write is known by its request id, which `pipe_file` returns and a written file keeps as
``written``; by it a change is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from bailiwick.fronts.fsspec.blocking_calls import blocking
from bailiwick.fronts.fsspec.entries import place_of
from bailiwick.model import EditResult
from bailiwick.scope import Scope
from bailiwick.versions import UndoResult

Result = TypeVar("Result")


class Beyond:
    """Methods of a filesystem beyond fsspec's own. Each has its twin for callers on an event loop,
    with an underscore, as fsspec's have."""

    loop: asyncio.AbstractEventLoop

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        raise NotImplementedError

    async def _with_scope(self, work: Callable[[Scope], Coroutine[Any, Any, Result]]) -> Result:
        raise NotImplementedError

    async def _edit(
        self,
        path: str,
        old: str,
        new: str,
        *,
        replace_all: bool = False,
        expected_sha256: str | None = None,
    ) -> EditResult:
        """Replace text in a file, onto what stands there and nothing else: whoever writes meanwhile
        is not overwritten. ``old`` must stand there once, or anywhere with ``replace_all``."""
        place = place_of(self._strip_protocol(path))
        return await self._with_scope(
            lambda scope: scope.edit(
                place, old=old, new=new, replace_all=replace_all, expected_sha256=expected_sha256
            )
        )

    async def _undo(self, request_id: str, *, preview: bool = False) -> UndoResult:
        """Take back what a request changed, where it was not changed again since. Where the store
        keeps no versions this is `Unsupported`."""
        return await self._with_scope(lambda scope: scope.undo(request_id, preview=preview))

    edit = blocking(_edit)
    undo = blocking(_undo)
