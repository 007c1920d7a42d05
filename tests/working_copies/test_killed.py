"""A process that is killed while it runs a command or brings its changes back."""

import random
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.killing import killed_at_work

ROUNDS = 6


@pytest.fixture(autouse=True)
def _bubblewrap():
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")


def start(place, state):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.working_copies.program", str(place), str(state)],
        stdout=subprocess.PIPE,
        text=True,
    )


async def settled(place, state):
    """What stands there once the root was opened again."""
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        left = await fs.work()
        for each in left:
            async with await fs.open_work(each.id) as work:
                await work.discard()
        assert await fs.work() == []
        files = [each for each in (await fs.find(".")).matches if each.type == "file"]
        return {str(each.path): (await fs.read_text(each.path)).text for each in files}


@pytest.mark.slow
@pytest.mark.spec("EXEC-5", "EXEC-8")
@pytest.mark.parametrize("kind", ["directory", "volume"])
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_what_a_killed_process_was_bringing_back_is_there_whole_or_not_at_all(
    tmp_path, seed, kind
):
    directory, state = tmp_path / "place", tmp_path / "state"
    directory.mkdir()
    place = str(directory) if kind == "directory" else f"sqlite:{tmp_path}/agent.db"
    chance = random.Random(seed)
    with start(place, state) as process:
        said = killed_at_work(process, 1, chance.uniform(0, 0.5))
    acknowledged = int(said[-1])
    found = await settled(place, state)
    assert len(found) == 16
    (count,) = {int(each) for each in found.values()}
    assert count in (acknowledged, acknowledged + 1)
    assert not list(directory.rglob(".bailiwick~*"))


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("steps", range(4))
async def test_what_was_being_taken_back_is_taken_back(tmp_path, steps):
    """One change fails, so that all are undone, and the process dies in the middle of that."""
    place, state = tmp_path / "place", tmp_path / "state"
    place.mkdir()
    for name in ("a", "gone"):
        (place / name).write_text("old\n")
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        shell = "rm gone; echo new > a; mkdir d; echo new > d/b; echo new > e; echo new > zz"
        result = await fs.exec(shell=shell, publish="manual").result()
    words = ["-m", "tests.working_copies.failing_program", place, state, result.work_id, steps]
    died = subprocess.run([sys.executable, *map(str, words)], check=False)
    assert died.returncode == 9
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        found = {each.name: each.read_text() for each in place.iterdir()}
        assert found == {"a": "old\n", "gone": "old\n"}
        async with await fs.open_work(result.work_id) as work:
            told = {str(each.path) for each in (await work.changes()).changes}
            assert told == {"a", "gone", "d", "d/b", "e", "zz"}
            assert not (await work.apply()).conflicts
        assert (place / "d" / "b").read_text() == "new\n"
