"""LangGraph's pause: `interrupt`, and how its answer is read.

A graph that is interrupted runs the step again when it is resumed, and then has the person's
answer: ``Command(resume=True)``, or ``{"approved": true, "binding": …}`` with the binding of the
question that was shown. Anything else is a no.

What a graph remembers can be changed by whoever reaches its checkpoints, and what would be done
may have changed by itself. So a yes that does not say to what counts for a question that was shown
here; in another process, or where it would be another question by now, it is put again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bailiwick.toolbox import Pending

_SHOWN_MAX: Final = 1_000
"""Questions that are remembered as shown: those of calls under way, and some more."""


class Word(NamedTuple):
    """What a person has said."""

    allowed: bool
    binding: str | None


class GraphAsker:
    """Puts questions by interrupting, and remembers what it has put."""

    def __init__(self) -> None:
        self._shown: dict[str, None] = {}

    def ask(self, pending: Pending) -> Word | None:
        """Interrupt the graph that runs, or give the answer it was resumed with, and to what.

        None where there is no graph to interrupt: a tool that is called by itself.
        """
        binding = pending.binding
        shown_before = binding in self._shown
        self._remember(binding)
        while True:
            # One that has answers left gives them in their order, and is interrupted then.
            word = _interrupt(pending)
            if word is None or not word.allowed or word.binding is not None:
                return word
            if shown_before:
                return Word(True, binding)

    def _remember(self, binding: str) -> None:
        while len(self._shown) >= _SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        self._shown[binding] = None


def _interrupt(pending: Pending) -> Word | None:
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
