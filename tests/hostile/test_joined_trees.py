"""Mounts beside each other and an overlay over a directory, under attack."""

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


@CONTAINMENTS
@pytest.mark.spec("OVER-2", "DISK-3")
def test_a_live_attacker_in_a_mounted_scope(walled_as, containment):
    counts = walled_as("root")(joined_trees.scope_raced, 1_200, containment, "../books")
    assert counts["swaps"] > 100
    assert counts["refused"] > 0
    assert counts["read"] + counts["write"] + counts["copy out"] > 0


@pytest.mark.spec("OVER-2")
def test_a_live_attacker_between_mounts_is_one(walled_as):
    assert walled_as("root")(joined_trees.raced_control, 50_000)


@pytest.mark.parametrize("containment", ["kernel", "walk", "server"])
@pytest.mark.spec("OVER-1", "DISK-3")
def test_a_live_attacker_beneath_an_overlay(walled_as, containment):
    counts = walled_as("root")(joined_trees.overlay_raced, 450, containment)
    assert counts["swaps"] > 100
    assert counts["done"] > 0
    assert counts["refused"] > 0


@pytest.mark.spec("OVER-1")
def test_a_live_attacker_beneath_an_overlay_is_one(walled_as):
    assert walled_as("root")(joined_trees.overlay_raced_control, 50_000)


@pytest.mark.spec("OVER-1", "EXEC-4")
def test_a_live_attacker_beneath_an_overlay_in_which_programs_are_run(with_sandboxes):
    counts = with_sandboxes(joined_trees.overlay_programs_raced, 20)
    assert counts["swaps"] > 100
    assert counts["ran"] > 0
    assert counts["applied"] > 0


@pytest.mark.spec("OVER-1")
def test_programs_that_nobody_confines_are_led_outside(with_sandboxes):
    assert with_sandboxes(joined_trees.overlay_programs_control)


@pytest.mark.spec("OVER-1")
def test_a_link_in_the_folder_of_an_overlay(walled):
    walled(joined_trees.state_linked)


@pytest.mark.spec("OVER-1")
def test_a_live_attacker_in_the_folder_of_an_overlay(walled_as):
    counts = walled_as("root")(joined_trees.state_raced, 60)
    assert counts["swaps"] > 50
    assert counts["done"] + counts["refused"] == 60


@pytest.mark.spec("OVER-1")
def test_a_live_attacker_in_the_folder_of_an_overlay_is_one(walled_as):
    assert walled_as("root")(joined_trees.state_raced_control, 50_000)
