"""Agents and a person change the same file at random, and verdicts are given at random: the queue
is what differs between what was agreed to and what stands there."""

import asyncio
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick import Authority, User
from bailiwick.grant import AgentRun
from tests.scope.test_runs import ACCESS

pytestmark = pytest.mark.slow

SLOTS = 3
slots = st.integers(0, SLOTS - 1)
deeds = st.one_of(
    st.tuples(st.sampled_from(["one", "two", "person"]), slots, st.sampled_from("abc")),
    st.tuples(st.sampled_from(["accept", "reject"]), slots, st.just("")),
)


@pytest.mark.spec("REVIEW-1")
@settings(max_examples=25, deadline=None)
@given(st.lists(deeds, min_size=2, max_size=10))
def test_the_queue_is_what_differs_from_what_was_agreed_to(deeds):
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(played(deeds, f"sqlite:{directory}/v.db"))


async def played(deeds, place):
    agreed, now = ["a"] * SLOTS, ["a"] * SLOTS

    def content():
        return "".join(f"{each}{n}\n-{n}-\n" for n, each in enumerate(now))

    async with Authority.open() as authority:
        await authority.add_root("workspace:w", place, trusted=True)
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        agents = {name: await person.delegate(AgentRun("chat", name)) for name in ("one", "two")}
        await person.write_text("f", content())
        for what, slot, value in deeds:
            if what in ("one", "two", "person"):
                if what == "person" and value != now[slot]:
                    agreed[slot] = value
                now[slot] = value
                await agents.get(what, person).write_text("f", content())
            else:
                wanted = f"+{now[slot]}{slot}"
                chosen = [each for each in await hunks(person) if wanted in each.lines]
                assert bool(chosen) == (agreed[slot] != now[slot])
                if not chosen:
                    continue
                if what == "accept":
                    await person.review.accept([each.id for each in chosen])
                    agreed[slot] = now[slot]
                else:
                    await person.review.reject([each.id for each in chosen], note=what)
                    now[slot] = agreed[slot]
            assert (await person.read_text("f")).text == content()
            assert [
                [line for line in each.lines if line[0] in "+-"] for each in await hunks(person)
            ] == [
                [f"-{agreed[n]}{n}", f"+{now[n]}{n}"] for n in range(SLOTS) if agreed[n] != now[n]
            ]


async def hunks(person):
    queue = await person.review.queue()
    found = [hunk for file in queue.files for hunk in file.hunks]
    assert queue.left == len(found)
    return found
