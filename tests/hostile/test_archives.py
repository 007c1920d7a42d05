"""Archives that attack: refused whole, with nothing made, nothing left and nothing touched."""

import pytest

from tests.hostile import archives

pytestmark = [pytest.mark.hostile, pytest.mark.spec("ARCH-1")]

NAMES = sorted(archives.ATTACKS)

FORMATS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "zip")


@pytest.mark.parametrize("who", ["root", "user", "bare"])
@pytest.mark.parametrize("name", NAMES)
def test_attack(walled_as, name, who):
    walled_as(who)(archives.attacked, name)


@pytest.mark.parametrize("name", NAMES)
def test_control(walled_as, name):
    """Each attack succeeds on a careless program, or says why there is nothing to gain."""
    walled_as("root")(archives.control, name)


def test_bombs(walled):
    walled(archives.bombs)


def test_bombs_are_bombs(walled_as):
    walled_as("user")(archives.bombs_are_bombs)


@pytest.mark.parametrize("known", FORMATS)
def test_cut_at_every_byte_and_damaged_anywhere(walled_as, known):
    counts = walled_as("user")(archives.damaged, known, 250, 1)
    assert counts["refused"] > 0


@pytest.mark.parametrize("containment", ["kernel", "walk"])
def test_a_live_attacker(walled_as, containment):
    counts = walled_as("root")(archives.raced, 300, containment)
    assert counts["swaps"] > 100
    assert counts.get("internal_error", 0) == 0


def test_a_live_attacker_is_one(walled_as):
    assert walled_as("root")(archives.raced_control, 20_000)


@pytest.mark.spec("DISK-4")
def test_killed_with_everything_staged(walled):
    walled(archives.killed)
