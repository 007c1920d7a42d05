"""How long one request waits, in all, for what may not answer: a database, a lock, its turn.

Each wait has a bound of its own, and a request has several: it takes a key, looks, changes, keeps
its answer. So what they take is counted together (`keeping`), and each waits no longer than its own
bound and what is left (`waiting`). What is answered at once is not counted, nor is any other time,
in which a person thinks or a client sends: a request that has much to ask of a database that
answers goes on for as long as it takes.

Whoever may not stop half-way does not: what is not begun in time never is, and what is begun ends
in time by itself, since who does it is told until when there is time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final
from weakref import WeakKeyDictionary

from bailiwick.errors import Busy

AT_ONCE_S: Final = 0.5
"""What takes no longer may be waited for when all patience has gone: so a request ends well that
needs one more answer, and there is one."""

UNCOUNTED_S: Final = 0.25
"""What takes no longer is not counted: on a busy machine an answer that was there at once is heard
so late."""

WAITS_SECONDS_MAX: Final = 9.0
"""All waits for databases of one request together. It ends within fifteen seconds: the last wait
may take a second more, to begin at the last moment and to find out what became of it, and what is
to be written down afterwards, twice, half a second more than that."""

_LEVELS_S: Final = (1.0, 2.0, 4.0, 8.0)
"""Of those who have less than that still, each is about as patient as the others between two."""


class RequestPatience:
    """That of one request, from its beginning to its answer."""

    __slots__ = ("_counted", "_seconds", "_spent", "is_over")

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._seconds = seconds
        self._spent = 0.0
        self._counted: list[tuple[float, float]] = []

    def left_s(self, own_s: float | None, part_s: float = 0.0) -> float:
        """How long a wait with a bound of its own may take: never longer than that. Where that, or
        a part of it that is bounded by itself, may take more than all there was at first, all of
        it counts from there."""
        left = max(AT_ONCE_S, max(self._seconds, part_s, own_s or 0.0) - self._spent)
        return left if own_s is None else min(own_s, left)

    def count(self, since: float, until: float) -> None:
        """Somebody has waited from then until then. Waits at the same time are one, whichever of
        them is the first to begin or to end."""
        if until - since <= UNCOUNTED_S:
            return
        apart = list[tuple[float, float]]()
        for begun, ended in self._counted:
            if ended < since or begun > until:
                apart.append((begun, ended))
            else:
                self._spent -= ended - begun
                since, until = min(since, begun), max(until, ended)
        self._spent += until - since
        self._counted = [*apart, (since, until)]


_current: ContextVar[RequestPatience | None] = ContextVar("bailiwick_patience", default=None)

_under_way: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, set[RequestPatience]]] = (
    WeakKeyDictionary()
)
"""Of the requests that an event loop is busy with."""


@contextmanager
def keeping(seconds: float) -> Iterator[None]:
    """Have all that is waited for meanwhile take no longer in sum. What was begun meanwhile and
    goes on afterwards is bound by nothing but itself."""
    patience = RequestPatience(seconds)
    under_way = _under_way.setdefault(asyncio.get_running_loop(), set())
    under_way.add(patience)
    token = _current.set(patience)
    try:
        yield
    finally:
        patience.is_over = True
        under_way.discard(patience)
        _current.reset(token)


def for_nobody() -> None:
    """For a task that works for many: it is not bound by the patience of whoever came first."""
    _current.set(None)


@contextmanager
def waiting(own_s: float | None = None, *, part_s: float = 0.0) -> Iterator[float | None]:
    """Wait for something, for as many seconds as this gives; None is for ever. ``own_s`` is the
    bound that the wait has by itself, ``part_s`` that of a part of it, where an operator has set
    that higher."""
    patience = _current.get()
    if patience is None or patience.is_over:
        yield own_s
        return
    clock = asyncio.get_running_loop().time
    since = clock()
    try:
        yield patience.left_s(own_s, part_s)
    finally:
        patience.count(since, clock())


@contextmanager
def standing_still(own_s: float, clock: Callable[[], float]) -> Iterator[float]:
    """Have an event loop stand still for something, for as many seconds as this gives. All whose
    requests it is busy with wait meanwhile, whoever asked. ``clock`` is that of the event loop as
    it would go on: its own may stand still with it."""
    patience = _current.get()
    since = clock()
    try:
        yield own_s if patience is None or patience.is_over else patience.left_s(own_s)
    finally:
        until = clock()
        for each in _under_way.get(asyncio.get_running_loop(), ()):
            each.count(since, until)


def level(until: float | None, now: float) -> int:
    """How patient somebody is still who waits until then; None is for ever. What many do together
    ends with the patience of the least patient, so those do who are of one level: nobody's work is
    given up for somebody whose time is over long before."""
    return len(_LEVELS_S) if until is None else bisect(_LEVELS_S, until - now)


def never_begun() -> Busy:
    """For whoever waited for a turn that did not come: nothing was done, and nothing will be."""
    return Busy(
        "others who are before this one do not end in time", hint="try again in a moment",
        details={"retry_after_s": 1.0},
    )  # fmt: skip
