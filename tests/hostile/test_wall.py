"""The wall itself: without it nothing here may run."""

import os

import pytest

from tests.hostile import inside, messages

pytestmark = pytest.mark.hostile


def try_to_leave():
    """What someone behind the wall would try."""
    attempts = {
        "write beside the arena": lambda: os.mkdir(f"{inside.arena()}-beside"),
        "write in the checkout": lambda: os.mkdir(f"{inside.CHECKOUT}/planted"),
        "write a setting of the kernel": lambda: os.open("/proc/sys/kernel/hostname", os.O_WRONLY),
        "make a node": lambda: os.mknod("/dev/planted"),
        "signal the test process": lambda: os.kill(os.getppid() or 4_194_304, 0),
    }
    succeeded = []
    for what, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        succeeded.append(what)
    return succeeded


def find_the_hole():
    """With another arena than the real one, everything in the real one is a hole."""
    try:
        inside.prove_the_wall(f"{inside.arena()}/full/root", final=True)
    except inside.WallHasAHole as hole:
        return str(hole)
    return ""


def fail_on_purpose():
    raise AssertionError("as it should")


def skip_on_purpose():
    raise messages.Skip("as it should")


@pytest.mark.parametrize("who", ["root", "user", "operator"])
def test_nothing_leaves(walled_as, who):
    assert walled_as(who)(try_to_leave) == []


def test_skip_behind_the_wall_is_a_skip_here(walled):
    with pytest.raises(pytest.skip.Exception, match="as it should"):
        walled(skip_on_purpose)


def test_hole_is_found(walled):
    assert "is mounted writable" in walled(find_the_hole)


def test_failure_behind_the_wall_is_a_failure_here(walled):
    with pytest.raises(pytest.fail.Exception, match="as it should"):
        walled(fail_on_purpose)


def test_identities_are_what_they_say(walled_as):
    assert walled_as("root")(os.getuid) == 0
    assert walled_as("operator")(os.getuid) == 0
    assert walled_as("user")(os.getuid) != 0
