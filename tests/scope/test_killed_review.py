"""Whoever is killed while they take back what an agent did leaves each file as it was or as it is
to be; nobody's lines are lost, going on does the rest, and the agent is told once."""

import asyncio
import itertools
import signal
import sys

import pytest

from bailiwick import Authority
from tests.scope.killed_review import ACTS
from tests.scope.test_out_of_room import done, neither
from tests.scope.test_review import ids
from tests.scope.test_runs import each_kind, rooted
from tests.scope.volumes import tree

pytestmark = pytest.mark.slow

STEP = {"directory": 23, "volume": 5}
"""Instants of which one is tried: with 1 there are some dozens of a directory."""


async def killed(place, kind, act, instant):
    """Whether the process was killed before it was done."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.scope.killed_review", str(place), kind, act, str(instant),
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), said.decode()
    return process.returncode != 0


@pytest.mark.spec("RUN-3", "REVIEW-1", "REVIEW-3", "PAST-1")
@pytest.mark.parametrize("act", ACTS)
@each_kind
async def test_killed_at_any_instant(tmp_path, kind, act):
    for instant in itertools.count(1, STEP[kind]):
        place = tmp_path / str(instant)
        place.mkdir()
        async with rooted(place, kind) as (person, agent):
            planted = place / "tree" if kind == "directory" else None
            wanted = await done(planted, person, agent)
            before = await tree(person)
        was_killed = await killed(place, kind, act, instant)
        async with rooted(place, kind) as (person, agent):
            now = await tree(person)
            if not was_killed:
                assert now == wanted
            assert neither(before, wanted, now) == set(), instant
            left = await ids(person)
            assert bool(left) == (now != wanted), instant
            if left:
                assert (await ACTS[act](person)).conflicts == [], instant
            assert await tree(person) == wanted, instant
            assert await ids(person) == [], instant
            notes = await (await agent("one")).review.notes()
            told = [(str(each.path), tuple(each.lines)) for each in notes]
            assert len(set(told)) == len(told), instant
            assert ("edited" in dict(told)) == (act == "reject"), instant
        async with Authority.open(state_dir=str(place / "state")) as authority:
            assert (await authority.ledger.verify()).ok, instant
        if not was_killed:
            break
    assert instant > 3 * STEP[kind]
