"""The seam for code that watches or vetoes operations: ``before`` may refuse, ``after`` observes.

Hooks run in the order they were registered. A ``before`` that fails or is too slow refuses the
operation, with its id in the error; an ``after`` that fails is logged and changes nothing. To raise
`SystemExit` or `KeyboardInterrupt` is to fail, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bailiwick.audit import Record
from bailiwick.policy import Allow, Ask, Context, Decision, Deny, Hide

_log = logging.getLogger("bailiwick.hook")


class Hook(Protocol):
    """One hook. It cannot rewrite a path: what it is shown is frozen."""

    @property
    def id(self) -> str: ...

    async def before(self, context: Context) -> Decision | None:
        """Return a `Deny` or `Ask` to interfere, None to let the operation go on."""
        ...

    async def after(self, context: Context, record: Record) -> None:
        """Observe what became of it."""
        ...


class Hooks:
    """The hooks of one root, in order."""

    def __init__(
        self, *, seconds_max: float, failed: Callable[[str, str], None] | None = None
    ) -> None:
        """``failed`` is told the id of each hook that fails, and how."""
        self._hooks: list[Hook] = []
        self._seconds_max = seconds_max
        self._failed = failed
        self.failures: dict[str, int] = {}
        """How often each hook failed, was too slow, or gave no decision, by its id."""
        # Looked at several times by every operation: an attribute is cheaper than a call.
        self.registered = False

    def register(self, hook: Hook) -> Callable[[], None]:
        """Add a hook; the answer takes exactly this registration back, and may be called twice."""
        entry = _Registration(hook)
        self._hooks.append(entry)
        self.registered = True

        def unregister() -> None:
            self._hooks = [kept for kept in self._hooks if kept is not entry]
            self.registered = bool(self._hooks)

        return unregister

    async def before(self, context: Context) -> tuple[list[Decision], tuple[str, ...]]:
        """Run every hook until one refuses; returns what they decided and the ids that ran.

        An `Ask` does not end the round: whoever comes after may still refuse.
        """
        ran: list[str] = []
        interferences: list[Decision] = []
        for hook in self._hooks:
            ran.append(hook.id)
            try:
                answer: object = await asyncio.wait_for(hook.before(context), self._seconds_max)
            except Exception as error:
                _log.warning("before-hook failed", extra={"hook": hook.id}, exc_info=error)
                self._count(hook, _kind_of(error))
                why = "took too long" if isinstance(error, TimeoutError) else "failed"
                answer = Deny(f"hook:{hook.id}", f"the hook {hook.id!r} {why}")
            if answer is None or isinstance(answer, Allow):
                continue
            if isinstance(answer, Ask | Deny | Hide):
                interferences.append(answer)
            else:
                self._count(hook, "no decision")
                why = f"the hook {hook.id!r} gave no decision"
                interferences.append(Deny(f"hook:{hook.id}", why))
            if not isinstance(answer, Ask):
                break
        return interferences, tuple(ran)

    async def after(self, context: Context, record: Record) -> None:
        """Show every hook what became of it. Awaited to its end, cancelled or not."""
        for hook in self._hooks:
            try:
                await asyncio.wait_for(hook.after(context, record), self._seconds_max)
            except (Exception, asyncio.CancelledError) as error:
                _log.warning("after-hook failed", extra={"hook": hook.id}, exc_info=error)
                self._count(hook, _kind_of(error))

    def _count(self, hook: Hook, why: str) -> None:
        self.failures[hook.id] = self.failures.get(hook.id, 0) + 1
        if self._failed is not None:
            self._failed(hook.id, why)


class _Registration:
    """One registration of a hook: the same hook registered twice is two of these."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    @property
    def id(self) -> str:
        return self._hook.id

    async def before(self, context: Context) -> Decision | None:
        with _contained():
            return await self._hook.before(context)

    async def after(self, context: Context, record: Record) -> None:
        with _contained():
            await self._hook.after(context, record)


class _Left(Exception):
    """A hook raised what ends a process. It runs in a task, and out of a task that would end the
    event loop with every operation on it: here it has failed like any other."""


@contextmanager
def _contained() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        raise _Left from error


def _kind_of(error: BaseException) -> str:
    return type(error.__cause__ if isinstance(error, _Left) else error).__name__
