"""Mounts beside each other, under attack."""

import pytest

from tests.hostile import joined_trees

pytestmark = pytest.mark.hostile

CONTAINMENTS = pytest.mark.parametrize("containment", ["kernel", "walk"])


@CONTAINMENTS
@pytest.mark.spec("OVER-2")
def test_no_link_leads_from_one_mount_into_another(walled, containment):
    counts = walled(joined_trees.links, containment)
    assert counts.keys() == {"refused"}, counts


@pytest.mark.spec("OVER-2")
def test_links_lead_plain_calls_into_the_other_mount(walled_as):
    assert walled_as("user")(joined_trees.links_control) == ["link", "absolute", "up", "up-twice"]


@CONTAINMENTS
@pytest.mark.parametrize("target", ["../books", "../outside", "../books/box"])
@pytest.mark.spec("OVER-2", "DISK-3")
def test_a_live_attacker_between_mounts(walled_as, containment, target):
    counts = walled_as("root")(joined_trees.raced, 1_200, containment, target)
    assert counts["swaps"] > 100
    assert counts["refused"] > 0
    assert counts["read"] + counts["write"] + counts["copy out"] > 0


@pytest.mark.spec("OVER-2")
def test_a_live_attacker_between_mounts_is_one(walled_as):
    assert walled_as("root")(joined_trees.raced_control, 50_000)
