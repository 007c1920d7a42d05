"""Hostile names and links against a volume, in the size of continuous integration."""

import pytest

from tests.hostile import inside, volume

pytestmark = pytest.mark.hostile

PARTS = 6
"""One case in so many is tried in a run of the tests; by hand all of them are."""


@pytest.mark.spec("PATH-3", "PATH-7", "LINK-2", "LINK-3", "VOL-12")
def test_no_hostile_name_or_link_means_more_on_a_volume_than_in_memory(walled_as):
    result = walled_as("root")(inside.apart, volume.attack_volume, 1, PARTS)
    assert result["faults"] == []
    assert result["control"], "the plain call did not reach the secret: nothing was proved"
    assert result["cases"] > 200
