"""kill -9, compare-and-swap and edits by many processes, in the sizes of continuous integration."""

import pytest

from tests.hostile import crash, inside

pytestmark = pytest.mark.hostile

KILLS = 30
SEED = 1


@pytest.mark.spec("DISK-4", "DISK-9", "WRITE-3")
def test_kill_at_random_instants(walled_as):
    result = walled_as("root")(crash.run, KILLS, SEED, timeout_s=110)
    assert crash.faults_of(result) == []
    assert result["operations"] > KILLS


@pytest.mark.spec("DISK-6")
def test_compare_and_swap_by_eight_processes(walled_as):
    total = walled_as("root")(inside.apart, crash.increments, 8, 200, timeout_s=110)
    assert total == 1_600


@pytest.mark.spec("DISK-6", "EDIT-4")
def test_parallel_edits_lose_nothing(walled_as):
    lines = walled_as("root")(inside.apart, crash.parallel_edits, 8, 25, timeout_s=110)
    assert lines == [f"line {number}: 25." for number in range(8)]


@pytest.mark.spec("WRITE-1", "WRITE-6")
def test_parallel_appends_lose_nothing(walled_as):
    lines = walled_as("root")(inside.apart, crash.parallel_appends, 4, 100, timeout_s=110)
    assert sorted(lines) == sorted(f"{n}-{step}" for n in range(4) for step in range(100))


@pytest.mark.spec("DISK-6")
def test_foreign_writer_is_never_overwritten(walled_as):
    result = walled_as("root")(inside.apart, crash.foreign_writer, 400, timeout_s=110)
    assert result["lost"] == 0
    assert result["descended"] > 0, "the two never met, so nothing was proved"
