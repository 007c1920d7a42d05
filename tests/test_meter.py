"""Changes of what is counted take turns where they meet, and only there."""

import asyncio

import pytest

from bailiwick.meter import Turns
from bailiwick.paths import ScopedPath


async def _taken(turns, *paths, root="r"):
    """A turn, or the task that waits for it."""
    task = asyncio.ensure_future(turns.take(root, *map(ScopedPath, paths)))
    await asyncio.sleep(0)
    return task


@pytest.mark.spec("AUTH-8")
@pytest.mark.parametrize(
    ("held", "wanted", "waits"),
    [
        (["a"], ["a"], True),
        (["a"], ["a/b"], True),
        (["a/b"], ["a"], True),
        (["a/b"], ["."], True),
        (["."], ["a/b"], True),
        (["a"], ["ab"], False),
        (["a/b"], ["a/c"], False),
        (["a", "x/y"], ["b", "x"], True),
    ],
)
async def test_what_meets_waits(held, wanted, waits):
    turns = Turns()
    first = await (await _taken(turns, *held))
    second = await _taken(turns, *wanted)
    assert second.done() is not waits
    assert (await _taken(turns, *wanted, root="another")).done()
    turns.give_back(first)
    await second


async def test_turns_are_taken_in_order_and_nobody_is_passed_over():
    turns, order = Turns(), []

    async def change(name, *paths):
        turn = await turns.take("r", *map(ScopedPath, paths))
        order.append(name)
        await asyncio.sleep(0)
        turns.give_back(turn)

    await asyncio.gather(
        change(1, "a"), change(2, "."), change(3, "a"), change(4, "b"), change(5, "a/c", "b")
    )
    assert order[:2] == [1, 2]
    assert set(order[2:4]) == {3, 4}
    assert order[4] == 5


@pytest.mark.parametrize("when", ["waiting", "about to go"])
async def test_who_gives_up_keeps_nobody_waiting(when):
    turns = Turns()
    first = await turns.take("r", ScopedPath("a"))
    second, third = await _taken(turns, "a"), await _taken(turns, "a")
    if when == "about to go":
        turns.give_back(first)
    second.cancel()
    await asyncio.wait((second,))
    turns.give_back(first)
    turns.give_back(first)
    turns.give_back(await third)
    assert (await _taken(turns, ".")).done()
