"""What is to be done in a transaction, and what became of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import apsw

Ended = Callable[[Any, BaseException | None], None]
"""Is told what a task returned or raised."""


class Task:
    """Something to be done in a transaction.

    ``ended`` runs on ``loop``, or on the writer's thread where that is None. ``due`` is when the
    task is to be begun at the latest, by the monotonic clock: it may wait so long for company.
    ``still_due`` is asked when it would be begun for its own sake: when it has to be after all, or
    None where there is nothing left to do. ``until`` is when whoever waits has no more patience, by
    the monotonic clock. ``watched`` is for a caller that stands still for a moment until the task
    is done.
    """

    __slots__ = (
        "_claim", "control", "due", "ended", "job", "loop", "outcome", "still_due", "until",
        "watched",
    )  # fmt: skip

    def __init__(
        self,
        job: Callable[[apsw.Connection], Any],
        ended: Ended,
        loop: asyncio.AbstractEventLoop | None,
        *,
        control: bool = False,
        due: float = 0.0,
        still_due: Callable[[], float | None] | None = None,
        until: float | None = None,
    ) -> None:
        self.job = job
        self.ended = ended
        self.loop = loop
        self.control = control
        self.due = due
        self.still_due = still_due
        self.until = until
        self.watched: Watched | None = None
        self.outcome: TaskDone | None = None  # once it was told
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """Whether the caller of this may decide what becomes of the task: the first one may.

        The writer claims it to run it, whoever waits for it to withdraw it.
        """
        return self._claim.acquire(blocking=False)


class Watched:
    """Where a caller that stands still finds what became of its task.

    Whoever comes first decides: the thread that is done leaves its answer here, unless the caller
    has gone on meanwhile and is to be told by its event loop.
    """

    __slots__ = ("_answered", "_decided", "done")

    def __init__(self) -> None:
        self.done: TaskDone | None = None
        self._decided = threading.Lock()
        self._answered = threading.Lock()
        self._answered.acquire()

    def answer(self, done: TaskDone) -> bool:
        if not self._decided.acquire(blocking=False):
            return False
        self.done = done
        self._answered.release()
        return True

    def wait(self, seconds: float) -> TaskDone | None:
        """What became of the task; None where that is not known yet."""
        if not self._answered.acquire(timeout=seconds) and not self._decided.acquire(
            blocking=False
        ):
            self._answered.acquire()  # it is being answered at this instant
        return self.done


class TaskDone:
    """What became of a job that was tried, and what is to be done once it is committed."""

    __slots__ = ("committed", "error", "is_begun", "is_kept", "result")

    def __init__(self, error: BaseException | None = None) -> None:
        self.result: Any = None
        self.error = error
        self.is_begun = False
        """Whether the job was called: else its transaction could not be begun."""
        self.is_kept = False
        """Whether what it did was committed, whatever was raised later."""
        self.committed: list[Callable[[], None]] = []

    def unwrap(self) -> Any:
        """What the job returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.result
