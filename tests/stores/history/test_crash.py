"""Whenever the process dies: the tree is never torn, and what history says is true."""

import random
import signal
import subprocess
import sys

import pytest

from bailiwick.errors import PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.versions import Undoing
from tests.laws.citations import ROOT
from tests.stores.history.crashes import is_whole
from tests.stores.history.places import by, opened
from tests.stores.history.test_undo import everything
from tests.stores.trees import litter
from tests.waiting import let_pass_blocking

pytestmark = pytest.mark.spec("DISK-8", "DISK-4")

KILLS = 20


def run_until_killed(place, seed, seconds):
    """What the process said before it was killed at some instant after it began to work."""
    command = [sys.executable, "-m", "tests.stores.history.crashes", str(place), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        said = [process.stdout.readline()]
        let_pass_blocking(seconds)
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read().splitlines()
    told = [line.decode().split() for line in said]
    return [line for line in told if len(line) >= 2]  # the kill may have cut the last one short


@pytest.mark.slow
async def test_a_killed_process_leaves_a_whole_tree_and_a_true_history(tmp_path):
    tree = tmp_path / "tree"
    dice = random.Random(20)
    interrupted = 0
    for seed in range(KILLS):
        said = run_until_killed(tmp_path, seed, dice.uniform(0.0, 0.15))
        done = {line[1] for line in said if line[0] == "done"}
        under_way = [line[1] for line in said[-1:] if line[0] == "begin"]
        interrupted += len(under_way)
        async with opened(tmp_path) as fs:
            for name, data in everything(tree).items():
                assert data is None or is_whole(data), name
            ledger = fs.store._core.ledger
            await fs.store._core.recorder.settle_dead()
            assert ledger.entries("WHERE owner <> ''") == []
            told = {entry.request for entry in ledger.entries("")}
            # Whatever was acknowledged and changed something is on record.
            quiet = {request for request in done if request not in told}
            assert len(quiet) < max(1, len(done)), "nothing was written down"
            await check_last_effects(fs, tree)
            # And what history says can be acted on: the last change is taken back and made again.
            before = everything(tree)
            newest = str(ledger.last())
            try:
                undone = await by(fs, "me", f"u{seed}").store.versions.undo(
                    Undoing(first=newest, last=newest)
                )
            except PathNotFound:
                continue
            if undone.version is not None:
                again = await by(fs, "me", f"v{seed}").store.versions.undo(
                    Undoing(request_id=f"u{seed}")
                )
                assert again.plan.conflicts == ()
            assert everything(tree) == before
    assert interrupted > KILLS // 4, "the process was hardly ever killed in the midst of a change"
    assert litter(tmp_path) == []


ACKNOWLEDGED = """
import asyncio, os, sys
from pathlib import Path
from bailiwick.stores.history import ledger
from bailiwick.testing.driver import StoreDriver
from tests.stores.history.places import by, open_place

ledger.FINISH_S = 600.0  # nothing is added but with the next change
ledger._HERE_S = float(sys.argv[2])

async def work():
    fs = StoreDriver(open_place(Path(sys.argv[1])))
    agent = by(fs, "agent:run", "r1")
    await agent.write("new", b"one")
    await agent.write("new", b"two")
    await agent.write("new", b"one")
    await agent.append("new", b", and more")
    await agent.write("gone", b"three")
    await agent.remove("gone")
    await agent.write("last", b"four")
    os._exit(0)

asyncio.run(work())
"""


@pytest.mark.parametrize("quick_s", ["10", "0"], ids=["quick disk", "slow disk"])
async def test_what_was_acknowledged_can_be_undone_though_its_end_was_not_written(
    tmp_path, quick_s
):
    command = [sys.executable, "-c", ACKNOWLEDGED, str(tmp_path), quick_s]
    subprocess.run(command, cwd=ROOT, check=True)
    async with opened(tmp_path) as fs:
        assert everything(tmp_path / "tree") == {"new": b"one, and more", "last": b"four"}
        undone = await by(fs, "me", "u1").store.versions.undo(Undoing(request_id="r1"))
        assert undone.plan.conflicts == ()
        assert everything(tmp_path / "tree") == {}


async def check_last_effects(fs, tree):
    """What the newest entry of a place says it left is what stands there."""
    core = fs.store._core
    rows = core.ledger.rows("SELECT path, max(entry) FROM effect GROUP BY path")
    for path, _ in rows:
        happened = next(iter(core.lineage.of(ScopedPath(path))), None)
        if happened is None or (happened.after is not None and happened.after.lost):
            continue  # said not to be known
        stands = tree / path
        if happened.after is None:
            assert not stands.exists(), path
        elif happened.after.type == "file":
            assert stands.is_file(), path
            now = await core.looker.now(ScopedPath(path))
            assert now.sha256 == happened.after.sha256 or happened.after.sha256 is None, path
        else:
            assert stands.is_dir(), path
