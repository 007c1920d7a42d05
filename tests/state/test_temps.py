"""Temporary roots: private while they live, gone when their owner is, however that went."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading

import pytest

from bailiwick.errors import PermissionDenied, QuotaExceeded
from bailiwick.state import temps
from bailiwick.state.temps import TempRoots

pytestmark = pytest.mark.spec("TEMP-1")


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "state" / "temp"


def opened(directory):
    clock = Clock()
    return TempRoots(str(directory), clock), clock


def create(roots, seconds, owner="user:x", most=1_000):
    return roots.create(seconds, owner=owner, most=most)


def names(directory):
    return sorted(os.listdir(directory))


def test_a_temporary_root_is_private(directory):
    roots, _ = opened(directory)
    place = create(roots, 60)
    try:
        for path in (directory, place.path):
            status = os.stat(path)
            assert stat.S_IMODE(status.st_mode) == 0o700
            assert status.st_uid == os.geteuid()
        assert os.listdir(place.path) == []
    finally:
        place.close()
    assert names(directory) == []


def test_the_umask_does_not_matter(directory):
    roots, _ = opened(directory)
    before = os.umask(0o277)
    try:
        place = create(roots, 60)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(place.path).st_mode) == 0o700
    place.close()


def test_closing_removes_everything_and_twice_does_nothing(directory):
    roots, _ = opened(directory)
    place = create(roots, 60)
    os.makedirs(f"{place.path}/a/b")
    with open(f"{place.path}/a/b/f", "w") as file:
        file.write("x")
    place.close()
    place.close()
    assert names(directory) == []


def test_two_places_are_apart(directory):
    roots, _ = opened(directory)
    one, other = create(roots, 60), create(roots, 60)
    assert one.path != other.path
    one.close()
    assert names(directory) == [other.name]
    roots.close()
    assert names(directory) == []


def test_what_lives_is_not_swept(directory):
    roots, _ = opened(directory)
    others, _ = opened(directory)
    place = create(roots, 60)
    assert roots.sweep() == 0
    assert others.sweep() == 0
    assert names(directory) == [place.name]
    roots.close()


def test_time_is_up(directory):
    roots, clock = opened(directory)
    short, long = create(roots, 10), create(roots, 100)
    clock.now += 11
    assert roots.sweep() == 1
    assert names(directory) == [long.name]
    short.close()
    clock.now += 100
    assert roots.sweep() == 1
    assert names(directory) == []


def test_another_process_leaves_alone_what_is_over_but_alive(directory):
    roots, clock = opened(directory)
    others, late = opened(directory)
    place = create(roots, 10)
    clock.now += 11
    late.now += 11
    assert others.sweep() == 0
    assert names(directory) == [place.name]
    roots.close()


OWNER = """
import sys, threading, time
from bailiwick.state.temps import TempRoots
place = TempRoots(sys.argv[1], time.monotonic).create(3600, owner="user:x", most=1)
open(place.path + "/file", "w").close()
print(place.path, flush=True)
threading.Event().wait()
"""


def test_a_killed_owner_is_cleared_up_after(directory):
    roots, _ = opened(directory)
    mine = create(roots, 60)
    command = [sys.executable, "-c", OWNER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            path = owner.stdout.readline().strip()
            assert os.path.exists(f"{path}/file")
            assert roots.sweep() == 0
        finally:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
    assert os.path.exists(path)
    assert roots.sweep() == 1
    assert names(directory) == [mine.name]
    roots.close()


def test_a_link_in_a_dead_root_is_removed_and_not_followed(directory, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("kept")
    roots, _ = opened(directory)
    place = create(roots, 60)
    os.symlink(outside, f"{place.path}/link")
    os.mkdir(f"{place.path}/d")
    os.symlink(outside / "secret", f"{place.path}/d/file")
    place.close()
    assert names(directory) == []
    assert (outside / "secret").read_text() == "kept"


def test_only_what_looks_like_ours_is_swept(directory, tmp_path):
    roots, _ = opened(directory)
    create(roots, 60).close()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("kept")
    (directory / "notes").mkdir()
    (directory / ("a" * 32)).symlink_to(outside)
    (directory / ("b" * 32)).write_text("a file")
    assert roots.sweep() == 0
    assert (outside / "secret").read_text() == "kept"
    assert "notes" in names(directory)


@pytest.mark.slow
def test_deep_trees_go_with_few_descriptors(directory):
    roots, _ = opened(directory)
    place = create(roots, 60)
    levels = 3_000
    current = os.open(place.path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=current)
        inner = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = inner
    os.close(current)
    place.close()
    assert names(directory) == []


def test_a_directory_without_rights_goes_too(directory):
    roots, _ = opened(directory)
    place = create(roots, 60)
    os.makedirs(f"{place.path}/a/b")
    os.chmod(f"{place.path}/a", 0)
    place.close()
    assert names(directory) == []


REMOVING = """
import os, sys
from bailiwick.state import temps
temps._remove(os.open(sys.argv[1], os.O_RDONLY), "shut")
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing takes capabilities away")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has them")
def test_a_directory_without_rights_goes_for_root_without_its_powers(tmp_path):
    (tmp_path / "shut" / "in").mkdir(parents=True)
    for each in (tmp_path / "shut" / "in", tmp_path / "shut"):
        each.chmod(0)
    without = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
    subprocess.run([*without, sys.executable, "-c", REMOVING, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == []


def test_a_place_that_others_can_enter_is_refused(directory):
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    roots, _ = opened(directory)
    with pytest.raises(PermissionDenied):
        create(roots, 60)


def test_sweeps_and_creations_at_once(directory):
    """A new place is never taken for a dead one's."""
    roots, _ = opened(directory)
    sweeper, _ = opened(directory)
    create(roots, 60).close()
    done = threading.Event()

    def sweep():
        while not done.is_set():
            sweeper.sweep()

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        places = [create(roots, 60) for _ in range(200)]
        assert all(os.path.isdir(place.path) for place in places)
    finally:
        done.set()
        thread.join()
    assert all(os.path.isdir(place.path) for place in places)
    roots.close()
    assert names(directory) == []


def test_a_sweep_that_wins_the_race_makes_another_one(directory, monkeypatch):
    """Seen between its making and its lock, a new directory is theirs to remove."""
    roots, _ = opened(directory)
    sweeper, _ = opened(directory)
    real, raced = temps._try_lock, []

    def lock_after_a_sweep(fd):
        if not raced:
            raced.append(True)
            assert sweeper.sweep() == 1
        return real(fd)

    create(roots, 60).close()
    monkeypatch.setattr(temps, "_try_lock", lock_after_a_sweep)
    place = create(roots, 60)
    assert raced
    assert names(directory) == [place.name]
    place.close()


def test_a_failed_creation_holds_nothing(directory, monkeypatch):
    roots, _ = opened(directory)
    create(roots, 60).close()

    def fail(fd):
        raise OSError(5, "broken")

    monkeypatch.setattr(temps, "_try_lock", fail)
    with pytest.raises(OSError, match="machine failed"):
        create(roots, 60)
    monkeypatch.undo()
    assert roots.sweep() == 1
    assert names(directory) == []


@pytest.mark.spec("HTTP-12")
def test_an_owner_has_so_many_at_a_time(directory, monkeypatch):
    roots, clock = opened(directory)
    places = [create(roots, 60, most=3) for _ in range(3)]
    with pytest.raises(QuotaExceeded) as told:
        create(roots, 60, most=3)
    assert told.value.details["limit"] == 3
    assert told.value.hint
    other = create(roots, 60, "user:y", most=3)
    places.pop().close()
    # What could not be made is not counted.
    with monkeypatch.context() as failing:
        failing.setattr(temps, "_make_locked", lambda parent: os.open("/nowhere/at/all", 0))
        for _ in range(3):
            with pytest.raises(OSError, match="no such file"):
                create(roots, 60, most=3)
    create(roots, 30, most=3)
    clock.now += 45
    assert roots.sweep() == 1
    create(roots, 60, most=3)
    with pytest.raises(QuotaExceeded):
        create(roots, 60, most=3)
    other.close()
    roots.close()
    assert names(directory) == []
    assert not roots._owned
