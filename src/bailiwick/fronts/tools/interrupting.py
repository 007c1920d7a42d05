"""LangGraph's pause: `interrupt`, and how its answer is read.

A graph that is interrupted runs the step again when it is resumed, and then has the person's
answer: ``Command(resume=True)``, or ``{"approved": true, "binding": …}`` with the binding of the
question that was shown. Anything else is a no.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bailiwick.toolbox import Pending


class Word(NamedTuple):
    """What a person has said."""

    allowed: bool
    binding: str | None


def ask_graph(pending: Pending) -> Word | None:
    """Interrupt the graph that runs, or give the answer it was resumed with.

    None where there is no graph to interrupt: a tool that is called by itself.
    """
    try:
        from langgraph.types import interrupt
    except ImportError:
        return None
    try:
        answer = interrupt(pending.shown())
    except (KeyError, RuntimeError):
        return None  # not in a graph; what interrupts one is neither of these
    return _read(answer)


def _read(answer: Any) -> Word:
    if isinstance(answer, dict):
        binding = answer.get("binding")
        return Word(answer.get("approved") is True, binding if isinstance(binding, str) else None)
    return Word(answer is True, None)
