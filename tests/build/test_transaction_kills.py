"""kill -9 of processes that commit transactions through a scope: all of one and its record, or
nothing of it and no record that it came to pass."""

import asyncio
import random
import subprocess
import sys

import pytest

from bailiwick.stores.volume import VolumeStore
from tests.build.transaction_worker import FILES
from tests.build.volume_houses import configuration, house, in_volume
from tests.killing import killed_at_work
from tests.laws.repository import ROOT

pytestmark = pytest.mark.slow

KILLS = 30
LIFE_S_MAX = 0.1


def killed(tmp_path, name, lines, seconds):
    """Have a process commit until it is killed, and read what it said."""
    arguments = [configuration(tmp_path), tmp_path / "state", name]
    command = [sys.executable, "-m", "tests.build.transaction_worker", *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            said = killed_at_work(process, lines, seconds)
        finally:
            process.kill()
        return [line for line in said if line.startswith(f"{name}-")]


def states(tmp_path):
    """What the transactions have left: the text of each file, by the rows of the volume itself."""
    rows = in_volume(
        tmp_path,
        "SELECT d.name, i.data FROM dentry d JOIN inode i ON i.branch = d.branch AND i.id = d.node"
        " AND i.born = (SELECT max(e.born) FROM inode e"
        "  WHERE e.branch = d.branch AND e.id = d.node)"
        " WHERE d.branch = 2 AND d.died = 9223372036854775807 AND d.kind = 1",
    )
    texts = {data.decode() for name, data in rows if not name.startswith("only-")}
    only = {name.removeprefix("only-") for name, _ in rows if name.startswith("only-")}
    return len(rows), texts, only


@pytest.mark.spec("VOL-7", "AUDIT-3", "VOL-3")
async def test_killed_at_random_instants_a_transaction_is_whole_and_on_record_or_not_there(
    tmp_path,
):
    chance, acknowledged, torn, newest = random.Random(7), [], [], None
    for kill in range(KILLS):
        said = await asyncio.to_thread(
            killed, tmp_path, f"w{kill}", chance.randrange(4), chance.uniform(0.0, LIFE_S_MAX)
        )
        acknowledged += said
        if not states(tmp_path)[0]:
            assert not said
            continue
        count, texts, only = states(tmp_path)
        if not (count == FILES + 1 and len(texts) == 1 and texts == only):
            torn.append((kill, count, texts, only))
        last = int(said[-1].rpartition("-")[2]) if said else 0
        allowed = {said[-1] if said else newest, f"w{kill}-{last + 1}"}
        (newest,) = texts
        assert newest in allowed, "what was acknowledged last, or the one that was under way"
    assert torn == []
    assert len(acknowledged) > KILLS // 2
    committed = [
        row[0]
        for row in in_volume(
            tmp_path, "SELECT request FROM change WHERE branch = 2 AND verb = 'transaction'"
        )
    ]
    assert len(set(committed)) == len(committed)
    assert set(acknowledged) <= set(committed)
    async with house(tmp_path) as opened:
        records = await opened.records()
        assert (await opened.authority.ledger.verify()).ok
    commits = [
        each.request_id
        for each in records
        if each.verb == "transaction" and each.outcome == "success"
    ]
    # Those too that nobody was told of any more, each once, and none that did not come to pass.
    assert sorted(commits) == sorted(committed)
    store = VolumeStore.open(str(tmp_path / "agent.db"), volume="demo")
    try:
        assert (await store.versions.check()).problems == []
    finally:
        await store.aclose()


@pytest.mark.spec("VOL-7")
def test_half_a_transaction_would_be_noticed(tmp_path):
    """The control: one file of a whole transaction changed by hand, and the look at it says so."""
    assert killed(tmp_path, "w", 1, 0.0)
    count, texts, only = states(tmp_path)
    assert (count, texts) == (FILES + 1, only)
    in_volume(tmp_path, "UPDATE inode SET data = x'78' WHERE rowid = ("
        "SELECT max(rowid) FROM inode WHERE branch = 2 AND length(data) < 20)")  # fmt: skip
    assert states(tmp_path)[1] != only
