"""Killed at any instant: the chain holds, and no change is without its record."""

import asyncio
import random
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.killing import killed_at_work
from tests.laws.repository import ROOT
from tests.state.ledgers import ledger_at

KILLS = 30

pytestmark = pytest.mark.spec("AUDIT-3")


@contextmanager
def worker(directory, name, count):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.state.ledger_worker", str(directory), name, str(count)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "ready\n"
        yield process


def killed_after(directory, name, lines, seconds):
    """Let a worker go, kill it, and return what it had acknowledged until then."""
    with worker(directory, name, 1_000_000) as process:
        return killed_at_work(process, lines, seconds)


async def everything(ledger):
    records, cursor = [], None
    while True:
        page = await ledger.query(cursor=cursor, limit=1000)
        records += page.records
        cursor = page.next_cursor
        if cursor is None:
            return records


@pytest.mark.slow
async def test_killed_at_random_instants_nothing_acknowledged_is_without_a_record(tmp_path):
    state, tree = tmp_path / "state", tmp_path / "tree"
    chance = random.Random(7)
    acknowledged, interrupted, head = set(), 0, None
    for kill in range(KILLS):
        said = await asyncio.to_thread(
            killed_after, state, f"w{kill}", chance.randrange(4), chance.uniform(0.0, 0.08)
        )
        acknowledged.update(line for line in said if line.rpartition("-")[2].isdigit())
        async with ledger_at(state) as ledger:
            interrupted += len(ledger.interrupted)
            found = await ledger.verify(head)
            assert (found.ok, found.tail_proved) == (True, head is not None), found.words
            assert ledger._database.read("SELECT count(*) FROM ledger_intents") == [(0,)]
            head = ledger.head()
    async with ledger_at(state) as ledger:
        records = await everything(ledger)
    on_record = [each.request_id for each in records if each.verb != "read_text"]
    assert len(set(on_record)) == len(on_record)  # each once
    assert acknowledged <= set(on_record)
    # And what was done and never acknowledged is on record too.
    assert {path.name for path in tree.iterdir()} <= set(on_record)
    assert interrupted == sum(each.error_kind == "interrupted" for each in records)
    assert acknowledged
    assert interrupted


@pytest.mark.slow
async def test_two_processes_append_to_one_chain(tmp_path):
    state = tmp_path / "state"

    def run(name):
        with worker(state, name, 200) as process:
            return process.stdout.read().split()

    said = await asyncio.gather(*(asyncio.to_thread(run, name) for name in ("a", "b", "c")))
    async with ledger_at(state) as ledger:
        assert ledger.interrupted == ()
        found = await ledger.verify()
        assert found.ok, found.words
        records = await everything(ledger)
        assert found.records == len(records) == 3 * (200 + 50 + 13)
        on_record = {each.request_id for each in records}
        assert {line for lines in said for line in lines} <= on_record
        assert [each.seq for each in records] == list(range(len(records), 0, -1))
