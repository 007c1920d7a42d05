"""How a test waits: the one room of the tests in which time is allowed to pass.

Whoever can be told awaits the event, the record or the process itself. What is here is for the
rest. A time that is guessed proves nothing on a quiet machine, and is too short on a busy one.

    until           something that another part brings about, and nobody tells of
    loop_turns      the event loop goes round, and no time is meant to pass
    for_ever        what goes on until it is cancelled or killed
    give_a_chance   to what must not come: an absence cannot be awaited
    let_pass        a time that must really pass, since the clock is what is tested or simulated
"""

import asyncio
import functools
import inspect
import time

PATIENCE_S = 60.0
"""How long something may take that should come at once. Only a failing test waits that long."""

LOOK_S = 0.005


async def until(holds, timeout_s=PATIENCE_S):
    """Look again and again until ``holds()`` is true, which may be a coroutine, and give what it
    said. For what has no event: a file of another process, a count inside the product."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, _not_come(holds)
        await asyncio.sleep(LOOK_S)


def until_blocking(holds, timeout_s=PATIENCE_S):
    """The same for a test without an event loop."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, _not_come(holds)
        time.sleep(LOOK_S)
    return found


def _not_come(holds):
    said = holds.func if isinstance(holds, functools.partial) else holds
    return f"it did not come about: {inspect.getsource(said)}"


async def loop_turns(count=1):
    """Let every task that is ready take a step, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def for_ever():
    """What does not end by itself."""
    await asyncio.get_running_loop().create_future()


async def give_a_chance(seconds=0.1):
    """Time for what must not come to come. On a busy machine it proves less, and fails no more."""
    await asyncio.sleep(seconds)


async def let_pass(seconds):
    """A time that must really pass. What is asserted afterwards holds however much longer it
    takes: a slow client, a pause of an attacker, a deadline in the past."""
    await asyncio.sleep(seconds)


def give_a_chance_blocking(seconds=0.1):
    """The same for a test without an event loop."""
    time.sleep(seconds)


def let_pass_blocking(seconds):
    """The same for a test without an event loop."""
    time.sleep(seconds)
