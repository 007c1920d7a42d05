"""A process that is killed while it runs a command, or brings back, applies or undoes."""

import subprocess
import sys

import pytest

import bailiwick
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.working_copies.kills import kill_once

ROUNDS = 6


@pytest.fixture(autouse=True)
def _bubblewrap():
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")


@pytest.mark.slow
@pytest.mark.spec("EXEC-5", "EXEC-8")
@pytest.mark.parametrize("kind", ["directory", "volume", "overlay"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_a_killed_process_left_is_whole_untouched_or_found_again(tmp_path, seed, kind):
    kill_once(tmp_path, kind, seed)


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
