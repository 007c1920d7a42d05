"""kill -9, compare-and-swap and edits by many processes, in the sizes of continuous integration."""

import copy

import pytest

from tests.hostile import crash, crash_volume, inside

pytestmark = pytest.mark.hostile

KILLS = 30
SEED = 1


@pytest.mark.spec("DISK-4", "DISK-9", "WRITE-3")
def test_kill_at_random_instants(walled_as):
    result = walled_as("root")(crash.run, KILLS, SEED)
    assert crash.faults_of(result) == []
    assert result["operations"] > KILLS


@pytest.mark.spec("DISK-6")
def test_compare_and_swap_by_eight_processes(walled_as):
    total = walled_as("root")(inside.apart, crash.increments, 8, 200)
    assert total == 1_600


@pytest.mark.spec("DISK-6", "EDIT-4")
def test_parallel_edits_lose_nothing(walled_as):
    lines = walled_as("root")(inside.apart, crash.parallel_edits, 8, 25)
    assert lines == [f"line {number}: 25." for number in range(8)]


@pytest.mark.spec("WRITE-1", "WRITE-6")
def test_parallel_appends_lose_nothing(walled_as):
    lines = walled_as("root")(inside.apart, crash.parallel_appends, 4, 100)
    assert sorted(lines) == sorted(f"{n}-{step}" for n in range(4) for step in range(100))


@pytest.mark.spec("DISK-6")
def test_foreign_writer_is_never_overwritten(walled_as):
    result = walled_as("root")(inside.apart, crash.foreign_writer, 400)
    assert result["lost"] == 0
    assert result["descended"] > 0, "the two never met, so nothing was proved"


@pytest.mark.spec("VOL-3", "VOL-4", "VOL-9")
def test_writers_of_a_volume_are_killed_at_random_instants(walled_as):
    result = walled_as("root")(crash_volume.run, KILLS, SEED)
    assert result["faults"] == []
    assert result["operations"] > KILLS


def test_whatever_was_lost_or_torn_would_be_noticed():
    """The control: what the comparison is there for."""
    record = crash_volume.Record()
    record.take(
        "begin d/doc 1\ndone d/doc 1\nbegin d/doc 2\nbegin d/log 3\ndone d/log 3\n"
        "try counter 1\ndid counter 1\ntry counter 2\nbegin d/new/4 4\ndone d/new/4"
    )
    whole = {"counter": 2, "d/doc": 2, "d/new/4": 4}

    def found(states, logs=None, **wrong):
        kept = {"problems": [], "unnamed": 3, "left": 0} | wrong
        seen = crash_volume.Seen(dict(states), logs or {"d/log": [3]}, **kept)
        return copy.deepcopy(record).compare(seen)

    assert found(whole) == []
    assert found(whole | {"d/doc": 1, "counter": 1}) == []
    assert found({"counter": 2, "d/new/4": 4}) != [], "a lost file"
    assert found(whole | {"d/doc": None}) != [], "a torn file"
    assert found(whole | {"d/doc": 7}) != [], "something nobody wrote"
    assert found(whole | {"counter": 0}) != [], "a lost swap"
    assert found(whole, {"d/log": []}) != [], "a lost record"
    assert found(whole, {"d/log": [3, 9]}) != [], "a record nobody wrote"
    assert found(whole, left=1) != [], "a blob that gc left"
    assert found(whole, problems=["damage"]) != []
