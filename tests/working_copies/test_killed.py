"""A process that is killed while it runs a command, or brings back, applies or undoes."""

import os
import shutil
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.sandboxes.steps import TREES, pictured, taken
from tests.working_copies.kills import kill_once
from tests.working_copies.test_what_cannot_be_made_anew import look

pytestmark = pytest.mark.slow

ROUNDS = 6


@pytest.fixture(autouse=True)
def _bubblewrap():
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")


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


def _irreplaceable(place):
    """A tree of which most cannot be made anew, and a script that takes all of that away."""
    (place / "d").mkdir(parents=True)
    for name in ("out", "over", "d/out"):
        os.symlink("/nowhere/outside", place / name)
    os.mkfifo(place / "d" / "fifo")
    (place / "gone").write_text("old\n")
    return "rm -r out d gone over; echo new > over; echo new > zz"


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("steps", range(7))
async def test_what_cannot_be_made_anew_is_put_back_by_whoever_opens_next(tmp_path, steps):
    place, state = tmp_path / "place", tmp_path / "state"
    script = _irreplaceable(place)
    before = look(place)
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        result = await fs.exec(shell=script, publish="manual").result()
    words = ["-m", "tests.working_copies.failing_program", place, state, result.work_id, steps]
    died = subprocess.run([sys.executable, *map(str, words)], check=False)
    assert died.returncode == (9 if steps < 6 else 1)
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert look(place) == before
        async with await fs.open_work(result.work_id) as work:
            assert "zz" in {str(each.path) for each in (await work.changes()).changes}


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("steps", range(12))
async def test_what_cannot_be_made_anew_is_gone_whole_once_all_is_done(tmp_path, steps):
    place, state = tmp_path / "place", tmp_path / "state"
    script = _irreplaceable(place)
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        result = await fs.exec(shell=script, publish="manual").result()
    words = ["-m", "tests.working_copies.dying_program", place, state, result.work_id, steps]
    died = subprocess.run([sys.executable, *map(str, words)], check=False)
    assert died.returncode == 9
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert await fs.work() == []
    assert sorted(os.listdir(place)) == ["over", "zz"]


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


async def _died_moving(place, state, steps):
    (place / "old" / "in" / "deep").mkdir(parents=True)
    for name in ("old/in/f", "old/in/deep/f"):
        (place / name).write_text("held nowhere else\n")
    script = "mv old new; chmod 700 new; echo n > new/in/n; echo n > new/in/deep/n"
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        result = await fs.exec(shell=script, publish="manual").result()
    words = ["-m", "tests.working_copies.dying_program", place, state, result.work_id, steps]
    return subprocess.run([sys.executable, *map(str, words)], check=False).returncode == 9


@pytest.mark.spec("EXEC-8", "EXEC-9")
@pytest.mark.parametrize("steps", range(14))
async def test_so_does_what_lies_deep_in_one(tmp_path, steps):
    """What was removed from its old place already, with the directories around it, is found in
    what was put aside."""
    place, state = tmp_path / "place", tmp_path / "state"
    died = await _died_moving(place, state, steps)
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert await fs.work() == []
    held = {str(x.relative_to(place)): x.read_text() for x in place.rglob("*") if x.is_file()}
    assert held == {
        "new/in/f": "held nowhere else\n", "new/in/deep/f": "held nowhere else\n",
        "new/in/n": "n\n", "new/in/deep/n": "n\n",
    }  # fmt: skip
    assert died or steps > 5


@pytest.mark.spec("EXEC-8")
async def test_what_lies_nowhere_else_stays_until_it_can_be_brought_back(tmp_path):
    place, state = tmp_path / "place", tmp_path / "state"
    assert await _died_moving(place, state, 5)
    if (place / "old").exists():
        pytest.skip("it is brought back as a move, and lies where it lay")
    theirs = place / "new" / "in" / "f"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs\n")
    for _ in range(2):
        async with bailiwick.open(place, state_dir=str(state)) as fs:
            assert len(await fs.work()) == 1
        assert theirs.read_text() == "theirs\n"
    theirs.unlink()
    async with bailiwick.open(place, state_dir=str(state)):
        assert theirs.read_text() == "held nowhere else\n"


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("kind", ["file", "symlink"])
async def test_names_of_one_thing_that_a_killed_process_was_changing_are_changed(
    tmp_path, kind, steps
):
    place, state = tmp_path / "place", tmp_path / "state"
    place.mkdir()
    if kind == "file":
        (place / "a").write_text("old\n")
    else:
        (place / "a").symlink_to("old")
    for name in "bcde":
        os.link(place / "a", place / name, follow_symlinks=False)
    shell = "rm a b; rm c; echo new > c; mv d f"
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        result = await fs.exec(shell=shell, publish="manual").result()
    words = ["-m", "tests.working_copies.dying_program", place, state, result.work_id, steps]
    died = subprocess.run([sys.executable, *map(str, words)], check=False)
    assert died.returncode == 9 or steps > 2
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert await fs.work() == []
    assert sorted(os.listdir(place)) == ["c", "e", "f"]
    assert (place / "c").read_text() == "new\n"


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
