"""Whoever takes back what an agent did while the disk gets full loses nothing, and is told."""

import pytest

from tests.hostile import full_disks

pytestmark = [
    pytest.mark.hostile,
    pytest.mark.spec("RUN-3", "REVIEW-1", "REVIEW-3", "ERR-3", "AUDIT-4"),
]

STEP = 24
"""Pages between two amounts of room: with 1 there are some hundreds of them."""


@pytest.mark.parametrize("act", full_disks.ACTS)
@pytest.mark.parametrize("full", ["tree", "state", "both"])
@pytest.mark.parametrize("kind", ["directory", "volume"])
def test_a_disk_that_gets_full_while_it_is_taken_back(walled_as, kind, full, act):
    faults, tried = walled_as("root")(full_disks.swept, kind, full, act, STEP)
    assert faults == []
    assert tried > 1, "there was room for all of it from the beginning"
