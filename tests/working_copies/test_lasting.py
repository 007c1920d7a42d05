"""What of a working copy outlives the machine, and from when on."""

import subprocess
import sys
from pathlib import Path

import pytest

import bailiwick
from bailiwick.stores.disk import syscalls

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture
def flushes(tmp_path, monkeypatch):
    """Of each time that all of the filesystem was flushed: what lay in the working copy."""
    place, flush = tmp_path / "place", syscalls.flush_all
    place.mkdir()
    (place / "a").write_text("old\n")
    found = []

    def noting(fd):
        copy = Path(f"/proc/self/fd/{fd}").resolve()
        if (copy / "upper").is_dir():
            upper = {each.name: each.read_text() for each in (copy / "upper").iterdir()}
            found.append((upper, (copy / "publishing").exists(), (place / "a").read_text()))
        flush(fd)

    monkeypatch.setattr(syscalls, "flush_all", noting)
    return found


def opened(tmp_path):
    return bailiwick.open(tmp_path / "place", state_dir=str(tmp_path / "state"))


@pytest.mark.spec("EXEC-8")
async def test_a_command_that_changes_nothing_flushes_nothing(tmp_path, flushes):
    async with opened(tmp_path) as fs:
        assert (await fs.exec(["/bin/true"]).result()).exit_code == 0
    assert flushes == []


@pytest.mark.spec("EXEC-8")
async def test_what_was_changed_is_durable_before_any_of_it_is_brought_back(tmp_path, flushes):
    """Whoever finds that it is being brought back finds all of it, after a loss of power too."""
    async with opened(tmp_path) as fs:
        result = await fs.exec(shell="echo new > a; echo new > b").result()
    assert {str(each.path) for each in result.changes} == {"a", "b"}
    first, was_begun, in_the_tree = flushes[0]
    assert first == {"a": "new\n", "b": "new\n"}
    assert (was_begun, in_the_tree) == (False, "old\n")


@pytest.mark.spec("EXEC-8")
async def test_what_is_left_is_durable_when_that_is_told(tmp_path, flushes):
    async with opened(tmp_path) as fs:
        result = await fs.exec(shell="echo new > a", publish="manual").result()
        assert result.work_id is not None
        assert [upper for upper, _, _ in flushes] == [{"a": "new\n"}]


@pytest.mark.spec("EXEC-3")
@pytest.mark.parametrize("lasts", [True, False])
async def test_programs_of_a_session_flush_what_they_like(tmp_path, lasts):
    """Its working copy outlives its commands; that of one command is flushed when it is over."""
    (tmp_path / "place").mkdir()
    options = "grep ' overlay rw' /proc/self/mounts"
    async with opened(tmp_path) as fs, fs.session() as session:
        execution = (session if lasts else fs).exec(shell=options)
        said = b"".join([piece.data async for piece in execution])
        await execution.result()
    assert said.count(b" overlay ") == 1
    assert (b"volatile" in said) is not lasts


MARKS = "work/*/*/volatile"
RUNS = """
import asyncio, sys, bailiwick
async def main(place, state):
    async with bailiwick.open(place, state_dir=state) as fs:
        async for piece in fs.exec(shell="echo new > a; mkdir d; echo new > d/b; echo; sleep 1000"):
            print("changed", flush=True)
asyncio.run(main(*sys.argv[1:]))
"""


def killed_in_a_command(tmp_path):
    """What marks the working copy of a command whose process was killed."""
    place, state = tmp_path / "place", tmp_path / "state"
    place.mkdir()
    (place / "a").write_text("old\n")
    words = [sys.executable, "-c", RUNS, str(place), str(state)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "changed\n"
        process.kill()
    (volatile,) = state.glob(MARKS)
    return volatile


@pytest.mark.spec("EXEC-8")
async def test_what_a_machine_that_ended_has_torn_is_withheld(tmp_path):
    """Another name of the start of the machine stands for that."""
    volatile = killed_in_a_command(tmp_path)
    volatile.write_text("0b5b7c1e-0000-4000-8000-000000000000")
    for _ in range(2):  # also for whoever opens it next
        async with opened(tmp_path) as fs:
            (left,) = await fs.work()
            async with await fs.open_work(left.id) as work:
                shown = await work.changes()
                assert shown.changes == []
                assert {each.path for each in shown.withheld} == {"a", "d", "d/b"}
                assert all("may not be whole" in each.reason for each in shown.withheld)
                for publish in ("atomic", "partial"):
                    assert (await work.apply(publish=publish)).changes == []
    assert (tmp_path / "place" / "a").read_text() == "old\n"
    async with opened(tmp_path) as fs, await fs.open_work(left.id) as work:
        await work.discard()
        assert await fs.work() == []


@pytest.mark.spec("EXEC-8")
async def test_what_a_killed_process_left_is_offered_while_the_machine_runs(tmp_path):
    """The control: and when it was flushed, whatever becomes of the machine."""
    volatile = killed_in_a_command(tmp_path)
    async with opened(tmp_path) as fs:
        (left,) = await fs.work()
        async with await fs.open_work(left.id) as work:
            assert {str(each.path) for each in (await work.changes()).changes} == {"a", "d", "d/b"}
            await work.apply(["d"])
        assert not volatile.exists()
    assert (tmp_path / "place" / "d" / "b").read_text() == "new\n"


@pytest.mark.spec("EXEC-8")
async def test_what_was_left_for_later_is_known_to_be_whole(tmp_path, flushes):
    async with opened(tmp_path) as fs:
        result = await fs.exec(shell="echo new > a", publish="manual").result()
        assert result.work_id is not None
    assert len(flushes) == 1
    assert not list((tmp_path / "state").glob(MARKS))
