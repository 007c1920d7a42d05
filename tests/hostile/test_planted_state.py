"""What is kept for a user is believed where it is theirs, and nowhere else."""

import pytest

from tests.hostile import planted_state

pytestmark = pytest.mark.hostile


@pytest.mark.spec("PAST-1")
def test_what_a_stranger_has_begun_is_not_finished(walled_as):
    walled = walled_as("operator")
    assert walled(planted_state.run, None) == ["planted"], "what is one's own is finished"
    assert walled(planted_state.run, planted_state.STRANGER) == []
