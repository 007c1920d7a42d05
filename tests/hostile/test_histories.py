"""What is put back in a directory stays in it, and nothing is changed that cannot be put back."""

import pytest

from tests.hostile import histories

pytestmark = [pytest.mark.hostile, pytest.mark.spec("DISK-8")]

CONTAINMENTS = pytest.mark.parametrize("containment", ["kernel", "walk"])


@CONTAINMENTS
def test_a_link_in_the_way_of_what_is_put_back(walled, containment):
    walled(histories.link_in_the_way, containment)


def test_a_link_in_the_way_leads_a_careless_program_outside(walled_as):
    assert walled_as("user")(histories.link_in_the_way_control)


@CONTAINMENTS
def test_a_live_attacker(walled_as, containment):
    counts = walled_as("root")(histories.raced, 200, containment)
    assert counts["swaps"] > 100
    assert counts["undone"] + counts["restored"] > 0
    assert counts["conflicts"] + counts["refused"] > 0


def test_a_live_attacker_is_one(walled_as):
    assert walled_as("root")(histories.raced_control, 20_000)


@pytest.mark.spec("ERR-3")
def test_a_full_state_changes_nothing(walled):
    walled(histories.state_full)
