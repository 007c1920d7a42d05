"""A process that is killed while it runs a command, or brings back, applies or undoes."""

import shutil
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.sandboxes.steps import TREES, pictured, taken
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.spec("EXEC-8", "EXEC-9")
@pytest.mark.parametrize("steps", range(10))
async def test_moved_directories_that_a_killed_process_was_bringing_back_come_whole(
    tmp_path, steps
):
    """What lies nowhere but in its old place is read from there, whatever stands there by then."""
    place, seen, state = (tmp_path / name for name in ("place", "seen", "state"))
    place.mkdir()
    taken(TREES, place)
    shutil.copytree(place, seen, symlinks=True)
    script = "mv a x; mv b a; mv x b; echo n > b/n"
    subprocess.run(["/bin/sh", "-ec", script], cwd=seen, check=True, umask=0o022)
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        result = await fs.exec(shell=script, publish="manual").result()
    words = ["-m", "tests.working_copies.dying_program", place, state, result.work_id, steps]
    died = subprocess.run([sys.executable, *map(str, words)], check=False)
    assert died.returncode == 9
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert await fs.work() == []
    assert pictured(place) == pictured(seen)


DIES_WHILE_IT_REMOVES = """
import asyncio, os, sys
import bailiwick
from bailiwick.working_copies import removal

async def main(place, state):
    async with bailiwick.open(place, state_dir=state) as fs:
        unlink, left = os.unlink, 2
        def dying(*args, **how):
            nonlocal left
            left -= 1
            os._exit(9) if left < 0 else unlink(*args, **how)
        removal.os = type("", (), {**vars(os), "unlink": staticmethod(dying)})
        await fs.exec(shell="echo new > a").result()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.spec("EXEC-8")
async def test_what_a_killed_process_was_removing_goes_when_the_root_is_opened_again(tmp_path):
    place, state = tmp_path / "place", tmp_path / "state"
    place.mkdir()
    words = [sys.executable, "-c", DIES_WHILE_IT_REMOVES, str(place), str(state)]
    assert subprocess.run(words, check=False).returncode == 9
    assert list(state.glob("work/*/*/*")), "it was killed too late"
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert (place / "a").read_text() == "new\n"
        assert await fs.work() == []
        assert list(state.glob("work/*/*")) == []


@pytest.mark.spec("EXEC-8")
async def test_nothing_is_left_of_a_working_copy_when_its_root_is_closed(tmp_path):
    place, state = tmp_path / "place", tmp_path / "state"
    place.mkdir()
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert (await fs.exec(shell="echo new > a").result()).changes
        assert await fs.work() == []
    assert list(state.glob("work/*/*")) == []
