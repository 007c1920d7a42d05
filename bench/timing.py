"""Taking times so that they can be compared on a machine that does other work too.

The contenders of a case take turns: A B C, A B C, … A turn is a block of calls in one loop, long
enough to drown the clock. Each round gives one ratio per contender, to the baseline's block of the
very same round; the median of these ratios is the figure. A disturbance that lasts longer than a
round slows all contenders alike, and one that is shorter spoils one ratio of many.

An asynchronous contender's block awaits its calls one after the other in one coroutine of a running
event loop, as a caller would; a blocking one's block calls, where no loop is to be seen. Neither
pays for starting a loop or a task.
"""

import asyncio
import gc
import math
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Literal

TIMES = "\N{MULTIPLICATION SIGN}"

Clock = Callable[[], int]


@dataclass(frozen=True)
class Contender:
    """One way to do what a case measures."""

    name: str
    call: Callable[[], Any]
    awaits: bool = False
    ours: bool = False
    answer: Callable[[Any], object] | None = None
    """What a call's result says, to be held against what the case expects."""
    every: int = 1
    """Takes part in each so-manieth round only: for those that take seconds a call."""


@dataclass(frozen=True)
class Bar:
    """A figure to reach."""

    contender: str
    against: str
    at_most: float
    kind: Literal["ratio", "extra_ms", "ms"] = "ratio"
    """``ms`` is held against nobody: what the contender takes at most."""
    own: bool = False
    """Nobody asked for it but ourselves."""

    @property
    def text(self) -> str:
        return f"{self.contender}: {self._figure}{' (our own bar)' if self.own else ''}"

    @property
    def _figure(self) -> str:
        if self.kind == "ms":
            return f"≤ {self.at_most:g} ms"
        if self.kind == "extra_ms":
            return f"≤ {self.at_most:g} ms over {self.against}"
        if self.at_most == 1:
            return f"faster than {self.against}"
        return f"≤ {self.at_most:g}{TIMES} {self.against}"


@dataclass(frozen=True)
class Case:
    """What is measured, with everyone who takes part. The first contender is the baseline."""

    key: str
    title: str
    contenders: list[Contender]
    bars: list[Bar] = field(default_factory=list)
    expected: object = None
    rounds: int = 200
    block_ms: float = 0.7
    """How long a turn should take; 0 means one call. Short turns in many rounds: a disturbance then
    spoils few of them."""
    block_calls: int | None = None
    """So many calls make a turn, however long they take: for calls of which each does another
    thing."""
    clock: Clock = perf_counter_ns
    """`process_time_ns` for what a process does however often it is interrupted, in all its
    threads; the time of day for what waits for a disk."""
    note: str = ""


@dataclass
class Timed:
    """The times of one contender: µs a call, by round."""

    name: str
    ours: bool
    rounds: dict[int, float] = field(default_factory=dict)
    failure: str | None = None

    @property
    def median_us(self) -> float:
        return statistics.median(self.rounds.values())

    @property
    def quiet_us(self) -> float:
        """A time that a tenth of the rounds stayed below: those that nothing disturbed."""
        return sorted(self.rounds.values())[len(self.rounds) // 10]

    def ratios(self, other: "Timed") -> list[float]:
        return sorted(us / other.rounds[i] for i, us in self.rounds.items() if i in other.rounds)

    def extra_ms(self, other: "Timed") -> float:
        both = [us - other.rounds[i] for i, us in self.rounds.items() if i in other.rounds]
        return statistics.median(both) / 1000


async def measure(case: Case, rounds: int | None = None) -> list[Timed]:
    """The times of all contenders of a case, in as many rounds as it wants or as it is given."""
    rounds = case.rounds if rounds is None else rounds
    timed = [Timed(contender.name, contender.ours) for contender in case.contenders]
    sizes = [
        await _warmed_up(case, contender, times)
        for contender, times in zip(case.contenders, timed, strict=True)
    ]
    # What exists now stays: a collection during a block looks at that block's own garbage only.
    gc.collect()
    gc.freeze()
    for turn in range(rounds):
        for contender, times, size in zip(case.contenders, timed, sizes, strict=True):
            if times.failure is None and turn % contender.every == 0:
                if case.block_ms:
                    await _block(
                        contender, 1, case.clock
                    )  # whose code and data the others have displaced
                times.rounds[turn] = await _block(contender, size, case.clock) / size / 1000
    gc.unfreeze()
    return timed


async def _warmed_up(case: Case, contender: Contender, times: Timed) -> int:
    """Try the contender, check its answer, and find how many calls make a block."""
    try:
        result = contender.call()
        if isinstance(result, Awaitable):
            result = await result
        if contender.answer is not None and (seen := contender.answer(result)) != case.expected:
            raise ValueError(f"answered {seen!r}, not {case.expected!r}")
        if case.block_calls is not None:
            return case.block_calls
        if case.block_ms == 0:
            return 1
        once_ns = min([await _block(contender, 1, case.clock) for _ in range(3)])
    except Exception as error:
        times.failure = f"{type(error).__name__}: {error}"
        return 1
    return max(1, math.ceil(case.block_ms * 1e6 / once_ns))


async def _block(contender: Contender, size: int, clock: Clock) -> int:
    """Nanoseconds of ``size`` calls one after the other."""
    call = contender.call
    if contender.awaits:
        started = clock()
        for _ in range(size):
            await call()
        return clock() - started
    # Blocking code has no running loop: what is here only to await the others is put aside.
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        started = clock()
        for _ in range(size):
            call()
        return clock() - started
    finally:
        asyncio._set_running_loop(running)
