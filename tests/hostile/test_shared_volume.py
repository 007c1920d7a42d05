"""An overlay over a volume, raced by others who write to the volume."""

import pytest

from tests.hostile import shared_volume

pytestmark = [pytest.mark.hostile, pytest.mark.spec("OVER-1")]


@pytest.mark.timeout(180)
def test_what_others_write_to_the_volume_is_never_lost(walled):
    counts = walled(shared_volume.overlay_applied, 150)
    assert counts["applied"] > 0
    assert counts["tries"] > 5
    assert counts["moves"] > 0


def test_one_who_writes_back_what_was_read_loses_it(walled_as):
    assert walled_as("user")(shared_volume.plain_writes_control, 60)
