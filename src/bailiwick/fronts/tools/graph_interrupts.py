"""LangGraph's pause: `interrupt`, and how its answer is read.

A graph that is interrupted runs the step again when it is resumed, and then has the person's
answer: ``Command(resume=True)``, or ``{"approved": true, "binding": …}`` with the binding of the
question that was shown. Anything else is a no.

One step may ask several questions at once, of which the person is shown one. LangGraph keeps the
answers to a step in a list and hands them out in the order in which the step asks when it is run
again, which need not be the order in which it asked before. So each question looks for its own
answer. One that says to what it is counts for that and nothing else. A mere yes counts for the
question that was the only one open when it was said; else, in another process, or where it would be
another question by now, the question is put again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bailiwick.toolbox import Pending

_STEPS_MAX: Final = 1_000
"""Steps whose questions are remembered: those under way, and some more."""

_RUNS_MAX: Final = 64
"""Runs of one step that are remembered: it is run again for each answer."""

_SAY_TO_WHAT: Final = (
    'a yes counts here only if it says to what: {"approved": true, "binding": …} with the binding'
    " of this question"
)
"""For whoever would else say yes for ever."""

_ONE_AT_A_TIME: Final = threading.Lock()
"""A tool node makes its calls in threads, also those of several workspaces, and the framework's
list of answers is not made for that. Nothing waits while this is held."""


class Word(NamedTuple):
    """What a person has said."""

    allowed: bool
    binding: str | None


class GraphAsker:
    """Puts questions by interrupting, and remembers what it has put."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], _GraphStep] = {}

    def ask(self, pending: Pending) -> Word | None:
        """Interrupt the graph that runs, or give the answer it was resumed with, and to what.

        None where there is no graph to interrupt: a tool that is called by itself.
        """
        under_way = _under_way()
        if under_way is None:
            return None
        from langgraph.errors import GraphInterrupt
        from langgraph.types import interrupt

        shown, binding, answers = pending.shown(), pending.binding, under_way.answers
        with _ONE_AT_A_TIME:
            step = self._step(under_way.step)
            run = step.run(under_way.counter)
            while True:
                if step.has_uncounted_yes(answers, run):
                    shown["hint"] = _SAY_TO_WHAT
                try:
                    said = interrupt(shown)
                except GraphInterrupt:
                    position = step.answer_to(binding, answers, run)
                    if position is None:
                        step.note(len(answers), run, binding)
                        raise
                    run.taken_back += 1
                    return run.spend(position, answers, binding)
                # The answers up to this one are what the framework keeps for the next run.
                position = step.answer_to(binding, answers, run)
                if position is not None and answers[position] is said:
                    return run.spend(position, answers, binding)
                if step.is_a_no_of_elsewhere(said, answers):
                    return Word(False, binding)

    def _step(self, key: tuple[str, str]) -> _GraphStep:
        if key not in self._steps:
            while len(self._steps) >= _STEPS_MAX:
                del self._steps[next(iter(self._steps))]
            self._steps[key] = _GraphStep()
        return self._steps[key]


class _Run:
    """One time that a step was run."""

    def __init__(self, counter: Callable[[], int]) -> None:
        self.counter = counter
        self._looks = 0
        self.taken_back = 0
        self._spent: set[int] = set()

    def open_questions(self, answered: int) -> int:
        """How many questions this run has left open, whoever asked them.

        The framework numbers all that a step asks in one run. To look is to take a number too.
        """
        asked = self.counter() - self._looks
        self._looks += 1
        return asked - answered - self.taken_back

    def is_spent(self, position: int) -> bool:
        return position in self._spent

    def spend(self, position: int, answers: list[Any], binding: str) -> Word:
        """A yes is for one call, also where two calls are the same."""
        allowed = _read(answers[position]).allowed
        if allowed:
            self._spent.add(position)
        return Word(allowed, binding)


class _GraphStep:
    """What was asked in one step. A question has the position that its answer will have in the list
    of answers; several have the same where they were asked at once."""

    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._asked: dict[int, list[tuple[_Run, str]]] = {}
        self._forgot = False

    def run(self, counter: Callable[[], int]) -> _Run:
        """The run that has this counter: each has its own. Since it is kept here, no other object
        can come to have the same identity."""
        if id(counter) not in self._runs:
            if len(self._runs) >= _RUNS_MAX:
                self._runs.clear()
                self._asked.clear()
                self._forgot = True
            self._runs[id(counter)] = _Run(counter)
        return self._runs[id(counter)]

    def note(self, position: int, run: _Run, binding: str) -> None:
        """A question interrupts. Whether the person is shown it is not known: it may be another
        one of the same run."""
        self._asked.setdefault(position, []).append((run, binding))

    def answer_to(self, binding: str, answers: list[Any], run: _Run) -> int | None:
        """The position of the answer to a question, if it is there."""
        for position, answer in enumerate(answers):
            if not run.is_spent(position) and self._is_to(binding, position, _read(answer)):
                return position
        return None

    def has_uncounted_yes(self, answers: list[Any], run: _Run) -> bool:
        """Whether somebody agreed without saying to what, and it counted for nothing."""
        return any(
            position in self._asked
            and _read(answer) == Word(True, None)
            and not run.is_spent(position)
            for position, answer in enumerate(answers)
        )

    def is_a_no_of_elsewhere(self, said: Any, answers: list[Any]) -> bool:
        """Whether the framework has handed out a mere no to what was not asked here: in another
        process, that is. Nobody can tell to what it is, but it does no harm to heed it."""
        return _read(said) == Word(False, None) and not any(
            answer is said and position in self._asked for position, answer in enumerate(answers)
        )

    def _is_to(self, binding: str, position: int, word: Word) -> bool:
        if word.binding is not None:
            return word.binding == binding
        asked = self._asked.get(position, [])
        if not word.allowed:
            return any(each == binding for _, each in asked)
        return (
            bool(asked)
            and not self._forgot
            and all(each == binding and run.open_questions(position) == 1 for run, each in asked)
        )


class _CallUnderWay(NamedTuple):
    """The step that runs, as far as the framework lets on."""

    step: tuple[str, str]
    answers: list[Any]
    counter: Callable[[], int]


def _under_way() -> _CallUnderWay | None:
    """None outside a graph, and in one of a version that keeps its answers in another way: there
    nobody could say what an answer is to, and so nobody is asked."""
    try:
        from langgraph.config import get_config

        given = get_config()["configurable"]
        kept = given["__pregel_scratchpad"]
        step = (str(given.get("thread_id")), str(given["checkpoint_ns"]))
        answers, counter = kept.resume, kept.interrupt_counter
    except (ImportError, KeyError, RuntimeError, AttributeError):
        return None
    return _CallUnderWay(step, answers, counter) if isinstance(answers, list) else None


def _read(answer: Any) -> Word:
    if isinstance(answer, dict):
        binding = answer.get("binding")
        return Word(answer.get("approved") is True, binding if isinstance(binding, str) else None)
    return Word(answer is True, None)
