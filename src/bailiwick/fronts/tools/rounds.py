"""One round of an agent loop that the application runs itself: the calls of one answer of a model.

Calls are made one after the other. Those about which a person must be asked are not made; they come
back as `PendingCall`, to be resumed with the person's word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from bailiwick.toolbox import Pending

Render = Callable[["ToolCall", dict[str, Any]], dict[str, Any]]
"""From a call and its answer to what the provider wants to be sent."""


class ToolCall(NamedTuple):
    """One call that a model asked for; ``arguments`` as it wrote them."""

    id: str
    name: str
    arguments: Any


class Offered(Protocol):
    """What is called by its name, and may pause: a `Toolbox`, or a tool with a name of its own."""

    def __contains__(self, name: object) -> bool: ...

    async def attempt(self, name: str, arguments: Any = None) -> dict[str, Any] | Pending: ...

    async def resume(
        self, name: str, arguments: Any, *, allowed: bool, binding: str | None = None
    ) -> dict[str, Any]: ...


class PendingCall(NamedTuple):
    """A call that waits for a person: show them ``pending``, then `resume`."""

    tools: Offered
    call: ToolCall
    pending: Pending
    render: Render

    async def resume(self, *, allowed: bool) -> dict[str, Any]:
        """What to send to the provider, now that the person has answered."""
        answer = await self.tools.resume(
            self.call.name, self.call.arguments, allowed=allowed, binding=self.pending.binding
        )
        return self.render(self.call, answer)


class Round(NamedTuple):
    """What came of the calls, in the provider's own form; and those that wait for a person."""

    outputs: list[dict[str, Any]]
    pending: list[PendingCall]


async def run_round(
    tools: Offered, calls: Iterable[ToolCall], render: Render, *more: tuple[Offered, Render]
) -> Round:
    """Make the calls that are for these tools; others are left to whoever offers them."""
    outputs: list[dict[str, Any]] = []
    waiting: list[PendingCall] = []
    offered = ((tools, render), *more)
    for call in calls:
        found = next((each for each in offered if call.name in each[0]), None)
        if found is None:
            continue
        tools, render = found
        answer = await tools.attempt(call.name, call.arguments)
        if isinstance(answer, Pending):
            waiting.append(PendingCall(tools, call, answer, render))
        else:
            outputs.append(render(call, answer))
    return Round(outputs, waiting)


def field(value: Any, name: str) -> Any:
    """A field of what a provider's package gave: an object of its own, or plain JSON."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
